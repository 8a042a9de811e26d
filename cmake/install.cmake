# install(): what users get. Component Runtime is the command and the shared library, Development the rest.
include(CMakePackageConfigHelpers)

# Paths relative to the .pc file itself, so that an installed tree may be moved.
function(polyhead_install_pc name)
  file(RELATIVE_PATH pc_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
  string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
  file(RELATIVE_PATH lib_from_prefix ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
  file(RELATIVE_PATH include_from_prefix ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
  configure_file(${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in ${name}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT Development)
endfunction()

# A library with its headers, for find_package(polyhead) and pkg-config polyhead. A static one takes its own libraries along.
function(polyhead_install library)
  set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/polyhead)
  install(TARGETS ${library} EXPORT ${library}
    ARCHIVE COMPONENT Development
    LIBRARY COMPONENT Runtime NAMELINK_COMPONENT Development
    FILE_SET HEADERS COMPONENT Development)
  install(EXPORT ${library} NAMESPACE polyhead:: DESTINATION ${package_dir} FILE polyheadTargets.cmake COMPONENT Development)

  # What a program that links it has to link, too.
  get_target_property(library_type ${library} TYPE)
  set(pc_requires)
  set(pc_libs)
  if(library_type STREQUAL STATIC_LIBRARY)
    set(pc_libs " -pthread")
    if(NOT TARGET polyhead_highway)
      list(APPEND pc_requires libhwy)
    endif()
    if(NOT TARGET polyhead_utf8proc)
      list(APPEND pc_requires libutf8proc)
    endif()
    list(JOIN pc_requires " " pc_requires)
    if(POLYHEAD_HAS_CUDA)
      string(APPEND pc_libs " -L\${libdir}/polyhead -lcudart_static -ldl -lrt")
      install(FILES ${POLYHEAD_CUDART} DESTINATION ${CMAKE_INSTALL_LIBDIR}/polyhead COMPONENT Development)
    endif()
  endif()
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/polyheadConfig.cmake.in polyheadConfig.cmake
    INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_LIBDIR)
  write_basic_package_version_file(polyheadConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/polyheadConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/polyheadConfigVersion.cmake
    DESTINATION ${package_dir} COMPONENT Development)

  polyhead_install_pc(polyhead)
endfunction()

polyhead_install(${POLYHEAD_LIBRARY})
# The C ABI stands by itself; its header is among the others.
install(TARGETS polyhead_c LIBRARY COMPONENT Runtime NAMELINK_COMPONENT Development)
polyhead_install_pc(polyhead_c)
if(TARGET polyhead_cli)
  install(TARGETS polyhead_cli RUNTIME COMPONENT Runtime)
  if(SKBUILD)  # into the wheel: pip puts it beside its Python
    install(TARGETS polyhead_cli RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT Python)
  endif()
endif()
install(FILES ${POLYHEAD_COPYRIGHT} DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright COMPONENT Runtime)
if(SKBUILD AND POLYHEAD_PORTABLE)  # which holds code of others
  install(FILES ${POLYHEAD_COPYRIGHT} DESTINATION ${SKBUILD_METADATA_DIR}/licenses COMPONENT Python)
endif()

# make package: what is installed, as an archive that may be unpacked anywhere, and for dpkg.
set(CPACK_GENERATOR TGZ DEB)
set(CPACK_PACKAGE_CONTACT polyhead)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.28)")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "librsvg2-2, python3-pip")
if(PROJECT_IS_TOP_LEVEL)
  include(CPack)
endif()

if(POLYHEAD_MAN)
  install(FILES ${POLYHEAD_MAN} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT Runtime)
endif()
if(POLYHEAD_COMPLETION)
  install(FILES ${POLYHEAD_COMPLETION} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
    RENAME polyhead COMPONENT Runtime)
endif()
