#include "plugins.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "ppsim/planner/files.hpp"
#include "ppsim/planner/plugin.h"
#include "python_plugin.hpp"

namespace ppsim::cli {
namespace {

/// A schedule and the library or Python file that has it.
struct Loaded {
  PluginSchedule schedule;
  const ppsim_schedule* function = nullptr;  ///< of a library
  const ppsim_plugin_v1* plugin = nullptr;
};

/// Libraries belong to the process, as dlopen has it.
std::vector<Loaded>& loaded() {
  static std::vector<Loaded> all;
  return all;
}

tl::unexpected<Error> no_plugin(const std::string& path, const std::string& found,
                                const std::string& expected) {
  return make_error(ErrorCode::bad_argument, "no plugin of ppsim",
                    {.file = path, .found = found, .expected = expected});
}

/// A name that is good and not taken.
Expected<void> check_name(const std::string& path, const std::string& name) {
  const bool good = !name.empty() && std::ranges::all_of(name, [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '-';
  });
  if (!good) return no_plugin(path, "a schedule \"" + name + "\"", "a name of letters, digits and dashes");
  if (find_schedule(name) || has_plugin_schedule(name))
    return no_plugin(path, "a schedule \"" + name + "\", which there is already", "another name");
  return {};
}

/// What --plugin has of a text of C, which the plugin frees.
std::string taken(const ppsim_plugin_v1& plugin, char* text) {
  if (text == nullptr) return "";
  std::string copy = text;
  plugin.release(text);
  return copy;
}

Expected<void> load_python(const std::string& path) {
  PPSIM_ASSIGN_OR_RETURN(const auto schedules, python_schedules(path));
  for (const auto& [name, summary] : schedules) {
    if (auto good = check_name(path, name); !good) return good;
    loaded().push_back({{name, summary, path}});
  }
  return {};
}

}  // namespace

Expected<void> load_plugin(const std::string& path) {
  if (suffix_of(path) == ".py") return load_python(path);
  const std::string file = std::filesystem::absolute(path).string();  // else it is looked for in the system
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return no_plugin(path, ::dlerror(), "a shared library");
  using Entry = const ppsim_plugin_v1* (*)();
  const auto entry = reinterpret_cast<Entry>(::dlsym(library, "ppsim_plugin"));
  if (entry == nullptr) return no_plugin(path, "no function ppsim_plugin", "that of ppsim/planner/plugin.h");
  const ppsim_plugin_v1* plugin = entry();
  if (plugin == nullptr || plugin->version != PPSIM_PLUGIN_VERSION) {
    return no_plugin(path, plugin == nullptr ? "nothing" : "version " + std::to_string(plugin->version),
                     "version " + std::to_string(PPSIM_PLUGIN_VERSION));
  }
  if (plugin->release == nullptr || (plugin->schedules == nullptr && plugin->count > 0))
    return no_plugin(path, "a plugin without release or schedules", "both");
  for (std::size_t i = 0; i < plugin->count; ++i) {
    const ppsim_schedule& schedule = plugin->schedules[i];
    if (schedule.name == nullptr || schedule.summary == nullptr || schedule.generate == nullptr)
      return no_plugin(path, "a schedule without name, summary or generate", "all three");
    if (auto good = check_name(path, schedule.name); !good) return good;
    loaded().push_back({{schedule.name, schedule.summary, path}, &schedule, plugin});
  }
  return {};
}

std::vector<PluginSchedule> plugin_schedules() {
  std::vector<PluginSchedule> list;
  for (const Loaded& one : loaded()) list.push_back(one.schedule);
  return list;
}

bool has_plugin_schedule(const std::string& name) {
  return std::ranges::any_of(loaded(), [&](const Loaded& one) { return one.schedule.name == name; });
}

std::optional<Expected<std::string>> text_from_plugin(const std::string& name,
                                                      const ScheduleParameters& parameters) {
  const auto found =
      std::ranges::find_if(loaded(), [&](const Loaded& one) { return one.schedule.name == name; });
  if (found == loaded().end()) return std::nullopt;
  const std::string& file = found->schedule.library;
  if (found->function == nullptr) return text_from_python(file, name, parameters);
  std::vector<const char*> keys, values;
  for (const auto& [key, value] : parameters.settings) {
    keys.push_back(key.c_str());
    values.push_back(value.c_str());
  }
  const ppsim_parameters asked{parameters.ranks,
                               parameters.microbatches,
                               parameters.chunks.value_or(0),
                               std::max(1, parameters.slices),
                               keys.size(),
                               keys.data(),
                               values.data()};
  char* refusal = nullptr;
  char* text = found->function->generate(&asked, &refusal);
  const std::string why = taken(*found->plugin, refusal);
  if (text != nullptr) return taken(*found->plugin, text);
  return make_error(ErrorCode::bad_argument, name + ": " + (why.empty() ? "the plugin makes none" : why),
                    {.file = file});
}

}  // namespace ppsim::cli
