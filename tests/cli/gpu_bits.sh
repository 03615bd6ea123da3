#!/usr/bin/env bash
# scripts/gpu_check on stand-ins: the same bits in every schedule.
source "$(dirname "$0")/support/lib.sh"
source "$support/gpu_scripts.sh"
with_device

# The same bits in schedules of four and of eight stages, or the one that has others is found.
DIFFERS=zb-v script 1 gpu_check --only bits check
expect_out "bits: float32, streamed: NOT EQUAL in 7 schedules"
python3 - <<'END' || fail "not the one that differs"
import json
rows = json.load(open("check/bits.json"))["bits"]
pinned = [row for row in rows if "pinned" in row["mode"]]
assert len(rows) == 10 and [row["arithmetic"] for row in pinned] == ["float32"] * 2 + ["bf16"] * 2, rows
for row in rows:
    hashes = {}
    for run in row["runs"]:
        hashes.setdefault(run["gradients_hash"], []).append(run["schedule"])
    assert ["zb-v"] in hashes.values() and len(hashes) == 3, row
    assert ["seq-1f1b:slices=4", "terapipe:slices=4"] in hashes.values(), row
END
