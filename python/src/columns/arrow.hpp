#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "binding.hpp"

namespace ppsim::python {

/// Texts of one column, one after another.
struct TextColumn {
  std::vector<std::int32_t> ends = {0};  ///< and where the first begins
  std::string text;
  void add(std::string_view item);
};

/// A column of an Arrow table, without missing values.
struct ArrowColumn {
  std::string name;
  std::variant<std::vector<std::int32_t>, std::vector<std::int64_t>, TextColumn> values;
};

/// Columns as other libraries of the process take them: the Arrow C data interface, in capsules of Python.
/// They are shared, never copied, and live as long as one of the takers.
class ArrowTable {
 public:
  /// Requires: columns of `rows` items each.
  ArrowTable(std::int64_t rows, std::vector<ArrowColumn> columns);

  [[nodiscard]] std::int64_t rows() const;
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] nb::capsule schema() const;
  [[nodiscard]] nb::capsule array() const;
  [[nodiscard]] nb::capsule stream() const;

  struct Data;

 private:
  std::shared_ptr<const Data> data_;
};

}  // namespace ppsim::python
