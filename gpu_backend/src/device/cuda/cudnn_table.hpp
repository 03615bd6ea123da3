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

/// cudnnBackendDescriptorType_t: the kind of an object.
namespace cudnn_object {
inline constexpr int kPointwise = 0;
inline constexpr int kEngine = 2;
inline constexpr int kEngineConfig = 3;
inline constexpr int kHeuristics = 4;
inline constexpr int kPlan = 5;
inline constexpr int kPointwiseOperation = 13;
inline constexpr int kGraph = 15;
inline constexpr int kArguments = 16;
inline constexpr int kTensor = 17;
inline constexpr int kMatmul = 18;
inline constexpr int kMatmulOperation = 19;
inline constexpr int kReduction = 21;
inline constexpr int kReductionOperation = 22;
inline constexpr int kReshapeOperation = 31;
inline constexpr int kDevice = 38;
}  // namespace cudnn_object

/// cudnnBackendAttributeType_t: the type of an attribute's values.
namespace cudnn_type {
inline constexpr int kHandle = 0;
inline constexpr int kDataType = 1;
inline constexpr int kBoolean = 2;
inline constexpr int kInt64 = 3;
inline constexpr int kPointer = 6;
inline constexpr int kHeuristicMode = 8;
inline constexpr int kNumericalNote = 11;
inline constexpr int kPointwiseMode = 14;
inline constexpr int kObject = 15;
inline constexpr int kReductionOperator = 18;
inline constexpr int kInt32 = 23;
inline constexpr int kChar = 24;
}  // namespace cudnn_type

/// cudnnBackendAttributeName_t.
namespace cudnn_attribute {
inline constexpr int kPointwiseMode = 0;
inline constexpr int kPointwisePrecision = 1;
inline constexpr int kPointwiseAxis = 9;
inline constexpr int kHeuristicsMode = 200;
inline constexpr int kHeuristicsGraph = 201;
inline constexpr int kHeuristicsResults = 202;
inline constexpr int kHeuristicsDevice = 204;
inline constexpr int kConfigEngine = 300;
inline constexpr int kPlanHandle = 400;
inline constexpr int kPlanConfig = 401;
inline constexpr int kPlanWorkspace = 402;
inline constexpr int kPlanDevice = 407;
inline constexpr int kPointwiseDescription = 750;
inline constexpr int kPointwiseX = 751;
inline constexpr int kPointwiseB = 752;
inline constexpr int kPointwiseY = 753;
inline constexpr int kPointwiseT = 758;
inline constexpr int kGraphHandle = 800;
inline constexpr int kGraphOperations = 801;
inline constexpr int kTensorAlignment = 900;
inline constexpr int kTensorType = 901;
inline constexpr int kTensorDimensions = 902;
inline constexpr int kTensorStrides = 903;
inline constexpr int kTensorId = 906;
inline constexpr int kTensorIsVirtual = 907;
inline constexpr int kTensorIsByValue = 908;
inline constexpr int kArgumentIds = 1000;
inline constexpr int kArgumentPointers = 1001;
inline constexpr int kArgumentWorkspace = 1003;
inline constexpr int kEngineIndex = 1301;
inline constexpr int kEngineNotes = 1303;
inline constexpr int kMatmulPrecision = 1500;
inline constexpr int kMatmulA = 1520;
inline constexpr int kMatmulB = 1521;
inline constexpr int kMatmulC = 1522;
inline constexpr int kMatmulDescription = 1523;
inline constexpr int kReductionOperator = 1600;
inline constexpr int kReductionPrecision = 1601;
inline constexpr int kReductionX = 1610;
inline constexpr int kReductionY = 1611;
inline constexpr int kReductionDescription = 1612;
inline constexpr int kReshapeX = 2200;
inline constexpr int kReshapeY = 2201;
inline constexpr int kDeviceOrdinal = 2700;
inline constexpr int kDeviceJson = 2702;
}  // namespace cudnn_attribute

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
