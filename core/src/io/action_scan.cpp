#include "action_scan.hpp"

#include <algorithm>
#include <span>

#include "ppsim/core/text/number_text.hpp"

namespace ppsim {
namespace {

std::string_view take_kind(std::string_view& text) {
  const auto is_kind_character = [](char c) { return (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto end = std::ranges::find_if_not(text, is_kind_character);
  const std::string_view kind = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(kind.size());
  return kind;
}

bool starts_with_digit(std::string_view text) { return !text.empty() && text[0] >= '0' && text[0] <= '9'; }

bool has_leading_zero(std::string_view number) {
  return number.starts_with('0') && starts_with_digit(number.substr(1));
}

/// Whether some number of an action begins with a zero that says nothing.
bool has_padded_number(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins = i == 0 || !starts_with_digit(text.substr(i - 1));
    if (begins && has_leading_zero(text.substr(i))) return true;
  }
  return false;
}

/// A part that is either absent, or `mark` and a number; false when it is broken.
bool take_marked(std::string_view& text, char mark, std::optional<std::int32_t>& number) {
  if (text.empty() || text[0] != mark) return true;
  text.remove_prefix(1);
  number = take_number(text);
  return number.has_value();
}

Expected<void> check_number(const ScannedAction& scanned, std::string_view text) {
  const std::string name(info(scanned.kind).text);
  switch (info(scanned.kind).microbatch) {
    case MicrobatchUse::required:
      if (!scanned.number)
        return text_error("an action without microbatch", text, name + " and a microbatch");
      return {};
    case MicrobatchUse::none:
      if (scanned.number) return text_error("an action with a microbatch too many", text, name + " alone");
      return {};
    case MicrobatchUse::optional:
      return {};
    case MicrobatchUse::update:
      if (!scanned.number && scanned.kind == OpKind::optimizer) {
        return text_error("an action without update", text, name + " and an update");
      }
      return {};
  }
  return {};
}

std::span<const StageId> neighbours(const Pipeline& pipeline, const Action& transfer) {
  const bool downstream = transfer.kind == OpKind::send_forward || transfer.kind == OpKind::recv_backward;
  return downstream ? pipeline.consumers(transfer.stage(), transfer.mb())
                    : pipeline.producers(transfer.stage(), transfer.mb());
}

/// Checks ids against the counts of a pipeline.
class RangeCheck {
 public:
  explicit RangeCheck(std::string_view text) : text_(text) {}
  void operator()(std::string_view what, std::int32_t found, std::int32_t limit) {
    if (result_ && found >= limit) {
      result_ = text_error(std::string(what) + " " + std::to_string(found) + " is out of range", text_,
                           std::string(what) + " in [0, " + std::to_string(limit) + ")");
    }
  }
  [[nodiscard]] const Expected<void>& result() const { return result_; }

 private:
  std::string_view text_;
  Expected<void> result_;
};

Expected<void> check_ranges(const Pipeline& pipeline, const ScannedAction& scanned, std::string_view text) {
  RangeCheck check(text);
  const Subject subject = info(scanned.kind).subject;
  check(subject_name(subject), scanned.subject, pipeline.count(subject));
  if (!check.result()) return check.result();
  if (scanned.number && pipeline.counts_updates(scanned.kind, scanned.subject)) {
    check("update", *scanned.number, pipeline.updates());
  } else if (scanned.number) {
    check("microbatch", *scanned.number, pipeline.microbatches());
  }
  if (scanned.slice) check("slice", *scanned.slice, pipeline.slices());
  if (scanned.peer) {
    if (names_peer_rank(scanned.kind)) {
      check("rank", *scanned.peer, pipeline.ranks());
    } else {
      check("stage", *scanned.peer, pipeline.stages());
    }
  }
  return check.result();
}

Expected<void> check_slice(const Pipeline& pipeline, const ScannedAction& scanned, std::string_view text) {
  const bool wanted = has_slice(scanned.kind) && pipeline.slices() > 1;
  if (wanted && !scanned.slice) {
    return text_error("an action without slice", text,
                      ".k for one of " + std::to_string(pipeline.slices()) + " slices");
  }
  if (!wanted && scanned.slice) return text_error("an action with a slice too many", text, "no slice");
  return {};
}

/// The pass whose text is one letter.
std::optional<OpKind> op_kind_of_letter(char letter) {
  for (const OpKind kind :
       {OpKind::forward, OpKind::backward, OpKind::backward_input, OpKind::backward_weight}) {
    if (info(kind).text.size() == 1 && info(kind).text.front() == letter) return kind;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::int32_t> take_number(std::string_view& text) {
  if (!starts_with_digit(text) || has_leading_zero(text)) return std::nullopt;
  return take_leading_number<std::int32_t>(text);
}

std::string printable(std::string_view text, std::size_t longest) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const char c : text.substr(0, longest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  if (text.size() > longest) out += "...";
  return out;
}

tl::unexpected<Error> text_error(std::string message, std::string_view found, std::string expected) {
  ErrorPlace place;
  place.found = printable(found);
  place.expected = std::move(expected);
  return make_error(ErrorCode::bad_file, std::move(message), std::move(place));
}

Expected<ScannedAction> scan_action(std::string_view text, const Alphabet& alphabet) {
  const auto malformed = [&] {
    return text_error(
        has_padded_number(text) ? "not an action: a number has a leading zero" : "not an action", text,
        alphabet.expected);
  };
  std::string_view rest = text;
  const std::optional<std::int32_t> subject = take_number(rest);
  const std::optional<OpKind> kind = alphabet.kind_of(take_kind(rest));
  if (!subject || !kind || *kind == OpKind::overlap) return malformed();

  ScannedAction scanned;
  scanned.kind = *kind;
  scanned.subject = *subject;
  if (starts_with_digit(rest)) {
    scanned.number = take_number(rest);
    if (!scanned.number) return malformed();
  }
  if (!take_marked(rest, '.', scanned.slice)) return malformed();
  if (is_transfer(*kind) && !take_marked(rest, is_send(*kind) ? '>' : '<', scanned.peer)) return malformed();
  if (!rest.empty()) return malformed();
  PPSIM_RETURN_IF_ERROR(check_number(scanned, text));
  return scanned;
}

Expected<std::array<std::string_view, 2>> scan_pair(std::string_view text) {
  constexpr std::string_view kEnd = ")OVERLAP_F_B";
  const std::size_t middle = text.find(';');
  if (text.substr(0, 1) != "(" || !text.ends_with(kEnd) || middle > text.size() - kEnd.size()) {
    return text_error("not an overlapped pair", text, "a pair such as (0F8;7B3)OVERLAP_F_B");
  }
  const std::string_view inside = text.substr(1, text.size() - kEnd.size() - 1);
  return std::array{inside.substr(0, middle - 1), inside.substr(middle)};
}

Expected<Action> resolve_action(const Pipeline& pipeline, const ScannedAction& scanned,
                                std::string_view text) {
  PPSIM_RETURN_IF_ERROR(check_ranges(pipeline, scanned, text));
  PPSIM_RETURN_IF_ERROR(check_slice(pipeline, scanned, text));
  Action action =
      make_action(scanned.kind, scanned.subject, scanned.number.value_or(-1), scanned.slice.value_or(0));
  if (scanned.kind == OpKind::reduce_grad) {
    if (!scanned.number && !pipeline.counts_updates(scanned.kind, scanned.subject))
      return text_error("a REDUCE_GRAD without microbatch, of a block that has one for each", text,
                        "REDUCE_GRAD and a microbatch");
    action.microbatch = scanned.number.value_or(0);
  }
  action.peer = scanned.peer.value_or(-1);
  if (!is_transfer(action.kind) || scanned.peer) return action;
  if (names_peer_rank(action.kind))
    return text_error("a transfer without its other end", text, "the other rank");
  const std::optional<StageId> peer = only_neighbour(pipeline, action);
  if (!peer) {
    const std::size_t count = neighbours(pipeline, action).size();
    return text_error("a transfer without its other end: stage " + std::to_string(action.subject) + " has " +
                          std::to_string(count) + (is_send(action.kind) ? " to send to" : " to receive from"),
                      text, "a transfer with one neighbour stage, or the other stage named");
  }
  action.peer = peer->value();
  return action;
}

std::optional<Action> plain_pass(const Pipeline& pipeline, std::string_view text) {
  const std::int32_t stage = take_short_number(text);
  if (stage < 0 || stage >= pipeline.stages() || text.empty() || pipeline.slices() != 1) return std::nullopt;
  const std::optional<OpKind> kind = op_kind_of_letter(text.front());
  text.remove_prefix(1);
  const std::int32_t microbatch = take_short_number(text);
  if (!kind || microbatch < 0 || microbatch >= pipeline.microbatches() || !text.empty()) return std::nullopt;
  return make_action(*kind, stage, microbatch);
}

std::optional<PlainInstruction> plain_instruction(const Pipeline& pipeline, std::string_view text) {
  const std::size_t at = text.find('@');
  const bool communicates = at != std::string_view::npos;
  if (const auto pass = plain_pass(pipeline, text)) return PlainInstruction{*pass, {}};
  const auto scanned = scan_action(text.substr(0, at));
  if (!scanned || is_communication(scanned->kind) != communicates) return std::nullopt;
  const auto action = resolve_action(pipeline, *scanned, text);
  if (!action) return std::nullopt;
  if (!communicates) return PlainInstruction{*action, {}};
  std::string_view number = text.substr(at + 1);
  const std::optional<std::int32_t> communicator = take_number(number);
  if (!communicator || !number.empty()) return std::nullopt;
  return PlainInstruction{*action, CommunicatorId(*communicator)};
}

std::optional<StageId> only_neighbour(const Pipeline& pipeline, const Action& transfer) {
  const std::span<const StageId> stages = neighbours(pipeline, transfer);
  if (stages.size() != 1) return std::nullopt;
  return stages.front();
}

Expected<void> check_pair(const Action& forward, const Action& backward, std::string_view text) {
  if (forward.kind == OpKind::forward && gives_input_gradient(backward.kind)) return {};
  return text_error("an overlapped pair of other kinds", text, "an F, then a B or I");
}

}  // namespace ppsim
