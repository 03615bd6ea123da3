#include <algorithm>
#include <map>

#include "io/torch/waits.hpp"
#include "ppsim/planner/files.hpp"
#include "prove.hpp"

namespace ppsim::planner {
namespace {

/// The communicators that the Program has, where the release can use them, or those that it usually uses.
CommunicatorPolicy usable_policy(const Target& target, const Program& program) {
  for (const CommunicatorPolicy policy : target.communicators) {
    if (check_communicators(target, program, policy)) return policy;
  }
  return target.communicators.front();
}

/// The WAIT cells of a row whose `after` lists hold sends and reductions only.
std::vector<TorchWait> waits_of(const std::vector<InstructionDraft>& row, bool of_sends) {
  std::map<int, int> first;
  for (std::size_t i = 0; i < row.size(); ++i) {
    for (const int what : row[i].after) {
      const bool reduces = row[static_cast<std::size_t>(what)].actions.front().kind == OpKind::reduce_grad;
      if (of_sends || reduces) first.try_emplace(what, static_cast<int>(i));
    }
  }
  std::vector<TorchWait> waits;
  for (const auto& [what, before] : first) waits.push_back({what, before});
  std::ranges::sort(waits, {}, [](const TorchWait& wait) { return std::pair(wait.before, wait.what); });
  return waits;
}

/// The Program with waits that WAIT cells can say: everything behind the first instruction that waits does
/// so, too; without `of_sends` sends are waited for at the end.
Expected<Program> with_said_waits(const Program& program, bool of_sends) {
  ProgramDraft draft = to_draft(program);
  for (std::vector<InstructionDraft>& row : draft.rows) {
    const std::vector<TorchWait> waits = waits_of(row, of_sends);
    for (InstructionDraft& item : row) item.after.clear();
    add_waits(row, waits);
  }
  return ProgramBuilder::build(program.pipeline(), draft);
}

/// The file, and that what it says is proved.
Expected<std::string> proved_text(const Target& target, const Program& program, const std::string& path,
                                  CommunicatorPolicy policy) {
  PPSIM_RETURN_IF_ERROR(check_runs(target, program));
  auto usable = with_communicators(program, policy);
  PPSIM_RETURN_IF_ERROR(usable);
  auto text = ir_text(*usable, path, target.dialect);
  if (!text) return text;
  if (suffix_of(path) == ".csv") {
    usable = program_from_csv(*text, path, target.dialect, policy);
    PPSIM_RETURN_IF_ERROR(usable);
  }
  PPSIM_RETURN_IF_ERROR(prove_for(target, *usable));
  return text;
}

}  // namespace

Expected<std::string> text_for(const Target& target, const Ir& ir, const std::string& path) {
  if (target.runtime == PipelineRuntime::jaxpp && suffix_of(path) == ".csv") {
    return make_error(ErrorCode::refused, std::string(target.name) + " reads no CSV",
                      {.found = path, .expected = "a .json file"});
  }
  const auto* program = std::get_if<Program>(&ir);
  if (program == nullptr) {
    PPSIM_RETURN_IF_ERROR(check_runs(target, ir));
    const auto run = as_run(target, std::get<Schedule>(ir));
    return run ? ir_text(*run, path, target.dialect) : tl::unexpected(run.error());
  }
  const CommunicatorPolicy policy = usable_policy(target, *program);
  auto text = proved_text(target, *program, path, policy);
  if (text || !target.waits) return text;
  for (const bool of_sends : {true, false}) {
    const auto changed = with_said_waits(*program, of_sends);
    if (!changed) continue;
    if (auto other = proved_text(target, *changed, path, policy)) return other;
  }
  return text;
}

}  // namespace ppsim::planner
