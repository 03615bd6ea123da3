#include <algorithm>
#include <map>

#include "io/torch/alphabet.hpp"
#include "io/torch/cells.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/padding.hpp"
#include "ppsim/planner/targets.hpp"

namespace ppsim::planner {
namespace {

tl::unexpected<Error> refusal(const Target& target, const std::string& why, ErrorPlace place) {
  return make_error(ErrorCode::refused, std::string(target.name) + " would not load this: " + why,
                    std::move(place));
}

/// Python's csv.reader makes a row of every line, and PyTorch a rank of every row.
Expected<void> check_lines(const Target& target, std::string_view text, const std::string& file) {
  if (text.starts_with("\xef\xbb\xbf")) {
    return refusal(
        target, "it reads the byte order mark as part of the first action",
        {.file = file, .row = 1, .column = 1, .found = "a byte order mark", .expected = "UTF-8 without one"});
  }
  for (int line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view row = text.substr(0, end);
    if (row.find_first_not_of(" \t\r\",") == std::string_view::npos) {
      return refusal(target, "every line is a rank, and each rank needs a stage",
                     {.file = file, .row = line, .found = "an empty row", .expected = "actions"});
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

/// The sends and reductions of a row that nothing has waited for yet.
class PendingWaits {
 public:
  PendingWaits(const Target& target, const std::string& file) : target_(target), file_(file) {}

  Expected<void> add(const TorchCell& cell) {
    for (const TorchAction& action : cell.actions()) {
      if (cell.waits) {
        pending_.erase(key_of(action));
        continue;
      }
      const bool reduces = action.kind == OpKind::reduce_grad;
      if (!reduces && !is_send(action.kind)) continue;
      if (reduces && reducing()) return second_reduction(cell);
      pending_.emplace(key_of(action), &cell);
    }
    return {};
  }

  [[nodiscard]] Expected<void> check_end() const {
    if (pending_.empty()) return {};
    const TorchCell& cell = *pending_.begin()->second;
    std::string wait(cell.text);
    wait.insert(wait.find_first_not_of("0123456789"), "WAIT_");
    return refusal(target_, "nothing waits for this", place_of(cell, wait + " after it in its row"));
  }

 private:
  using Key = std::tuple<OpKind, std::int32_t, std::int32_t>;
  static Key key_of(const TorchAction& action) { return {action.kind, action.subject, action.number}; }

  [[nodiscard]] bool reducing() const {
    return std::ranges::any_of(
        pending_, [](const auto& item) { return std::get<0>(item.first) == OpKind::reduce_grad; });
  }
  [[nodiscard]] ErrorPlace place_of(const TorchCell& cell, std::string expected) const {
    return {.file = file_,
            .row = cell.row,
            .column = cell.column,
            .found = std::string(cell.text),
            .expected = std::move(expected)};
  }
  [[nodiscard]] Expected<void> second_reduction(const TorchCell& cell) const {
    return refusal(target_, "a rank has at most one reduction in flight",
                   place_of(cell, "the wait for the reduction before it first"));
  }

  const Target& target_;
  const std::string& file_;
  std::map<Key, const TorchCell*> pending_;
};

Expected<void> check_no_waits(const Target& target, const TorchCells& cells, const std::string& file) {
  for (const auto& row : cells.rows()) {
    const auto wait = std::ranges::find_if(row, &TorchCell::waits);
    if (wait == row.end()) continue;
    return refusal(target, "it knows no WAIT cells",
                   {.file = file,
                    .row = wait->row,
                    .column = wait->column,
                    .found = std::string(wait->text),
                    .expected = "--for torch-2.15, or a file that ppsim convert --for " +
                                std::string(target.name) + " writes"});
  }
  return {};
}

/// How often each kind occurs on each stage.
class Counts {
 public:
  explicit Counts(const Pipeline& pipeline) : pipeline_(pipeline) {}
  void add(const Action& action) {
    if (info(action.kind).microbatch == MicrobatchUse::required || action.kind == OpKind::reduce_grad)
      ++count_[{action.kind, action.subject}];
  }
  void add(const Schedule& schedule) {
    for (const RankId rank : pipeline_.rank_ids()) {
      for (const Cell& cell : schedule.row(rank)) {
        for (const Action& action : cell.actions()) add(action);
      }
    }
  }
  [[nodiscard]] int operator()(OpKind kind, int subject) const {
    const auto found = count_.find({kind, subject});
    return found == count_.end() ? 0 : found->second;
  }

 private:
  const Pipeline& pipeline_;
  std::map<std::pair<OpKind, std::int32_t>, int> count_;
};

/// _validate_schedule of PyTorch; JaxPP asserts the same of its tasks.
Expected<void> check_backwards(const Target& target, const Pipeline& pipeline, const Counts& counts) {
  for (int s = 0; s < pipeline.stages(); ++s) {
    const int whole = counts(OpKind::backward, s);
    const int inputs = counts(OpKind::backward_input, s);
    const int weights = counts(OpKind::backward_weight, s);
    if (inputs == weights && whole + weights == pipeline.microbatches()) continue;
    return refusal(target, "every stage needs a backward of every microbatch",
                   {.found = "stage " + std::to_string(s) + " with " + std::to_string(whole) + " B, " +
                             std::to_string(inputs) + " I and " + std::to_string(weights) + " W",
                    .expected = std::to_string(pipeline.microbatches()) + " backwards"});
  }
  return {};
}

Expected<void> check_stages(const Target& target, const Pipeline& pipeline) {
  for (int r = 0; r < pipeline.ranks(); ++r) {
    if (!pipeline.stages_of(RankId(r)).empty()) continue;
    return refusal(target, "each rank needs a stage",
                   {.found = "rank " + std::to_string(r) + " with none", .expected = "a stage"});
  }
  return {};
}

std::string scaled(const Pipeline& pipeline) { return std::to_string(pipeline.microbatches()) + " times"; }

Expected<void> check_reductions(const Target& target, const Program& program, const Counts& counts) {
  const Pipeline& pipeline = program.pipeline();
  for (int s = 0; s < pipeline.stages(); ++s) {
    const int count = counts(OpKind::reduce_grad, s);
    if (!target.reduces && count > 0) {
      return refusal(target, "it has no REDUCE_GRAD",
                     {.found = std::to_string(s) + "REDUCE_GRAD",
                      .expected = "a file that ppsim lower --for " + std::string(target.name) + " writes"});
    }
    if (!target.reduces || count == 1) continue;
    return make_error(
        ErrorCode::refused,
        std::string(target.name) + " would compute other gradients: it divides them by the " +
            "number of microbatches where REDUCE_GRAD stands, and without one those of a stage " + "are " +
            scaled(pipeline) + " as large and not summed over replicas",
        {.found = "stage " + std::to_string(s) + " with " + std::to_string(count),
         .expected = std::to_string(s) + "REDUCE_GRAD once, as ppsim lower --for " +
                     std::string(target.name) + " writes it"});
  }
  return {};
}

/// Checks that the target's files can hold the value, and that the target knows every cell.
template <class Value>
Expected<void> check_cells(const Target& target, const Value& value) {
  const auto text = to_csv(value, target.dialect);
  if (!text) {
    Error error = text.error();
    error.code = ErrorCode::refused;
    error.message = std::string(target.name) + " cannot run this: " + error.message;
    return tl::unexpected(std::move(error));
  }
  if (target.overlaps || text->find(info(OpKind::overlap).text) == std::string::npos) return {};
  return refusal(target, "it has no overlapped pairs",
                 {.found = std::string(info(OpKind::overlap).text), .expected = "--for torch-2.15"});
}

/// JaxPP has no slices, padding or second route, and a Program of its has the first stage's backward whole.
Expected<void> check_jaxpp_runs(const Target& target, const Ir& ir) {
  const Pipeline& pipeline = pipeline_of(ir);
  if (pipeline.slices() > 1) {
    return refusal(target, "it has no slices",
                   {.found = std::to_string(pipeline.slices()) + " slices", .expected = "1"});
  }
  if (const int padding = pipeline.microbatches() - batch_microbatches(pipeline); padding > 0) {
    return refusal(target, "it computes no padding",
                   {.found = std::to_string(padding) + " microbatches of padding", .expected = "none"});
  }
  if (const std::size_t routes = pipeline.spec().routes.size(); routes > 1) {
    return refusal(target, "its microbatches all take one route",
                   {.found = std::to_string(routes) + " routes", .expected = "1"});
  }
  if (const auto* schedule = std::get_if<Schedule>(&ir)) return as_run(target, *schedule).map([](auto&&) {});
  for (const Action& action : std::get<Program>(ir).all_actions()) {
    if (action.kind != OpKind::backward_input || action.subject != 0) continue;
    return refusal(target, "it cannot split the backward of its first stage",
                   {.found = action_text(pipeline, action), .expected = "B"});
  }
  return {};
}

}  // namespace

Expected<void> check_text_loads(const Target& target, std::string_view text, const std::string& file,
                                CsvDialect dialect) {
  if (target.runtime == PipelineRuntime::jaxpp) return {};
  PPSIM_RETURN_IF_ERROR(check_lines(target, text, file));
  if (!csv_has_communication(text)) return {};
  PPSIM_ASSIGN_OR_RETURN(const auto cells, TorchCells::read(text, file, communication_alphabet(dialect)));
  if (!target.waits) return check_no_waits(target, cells, file);
  for (const auto& row : cells.rows()) {
    PendingWaits pending(target, file);
    for (const TorchCell& cell : row) {
      PPSIM_RETURN_IF_ERROR(pending.add(cell));
    }
    PPSIM_RETURN_IF_ERROR(pending.check_end());
  }
  return {};
}

Expected<void> check_runs(const Target& target, const Ir& ir) {
  const Pipeline& pipeline = pipeline_of(ir);
  PPSIM_RETURN_IF_ERROR(check_stages(target, pipeline));
  Counts counts(pipeline);
  const auto* program = std::get_if<Program>(&ir);
  if (program != nullptr) {
    for (const Action& action : program->all_actions()) counts.add(action);
  } else {
    counts.add(std::get<Schedule>(ir));
  }
  if (target.runtime == PipelineRuntime::jaxpp) {
    auto good = check_jaxpp_runs(target, ir);
    return good ? check_backwards(target, pipeline, counts) : good;
  }
  auto holds = std::visit([&](const auto& value) { return check_cells(target, value); }, ir);
  if (!holds) return holds;
  PPSIM_RETURN_IF_ERROR(check_backwards(target, pipeline, counts));
  return program == nullptr ? Expected<void>() : check_reductions(target, *program, counts);
}

std::string gradient_warning(const Program& program) {
  Counts counts(program.pipeline());
  for (const Action& action : program.all_actions()) counts.add(action);
  for (int s = 0; s < program.pipeline().stages(); ++s) {
    const bool trains = counts(OpKind::backward, s) + counts(OpKind::backward_weight, s) > 0;
    if (!trains || counts(OpKind::reduce_grad, s) > 0) continue;
    return "without " + std::to_string(s) +
           "REDUCE_GRAD, where PyTorch divides gradients by the number of microbatches, they would be " +
           scaled(program.pipeline()) + " as large; --for torch-2.15 writes what a release needs";
  }
  return "";
}

}  // namespace ppsim::planner
