# install(): what users get. Component Runtime is the command (and the shared library), Development the rest.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/polyhead)
install(TARGETS polyhead EXPORT polyhead
  ARCHIVE COMPONENT Development
  LIBRARY COMPONENT Runtime NAMELINK_COMPONENT Development
  RUNTIME COMPONENT Runtime
  FILE_SET HEADERS COMPONENT Development)
install(EXPORT polyhead NAMESPACE polyhead:: DESTINATION ${package_dir} FILE polyheadTargets.cmake COMPONENT Development)

# find_package(polyhead) and pkg-config polyhead. A static library takes its own libraries along.
get_target_property(library_type polyhead TYPE)
configure_package_config_file(cmake/polyheadConfig.cmake.in polyheadConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(polyheadConfigVersion.cmake COMPATIBILITY SameMinorVersion)
# Paths relative to the file itself, so that an installed tree may be moved.
file(RELATIVE_PATH pc_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
file(RELATIVE_PATH lib_from_prefix ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH include_from_prefix ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
configure_file(cmake/polyhead.pc.in polyhead.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/polyheadConfig.cmake ${PROJECT_BINARY_DIR}/polyheadConfigVersion.cmake
  DESTINATION ${package_dir} COMPONENT Development)
install(FILES ${PROJECT_BINARY_DIR}/polyhead.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT Development)

if(TARGET polyhead_cli)
  # An installed command finds a shared library beside it, wherever the prefix is.
  file(RELATIVE_PATH bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_target_properties(polyhead_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
  install(TARGETS polyhead_cli RUNTIME COMPONENT Runtime)
endif()
if(POLYHEAD_MAN)
  install(FILES ${POLYHEAD_MAN} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT Runtime)
endif()
if(POLYHEAD_COMPLETION)
  install(FILES ${POLYHEAD_COMPLETION} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
    RENAME polyhead COMPONENT Runtime)
endif()
