#include "tables.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "data.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/text/number_text.hpp"

namespace ppsim::workload {
namespace {

/// The text up to the next separator, which is taken off.
std::string_view take(std::string_view& text, char separator) {
  const std::size_t end = text.find(separator);
  const std::string_view item = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return item;
}

double cell_number(std::string_view text) {
  const auto value = parse_number<double>(text);
  PPSIM_CHECK(value, "operator tables hold numbers");
  return *value;
}

/// Calls `row` with every line after the comment and the header.
template <class Row>
void each_row(std::string_view text, Row row) {
  take(text, '\n');
  take(text, '\n');
  while (!text.empty()) row(take(text, '\n'));
}

DataType data_type(std::string_view name) {
  if (name == "fp8") return DataType::fp8;
  return name == "nvfp4" ? DataType::nvfp4 : DataType::bf16;
}

CollectiveKind collective_kind(std::string_view name) {
  if (name == "all_gather") return CollectiveKind::all_gather;
  if (name == "all_reduce") return CollectiveKind::all_reduce;
  return name == "alltoall" ? CollectiveKind::all_to_all : CollectiveKind::reduce_scatter;
}

/// Items such as `8=48.59`.
template <class Value>
std::vector<std::pair<double, double>> curve(std::string_view items, Value value) {
  std::vector<std::pair<double, double>> points;
  while (!items.empty()) {
    std::string_view item = take(items, ' ');
    const double at = cell_number(take(item, '='));
    points.emplace_back(std::log(at), std::log(value(cell_number(item))));
  }
  return points;
}

/// Position of a value between two ascending points: the lower one and the share of the way to the next.
struct Between {
  std::size_t low = 0;
  double share = 0;
};

template <class Points, class Size>
Between between(const Points& points, double value, Size size) {
  if (value <= size(points.front())) return {0, 0};
  if (value >= size(points.back())) return {points.size() - 1, 0};
  const auto above = std::ranges::upper_bound(points, value, {}, size);
  const auto low = static_cast<std::size_t>(above - points.begin()) - 1;
  return {low, (value - size(points[low])) / (size(points[low + 1]) - size(points[low]))};
}

double interpolated(const std::vector<std::pair<double, double>>& curve, double log_size) {
  const auto [low, share] = between(curve, log_size, [](const auto& point) { return point.first; });
  if (share == 0) return curve[low].second;
  return (1 - share) * curve[low].second + share * curve[low + 1].second;
}

}  // namespace

/// Makes the tables of all GPUs from the files.
class OperatorTableReader {
 public:
  std::map<std::string, OperatorTable, std::less<>> read() {
    read_products();
    each_row(attention_csv(), [&](std::string_view row) {
      OperatorTable& table = table_of(take(row, ','));
      const int head_dim = static_cast<int>(cell_number(take(row, ',')));
      const int sequence = static_cast<int>(cell_number(take(row, ',')));
      table.attention_[head_dim][sequence] = curve(row, [](double tflops) { return tflops * 1e12; });
    });
    each_row(collectives_csv(), [&](std::string_view row) {
      OperatorTable& table = table_of(take(row, ','));
      const CollectiveKind kind = collective_kind(take(row, ','));
      const int members = static_cast<int>(cell_number(take(row, ',')));
      table.collectives_[{kind, members}] = curve(row, [](double us) { return us * 1e-6; });
    });
    return std::move(tables_);
  }

 private:
  OperatorTable& table_of(std::string_view gpu) { return tables_[std::string(gpu)]; }

  /// A row has the columns of k; rows are sorted by m and n, all pairs of them.
  void read_products() {
    std::string_view header = products_csv();
    take(header, '\n');
    header = take(header, '\n');
    for (int i = 0; i < 4; ++i) take(header, ',');
    std::vector<double> ks;
    while (!header.empty()) ks.push_back(std::log(cell_number(take(header, ','))));
    each_row(products_csv(), [&](std::string_view row) {
      OperatorTable& table = table_of(take(row, ','));
      auto& products = table.products_[static_cast<std::size_t>(data_type(take(row, ',')))];
      const double m = cell_number(take(row, ','));
      const double n = cell_number(take(row, ','));
      products.sizes[2] = ks;
      const auto append = [](std::vector<double>& sizes, double size) {
        if (sizes.empty() || sizes.back() < size) sizes.push_back(size);
      };
      append(products.sizes[0], std::log(m));
      append(products.sizes[1], std::log(n));
      for (const double k : ks) {
        const std::string_view us = take(row, ',');
        products.rates.push_back(us.empty() ? 0 : 2 * m * n * std::exp(k) / cell_number(us) * 1e6);
      }
    });
  }

  std::map<std::string, OperatorTable, std::less<>> tables_;
};

std::optional<double> OperatorTable::product_rate(const Product& product, DataType type) const {
  const Products& products = products_[static_cast<std::size_t>(type)];
  if (products.rates.empty()) return std::nullopt;
  std::array<Between, 3> at;
  const std::array<double, 3> sizes = {product.m, product.n, product.k};
  for (std::size_t i = 0; i < 3; ++i)
    at[i] = between(products.sizes[i], std::log(sizes[i]), [](double size) { return size; });
  double sum = 0;
  double weights = 0;
  for (unsigned corner = 0; corner < 8; ++corner) {
    double weight = 1;
    std::array<std::size_t, 3> index{};
    for (std::size_t i = 0; i < 3; ++i) {
      const bool high = (corner >> i & 1U) != 0;
      weight *= high ? at[i].share : 1 - at[i].share;
      index[i] = at[i].low + (high ? 1 : 0);
    }
    if (weight == 0) continue;
    const double rate = products.rate(index);
    if (rate == 0) continue;
    sum += weight * std::log(rate);
    weights += weight;
  }
  if (weights == 0) return std::nullopt;
  return std::exp(sum / weights);
}

std::optional<double> OperatorTable::attention_rate(double heads, double sequence, double head_dim) const {
  if (attention_.empty()) return std::nullopt;
  auto of_dim = attention_.lower_bound(static_cast<int>(head_dim));
  if (of_dim == attention_.end()) --of_dim;
  const std::vector<std::pair<int, Curve>> curves(of_dim->second.begin(), of_dim->second.end());
  const auto [low, share] =
      between(curves, std::log(sequence), [](const auto& c) { return std::log(double(c.first)); });
  const double log_heads = std::log(std::max(1.0, heads));
  double rate = interpolated(curves[low].second, log_heads);
  if (share > 0) rate = (1 - share) * rate + share * interpolated(curves[low + 1].second, log_heads);
  return std::exp(rate);
}

std::optional<double> OperatorTable::collective_time(CollectiveKind kind, int members, double bytes) const {
  auto found = collectives_.upper_bound({kind, members});
  if (found == collectives_.begin()) return std::nullopt;
  --found;
  if (found->first.first != kind) return std::nullopt;
  const Curve& curve = found->second;
  const double size = std::log(bytes);
  double time = std::exp(interpolated(curve, size));
  if (size > curve.back().first) time *= bytes / std::exp(curve.back().first);
  // A group of another size moves another share of the buffer.
  const auto share = [](double n) { return (n - 1) / n; };
  return time * share(members) / share(found->first.second);
}

const OperatorTable* operator_table(std::string_view gpu) {
  static const std::map<std::string, OperatorTable, std::less<>> tables = OperatorTableReader().read();
  const auto found = tables.find(gpu);
  return found == tables.end() ? nullptr : &found->second;
}

}  // namespace ppsim::workload
