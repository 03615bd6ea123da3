#pragma once

#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <span>

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

/// The array under the names of its fields in python/ppsim/arrays.py.
inline nb::object structured(const Bytes1d& bytes, const char* layout) {
  return nb::module_::import_("ppsim.arrays").attr("structured")(bytes, layout);
}

}  // namespace ppsim::python
