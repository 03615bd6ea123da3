#!/usr/bin/env bash
# scripts/structure on a small tree: what it finds, and that it finds nothing where nothing is wrong.
source "$(dirname "$0")/support/lib.sh"

mkdir -p tree/scripts tree/core/include/ppsim tree/core/src/part
cp "$data/../../scripts/structure" tree/scripts/
cd tree
git init -q .

# file PATH: from stdin, in the namespaces of a library.
file() { { echo '#pragma once'; cat; } >"$1"; }
# found TEXT: the check fails, and this is among what it says.
found() {
  if scripts/structure 2>stderr >stdout; then fail "nothing was found, expected: $1"; fi
  expect_err "$1"
}
good() { scripts/structure >stdout 2>stderr || fail "something was found where nothing is wrong"; }

file core/include/ppsim/texts.hpp <<'END'
namespace ppsim {
/// In words.
[[nodiscard]] std::string share_text(double part, double whole);
}  // namespace ppsim
END
file core/src/one.cpp <<'END'
namespace ppsim {
namespace {
int count_of(const Row& row) { return row.count; }
double median(std::vector<double>& values) { return values[0]; }
using Json = nlohmann::json;
}  // namespace
}  // namespace ppsim
END
file core/src/two.cpp <<'END'
namespace ppsim {
namespace {
int count_of(const Column& column) { return column.count; }
using Json = nlohmann::json;
}  // namespace
}  // namespace ppsim
END
good

# Names that one batch of sources would mix up.
file core/src/part/three.cpp <<'END'
namespace ppsim::part {
namespace {
std::string share_text(const std::optional<double>& share, bool is_signed) { return {}; }
}  // namespace
}  // namespace ppsim::part
END
found "core/src/part/three.cpp:4: found 'share_text' in an unnamed namespace, expected another name than in core/include/ppsim/texts.hpp:4"
file core/src/part/three.cpp <<'END'
namespace ppsim {
namespace {
double median(const std::vector<double>& sorted) { return sorted[0]; }
}  // namespace
}  // namespace ppsim
END
found "core/src/part/three.cpp:4: found 'median' in an unnamed namespace, expected another name than in core/src/one.cpp:5, or other parameters"
file core/src/part/three.cpp <<'END'
namespace ppsim {
namespace {
using Json = nlohmann::ordered_json;
}  // namespace
}  // namespace ppsim
END
found "core/src/part/three.cpp:4: found 'Json'"
rm core/src/part/three.cpp
good

# A private header for one file, with a source of its own and without one.
file core/src/part/short.hpp <<<'int f();'
echo '#include "part/short.hpp"' >>core/src/two.cpp
found "core/src/part/short.hpp:1: found a header without a source for core/src/two.cpp alone, expected it in that file"
echo '#include "short.hpp"' >core/src/part/short.cpp
found "core/src/part/short.hpp:1: found 3 lines with its source for core/src/two.cpp alone, expected them in that file"
echo '#include "part/short.hpp"' >>core/src/one.cpp
good

# Sizes.
{ echo 'int long_one() {'; printf '  f();\n%.0s' {1..59}; echo '}'; } >core/src/part/long.cpp
found "core/src/part/long.cpp:1: found a function of 61 lines, expected at most 60"
sed -i 2d core/src/part/long.cpp
good
printf '// line\n%.0s' {1..401} >core/src/part/long.cpp
found "core/src/part/long.cpp:1: found 401 lines, expected at most 400"
rm core/src/part/long.cpp
for i in {1..25}; do echo >"core/src/part/source_$i.cpp"; done
found "core/src/part: found 27 sources, expected at most 25"
