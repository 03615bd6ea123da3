#include <algorithm>
#include <array>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/verifier/property.hpp"

namespace ppsim::verifier {
namespace {

constexpr auto kRegistry = std::to_array<PropertyInfo>({
    {Property::well_formed, "well_formed",
     "every action is there once, on its rank, after what it depends on, and every transfer has two ends",
     true},
    {Property::matched, "matched",
     "whatever meets on a channel or communicator is the same tensor or collective", true},
    {Property::deadlock_free, "deadlock_free", "the Program finishes in every timing", true},
    {Property::collective_order, "collective_order",
     "one order of all collectives agrees with the order in which each rank issues its own", true},
    {Property::ascending_accumulation, "ascending_accumulation",
     "each stage adds up the gradients of an update in ascending order of the microbatches", false},
    {Property::weight_versions, "weight_versions",
     "whatever reads weights finds its version, and no rank holds more of them than microbatches are behind",
     true},
    {Property::tensor_use, "tensor_use",
     "no tensor is used before it is complete, after it is freed, or while it is made again", true},
    {Property::memory, "memory",
     "worst-case memory over every timing is known and within the limit on every rank", true},
    {Property::makespan, "makespan",
     "the longest step over all costs within their intervals is known and within the limit", true},
});

}  // namespace

std::span<const PropertyInfo> property_registry() { return kRegistry; }

std::string_view property_name(Property property) {
  const auto row = std::ranges::find(kRegistry, property, &PropertyInfo::property);
  PPSIM_CHECK(row != kRegistry.end(), "a property without a row in the registry");
  return row->name;
}

std::optional<Property> property_from_name(std::string_view name) {
  const auto row = std::ranges::find(kRegistry, name, &PropertyInfo::name);
  if (row == kRegistry.end()) return std::nullopt;
  return row->property;
}

std::ostream& operator<<(std::ostream& out, Property property) { return out << property_name(property); }

}  // namespace ppsim::verifier
