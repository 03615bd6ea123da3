#pragma once

#include <map>
#include <string>
#include <vector>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/pipeline.hpp"
#include "ppsim/schedules/registry.hpp"

namespace ppsim::cli {

using Settings = std::map<std::string, std::string>;

/// A schedule, or a cost model ("costs"), that a Python file registers.
struct PythonOffer {
  std::string kind, name, summary;
};

/// The offers that a Python file registers with `ppsim.register` and `ppsim.register_costs`.
/// Errors: bad_argument with what Python says where the file, Python or its module ppsim fails.
[[nodiscard]] Expected<std::vector<PythonOffer>> python_offers(const std::string& file);

/// The text of one of its schedules.
/// Errors: bad_argument with what the file raises.
[[nodiscard]] Expected<std::string> text_from_python(const std::string& file, const std::string& name,
                                                     const ScheduleParameters& parameters);

/// The table of one of its cost models, for a pipeline.
/// Errors: bad_argument with what the file raises.
[[nodiscard]] Expected<std::string> costs_from_python(const std::string& file, const std::string& name,
                                                      const Settings& settings, const Pipeline& pipeline);

}  // namespace ppsim::cli
