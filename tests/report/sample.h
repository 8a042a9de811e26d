// A page with made-up attention, for tests of the report and of the viewer.
#pragma once

#include "report/page.h"

namespace polyhead::report {

// Every kind of figure, two models (the second with pruned heads and a cross-attention sample), and texts that would be
// markup if anybody let them.
Page sample_page();

// A page in which every text, of whatever kind, is a tag, <b class=bad onclick=bad=1>cell</b>, and what is behind it.
Page hostile_page(const std::string& behind = "");

}  // namespace polyhead::report
