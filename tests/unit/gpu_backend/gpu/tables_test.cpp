#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "device/cuda/cublaslt_table.hpp"
#include "device/cuda/cuda_status.hpp"
#include "device/cuda/cuda_table.hpp"
#include "device/cuda/cudnn_table.hpp"
#include "device/cuda/dynamic_library.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"
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

/// The path of the C library, which is in every process.
std::string library_path() {
  Dl_info found{};
  EXPECT_NE(dladdr(reinterpret_cast<const void*>(&getpid), &found), 0);
  return std::filesystem::canonical(found.dli_fname);
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
            "libc.so.6 lacks cuGetErrorName: a driver for CUDA 12.8 (570) or later is needed");
  EXPECT_EQ(failure([] { return load_nccl("libc.so.6"); }),
            "libc.so.6 lacks ncclGetVersion: another version of it is needed");
}

TEST(Tables, TheEnvironmentNamesALibrary) {
  setenv("PPSIM_NCCL_LIBRARY", "/nowhere/other.so", 1);
  const std::string text = failure([] { return load_nccl(); });
  unsetenv("PPSIM_NCCL_LIBRARY");
  EXPECT_EQ(text.rfind("the NCCL transport needs /nowhere/other.so: ", 0), 0U) << text;
}

/// A library that the system does not know, as pip puts it into a virtual environment.
TEST(Tables, ALibraryOfAPythonPackageIsFound) {
  const LibrarySource source{.variable = "PPSIM_TEST_LIBRARY",
                             .name = "libppsim_test.so.1",
                             .purpose = "a test",
                             .package = "ppsim_test"};
  const auto load = [&] { return DynamicLibrary(source); };
  const std::string missing = failure(load);
  EXPECT_NE(missing.find("nor can it be opened in a folder of CUDA or of a Python package (pip install "
                         "nvidia-ppsim_test-cu13)"),
            std::string::npos)
      << missing;
  const auto root = std::filesystem::temp_directory_path() / ("ppsim_tables_" + std::to_string(getpid()));
  const auto folder = root / "lib/python3.11/site-packages/nvidia/ppsim_test/lib";
  std::filesystem::create_directories(folder);
  std::filesystem::create_symlink(library_path(), folder / source.name);
  setenv("VIRTUAL_ENV", root.c_str(), 1);
  EXPECT_EQ(failure(load), "it was loaded");
  unsetenv("VIRTUAL_ENV");
  std::filesystem::remove_all(root);
}

/// The system may have an older one than the environment whose frameworks a user runs.
TEST(Tables, ALibraryOfTheEnvironmentComesBeforeThatOfTheSystem) {
  const LibrarySource source{
      .variable = "PPSIM_TEST_LIBRARY", .name = "libc.so.6", .purpose = "a test", .package = "ppsim_test"};
  const auto root = std::filesystem::temp_directory_path() / ("ppsim_python_" + std::to_string(getpid()));
  const auto folder = root / "lib/python3.12/site-packages/nvidia/ppsim_test/lib";
  std::filesystem::create_directories(folder);
  std::filesystem::create_directories(root / "bin");
  std::filesystem::create_symlink("/bin/true", root / "bin/python3");
  Dl_info math{};
  ASSERT_NE(dladdr(reinterpret_cast<const void*>(static_cast<double (*)(double)>(std::cbrt)), &math), 0);
  std::filesystem::create_symlink(std::filesystem::canonical(math.dli_fname), folder / source.name);
  const std::string path = std::getenv("PATH");
  setenv("PATH", (root / "bin:").string().append(path).c_str(), 1);
  std::function<int()> unknown;
  const std::string text = failure([&] { DynamicLibrary(source).take(unknown, "ppsim_unknown"); });
  setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(text.find((root / "bin/../lib").string()), 0U) << text;
  std::filesystem::remove_all(root);
}

TEST(Tables, ALibraryMayHaveOneOfSeveralNames) {
  const LibrarySource source{.variable = "PPSIM_TEST_LIBRARY", .purpose = "a test"};
  const auto first = [&](std::vector<const char*> names) { return DynamicLibrary::first_of(source, names); };
  EXPECT_EQ(first({"libppsim_none.so.13", "libc.so.6"}).name(), "libc.so.6");
  const std::string missing = failure([&] { return first({"libppsim_none.so.13", "libppsim_none.so.12"}); });
  EXPECT_EQ(missing.rfind("a test needs libppsim_none.so.13: ", 0), 0U) << missing;
}

/// A build without kernels is complete where there is no GPU.
TEST(Tables, DevicesWithoutKernelsAreAFault) {
  EXPECT_EQ(cuda_fault(true, true), "");
  EXPECT_EQ(cuda_fault(false, false), "");
  EXPECT_EQ(cuda_fault(true, false),
            "no transformer runs on a GPU: this build has no kernels: it was made without nvcc, or with "
            "PPSIM_CUDA=OFF");
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
