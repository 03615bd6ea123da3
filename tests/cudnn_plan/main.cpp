// The graphs of attention given to the real cuDNN, on a machine that has the library and no device: it knows
// the device from a description, chooses engines, compiles their kernels and finishes plans for them. What
// cannot be seen so is what the kernels compute.
//
// The only argument is the stand-in for the driver. Exit code 77: cuDNN is not there, nothing was checked.

#include <dlfcn.h>

#include <iostream>

#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "transformer/gpu/attention/flash_attention.hpp"

namespace ppsim {

using namespace gpu_backend;
namespace {

constexpr int kNotRun = 77;
constexpr std::size_t kMinVersion = 91600;

/// An H100 with 80 GB, in the words of cuDNN.
constexpr const char* kDevice = R"({
  "cudaDeviceId": 0, "deviceVer": 900, "driverVer": 13000, "deviceName": "NVIDIA H100 80GB HBM3",
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,
  "multiProcessorCount": 132, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
  "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536,
  "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0,
  "supportCoopLaunch": 1, "totalGlobalMem": 85000000000, "smClockRateKHz": 1980000, "memClockRateKHz": 2619000,
  "l2CacheSize": 52428800, "cudnnVersion": 91900, "schemaVersion": 1})";

TransformerConfig config_of(int sequence, int heads, int head_size, int sequences) {
  TransformerConfig config;
  config.hidden = heads * head_size;
  config.heads = heads;
  config.sequence = sequence;
  config.microbatch_size = sequences;
  config.arithmetic = Arithmetic::bf16;
  return config;
}

/// Whether there are plans, and one for backward that has room for all scores, which it needs to give the
/// same bits every time.
bool has_plans(const CudnnTable& cudnn, const TransformerConfig& config) {
  const cuda::AttentionSizes sizes(config);
  const auto found = cuda::attention_workspace(cudnn, sizes, kDevice);
  const std::int64_t scores = sizes.sequences * sizes.heads * sizes.sequence * sizes.sequence * 2;
  std::cout << sizes.sequences << " x " << sizes.sequence << " tokens, " << sizes.heads << " heads of "
            << sizes.head_size << ": workspaces of " << found.forward << " and " << found.backward
            << " bytes\n";
  return found.backward >= static_cast<std::size_t>(scores);
}

/// Sizes that no engine has are refused as such.
bool is_refused(const CudnnTable& cudnn, const TransformerConfig& config) {
  try {
    static_cast<void>(cuda::attention_workspace(cudnn, cuda::AttentionSizes(config), kDevice));
  } catch (const BackendError& refusal) {
    std::cout << refusal.error().message << '\n';
    return refusal.error().code == ErrorCode::bad_argument;
  }
  return false;
}

int check(const char* driver) {
  CudnnTable cudnn;
  try {
    cudnn = load_cudnn();
  } catch (const BackendError& missing) {
    std::cout << "NOT RUN: " << missing.error().message << '\n';
    return kNotRun;
  }
  std::cout << cudnn_text(cudnn.version()) << '\n';
  if (cudnn.version() < kMinVersion) return kNotRun;
  if (dlopen(driver, RTLD_NOW | RTLD_GLOBAL) == nullptr) return std::cout << dlerror() << '\n', 1;
  const bool good = has_plans(cudnn, config_of(1024, 16, 64, 4)) &&
                    has_plans(cudnn, config_of(264, 2, 136, 1)) && has_plans(cudnn, config_of(20, 2, 8, 2)) &&
                    is_refused(cudnn, config_of(128, 2, 520, 1));
  std::cout << (good ? "good\n" : "not as expected\n");
  return good ? 0 : 1;
}

}  // namespace
}  // namespace ppsim

int main(int count, char** arguments) {
  try {
    return count == 2 ? ppsim::check(arguments[1]) : 2;
  } catch (const std::exception& failure) {
    std::cout << failure.what() << '\n';
    return 1;
  }
}
