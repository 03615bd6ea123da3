#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost_binding.hpp"
#include "ppsim/verifier/verify.hpp"

namespace ppsim::python {

/// The questions of python/ppsim/verification.py about one Program.
struct VerifyQuestion {
  std::vector<std::string> properties;  ///< empty: those by default
  std::string transport = "any";
  std::optional<std::string> target;  ///< a release, whose transport it then is
  std::optional<int> buffers;
  Sources costs;
  std::optional<Bytes> memory_limit;
  double timeout_s = 60;
  bool cross_check = false;
};

/// Errors: throws CoreError.
[[nodiscard]] VerifyOptions options_of(const Program& program, const VerifyQuestion& question);

/// The part that all answers to a property share: its name, the verdict, and the reason of an unknown one.
[[nodiscard]] nb::dict verdict_data(Property property, const Verdict& verdict);

}  // namespace ppsim::python
