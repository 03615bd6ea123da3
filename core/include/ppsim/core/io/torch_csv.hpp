#pragma once

#include <string>
#include <string_view>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/schedule.hpp"
#include "ppsim/core/lowering/lowering.hpp"

namespace ppsim {

/// Alphabets of schedule files. torch: F I W B. legacy (PyTorch before PR 138886): B is the input gradient,
/// BW the full backward. zero_bubble (the papers): B is the input gradient, and no full backward exists.
/// torch_2_15: that of torch, and `compute_comms` files are written with a WAIT cell for every send and every
/// REDUCE_GRAD, without which PyTorch refuses them from 2.15 on. Every dialect reads these cells.
enum class CsvDialect { torch, legacy, zero_bubble, torch_2_15 };
/// "torch", "legacy", "zero-bubble" or "torch-2.15". Errors: bad_argument.
[[nodiscard]] Expected<CsvDialect> dialect_from_name(std::string_view name);

/// Reads PyTorch's `compute_only` file; the placement follows from the rows.
/// Errors: bad_file with row, cell, found, expected; ill_formed when the rows are no Schedule.
[[nodiscard]] Expected<Schedule> schedule_from_csv(std::string_view text, const std::string& file,
                                                   CsvDialect dialect);

/// Reads PyTorch's `compute_comms` file as it is, with the communicators of `policy`. A WAIT cell is no
/// instruction: the next one of each queue of its rank comes `after` what is waited for.
/// Errors: bad_file with row, cell, found, expected.
[[nodiscard]] Expected<Program> program_from_csv(std::string_view text, const std::string& file,
                                                 CsvDialect dialect, CommunicatorPolicy policy);

/// True when some cell is a transfer or a collective: the file is `compute_comms`.
[[nodiscard]] bool csv_has_communication(std::string_view text);

/// Byte for byte what PyTorch's csv.writer makes of it: no header, CRLF, empty cells for idle ones.
/// Errors: bad_argument for what the format cannot hold: slices, routes, edges that are no chain, groups,
/// `after` (torch_2_15: one that WAIT cells do not say), blocking, kinds that PyTorch does not have.
[[nodiscard]] Expected<std::string> to_csv(const Schedule& schedule, CsvDialect dialect);
[[nodiscard]] Expected<std::string> to_csv(const Program& program, CsvDialect dialect);

}  // namespace ppsim
