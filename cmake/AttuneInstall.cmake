# Install rules: the library, its headers, the command, and what find_package(attune) and pkg-config read. All paths in
# what is installed are relative to it, so that the folder may be moved.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS attune EXPORT attuneTargets)
foreach(headers dsl runtime stdlib)
  install(DIRECTORY ${headers}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
endforeach()
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(TARGET attune_command)
  install(TARGETS attune_command)
endif()

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/attune)
install(EXPORT attuneTargets NAMESPACE attune:: DESTINATION ${package})
configure_package_config_file(cmake/attuneConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/attuneConfig.cmake
                              INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/attuneConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/attuneConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/attuneConfigVersion.cmake
        DESTINATION ${package})

# A static library leaves its own dependencies to whoever links it.
get_target_property(kind attune TYPE)
set(ATTUNE_PC_DEPENDENCIES Requires.private)
if(kind STREQUAL "STATIC_LIBRARY")
  set(ATTUNE_PC_DEPENDENCIES Requires)
endif()
file(RELATIVE_PATH ATTUNE_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/attune.pc.in ${CMAKE_CURRENT_BINARY_DIR}/attune.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/attune.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
