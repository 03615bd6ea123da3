#!/usr/bin/env bash
# scripts/gpu_check --node to its end without a GPU: the program that users have, with the strict fake in place of CUDA and NCCL,
# on two devices of a host, in one process and in several. And what the fake holds against a process that leaves a wait out.
source "$(dirname "$0")/support/lib.sh"
source "$support/gpu_scripts.sh"
served=${PPSIM_SERVED:?the folder of served_gpu, which ctest sets}
export PPSIM_BIN=$served

timeout "$limit_s" "$served/served_gpu" --devices 2 "$scripts/gpu_check" --node check >stdout 2>stderr ||
  fail "gpu_check --node on the strict fake"
expect_out "right  chimera on 2 devices: copies between processes by CUDA IPC, streamed"
expect_out "node: 18 of 18 right, on 2 devices of 1 host of the strict fake: nothing was measured"
expect_err "on up to 1 hosts; nothing is held against them"
python3 - <<'END' || fail "not what was asked"
import json
questions = json.load(open("check/node.json"))["questions"]
assert all(row["answer"]["gradients_equal"] and row["answer"]["verified"] for row in questions)
hashes = {}
for row in questions:  # whatever moves the messages
    hashes.setdefault(row["question"].split()[0], set()).add(row["answer"]["gradients_hash"])
assert [len(found) for found in hashes.values()] == [1, 1, 1], hashes
END

# Two processes by copies. $1: what a call of the second one gives in place of being made.
cat >two <<'END'
#!/usr/bin/env bash
export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
run=("$PPSIM_BIN/ppsim" run 1f1b --ranks 2 --microbatches 2 --backend cuda --transport copy --arithmetic integer --steps 2
  --compare --transformer hidden=8,heads=2,ffn=8,vocab=8,sequence=4)
RANK=1 LOCAL_RANK=1 PPSIM_SERVED_INSTEAD="$1" "${run[@]}" &
RANK=0 LOCAL_RANK=0 "${run[@]}"
wait $! || exit 1
END
chmod +x two
timeout "$limit_s" "$served/served_gpu" --devices 2 ./two "" >stdout 2>stderr || fail "two processes by copies"
expect_out "gradients equal the unpipelined reference bit by bit"
# A wait for an event of the first one that is left out.
found=0
timeout "$limit_s" "$served/served_gpu" --devices 2 ./two "cuStreamWaitEvent 3 0" >stdout 2>stderr || found=$?
[ "$found" -ne 0 ] || fail "a wait that is left out is not found"
expect_err "served_gpu: FAULT: race: "  # whichever copy comes first
# Where it cannot open what the first one lends both end, and neither frees what the other one has open.
found=0
timeout "$limit_s" "$served/served_gpu" --devices 2 ./two "cuIpcOpenEventHandle 2 201" >stdout 2>stderr || found=$?
[ "$found" -eq 1 ] || fail "exit $found, expected 1"
expect_err "opening an event of another process"
expect_err "nothing is held against them"

# It tells how it is used, and ends what it runs when it is ended itself.
"$served/served_gpu" --help >stdout 2>stderr || fail "no help"
expect_out "usage: served_gpu [--devices N] COMMAND..."
"$served/served_gpu" sh -c 'echo "$PPSIM_SERVED_GPU" >place; exec sleep 1000' >stdout 2>stderr &
for ((look = 0; look < 20 * limit_s; ++look)); do
  if [ -s place ]; then break; fi
  sleep 0.05
done
[ -d "$(cat place)" ] || fail "no folder of a running fake"
kill -TERM $!
found=0
wait $! || found=$?
[ "$found" -eq 143 ] || fail "exit $found, expected 143 of a signal"
[ ! -e "$(cat place)" ] || fail "its folder is left"
