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
static_assert(sizeof(NcclConfig) <= sizeof(ncclConfig_t));  // later versions have more after it
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

#define PPSIM_VALUE(space, name, value, symbol) static_assert(space::name == symbol);
#include "device/cuda/cudnn_values.def"
#undef PPSIM_VALUE

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
