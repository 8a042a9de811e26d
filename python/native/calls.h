// The library's functions for models and text, with the parameters that polyhead_c.h gives them.
#pragma once

#include "native/objects.h"

namespace polyhead::native {

// Each has its name in C without polyhead_, and takes for
//   a number           one of Python's;
//   a polyhead_tensor  an array of NumPy's;
//   another pointer    None, bytes, an array of NumPy's, which is its memory, or an address.
extern PyMethodDef calls[];

}  // namespace polyhead::native
