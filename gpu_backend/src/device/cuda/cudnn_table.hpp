#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

struct cudnnContext;
struct CUstream_st;

namespace ppsim::gpu_backend {

/// Values of cudnn_graph.h, compared with them by gpu_backend/checks/table_check.cpp.
inline constexpr int kCudnnSuccess = 0;
inline constexpr int kCudnnNotSupported = 3000;  ///< and what follows it up to 3999

/// cudnnDataType_t.
inline constexpr int kCudnnFloat32 = 0;
inline constexpr int kCudnnInt32 = 4;
inline constexpr int kCudnnBfloat16 = 9;
inline constexpr int kCudnnBoolean = 11;

/// Kinds of objects, types of attributes and their names.
// NOLINTBEGIN(bugprone-macro-parentheses): a name in a declaration takes none
#define PPSIM_VALUE(space, name, value, symbol) \
  namespace space {                             \
  inline constexpr int name = value;            \
  }
// NOLINTEND(bugprone-macro-parentheses)
#include "cudnn_values.def"
#undef PPSIM_VALUE

/// cudnnPointwiseMode_t: y = x op b; of select, y = t ? x : b.
enum class CudnnPointwise : int {
  add = 0,
  multiply = 1,
  divide = 6,
  subtract = 9,
  exponential = 13,
  logarithm = 15,
  greater_or_equal = 303,
  index = 501,
  select = 601,
};
/// cudnnReduceTensorOp_t.
enum class CudnnReduction : int { sum = 0, largest = 3 };

inline constexpr int kCudnnHeuristicModeA = 3;
inline constexpr int kCudnnNoteNondeterministic = 4;

/// cuDNN as a table of calls: the library's own, or a test's. Objects are what its backend API calls
/// descriptors.
struct CudnnTable {
#define PPSIM_CALL(name, symbol, result, parameters) std::function<result parameters> name;
#include "cudnn_table.def"
#undef PPSIM_CALL
};

/// The path of the library that load_cudnn() opens, or its name. Errors: as there.
[[nodiscard]] std::string cudnn_file();
/// Fills a table from cuDNN. `path` empty: $PPSIM_CUDNN_LIBRARY, else libcudnn.so.9.
/// Errors: throws BackendError naming the library or the symbol that is missing.
[[nodiscard]] CudnnTable load_cudnn(const std::string& path = "");

/// Errors: throws BackendError with `what` and the text of a status that is no success.
void check_cudnn(const CudnnTable& cudnn, int status, std::string_view what);
/// "cuDNN 9.19.0".
[[nodiscard]] std::string cudnn_text(std::size_t version);

}  // namespace ppsim::gpu_backend
