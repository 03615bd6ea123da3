#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/planner/costs/costs.hpp"
#include "ppsim/schedules/registry.hpp"

namespace ppsim::cli {

/// Loads the library of --plugin, or asks the Python file; its schedules and cost models are known from then
/// on, as long as the program runs. Errors: bad_argument for what is neither, and for a name that is taken.
[[nodiscard]] Expected<void> load_plugin(const std::string& path);

/// A schedule or a cost model of a plugin, for `ppsim list`.
struct PluginOffer {
  std::string name, summary, library;
};
[[nodiscard]] std::vector<PluginOffer> plugin_schedules();
[[nodiscard]] std::vector<PluginOffer> plugin_cost_models();

/// Of a command that takes neither from plugins; `what` it does, such as "plan searches".
/// Errors: bad_argument where plugins are loaded.
[[nodiscard]] Expected<void> refuse_plugins(const std::string& what);

[[nodiscard]] bool has_plugin_schedule(const std::string& name);

/// The text of a schedule of a plugin, `name`; nothing where no plugin has it.
/// Errors: bad_argument with the plugin's words where it refuses.
[[nodiscard]] std::optional<Expected<std::string>> text_from_plugin(const std::string& name,
                                                                    const ScheduleParameters& parameters);

/// The cost model of a plugin that `--costs NAME[:key=value,...]` means; nothing where no plugin has it. It
/// gives bad_argument with the plugin's words where it refuses, bad_file where its text is no table. Errors:
/// bad_argument for settings that are not key=value.
[[nodiscard]] std::optional<Expected<CostModel>> cost_model_from_plugin(const std::string& words);

}  // namespace ppsim::cli
