#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ppsim/core/ir/action.hpp"
#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/pipeline.hpp"

namespace ppsim {

/// An action as it is written, before it is known which pipeline it belongs to.
struct ScannedAction {
  OpKind kind = OpKind::forward;
  std::int32_t subject = 0;
  std::optional<std::int32_t> number;  ///< behind the kind: a microbatch or an update
  std::optional<std::int32_t> slice;
  std::optional<std::int32_t> peer;
};

/// The kinds that a file may hold, by the text that it has for them, and what to say where another text
/// stands.
struct Alphabet {
  std::optional<OpKind> (*kind_of)(std::string_view text);
  const char* expected;
};
inline constexpr Alphabet kNativeAlphabet = {op_kind_from_text,
                                             "an action such as 2F0, 0SEND_F3 or 1UNSHARD"};

/// Reads `<subject><KIND>[number][.slice][>peer|<peer]`; the whole text must be one action.
/// Errors: bad_file with found and expected.
[[nodiscard]] Expected<ScannedAction> scan_action(std::string_view text,
                                                  const Alphabet& alphabet = kNativeAlphabet);

/// Reads `(first;second)OVERLAP_F_B`.
/// Errors: bad_file with found and expected.
[[nodiscard]] Expected<std::array<std::string_view, 2>> scan_pair(std::string_view text);

/// The action of a pipeline that a scanned one means; `text` is for messages.
/// Errors: bad_file for ids out of range and for a transfer whose other end is not named and not the only
/// one.
[[nodiscard]] Expected<Action> resolve_action(const Pipeline& pipeline, const ScannedAction& scanned,
                                              std::string_view text);

/// The pass that a text such as `2F0` is, as nearly all of a schedule are; nothing where it is to be looked
/// at closely.
[[nodiscard]] std::optional<Action> plain_pass(const Pipeline& pipeline, std::string_view text);

/// An instruction that is one action, as nearly all are, and its communicator, if it has one.
struct PlainInstruction {
  Action action;
  CommunicatorId communicator;
};
/// Nothing where the text is another instruction, or none.
[[nodiscard]] std::optional<PlainInstruction> plain_instruction(const Pipeline& pipeline,
                                                                std::string_view text);

/// The stage at the other end where the route of the microbatch leaves no choice.
/// Requires: a transfer between stages, ids in range.
[[nodiscard]] std::optional<StageId> only_neighbour(const Pipeline& pipeline, const Action& transfer);

/// Errors: bad_file unless the two are an F and a B or I, in this order.
[[nodiscard]] Expected<void> check_pair(const Action& forward, const Action& backward, std::string_view text);

/// A number without sign and leading zeros at the start of `text`, which it is taken from; nothing where
/// there is none or where it does not fit in 31 bits.
[[nodiscard]] std::optional<std::int32_t> take_number(std::string_view& text);

/// The same of a number of at most nine digits; -1 where `take_number` must judge.
[[nodiscard]] inline std::int32_t take_short_number(std::string_view& text) {
  constexpr std::size_t kDigits = 9;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::int32_t value = 0;
  std::size_t length = 0;
  for (; length < text.size() && length <= kDigits && is_digit(text[length]); ++length)
    value = length < kDigits ? 10 * value + (text[length] - '0') : value;
  if (length == 0 || length > kDigits || (length > 1 && text[0] == '0')) return -1;
  text.remove_prefix(length);
  return value;
}

/// Text of a file, fit for a message: short, on one line, in ASCII.
[[nodiscard]] std::string printable(std::string_view text, std::size_t longest = 60);

/// A bad_file error about a piece of text whose place the caller knows.
[[nodiscard]] tl::unexpected<Error> text_error(std::string message, std::string_view found,
                                               std::string expected);

}  // namespace ppsim
