#!/usr/bin/env bash
# include_rule.sh INCLUDE_DIR COMPILER OTHER_FLAG... -- USER_FLAG...
# Every header below INCLUDE_DIR is found with the flags of the library that owns it, and with the user's it is not.
set -euo pipefail

include_dir=$1
compiler=$2
shift 2
owner_flags=()
while [[ $1 != -- ]]; do
  owner_flags+=("$1")
  shift
done
shift
user_flags=("$@")

# finds HEADER FLAG...
finds() {
  local header=$1
  shift
  printf '#if !__has_include(<%s>)\n#error not found\n#endif\n' "$header" |
    "$compiler" -std=c++20 -E "$@" -x c++ - >/dev/null 2>&1
}

headers=$(cd "$include_dir" && find . -name '*.hpp' | sed 's|^\./||' | sort)
if [[ -z $headers ]]; then
  echo "no header below $include_dir" >&2
  exit 1
fi
for header in $headers; do
  if ! finds "$header" "${owner_flags[@]}"; then
    echo "$header is not found by the library that owns it" >&2
    exit 1
  fi
  if finds "$header" "${user_flags[@]}"; then
    echo "$header is found where the include rule forbids it" >&2
    exit 1
  fi
done
