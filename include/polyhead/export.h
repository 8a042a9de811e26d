// What these headers declare can be linked against; everything else in the shared library is hidden.
#pragma once

#define POLYHEAD_PUBLIC [[gnu::visibility("default")]]

#if __cplusplus < 202002L
#error "polyhead needs C++20: compile with -std=c++20 or later (in CMake: target_compile_features(... cxx_std_20))"
#endif
