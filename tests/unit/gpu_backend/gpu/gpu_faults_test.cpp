// Errors of the libraries under the transformer on the strict fake: each is named, and nothing stays behind.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <type_traits>

#include "device/cuda/cublaslt_table.hpp"
#include "device/cuda/cudnn_table.hpp"
#include "device/cuda/gpu_api.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/fake_gpu/run.hpp"
#include "support/fake_gpu/transformer.hpp"
#include "support/small_transformer.hpp"

namespace ppsim::test {
namespace {

using namespace gpu_backend;

/// Lets one call of a library fail, counted by symbol; with `sticky` every call after it as well, as after an
/// error that a CUDA context does not survive. What gives something back, or ends a group, is called all the
/// same, and says that it failed. Calls that return no status, or the name of one, are left alone.
class Injection {
 public:
  struct Strike {
    std::string symbol = {};  ///< empty: none, calls are counted only
    int number = 0;           ///< of the call, from 1
    int code = 0;
    bool sticky = false;
  };
  explicit Injection(Strike strike) : strike_(std::move(strike)) {}

  /// Requires: an object that outlives the tables.
  void into(CudaTable& table) {
#define PPSIM_CALL(name, symbol, result, parameters) wrap(table.name, #symbol);
#include "device/cuda/cuda_table.def"
#undef PPSIM_CALL
  }
  void into(NcclTable& table) {
#define PPSIM_CALL(name, symbol, result, parameters) wrap(table.name, #symbol);
#include "transport/nccl/nccl_table.def"
#undef PPSIM_CALL
  }
  void into(CublasLtTable& table) {
#define PPSIM_CALL(name, symbol, result, parameters) wrap(table.name, #symbol);
#include "device/cuda/cublaslt_table.def"
#undef PPSIM_CALL
  }

  void into(CudnnTable& table) {
#define PPSIM_CALL(name, symbol, result, parameters) wrap(table.name, #symbol);
#include "device/cuda/cudnn_table.def"
#undef PPSIM_CALL
  }

  [[nodiscard]] const std::map<std::string, int>& calls() const { return calls_; }
  /// Whether a call ends something; it also ends a capture.
  static bool gives_back(const std::string& symbol) {
    if (symbol == "cudnnBackendFinalize") return false;  // it makes an object ready
    for (const char* part : {"Destroy", "Free", "Release", "Abort", "Finalize", "EndCapture"}) {
      if (symbol.find(part) != std::string::npos) return true;
    }
    return false;
  }

 private:
  template <class R, class... A>
  void wrap(std::function<R(A...)>& call, const std::string& symbol) {
    if constexpr (std::is_same_v<R, int>) {
      if (symbol == "cuGetErrorName" || symbol == "cuGetErrorString") return;
      call = [this, symbol, ends = gives_back(symbol) || symbol == "ncclGroupEnd",
              real = call](A... arguments) {
        const int code = fails(symbol);
        if (code == 0) return real(arguments...);
        if (ends) real(arguments...);
        return code;
      };
    }
  }
  int fails(const std::string& symbol) {
    const std::scoped_lock lock(mutex_);
    const bool now = ++calls_[symbol] == strike_.number && symbol == strike_.symbol;
    struck_ = struck_ || now;
    return now || (struck_ && strike_.sticky) ? strike_.code : 0;
  }

  Strike strike_;
  std::mutex mutex_;
  std::map<std::string, int> calls_;
  bool struck_ = false;
};

constexpr int kEccUncorrectable = 214;

Program program_of(bool trains) {
  LoweringOptions options;
  options.load = options.reduce_grad = options.optimizer = options.clip = trains;
  return lower(generate("1f1b", {.ranks = 2, .microbatches = 2}).value(), options).value();
}

/// How a run goes, and what fails in it.
struct Mode {
  std::string name;
  CudaOptions options;
  bool trains = true;
  Arithmetic arithmetic = Arithmetic::integer_exact;
  std::string symbols = "";  ///< how those begin that fail; empty: all
};

TransformerConfig config_of(const Mode& mode) {
  TransformerConfig config = small_transformer(2, mode.arithmetic);
  if (mode.arithmetic == Arithmetic::bf16) {
    config.hidden = 16;
    config.attention = AttentionKernels::cudnn;
  }
  return config;
}

/// The faults after a run that failed: all except the data that it would have computed.
std::string left_by(const FakeGpu& gpu) {
  std::ostringstream text;
  for (const Fault& fault : gpu.faults()) {
    if (fault.kind != FaultKind::race && fault.kind != FaultKind::never_written) text << fault << '\n';
  }
  return text.str();
}

/// The message of a run, "" where it finishes. Nothing is left behind, nothing is misused.
std::string message(const Mode& mode, Injection& injection, FakeGpuOptions machine = {.devices = 2}) {
  FakeGpu gpu(machine);
  FakeRunOptions options{.cuda = mode.options, .steps = 2};
  options.tamper = [&](GpuApi& api) {
    injection.into(api.cuda);
    injection.into(api.nccl);
  };
  const TransformerFaults faults{.cublaslt = [&](CublasLtTable& table) { injection.into(table); },
                                 .cudnn = [&](CudnnTable& table) { injection.into(table); },
                                 .cudnn_options = HostCudnnOptions()};
  const auto make = [&](const GpuApi& api) { return fake_transformer(gpu, api, config_of(mode), faults); };
  const auto result = run_kernels_on_fake(gpu, program_of(mode.trains), make, options);
  EXPECT_EQ(left_by(gpu), "");
  EXPECT_EQ(faults.cudnn_books->live, 0);
  EXPECT_EQ(faults.cudnn_books->double_free, 0);
  if (!result) return to_string(result.error());
  EXPECT_EQ(result->outcome, RunOutcome::finished);
  return "";
}

/// The name of the error in the library that a symbol belongs to.
std::string error_name(const std::string& symbol) {
  if (symbol.starts_with("cudnn")) return "CUDNN_STATUS_EXECUTION_FAILED";
  if (symbol.starts_with("cublasLt")) return "CUBLAS_STATUS_EXECUTION_FAILED";
  return symbol.starts_with("nccl") ? "NCCL error 214" : "CUDA_ERROR_ECC_UNCORRECTABLE";
}

/// Calls that concern no rank or device of their own.
bool is_of_all(const std::string& symbol) {
  return symbol == "cuDeviceGetCount" || symbol == "ncclGetUniqueId" || symbol == "ncclGroupStart" ||
         symbol == "ncclGroupEnd" || symbol == "ncclGetVersion";
}

/// The message before any rank begins.
constexpr const char* kNotToBeHad = "attention by cuDNN was asked for and cannot be had (found GEMMs: ";

class EveryCall : public testing::TestWithParam<Mode> {};

TEST_P(EveryCall, ThatFailsIsNamedAndLeavesNothingBehind) {
  Injection none({});
  ASSERT_EQ(message(GetParam(), none), "");
  for (const auto& [symbol, calls] : none.calls()) {
    if (!symbol.starts_with(GetParam().symbols)) continue;
    for (const int number : std::set<int>{1, (calls + 1) / 2, calls}) {
      for (const bool sticky : {false, true}) {
        SCOPED_TRACE(symbol + " number " + std::to_string(number) + (sticky ? " and all after it" : ""));
        Injection injection({symbol, number, kEccUncorrectable, sticky});
        const std::string text = message(GetParam(), injection);
        if (Injection::gives_back(symbol)) continue;  // its object is destroyed anyway
        EXPECT_NE(text.find(error_name(symbol)), std::string::npos) << text;
        if (is_of_all(symbol) || text.starts_with(kNotToBeHad)) continue;
        EXPECT_TRUE(text.starts_with("rank ") || text.starts_with("device ")) << text;
      }
    }
  }
}

const CudaOptions kStreamed = {.host_threads = false};
const CudaOptions kGraphs = {.graphs = true, .host_threads = false};
const CudaOptions kCopies = {.transport = CudaTransport::copy, .host_threads = false};
const CudaOptions kCopiesInAGraph = {.transport = CudaTransport::copy, .graphs = true, .host_threads = false};
INSTANTIATE_TEST_SUITE_P(GpuFaults, EveryCall,
                         testing::Values(Mode{"streamed", kStreamed}, Mode{"graphs", kGraphs},
                                         Mode{"copies", kCopies}, Mode{"copies_as_graphs", kCopiesInAGraph},
                                         Mode{"products", kStreamed, false, Arithmetic::float32, "cublasLt"},
                                         Mode{"attention", kStreamed, false, Arithmetic::bf16, "cudnn"},
                                         Mode{"attention_as_graphs", kGraphs, false, Arithmetic::bf16,
                                              "cudnn"}),
                         [](const auto& one) { return one.param.name; });

/// The message of a run whose kernels or libraries are tampered with.
std::string tampered(const Mode& mode, const TransformerFaults& faults,
                     const FakeGpuOptions& machine = {.devices = 2}) {
  FakeGpu gpu(machine);
  const auto make = [&](const GpuApi& api) { return fake_transformer(gpu, api, config_of(mode), faults); };
  const auto result = run_kernels_on_fake(gpu, program_of(mode.trains), make, {.cuda = mode.options});
  EXPECT_EQ(left_by(gpu), "");
  return result ? "" : result.error().message;
}

TEST(GpuFaults, AKernelThatCannotBeLaunchedNamesItsActionAndTheError) {
  constexpr int kLaunchFailed = 719;
  const TransformerFaults faults{.kernels = [](cuda::KernelTable& kernels) {
    kernels.loss = [](void*, cuda::Stored, const cuda::Loss&) { return kLaunchFailed; };
  }};
  for (const CudaOptions& options : {kStreamed, kGraphs}) {
    EXPECT_EQ(tampered({"", options}, faults),
              "rank 1: 1F0: launching the loss: CUDA_ERROR_LAUNCH_FAILED, unspecified launch failure");
  }
}

TEST(GpuFaults, AFullDeviceSaysWhatWasAskedForAndWhatIsFree) {
  const Mode mode{"", kStreamed};
  EXPECT_EQ(tampered(mode, {}, {.devices = 2, .memory = 5000}),
            "rank 0: allocating 29312 bytes for its pool on a device with 5000 of 5000 bytes free: "
            "CUDA_ERROR_OUT_OF_MEMORY, out of memory");
  const Mode products{"", kStreamed, false, Arithmetic::float32};
  const std::string text = tampered(products, {}, {.devices = 2, .memory = std::size_t{1} << 20});
  EXPECT_TRUE(text.starts_with(
      "rank 0: opening its stages: allocating 33554432 bytes for cuBLASLt's workspace on a "))
      << text;
}

TEST(GpuFaults, AMissingLibraryOfTheModelIsNamed) {
  const TransformerFaults faults{
      .cublaslt = [](CublasLtTable& table) { table = load_cublaslt("/nowhere/libcublasLt.so.13"); }};
  const Mode mode{"", kStreamed, false, Arithmetic::float32};
  const std::string text = tampered(mode, faults);
  EXPECT_TRUE(
      text.starts_with("rank 0: opening its stages: the transformer on a GPU needs "
                       "/nowhere/libcublasLt.so.13: "))
      << text;
}

TEST(GpuFaults, AMissingCudnnThatWasAskedForIsNamed) {
  const TransformerFaults faults{
      .cudnn = [](CudnnTable& table) { table = load_cudnn("/nowhere/libcudnn.so.9"); },
      .cudnn_options = HostCudnnOptions()};
  const Mode mode{"", kStreamed, false, Arithmetic::bf16};
  FakeGpu gpu({.devices = 2});
  const auto make = [&](const GpuApi& api) { return fake_transformer(gpu, api, config_of(mode), faults); };
  const auto result = run_kernels_on_fake(gpu, program_of(false), make, {.cuda = kStreamed});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::bad_argument);
  const std::string text = to_string(result.error());
  EXPECT_TRUE(
      text.starts_with(std::string(kNotToBeHad) + "attention by cuDNN needs /nowhere/libcudnn.so.9: "))
      << text;
  EXPECT_NE(text.find("(set PPSIM_CUDNN_LIBRARY to the path of another one)"), std::string::npos) << text;
}

/// One of two host threads fails while the other one waits for the device, which it would for ten minutes.
TEST(GpuFaults, AHostThreadThatFailsEndsTheOthers) {
  ProgramDraft draft = to_draft(program_of(false));
  for (auto& instruction : draft.rows[RankId(1)]) instruction.blocking = true;
  const Program program = ProgramBuilder::build(program_of(false).pipeline(), draft).value();
  FakeGpu gpu({.devices = 2, .jumps = false});
  const TransformerFaults faults{.kernels = [](cuda::KernelTable& kernels) {
    kernels.gate = [](void*, cuda::Stored, const cuda::Gate&) { return kEccUncorrectable; };
  }};
  const auto make = [&](const GpuApi& api) { return fake_transformer(gpu, api, config_of({}), faults); };
  const auto result = run_kernels_on_fake(gpu, program, make, {.cuda = {.host_threads = true}});
  EXPECT_EQ(left_by(gpu), "");
  ASSERT_FALSE(result);
  EXPECT_TRUE(result.error().message.starts_with("rank 0: 0F0: launching the gate of an MLP: CUDA_ERROR_ECC"))
      << result.error().message;
}

}  // namespace
}  // namespace ppsim::test
