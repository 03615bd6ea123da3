#include "validators.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iomanip>
#include <limits>
#include <sstream>

#include "ppsim/core/text/nearest.hpp"
#include "ppsim/core/text/number_text.hpp"
#include "ppsim/planner/files.hpp"

namespace ppsim::cli {
namespace {

/// A number that `fits`, which nothing that is no number does, nor one beyond all bounds.
Validator number(const std::string& name, const std::string& expected,
                 const std::function<bool(double)>& fits) {
  return {[expected, fits](const std::string& text) {
            double value = 0;
            const bool good = read_number(text, value) && std::isfinite(value) && fits(value);
            return good ? std::string() : "found " + text + ", expected " + expected;
          },
          name};
}

constexpr const char* kOutputFile = "FILE";  // as --help has it
constexpr const char* kNoFile = "found -, expected a file: stdout has the result";

std::string wrong_suffix(const std::string& path, const std::vector<std::string>& suffixes) {
  std::string text = "found " + path + ", expected a file that ends in ";
  for (std::size_t i = 0; i < suffixes.size(); ++i) {
    if (i > 0) text += i + 1 == suffixes.size() ? " or " : ", ";
    text += suffixes[i];
  }
  return text;
}

/// Why a file is none that a suffix says; empty: nothing.
std::string refused_suffix(const std::string& path, const std::vector<std::string>& suffixes) {
  const std::string suffix = suffix_of(path);
  const bool good = suffix.empty() || std::ranges::find(suffixes, suffix) != suffixes.end();
  return good ? std::string() : wrong_suffix(path, suffixes);
}

}  // namespace

Validator positive() {
  return number("POSITIVE", "a number above 0", [](double value) { return value > 0; });
}

Validator not_negative() {
  return number("NONNEGATIVE", "a number from 0 on", [](double value) { return value >= 0; });
}

Validator between(double least, double most) {
  std::ostringstream range;
  range << std::setprecision(10) << "a number from " << least << " to " << most;
  return number("", range.str(), [=](double value) { return value >= least && value <= most; });
}

Validator seconds() { return {between(0.001, 1e6).refusal, "SECONDS"}; }

Validator one_of(const std::vector<std::string>& words) {
  const std::string all = joined(words);
  std::string choices = "{" + all + "}";
  std::erase(choices, ' ');
  return {[=](const std::string& text) {
            const bool good = std::ranges::find(words, text) != words.end();
            return good ? std::string() : "found " + text + ", expected one of " + all;
          },
          choices};
}

Validator whole(std::int64_t least, std::int64_t most) {
  const std::string expected = "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
  return {[=](const std::string& text) {
            const auto value = parse_number<std::int64_t>(text);
            const bool good = value && *value >= least && *value <= most && std::to_string(*value) == text;
            return good ? std::string() : "found " + text + ", expected " + expected;
          },
          ""};
}

Validator count() { return whole(1, std::numeric_limits<int>::max()); }

Validator output_file(std::vector<std::string> suffixes) {
  return {
      [suffixes = std::move(suffixes)](const std::string& path) { return refused_suffix(path, suffixes); },
      kOutputFile};
}

Validator side_file(std::vector<std::string> suffixes) {
  return {[suffixes = std::move(suffixes)](const std::string& path) {
            return path == "-" ? std::string(kNoFile) : refused_suffix(path, suffixes);
          },
          kOutputFile};
}

Validator trace_file() {
  return {[](const std::string& path) {
            const std::vector<std::string> suffixes = {".csv", ".json", ".pftrace"};
            return suffix_of(path).empty() ? wrong_suffix(path, suffixes) : refused_suffix(path, suffixes);
          },
          kOutputFile};
}

bool is_output_file(const ParsedOption& option) {
  return option.type.ends_with(std::string(":") + kOutputFile);
}

}  // namespace ppsim::cli
