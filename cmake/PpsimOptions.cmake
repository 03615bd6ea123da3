# Options of the build and the compiler flags that every target of this project shares.

if(PROJECT_IS_TOP_LEVEL)
  set(PPSIM_TESTS AUTO CACHE STRING "Build the tests: AUTO (where what they need is installed), ON or OFF")
else()
  set(PPSIM_TESTS OFF CACHE STRING "Build the tests: AUTO (where what they need is installed), ON or OFF")
endif()
set_property(CACHE PPSIM_TESTS PROPERTY STRINGS AUTO ON OFF)
option(PPSIM_BENCH "Build the benchmarks (needs Google Benchmark)" OFF)
option(PPSIM_FUZZ "Build the fuzzers of the readers (needs clang++)" OFF)
option(PPSIM_PYTHON "Build the Python module (needs Python's headers and nanobind)" OFF)
option(PPSIM_UNITY "Compile several sources at once: faster, unless one of them is edited again and again" ON)
option(PPSIM_WERROR "Treat compiler warnings as errors" OFF)
set(PPSIM_SANITIZE "" CACHE STRING "Sanitizers, comma separated: address,undefined or thread")

set(PPSIM_MPI AUTO CACHE STRING "MPI transport between processes: AUTO, ON or OFF")
set_property(CACHE PPSIM_MPI PROPERTY STRINGS AUTO ON OFF)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

include(GNUInstallDirs)

if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
  endif()

  find_program(PPSIM_CCACHE ccache)
  mark_as_advanced(PPSIM_CCACHE)
  if(PPSIM_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
    # Without this sloppiness ccache refuses every file that uses a precompiled header. Paths are kept relative to the
    # build folder, so that clones share what is compiled.
    set(CMAKE_CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros"
      "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR};CCACHE_NOHASHDIR=1;${PPSIM_CCACHE}")
  endif()
endif()

include(PpsimCuda)

# Several processes need MPI at build time; everything else is built and passes without it.
set(PPSIM_MPI_FOUND OFF)
if(PPSIM_MPI STREQUAL "ON" OR PPSIM_MPI STREQUAL "AUTO")
  set(MPI_CXX_SKIP_MPICXX ON)  # the C interface, which is the one that MPI still has
  find_package(MPI 3.0 QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(PPSIM_MPI_FOUND ON)
  elseif(PPSIM_MPI STREQUAL "ON")
    message(FATAL_ERROR "PPSIM_MPI=ON: no MPI was found. Install one (Debian: libopenmpi-dev openmpi-bin), "
                        "set MPI_CXX_COMPILER to its compiler, or use PPSIM_MPI=OFF.")
  endif()
elseif(NOT PPSIM_MPI STREQUAL "OFF")
  message(FATAL_ERROR "PPSIM_MPI=${PPSIM_MPI}: expected AUTO, ON or OFF")
endif()

# The program is built without what its tests need.
set(PPSIM_TESTS_FOUND ${PPSIM_TESTS})
if(PPSIM_TESTS STREQUAL "AUTO")
  set(Boost_USE_STATIC_LIBS ON)
  find_package(GTest QUIET)
  find_package(rapidcheck CONFIG QUIET)
  find_package(Boost 1.74 QUIET COMPONENTS context)
  set(PPSIM_TESTS_FOUND OFF)
  if(GTest_FOUND AND rapidcheck_FOUND AND Boost_CONTEXT_FOUND)
    set(PPSIM_TESTS_FOUND ON)
  else()
    message(STATUS "Tests: left out; scripts/test installs what they need")
  endif()
endif()

# Warnings, sanitizers and reproducible paths for one target.
function(ppsim_compile_options target)
  file(RELATIVE_PATH to_source ${CMAKE_BINARY_DIR} ${PROJECT_SOURCE_DIR})
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion
    # g++ 12 optimizing reports overlaps and sizes inside std::string that cannot happen (GCC bug 105651), and that
    # the alternative that a std::variant does not hold is uninitialized.
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict;-Wno-stringop-overflow;-Wno-maybe-uninitialized>
    # Designated initializers leave out members on purpose: these keep their default.
    -Wno-missing-field-initializers
    $<$<BOOL:${PPSIM_WERROR}>:-Werror>
    # Keeps folders out of the objects, so that two builds agree byte for byte; ccache gives the compiler relative ones.
    -ffile-prefix-map=${CMAKE_BINARY_DIR}=. -ffile-prefix-map=${PROJECT_SOURCE_DIR}/= -ffile-prefix-map=${to_source}=)
  if(PPSIM_SANITIZE)
    target_compile_options(${target} PRIVATE
      -fsanitize=${PPSIM_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    # PUBLIC: whoever links a sanitized static library needs the run-time too.
    target_link_options(${target} PUBLIC -fsanitize=${PPSIM_SANITIZE})
  endif()
endfunction()

# For code that runs for a moment or once, such as commands and tests: at -O1 instead of -O3 it compiles in two thirds of
# the time. The warnings of g++ 12 about the insides of std::string are false there, too (GCC bug 105651).
function(ppsim_fast_to_compile target)
  target_compile_options(${target} PRIVATE
    $<$<CONFIG:Release>:-O1> $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds;-Wno-stringop-overread>)
endfunction()
