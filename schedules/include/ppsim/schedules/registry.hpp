#pragma once

#include <map>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

#include "ppsim/core/ir/repetition.hpp"
#include "ppsim/core/ir/schedule.hpp"
#include "ppsim/core/ir/tables.hpp"
#include "ppsim/core/ir/units.hpp"

namespace ppsim::schedules {

/// The parameters that a schedule is generated from.
struct ScheduleParameters {
  int ranks = 1;
  int microbatches = 1;
  std::optional<int> chunks;  ///< stages per rank; empty: the schedule's default
  int slices = 1;
  std::map<std::string, std::string> settings;  ///< parameters that only some schedules have
  /// The costs of orders that follow costs (ScheduleInfo::uses_costs); empty: one unit for F, I and W of
  /// a stage, two for B, none for a transfer.
  std::optional<CostTable> costs;

  friend bool operator==(const ScheduleParameters&, const ScheduleParameters&) = default;
};
std::ostream& operator<<(std::ostream& out, const ScheduleParameters& parameters);

/// Durations of the actions of one stage, alike for all stages, and of one transfer between two ranks.
struct StageCosts {
  Nanoseconds forward = 1;
  Nanoseconds backward = 2;        ///< where a schedule runs B
  Nanoseconds backward_input = 1;  ///< where it runs I and W
  Nanoseconds backward_weight = 1;
  Nanoseconds overlap = 3;  ///< OVERLAP_F_B
  Nanoseconds transfer = 0;

  friend bool operator==(const StageCosts&, const StageCosts&) = default;
};
std::ostream& operator<<(std::ostream& out, const StageCosts& costs);

/// A closed form of a schedule's time; empty where it does not hold for these parameters or costs.
using TimeForm = std::optional<Nanoseconds> (*)(const ScheduleParameters&, const StageCosts&);
/// The most (stage, microbatch, slice) whose F has started and whose B or W, or F where there is neither, has
/// not ended, on one rank at any time.
using PeakForm = std::optional<int> (*)(const ScheduleParameters&, RankId);

/// The closed forms of a schedule's paper. A form that does not exist is nullptr.
struct ClosedForms {
  TimeForm makespan = nullptr;  ///< first start to last end over all ranks
  TimeForm span = nullptr;      ///< the longest rank's own first start to last end
  PeakForm peak_live_activations = nullptr;
  /// The computation of a rank, where that is not F and B, or I and W, of every microbatch on every chunk;
  /// where ranks differ, the rank whose bubble is told.
  TimeForm busy = nullptr;
  /// How a reader writes the bubble of `makespan` (else `span`) and the largest peak over the ranks: in p, m,
  /// v, k and the times F, B, I, W, FB, c of one stage's actions; "... for p | m, B >= F, I = W" under
  /// conditions.
  std::string_view bubble = {};
  std::string_view peak = {};
};

/// A parameter that only some schedules have, `--set name=value`.
struct SettingInfo {
  std::string_view name;
  std::string_view meaning;   ///< and which values there are
  std::string_view fallback;  ///< the value where it is not given
  /// Values that tests and tables try; a schedule may refuse some of them for some parameters.
  std::span<const std::string_view> examples = {};
};

/// One schedule of the registry.
struct ScheduleInfo {
  std::string_view name;
  std::string_view summary;
  std::string_view paper;        ///< authors, title, venue or arXiv number
  std::string_view placement;    ///< which rank holds which stage
  std::string_view constraints;  ///< which parameters are possible
  int max_ranks = 1 << 16;
  int default_chunks = 1;
  int min_chunks = 1;  ///< stages per rank
  int max_chunks = 1;
  bool has_slices = false;
  bool splits_backward = false;  ///< I and W in place of B
  bool forward_only = false;     ///< neither B nor I and W
  bool uses_costs = false;       ///< the order follows parameters.costs
  /// The weight gradients of every stage are summed in ascending order of microbatches.
  bool ascending_accumulation = true;
  std::span<const SettingInfo> settings;
  /// Constraints of the schedule beyond the ranges above, nullptr for none: each broken rule a line with
  /// what was found and what is possible, without the schedule's name.
  std::string (*refusal)(const ScheduleParameters&) = nullptr;
  /// Requires: check_parameters(info, parameters).
  Expected<Schedule> (*generate)(const ScheduleParameters&);
  /// How the Programs repeat under the orders of lowering at unit costs, with communicators per edge;
  /// microbatches do not matter. Where it is not known, no property is proved for all microbatches.
  Repetitions (*repetitions)(const ScheduleParameters&) = nullptr;
  ClosedForms forms;

  /// Stages per rank that the parameters mean.
  [[nodiscard]] int chunks(const ScheduleParameters& parameters) const {
    return parameters.chunks.value_or(default_chunks);
  }
};

/// Its name.
std::ostream& operator<<(std::ostream& out, const ScheduleInfo& info);

/// All schedules, in the order of schedules.def.
[[nodiscard]] std::span<const ScheduleInfo> registered_schedules();

/// Errors: bad_argument naming the schedules that exist, and the one that was probably meant.
[[nodiscard]] Expected<const ScheduleInfo*> find_schedule(std::string_view name);

/// Errors: bad_argument naming every parameter out of its range, every setting that the schedule does not
/// have, and what else it refuses.
[[nodiscard]] Expected<void> check_parameters(const ScheduleInfo& info, const ScheduleParameters& parameters);

/// Errors: those of find_schedule and check_parameters, each saying what is possible; bad_argument where a
/// schedule finds only while it generates that it does not exist (no order within a memory limit).
[[nodiscard]] Expected<Schedule> generate(std::string_view name, const ScheduleParameters& parameters);

/// Time that a rank does not compute, by the closed form of the makespan, or else of the span.
[[nodiscard]] std::optional<Nanoseconds> closed_form_bubble(const ScheduleInfo& info,
                                                            const ScheduleParameters& parameters,
                                                            const StageCosts& costs);

/// A schedule as a command line names it.
struct NamedSchedule {
  std::string name;
  ScheduleParameters parameters;
  friend bool operator==(const NamedSchedule&, const NamedSchedule&) = default;
};

/// Reads `name` or `name:key=value,...` with the keys ranks, microbatches, chunks, slices and settings, over
/// what `parameters` says already. Errors: bad_argument for an item without `=`, a key given twice, a count
/// that is no number.
[[nodiscard]] Expected<NamedSchedule> parse_named_schedule(std::string_view text,
                                                           ScheduleParameters parameters = {});

}  // namespace ppsim::schedules

namespace ppsim {
using schedules::check_parameters;
using schedules::closed_form_bubble;
using schedules::ClosedForms;
using schedules::find_schedule;
using schedules::generate;
using schedules::NamedSchedule;
using schedules::parse_named_schedule;
using schedules::PeakForm;
using schedules::registered_schedules;
using schedules::ScheduleInfo;
using schedules::ScheduleParameters;
using schedules::SettingInfo;
using schedules::StageCosts;
using schedules::TimeForm;
}  // namespace ppsim
