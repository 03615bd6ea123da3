#include "layout.hpp"

#include <algorithm>

namespace ppsim {
namespace {

using nlohmann::ordered_json;

/// On one line; bytes that are no UTF-8 become U+FFFD, for which JSON has no other place.
std::string flat(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

bool is_table(const ordered_json& value) {
  return value.is_array() && std::ranges::any_of(value, &ordered_json::is_structured);
}

void lay_out(const ordered_json& value, const std::string& indent, std::string& out) {
  const bool object = value.is_object() && !value.empty();
  if (!object && !is_table(value)) {
    out += flat(value);
    return;
  }
  const std::string inner = indent + "  ";
  const char* separator = "\n";
  out += object ? "{" : "[";
  for (const auto& entry : value.items()) {
    out += separator + inner;
    separator = ",\n";
    if (object) {
      out += flat(entry.key()) + ": ";
      lay_out(entry.value(), inner, out);
    } else {
      out += flat(entry.value());
    }
  }
  out += "\n" + indent + (object ? "}" : "]");
}

}  // namespace

std::string laid_out(const ordered_json& document) {
  std::string out;
  lay_out(document, "", out);
  return out + "\n";
}

}  // namespace ppsim
