// The structs of polyhead_c.h that models and text take and fill in, as types of NumPy's: laid out by the compiler.
#pragma once

#include "native/objects.h"

namespace polyhead::native {

// By the name of the struct without polyhead_: what numpy.dtype() takes, with the names of C. Pointers are u8.
Ref records();

}  // namespace polyhead::native
