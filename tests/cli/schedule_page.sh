#!/usr/bin/env bash
# docs/schedules.md and its pictures are what the program writes today: `ppsim list schedules --docs docs` renews them.
source "$(dirname "$0")/support/lib.sh"

expect_exit 0 list schedules --docs docs --json
expect_json 'd["file"] == "docs/schedules.md" and d["pictures"] >= 5'
diff -r "$data/../../docs/schedules" docs/schedules >stdout || fail "docs/schedules"
diff "$data/../../docs/schedules.md" docs/schedules.md >stdout || fail "docs/schedules.md"
[ "$(ls docs/schedules | wc -l)" -ge 5 ] || fail "no pictures"

expect_error 2 "--docs" models list models --docs docs
expect_error 1 "cannot write" /dev/null/docs list schedules --docs /dev/null/docs
