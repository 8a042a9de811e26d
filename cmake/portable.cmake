# POLYHEAD_PORTABLE: binaries that run on every Linux with glibc 2.28 or later, and need nothing else. GCC compiles as ever.
# Libraries of others, and C++'s own, are linked statically, and zig links: it brings the symbols and start files of any glibc,
# where the system's linker has only the system's. `tools/install-packages portable` puts into .portable what Debian's packages
# lack: zig from PyPI, and from Debian's sources Highway, utf8proc and a static libmicrohttpd without TLS.
option(POLYHEAD_PORTABLE "Link everything statically, and against glibc 2.28: make wheel, make package" OFF)
set(POLYHEAD_FMT fmt::fmt)
if(NOT POLYHEAD_PORTABLE)
  return()
endif()
set(portable ${PROJECT_SOURCE_DIR}/.portable)
set(zig ${portable}/venv/bin/python-zig)
if(NOT EXISTS ${zig})
  message(FATAL_ERROR "expected ${zig} for POLYHEAD_PORTABLE, found nothing; tools/install-packages portable fetches it")
endif()
set(FETCHCONTENT_SOURCE_DIR_HIGHWAY ${portable}/highway)
set(FETCHCONTENT_SOURCE_DIR_UTF8PROC ${portable}/utf8proc)
list(PREPEND CMAKE_PREFIX_PATH ${portable}/libmicrohttpd)
set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
set(POLYHEAD_FMT fmt::fmt-header-only)  # Debian has no static one

# GCC's own libraries, except for unwinding, which asks glibc 2.35 where frames are: LLVM's does it with any.
set(static_libraries)
foreach(name libstdc++.a libgcc.a)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${name} OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
  string(APPEND static_libraries " ${path}")
endforeach()
set(link "${zig} cc -target ${CMAKE_SYSTEM_PROCESSOR}-linux-gnu.2.28 <LINK_FLAGS>")
set(inputs "-o <TARGET> <OBJECTS> <LINK_LIBRARIES>${static_libraries} -lunwind -lm -lpthread -ldl -lrt")
set(CMAKE_CXX_LINK_EXECUTABLE "${link} -Wl,-z,nocopyreloc ${inputs}")
set(CMAKE_CXX_CREATE_SHARED_LIBRARY "${link} -shared <SONAME_FLAG><TARGET_SONAME> ${inputs}")
set(CMAKE_CXX_CREATE_SHARED_MODULE "${CMAKE_CXX_CREATE_SHARED_LIBRARY}")
