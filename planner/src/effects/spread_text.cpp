#include <optional>

#include "ppsim/core/text/number_text.hpp"
#include "ppsim/planner/effects/step_spread.hpp"

namespace ppsim::planner {
namespace {

/// The text before a mark, taken off with it.
std::string_view take_word(std::string_view& text, char mark) {
  const std::size_t end = text.find(mark);
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return word;
}

std::optional<double> number_within(std::string_view text, double most) {
  const auto number = parse_number<double>(text);
  return number && *number >= 0 && *number <= most ? number : std::nullopt;
}

std::optional<FactorSpread::Shape> shape_named(std::string_view name) {
  if (name == "normal") return FactorSpread::Shape::normal;
  if (name == "lognormal") return FactorSpread::Shape::lognormal;
  if (name == "gamma") return FactorSpread::Shape::gamma;
  if (name == "list") return FactorSpread::Shape::list;
  return std::nullopt;
}

constexpr double kMaxDeviation = 2;
constexpr double kMaxCorrelation = 0.999999;
constexpr double kMaxFactor = 1e6;

bool read_values(std::string_view numbers, FactorSpread& spread) {
  for (std::size_t comma = 0; comma != std::string_view::npos;) {
    comma = numbers.find(',');
    const auto value = number_within(take_word(numbers, ','), kMaxFactor);
    if (!value) return false;
    spread.values.push_back(*value);
  }
  return true;
}

std::optional<FactorSpread> read_spread(std::string_view text) {
  const auto shape = shape_named(take_word(text, ':'));
  if (!shape) return std::nullopt;
  FactorSpread spread{.shape = *shape};
  const bool is_correlated = text.find(':') != std::string_view::npos;
  const std::string_view numbers = take_word(text, ':');
  if (spread.shape == FactorSpread::Shape::list) {
    if (!read_values(numbers, spread)) return std::nullopt;
  } else {
    const auto deviation = number_within(numbers, kMaxDeviation);
    if (!deviation) return std::nullopt;
    spread.deviation = *deviation;
  }
  if (!is_correlated) return spread;
  const auto correlation = number_within(text, kMaxCorrelation);
  if (!correlation) return std::nullopt;
  spread.correlation = *correlation;
  return spread;
}

}  // namespace

Expected<FactorSpread> factor_spread_from_text(std::string_view text) {
  auto spread = read_spread(text);
  if (spread) return *std::move(spread);
  return make_error(ErrorCode::bad_argument, "no spread of factors",
                    {.found = std::string(text),
                     .expected = "normal:D, lognormal:D or gamma:D with a relative deviation from 0 to 2, or "
                                 "list:1,1,1.5; then :R for a correlation below 1"});
}

}  // namespace ppsim::planner
