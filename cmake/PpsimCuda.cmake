# The CUDA toolkit, which the kernels are compiled with.
#
# The backend opens CUDA's libraries at run time and is built without them. With the toolkit its declarations are
# compared with the real headers, as far as these are there, and the kernels are compiled: by nvcc, or by clang 19 or later
# where PPSIM_CUDA_CLANG names one. clang needs no more than PyPI has of CUDA 12, which is everything but nvcc itself.

set(PPSIM_CUDA AUTO CACHE STRING "CUDA backend: AUTO, ON or OFF")
set_property(CACHE PPSIM_CUDA PROPERTY STRINGS AUTO ON OFF)
set(PPSIM_CUDA_ARCHITECTURE 90 CACHE STRING "Oldest architecture that the kernels run on: 80, 90, 100, ...")
set(PPSIM_CUDA_ROOT /usr/local/cuda CACHE PATH "Folder of the CUDA toolkit")
set(PPSIM_CUDA_CLANG "" CACHE STRING "clang++ 19 or later, to compile the kernels in place of nvcc")

set(PPSIM_CUDA_FOUND OFF)
if(PPSIM_CUDA STREQUAL "ON" OR PPSIM_CUDA STREQUAL "AUTO")
  find_program(PPSIM_NVCC nvcc HINTS ${PPSIM_CUDA_ROOT}/bin)
  find_path(PPSIM_CUDA_INCLUDE cuda_runtime.h HINTS ${PPSIM_CUDA_ROOT}/include)
  find_path(PPSIM_CUBLASLT_INCLUDE cublasLt.h HINTS ${PPSIM_CUDA_INCLUDE} NO_DEFAULT_PATH)
  find_path(PPSIM_NCCL_INCLUDE nccl.h HINTS ${PPSIM_CUDA_INCLUDE})
  find_library(PPSIM_CUDART libcudart_static.a HINTS ${PPSIM_CUDA_ROOT}/lib64 ${PPSIM_CUDA_ROOT}/lib)
  find_path(PPSIM_NVTX_INCLUDE nvtx3/nvToolsExt.h HINTS ${PPSIM_CUDA_INCLUDE})
  mark_as_advanced(PPSIM_NVCC PPSIM_CUDA_INCLUDE PPSIM_CUBLASLT_INCLUDE PPSIM_NCCL_INCLUDE PPSIM_CUDART PPSIM_NVTX_INCLUDE)
  if((PPSIM_NVCC OR PPSIM_CUDA_CLANG) AND PPSIM_CUDA_INCLUDE AND PPSIM_CUDART)
    set(PPSIM_CUDA_FOUND ON)
    if(NOT PPSIM_NVTX_INCLUDE)
      message(FATAL_ERROR "The CUDA toolkit in ${PPSIM_CUDA_INCLUDE} is without nvtx3/nvToolsExt.h. "
                          "Set PPSIM_NVTX_INCLUDE to where it is, or use PPSIM_CUDA=OFF.")
    endif()
  elseif(PPSIM_CUDA STREQUAL "ON")
    message(FATAL_ERROR "PPSIM_CUDA=ON: no CUDA toolkit with nvcc, cuda_runtime.h and libcudart_static.a was found in ${PPSIM_CUDA_ROOT}. "
                        "Set PPSIM_CUDA_ROOT to its folder, or PPSIM_NVCC (or, for a toolkit without nvcc, such as that of "
                        "scripts/cuda12, PPSIM_CUDA_CLANG), PPSIM_CUDA_INCLUDE and PPSIM_CUDART, or use PPSIM_CUDA=OFF.")
  endif()
elseif(NOT PPSIM_CUDA STREQUAL "OFF")
  message(FATAL_ERROR "PPSIM_CUDA=${PPSIM_CUDA}: expected AUTO, ON or OFF")
endif()

if(PPSIM_CUDA_FOUND AND PPSIM_CUDA_CLANG)
  execute_process(COMMAND ${PPSIM_CUDA_CLANG} -dumpversion OUTPUT_VARIABLE clang_version RESULT_VARIABLE failure
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(failure OR clang_version VERSION_LESS 19)
    message(FATAL_ERROR "PPSIM_CUDA_CLANG=${PPSIM_CUDA_CLANG} is no clang 19 or later, which knows CUDA 12 (Debian: clang-19).")
  endif()
  foreach(part bin/ptxas nvvm/libdevice/libdevice.10.bc)
    if(NOT EXISTS ${PPSIM_CUDA_ROOT}/${part})
      message(FATAL_ERROR "PPSIM_CUDA_CLANG needs ${part} in PPSIM_CUDA_ROOT=${PPSIM_CUDA_ROOT}; scripts/cuda12 makes such a folder.")
    endif()
  endforeach()
  message(STATUS "Kernels: by clang ${clang_version} with the toolkit in ${PPSIM_CUDA_ROOT}")
endif()
if(PPSIM_CUDA_FOUND AND NOT (PPSIM_CUBLASLT_INCLUDE AND PPSIM_NCCL_INCLUDE))
  message(STATUS "CUDA: cublasLt.h or nccl.h is not there, so declarations are not compared with them")
endif()

# Adds a source of kernels to a target. nvcc and clang by hand: CMake 3.25 knows no CUDA C++20, and as a language it
# would take over the linking of every program.
function(ppsim_add_kernels target source)
  cmake_path(GET source STEM name)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/kernels/${name}.o)
  set(include ${CMAKE_CURRENT_SOURCE_DIR}/src)
  if(PPSIM_CUDA_CLANG)
    set(packer ${PROJECT_SOURCE_DIR}/cmake/fatbin.sh)
    # Warnings of clang about what nvcc has none: a thread's number beside an int, and a CUDA newer than it.
    set(compile ${PPSIM_CUDA_CLANG} -x cuda --cuda-path=${PPSIM_CUDA_ROOT} --cuda-gpu-arch=sm_${PPSIM_CUDA_ARCHITECTURE}
      -std=c++20 -O3 -fPIC -Wall -Wextra -Werror -Wno-sign-compare -Wno-unknown-cuda-version -I ${include})
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${compile} --cuda-device-only -c ${source} -o ${object}.cubin
      COMMAND bash ${packer} ${PPSIM_CUDA_ARCHITECTURE} ${object}.cubin ${object}.fatbin
      COMMAND ${compile} --cuda-host-only -Xclang -fcuda-include-gpubinary -Xclang ${object}.fatbin
        -MD -MF ${object}.d -MT ${object} -c ${source} -o ${object}
      DEPENDS ${source} ${packer}
      DEPFILE ${object}.d
      COMMENT "Compiling the kernels of ${name}.cu by clang"
      VERBATIM)
  else()
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${PPSIM_NVCC} -std=c++20 -O3 -arch=sm_${PPSIM_CUDA_ARCHITECTURE} -ccbin ${CMAKE_CXX_COMPILER}
        -Werror all-warnings -Xcompiler -Wall,-Wextra,-fPIC -I ${include}
        -MD -MF ${object}.d -c ${source} -o ${object}
      DEPENDS ${source}
      DEPFILE ${object}.d
      COMMENT "Compiling the kernels of ${name}.cu"
      VERBATIM)
  endif()
  target_sources(${target} PRIVATE ${object})
endfunction()
