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

/// A schedule or a cost model, and the library or Python file that has it.
template <class Function>
struct Loaded {
  PluginOffer offer;
  const Function* function = nullptr;  ///< of a library
  const ppsim_plugin_v1* plugin = nullptr;
};

template <class Function>
using AllLoaded = std::vector<Loaded<Function>>;

/// Libraries belong to the process, as dlopen has it.
AllLoaded<ppsim_schedule>& schedules() {
  static AllLoaded<ppsim_schedule> all;
  return all;
}

AllLoaded<ppsim_cost_model>& cost_models() {
  static AllLoaded<ppsim_cost_model> all;
  return all;
}

template <class Function>
const Loaded<Function>* find(const AllLoaded<Function>& all, const std::string& name) {
  const auto found = std::ranges::find_if(all, [&](const auto& one) { return one.offer.name == name; });
  return found == all.end() ? nullptr : &*found;
}

template <class Function>
std::vector<PluginOffer> offers(const AllLoaded<Function>& all) {
  std::vector<PluginOffer> list;
  for (const auto& one : all) list.push_back(one.offer);
  return list;
}

tl::unexpected<Error> no_plugin(const std::string& path, const std::string& found,
                                const std::string& expected) {
  return make_error(ErrorCode::bad_argument, "no plugin of ppsim",
                    {.file = path, .found = found, .expected = expected});
}

/// Takes in what has a good name that is not taken. `what`: "schedule" or "cost model".
template <class Function>
Expected<void> add(AllLoaded<Function>& all, const char* what, Loaded<Function> one, bool published = false) {
  const auto& [name, summary, path] = one.offer;
  const std::string words = std::string("a ") + what + " \"" + name + "\"";
  const bool good = !name.empty() && std::ranges::all_of(name, [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '-';
  });
  if (!good) return no_plugin(path, words, "a name of letters, digits and dashes");
  if (published || find(all, name) != nullptr)
    return no_plugin(path, words + ", which there is already", "another name");
  all.push_back(std::move(one));
  return {};
}

Expected<void> add_schedule(Loaded<ppsim_schedule> one) {
  const bool published = find_schedule(one.offer.name).has_value();
  return add(schedules(), "schedule", std::move(one), published);
}

Expected<void> load_python(const std::string& path) {
  PPSIM_ASSIGN_OR_RETURN(const auto offers, python_offers(path));
  for (const auto& [kind, name, summary] : offers) {
    const PluginOffer offer{name, summary, path};
    PPSIM_RETURN_IF_ERROR(kind == "costs" ? add(cost_models(), "cost model", {offer})
                                          : add_schedule({offer}));
  }
  return {};
}

Expected<void> load_offers(const std::string& path, const ppsim_plugin_v1& plugin) {
  for (std::size_t i = 0; i < plugin.count; ++i) {
    const ppsim_schedule& schedule = plugin.schedules[i];
    if (schedule.name == nullptr || schedule.summary == nullptr || schedule.generate == nullptr)
      return no_plugin(path, "a schedule without name, summary or generate", "all three");
    PPSIM_RETURN_IF_ERROR(add_schedule({{schedule.name, schedule.summary, path}, &schedule, &plugin}));
  }
  for (std::size_t i = 0; i < plugin.cost_model_count; ++i) {
    const ppsim_cost_model& model = plugin.cost_models[i];
    if (model.name == nullptr || model.summary == nullptr || model.tables == nullptr)
      return no_plugin(path, "a cost model without name, summary or tables", "all three");
    PPSIM_RETURN_IF_ERROR(
        add(cost_models(), "cost model", {{model.name, model.summary, path}, &model, &plugin}));
  }
  return {};
}

/// Keys and values as C has them; both live as long as `settings`.
struct SettingTexts {
  explicit SettingTexts(const Settings& settings) {
    for (const auto& [key, value] : settings) {
      keys.push_back(key.c_str());
      values.push_back(value.c_str());
    }
  }
  std::vector<const char*> keys, values;
};

/// A copy of a C string of a plugin, which the plugin then frees.
std::string taken(const ppsim_plugin_v1& plugin, char* text) {
  if (text == nullptr) return "";
  std::string copy = text;
  plugin.release(text);
  return copy;
}

/// The answer of a plugin's function. `call` calls it with the place for a refusal.
template <class Function, class Call>
Expected<std::string> answered(const Loaded<Function>& one, const Call& call) {
  char* refusal = nullptr;
  char* text = call(&refusal);
  const std::string why = taken(*one.plugin, refusal);
  if (text != nullptr) return taken(*one.plugin, text);
  return make_error(ErrorCode::bad_argument,
                    one.offer.name + ": " + (why.empty() ? "the plugin makes none" : why),
                    {.file = one.offer.library});
}

/// The settings of `NAME[:key=value,...]`. The counts of the schedule are no settings.
Expected<Settings> settings_of(const std::string& words) {
  PPSIM_ASSIGN_OR_RETURN(const auto named, parse_named_schedule(words));
  ScheduleParameters counts = named.parameters;
  counts.settings.clear();
  if (counts == ScheduleParameters{}) return named.parameters.settings;
  return make_error(
      ErrorCode::bad_argument, "a cost model is told the counts of the schedule",
      {.found = "--costs " + words, .expected = "settings other than ranks, microbatches, chunks, slices"});
}

std::vector<int> ranks_of_stages(const Pipeline& pipeline) {
  std::vector<int> ranks;
  for (const StageId stage : pipeline.stage_ids()) ranks.push_back(pipeline.rank_of(stage).value());
  return ranks;
}

Expected<std::string> tables_text(const Loaded<ppsim_cost_model>& model, const Settings& settings,
                                  const Pipeline& pipeline) {
  if (model.function == nullptr)
    return costs_from_python(model.offer.library, model.offer.name, settings, pipeline);
  const std::vector<int> ranks = ranks_of_stages(pipeline);
  const SettingTexts words(settings);
  const ppsim_pipeline asked{pipeline.ranks(),  pipeline.stages(),  pipeline.microbatches(),
                             pipeline.slices(), ranks.data(),       words.keys.size(),
                             words.keys.data(), words.values.data()};
  return answered(model, [&](char** refusal) { return model.function->tables(&asked, refusal); });
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
  if (plugin->release == nullptr || (plugin->schedules == nullptr && plugin->count > 0) ||
      (plugin->cost_models == nullptr && plugin->cost_model_count > 0))
    return no_plugin(path, "a plugin without release, or without what it counts", "both");
  return load_offers(path, *plugin);
}

std::vector<PluginOffer> plugin_schedules() { return offers(schedules()); }
std::vector<PluginOffer> plugin_cost_models() { return offers(cost_models()); }

Expected<void> refuse_plugins(const std::string& what) {
  if (plugin_schedules().empty() && plugin_cost_models().empty()) return {};
  return make_error(ErrorCode::bad_argument, what + " the schedules of ppsim alone",
                    {.found = "--plugin", .expected = "ppsim simulate or ppsim compare, which take it"});
}

bool has_plugin_schedule(const std::string& name) { return find(schedules(), name) != nullptr; }

std::optional<Expected<std::string>> text_from_plugin(const std::string& name,
                                                      const ScheduleParameters& parameters) {
  const auto* const found = find(schedules(), name);
  if (found == nullptr) return std::nullopt;
  if (found->function == nullptr) return text_from_python(found->offer.library, name, parameters);
  const SettingTexts words(parameters.settings);
  const ppsim_parameters asked{parameters.ranks,
                               parameters.microbatches,
                               parameters.chunks.value_or(0),
                               std::max(1, parameters.slices),
                               words.keys.size(),
                               words.keys.data(),
                               words.values.data()};
  return answered(*found, [&](char** refusal) { return found->function->generate(&asked, refusal); });
}

std::optional<Expected<CostModel>> cost_model_from_plugin(const std::string& words) {
  const auto* const found = find(cost_models(), words.substr(0, words.find(':')));
  if (found == nullptr) return std::nullopt;
  PPSIM_ASSIGN_OR_RETURN(auto settings, settings_of(words));
  return CostModel(
      [model = *found, words, settings = std::move(settings)](const Pipeline& pipeline) -> Expected<Tables> {
        PPSIM_ASSIGN_OR_RETURN(const auto text, tables_text(model, settings, pipeline));
        return tables_from_json(text, words);
      });
}

}  // namespace ppsim::cli
