# Installs the build tree BUILD_DIR under WORK_DIR, then configures, builds and runs the project beside this file
# against that install alone.

cmake_minimum_required(VERSION 3.25)

set(prefix "${WORK_DIR}/prefix")
# A stale install would hide a header that is no longer installed.
file(REMOVE_RECURSE "${WORK_DIR}")

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${prefix}" --config "${CONFIG}")
run("${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}" -B "${WORK_DIR}/build" -G "${GENERATOR}"
  "-DCMAKE_PREFIX_PATH=${prefix}" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" "-DCMAKE_BUILD_TYPE=${CONFIG}")
run("${CMAKE_COMMAND}" --build "${WORK_DIR}/build" --config "${CONFIG}")
run("${WORK_DIR}/build/consumer")
run("${WORK_DIR}/build/example")
run("${prefix}/bin/ppsim" --version)

run("${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}/core_only" -B "${WORK_DIR}/core_only" -G "${GENERATOR}"
  "-DCMAKE_PREFIX_PATH=${prefix}" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" "-DCMAKE_BUILD_TYPE=${CONFIG}")
run("${CMAKE_COMMAND}" --build "${WORK_DIR}/core_only" --config "${CONFIG}")
run("${WORK_DIR}/core_only/core_only")
foreach(file share/man/man1/ppsim.1 share/bash-completion/completions/ppsim share/zsh/vendor-completions/_ppsim
    share/fish/vendor_completions.d/ppsim.fish share/ppsim/schemas/simulate.schema.json include/ppsim/planner/plugin.h)
  file(SIZE "${prefix}/${file}" size)
  if(size LESS 1000)
    message(FATAL_ERROR "${file} is installed with ${size} bytes")
  endif()
endforeach()
