#include "ppsim/planner/costs/token_costs.hpp"

#include <cmath>
#include <map>
#include <numeric>

#include "decimal.hpp"
#include "ppsim/core/ir/overflow.hpp"
#include "ppsim/schedules/slice_lengths.hpp"

namespace ppsim::planner {
namespace {

constexpr double kLargestCost = 1e6;  // units; keeps sums of many slices within 64-bit nanoseconds
constexpr int kMaxTokens = 1 << 24;
constexpr int kUsualPieces = 128;
constexpr const char* kTokenCostKeys = "length, granularity, fixed, linear, quadratic, lengths";

tl::unexpected<Error> refuse(const char* what, std::string found, std::string expected) {
  return make_error(ErrorCode::bad_argument, what,
                    {.found = std::move(found), .expected = std::move(expected)});
}

std::optional<int> parse_tokens(const std::string& text) {
  const std::optional<double> value = parse_decimal(text);
  if (!value || *value < 1 || *value > kMaxTokens || *value != std::floor(*value)) return std::nullopt;
  return static_cast<int>(*value);
}

Expected<void> assign(TokenCosts& costs, const std::string& key, const std::string& value) {
  if (key == "length" || key == "granularity") {
    const std::optional<int> tokens = parse_tokens(value);
    if (!tokens) return refuse("token costs: not a number of tokens", key + "=" + value, "1 to 16777216");
    (key == "length" ? costs.length : costs.granularity) = *tokens;
    return {};
  }
  if (key == "lengths") {
    for (const std::string_view item : split(value, '+')) {
      const std::optional<int> tokens = parse_tokens(std::string(item));
      if (!tokens) return refuse("token costs: not a number of tokens", key + "=" + value, "512+256+256");
      costs.lengths.push_back(*tokens);
    }
    return {};
  }
  double* cost = nullptr;
  if (key == "fixed") cost = &costs.fixed;
  if (key == "linear") cost = &costs.linear;
  if (key == "quadratic") cost = &costs.quadratic;
  if (cost == nullptr) return refuse("unknown token cost", key, std::string("one of ") + kTokenCostKeys);
  const std::optional<double> number = parse_decimal(value);
  if (!number || *number < 0 || *number > kLargestCost) {
    return refuse("a token cost is out of range", key + "=" + value, "a number from 0 to 1e6");
  }
  *cost = *number;
  return {};
}

/// Fills in what follows from the rest.
Expected<TokenCosts> completed(TokenCosts costs, bool has_granularity) {
  const std::int64_t sum = std::accumulate(costs.lengths.begin(), costs.lengths.end(), std::int64_t{0});
  if (costs.length == 0 && sum <= kMaxTokens) costs.length = static_cast<int>(sum);
  if (costs.length == 0) return refuse("token costs need the length of a sequence", "none", "length=TOKENS");
  if (!costs.lengths.empty() && sum != costs.length) {
    return refuse("the lengths of the slices must be those of the sequence", std::to_string(sum) + " tokens",
                  std::to_string(costs.length));
  }
  if (costs.linear == 0 && costs.quadratic == 0)
    return refuse("token costs need the cost of a token or of a pair", "neither", "linear=, quadratic=");
  if (!has_granularity) costs.granularity = (costs.length - 1) / kUsualPieces + 1;
  return costs;
}

/// Time of a slice where `unit` is the time of one unit. What tokens and pairs take is rounded for the tokens
/// up to a slice's end, so that all ways to cut a sequence share out the same time.
Nanoseconds slice_time(const TokenCosts& costs, Nanoseconds unit, int length, int prefix) {
  const auto until = [&](double tokens) {
    const double units = costs.linear * tokens + costs.quadratic * tokens * (tokens + 1) / 2;
    return checked_round(static_cast<double>(unit) * units);
  };
  const Nanoseconds fixed = checked_round(static_cast<double>(unit) * costs.fixed);
  return checked_add(fixed, until(prefix + length) - until(prefix));
}

/// Calls visit(slice, length, prefix) for the slices in their order.
template <class Visit>
void for_each_slice(const std::vector<int>& lengths, const Visit& visit) {
  int prefix = 0;
  for (std::size_t k = 0; k < lengths.size(); ++k) {
    visit(static_cast<std::int32_t>(k), lengths[k], prefix);
    prefix += lengths[k];
  }
}

}  // namespace

Expected<TokenCosts> parse_token_costs(std::string_view text) {
  TokenCosts costs;
  std::map<std::string, std::string> given;
  for (const std::string_view part : split(text, ',')) {
    const std::string item(part);
    const std::size_t equals = item.find('=');
    const std::string key = item.substr(0, equals);
    if (equals == std::string::npos) {
      return refuse("unknown token cost", item, std::string("key=value with one of ") + kTokenCostKeys);
    }
    const std::string value = item.substr(equals + 1);
    if (!given.emplace(key, value).second)
      return refuse("a token cost is given twice", item, "each key once");
    PPSIM_RETURN_IF_ERROR(assign(costs, key, value));
  }
  return completed(std::move(costs), given.contains("granularity"));
}

Expected<std::vector<int>> slice_lengths(const TokenCosts& costs, const SlicedSteps& steps) {
  if (!costs.lengths.empty()) {
    const std::size_t found = costs.lengths.size();
    if (!steps.slices || as_size(*steps.slices) == found) return costs.lengths;
    return refuse("every slice needs its length", std::to_string(found) + " lengths",
                  std::to_string(*steps.slices));
  }
  const SliceProblem problem{.sequence = costs.length,
                             .granularity = costs.granularity,
                             .ranks = steps.ranks,
                             .microbatches = steps.microbatches,
                             .slices = steps.slices};
  const SliceCost cost = [&](int length, int prefix) { return slice_time(costs, kUnitTime, length, prefix); };
  return best_slice_lengths(problem, cost).map([](SliceLengths best) { return std::move(best.lengths); });
}

CostTable sliced_costs(const CostTable& units, const Pipeline& pipeline, const TokenCosts& costs,
                       const std::vector<int>& lengths) {
  CostTable table = units;
  for_each_slice(lengths, [&](std::int32_t slice, int length, int prefix) {
    for (const OpKind kind : {OpKind::forward, OpKind::backward, OpKind::backward_input,
                              OpKind::backward_weight, OpKind::recompute, OpKind::overlap}) {
      const Nanoseconds cost = slice_time(costs, units({kind}), length, prefix);
      // One slice is every slice: its entries need no stage.
      if (lengths.size() == 1) table.set({kind}, cost);
      for (int s = 0; s < pipeline.stages() && lengths.size() > 1; ++s) table.set({kind, s, -1, slice}, cost);
    }
  });
  return table;
}

SizeTable sliced_activations(Bytes activation, const Pipeline& pipeline, const std::vector<int>& lengths) {
  SizeTable table = activation_size_table(activation);
  const Bytes length = std::accumulate(lengths.begin(), lengths.end(), Bytes{0});
  // Shares of what the tokens up to a slice's end have in all, so that none is lost to rounding.
  const auto until = [&](int tokens) {
    return static_cast<Bytes>(static_cast<double>(activation) * tokens / static_cast<double>(length));
  };
  if (lengths.size() == 1) return table;
  for_each_slice(lengths, [&](std::int32_t slice, int tokens, int prefix) {
    for (int s = 0; s < pipeline.stages(); ++s) {
      table.set({TensorKind::saved_for_weight, s, -1, slice}, until(prefix + tokens) - until(prefix));
    }
  });
  return table;
}

}  // namespace ppsim::planner
