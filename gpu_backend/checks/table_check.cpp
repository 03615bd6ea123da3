// Compiles only where our declarations of foreign calls, values and structures are those of the real headers:
// of the toolkit in use, CUDA 12.8 or later, and with -fsyntax-only and -isystem those of any other.

#include <cublasLt.h>
#include <cuda.h>
#include <nccl.h>

#if __has_include(<cudnn.h>)
#include <cudnn.h>
#endif

#include <cstddef>
#include <type_traits>

#include "device/cuda/cublaslt_table.hpp"
#include "device/cuda/cuda_table.hpp"
#include "device/cuda/cudnn_table.hpp"
#include "transport/nccl/nccl_table.hpp"

namespace {

// Two types that a call passes alike: the same one, two pointers, or integers (an enum is one) of one size.
template <class A>
constexpr bool kIntegral = std::is_integral_v<A> || std::is_enum_v<A>;
template <class A, class B>
constexpr bool kAlike = std::is_same_v<A, B> || (std::is_pointer_v<A> && std::is_pointer_v<B>) ||
                        (kIntegral<A> && kIntegral<B> && sizeof(A) == sizeof(B)) ||
                        (std::is_class_v<A> && std::is_class_v<B> && sizeof(A) == sizeof(B) &&
                         alignof(A) == alignof(B));
template <>
constexpr bool kAlike<void, void> = true;

template <class A, class B>
struct SameCall : std::false_type {};
template <class RA, class... A, class RB, class... B>
requires(sizeof...(A) == sizeof...(B)) struct SameCall<RA(A...), RB(B...)>
    : std::bool_constant<kAlike<RA, RB> && (true && ... && kAlike<A, B>)> {
};

}  // namespace

namespace ppsim::gpu_backend {

#define PPSIM_CALL(name, symbol, result, parameters)                                            \
  static_assert(SameCall<result parameters, std::remove_pointer_t<decltype(&::symbol)>>::value, \
                "the table's signature differs from the header's");
#include "device/cuda/cublaslt_table.def"
#include "device/cuda/cuda_table.def"
#include "transport/nccl/nccl_table.def"
#undef PPSIM_CALL

static_assert(kCudaSuccess == CUDA_SUCCESS && kCudaOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(kCudaNoDevice == CUDA_ERROR_NO_DEVICE && kCudaNotReady == CUDA_ERROR_NOT_READY);
static_assert(kCudaPeerAlreadyEnabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
static_assert(kCudaNoSuchResources == CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
#if CUDA_VERSION >= 13000  // before, a driver leaves both 0
static_assert(offsetof(CudaResource, smallest_part) ==
              offsetof(CUdevResource, sm) + offsetof(CUdevSmResource, minSmPartitionSize));
static_assert(offsetof(CudaResource, alignment) ==
              offsetof(CUdevResource, sm) + offsetof(CUdevSmResource, smCoscheduledAlignment));
#endif
static_assert(kCudaStreamNonBlocking == CU_STREAM_NON_BLOCKING && kCudaEventDefault == CU_EVENT_DEFAULT);
static_assert(kCudaEventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(kCudaEventInterprocess == CU_EVENT_INTERPROCESS);
static_assert(kCudaIpcLazyPeerAccess == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
static_assert(sizeof(CudaIpcHandle) == sizeof(CUipcMemHandle));
static_assert(sizeof(CudaIpcHandle) == sizeof(CUipcEventHandle));
static_assert(kCudaEventRecordExternal == CU_EVENT_RECORD_EXTERNAL);
static_assert(kCudaCaptureThreadLocal == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
static_assert(kCudaGraphUseNodePriority == CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
static_assert(kCudaWaitValueGeq == CU_STREAM_WAIT_VALUE_GEQ);
static_assert(kCudaGreenDefaultStream == CU_GREEN_CTX_DEFAULT_STREAM);
static_assert(kCudaResourceMultiprocessors == CU_DEV_RESOURCE_TYPE_SM);
static_assert(kCudaAttributeMultiprocessors == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(kCudaAttributeMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(kCudaAttributeMinor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(sizeof(CudaResource) == sizeof(CUdevResource));
static_assert(offsetof(CudaResource, multiprocessors) == offsetof(CUdevResource, sm));

static_assert(kNcclSuccess == ncclSuccess && kNcclInvalidUsage == ncclInvalidUsage);
static_assert(kNcclInProgress == ncclInProgress && kNcclNoColor == NCCL_SPLIT_NOCOLOR);
static_assert(kNcclSum == ncclSum && kNcclUint8 == ncclUint8 && kNcclUint64 == ncclUint64);
static_assert(kNcclFloat32 == ncclFloat32 && kNcclFloat64 == ncclFloat64 && kNcclBfloat16 == ncclBfloat16);
static_assert(sizeof(NcclConfig) <= sizeof(ncclConfig_t));  // later versions have more behind it
static_assert(offsetof(NcclConfig, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(offsetof(NcclConfig, max_ctas) == offsetof(ncclConfig_t, maxCTAs));
static_assert(offsetof(NcclConfig, net_name) == offsetof(ncclConfig_t, netName));
static_assert(offsetof(NcclConfig, split_share) == offsetof(ncclConfig_t, splitShare));
static_assert(offsetof(NcclConfig, name) == offsetof(ncclConfig_t, commName));
static_assert(offsetof(NcclConfig, nvlink_centric) == offsetof(ncclConfig_t, nvlinkCentricSched));

static_assert(kCublasSuccess == CUBLAS_STATUS_SUCCESS && kCublasComputeFloat32 == CUBLAS_COMPUTE_32F);
static_assert(kCudaTypeFloat32 == CUDA_R_32F && kCudaTypeBfloat16 == CUDA_R_16BF);
static_assert(kCudaTypeFloat8E5M2 == CUDA_R_8F_E5M2);
static_assert(kCudaTypeFloat8E4M3 == CUDA_R_8F_E4M3 && kCublasTranspose == CUBLAS_OP_T);
static_assert(kCublasLtTransposeA == CUBLASLT_MATMUL_DESC_TRANSA);
static_assert(kCublasLtTransposeB == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(kCublasLtMultiprocessors == CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET);
static_assert(kCublasLtScaleA == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER);
static_assert(kCublasLtScaleB == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER);
static_assert(kCublasLtBatchCount == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
static_assert(kCublasLtBatchStride == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
static_assert(kCublasLtLargestWorkspace == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(kCublasLtSmallestAlignments[0] == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
static_assert(kCublasLtSmallestAlignments[1] == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
static_assert(kCublasLtSmallestAlignments[2] == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
static_assert(kCublasLtSmallestAlignments[3] == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(sizeof(CublasLtAlgorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(CublasLtChoice) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(CublasLtChoice, workspace_bytes) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(CublasLtChoice, status) == offsetof(cublasLtMatmulHeuristicResult_t, state));

// cuDNN is optional, and so is its header.
#if __has_include(<cudnn.h>)
#define PPSIM_CALL(name, symbol, result, parameters)                                            \
  static_assert(SameCall<result parameters, std::remove_pointer_t<decltype(&::symbol)>>::value, \
                "the table's signature differs from the header's");
#include "device/cuda/cudnn_table.def"
#undef PPSIM_CALL

static_assert(kCudnnSuccess == CUDNN_STATUS_SUCCESS && kCudnnNotSupported == CUDNN_STATUS_NOT_SUPPORTED);
static_assert(kCudnnFloat32 == CUDNN_DATA_FLOAT && kCudnnInt32 == CUDNN_DATA_INT32);
static_assert(kCudnnBfloat16 == CUDNN_DATA_BFLOAT16 && kCudnnBoolean == CUDNN_DATA_BOOLEAN);
static_assert(kCudnnHeuristicModeA == CUDNN_HEUR_MODE_A);
static_assert(kCudnnNoteNondeterministic == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);

static_assert(cudnn_object::kPointwise == CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
static_assert(cudnn_object::kEngine == CUDNN_BACKEND_ENGINE_DESCRIPTOR);
static_assert(cudnn_object::kEngineConfig == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
static_assert(cudnn_object::kHeuristics == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
static_assert(cudnn_object::kPlan == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
static_assert(cudnn_object::kPointwiseOperation == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
static_assert(cudnn_object::kGraph == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
static_assert(cudnn_object::kArguments == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
static_assert(cudnn_object::kTensor == CUDNN_BACKEND_TENSOR_DESCRIPTOR);
static_assert(cudnn_object::kMatmul == CUDNN_BACKEND_MATMUL_DESCRIPTOR);
static_assert(cudnn_object::kMatmulOperation == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
static_assert(cudnn_object::kReduction == CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
static_assert(cudnn_object::kReductionOperation == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
static_assert(cudnn_object::kReshapeOperation == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
static_assert(cudnn_object::kDevice == CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);

static_assert(cudnn_type::kHandle == CUDNN_TYPE_HANDLE);
static_assert(cudnn_type::kDataType == CUDNN_TYPE_DATA_TYPE);
static_assert(cudnn_type::kBoolean == CUDNN_TYPE_BOOLEAN);
static_assert(cudnn_type::kInt64 == CUDNN_TYPE_INT64);
static_assert(cudnn_type::kPointer == CUDNN_TYPE_VOID_PTR);
static_assert(cudnn_type::kHeuristicMode == CUDNN_TYPE_HEUR_MODE);
static_assert(cudnn_type::kNumericalNote == CUDNN_TYPE_NUMERICAL_NOTE);
static_assert(cudnn_type::kPointwiseMode == CUDNN_TYPE_POINTWISE_MODE);
static_assert(cudnn_type::kObject == CUDNN_TYPE_BACKEND_DESCRIPTOR);
static_assert(cudnn_type::kReductionOperator == CUDNN_TYPE_REDUCTION_OPERATOR_TYPE);
static_assert(cudnn_type::kInt32 == CUDNN_TYPE_INT32);
static_assert(cudnn_type::kChar == CUDNN_TYPE_CHAR);

static_assert(cudnn_attribute::kPointwiseMode == CUDNN_ATTR_POINTWISE_MODE);
static_assert(cudnn_attribute::kPointwisePrecision == CUDNN_ATTR_POINTWISE_MATH_PREC);
static_assert(cudnn_attribute::kPointwiseAxis == CUDNN_ATTR_POINTWISE_AXIS);
static_assert(cudnn_attribute::kHeuristicsMode == CUDNN_ATTR_ENGINEHEUR_MODE);
static_assert(cudnn_attribute::kHeuristicsGraph == CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
static_assert(cudnn_attribute::kHeuristicsResults == CUDNN_ATTR_ENGINEHEUR_RESULTS);
static_assert(cudnn_attribute::kHeuristicsDevice == CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
static_assert(cudnn_attribute::kConfigEngine == CUDNN_ATTR_ENGINECFG_ENGINE);
static_assert(cudnn_attribute::kPlanHandle == CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
static_assert(cudnn_attribute::kPlanConfig == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
static_assert(cudnn_attribute::kPlanWorkspace == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
static_assert(cudnn_attribute::kPlanDevice == CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
static_assert(cudnn_attribute::kPointwiseDescription == CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
static_assert(cudnn_attribute::kPointwiseX == CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
static_assert(cudnn_attribute::kPointwiseB == CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
static_assert(cudnn_attribute::kPointwiseY == CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
static_assert(cudnn_attribute::kPointwiseT == CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
static_assert(cudnn_attribute::kGraphHandle == CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
static_assert(cudnn_attribute::kGraphOperations == CUDNN_ATTR_OPERATIONGRAPH_OPS);
static_assert(cudnn_attribute::kTensorAlignment == CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
static_assert(cudnn_attribute::kTensorType == CUDNN_ATTR_TENSOR_DATA_TYPE);
static_assert(cudnn_attribute::kTensorDimensions == CUDNN_ATTR_TENSOR_DIMENSIONS);
static_assert(cudnn_attribute::kTensorStrides == CUDNN_ATTR_TENSOR_STRIDES);
static_assert(cudnn_attribute::kTensorId == CUDNN_ATTR_TENSOR_UNIQUE_ID);
static_assert(cudnn_attribute::kTensorIsVirtual == CUDNN_ATTR_TENSOR_IS_VIRTUAL);
static_assert(cudnn_attribute::kTensorIsByValue == CUDNN_ATTR_TENSOR_IS_BY_VALUE);
static_assert(cudnn_attribute::kArgumentIds == CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
static_assert(cudnn_attribute::kArgumentPointers == CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
static_assert(cudnn_attribute::kArgumentWorkspace == CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
static_assert(cudnn_attribute::kEngineIndex == CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
static_assert(cudnn_attribute::kEngineNotes == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
static_assert(cudnn_attribute::kMatmulPrecision == CUDNN_ATTR_MATMUL_COMP_TYPE);
static_assert(cudnn_attribute::kMatmulA == CUDNN_ATTR_OPERATION_MATMUL_ADESC);
static_assert(cudnn_attribute::kMatmulB == CUDNN_ATTR_OPERATION_MATMUL_BDESC);
static_assert(cudnn_attribute::kMatmulC == CUDNN_ATTR_OPERATION_MATMUL_CDESC);
static_assert(cudnn_attribute::kMatmulDescription == CUDNN_ATTR_OPERATION_MATMUL_DESC);
static_assert(cudnn_attribute::kReductionOperator == CUDNN_ATTR_REDUCTION_OPERATOR);
static_assert(cudnn_attribute::kReductionPrecision == CUDNN_ATTR_REDUCTION_COMP_TYPE);
static_assert(cudnn_attribute::kReductionX == CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
static_assert(cudnn_attribute::kReductionY == CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
static_assert(cudnn_attribute::kReductionDescription == CUDNN_ATTR_OPERATION_REDUCTION_DESC);
static_assert(cudnn_attribute::kReshapeX == CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
static_assert(cudnn_attribute::kReshapeY == CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
static_assert(cudnn_attribute::kDeviceOrdinal == CUDNN_ATTR_DEVICEPROP_DEVICE_ID);
static_assert(cudnn_attribute::kDeviceJson == CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);

static_assert(static_cast<int>(CudnnPointwise::add) == CUDNN_POINTWISE_ADD);
static_assert(static_cast<int>(CudnnPointwise::multiply) == CUDNN_POINTWISE_MUL);
static_assert(static_cast<int>(CudnnPointwise::divide) == CUDNN_POINTWISE_DIV);
static_assert(static_cast<int>(CudnnPointwise::subtract) == CUDNN_POINTWISE_SUB);
static_assert(static_cast<int>(CudnnPointwise::exponential) == CUDNN_POINTWISE_EXP);
static_assert(static_cast<int>(CudnnPointwise::logarithm) == CUDNN_POINTWISE_LOG);
static_assert(static_cast<int>(CudnnPointwise::greater_or_equal) == CUDNN_POINTWISE_CMP_GE);
static_assert(static_cast<int>(CudnnPointwise::index) == CUDNN_POINTWISE_GEN_INDEX);
static_assert(static_cast<int>(CudnnPointwise::select) == CUDNN_POINTWISE_BINARY_SELECT);
static_assert(static_cast<int>(CudnnReduction::sum) == CUDNN_REDUCE_TENSOR_ADD);
static_assert(static_cast<int>(CudnnReduction::largest) == CUDNN_REDUCE_TENSOR_MAX);
#endif

}  // namespace ppsim::gpu_backend
