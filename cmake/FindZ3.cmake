# Finds the Z3 solver and defines the imported target Z3::libz3.
#
# Honours Z3_ROOT (variable or environment), which may be an install prefix or the `z3` folder of PyPI's z3-solver
# package: both hold include/z3++.h and lib/libz3.so.

find_path(Z3_INCLUDE_DIR z3++.h)
find_library(Z3_LIBRARY NAMES z3 libz3)
mark_as_advanced(Z3_INCLUDE_DIR Z3_LIBRARY)

if(Z3_INCLUDE_DIR AND EXISTS "${Z3_INCLUDE_DIR}/z3_version.h")
  file(READ "${Z3_INCLUDE_DIR}/z3_version.h" z3_version_header)
  set(Z3_VERSION "")
  foreach(part MAJOR_VERSION MINOR_VERSION BUILD_NUMBER)
    if(z3_version_header MATCHES "#define Z3_${part} +([0-9]+)")
      list(APPEND Z3_VERSION ${CMAKE_MATCH_1})
    endif()
  endforeach()
  list(JOIN Z3_VERSION "." Z3_VERSION)
  unset(z3_version_header)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Z3
  REQUIRED_VARS Z3_LIBRARY Z3_INCLUDE_DIR
  VERSION_VAR Z3_VERSION)

if(Z3_FOUND AND NOT TARGET Z3::libz3)
  add_library(Z3::libz3 UNKNOWN IMPORTED)
  set_target_properties(Z3::libz3 PROPERTIES
    IMPORTED_LOCATION "${Z3_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${Z3_INCLUDE_DIR}")
endif()
