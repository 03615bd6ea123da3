#include "decimal.hpp"

#include <cmath>
#include <cstdlib>

namespace ppsim::planner {

std::optional<double> parse_decimal(const std::string& text) {
  if (text.empty() || text.find_first_not_of("0123456789.eE+-") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end != text.c_str() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> items;
  for (std::size_t begin = 0; begin <= text.size();) {
    items.push_back(text.substr(begin, text.find(separator, begin) - begin));
    begin += items.back().size() + 1;
  }
  return items;
}

}  // namespace ppsim::planner
