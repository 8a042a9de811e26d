# What every target of ours is compiled with. The baseline is x86-64-v2; wider vectors come from Highway's target regions.
set(POLYHEAD_SANITIZE "" CACHE STRING "Sanitizers to build everything with: address,undefined or thread")
option(POLYHEAD_FUZZ "Build for libFuzzer, which comes with clang: what it goes through is instrumented" OFF)

add_library(polyhead_flags INTERFACE)
target_compile_features(polyhead_flags INTERFACE cxx_std_20)
function(polyhead_flag)  # for the C++ compiler; nvcc has options of its own
  foreach(flag ${ARGN})
    target_compile_options(polyhead_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${flag}>)
  endforeach()
endfunction()
polyhead_flag(-Wall -Wextra -Wpedantic -Wconversion -Wno-sign-conversion)
# Where files are compiled together, a name of another file is no shadow.
polyhead_flag($<IF:$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>,-Wshadow=local,-Wshadow>)
if(POLYHEAD_DEVELOPER AND NOT POLYHEAD_FUZZ)
  polyhead_flag(-Werror)  # for us alone: another compiler may warn of more
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  # False alarms from inside std::string and std::sort (GCC bug 105651 and its kin).
  polyhead_flag(-Wno-restrict -Wno-array-bounds)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  polyhead_flag(-Wno-dangling-reference)  # takes views, which refer to what lives elsewhere, for temporaries
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  polyhead_flag(-march=x86-64-v2)
endif()
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()
if(POLYHEAD_SANITIZE)
  # Little optimisation, and line numbers alone: compiling takes twice as long otherwise. Sanitized code confuses GCC about
  # what is initialised.
  add_compile_options(-Og -g1 -Wno-maybe-uninitialized -fsanitize=${POLYHEAD_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${POLYHEAD_SANITIZE})
  if(POLYHEAD_SANITIZE MATCHES "undefined" AND NOT POLYHEAD_FUZZ)
    # These take a fifth of the compiler's time. AddressSanitizer stops by itself where a null pointer is used or an object
    # ends, and hardly any object here has a vtable. Alignment is checked where polyhead_checks_alignment says so.
    add_compile_options(-fno-sanitize=null,object-size,vptr,alignment)
  endif()
endif()
if(POLYHEAD_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link -fsized-deallocation -Wno-unknown-warning-option)
  add_compile_definitions(HWY_COMPILE_ONLY_STATIC)  # one instruction set will do
endif()
function(polyhead_checks_alignment target)  # where bytes of a file, or of a caller, are taken for numbers
  if(POLYHEAD_SANITIZE MATCHES "undefined")
    target_compile_options(${target} PRIVATE -fsanitize=alignment)
  endif()
endfunction()
function(polyhead_hot target)  # where the tests of a sanitized build spend their time
  if(POLYHEAD_SANITIZE)
    target_compile_options(${target} PRIVATE ${ARGN})
  endif()
endfunction()
# Compiles a target's files sixteen at a time, except in a debug build, which is for editing: the headers they share take
# longest. Files named after the target stay apart: they have names that another file has too, or include CLI11.
function(polyhead_together target)
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
    get_target_property(kernels ${target} SOURCES)
    list(FILTER kernels INCLUDE REGEX "\\.cu$")  # which CMake from 3.31 on would put together, too
    set_source_files_properties(${kernels} ${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# Nothing is visible outside a shared library but what include/polyhead declares: its headers open the namespace so.
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
