# What the library itself is compiled with: Highway, utf8proc, nlohmann-json and xxHash's header. They are the system's; what it does not have
# is fetched by FetchContent, of the versions that Debian 12 has. Without a network, name a folder with the sources: with
# FETCHCONTENT_SOURCE_DIR_HIGHWAY or _UTF8PROC (which go before the system's), _NLOHMANN_JSON or _XXHASH.
include(FetchContent)
find_package(Threads REQUIRED)
find_package(PkgConfig)

function(polyhead_fetch name package url hash)  # sets ${name}_SOURCE_DIR
  string(TOUPPER ${name} upper)
  if(NOT FETCHCONTENT_SOURCE_DIR_${upper})
    message(STATUS "${name}: not found (on Debian: apt install ${package}); fetching ${url}")
  endif()
  FetchContent_Declare(${name} URL ${url} URL_HASH SHA256=${hash} DOWNLOAD_EXTRACT_TIMESTAMP OFF
    SOURCE_SUBDIR sources-alone)  # a folder that is not there: their build is not run
  FetchContent_MakeAvailable(${name})
  set(${name}_SOURCE_DIR ${${name}_SOURCE_DIR} PARENT_SCOPE)
endfunction()

# A fetched Highway becomes part of our library, which then needs no other at link time.
if(PKG_CONFIG_FOUND AND NOT FETCHCONTENT_SOURCE_DIR_HIGHWAY)
  pkg_check_modules(HWY QUIET IMPORTED_TARGET libhwy)
endif()
set(POLYHEAD_HIGHWAY PkgConfig::HWY)
if(NOT TARGET PkgConfig::HWY)
  polyhead_fetch(highway libhwy-dev https://github.com/google/highway/archive/refs/tags/1.0.3.tar.gz
    566fc77315878473d9a6bd815f7de78c73734acdcb745c3dde8579560ac5440e)
  file(GLOB highway_files ${highway_SOURCE_DIR}/hwy/targets.cc ${highway_SOURCE_DIR}/hwy/abort.cc)  # the second from 1.3 on
  add_library(polyhead_highway OBJECT ${highway_files})
  target_compile_features(polyhead_highway PUBLIC cxx_std_17)
  target_include_directories(polyhead_highway SYSTEM PUBLIC ${highway_SOURCE_DIR})
  set(POLYHEAD_HIGHWAY polyhead_highway)
endif()

# So does a fetched utf8proc, which is one file in C.
if(PKG_CONFIG_FOUND AND NOT FETCHCONTENT_SOURCE_DIR_UTF8PROC)
  pkg_check_modules(UTF8PROC QUIET IMPORTED_TARGET libutf8proc)
endif()
set(POLYHEAD_UTF8PROC PkgConfig::UTF8PROC)
if(NOT TARGET PkgConfig::UTF8PROC)
  polyhead_fetch(utf8proc libutf8proc-dev https://github.com/JuliaStrings/utf8proc/archive/refs/tags/v2.8.0.tar.gz
    a0a60a79fe6f6d54e7d411facbfcc867a6e198608f2cd992490e46f04b1bcecc)
  enable_language(C)
  add_library(polyhead_utf8proc OBJECT ${utf8proc_SOURCE_DIR}/utf8proc.c)
  target_compile_definitions(polyhead_utf8proc PUBLIC UTF8PROC_STATIC)
  target_include_directories(polyhead_utf8proc SYSTEM PUBLIC ${utf8proc_SOURCE_DIR})
  set(POLYHEAD_UTF8PROC polyhead_utf8proc)
endif()

find_package(nlohmann_json QUIET)
if(NOT nlohmann_json_FOUND)
  polyhead_fetch(nlohmann_json nlohmann-json3-dev https://github.com/nlohmann/json/releases/download/v3.11.3/json.tar.xz
    d6c65aca6b1ed68e7a182f4757257b107ae403032760ed6ef121c9d55e81757d)
  add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED)
  target_include_directories(nlohmann_json::nlohmann_json SYSTEM INTERFACE ${nlohmann_json_SOURCE_DIR}/include)
endif()

find_path(POLYHEAD_XXHASH xxhash.h)
mark_as_advanced(POLYHEAD_XXHASH)
if(NOT POLYHEAD_XXHASH)
  polyhead_fetch(xxhash libxxhash-dev https://github.com/Cyan4973/xxHash/archive/refs/tags/v0.8.3.tar.gz
    aae608dfe8213dfd05d909a57718ef82f30722c392344583d3f39050c7f29a80)
  set(POLYHEAD_XXHASH ${xxhash_SOURCE_DIR} CACHE PATH "" FORCE)
endif()
