// How the program writes times, sizes, shares and tables.

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <numeric>
#include <sstream>

#include "command.hpp"
#include "ppsim/core/ir/missing_entries.hpp"
#include "terminal.hpp"

namespace ppsim::cli {

std::string fixed_text(double number, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << number;
  return out.str();
}

std::string number_text(double number) {
  std::ostringstream out;
  out << std::setprecision(4) << number;
  return out.str();
}

std::string time_text(Nanoseconds time) {
  const auto ns = static_cast<double>(time);
  if (time >= 1'000'000'000) return fixed_text(ns / 1e9, 3) + " s";
  if (time >= 1'000'000) return fixed_text(ns / 1e6, 2) + " ms";
  if (time >= 1'000) return fixed_text(ns / 1e3, 2) + " us";
  return std::to_string(time) + " ns";
}

std::string size_text(Bytes size) {
  const auto bytes = static_cast<double>(size);
  if (size >= 1'000'000'000) return fixed_text(bytes / 1e9, 2) + " GB";
  if (size >= 1'000'000) return fixed_text(bytes / 1e6, 2) + " MB";
  if (size >= 1'000) return fixed_text(bytes / 1e3, 2) + " kB";
  return std::to_string(size) + " B";
}

std::string sizes_apart(Bytes size, Bytes limit) {
  if (size_text(size) != size_text(limit)) return size_text(size) + " of " + size_text(limit);
  return std::to_string(size) + " of " + std::to_string(limit) + " bytes";
}

std::vector<std::string> free_kinds(const CostTable& costs, const Program& program) {
  std::vector<std::string> kinds;
  for (const CostClass& key : missing_costs(costs, program)) kinds.emplace_back(info(key.kind).text);
  return kinds;
}

std::string free_kinds_text(const std::vector<std::string>& kinds) {
  std::string text;
  for (const std::string& kind : kinds)
    text += (text.empty() ? "free of cost, no price is given: " : ", ") + kind;
  return text.empty() ? text : text + '\n';
}

std::string percent_text(double fraction) { return fixed_text(100 * fraction, 2) + " %"; }

std::string signed_percent_text(double fraction) {
  const std::string text = percent_text(std::abs(fraction));
  return (fraction < 0 && text != percent_text(0) ? "-" : "+") + text;
}

std::string difference_text(Nanoseconds measured, Nanoseconds simulated) {
  if (simulated == 0) return "";
  return signed_percent_text(static_cast<double>(measured - simulated) / static_cast<double>(simulated));
}

std::string lengths_text(const std::vector<int>& lengths) {
  std::string text;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (i > 0) text += i + 1 == lengths.size() ? " and " : ", ";
    text += std::to_string(lengths[i]);
  }
  return text;
}

std::string table_text(const TextTable& rows, Align align) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  // A table that is a little too wide for the terminal moves together before its lines are broken.
  const std::size_t width =
      std::accumulate(widths.begin(), widths.end(), 2 * std::max<std::size_t>(widths.size(), 1) - 2);
  const std::size_t room = terminal_columns();
  const std::string gap(room > 0 && width > room ? 1 : 2, ' ');
  std::ostringstream out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string padding(widths[c] - row[c].size(), ' ');
      if (c > 0) line += gap;
      line += c == 0 || align == Align::left ? row[c] + padding : padding + row[c];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << '\n';
  }
  return out.str();
}

}  // namespace ppsim::cli
