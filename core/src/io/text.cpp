#include "ppsim/core/io/text.hpp"

#include "action_scan.hpp"

namespace ppsim {
namespace {

/// `{a b c}`, `(a;b)OVERLAP_F_B` or `a`, each action printed by `print(i)`.
template <class Print>
std::string form_text(InstructionForm form, std::size_t count, Print print) {
  switch (form) {
    case InstructionForm::single:
      return print(0);
    case InstructionForm::overlap:
      return "(" + print(0) + ";" + print(1) + ")" + std::string(info(OpKind::overlap).text);
    case InstructionForm::group: {
      std::string text = "{";
      for (std::size_t i = 0; i < count; ++i) text += (i > 0 ? " " : "") + print(i);
      return text + "}";
    }
  }
  return {};
}

Expected<Action> scan_and_resolve(const Pipeline& pipeline, std::string_view text) {
  if (const auto pass = plain_pass(pipeline, text)) return *pass;
  PPSIM_ASSIGN_OR_RETURN(const ScannedAction scanned, scan_action(text));
  return resolve_action(pipeline, scanned, text);
}

Expected<std::array<Action, 2>> parse_pair(const Pipeline& pipeline, std::string_view text) {
  PPSIM_ASSIGN_OR_RETURN(const auto parts, scan_pair(text));
  std::array<Action, 2> actions;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    PPSIM_ASSIGN_OR_RETURN(const Action action, scan_and_resolve(pipeline, parts[i]));
    actions[i] = action;
  }
  PPSIM_RETURN_IF_ERROR(check_pair(actions[0], actions[1], text));
  return actions;
}

/// Reads one instruction from left to right.
class InstructionReader {
 public:
  InstructionReader(const Pipeline& pipeline, std::string_view text)
      : pipeline_(pipeline), text_(text), body_(text) {}

  Expected<InstructionDraft> read() {
    if (body_.ends_with(kBlocking)) {
      draft_.blocking = true;
      body_.remove_suffix(kBlocking.size());
    }
    return read_after().and_then([this] { return read_body(); }).map([this] { return std::move(draft_); });
  }

 private:
  static constexpr std::string_view kBlocking = " !";
  static constexpr std::string_view kAfter = " after ";

  Expected<void> read_after() {
    const std::size_t at = body_.find(kAfter);
    if (at == std::string_view::npos) return {};
    std::string_view rest = body_.substr(at + kAfter.size());
    body_ = body_.substr(0, at);
    for (bool more = true; more;) {
      const std::optional<std::int32_t> position = take_number(rest);
      more = rest.starts_with(',');
      if (!position || (!more && !rest.empty())) {
        return text_error("a broken list of positions", text_, "positions such as `after 3,7`");
      }
      draft_.after.push_back(*position);
      if (more) rest.remove_prefix(1);
    }
    return {};
  }

  Expected<void> read_body() {
    if (body_.starts_with('(')) return read_pair();
    if (body_.starts_with('{')) return read_group();
    return read_member(body_);
  }

  Expected<void> read_pair() {
    draft_.form = InstructionForm::overlap;
    PPSIM_ASSIGN_OR_RETURN(const auto actions, parse_pair(pipeline_, body_));
    draft_.actions.assign(actions.begin(), actions.end());
    draft_.communicators.assign(actions.size(), CommunicatorId());
    return {};
  }

  Expected<void> read_group() {
    draft_.form = InstructionForm::group;
    if (!body_.ends_with('}')) return text_error("a group without end", text_, "}");
    std::string_view rest = body_.substr(1, body_.size() - 2);
    for (bool more = true; more;) {
      const std::size_t end = rest.find(' ');
      more = end != std::string_view::npos;
      PPSIM_RETURN_IF_ERROR(read_member(rest.substr(0, end)));
      if (!is_transfer(draft_.actions.back().kind)) {
        return text_error("a group of more than sends and receives", text_, "sends and receives");
      }
      rest.remove_prefix(more ? end + 1 : rest.size());
    }
    if (draft_.actions.size() <= kMaxGroup) return {};
    return text_error("a group of " + std::to_string(draft_.actions.size()), text_,
                      "at most " + std::to_string(kMaxGroup) + " members");
  }

  /// An action and its `@communicator`.
  Expected<void> read_member(std::string_view text) {
    const std::size_t at = text.find('@');
    PPSIM_ASSIGN_OR_RETURN(const Action action, scan_and_resolve(pipeline_, text.substr(0, at)));
    const bool communicates = is_communication(action.kind);
    if (communicates != (at != std::string_view::npos)) {
      return text_error(communicates ? "a communication without communicator" : "a communicator too many",
                        text, communicates ? "@ and a communicator" : "no communicator");
    }
    CommunicatorId communicator;
    if (communicates) {
      std::string_view number = text.substr(at + 1);
      const std::optional<std::int32_t> id = take_number(number);
      if (!id || !number.empty()) return text_error("a broken communicator", text, "@ and a communicator");
      communicator = CommunicatorId(*id);
    }
    draft_.actions.push_back(action);
    draft_.communicators.push_back(communicator);
    return {};
  }

  const Pipeline& pipeline_;
  std::string_view text_;
  std::string_view body_;
  InstructionDraft draft_;
};

bool prints_number(const Pipeline& pipeline, const Action& action) {
  if (action.kind == OpKind::reduce_grad && pipeline.counts_updates(action.kind, action.subject))
    return action.update() > 0;
  return action.microbatch >= 0;
}

bool prints_peer(const Pipeline& pipeline, const Action& action) {
  if (!is_transfer(action.kind)) return false;
  return names_peer_rank(action.kind) || only_neighbour(pipeline, action) != action.peer_stage();
}

}  // namespace

std::string action_text(const Pipeline& pipeline, const Action& action) {
  std::string text = std::to_string(action.subject);
  text += info(action.kind).text;
  if (prints_number(pipeline, action)) text += std::to_string(action.microbatch);
  if (has_slice(action.kind) && pipeline.slices() > 1) text += "." + std::to_string(action.slice);
  if (prints_peer(pipeline, action)) text += (is_send(action.kind) ? ">" : "<") + std::to_string(action.peer);
  return text;
}

Expected<Action> parse_action(const Pipeline& pipeline, std::string_view text) {
  return scan_and_resolve(pipeline, text);
}

std::string actions_text(const Pipeline& pipeline, InstructionForm form, std::span<const Action> actions) {
  return form_text(form, actions.size(), [&](std::size_t i) { return action_text(pipeline, actions[i]); });
}

std::string cell_text(const Pipeline& pipeline, const Cell& cell) {
  if (cell.idle()) return "";
  const auto form = cell.overlapped() ? InstructionForm::overlap : InstructionForm::single;
  return actions_text(pipeline, form, cell.actions());
}

Expected<Cell> parse_cell(const Pipeline& pipeline, std::string_view text) {
  if (text.empty()) return Cell();
  if (!text.starts_with('(')) {
    return scan_and_resolve(pipeline, text).map([](const Action& action) { return Cell(action); });
  }
  return parse_pair(pipeline, text).map([](const auto& pair) { return Cell(pair[0], pair[1]); });
}

std::string actions_text(const Program& program, InstructionId id) {
  return actions_text(program.pipeline(), program.instruction(id).form, program.actions(id));
}

std::string instruction_text(const Program& program, InstructionId id) {
  const std::span<const Action> actions = program.actions(id);
  const std::span<const CommunicatorId> communicators = program.communicators_of(id);
  std::string text = form_text(program.instruction(id).form, actions.size(), [&](std::size_t i) {
    const std::string action = action_text(program.pipeline(), actions[i]);
    return communicators[i].valid() ? action + "@" + std::to_string(communicators[i].value()) : action;
  });
  const int first = program.first(program.rank_of(id)).value();
  const char* separator = " after ";
  for (const InstructionId after : program.after(id)) {
    text += separator + std::to_string(after.value() - first);
    separator = ",";
  }
  if (program.instruction(id).blocking) text += " !";
  return text;
}

Expected<InstructionDraft> parse_instruction(const Pipeline& pipeline, std::string_view text) {
  return InstructionReader(pipeline, text).read();
}

}  // namespace ppsim
