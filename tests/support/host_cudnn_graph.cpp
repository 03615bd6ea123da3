#include "support/host_cudnn_graph.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <unordered_map>

#include "ppsim/core/ir/check.hpp"
#include "transformer/kernels/numbers.hpp"

namespace ppsim::test {

using namespace gpu_backend;
namespace {

using Place = std::array<std::int64_t, 4>;

void for_each_place(const Place& dimensions, const std::function<void(const Place&)>& visit) {
  Place at{};
  for (at[0] = 0; at[0] < dimensions[0]; ++at[0]) {
    for (at[1] = 0; at[1] < dimensions[1]; ++at[1]) {
      for (at[2] = 0; at[2] < dimensions[2]; ++at[2]) {
        for (at[3] = 0; at[3] < dimensions[3]; ++at[3]) visit(at);
      }
    }
  }
}

/// A place of another tensor, whose dimensions may be 1.
Place broadcast(const Place& at, const Place& dimensions) {
  Place result = at;
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = dimensions[i] == 1 ? 0 : at[i];
  return result;
}
bool broadcasts(const Place& from, const Place& to) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] != to[i] && from[i] != 1) return false;
  }
  return true;
}
std::int64_t offset_of(const CudnnTensor& tensor, const Place& at) {
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < at.size(); ++i) offset += at[i] * tensor.strides[i];
  return offset;
}
std::int64_t bytes_of(const CudnnTensor& tensor) { return tensor.type == kCudnnBfloat16 ? 2 : 4; }

/// The numbers of all tensors while a graph runs: outer ones in memory, inner ones by place.
class GraphNumbers {
 public:
  GraphNumbers(const std::map<std::int64_t, void*>& memory, const std::map<std::int64_t, float>& given)
      : memory_(memory), given_(given) {}

  [[nodiscard]] float get(const CudnnTensor& tensor, const Place& at) const {
    if (tensor.is_by_value) return given_.at(tensor.id);
    const std::int64_t offset = offset_of(tensor, at);
    if (tensor.is_virtual) return inner_.at(tensor.id).at(offset);
    const void* const memory = memory_.at(tensor.id);
    if (tensor.type == kCudnnBfloat16) return cuda::to_float(static_cast<const cuda::Bf16*>(memory)[offset]);
    return static_cast<const float*>(memory)[offset];
  }
  void put(const CudnnTensor& tensor, const Place& at, float value) {
    const std::int64_t offset = offset_of(tensor, at);
    const bool narrow = tensor.type == kCudnnBfloat16;
    if (tensor.is_virtual) {
      inner_[tensor.id][offset] = narrow ? cuda::to_float(cuda::to_bf16(value)) : value;
    } else if (narrow) {
      static_cast<cuda::Bf16*>(memory_.at(tensor.id))[offset] = cuda::to_bf16(value);
    } else {
      static_cast<float*>(memory_.at(tensor.id))[offset] = value;
    }
  }

 private:
  const std::map<std::int64_t, void*>& memory_;
  const std::map<std::int64_t, float>& given_;
  std::map<std::int64_t, std::unordered_map<std::int64_t, float>> inner_;
};

float pointwise(const CudnnStep& step, const GraphNumbers& numbers, const Place& at) {
  const auto value = [&](const CudnnTensor& tensor) {
    return numbers.get(tensor, broadcast(at, tensor.dimensions));
  };
  switch (step.mode) {
    case CudnnPointwise::add:
      return value(step.x) + value(*step.b);
    case CudnnPointwise::subtract:
      return value(step.x) - value(*step.b);
    case CudnnPointwise::multiply:
      return value(step.x) * value(*step.b);
    case CudnnPointwise::divide:
      return value(step.x) / value(*step.b);
    case CudnnPointwise::exponential:
      return std::exp(value(step.x));
    case CudnnPointwise::logarithm:
      return std::log(value(step.x));
    case CudnnPointwise::index:
      return static_cast<float>(at[static_cast<std::size_t>(step.axis)]);
    case CudnnPointwise::greater_or_equal:
      return value(step.x) >= value(*step.b) ? 1.0F : 0.0F;
    case CudnnPointwise::select:
      return value(*step.t) != 0 ? value(step.x) : value(*step.b);
  }
  return 0;
}

float product(const CudnnStep& step, const GraphNumbers& numbers, const Place& at) {
  float sum = 0;
  for (std::int64_t i = 0; i < step.x.dimensions[3]; ++i)
    sum += numbers.get(step.x, {at[0], at[1], at[2], i}) * numbers.get(*step.b, {at[0], at[1], i, at[3]});
  return sum;
}

float reduced(const CudnnStep& step, const GraphNumbers& numbers, const Place& at) {
  float result = numbers.get(step.x, at);
  for (std::int64_t i = 1; i < step.x.dimensions[3]; ++i) {
    const float next = numbers.get(step.x, {at[0], at[1], at[2], i});
    result = step.reduction == CudnnReduction::sum ? result + next : std::max(result, next);
  }
  return result;
}

/// The number that lies where y's does: both are views of the same memory.
void reshape(const CudnnStep& step, GraphNumbers& numbers) {
  std::unordered_map<std::int64_t, float> by_offset;
  for_each_place(step.x.dimensions,
                 [&](const Place& at) { by_offset[offset_of(step.x, at)] = numbers.get(step.x, at); });
  for_each_place(step.y.dimensions,
                 [&](const Place& at) { numbers.put(step.y, at, by_offset.at(offset_of(step.y, at))); });
}

void run_step(const CudnnStep& step, GraphNumbers& numbers) {
  if (step.kind == CudnnStepKind::reshape) return reshape(step, numbers);
  const auto compute = step.kind == CudnnStepKind::pointwise  ? pointwise
                       : step.kind == CudnnStepKind::multiply ? product
                                                              : reduced;
  for_each_place(step.y.dimensions,
                 [&](const Place& at) { numbers.put(step.y, at, compute(step, numbers, at)); });
}

std::string pointwise_fault(const CudnnStep& step) {
  const bool one = step.mode == CudnnPointwise::exponential || step.mode == CudnnPointwise::logarithm ||
                   step.mode == CudnnPointwise::index;
  if (one == step.b.has_value()) return "a pointwise operation with the wrong number of operands";
  if (step.t.has_value() != (step.mode == CudnnPointwise::select)) return "only a selection has a t";
  if (step.t && step.t->type != kCudnnBoolean) return "what a selection goes by is no boolean";
  if (step.mode == CudnnPointwise::index && (step.axis < 0 || step.axis > 3)) return "an index without axis";
  if (step.mode == CudnnPointwise::index && step.y.type != kCudnnInt32) return "an index that is no integer";
  if (step.mode == CudnnPointwise::greater_or_equal && step.y.type != kCudnnBoolean)
    return "a comparison that is no boolean";
  for (const CudnnTensor* input : step.inputs()) {
    if (!broadcasts(input->dimensions, step.y.dimensions)) return "operands whose shapes do not fit";
  }
  return {};
}

std::string product_fault(const CudnnStep& step) {
  const Place& a = step.x.dimensions;
  const Place& b = step.b->dimensions;
  const Place& c = step.y.dimensions;
  const bool fits = a[0] == b[0] && a[0] == c[0] && a[1] == b[1] && a[1] == c[1] && a[2] == c[2] &&
                    a[3] == b[2] && b[3] == c[3];
  return fits ? "" : "matrices whose shapes do not fit";
}

/// Rows of numbers without a gap, where strides allow.
void touch(const CudnnTensor& tensor, const void* memory, std::vector<std::span<const std::byte>>& into) {
  std::set<std::int64_t> offsets;
  for_each_place(tensor.dimensions, [&](const Place& at) { offsets.insert(offset_of(tensor, at)); });
  const auto* const begin = static_cast<const std::byte*>(memory);
  const std::int64_t size = bytes_of(tensor);
  for (auto first = offsets.begin(); first != offsets.end();) {
    auto next = std::next(first);
    std::int64_t last = *first;
    while (next != offsets.end() && *next == last + 1) last = *next++;
    into.emplace_back(begin + *first * size, static_cast<std::size_t>((last - *first + 1) * size));
    first = next;
  }
}

}  // namespace

std::int64_t CudnnTensor::count() const {
  return dimensions[0] * dimensions[1] * dimensions[2] * dimensions[3];
}

std::vector<const CudnnTensor*> CudnnStep::inputs() const {
  std::vector<const CudnnTensor*> all = {&x};
  if (b) all.push_back(&*b);
  if (t) all.push_back(&*t);
  return all;
}

std::string CudnnStep::fault() const {
  switch (kind) {
    case CudnnStepKind::pointwise:
      return pointwise_fault(*this);
    case CudnnStepKind::multiply:
      return product_fault(*this);
    case CudnnStepKind::reduce:
      return broadcasts(y.dimensions, x.dimensions) && y.dimensions[3] == 1 ? "" : "rows are not reduced";
    case CudnnStepKind::reshape:
      return x.count() == y.count() ? "" : "a reshape to another number of numbers";
  }
  return {};
}

std::string order_fault(const CudnnSteps& steps) {
  std::set<std::int64_t> written;
  std::map<std::int64_t, const CudnnTensor*> known;
  for (const CudnnStep& step : steps) {
    for (const CudnnTensor* input : step.inputs()) {
      known.emplace(input->id, input);
      if (input->is_virtual && !written.contains(input->id)) return "a tensor is read before it is written";
    }
    known.emplace(step.y.id, &step.y);
    if (step.y.is_by_value) return "a number of the host is written";
    if (!written.insert(step.y.id).second) return "a tensor is written twice";
    for (const CudnnTensor* tensor : {&step.x, &step.y}) {
      if (known.at(tensor->id)->strides != tensor->strides) return "two tensors have one id";
    }
  }
  return {};
}

std::map<std::int64_t, CudnnTensor> outer_tensors(const CudnnSteps& steps) {
  std::map<std::int64_t, CudnnTensor> outer;
  for (const CudnnStep& step : steps) {
    for (const CudnnTensor* input : step.inputs()) {
      if (!input->is_virtual) outer.emplace(input->id, *input);
    }
    if (!step.y.is_virtual) outer.emplace(step.y.id, step.y);
  }
  return outer;
}

KernelAccess access_of(const CudnnSteps& steps, const std::map<std::int64_t, void*>& memory) {
  KernelAccess access;
  std::set<std::int64_t> written;
  for (const CudnnStep& step : steps) {
    if (step.y.is_in_memory() && written.insert(step.y.id).second)
      touch(step.y, memory.at(step.y.id), access.writes);
  }
  for (const auto& [id, tensor] : outer_tensors(steps)) {
    if (tensor.is_in_memory() && !written.contains(id)) touch(tensor, memory.at(id), access.reads);
  }
  return access;
}

void run_steps(const CudnnSteps& steps, const std::map<std::int64_t, void*>& memory,
               const std::map<std::int64_t, float>& numbers) {
  GraphNumbers all(memory, numbers);
  for (const CudnnStep& step : steps) run_step(step, all);
}

}  // namespace ppsim::test
