#include "ppsim/core/io/jaxpp_tasks.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "io/json/file.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/core/text/number_text.hpp"

namespace ppsim {
namespace {

using nlohmann::json;

constexpr std::string_view kFused = "FusedTask(";
constexpr std::array<std::pair<OpKind, std::string_view>, 4> kTaskNames = {
    {{OpKind::forward, "fwd_"},
     {OpKind::backward, "bwd_"},
     {OpKind::backward_input, "bwdA_"},
     {OpKind::backward_weight, "bwdW_"}}};

/// The number of at least 0 that a text begins with, which is taken off it.
std::optional<int> take_task_number(std::string_view& text) {
  const auto number = take_leading_number<int>(text);
  return number && *number >= 0 ? number : std::nullopt;
}

/// "bwdA_2__5" is 2I5.
std::optional<Action> task_of(std::string_view text) {
  for (const auto& [kind, name] : kTaskNames) {
    if (!text.starts_with(name)) continue;
    std::string_view rest = text.substr(name.size());
    const auto stage = take_task_number(rest);
    if (!stage || !rest.starts_with("__")) return std::nullopt;
    rest.remove_prefix(2);
    const auto microbatch = take_task_number(rest);
    if (!microbatch || !rest.empty()) return std::nullopt;
    return make_action(kind, *stage, *microbatch);
  }
  return std::nullopt;
}

bool is_same_cell(const Action& a, const Action& b) {
  return a.subject == b.subject && a.microbatch == b.microbatch;
}

/// The members of a FusedTask, I and W of a cell as its B; nothing where one is no task.
std::optional<std::vector<Action>> members_of(std::string_view text) {
  std::vector<Action> members;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(", "), text.size());
    const auto task = task_of(text.substr(0, comma));
    if (!task) return std::nullopt;
    text.remove_prefix(std::min(comma + 2, text.size()));
    const bool completes = !members.empty() && members.back().kind == OpKind::backward_input &&
                           task->kind == OpKind::backward_weight && is_same_cell(members.back(), *task);
    if (completes) {
      members.back().kind = OpKind::backward;
    } else {
      members.push_back(*task);
    }
  }
  return members;
}

/// The cells of one entry of a list; nothing where it is no task.
std::optional<std::vector<Cell>> cells_of(std::string_view text) {
  if (!text.starts_with(kFused) || !text.ends_with(')')) {
    const auto task = task_of(text);
    return task ? std::optional(std::vector<Cell>{*task}) : std::nullopt;
  }
  const auto members = members_of(text.substr(kFused.size(), text.size() - kFused.size() - 1));
  if (!members || members->empty()) return std::nullopt;
  const Action& first = members->front();
  if (members->size() == 1) return std::vector<Cell>{first};
  const Action& second = members->back();
  if (members->size() > 2 || first.kind != OpKind::forward || !gives_input_gradient(second.kind))
    return std::nullopt;
  if (is_same_cell(first, second)) return std::vector<Cell>{first, second};
  return std::vector<Cell>{Cell(first, second)};
}

/// Rows of cells, and what they are about.
struct TaskRows {
  std::vector<std::vector<Cell>> rows;
  PipelineSpec spec;
};

Expected<TaskRows> read_task_rows(const JsonFile& file) {
  TaskRows result;
  for (std::size_t r = 0; r < file.root().size(); ++r) {
    const json& row = file.root()[r];
    if (!row.is_array()) return file.error_at({std::to_string(r)}, "no list of tasks", row.dump(), "a list");
    result.rows.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) {
      const auto cells = row[i].is_null()     ? std::optional(std::vector<Cell>{Cell()})
                         : row[i].is_string() ? cells_of(row[i].get_ref<const std::string&>())
                                              : std::nullopt;
      if (!cells) {
        return file.error_at({std::to_string(r), std::to_string(i)}, "no task of JaxPP", row[i].dump(),
                             "\"fwd_0__3\", bwd_, bwdA_, bwdW_, a FusedTask of an F and a backward, or null");
      }
      result.rows.back().insert(result.rows.back().end(), cells->begin(), cells->end());
    }
  }
  return result;
}

/// Every stage on the rank whose list has it, and as many microbatches as are named.
Expected<void> find_shape(TaskRows& read, const JsonFile& file) {
  std::size_t cells = 0;
  for (const std::vector<Cell>& row : read.rows) cells += row.size();
  std::vector<int> rank_of;
  for (std::size_t r = 0; r < read.rows.size(); ++r) {
    for (const Cell& cell : read.rows[r]) {
      for (const Action& action : cell.actions()) {
        const auto stage = static_cast<std::size_t>(action.subject);
        if (stage >= 2 * cells || static_cast<std::size_t>(action.microbatch) >= 2 * cells) {
          return file.error_at({std::to_string(r)}, "a number larger than there are tasks",
                               std::to_string(std::max(action.subject, action.microbatch)),
                               "every stage and every microbatch");
        }
        if (stage >= rank_of.size()) rank_of.resize(stage + 1, -1);
        if (rank_of[stage] < 0) rank_of[stage] = static_cast<int>(r);
        read.spec.microbatches = std::max(read.spec.microbatches, action.microbatch + 1);
      }
    }
  }
  read.spec.ranks = static_cast<int>(read.rows.size());
  read.spec.stages = static_cast<int>(rank_of.size());
  for (std::size_t s = 0; s < rank_of.size(); ++s) {
    if (rank_of[s] < 0)
      return file.error_at({}, "a stage without tasks", "stage " + std::to_string(s), "tasks of each stage");
    read.spec.placement.push_back(RankId(rank_of[s]));
  }
  return {};
}

/// How a schedule is written as tasks.
class TaskWriter {
 public:
  explicit TaskWriter(const Schedule& schedule) : schedule_(schedule), pipeline_(schedule.pipeline()) {
    for (const RankId rank : pipeline_.rank_ids()) {
      for (const Cell& cell : schedule.row(rank)) {
        for (const Action& action : cell.actions()) {
          splits_ = splits_ || action.kind == OpKind::backward_input;
        }
      }
    }
    interleaved_ = pipeline_.stages() > pipeline_.ranks();
    for (int s = 0; s < pipeline_.stages(); ++s)
      interleaved_ = interleaved_ && pipeline_.rank_of(StageId(s)).value() == s % pipeline_.ranks();
  }

  Expected<std::string> text() const {
    const auto plain = Pipeline::make({.ranks = pipeline_.ranks(),
                                       .stages = pipeline_.stages(),
                                       .microbatches = pipeline_.microbatches(),
                                       .placement = pipeline_.spec().placement});
    if (!plain || *plain != pipeline_) {
      return make_error(ErrorCode::bad_argument,
                        "JaxPP's tasks are of one chain of stages, without slices, routes, shared blocks, "
                        "versions and collectives");
    }
    std::string result = "[\n";
    for (int r = 0; r < pipeline_.ranks(); ++r) {
      auto row = row_text(RankId(r));
      if (!row) return row;
      result += "  " + *row + (r + 1 < pipeline_.ranks() ? ",\n" : "\n");
    }
    return result + "]\n";
  }

 private:
  [[nodiscard]] Expected<std::string> row_text(RankId rank) const {
    const auto row = schedule_.row(rank);
    json cells = json::array();
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::vector<Action> members(row[i].actions().begin(), row[i].actions().end());
      if (i + 1 < row.size() && is_last_cell(row[i], row[i + 1]))
        members.push_back(row[++i].actions().front());
      std::vector<std::string> names;
      for (const Action& action : members) {
        PPSIM_RETURN_IF_ERROR(add_names(action, names));
      }
      cells.push_back(cell(names));
    }
    return cells.dump();
  }

  /// F of the last stage and B of the same cell.
  [[nodiscard]] bool is_last_cell(const Cell& cell, const Cell& next) const {
    if (!interleaved_ || cell.actions().size() != 1 || next.actions().size() != 1) return false;
    const Action& first = cell.actions().front();
    const Action& second = next.actions().front();
    return first.kind == OpKind::forward && second.kind == OpKind::backward &&
           first.subject == pipeline_.stages() - 1 && is_same_cell(first, second);
  }

  [[nodiscard]] Expected<void> add_names(const Action& action, std::vector<std::string>& names) const {
    if (splits_ && action.kind == OpKind::backward) {
      for (const OpKind half : {OpKind::backward_input, OpKind::backward_weight}) {
        Action part = action;
        part.kind = half;
        PPSIM_RETURN_IF_ERROR(add_names(part, names));
      }
      return {};
    }
    const auto* name = std::ranges::find(kTaskNames, action.kind, [](const auto& row) { return row.first; });
    if (name == kTaskNames.end()) {
      return make_error(ErrorCode::bad_argument, "JaxPP has no such task",
                        {.found = action_text(pipeline_, action), .expected = "F, B, I or W"});
    }
    names.push_back(std::string(name->second) + std::to_string(action.subject) + "__" +
                    std::to_string(action.microbatch));
    return {};
  }

  [[nodiscard]] static json cell(const std::vector<std::string>& names) {
    if (names.empty()) return nullptr;
    if (names.size() == 1) return names.front();
    std::string text(kFused);
    for (const std::string& name : names) text += (&name == &names.front() ? "" : ", ") + name;
    return text + ")";
  }

  const Schedule& schedule_;
  const Pipeline& pipeline_;
  bool splits_ = false;
  bool interleaved_ = false;
};

}  // namespace

bool is_jaxpp_tasks(std::string_view text) {
  const std::size_t outer = text.find_first_not_of(" \t\r\n");
  if (outer == std::string_view::npos || text[outer] != '[') return false;
  const std::size_t inner = text.find_first_not_of(" \t\r\n", outer + 1);
  return inner != std::string_view::npos && text[inner] == '[';
}

Expected<Schedule> schedule_from_jaxpp_tasks(std::string_view text, const std::string& file) {
  PPSIM_ASSIGN_OR_RETURN(const auto parsed, JsonFile::parse(text, file));
  PPSIM_ASSIGN_OR_RETURN(auto read, read_task_rows(parsed));
  PPSIM_RETURN_IF_ERROR(find_shape(read, parsed));
  const auto pipeline = Pipeline::make(read.spec);
  if (!pipeline) return parsed.error_at({}, pipeline.error());
  ScheduleBuilder builder("jaxpp", *pipeline);
  for (std::size_t r = 0; r < read.rows.size(); ++r) {
    for (const Cell& cell : read.rows[r]) builder.add(RankId(static_cast<std::int32_t>(r)), cell);
  }
  auto schedule = std::move(builder).build();
  if (!schedule) return parsed.error_at({}, schedule.error());
  return schedule;
}

Expected<std::string> to_jaxpp_tasks(const Schedule& schedule) { return TaskWriter(schedule).text(); }

}  // namespace ppsim
