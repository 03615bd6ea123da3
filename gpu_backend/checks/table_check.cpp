// Compiles only where our declarations of foreign calls, values and structures are those of the real headers.

#include <cublasLt.h>
#include <cuda.h>
#include <nccl.h>

#include <cstddef>
#include <type_traits>

#include "cuda/cublaslt_table.hpp"
#include "cuda/cuda_table.hpp"
#include "cuda/nccl_table.hpp"

namespace {

// Two types that a call passes alike: the same one, two pointers, or integers (an enum is one) of one size.
template <class A>
constexpr bool kIntegral = std::is_integral_v<A> || std::is_enum_v<A>;
template <class A, class B>
constexpr bool kAlike = std::is_same_v<A, B> || (std::is_pointer_v<A> && std::is_pointer_v<B>) ||
                        (kIntegral<A> && kIntegral<B> && sizeof(A) == sizeof(B)) ||
                        (std::is_class_v<A> && std::is_class_v<B> && sizeof(A) == sizeof(B) &&
                         alignof(A) == alignof(B));

template <class A, class B>
struct SameCall : std::false_type {};
template <class RA, class... A, class RB, class... B>
requires(sizeof...(A) == sizeof...(B)) struct SameCall<RA(A...), RB(B...)>
    : std::bool_constant<kAlike<RA, RB> && (true && ... && kAlike<A, B>)> {
};

}  // namespace

namespace ppsim {

#define PPSIM_CALL(name, symbol, result, parameters)                                            \
  static_assert(SameCall<result parameters, std::remove_pointer_t<decltype(&::symbol)>>::value, \
                "the table's signature differs from the header's");
#include "cuda/cublaslt_table.def"
#include "cuda/cuda_table.def"
#include "cuda/nccl_table.def"
#undef PPSIM_CALL

static_assert(kCudaSuccess == CUDA_SUCCESS && kCudaOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(kCudaNoDevice == CUDA_ERROR_NO_DEVICE && kCudaNotReady == CUDA_ERROR_NOT_READY);
static_assert(kCudaPeerAlreadyEnabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
static_assert(kCudaNoSuchResources == CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
static_assert(offsetof(CudaResource, smallest_part) ==
              offsetof(CUdevResource, sm) + offsetof(CUdevSmResource, minSmPartitionSize));
static_assert(offsetof(CudaResource, alignment) ==
              offsetof(CUdevResource, sm) + offsetof(CUdevSmResource, smCoscheduledAlignment));
static_assert(kCudaStreamNonBlocking == CU_STREAM_NON_BLOCKING && kCudaEventDefault == CU_EVENT_DEFAULT);
static_assert(kCudaEventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(kCudaEventRecordExternal == CU_EVENT_RECORD_EXTERNAL);
static_assert(kCudaCaptureThreadLocal == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
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
static_assert(sizeof(NcclConfig) == sizeof(ncclConfig_t));
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

}  // namespace ppsim
