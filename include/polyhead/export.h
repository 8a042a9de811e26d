// What these headers declare can be linked against; everything else in the shared library is hidden.
#pragma once

#define POLYHEAD_PUBLIC [[gnu::visibility("default")]]
