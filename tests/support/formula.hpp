#pragma once

#include <map>
#include <string>
#include <string_view>

namespace ppsim::test {

/// The value of a formula as a person writes it: + - * / with a product where two factors stand side by side,
/// parentheses, `min(a, b)`, `max(a, b)`, `floor(a)`, `ceil(a)`, `a mod b` and the given names, of which the
/// longest that fits is read. Throws std::invalid_argument with the column for anything else.
double formula_value(std::string_view text, const std::map<std::string, double>& names);

}  // namespace ppsim::test
