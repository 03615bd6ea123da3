// The machine's libraries. This file is linked where nothing else defines these functions: the programs that
// run on a stand-in do.

#include <array>

#include "cublaslt_table.hpp"
#include "cuda_table.hpp"
#include "cudnn_table.hpp"
#include "dynamic_library.hpp"
#include "kernel_cuda.hpp"
#include "transport/nccl/nccl_table.hpp"

namespace ppsim::gpu_backend {

CudaTable load_cuda(const std::string& path) {
  const DynamicLibrary library({.path = path,
                                .variable = "PPSIM_CUDA_LIBRARY",
                                .name = "libcuda.so.1",
                                .purpose = "the CUDA backend",
                                .version = "a driver for CUDA 12.8 (570)"});
  CudaTable table;
#define PPSIM_CALL(name, symbol, result, parameters) library.take(table.name, #symbol);
#include "cuda_table.def"
#undef PPSIM_CALL
  return table;
}

NcclTable load_nccl(const std::string& path) {
  const DynamicLibrary library({path, "PPSIM_NCCL_LIBRARY", "libnccl.so.2", "the NCCL transport"});
  NcclTable table;
#define PPSIM_CALL(name, symbol, result, parameters) library.take(table.name, #symbol);
#include "transport/nccl/nccl_table.def"
#undef PPSIM_CALL
  return table;
}

namespace {

/// The calls, values and structures of the table are alike in CUDA 12 and 13. That of the kernels comes
/// first: a driver for CUDA 12 runs neither kernels nor a library of 13.
DynamicLibrary open_cublaslt(const std::string& path) {
  constexpr std::array kNames = {"libcublasLt.so.13", "libcublasLt.so.12"};
  constexpr std::array kOlderFirst = {kNames[1], kNames[0]};
  return DynamicLibrary::first_of(
      {.path = path, .variable = "PPSIM_CUBLASLT_LIBRARY", .purpose = "the transformer on a GPU"},
      kKernelCuda >= 13000 ? kNames : kOlderFirst);
}

DynamicLibrary open_cudnn(const std::string& path) {
  return DynamicLibrary({path, "PPSIM_CUDNN_LIBRARY", "libcudnn.so.9", "attention by cuDNN", "cudnn"});
}

}  // namespace

std::string cublaslt_file() { return open_cublaslt("").name(); }
std::string cudnn_file() { return open_cudnn("").name(); }

CublasLtTable load_cublaslt(const std::string& path) {
  const DynamicLibrary library = open_cublaslt(path);
  CublasLtTable table;
#define PPSIM_CALL(name, symbol, result, parameters) library.take(table.name, #symbol);
#include "cublaslt_table.def"
#undef PPSIM_CALL
  return table;
}

CudnnTable load_cudnn(const std::string& path) {
  const DynamicLibrary library = open_cudnn(path);
  CudnnTable table;
#define PPSIM_CALL(name, symbol, result, parameters) library.take(table.name, #symbol);
#include "cudnn_table.def"
#undef PPSIM_CALL
  return table;
}

}  // namespace ppsim::gpu_backend
