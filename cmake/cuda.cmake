# CUDA, where there is a compiler for it: nvcc on the PATH, in its usual place, or from PyPI in .cuda (tools/install-packages
# cuda), version 13 or later. POLYHEAD_CUDA=OFF does without. Nothing of it is linked but the static runtime,
# which is installed with the static library: who links that needs no CUDA.
set(POLYHEAD_CUDA ON CACHE STRING "Build the kernels for NVIDIA GPUs if nvcc is found: ON, OFF, or REQUIRED")

set(POLYHEAD_HAS_CUDA OFF)
if(POLYHEAD_CUDA AND NOT POLYHEAD_SANITIZE)  # nvcc does not pass the sanitizers' flags on
  find_program(POLYHEAD_NVCC nvcc HINTS ENV CUDACXX PATHS /usr/local/cuda/bin ${PROJECT_SOURCE_DIR}/.cuda/nvidia/cu13/bin)
  mark_as_advanced(POLYHEAD_NVCC)
endif()
set(nvcc_version 0)
if(POLYHEAD_NVCC)
  execute_process(COMMAND ${POLYHEAD_NVCC} --version OUTPUT_VARIABLE text ERROR_QUIET)
  string(REGEX MATCH "release ([0-9.]+)" found "${text}")
  set(nvcc_version ${CMAKE_MATCH_1})
endif()
if(nvcc_version VERSION_GREATER_EQUAL 13 AND POLYHEAD_CUDA AND NOT POLYHEAD_SANITIZE)  # older ones refuse our compiler, or C++20
  set(CMAKE_CUDA_COMPILER ${POLYHEAD_NVCC})
  set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
  set(CMAKE_CUDA_ARCHITECTURES 80-virtual)
  enable_language(CUDA)
  find_package(CUDAToolkit 13 QUIET)
  if(TARGET CUDA::cudart_static)
    set(POLYHEAD_HAS_CUDA ON)
    get_target_property(POLYHEAD_CUDART CUDA::cudart_static IMPORTED_LOCATION)  # installed beside the static library
  endif()
endif()
if(POLYHEAD_HAS_CUDA)
  message(STATUS "CUDA: ${POLYHEAD_NVCC}, ${CMAKE_CUDA_COMPILER_VERSION}")
elseif(POLYHEAD_CUDA STREQUAL REQUIRED)
  message(FATAL_ERROR "expected nvcc 13 or later for POLYHEAD_CUDA=REQUIRED, found none; tools/install-packages cuda fetches it")
else()
  message(STATUS "CUDA: no; a build without GPU support")
endif()
