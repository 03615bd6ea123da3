#include "support/gpu_probe/product_times.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "transformer/gpu/products.hpp"

namespace ppsim::test {

using namespace gpu_backend;
namespace {

using cuda::ProductShape;

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

/// A product by nothing but cuBLASLt's own calls.
class PlainProduct {
 public:
  /// `multiprocessors` that it is chosen for; 0: cuBLASLt takes those of the device.
  PlainProduct(const ProbeMachine& machine, const ProductShape& shape, void* workspace, int multiprocessors)
      : lt_(machine.cublaslt), shape_(shape), workspace_(workspace) {
    check(lt_.create(&handle_));
    check(lt_.operation_create(&operation_, kCublasComputeFloat32, kCudaTypeFloat32));
    const std::int32_t target = multiprocessors;
    if (target > 0) check(lt_.operation_set(operation_, kCublasLtMultiprocessors, &target, sizeof target));
    if (shape.transpose_b) transpose(kCublasLtTransposeA);
    if (shape.transpose_a) transpose(kCublasLtTransposeB);
    left_ = shape.transpose_b ? layout(shape.inner, shape.columns) : layout(shape.columns, shape.inner);
    right_ = shape.transpose_a ? layout(shape.rows, shape.inner) : layout(shape.inner, shape.rows);
    result_ = layout(shape.columns, shape.rows, shape.into_sums ? kCudaTypeFloat32 : kCudaTypeBfloat16);
    choose();
  }
  PlainProduct(const PlainProduct&) = delete;
  PlainProduct& operator=(const PlainProduct&) = delete;
  ~PlainProduct() {
    for (void* const one : {left_, right_, result_}) lt_.layout_destroy(one);
    lt_.operation_destroy(operation_);
    lt_.destroy(handle_);
  }

  [[nodiscard]] std::size_t choices() const { return choices_.size(); }
  /// By one of the algorithms, in the order in which cuBLASLt proposes them.
  void multiply(GpuStream stream, const cuda::ProductOperands& operands, std::size_t choice = 0) const {
    const float alpha = 1;
    const float beta = shape_.accumulate ? 1 : 0;
    check(lt_.multiply(handle_, operation_, &alpha, operands.b, left_, operands.a, right_, &beta, operands.c,
                       result_, operands.c, result_, &choices_[choice].algorithm, workspace_, kWorkspaceBytes,
                       stream));
  }

 private:
  void check(int status) const { check_cublaslt(lt_, status, "a plain product"); }
  void transpose(int attribute) {
    const std::int32_t transposed = kCublasTranspose;
    check(lt_.operation_set(operation_, attribute, &transposed, sizeof transposed));
  }
  void* layout(std::int64_t rows, std::int64_t columns, int type = kCudaTypeBfloat16) {
    void* made = nullptr;
    check(lt_.layout_create(&made, type, static_cast<std::uint64_t>(rows),
                            static_cast<std::uint64_t>(columns), rows));
    return made;
  }
  void choose() {
    void* preference = nullptr;
    constexpr int kMax = 64;
    int found = 0;
    choices_.resize(kMax);
    check(lt_.preference_create(&preference));
    check(
        lt_.preference_set(preference, kCublasLtLargestWorkspace, &kWorkspaceBytes, sizeof kWorkspaceBytes));
    check(lt_.choose(handle_, operation_, left_, right_, result_, result_, preference, kMax, choices_.data(),
                     &found));
    check(lt_.preference_destroy(preference));
    choices_.resize(static_cast<std::size_t>(found));
    std::erase_if(choices_, [](const CublasLtChoice& one) { return one.status != kCublasSuccess; });
    if (choices_.empty()) throw BackendError(ErrorCode::io, "cuBLASLt has no algorithm for a plain product");
  }

  const CublasLtTable& lt_;
  ProductShape shape_;
  void* workspace_;
  cublasLtContext* handle_ = nullptr;
  void *operation_ = nullptr, *left_ = nullptr, *right_ = nullptr, *result_ = nullptr;
  std::vector<CublasLtChoice> choices_;
};

/// Memory of a part, and numbers in it.
class Operands {
 public:
  Operands(const ProbeMachine& machine, ProbeStream& stream) : machine_(machine), stream_(stream) {}

  void* numbers(std::int64_t count) {
    const auto memory = stream_.device().allocate(count * static_cast<Bytes>(sizeof(float)), "an operand");
    stream_.enqueue([&](GpuStream on) {
      stream_.device().fill(on, memory, std::byte{0});
      const cuda::DrawWeights draw{1, seed_++, 0, 1, count, count, 16, memory.data()};
      static_cast<void>(machine_.kernels.draw_weights(on, cuda::Stored::bf16, draw));
    });
    stream_.finish();
    return memory.data();
  }
  cuda::ProductOperands of(const ProductShape& shape) {
    return {numbers(shape.rows * shape.inner), numbers(shape.inner * shape.columns),
            numbers(shape.rows * shape.columns)};
  }

 private:
  const ProbeMachine& machine_;
  ProbeStream& stream_;
  std::uint64_t seed_ = 0;
};

/// Has the products computed as a run with --algorithms does.
void pin(const ProbeMachine& machine, ProbeStream& stream, cuda::Products& products) {
  const WorkTimer time_of = [&](const std::function<void(GpuStream)>& work) { return stream.time_of(work); };
  const cuda::AlgorithmPlace place{"this device", stream.device().place().multiprocessors};
  Algorithms algorithms;
  products.time_algorithms({time_of, place, machine.kernels}, algorithms);
  products.take_algorithms(place, algorithms);
}

template <class Product>
Nanoseconds time_each(ProbeStream& stream, const Product& product) {
  constexpr int kRepeats = 10;
  const Nanoseconds all = stream.time_of([&](GpuStream on) {
    for (int i = 0; i < kRepeats; ++i) product(on);
  });
  return all / kRepeats;
}

/// The fastest algorithm, found by one look at each, and then as the others are timed.
Nanoseconds time_best(ProbeStream& stream, const PlainProduct& plain, const cuda::ProductOperands& operands,
                      int rounds) {
  const auto time = [&](std::size_t choice) {
    return time_each(stream, [&](GpuStream on) { plain.multiply(on, operands, choice); });
  };
  std::size_t best = 0;
  Nanoseconds shortest = std::numeric_limits<Nanoseconds>::max();
  for (std::size_t choice = 0; choice < plain.choices(); ++choice) {
    static_cast<void>(time(choice));  // loads it
    const Nanoseconds found = time(choice);
    if (found < shortest) best = choice;
    shortest = std::min(shortest, found);
  }
  std::vector<Nanoseconds> times;
  for (int round = 0; round < rounds; ++round) times.push_back(time(best));
  return median_of(times);
}

void time_product(const ProbeMachine& machine, const GpuDevice& device, const ProductShape& shape,
                  ProductTime& result) {
  constexpr int kRounds = 7;
  ProbeStream stream(machine, device, 0);
  Operands memory(machine, stream);
  const cuda::ProductOperands operands = memory.of(shape);
  const auto products =
      cuda::cublaslt_products(machine.cublaslt, machine.api.cuda, cuda::Stored::bf16, {shape});
  pin(machine, stream, *products);
  void* const workspace = stream.device().allocate(kWorkspaceBytes, "a workspace").data();
  const PlainProduct plain(machine, shape, workspace, 0);
  const PlainProduct told(machine, shape, workspace, device.multiprocessors_per_part());
  const auto backend = [&](GpuStream on) { products->multiply(on, shape, operands); };
  const auto plainly = [&](GpuStream on) { plain.multiply(on, operands); };
  const auto as_told = [&](GpuStream on) { told.multiply(on, operands); };
  // The first round loads what it needs.
  static_cast<void>(time_each(stream, backend) + time_each(stream, plainly) + time_each(stream, as_told));
  std::vector<Nanoseconds> of_backend;
  std::vector<Nanoseconds> of_plain;
  std::vector<Nanoseconds> of_told;
  for (int round = 0; round < kRounds; ++round) {
    of_backend.push_back(time_each(stream, backend));
    of_plain.push_back(time_each(stream, plainly));
    of_told.push_back(time_each(stream, as_told));
  }
  result.backend_ns = median_of(of_backend);
  result.plain_ns = median_of(of_plain);
  result.told_ns = median_of(of_told);
  result.best_ns = time_best(stream, plain, operands, kRounds);
  result.algorithms = static_cast<int>(plain.choices());
}

struct Weights {
  const char* name;
  std::int64_t in, out;
  bool residual;  ///< its result is added to the residual stream
};

}  // namespace

std::vector<ProductTime> time_products(const ProbeMachine& machine, const TransformerConfig& config,
                                       int parts) {
  const std::int64_t rows = std::int64_t{config.microbatch_size} * config.sequence;
  const std::int64_t hidden = config.hidden;
  const GpuDevice device(machine.api.cuda, 0, parts);
  std::vector<ProductTime> times;
  for (const Weights& w :
       {Weights{"qkv", hidden, 3 * hidden, false}, Weights{"projection", hidden, hidden, true},
        Weights{"gate_up", hidden, 2 * config.ffn, false}, Weights{"down", config.ffn, hidden, true},
        Weights{"head", hidden, config.vocab, false}}) {
    const std::pair<const char*, ProductShape> shapes[] = {
        {"F", cuda::forward_shape(rows, w.in, w.out, w.residual)},
        {"I", cuda::input_shape(rows, w.in, w.out)},
        {"W", cuda::weight_shape(rows, w.in, w.out)}};
    for (const auto& [action, shape] : shapes) {
      times.push_back({w.name, action, shape.rows, shape.columns, shape.inner});
      time_product(machine, device, shape, times.back());
    }
  }
  return times;
}

}  // namespace ppsim::test
