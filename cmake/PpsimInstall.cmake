# `cmake --install` and the package that find_package(ppsim) reads.

include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ppsim)

foreach(name core workload schedules simulator verifier gpu_backend planner)
  install(TARGETS ppsim_${name} EXPORT ppsimTargets)
  install(DIRECTORY ${name}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endforeach()
install(TARGETS ppsim)
install(EXPORT ppsimTargets NAMESPACE ppsim:: DESTINATION ${package_dir})

configure_package_config_file(cmake/ppsimConfig.cmake.in ppsimConfig.cmake
  INSTALL_DESTINATION ${package_dir}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(ppsimConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(
  FILES
    ${CMAKE_CURRENT_BINARY_DIR}/ppsimConfig.cmake
    ${CMAKE_CURRENT_BINARY_DIR}/ppsimConfigVersion.cmake
    cmake/FindxxHash.cmake
    cmake/FindZ3.cmake
  DESTINATION ${package_dir})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
