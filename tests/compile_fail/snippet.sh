#!/usr/bin/env bash
# snippet.sh SOURCE COMPILER [FLAG...]: SOURCE compiles, and with PPSIM_MISTAKE it does not.
set -euo pipefail

source_file=$1
shift
compile=("$@" -std=c++20 -fsyntax-only "$source_file")

if ! "${compile[@]}"; then
  echo "does not compile without its mistake: $source_file" >&2
  exit 1
fi
if "${compile[@]}" -DPPSIM_MISTAKE 2>/dev/null; then
  echo "compiles with its mistake: $source_file" >&2
  exit 1
fi
