#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "ppsim/core/certificate.hpp"
#include "ppsim/core/error.hpp"
#include "ppsim/core/program.hpp"
#include "ppsim/core/schedule.hpp"
#include "ppsim/core/tables.hpp"

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

/// Costs and sizes of one binding, as `--costs FILE` reads them.
struct Tables {
  CostTable costs;
  SizeTable sizes;
  friend bool operator==(const Tables&, const Tables&) = default;
};
[[nodiscard]] std::string to_json(const Tables& tables);
[[nodiscard]] Expected<Tables> tables_from_json(std::string_view text, const std::string& file);

/// The published draft-07 schemas of these files: "schedule", "program", "tables", "certificate".
[[nodiscard]] std::string_view json_schema(std::string_view name);

}  // namespace ppsim
