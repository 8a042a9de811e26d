# cmake -D BUILD= -D WORK= -D KIND=static|shared -D CXX= -D PKG_CONFIG= -P consumer.cmake
# Installs BUILD below WORK, moves the installed tree to a folder with a space in its name, and builds and runs a program against
# it in both ways.
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/installed)
set(moved "${WORK}/moved here")
file(RENAME ${WORK}/installed ${moved})
file(COPY ${CMAKE_CURRENT_LIST_DIR}/consumer/ DESTINATION ${WORK}/source)

# Without CUDA's toolkit, which the library may have been built with.
run(${CMAKE_COMMAND} -S ${WORK}/source -D CMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON -B ${WORK}/build -G Ninja
  -D CMAKE_CXX_COMPILER=${CXX} "-D CMAKE_PREFIX_PATH=${moved}")
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/consumer)

file(GLOB_RECURSE pc ${moved}/polyhead.pc)
get_filename_component(pc_dir "${pc}" DIRECTORY)
get_filename_component(lib_dir "${pc_dir}" DIRECTORY)
set(ENV{PKG_CONFIG_PATH} ${pc_dir})
if(NOT KIND STREQUAL static)
  set(ENV{LD_LIBRARY_PATH} ${lib_dir})
  file(GLOB versioned ${lib_dir}/libpolyhead.so.[0-9]*)
  if(NOT versioned)
    message(FATAL_ERROR "no version in the name of the shared library")
  endif()
endif()
run(${PKG_CONFIG} --validate polyhead)
execute_process(COMMAND ${PKG_CONFIG} --cflags --libs polyhead
  OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(flags UNIX_COMMAND "${flags}")
run(${CXX} -std=c++20 ${WORK}/source/consumer.cpp ${flags} -o ${WORK}/consumer)
run(${WORK}/consumer)
execute_process(COMMAND ${CXX} -std=c++17 ${WORK}/source/consumer.cpp ${flags} -o ${WORK}/consumer_17
  ERROR_VARIABLE refusal RESULT_VARIABLE code)
string(FIND "${refusal}" "error:" first)
string(FIND "${refusal}" "error: #error \"polyhead needs C++20" ours)
if(code EQUAL 0 OR ours EQUAL -1 OR NOT first EQUAL ours)
  message(FATAL_ERROR "a program in C++17 is not told first that polyhead needs C++20:\n${refusal}")
endif()

if(EXISTS ${pc_dir}/polyhead_c.pc)
  execute_process(COMMAND ${PKG_CONFIG} --cflags --libs polyhead_c
    OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  run(cc -std=c11 ${CMAKE_CURRENT_LIST_DIR}/../../examples/attention.c ${flags} -o ${WORK}/consumer_c)
  set(ENV{LD_LIBRARY_PATH} ${lib_dir})
  run(${WORK}/consumer_c)
endif()

if(EXISTS ${BUILD}/cli/polyhead)
  run(${moved}/bin/polyhead --version)
  foreach(file share/man/man1/polyhead.1 share/bash-completion/completions/polyhead)
    if(NOT EXISTS ${moved}/${file})
      message(FATAL_ERROR "${file} is not installed")
    endif()
  endforeach()
endif()
