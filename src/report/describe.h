// A head of the page, from what was measured about it.
#pragma once

#include "heads/roles.h"
#include "report/page.h"

namespace polyhead::report {

// Its role and its scores in all roles; its statistics, if it was surveyed.
Head describe(const heads::HeadRoles& roles, const heads::HeadSurvey* survey);

}  // namespace polyhead::report
