#!/usr/bin/env bash
# scripts/gpu_check --node on stand-ins: eight devices of a host, and two hosts of a Slurm job.
source "$(dirname "$0")/support/lib.sh"
source "$support/gpu_scripts.sh"
with_device
export DEVICES=8

script 0 gpu_check --node check
expect_out "right  chimera on 8 devices: copies between processes by CUDA IPC, streamed"
expect_out "node: 18 of 18 right, on 8 devices of 1 host"
python3 - <<'END' || fail "not what was asked"
import json
node = json.load(open("check/node.json"))
assert node["devices"] == 8 and node["hosts"] == 1 and len(node["questions"]) == 18
commands = [row["answer"]["command"] for row in node["questions"]]
assert sum("--graphs" in one for one in commands) == 6 and sum("--transport copy" in one for one in commands) == 9
END

# Two hosts: srun starts a process for each device of both, and copies are refused there.
mkdir path
cat >path/srun <<'END'
#!/usr/bin/env bash
for argument; do
  case $argument in
    --ntasks=*) tasks=${argument#*=} ;;
    --ntasks-per-node=*) each=${argument#*=} ;;
    --*) ;;
    *) break ;;
  esac
  shift
done
case $1 in "${TMPDIR:-/tmp}"/ppsim-bundle*) exit 127 ;; esac  # the other host has its own /tmp
for ((i = 0; i < tasks; ++i)); do
  SLURM_PROCID=$i SLURM_STEP_NUM_TASKS=$tasks SLURM_LOCALID=$((i % each)) "$@" &
  members+=($!)
done
code=0
for one in "${members[@]}"; do wait "$one" || code=$?; done
exit $code
END
chmod +x path/srun
SLURM_JOB_NUM_NODES=2 PATH=$PWD/path:$PATH script 0 gpu_check --node hosts
expect_out "right  chimera on 16 devices of 2 hosts: NCCL, as graphs"
expect_out "right  copies between 2 hosts are refused"
expect_out "node: 25 of 25 right, on 8 devices of 2 hosts"

# So do the programs of a bundle, which every host has to find.
tar czf bundle.tar.gz -C "$PPSIM_BIN" .
mkdir own shared
SLURM_JOB_NUM_NODES=2 PATH=$PWD/path:$PATH TMPDIR=$PWD/own PPSIM_BIN=bundle.tar.gz script 0 gpu_check --node shared/hosts
expect_out "node: 25 of 25 right, on 8 devices of 2 hosts"
[ "$(ls shared)" = hosts ] && [ -z "$(ls own)" ] || fail "something of the bundle is left"
head -c 300 bundle.tar.gz >junk.tar.gz
PPSIM_BIN=junk.tar.gz script 1 gpu_check --node shared/hosts
expect_err "is neither a folder with programs nor a bundle of scripts/gpu_bundle"
[ "$(wc -l <stderr)" = 1 ] || fail "more than a line about a junk bundle"

# A wrong answer of one process is wrong, and a question that does not end takes no time of the others.
WRONG_AT=3 script 1 gpu_check --node wrong
expect_out "WRONG  1f1b on 8 devices: NCCL between processes, streamed"
expect_out "right  1f1b on 8 devices: copies of one process, streamed"
expect_out "node: 9 of 18 right, on 8 devices of 1 host"
script 4 gpu_check --limit 0.01 --node late
expect_out "node: 0 of 18 right, 18 left out for lack of time, on 8 devices of 1 host"
python3 -c '
import json
node = json.load(open("late/node.json"))
assert all(row["answer"].get("exit") == "left out" and row["good"] is None for row in node["questions"]), node
' || fail "not within its limit"
# A question that was running when the time was over is not wrong either.
HANGS="run " script 4 gpu_check --limit 3 --node hangs
expect_out "node: 0 of 18 right, 18 left out for lack of time, on 8 devices of 1 host"

# An interrupted script leaves nothing running, and keeps the answers so far.
set -m  # else background processes ignore SIGINT
HANGING=$PWD/hanging HANGS=--graphs "$scripts/gpu_check" --node interrupted >stdout 2>stderr &
set +m
for ((look = 0; look < 20 * limit_s; ++look)); do
  if [ -s hanging ]; then break; fi
  sleep 0.05
done
kill -INT %1
found=0
wait %1 || found=$?
[ "$found" -eq 130 ] || fail "exit $found, expected 130 of an interrupt"
expect_out "right  chimera on 8 devices: copies of one process, streamed"
expect_out "node: 3 of 18 right, 15 left out for lack of time, on 8 devices of 1 host"
expect_out "gpu_check: interrupted; nothing is wrong, and something had no time left; see interrupted"
[ ! -s stderr ] || fail "an interrupt is no error"
while read -r one; do ! kill -0 "$one" 2>/dev/null || fail "$one still runs"; done <hanging

# Results that cannot be written are told at once.
echo >file
script 1 gpu_check --node file
expect_err "results cannot be written in file: File exists"
[ "$(wc -l <stderr)" = 1 ] || fail "more than a line about a folder that is none"

# A schedule that takes an even number of ranks is not asked of three.
DEVICES=3 script 0 gpu_check --node odd
expect_out "left out  chimera on 3 devices: it takes an even number of them"
expect_out "node: 12 of 12 right, on 3 devices of 1 host"
