#include "vocabulary_sum.hpp"

#include <algorithm>
#include <vector>

#include "transformer_arithmetic.hpp"

namespace ppsim::gpu_backend::transformer {
namespace {

template <class Policy, class T = typename Policy::Scalar>
class ShardSum {
 public:
  ShardSum(const Dimensions& d, std::span<const CollectivePart> parts) : d_(d), parts_(parts) {}

  void run() {
    if (!parts_.front().statistics.empty()) merge_statistics();
    if (parts_.front().summand.empty()) return;
    own_.empty() ? sum() : sum_scaled();
  }

 private:
  [[nodiscard]] std::span<LossParts<T>> statistics(std::size_t part) const {
    return {reinterpret_cast<LossParts<T>*>(parts_[part].statistics.data()), as_size(d_.rows)};
  }
  [[nodiscard]] std::span<T> numbers(std::size_t part) const {
    const std::span<std::byte> bytes = parts_[part].summand;
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }

  void merge_statistics() {
    const std::span<LossParts<T>> all = statistics(0);
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      own_.emplace_back(statistics(p).begin(), statistics(p).end());
      for (std::size_t r = 0; p > 0 && r < all.size(); ++r) Policy::merge(all[r], own_[p][r]);
    }
    for (std::size_t p = 1; p < parts_.size(); ++p) std::ranges::copy(all, statistics(p).begin());
  }

  void sum() {
    for (std::size_t p = 1; p < parts_.size(); ++p) {
      for (std::size_t i = 0; i < numbers(0).size(); ++i) numbers(0)[i] += numbers(p)[i];
    }
  }

  /// Gradients of the head's input that F has made, each with its own factor.
  void sum_scaled() {
    const auto positions = as_size(d_.sequences * d_.sequence);
    const std::span<LossParts<T>> all = statistics(0);
    const std::span<T> sum = numbers(0);
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const std::span<const T> scaled = numbers(p).first(numbers(p).size() / 2);
      const std::span<const T> of_targets = numbers(p).last(scaled.size());
      for (std::size_t i = 0; i < as_size(d_.rows * d_.hidden); ++i) {
        const std::size_t row = i / as_size(d_.hidden);
        const T own = Policy::gradient_factor(positions, own_[p][row], all[row]) * scaled[i] - of_targets[i];
        sum[i] = p == 0 ? own : sum[i] + own;
      }
    }
  }

  const Dimensions& d_;
  std::span<const CollectivePart> parts_;
  std::vector<std::vector<LossParts<T>>> own_;
};

}  // namespace

template <class Policy>
void sum_shards(const Dimensions& d, std::span<const CollectivePart> parts) {
  ShardSum<Policy>(d, parts).run();
}

template void sum_shards<RealArithmetic<float>>(const Dimensions&, std::span<const CollectivePart>);
template void sum_shards<RealArithmetic<double>>(const Dimensions&, std::span<const CollectivePart>);
template void sum_shards<RingArithmetic>(const Dimensions&, std::span<const CollectivePart>);

}  // namespace ppsim::gpu_backend::transformer
