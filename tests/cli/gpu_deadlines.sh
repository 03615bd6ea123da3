#!/usr/bin/env bash
# scripts/gpu_check when its time is over, and what ends what hangs.
source "$(dirname "$0")/support/lib.sh"
source "$support/gpu_scripts.sh"

without_device
mkdir tests
printf '#!/bin/sh\necho "[  PASSED  ] 7 tests."\n' >tests/ppsim_tests_unit
# A test that had not ended when the time was over has not failed.
printf '#!/bin/sh\necho "[       OK ] One.Test"\nsleep 1000\n' >tests/ppsim_tests_cross
chmod +x tests/*
script 3 gpu_check --only kernels --limit 8
expect_out "not rehearsed: strict fake, cross: the time was over"
# Nor has a schedule that was not run because there was no time to list the schedules.
sed 's/"list schedules --json")/"list schedules --json") sleep 1000;/' none/ppsim >tests/slow
cp tests/slow none/ppsim
script 3 gpu_check --only gradients --limit 8
expect_out "no time was left to ask which schedules there are"

# A command that hangs is ended with all that it started, and a share is at most the remaining time.
with_device
PYTHONDONTWRITEBYTECODE=1 python3 - "$scripts" <<'END' || fail "what hangs is not ended"
import sys, time
sys.path.insert(0, sys.argv[1])
from gpu_session import LEFT_OUT, Session
session = Session("out", 60)
with session.share(3):
    begin = time.monotonic()
    done = session.run(["sh", "-c", "echo begun; sleep 1000 & sleep 1000"], 50)
    assert done["exit"] == LEFT_OUT and done["stdout"] == "begun\n" and time.monotonic() - begin < 20, done
    assert session.run(["true"], 50)["exit"] == LEFT_OUT
done = session.run(["sh", "-c", "echo the reason >&2; seq 9000 >&2"], 50)  # the first line has it, and the last where it ended
assert done["stderr"].startswith("the reason\n") and done["stderr"].endswith("\n9000\n") and len(done["stderr"]) < 4100, done
assert session.run(["sleep", "1000"], 1)["exit"] == "timeout"  # its own time, not the session's
assert session.run(["true"], 50)["exit"] == 0 and session.run(["no such program"], 50)["exit"] == 127
END
