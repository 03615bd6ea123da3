# Helpers of tests/cli/*.sh. Each script gets the path of ppsim as its first argument, works in an empty folder of its
# own and stops at the first surprise.
set -euo pipefail

ppsim=$1
support=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
data=$(cd "$support/../../data" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export TERM=dumb
limit_s=300  # a hang is a failure, also on a busy machine

fail() {
  echo "FAILED: $*" >&2
  echo "--- stdout" >&2
  head -c 2000 stdout >&2 || true
  echo "--- stderr" >&2
  head -c 2000 stderr >&2 || true
  exit 1
}

# expect_exit CODE ARGUMENTS...: runs ppsim, leaves its output in the files stdout and stderr.
expect_exit() {
  local expected=$1 found=0
  shift
  timeout "$limit_s" "$ppsim" "$@" >stdout 2>stderr || found=$?
  [ "$found" -eq "$expected" ] || fail "exit $found, expected $expected: ppsim $*"
}

# expect_out TEXT, expect_err TEXT: the last output has the text.
expect_out() { grep -qF -- "$1" stdout || fail "stdout lacks: $1"; }
expect_err() { grep -qF -- "$1" stderr || fail "stderr lacks: $1"; }

# expect_json EXPRESSION: stdout is one JSON object d of which the Python expression holds. One Python answers all of a
# script: starting it takes longer than anything that it is asked.
expect_json() {
  if [ -z "${to_checker:-}" ]; then
    coproc checker { exec python3 -S "$support/check_json.py"; }
    exec {to_checker}>&"${checker[1]}" {from_checker}<&"${checker[0]}"
  fi
  local answer
  printf '%s\0%s\0' "$PWD" "$1" >&"$to_checker"
  read -r answer <&"$from_checker" || answer="no answer"
  [ "$answer" = true ] || fail "JSON: $1: $answer"
}

# expect_error CODE WHERE FOUND ARGUMENTS...: exit CODE; WHERE and FOUND in the message; the same as JSON.
expect_error() {
  local code=$1 where=$2 found=$3
  shift 3
  expect_exit "$code" "$@"
  expect_err "$where"
  expect_err "$found"
  [ ! -s stdout ] || fail "an error is no data: ppsim $*"
  expect_exit "$code" "$@" --json
  expect_json 'list(d) == ["error"] and set(d["error"]) >= {"code", "file", "row", "column", "found", "expected", "message"}'
  expect_json 'd["error"]["message"] != "" and "internal" not in d["error"]["message"]'
}
