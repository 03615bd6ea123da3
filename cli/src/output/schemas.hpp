#pragma once

#include <span>
#include <string_view>

namespace ppsim::cli {

/// The JSON schema of what --json of a command prints, or of an error.
struct OutputSchema {
  std::string_view name;
  std::string_view text;
};
[[nodiscard]] std::span<const OutputSchema> output_schemas();

}  // namespace ppsim::cli
