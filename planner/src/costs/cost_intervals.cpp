#include "ppsim/planner/costs/cost_intervals.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "decimal.hpp"

#include "ppsim/core/text/as_text.hpp"
#include "ppsim/core/text/number_text.hpp"

namespace ppsim::planner {
namespace {

__extension__ using Wide = __int128;

constexpr std::int64_t kLargestFactor = 1000;
constexpr std::int64_t kMillion = 1'000'000;
constexpr std::array<std::string_view, 7> kUnitCostKeys = {"F", "B", "I", "W", "R", "FB", "c"};

tl::unexpected<Error> bad_cost(std::string_view found, std::string_view expected) {
  return make_error(ErrorCode::bad_argument, "a cost that cannot be read",
                    {.found = std::string(found), .expected = std::string(expected)});
}

Expected<Nanoseconds> units(std::string_view text) {
  const auto value = parse_decimal(std::string(text));
  if (!value || *value < 0 || *value > kLargestUnit) return bad_cost(text, "a number from 0 to 1e9");
  return std::llround(*value * static_cast<double>(kUnitTime));
}

/// Reads keys one after another; a sum reads those that it names first.
class Reader {
 public:
  Expected<CostIntervals> read(std::string_view text) {
    for (const std::string_view item : split(text, ',')) {
      const std::size_t equals = item.find('=');
      const std::string key(item.substr(0, equals));
      if (std::ranges::find(kUnitCostKeys, key) == kUnitCostKeys.end() || equals == std::string_view::npos)
        return bad_cost(item, "key=value with one of F, B, I, W, R, FB, c");
      if (!written_.try_emplace(key, item.substr(equals + 1)).second) return bad_cost(item, "each key once");
    }
    for (const std::string_view key : kUnitCostKeys) {
      PPSIM_RETURN_IF_ERROR(cost_of(std::string(key)));
    }
    return std::move(result_);
  }

 private:
  static std::string_view usual(std::string_view key) {
    if (key == "B") return "I+W";
    if (key == "FB") return "F+B";
    return key == "c" ? "0" : "1";
  }

  Expected<LinearCost> cost_of(const std::string& key) {
    if (const auto known = result_.costs.find(key); known != result_.costs.end()) return known->second;
    if (!open_.insert(key).second) return bad_cost(key, "a sum that does not come back to its key");
    const auto written = written_.find(key);
    const std::string_view text = written == written_.end() ? usual(key) : written->second;
    auto cost = text.find("..") == std::string_view::npos ? sum(text) : interval(key, text);
    if (cost) result_.costs[key] = *cost;
    return cost;
  }

  Expected<LinearCost> interval(const std::string& key, std::string_view text) {
    const std::size_t dots = text.find("..");
    PPSIM_ASSIGN_OR_RETURN(const auto least, units(text.substr(0, dots)));
    PPSIM_ASSIGN_OR_RETURN(const auto most, units(text.substr(dots + 2)));
    if (least > most) return bad_cost(text, "least..most");
    if (least == most) return LinearCost{least, {}};
    result_.variables.push_back({key, least, most});
    return LinearCost{0, {{static_cast<int>(result_.variables.size()) - 1, 1}}};
  }

  Expected<LinearCost> sum(std::string_view text) {
    LinearCost total;
    for (const std::string_view item : split(text, '+')) {
      auto cost = term(item);
      if (!cost) return cost;
      total = total + *cost;
    }
    return total;
  }

  Expected<LinearCost> term(std::string_view text) {
    const std::size_t star = text.find('*');
    const std::string_view key = star == std::string_view::npos ? text : text.substr(star + 1);
    if (std::ranges::find(kUnitCostKeys, key) == kUnitCostKeys.end()) {
      return units(text)
          .map([](Nanoseconds constant) {
            return LinearCost{constant, {}};
          })
          .map_error([&](const Error&) {
            return bad_cost(text, "least..most, a number, a key, or a whole number * a key").value();
          });
    }
    std::int64_t factor = 1;
    if (star != std::string_view::npos) {
      factor = parse_number<std::int64_t>(text.substr(0, star)).value_or(-1);
      if (factor < 0 || factor > kLargestFactor) return bad_cost(text, "a whole number up to 1000 * a key");
    }
    return cost_of(std::string(key)).map([factor](LinearCost cost) { return factor * std::move(cost); });
  }

  std::map<std::string, std::string_view> written_;
  std::set<std::string> open_;  ///< keys that were begun
  CostIntervals result_;
};

/// The class of a key's actions; a transfer's three kinds have one key.
void set_kinds(CostSpace& space, const std::string& key, int stage, const LinearCost& cost) {
  static const std::map<std::string, std::vector<OpKind>> kKinds = {
      {"F", {OpKind::forward}},
      {"B", {OpKind::backward}},
      {"I", {OpKind::backward_input}},
      {"W", {OpKind::backward_weight}},
      {"R", {OpKind::recompute}},
      {"FB", {OpKind::overlap}},
      {"c", {OpKind::send_forward, OpKind::send_backward, OpKind::send_activation}}};
  for (const OpKind kind : kKinds.at(key)) space.set({kind, stage}, cost);
}

/// A cost with its variables replaced by others.
LinearCost with(const LinearCost& cost, const std::vector<LinearCost>& variables) {
  LinearCost result{cost.constant, {}};
  for (const auto& [variable, coefficient] : cost.coefficients)
    result = result + coefficient * variables[as_size(variable)];
  return result;
}

/// Of an overlapped pair: F, R, FB and c are of the stage that runs forward, the rest of the other one.
std::vector<LinearCost> of_pair(const CostIntervals& intervals, const std::vector<LinearCost>& forward,
                                const std::vector<LinearCost>& backward) {
  std::vector<LinearCost> result;
  for (std::size_t v = 0; v < forward.size(); ++v) {
    const std::string& name = intervals.variables[v].name;
    const bool is_backward = name == "B" || name == "I" || name == "W";
    result.push_back(is_backward ? backward[v] : forward[v]);
  }
  return result;
}

}  // namespace

Expected<CostIntervals> parse_cost_intervals(std::string_view text) { return Reader().read(text); }

UnitSource middle_costs(const CostIntervals& intervals) {
  const CostTable table = shared_costs(intervals).middle();
  const auto value = [&](OpKind kind) {
    return static_cast<double>(table({kind})) / static_cast<double>(kUnitTime);
  };
  UnitSource source;
  source.costs = {value(OpKind::forward),         value(OpKind::backward),  value(OpKind::backward_input),
                  value(OpKind::backward_weight), value(OpKind::recompute), value(OpKind::overlap),
                  value(OpKind::send_forward)};
  return source;
}

CostSpace shared_costs(const CostIntervals& intervals) {
  CostSpace space;
  for (const CostVariable& variable : intervals.variables) space.add(variable);
  for (const auto& [key, cost] : intervals.costs) set_kinds(space, key, -1, cost);
  return space;
}

CostSpace stage_costs(const CostIntervals& intervals, int stages) {
  CostSpace space;
  std::vector<std::vector<LinearCost>> own(as_size(stages));
  for (std::size_t s = 0; s < own.size(); ++s) {
    for (CostVariable variable : intervals.variables) {
      variable.name += std::to_string(s);
      own[s].push_back(space.add(std::move(variable)));
    }
    for (const auto& [key, cost] : intervals.costs)
      set_kinds(space, key, static_cast<int>(s), with(cost, own[s]));
  }
  for (std::size_t f = 0; f < own.size(); ++f) {
    for (std::size_t b = 0; b < own.size(); ++b) {
      const CostClass pair{OpKind::overlap, static_cast<int>(f), static_cast<int>(b)};
      space.set(pair, with(intervals.costs.at("FB"), of_pair(intervals, own[f], own[b])));
    }
  }
  return space;
}

CostSpace spread_costs(const CostTable& costs, std::int64_t millionths) {
  CostSpace space;
  for (const auto& [key, duration] : costs.entries()) {
    const auto off = static_cast<Nanoseconds>((Wide{duration} * millionths + kMillion - 1) / kMillion);
    space.set(key, space.add({as_text(key), duration - off, checked_add(duration, off)}));
  }
  return space;
}

Expected<std::int64_t> parse_spread(std::string_view text) {
  const bool percent = text.ends_with('%');
  const auto value = percent ? parse_decimal(std::string(text.substr(0, text.size() - 1))) : std::nullopt;
  if (value && *value >= 0 && *value <= 100) return std::llround(*value * 1e4);
  return make_error(ErrorCode::bad_argument, "not a spread",
                    {.found = std::string(text), .expected = "0% to 100%"});
}

Expected<Nanoseconds> parse_duration(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 4> kUnits = {
      {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};
  const std::size_t unit_at = std::min(text.find_first_not_of("0123456789."), text.size());
  const auto value = parse_decimal(std::string(text.substr(0, unit_at)));
  for (const auto& [name, factor] : kUnits) {
    if (name == text.substr(unit_at) && value && *value * factor < 9e18) return std::llround(*value * factor);
  }
  return make_error(ErrorCode::bad_argument, "not a time",
                    {.found = std::string(text), .expected = "a number with ns, us, ms or s"});
}

}  // namespace ppsim::planner
