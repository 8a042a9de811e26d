# cmake -D ROOT= -D BUILD= -P fetcher.cmake
# A program takes polyhead in by FetchContent on a machine that has neither Highway nor pkg-config; what would come from the network
# lies in .portable (tools/install-packages portable). Compiles the library, which takes minutes: part of make check.
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run(${CMAKE_COMMAND} -S ${ROOT}/tests/house/fetcher -B ${BUILD} -G Ninja -D POLYHEAD=${ROOT} -D POLYHEAD_CUDA=OFF
  -D CMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON -D FETCHCONTENT_SOURCE_DIR_HIGHWAY=${ROOT}/.portable/highway
  -D FETCHCONTENT_SOURCE_DIR_UTF8PROC=${ROOT}/.portable/utf8proc)
run(${CMAKE_COMMAND} --build ${BUILD} --target fetcher)
run(${BUILD}/fetcher)
# Without it, the message says what to install.
execute_process(COMMAND ${CMAKE_COMMAND} -S ${ROOT}/tests/house/fetcher -B ${BUILD}/alone -G Ninja -D POLYHEAD=${ROOT}
  -D POLYHEAD_CUDA=OFF -D CMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON -D FETCHCONTENT_FULLY_DISCONNECTED=ON
  OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE code)
if(NOT said MATCHES "highway: not found \\(on Debian: apt install libhwy-dev\\)")
  message(FATAL_ERROR "a missing Highway is not named:\n${said}")
endif()
