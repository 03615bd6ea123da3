#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "position.hpp"

namespace ppsim {

/// A value as an error message shows it.
[[nodiscard]] std::string value_text(const nlohmann::json& value);

/// Where and how a document breaks its schema.
struct SchemaViolation {
  JsonPath path;
  std::string message;
  std::string found;
  std::string expected;
};

/// The first violation of the published schema of this name.
[[nodiscard]] std::optional<SchemaViolation> find_violation(const nlohmann::json& document,
                                                            std::string_view schema_name);

}  // namespace ppsim
