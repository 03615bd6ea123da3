#pragma once

#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "binding.hpp"

namespace ppsim::python {

/// Memory of a C++ object as NumPy sees it: read-only bytes, which the module gives names and types.
using Bytes1d = nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>>;

/// The items of an object where they are, nothing is copied; the array keeps `owner` alive.
/// Requires: `items` live in `owner` and never change.
template <class T>
Bytes1d bytes_in(nb::handle owner, std::span<const T> items) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto* data = reinterpret_cast<const std::uint8_t*>(items.data());
  return Bytes1d(data, {items.size_bytes()}, owner);
}

/// The items of a vector that is made for the array, which alone keeps them.
template <class T>
Bytes1d bytes_of(std::vector<T> items) {
  auto kept = std::make_unique<const std::vector<T>>(std::move(items));
  const std::span<const T> view = *kept;
  const nb::capsule owner(kept.release(),
                          [](void* pointer) noexcept { delete static_cast<const std::vector<T>*>(pointer); });
  return bytes_in(owner, view);
}

/// The array under the names of its fields in python/ppsim/arrays.py.
inline nb::object structured(const Bytes1d& bytes, const char* layout) {
  return nb::module_::import_("ppsim.arrays").attr("structured")(bytes, layout);
}

}  // namespace ppsim::python
