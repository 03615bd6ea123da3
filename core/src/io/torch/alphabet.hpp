#pragma once

#include <optional>
#include <string_view>

#include "io/action_scan.hpp"
#include "ppsim/core/io/torch_csv.hpp"

namespace ppsim {

/// The text of a kind in PyTorch's files; nothing for kinds that a dialect does not have.
[[nodiscard]] std::optional<std::string_view> torch_text(OpKind kind, CsvDialect dialect);

/// The kinds that cells of `compute_only` and of `compute_comms` files may hold.
[[nodiscard]] Alphabet compute_alphabet(CsvDialect dialect);
[[nodiscard]] Alphabet communication_alphabet(CsvDialect dialect);

}  // namespace ppsim
