#pragma once

#include <cstdint>

#include "device/cuda/cudnn_table.hpp"

namespace ppsim::test {

using namespace gpu_backend;

inline constexpr std::int64_t kAny = -1;

/// The attributes that a kind of object may have.
struct CudnnRule {
  int object;
  int attribute;
  int type;
  std::int64_t count;    ///< of values; kAny: one or more
  bool required = true;  ///< before the object is finished
};
inline constexpr CudnnRule kCudnnRules[] = {
    {cudnn_object::kTensor, cudnn_attribute::kTensorId, cudnn_type::kInt64, 1},
    {cudnn_object::kTensor, cudnn_attribute::kTensorType, cudnn_type::kDataType, 1},
    {cudnn_object::kTensor, cudnn_attribute::kTensorDimensions, cudnn_type::kInt64, 4},
    {cudnn_object::kTensor, cudnn_attribute::kTensorStrides, cudnn_type::kInt64, 4},
    {cudnn_object::kTensor, cudnn_attribute::kTensorAlignment, cudnn_type::kInt64, 1},
    {cudnn_object::kTensor, cudnn_attribute::kTensorIsVirtual, cudnn_type::kBoolean, 1, false},
    {cudnn_object::kTensor, cudnn_attribute::kTensorIsByValue, cudnn_type::kBoolean, 1, false},
    {cudnn_object::kPointwise, cudnn_attribute::kPointwiseMode, cudnn_type::kPointwiseMode, 1},
    {cudnn_object::kPointwise, cudnn_attribute::kPointwisePrecision, cudnn_type::kDataType, 1},
    {cudnn_object::kPointwise, cudnn_attribute::kPointwiseAxis, cudnn_type::kInt64, 1, false},
    {cudnn_object::kPointwiseOperation, cudnn_attribute::kPointwiseDescription, cudnn_type::kObject, 1},
    {cudnn_object::kPointwiseOperation, cudnn_attribute::kPointwiseX, cudnn_type::kObject, 1},
    {cudnn_object::kPointwiseOperation, cudnn_attribute::kPointwiseB, cudnn_type::kObject, 1, false},
    {cudnn_object::kPointwiseOperation, cudnn_attribute::kPointwiseT, cudnn_type::kObject, 1, false},
    {cudnn_object::kPointwiseOperation, cudnn_attribute::kPointwiseY, cudnn_type::kObject, 1},
    {cudnn_object::kMatmul, cudnn_attribute::kMatmulPrecision, cudnn_type::kDataType, 1},
    {cudnn_object::kMatmulOperation, cudnn_attribute::kMatmulA, cudnn_type::kObject, 1},
    {cudnn_object::kMatmulOperation, cudnn_attribute::kMatmulB, cudnn_type::kObject, 1},
    {cudnn_object::kMatmulOperation, cudnn_attribute::kMatmulC, cudnn_type::kObject, 1},
    {cudnn_object::kMatmulOperation, cudnn_attribute::kMatmulDescription, cudnn_type::kObject, 1},
    {cudnn_object::kReduction, cudnn_attribute::kReductionOperator, cudnn_type::kReductionOperator, 1},
    {cudnn_object::kReduction, cudnn_attribute::kReductionPrecision, cudnn_type::kDataType, 1},
    {cudnn_object::kReductionOperation, cudnn_attribute::kReductionX, cudnn_type::kObject, 1},
    {cudnn_object::kReductionOperation, cudnn_attribute::kReductionY, cudnn_type::kObject, 1},
    {cudnn_object::kReductionOperation, cudnn_attribute::kReductionDescription, cudnn_type::kObject, 1},
    {cudnn_object::kReshapeOperation, cudnn_attribute::kReshapeX, cudnn_type::kObject, 1},
    {cudnn_object::kReshapeOperation, cudnn_attribute::kReshapeY, cudnn_type::kObject, 1},
    {cudnn_object::kGraph, cudnn_attribute::kGraphOperations, cudnn_type::kObject, kAny},
    {cudnn_object::kGraph, cudnn_attribute::kGraphHandle, cudnn_type::kHandle, 1, false},
    {cudnn_object::kHeuristics, cudnn_attribute::kHeuristicsGraph, cudnn_type::kObject, 1},
    {cudnn_object::kHeuristics, cudnn_attribute::kHeuristicsMode, cudnn_type::kHeuristicMode, 1},
    {cudnn_object::kHeuristics, cudnn_attribute::kHeuristicsDevice, cudnn_type::kObject, 1, false},
    {cudnn_object::kPlan, cudnn_attribute::kPlanConfig, cudnn_type::kObject, 1},
    {cudnn_object::kPlan, cudnn_attribute::kPlanHandle, cudnn_type::kHandle, 1, false},
    {cudnn_object::kPlan, cudnn_attribute::kPlanDevice, cudnn_type::kObject, 1, false},
    {cudnn_object::kDevice, cudnn_attribute::kDeviceOrdinal, cudnn_type::kInt32, 1, false},
    {cudnn_object::kDevice, cudnn_attribute::kDeviceJson, cudnn_type::kChar, kAny, false},
    {cudnn_object::kArguments, cudnn_attribute::kArgumentIds, cudnn_type::kInt64, kAny},
    {cudnn_object::kArguments, cudnn_attribute::kArgumentPointers, cudnn_type::kPointer, kAny},
    {cudnn_object::kArguments, cudnn_attribute::kArgumentWorkspace, cudnn_type::kPointer, 1}};

}  // namespace ppsim::test
