#!/usr/bin/env bash
# scripts/gpu_check on one device of the strict fake: its questions to a device, each of which has an answer there. And jobs
# that have nothing in common but the time, one of which dies: none of it is held against the others.
source "$(dirname "$0")/support/lib.sh"
source "$support/gpu_scripts.sh"
served=${PPSIM_SERVED:?the folder of served_gpu, which ctest sets}
export PPSIM_BIN=$served

found=0
timeout "$limit_s" "$served/served_gpu" --devices 1 "$scripts/gpu_check" --only facts --only processes check \
  >stdout 2>stderr || found=$?
[ "$found" -eq 3 ] || fail "exit $found, expected 3: gpu_check on the strict fake"
expect_out "gpu_check: rehearsed on the strict fake: facts, processes; all is right; not measured: no GPU"
expect_err "nothing is held against them"
python3 - <<'END' || fail "not what was asked"
import json
facts = {fact["fact"]: fact for name in ("facts", "processes") for fact in json.load(open(f"check/{name}.json"))["facts"]}
assert len(facts) == 31 and all(fact["as_expected"] for fact in facts.values()), facts
assert facts["4 parts work at the same time, streamed"]["expected"] == "an answer: nothing is measured"
pair = facts["two processes on one device, told apart by NCCL_HOSTID, over loopback"]["answer"]
assert [one["answer"] for one in pair] == ["completes"] * 2, pair
END

# A step of one is none of another, and the death of a process ends its own job.
cat >jobs <<'END'
#!/usr/bin/env bash
run() {
  "$PPSIM_BIN/ppsim" run 1f1b --ranks 2 --microbatches 4 --backend cuda --arithmetic integer --compare --steps 4 \
    --transformer hidden=8,heads=2,ffn=8,vocab=8,sequence=4 "$@"
}
for ((i = 0; i < 4; ++i)); do run --transport copy --ranks-per-device 2 >"job$i" 2>&1 & done
export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
RANK=0 LOCAL_RANK=0 NCCL_HOSTID=0 run --transport nccl >pair 2>&1 &
RANK=1 LOCAL_RANK=1 NCCL_HOSTID=1 PPSIM_SERVED_INSTEAD="cuStreamWaitEvent 3 dies" run --transport nccl >dies 2>&1 &
wait
END
chmod +x jobs
timeout "$limit_s" "$served/served_gpu" --devices 1 ./jobs >stdout 2>stderr || fail "jobs at the same time"
expect_err "of 6 processes in 5 jobs, on up to 1 hosts; nothing is held against them"
for ((i = 0; i < 4; ++i)); do
  grep -q "gradients equal the unpipelined reference bit by bit" "job$i" || fail "job $i: $(cat "job$i")"
done
grep -q "process 1" pair || fail "nobody misses the process that dies: $(cat pair)"
