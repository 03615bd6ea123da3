#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "ppsim/core/ir/capabilities.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/tables.hpp"

namespace ppsim {

/// 128-bit XXH3 of a canonical byte string, as 32 hexadecimal digits: names what a result is about.
[[nodiscard]] std::string program_hash(const Program& program);
[[nodiscard]] std::string sizes_hash(const SizeTable& sizes);
[[nodiscard]] std::string costs_hash(const CostTable& costs);
[[nodiscard]] std::string capabilities_hash(const TransportCapabilities& capabilities);
[[nodiscard]] std::string bytes_hash(std::span<const std::byte> bytes);

}  // namespace ppsim
