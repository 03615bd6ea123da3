#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <span>
#include <string_view>

namespace ppsim::verifier {

/// A property of a Program that can be verified.
enum class Property : std::uint8_t {
  well_formed,
  matched,
  deadlock_free,
  collective_order,
  ascending_accumulation,
  weight_versions,
  tensor_use,
  memory,
  makespan,
};

/// One row of the registry of properties.
struct PropertyInfo {
  Property property;
  std::string_view name;     ///< as the command line and JSON spell it
  std::string_view summary;  ///< one sentence
  /// Asked for when the caller names no property: memory where sizes are given, makespan with its limit.
  bool by_default;
};

/// All properties, in the order in which they are decided and reported.
[[nodiscard]] std::span<const PropertyInfo> property_registry();

[[nodiscard]] std::string_view property_name(Property property);
[[nodiscard]] std::optional<Property> property_from_name(std::string_view name);
std::ostream& operator<<(std::ostream& out, Property property);

}  // namespace ppsim::verifier

namespace ppsim {
using verifier::Property;
using verifier::property_from_name;
using verifier::property_name;
using verifier::property_registry;
using verifier::PropertyInfo;
}  // namespace ppsim
