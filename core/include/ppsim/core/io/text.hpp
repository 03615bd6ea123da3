#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ppsim/core/ir/action.hpp"
#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/pipeline.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/schedule.hpp"

namespace ppsim {

/// An action in the notation of PyTorch: `2F0`, `0SEND_F3`, `.k` for a slice when the pipeline has more than
/// one,
/// `>5` (send) or `<0` (receive) for the other end where the stage has several neighbours and for SEND_A,
/// RECV_A.
[[nodiscard]] std::string action_text(const Pipeline& pipeline, const Action& action);

/// Anchored inverse of action_text: the whole text must be one action. A transfer without named peer takes
/// the only neighbour of its stage on the microbatch's route. Errors: bad_file with found and expected; ids
/// out of range of the pipeline.
[[nodiscard]] Expected<Action> parse_action(const Pipeline& pipeline, std::string_view text);

/// A cell of a schedule: "", an action, or `(0F8;7B3)OVERLAP_F_B`.
[[nodiscard]] std::string cell_text(const Pipeline& pipeline, const Cell& cell);
[[nodiscard]] Expected<Cell> parse_cell(const Pipeline& pipeline, std::string_view text);

/// An instruction: an action, a pair, or `{a b c}` for a group; communication carries `@communicator`; then
/// ` after i,j` with positions in the rank's list, then ` !` when blocking. Example: `{1RECV_F3@0 1SEND_B1@1}
/// after 7 !`.
[[nodiscard]] std::string instruction_text(const Program& program, InstructionId id);
[[nodiscard]] Expected<InstructionDraft> parse_instruction(const Pipeline& pipeline, std::string_view text);

/// The actions of one instruction or cell: `1F0`, `{0SEND_F1 0RECV_B0}` or `(0F1;0B0)OVERLAP_F_B`.
[[nodiscard]] std::string actions_text(const Pipeline& pipeline, InstructionForm form,
                                       std::span<const Action> actions);
/// instruction_text without communicators, `after` and `!`, for messages.
[[nodiscard]] std::string actions_text(const Program& program, InstructionId id);

}  // namespace ppsim
