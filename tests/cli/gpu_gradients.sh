#!/usr/bin/env bash
# scripts/gpu_check on stand-ins: gradients against the CPU.
source "$(dirname "$0")/support/lib.sh"
source "$support/gpu_scripts.sh"
with_device

# The gradients of all that the CPU computes.
script 0 gpu_check --only gradients check
expect_out "gradients: 23 equal, 4 refused as they should be, 0 wrong, 0 had no time left"
python3 - <<'END' || fail "not the schedules that are refused"
import json
rows = json.load(open("check/gradients.json"))["gradients"]
refused = {(row["schedule"], row["mode"]) for row in rows if row["exit"] == 2}
assert refused == {("pipedream", "updates"),
                   *(("forward-only", mode) for mode in ("streamed", "graphs", "updates"))}
assert all(row["gradients_equal"] for row in rows if row["exit"] == 0), rows
END
