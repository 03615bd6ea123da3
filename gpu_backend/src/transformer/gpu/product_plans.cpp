#include "product_plans.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>
#include <vector>

#include "device/cuda/kernel_errors.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"

namespace ppsim::gpu_backend {

const PinnedAlgorithm* Algorithms::find(std::string_view product, int multiprocessors) const {
  const auto found = std::ranges::find_if(products, [&](const PinnedAlgorithm& one) {
    return one.product == product && one.multiprocessors == multiprocessors;
  });
  return found == products.end() ? nullptr : &*found;
}

namespace cuda {
namespace {

std::string digits_of(const CublasLtAlgorithm& algorithm) {
  std::string digits;
  for (const std::uint64_t word : algorithm.data) {
    std::array<char, 17> text{};
    std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(word));
    digits += text.data();
  }
  return digits;
}

Nanoseconds median_of(std::vector<Nanoseconds> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

/// The fastest one; the first, where others are faster by no more than a measurement is off.
std::size_t index_of_fastest(const std::vector<Nanoseconds>& times) {
  const auto fastest = std::ranges::min_element(times);
  return *fastest * 100 < times.front() * 99 ? as_size(fastest - times.begin()) : 0;
}

}  // namespace

ProductPlans::ProductPlans(CublasLtTable cublaslt, CudaTable cuda)
    : matmuls_(std::move(cublaslt), cuda), cuda_(std::move(cuda)) {}

void ProductPlans::add(const ProductShape& shape, const MatmulShape& matmul) {
  if (planned_.count(shape) == 0)
    planned_.emplace(shape, Planned{product_name(matmul), matmul, matmuls_.plan(matmul)});
}

void ProductPlans::multiply(GpuStream stream, const ProductShape& shape,
                            const MatmulOperands& operands) const {
  const auto found = planned_.find(shape);
  PPSIM_CHECK(found != planned_.end(), "a product that was not prepared");
  matmuls_.multiply(stream, found->second.plan, operands);
}

ProductPlans::Operands ProductPlans::operands_of(const Planned& product, const AlgorithmTimer& timer) const {
  constexpr std::size_t kAlignment = 256;
  const MatmulShape& s = product.shape;
  std::array<std::size_t, 3> begins{};
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < begins.size(); ++i) {
    begins[i] = bytes;
    const std::array matrices = {&s.left, &s.right, &s.result};
    bytes += (bytes_of(*matrices[i], s.batches) + kAlignment - 1) / kAlignment * kAlignment;
  }
  Operands made{DeviceMemory(cuda_, bytes, "timing the algorithms of " + product.plan.text)};
  auto* const memory = made.memory.as<std::byte>();
  made.at = {memory + begins[0], memory + begins[1], memory + begins[2]};
  // Numbers as weights have them: a product of zeros takes less power, and so less time.
  const auto count = static_cast<std::int64_t>(bytes / (timer.stored == Stored::float32 ? 4 : 2));
  const DrawWeights draw{1, 0, 0, 1, count, count, 16, memory};
  static_cast<void>(timer.time_of([&](GpuStream stream) {
    check_launch(cuda_, timer.kernels.draw_weights(stream, timer.stored, draw), "drawing operands");
  }));
  return made;
}

PinnedAlgorithm ProductPlans::fastest(Planned& product, const AlgorithmTimer& timer) const {
  constexpr int kRepeats = 10;
  constexpr int kRounds = 3;
  MatmulPlan& plan = product.plan;
  const Operands operands = operands_of(product, timer);
  const auto time = [&](std::size_t choice) {
    plan.algorithm = plan.suggested[choice];
    return timer.time_of([&](GpuStream stream) {
      for (int i = 0; i < kRepeats; ++i) matmuls_.multiply(stream, plan, operands.at);
    }) / kRepeats;
  };
  std::vector<std::vector<Nanoseconds>> times(plan.suggested.size());
  for (int round = 0; round <= kRounds; ++round) {
    for (std::size_t choice = 0; choice < times.size(); ++choice) {
      const Nanoseconds took = time(choice);
      if (round > 0) times[choice].push_back(took);  // the first one loads what it needs
    }
  }
  std::vector<Nanoseconds> medians;
  for (const auto& one : times) medians.push_back(median_of(one));
  const std::size_t best = index_of_fastest(medians);
  plan.algorithm = plan.suggested[best];
  return {product.name, timer.place.multiprocessors, digits_of(plan.algorithm), medians[best], medians[0]};
}

void ProductPlans::check_made_for(const AlgorithmPlace& place, const Algorithms& known) const {
  const auto text = [](const std::string& device, const std::string& library) {
    return library + " on " + device;
  };
  if (known.device == place.device && known.library == matmuls_.library()) return;
  throw BackendError(ErrorCode::bad_argument,
                     "the pinned algorithms are of " + text(known.device, known.library) +
                         ", and products are computed by " + text(place.device, matmuls_.library()) +
                         ": each has a file of its own");
}

void ProductPlans::time_algorithms(const AlgorithmTimer& timer, Algorithms& known) {
  if (known.products.empty()) {
    known.device = timer.place.device;
    known.library = matmuls_.library();
  }
  check_made_for(timer.place, known);
  for (auto& [shape, product] : planned_) {
    if (known.find(product.name, timer.place.multiprocessors) == nullptr)
      known.products.push_back(fastest(product, timer));
  }
}

void ProductPlans::take_algorithms(const AlgorithmPlace& place, const Algorithms& known) {
  check_made_for(place, known);
  for (auto& [shape, product] : planned_) {
    const PinnedAlgorithm* const pinned = known.find(product.name, place.multiprocessors);
    const std::string what =
        product.plan.text + " on " + std::to_string(place.multiprocessors) + " multiprocessors";
    if (pinned == nullptr) {
      throw BackendError(ErrorCode::bad_argument, "no algorithm is pinned for " + what +
                                                      ", which the first rank of the job does not have");
    }
    const auto found = std::ranges::find_if(product.plan.suggested, [&](const CublasLtAlgorithm& one) {
      return digits_of(one) == pinned->algorithm;
    });
    if (found == product.plan.suggested.end()) {
      throw BackendError(ErrorCode::bad_argument, "the algorithm pinned for " + what + " is not among the " +
                                                      std::to_string(product.plan.suggested.size()) +
                                                      " that " + matmuls_.library() +
                                                      " suggests here: take \"" + product.name +
                                                      "\" out of the file, and it is timed");
    }
    product.plan.algorithm = *found;
  }
}

}  // namespace cuda
}  // namespace ppsim::gpu_backend
