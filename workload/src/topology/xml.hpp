#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ppsim/core/ir/error.hpp"

namespace ppsim::workload {

/// An element of an XML file, its attributes and the elements within. Text between elements is left out, and
/// references such as &lt; stay as they are.
struct XmlElement {
  std::string name;
  int row = 0;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<XmlElement> children;

  /// Empty where there is none of this name.
  [[nodiscard]] std::string_view attribute(std::string_view wanted) const;
};

/// The outermost element.
/// Errors: bad_file with the row of what is no XML, elements that are too deep among it.
[[nodiscard]] Expected<XmlElement> parse_xml(std::string_view text, const std::string& file);

}  // namespace ppsim::workload
