#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>

#include "device/cuda/cublaslt_table.hpp"
#include "device/cuda/cudnn_table.hpp"
#include "device/cuda/gpu_api.hpp"

namespace ppsim::test {

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

}  // namespace ppsim::test
