# `cmake --install`, the package that find_package(ppsim) reads, and the Debian packages of scripts/package.

include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ppsim)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)

foreach(name core workload schedules simulator verifier gpu_backend planner)
  install(TARGETS ppsim_${name} EXPORT ppsimTargets)
  install(DIRECTORY ${name}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endforeach()
install(TARGETS ppsim COMPONENT program)
if(TARGET ppsim_mpi)
  install(TARGETS ppsim_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/ppsim COMPONENT mpi)
endif()
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
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)

# The manual page and what shells complete, as the program writes them.
set(shell_files)
foreach(file "man|ppsim.1" "completion bash|ppsim.bash" "completion zsh|_ppsim" "completion fish|ppsim.fish")
  string(REPLACE "|" ";" file "${file}")
  list(GET file 0 command)
  list(GET file 1 name)
  separate_arguments(command)
  add_custom_command(OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/shell/${name}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/shell
    COMMAND ppsim ${command} > ${CMAKE_CURRENT_BINARY_DIR}/shell/${name}
    DEPENDS ppsim VERBATIM)
  list(APPEND shell_files ${CMAKE_CURRENT_BINARY_DIR}/shell/${name})
endforeach()
add_custom_target(ppsim_shell_files ALL DEPENDS ${shell_files})
list(POP_FRONT shell_files manual bash zsh fish)
install(FILES ${manual} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
install(FILES ${bash} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME ppsim COMPONENT program)
install(FILES ${zsh} DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT program)
install(FILES ${fish} DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT program)

set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL program development)
if(TARGET ppsim_mpi)
  list(APPEND CPACK_COMPONENTS_ALL mpi)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_CONTACT "the authors of ppsim <ppsim@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME ppsim)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "ppsim-mpi")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "libppsim-dev, libcuda1, libnccl2")
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION
  "Schedules of pipeline-parallel training: what they cost, what memory they\n need in the worst case, and that they cannot hang. The program.")
set(CPACK_DEBIAN_MPI_PACKAGE_NAME ppsim-mpi)
set(CPACK_DEBIAN_MPI_PACKAGE_SECTION science)
set(CPACK_DEBIAN_MPI_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "ppsim (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_MPI_PACKAGE_RECOMMENDS "openmpi-bin")
set(CPACK_COMPONENT_MPI_DESCRIPTION
  "Schedules of pipeline-parallel training: runs of ppsim on several processes\n by MPI.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libppsim-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libexpected-dev, libxxhash-dev")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS "libprotobuf-dev, libsqlite3-dev, libz3-dev")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
  "Schedules of pipeline-parallel training: headers and static libraries of\n ppsim, and the package for CMake. ppsim::core needs what it depends on; the\n simulator, the verifier and the planner need what it recommends.")
include(CPack)
