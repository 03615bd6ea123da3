#!/usr/bin/env bash
# --config: options from a file, below those of the command line.
source "$(dirname "$0")/support/lib.sh"

cat >job.toml <<END
# Options of all our commands.
no-color = true
[simulate]
ranks = 4
microbatches = 8
unit = "F=1,B=2"   # units of a millisecond
[verify]
ranks = 2
microbatches = 2
END
expect_exit 0 simulate 1f1b --config job.toml
expect_out "step 33.00 ms"
expect_exit 0 --config job.toml simulate 1f1b --json
expect_json 'd["makespan_ns"] == 33000000'
# The command line goes first; each command has its own section.
expect_exit 0 simulate 1f1b --config job.toml --unit F=1,B=1
expect_out "step 22.00 ms"
expect_exit 0 verify 1f1b --config job.toml --json
expect_json 'd["properties"]["deadlock_free"]["verdict"] == "proved"'
expect_exit 2 compare gpipe 1f1b --config job.toml
expect_err "compare needs costs"

wrong() {
  local where=$1 found=$2
  shift 2
  printf '%s\n' "$@" >wrong.toml
  expect_error 2 "$where" "$found" simulate 1f1b --config wrong.toml
}
wrong "wrong.toml:2: unknown key (did you mean \"microbatches\"?)" "found microbatch" "[simulate]" "microbatch = 8"
wrong "wrong.toml:1: unknown key" "found speed" "speed = 8"
wrong "wrong.toml:2: a section of no command (did you mean \"simulate\"?)" "found [simulat]" "" "[simulat]" "ranks = 8"
wrong "bad value for --ranks" "found four" "[simulate]" "ranks = four"
wrong "--unit has no value" "" "[simulate]" "ranks = 4" "microbatches = 8" 'unit = ""'
wrong "bad value for --fsdp" "found maybe, expected true or false" "[simulate]" "fsdp = \"maybe\""
wrong "wrong.toml:2: json is an option of all commands" "expected json above the first section" "[simulate]" "json = true"
wrong "wrong.toml:5: a section is there twice" "[simulate], as in row 1" "[simulate]" "ranks = 4" "[verify]" "ranks = 2" "[ simulate ] # again" "microbatches = 8"
expect_error 2 "nowhere.toml: cannot read: No such file" "" simulate 1f1b --config nowhere.toml
expect_error 2 "--config" "" simulate 1f1b --config
expect_error 2 "--config" "" simulate 1f1b --config ""
