#pragma once

#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "ppsim/workload/parallelism.hpp"

namespace ppsim::workload {

/// An m x k matrix times a k x n one.
struct Product {
  double m = 0, n = 0, k = 0;
  [[nodiscard]] double flops() const { return 2 * m * n * k; }
};

enum class CollectiveKind : std::uint8_t { all_gather, all_reduce, all_to_all, reduce_scatter };

/// The measurements of one GPU: products of each data type, attention, and collectives within an NVLink
/// domain. Between measured points rates are interpolated in the logarithm of every size; outside of them the
/// nearest point's rate holds.
/// Source: workload/data/NOTICE.
class OperatorTable {
 public:
  /// FLOP/s. Nothing where this data type was not measured.
  [[nodiscard]] std::optional<double> product_rate(const Product& product, DataType type) const;
  /// FLOP/s of causal attention, forward; `heads` over all sequences of a microbatch.
  [[nodiscard]] std::optional<double> attention_rate(double heads, double sequence, double head_dim) const;
  /// Seconds; `bytes` of the whole buffer. Nothing where no group of at most `members` was measured.
  [[nodiscard]] std::optional<double> collective_time(CollectiveKind kind, int members, double bytes) const;

 private:
  friend class OperatorTableReader;

  static constexpr std::size_t kTypes = 3;
  using Curve = std::vector<std::pair<double, double>>;  ///< logarithms of size and value, ascending

  struct Products {
    std::array<std::vector<double>, 3> sizes;  ///< m, n and k, ascending
    std::vector<double> rates;                 ///< FLOP/s by m, n, k; 0: not measured
    [[nodiscard]] double rate(const std::array<std::size_t, 3>& at) const {
      return rates[(at[0] * sizes[1].size() + at[1]) * sizes[2].size() + at[2]];
    }
  };

  std::array<Products, kTypes> products_;
  std::map<int, std::map<int, Curve>> attention_;                ///< by head dimension and sequence
  std::map<std::pair<CollectiveKind, int>, Curve> collectives_;  ///< by members
};

/// The table of a GPU as GpuDescription::operators names it; nullptr where there is none.
[[nodiscard]] const OperatorTable* operator_table(std::string_view gpu);

}  // namespace ppsim::workload
