#include "cudnn_graph.hpp"

#include <algorithm>
#include <utility>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"

namespace ppsim::gpu_backend::cuda {

CudnnObject CudnnObjects::make(int type) const {
  void* object = nullptr;
  check(cudnn_.object_create(type, &object));
  return {object, {&cudnn_}};
}

void CudnnObjects::set(void* object, int attribute, const CudnnValues& values) const {
  check(cudnn_.object_set(object, attribute, values.type, values.count, values.values));
}

std::int64_t CudnnObjects::get(void* object, int attribute, const CudnnRoom& room) const {
  std::int64_t count = 0;
  check(cudnn_.object_get(object, attribute, room.type, room.count, &count, room.values));
  return count;
}

TensorLayout TensorLayout::transposed() const {
  TensorLayout result = *this;
  std::swap(result.dimensions[2], result.dimensions[3]);
  std::swap(result.strides[2], result.strides[3]);
  return result;
}

void* CudnnGraph::own(int type) {
  owned_.push_back(objects_.make(type));
  return owned_.back().get();
}

GraphTensor CudnnGraph::tensor(std::int64_t id, const TensorLayout& layout, Storage storage) {
  void* const object = own(cudnn_object::kTensor);
  const bool is_virtual = storage == Storage::inner;
  const bool is_by_value = storage == Storage::host;
  constexpr auto kDimensions = static_cast<std::int64_t>(std::tuple_size_v<decltype(layout.dimensions)>);
  objects_.set(object, cudnn_attribute::kTensorId, cudnn_type::kInt64, id);
  objects_.set(object, cudnn_attribute::kTensorType, cudnn_type::kDataType, layout.type);
  objects_.set(object, cudnn_attribute::kTensorDimensions,
               {cudnn_type::kInt64, kDimensions, layout.dimensions.data()});
  objects_.set(object, cudnn_attribute::kTensorStrides,
               {cudnn_type::kInt64, kDimensions, layout.strides.data()});
  objects_.set(object, cudnn_attribute::kTensorAlignment, cudnn_type::kInt64, kAlignment);
  objects_.set(object, cudnn_attribute::kTensorIsVirtual, cudnn_type::kBoolean, is_virtual);
  objects_.set(object, cudnn_attribute::kTensorIsByValue, cudnn_type::kBoolean, is_by_value);
  objects_.finish(object);
  return {object, layout};
}

GraphTensor CudnnGraph::in_memory(std::int64_t id, const TensorLayout& layout) {
  return tensor(id, layout, Storage::device);
}
GraphTensor CudnnGraph::number(std::int64_t id) { return tensor(id, {}, Storage::host); }
GraphTensor CudnnGraph::inner(const TensorLayout& layout) {
  return tensor(next_inner_++, layout, Storage::inner);
}

void CudnnGraph::add(void* operation) {
  objects_.finish(operation);
  operations_.push_back(operation);
}

void CudnnGraph::pointwise(const PointwiseOperation& asked, const GraphTensor& y) {
  void* const description = own(cudnn_object::kPointwise);
  objects_.set(description, cudnn_attribute::kPointwiseMode, cudnn_type::kPointwiseMode, asked.mode);
  objects_.set(description, cudnn_attribute::kPointwisePrecision, cudnn_type::kDataType, asked.precision);
  if (asked.mode == CudnnPointwise::index)
    objects_.set(description, cudnn_attribute::kPointwiseAxis, cudnn_type::kInt64, asked.axis);
  objects_.finish(description);
  void* const operation = own(cudnn_object::kPointwiseOperation);
  objects_.set_object(operation, cudnn_attribute::kPointwiseDescription, description);
  objects_.set_object(operation, cudnn_attribute::kPointwiseX, asked.x.object);
  if (asked.b) objects_.set_object(operation, cudnn_attribute::kPointwiseB, asked.b->object);
  if (asked.t) objects_.set_object(operation, cudnn_attribute::kPointwiseT, asked.t->object);
  objects_.set_object(operation, cudnn_attribute::kPointwiseY, y.object);
  add(operation);
}

GraphTensor CudnnGraph::pointwise(const PointwiseOperation& asked) {
  TensorLayout layout = asked.x.layout;
  layout.type = asked.mode == CudnnPointwise::index              ? kCudnnInt32
                : asked.mode == CudnnPointwise::greater_or_equal ? kCudnnBoolean
                                                                 : kCudnnFloat32;
  const GraphTensor y = inner(layout);
  pointwise(asked, y);
  return y;
}

void CudnnGraph::multiply(const GraphTensor& a, const GraphTensor& b, const GraphTensor& c) {
  void* const description = own(cudnn_object::kMatmul);
  objects_.set(description, cudnn_attribute::kMatmulPrecision, cudnn_type::kDataType, kCudnnFloat32);
  objects_.finish(description);
  void* const operation = own(cudnn_object::kMatmulOperation);
  objects_.set_object(operation, cudnn_attribute::kMatmulA, a.object);
  objects_.set_object(operation, cudnn_attribute::kMatmulB, b.object);
  objects_.set_object(operation, cudnn_attribute::kMatmulC, c.object);
  objects_.set_object(operation, cudnn_attribute::kMatmulDescription, description);
  add(operation);
}

void CudnnGraph::reduce(CudnnReduction reduction, const GraphTensor& x, const GraphTensor& y) {
  void* const description = own(cudnn_object::kReduction);
  objects_.set(description, cudnn_attribute::kReductionOperator, cudnn_type::kReductionOperator, reduction);
  objects_.set(description, cudnn_attribute::kReductionPrecision, cudnn_type::kDataType, kCudnnFloat32);
  objects_.finish(description);
  void* const operation = own(cudnn_object::kReductionOperation);
  objects_.set_object(operation, cudnn_attribute::kReductionX, x.object);
  objects_.set_object(operation, cudnn_attribute::kReductionY, y.object);
  objects_.set_object(operation, cudnn_attribute::kReductionDescription, description);
  add(operation);
}

void CudnnGraph::reshape(const GraphTensor& x, const GraphTensor& y) {
  void* const operation = own(cudnn_object::kReshapeOperation);
  objects_.set_object(operation, cudnn_attribute::kReshapeX, x.object);
  objects_.set_object(operation, cudnn_attribute::kReshapeY, y.object);
  add(operation);
}

CudnnPlan::CudnnPlan(const CudnnObjects& objects, CudnnGraph graph, const CudnnTarget& target, int number)
    : objects_(objects), graph_(graph_of(graph.operations(), target)) {
  parts_ = std::move(graph).release();
  std::string refusal;
  for (CudnnObject& config : choices(graph_.get(), target)) {
    if (!is_deterministic(config.get())) continue;
    try {
      CudnnObject plan = plan_of(config.get(), target);
      if (number-- > 0) continue;
      plan_ = std::move(plan);
      config_ = std::move(config);
      break;
    } catch (const BackendError& failure) {
      if (failure.error().code != ErrorCode::bad_argument) throw;
      refusal = failure.error().message;
    }
  }
  if (!plan_) {
    throw BackendError(ErrorCode::bad_argument, refusal.empty() ? objects_.what() +
                                                                      ": cuDNN has no engine "
                                                                      "for it"
                                                                : refusal);
  }
  std::int64_t bytes = 0;
  objects_.get(plan_.get(), cudnn_attribute::kPlanWorkspace, {cudnn_type::kInt64, 1, &bytes});
  workspace_bytes_ = static_cast<std::size_t>(bytes);
}

CudnnObject CudnnPlan::graph_of(const std::vector<void*>& operations, const CudnnTarget& target) const {
  CudnnObject graph = objects_.make(cudnn_object::kGraph);
  objects_.set(graph.get(), cudnn_attribute::kGraphOperations,
               {cudnn_type::kObject, static_cast<std::int64_t>(operations.size()), operations.data()});
  if (target.handle != nullptr)
    objects_.set(graph.get(), cudnn_attribute::kGraphHandle, cudnn_type::kHandle, target.handle);
  objects_.finish(graph.get());
  return graph;
}

/// Engine configurations, the best one first.
std::vector<CudnnObject> CudnnPlan::choices(void* graph, const CudnnTarget& target) const {
  const CudnnObject heuristics = objects_.make(cudnn_object::kHeuristics);
  objects_.set_object(heuristics.get(), cudnn_attribute::kHeuristicsGraph, graph);
  objects_.set(heuristics.get(), cudnn_attribute::kHeuristicsMode, cudnn_type::kHeuristicMode,
               kCudnnHeuristicModeA);
  if (target.device != nullptr)
    objects_.set_object(heuristics.get(), cudnn_attribute::kHeuristicsDevice, target.device);
  objects_.finish(heuristics.get());
  const auto results = [&](std::int64_t most, void* values) {
    return objects_.get(heuristics.get(), cudnn_attribute::kHeuristicsResults,
                        {cudnn_type::kObject, most, values});
  };
  std::vector<CudnnObject> configs;
  std::vector<void*> filled;
  for (std::int64_t n = results(0, nullptr); n > 0; --n) {
    configs.push_back(objects_.make(cudnn_object::kEngineConfig));
    filled.push_back(configs.back().get());
  }
  if (!configs.empty()) {
    const auto found = static_cast<std::size_t>(
        results(static_cast<std::int64_t>(filled.size()), static_cast<void*>(filled.data())));
    configs.resize(std::min(found, configs.size()));
  }
  return configs;
}

bool CudnnPlan::is_deterministic(void* config) const {
  const CudnnObject engine = objects_.make(cudnn_object::kEngine);
  void* filled = engine.get();
  objects_.get(config, cudnn_attribute::kConfigEngine, {cudnn_type::kObject, 1, static_cast<void*>(&filled)});
  std::array<int, 32> notes{};
  const std::int64_t count = objects_.get(engine.get(), cudnn_attribute::kEngineNotes,
                                          {cudnn_type::kNumericalNote, notes.size(), notes.data()});
  const auto* const known = notes.data() + std::min<std::int64_t>(count, notes.size());
  return std::find(std::as_const(notes).data(), known, kCudnnNoteNondeterministic) == known;
}

CudnnObject CudnnPlan::plan_of(void* config, const CudnnTarget& target) const {
  CudnnObject plan = objects_.make(cudnn_object::kPlan);
  objects_.set_object(plan.get(), cudnn_attribute::kPlanConfig, config);
  if (target.handle != nullptr)
    objects_.set(plan.get(), cudnn_attribute::kPlanHandle, cudnn_type::kHandle, target.handle);
  if (target.device != nullptr) objects_.set_object(plan.get(), cudnn_attribute::kPlanDevice, target.device);
  objects_.finish(plan.get());
  return plan;
}

void CudnnPlan::execute(cudnnContext* handle, std::span<const CudnnArgument> arguments,
                        void* workspace) const {
  PPSIM_CHECK(arguments.size() <= kMaxArguments, "more tensors than any graph has");
  std::array<std::int64_t, kMaxArguments> ids{};
  std::array<const void*, kMaxArguments> pointers{};
  std::ranges::transform(arguments, ids.begin(), &CudnnArgument::id);
  std::ranges::transform(arguments, pointers.begin(), &CudnnArgument::memory);
  const auto count = static_cast<std::int64_t>(arguments.size());
  const CudnnObject pack = objects_.make(cudnn_object::kArguments);
  objects_.set(pack.get(), cudnn_attribute::kArgumentIds, {cudnn_type::kInt64, count, ids.data()});
  objects_.set(pack.get(), cudnn_attribute::kArgumentPointers,
               {cudnn_type::kPointer, count, static_cast<const void*>(pointers.data())});
  objects_.set(pack.get(), cudnn_attribute::kArgumentWorkspace, cudnn_type::kPointer, workspace);
  objects_.finish(pack.get());
  objects_.check(objects_.table().execute(handle, plan_.get(), pack.get()));
}

}  // namespace ppsim::gpu_backend::cuda
