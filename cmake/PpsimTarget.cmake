# ppsim_add_library(<name> [APART <regex>] [SOURCES <file>...] [WITHOUT <regex>] [PUBLIC <target>...] [PRIVATE <target>...] [HEADERS_OF <target>...])
#
# Defines ppsim_<name> (alias ppsim::<name>) from src/**.cpp, and SOURCES (generated files), with the public headers
# in include/. WITHOUT leaves sources out. HEADERS_OF names header-only dependences: they are needed to compile the
# library, and never to link against an installed one. Sources are compiled several at once (PPSIM_UNITY), so names in
# them, those in unnamed namespaces too, are told apart within a library; APART matches those that are compiled each by
# itself.
function(ppsim_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "APART;WITHOUT" "SOURCES;PUBLIC;PRIVATE;HEADERS_OF")
  set(target ppsim_${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS src/*.cpp)
  if(arg_WITHOUT)
    list(FILTER sources EXCLUDE REGEX "${arg_WITHOUT}")
  endif()

  add_library(${target} ${sources} ${arg_SOURCES})
  add_library(ppsim::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target}
    PUBLIC
      $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
      $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE
      ${CMAKE_CURRENT_SOURCE_DIR}/src)
  target_link_libraries(${target} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
  foreach(dependence IN LISTS arg_HEADERS_OF)
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:${dependence}>)
  endforeach()
  if(PPSIM_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  endif()
  if(arg_APART)
    list(FILTER sources INCLUDE REGEX "${arg_APART}")
    set_source_files_properties(${sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  # Generated code stays apart: it is written to be compiled by itself.
  set_source_files_properties(${arg_SOURCES} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  ppsim_compile_options(${target})
endfunction()
