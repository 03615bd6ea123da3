#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>

#include "ppsim/core/certificate/certificate.hpp"
#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/schedule.hpp"
#include "ppsim/core/ir/tables.hpp"

namespace ppsim {

/// The native files. Every reader takes the file's text and its name for messages.
/// Errors: bad_file with row, column, found and expected for malformed text, unknown keys, wrong types and
/// versions.
[[nodiscard]] std::string to_json(const Schedule& schedule);
[[nodiscard]] std::string to_json(const Program& program);
[[nodiscard]] std::string to_json(const Certificate& certificate);
[[nodiscard]] Expected<std::variant<Schedule, Program>> ir_from_json(std::string_view text,
                                                                     const std::string& file);
[[nodiscard]] Expected<Certificate> certificate_from_json(std::string_view text, const std::string& file);

/// How far the measurements of one duration are apart.
struct CostSpread {
  std::int64_t samples = 0;
  Nanoseconds lower_quartile = 0;
  Nanoseconds median = 0;
  Nanoseconds upper_quartile = 0;
  friend bool operator==(const CostSpread&, const CostSpread&) = default;
};
using CostSpreads = std::map<CostClass, CostSpread>;

/// Costs and sizes of one binding, as `--costs FILE` reads them.
struct Tables {
  CostTable costs;
  SizeTable sizes;
  CostSpreads spreads = {};  ///< of costs that were measured; no result depends on them
  /// Durations of computation while a kernel of a transfer holds multiprocessors of its rank: an entry for
  /// each one of `costs`, none of them less. Empty: the same.
  CostTable beside_transfers = {};
  friend bool operator==(const Tables&, const Tables&) = default;
};
[[nodiscard]] std::string to_json(const Tables& tables);
[[nodiscard]] Expected<Tables> tables_from_json(std::string_view text, const std::string& file);

/// The published draft-07 schemas of these files: "schedule", "program", "tables", "certificate".
[[nodiscard]] std::string_view json_schema(std::string_view name);

}  // namespace ppsim
