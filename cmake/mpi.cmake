# MPI, where there is one: any that CMake finds, such as Debian's Open MPI (libopenmpi-dev). POLYHEAD_MPI=OFF does without. The
# command alone links it, so that programs which embed the library, wheels and portable packages need none.
set(POLYHEAD_MPI AUTO CACHE STRING "Let the command run on ranks if MPI is found: AUTO, OFF, or REQUIRED")
set_property(CACHE POLYHEAD_MPI PROPERTY STRINGS AUTO OFF REQUIRED)

set(POLYHEAD_HAS_MPI OFF)
# MPI leaves memory behind and races by design: the sanitizers would report little else.
if(POLYHEAD_MPI STREQUAL REQUIRED OR NOT (POLYHEAD_MPI STREQUAL OFF OR POLYHEAD_LIBRARY_ONLY OR POLYHEAD_PORTABLE OR POLYHEAD_SANITIZE OR SKBUILD))
  enable_language(C)  # MPI for C++ would link its bindings of old
  find_package(MPI QUIET COMPONENTS C)
  set(POLYHEAD_HAS_MPI ${MPI_C_FOUND})
endif()
if(POLYHEAD_HAS_MPI)
  message(STATUS "MPI: ${MPI_C_LIBRARIES}")
elseif(POLYHEAD_MPI STREQUAL REQUIRED)
  message(FATAL_ERROR "expected MPI for POLYHEAD_MPI=REQUIRED, found none; on Debian: apt install libopenmpi-dev")
else()
  message(STATUS "MPI: no; a build without ranks")
endif()
