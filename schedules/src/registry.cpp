#include "ppsim/schedules/registry.hpp"

#include <algorithm>
#include <sstream>
#include <vector>

#include "families/catalogue.hpp"
#include "ppsim/core/text/nearest.hpp"
#include "ppsim/core/text/number_text.hpp"

namespace ppsim::schedules {
namespace {

/// The broken rules of a set of parameters, one line each.
class Complaints {
 public:
  explicit Complaints(std::string_view schedule) : schedule_(schedule) {}

  void add(const std::string& text) {
    if (!text_.empty()) text_ += '\n';
    text_ += std::string(schedule_) + ": " + text;
  }
  void check_count(const std::string& what, int found, int least, int most) {
    if (found >= least && found <= most) return;
    const std::string range = least == most
                                  ? std::to_string(least)
                                  : "in [" + std::to_string(least) + ", " + std::to_string(most) + "]";
    add(what + " must be " + range + ", found " + std::to_string(found));
  }
  /// One complaint for each line.
  void add_lines(const std::string& lines) {
    std::istringstream in(lines);
    for (std::string line; std::getline(in, line);) add(line);
  }
  [[nodiscard]] bool none() const { return text_.empty(); }
  [[nodiscard]] Expected<void> result() const {
    if (text_.empty()) return {};
    return make_error(ErrorCode::bad_argument, text_);
  }

 private:
  std::string_view schedule_;
  std::string text_;
};

std::string unknown_setting(const ScheduleInfo& info, const std::string& name) {
  if (info.settings.empty()) return "no setting \"" + name + "\": there are none";
  const std::vector<std::string_view> names = names_in(info.settings);
  return "no setting \"" + name + "\"" + suggestion(name, names) + ": there are " + joined(names);
}

constexpr int kMaxMicrobatches = 1 << 24;
constexpr int kMaxSlices = 1 << 15;

}  // namespace

std::span<const ScheduleInfo> registered_schedules() {
  static const std::vector<ScheduleInfo> all = {
#define PPSIM_SCHEDULE(function) catalogue::function(),
#include "schedules.def"
#undef PPSIM_SCHEDULE
  };
  return all;
}

Expected<const ScheduleInfo*> find_schedule(std::string_view name) {
  for (const ScheduleInfo& info : registered_schedules()) {
    if (info.name == name) return &info;
  }
  const std::vector<std::string_view> names = names_in(registered_schedules());
  return make_error(ErrorCode::bad_argument, "no schedule \"" + std::string(name) + "\"" +
                                                 suggestion(name, names) + ": there are " + joined(names));
}

Expected<void> check_parameters(const ScheduleInfo& info, const ScheduleParameters& parameters) {
  Complaints complaints(info.name);
  complaints.check_count("ranks", parameters.ranks, 1, info.max_ranks);
  complaints.check_count("microbatches", parameters.microbatches, 1, kMaxMicrobatches);
  complaints.check_count("chunks", info.chunks(parameters), info.min_chunks, info.max_chunks);
  complaints.check_count("slices", parameters.slices, 1, info.has_slices ? kMaxSlices : 1);
  for (const auto& setting : parameters.settings) {
    const std::string& name = setting.first;
    const bool known =
        std::ranges::any_of(info.settings, [&](const SettingInfo& has) { return has.name == name; });
    if (!known) complaints.add(unknown_setting(info, name));
  }
  // A schedule's own rules may count on the ranges.
  if (complaints.none() && info.refusal != nullptr) complaints.add_lines(info.refusal(parameters));
  return complaints.result();
}

Expected<Schedule> generate(std::string_view name, const ScheduleParameters& parameters) {
  PPSIM_ASSIGN_OR_RETURN(const auto info, find_schedule(name));
  PPSIM_RETURN_IF_ERROR(check_parameters(*info, parameters));
  return info->generate(parameters);
}

std::optional<Nanoseconds> closed_form_bubble(const ScheduleInfo& info, const ScheduleParameters& parameters,
                                              const StageCosts& costs) {
  const TimeForm form = info.forms.makespan != nullptr ? info.forms.makespan : info.forms.span;
  const std::optional<Nanoseconds> time = form == nullptr ? std::nullopt : form(parameters, costs);
  if (!time) return std::nullopt;
  if (info.forms.busy != nullptr) return *time - info.forms.busy(parameters, costs).value();
  const Nanoseconds split = costs.backward_input + costs.backward_weight;
  const Nanoseconds backward = info.forward_only ? 0 : info.splits_backward ? split : costs.backward;
  const Nanoseconds passes =
      Nanoseconds{parameters.microbatches} * parameters.slices * info.chunks(parameters);
  return *time - passes * (costs.forward + backward);
}

std::ostream& operator<<(std::ostream& out, const ScheduleInfo& info) { return out << info.name; }

std::ostream& operator<<(std::ostream& out, const ScheduleParameters& parameters) {
  out << with_plural(parameters.ranks, "rank") << ", " << with_plural(parameters.microbatches, "microbatch");
  if (parameters.chunks) out << ", " << *parameters.chunks << " chunks";
  if (parameters.slices > 1) out << ", " << parameters.slices << " slices";
  for (const auto& [name, value] : parameters.settings) out << ", " << name << '=' << value;
  return out;
}

std::ostream& operator<<(std::ostream& out, const StageCosts& costs) {
  return out << "F=" << costs.forward << " B=" << costs.backward << " I=" << costs.backward_input
             << " W=" << costs.backward_weight << " FB=" << costs.overlap << " c=" << costs.transfer;
}

}  // namespace ppsim::schedules
