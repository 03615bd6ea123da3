#include <gtest/gtest.h>

#include "device/cuda/cublaslt_table.hpp"
#include "device/cuda/cuda_status.hpp"
#include "device/cuda/cuda_table.hpp"
#include "device/cuda/cudnn_table.hpp"
#include "ppsim/gpu_backend/device/device.hpp"
#include "transport/nccl/nccl_table.hpp"

namespace ppsim::test {

using namespace gpu_backend;
namespace {

template <class Load>
std::string failure(const Load& load) {
  try {
    static_cast<void>(load());
  } catch (const BackendError& error) {
    return error.error().message;
  }
  return "it was loaded";
}

TEST(Tables, AMissingLibraryIsNamedWithWhatNeedsItAndHowToNameAnother) {
  const std::string cuda = failure([] { return load_cuda("/nowhere/libcuda.so.1"); });
  EXPECT_EQ(cuda.rfind("the CUDA backend needs /nowhere/libcuda.so.1: ", 0), 0U) << cuda;
  EXPECT_NE(cuda.find("(set PPSIM_CUDA_LIBRARY to the path of another one)"), std::string::npos) << cuda;
  const std::string nccl = failure([] { return load_nccl("/nowhere/libnccl.so.2"); });
  EXPECT_EQ(nccl.rfind("the NCCL transport needs /nowhere/libnccl.so.2: ", 0), 0U) << nccl;
  const std::string lt = failure([] { return load_cublaslt("/nowhere/libcublasLt.so.13"); });
  EXPECT_NE(lt.find("PPSIM_CUBLASLT_LIBRARY"), std::string::npos) << lt;
  const std::string dnn = failure([] { return load_cudnn("/nowhere/libcudnn.so.9"); });
  EXPECT_EQ(dnn.rfind("attention by cuDNN needs /nowhere/libcudnn.so.9: ", 0), 0U) << dnn;
  EXPECT_NE(dnn.find("PPSIM_CUDNN_LIBRARY"), std::string::npos) << dnn;
}

TEST(Tables, AMissingSymbolIsNamed) {
  // The C library is a library, and no driver.
  EXPECT_EQ(failure([] { return load_cuda("libc.so.6"); }),
            "libc.so.6 lacks cuGetErrorName: another version of it is needed");
  EXPECT_EQ(failure([] { return load_nccl("libc.so.6"); }),
            "libc.so.6 lacks ncclGetVersion: another version of it is needed");
}

TEST(Tables, TheEnvironmentNamesALibrary) {
  setenv("PPSIM_NCCL_LIBRARY", "/nowhere/other.so", 1);
  const std::string text = failure([] { return load_nccl(); });
  unsetenv("PPSIM_NCCL_LIBRARY");
  EXPECT_EQ(text.rfind("the NCCL transport needs /nowhere/other.so: ", 0), 0U) << text;
}

TEST(Tables, TheStatusNamesAllLibraries) {
  const BackendStatus status = cuda_status();
  EXPECT_EQ(status.name, "cuda");
  for (const char* part : {"cuda", "nccl", "cublasLt", "cudnn"}) {
    const bool named = status.detail.find(part) != std::string::npos;
    const std::string alias = part == std::string("nccl")    ? "NCCL"
                              : part == std::string("cuda")  ? "driver"
                              : part == std::string("cudnn") ? "cuDNN"
                                                             : "cuBLASLt";
    EXPECT_TRUE(named || status.detail.find(alias) != std::string::npos) << status.detail;
  }
}

}  // namespace
}  // namespace ppsim::test
