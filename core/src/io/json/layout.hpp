#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace ppsim {

/// JSON that a person can read and edit: a key per line, a list of numbers or texts on one line, and of a
/// list of lists or objects an item per line.
[[nodiscard]] std::string laid_out(const nlohmann::ordered_json& document);

}  // namespace ppsim
