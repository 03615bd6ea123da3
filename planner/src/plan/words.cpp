#include <algorithm>
#include <iomanip>
#include <sstream>

#include "plan/space.hpp"
#include "ppsim/core/text/as_text.hpp"
#include "ppsim/core/text/nearest.hpp"
#include "ppsim/planner/plan.hpp"

namespace ppsim::planner {
namespace {

constexpr std::array<PlanObjective, 3> kObjectives = {PlanObjective::time, PlanObjective::tokens_per_dollar,
                                                      PlanObjective::memory};

std::string milliseconds(Nanoseconds difference) {
  std::ostringstream text;
  text << std::showpos << std::fixed << std::setprecision(1) << static_cast<double>(difference) * 1e-6
       << " ms";
  return text.str();
}

/// The items of "key=value,...".
Expected<std::map<std::string, std::vector<std::string>>> items_of(std::string_view text) {
  std::map<std::string, std::vector<std::string>> items;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string item(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
    const std::size_t equals = item.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == item.size() ||
        !items.emplace(item.substr(0, equals), std::vector{item.substr(equals + 1)}).second) {
      return make_error(ErrorCode::bad_argument, "an item of a plan is none, or there twice",
                        {.found = item, .expected = "key=value, such as tp=4,pp=4,schedule=1f1b"});
    }
  }
  return items;
}

/// How a choice says each of its parts.
std::vector<std::pair<std::string, std::string>> words_of(const PlanChoice& choice) {
  const Parallelism& parallelism = choice.parallelism;
  return {{"nodes", std::to_string(choice.nodes)},
          {"schedule", choice.schedule},
          {"chunks", choice.chunks ? std::to_string(*choice.chunks) : "as many as it has"},
          {"tp", std::to_string(parallelism.tensor)},
          {"pp", std::to_string(parallelism.pipeline)},
          {"dp", std::to_string(parallelism.data)},
          {"cp", std::to_string(parallelism.context)},
          {"ep", std::to_string(parallelism.expert)},
          {"microbatch size", std::to_string(parallelism.microbatch_size)},
          {"recompute", choice.recompute_text()},
          {"layout", std::string(layout_rule_name(choice.layout))},
          {"dtype", std::string(data_type_name(parallelism.dtype))},
          {"fsdp", parallelism.sharded_parameters ? "on" : "off"}};
}

}  // namespace

std::string_view plan_objective_name(PlanObjective objective) {
  switch (objective) {
    case PlanObjective::time:
      return "time";
    case PlanObjective::tokens_per_dollar:
      return "tokens-per-dollar";
    case PlanObjective::memory:
      return "memory";
  }
  return "time";
}

Expected<PlanObjective> plan_objective(std::string_view name) {
  for (const PlanObjective objective : kObjectives) {
    if (name == plan_objective_name(objective)) return objective;
  }
  return make_error(ErrorCode::bad_argument, "unknown objective",
                    {.found = std::string(name), .expected = "time, tokens-per-dollar or memory"});
}

std::string PlanChoice::recompute_text() const {
  return checkpoints ? std::string(checkpoints->name) : as_text(parallelism.recompute);
}

std::ostream& operator<<(std::ostream& out, const PlanChoice& choice) {
  out << choice.schedule;
  if (choice.chunks) out << " v" << *choice.chunks;
  const Parallelism& parallelism = choice.parallelism;
  out << ", TP" << parallelism.tensor << " PP" << parallelism.pipeline << " DP" << parallelism.data;
  if (parallelism.context > 1) out << " CP" << parallelism.context;
  if (parallelism.expert > 1) out << " EP" << parallelism.expert;
  out << ", microbatch " << parallelism.microbatch_size;
  if (parallelism.recompute != StageRecompute()) out << ", recompute " << choice.recompute_text();
  if (choice.layout != LayoutRule::even) out << ", layout " << layout_rule_name(choice.layout);
  if (parallelism.dtype != DataType::bf16) out << ", " << data_type_name(parallelism.dtype);
  if (parallelism.sharded_parameters) out << ", fsdp";
  return out;
}

Expected<PlanChoice> parse_plan_choice(const PlanRequest& request, std::string_view text) {
  PPSIM_ASSIGN_OR_RETURN(auto items, items_of(text));
  PlanRequest only = request;
  only.nodes = {request.work.cluster.nodes};
  // A choice within the same dimensions, of which everything else is the plain one.
  only.fixed = {{"microbatch-size", {"1"}},
                {"recompute", {"none"}},
                {"layout", {"even"}},
                {"cp", {"1"}},
                {"pp", {"1"}},
                {"tp", {"1"}},
                {"schedule", {"1f1b"}}};
  if (request.work.model.experts > 0) only.fixed["ep"] = {"1"};
  const bool chunks = items.contains("chunks");
  const std::vector<std::string> chunk_words = chunks ? items.at("chunks") : std::vector<std::string>();
  for (auto& [key, values] : items) only.fixed[key] = values;
  PPSIM_ASSIGN_OR_RETURN(const auto space, Space::make(only));
  const Parallelisms parallelisms = space.parallelisms();
  if (parallelisms.possible.empty())
    return parallelisms.none("no parallelism of these GPUs and this batch has " + std::string(text));
  PlanChoice choice{.nodes = parallelisms.possible.front().nodes,
                    .parallelism = parallelisms.possible.front().parallelism};
  choice.parallelism.recompute = space.recomputes().front().stages;
  choice.checkpoints = space.recomputes().front().checkpoints;
  choice.layout = space.layouts().front();
  choice.schedule = only.fixed["schedule"].front();
  if (chunks) choice.chunks = std::stoi(chunk_words.front());
  return choice;
}

std::string why_slower(const PlanRow& best, const PlanRow& other) {
  std::vector<std::pair<Nanoseconds, std::string>> parts = {
      {other.parts.layers - best.parts.layers, "layers"},
      {other.parts.bubble - best.parts.bubble, "bubble"},
      {other.parts.communication - best.parts.communication, "communication"},
      {other.parts.step_end - best.parts.step_end, "step end"}};
  std::ranges::stable_sort(parts, std::ranges::greater(),
                           [](const auto& part) { return std::abs(part.first); });
  std::string text;
  for (const auto& [difference, name] : parts) {
    if (std::abs(difference) < 50'000) continue;
    text += (text.empty() ? "" : ", ") + name + " " + milliseconds(difference);
  }
  return text.empty() ? "as long" : text;
}

std::string what_differs(const PlanChoice& choice, const PlanChoice& other) {
  const auto own = words_of(choice);
  const auto others = words_of(other);
  std::string text;
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (own[i].second == others[i].second) continue;
    text +=
        (text.empty() ? "" : ", ") + own[i].first + " " + own[i].second + " in place of " + others[i].second;
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace ppsim::planner
