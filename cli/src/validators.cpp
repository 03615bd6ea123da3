#include "validators.hpp"

#include <cmath>
#include <functional>
#include <iomanip>
#include <sstream>
#include <string>

namespace ppsim::cli {
namespace {

/// A number that `fits`, which nothing that is no number does, nor one beyond all bounds.
CLI::Validator number(const std::string& name, const std::string& expected,
                      const std::function<bool(double)>& fits) {
  return {[expected, fits](const std::string& text) {
            double value = 0;
            const bool good = CLI::detail::lexical_cast(text, value) && std::isfinite(value) && fits(value);
            return good ? std::string() : "found " + text + ", expected " + expected;
          },
          name};
}

}  // namespace

CLI::Validator positive() {
  return number("POSITIVE", "a number above 0", [](double value) { return value > 0; });
}

CLI::Validator not_negative() {
  return number("NONNEGATIVE", "a number from 0 on", [](double value) { return value >= 0; });
}

CLI::Validator between(double least, double most) {
  std::ostringstream range;
  range << std::setprecision(10) << "a number from " << least << " to " << most;
  return number("", range.str(), [=](double value) { return value >= least && value <= most; });
}

CLI::Validator seconds() { return between(0.001, 1e6).description("SECONDS"); }

CLI::Validator not_stdout() {
  return {[](const std::string& path) {
            return path == "-" ? std::string("stdout has the result; name a file") : std::string();
          },
          "FILE"};
}

CLI::Validator trace_path() {
  return {[](const std::string& path) {
            for (const char* suffix : {".csv", ".json", ".pftrace"}) {
              if (path.ends_with(suffix)) return std::string();
            }
            return "found " + path + ", expected a file that ends in .csv, .json or .pftrace";
          },
          "FILE"};
}

}  // namespace ppsim::cli
