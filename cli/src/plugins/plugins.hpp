#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/schedules/registry.hpp"

namespace ppsim::cli {

/// Loads the library of --plugin, or asks the Python file; its schedules are known from then on, as long as
/// the program runs. Errors: bad_argument for what is neither, and for a schedule that is there already.
[[nodiscard]] Expected<void> load_plugin(const std::string& path);

/// A schedule of a plugin, for `ppsim list schedules`.
struct PluginSchedule {
  std::string name, summary, library;
};
[[nodiscard]] std::vector<PluginSchedule> plugin_schedules();

[[nodiscard]] bool has_plugin_schedule(const std::string& name);

/// The text of a schedule of a plugin, `name`; nothing where no plugin has it.
/// Errors: bad_argument with the plugin's words where it refuses.
[[nodiscard]] std::optional<Expected<std::string>> text_from_plugin(const std::string& name,
                                                                    const ScheduleParameters& parameters);

}  // namespace ppsim::cli
