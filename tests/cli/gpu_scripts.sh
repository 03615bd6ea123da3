#!/usr/bin/env bash
# scripts/gpu_check and gpu_bench without a GPU, and what ends what hangs.
source "$(dirname "$0")/support/lib.sh"
source "$support/gpu_scripts.sh"
before=$(ls "$scripts/../studies")

# Without a GPU: the same measurement, small, and nothing is left of it.
mkdir none
cat >none/ppsim <<END
#!/bin/sh
case "\$1 \$2 \$3" in
  "doctor --json ") echo '{"checks": [{"check": "backend cuda", "detail": "not here: a test"}]}' ;;
  "list schedules --json") echo '{"schedules": [{"name": "1f1b"}, {"name": "pipedream"}, {"name": "vocab-1"}]}' ;;
  *) exec "$ppsim" "\$@" ;;
esac
END
chmod +x none/ppsim
export PPSIM_BIN=$PWD/none
script 3 gpu_bench
expect_out "not measured: no GPU"

# A rehearsal names what it rehearses and what it does not, and a failure in it is a failure.
script 3 gpu_check
expect_out "not rehearsed: facts, processes: no served_gpu is beside the programs in $PWD/none"
expect_out "not rehearsed: strict fake, unit: no ppsim_tests_unit is beside the programs in $PWD/none"
expect_out "not rehearsed: strict fake, cross: no ppsim_tests_cross is beside the programs in $PWD/none"
expect_out "rehearsed: gradients on the CPU: 5 equal, 1 refused, 0 wrong"
for mode in streamed updates; do
  expect_out "bits: float32, $mode: equal in 7 schedules, and in 2 with slices"
done
expect_out "not measured: no GPU: not here: a test"
mkdir tests
printf '#!/bin/sh\ncase $1 in *StrictFake*) echo "[  PASSED  ] 7 tests." ;; esac\n' >tests/ppsim_tests_unit
printf '#!/bin/sh\necho "[  PASSED  ] 0 tests."\necho "[  FAILED  ] 1 test."\nexit 1\n' >tests/ppsim_tests_cross
chmod +x tests/*
script 1 gpu_check --only kernels
expect_out "rehearsed: strict fake, unit: [  PASSED  ] 7 tests."
expect_out "rehearsed: strict fake, cross: FAILED"
expect_err "[  FAILED  ] 1 test."
# A test that had not ended when the time was over has not failed.
printf '#!/bin/sh\necho "[       OK ] One.Test"\nsleep 1000\n' >tests/ppsim_tests_cross
script 3 gpu_check --only kernels --limit 8
expect_out "not rehearsed: strict fake, cross: the time was over"
# Nor has a schedule that was not run because there was no time to list the schedules.
sed 's/"list schedules --json")/"list schedules --json") sleep 1000;/' none/ppsim >tests/slow
cp tests/slow none/ppsim
script 3 gpu_check --only gradients --limit 8
expect_out "no time was left to ask which schedules there are"
unset PPSIM_BIN
rm -r tests
[ "$(ls "$scripts/../studies")" = "$before" ] || fail "something was written under studies"

# A program that does not start is not a machine without a GPU.
mkdir broken
printf '#!/bin/sh\necho "libz3.so.4: no such file" >&2\nexit 127\n' >broken/ppsim
chmod +x broken/ppsim
PPSIM_BIN=$PWD/broken script 1 gpu_check
expect_err "does not run here: exit 127: libz3.so.4: no such file"

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
