#!/usr/bin/env bash
# Processes of two hosts: network namespaces that have an address each and nothing in common but a wire. Of a run over NCCL all
# that comes before the devices; a study, which needs none, to its end. It is skipped where nobody may make such namespaces.
source "$(dirname "$0")/support/lib.sh"
idle=${PPSIM_IDLE_LIBRARIES:?the path of libppsim_idle_libraries.so, which ctest sets}

wire=ppsim$$
if ! ip netns add "$wire-0" 2>stderr; then
  echo "SKIPPED: no network namespaces: $(cat stderr)" >&2
  exit 77
fi
trap 'ip netns del "$wire-0"; ip netns del "$wire-1" || true; rm -rf "$work"' EXIT
ip netns add "$wire-1"
ip -n "$wire-0" link add wire type veth peer name wire netns "$wire-1"
for host in 0 1; do
  ip -n "$wire-$host" addr add "10.77.0.$((host + 1))/24" dev wire
  ip -n "$wire-$host" link set wire up
  ip -n "$wire-$host" link set lo up
done

unset RANK WORLD_SIZE LOCAL_RANK SLURM_PROCID OMPI_COMM_WORLD_RANK
export PPSIM_CUDA_LIBRARY=$idle PPSIM_NCCL_LIBRARY=$idle
export WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500

# on_hosts CODES COMMAND...: two processes on each host, as torchrun starts them; {} is the number of a process. Their exit codes.
on_hosts() {
  local codes=$1 rank found=() started=()
  shift
  for rank in 0 1 2 3; do
    RANK=$rank LOCAL_RANK=$((rank % 2)) timeout 60 ip netns exec "$wire-$((rank / 2))" "${@//\{\}/$rank}" \
      >"stdout$rank" 2>"stderr$rank" &
    started+=($!)
  done
  for rank in 0 1 2 3; do
    local code=0
    wait "${started[rank]}" || code=$?
    found+=("$code")
  done
  cp stdout0 stdout && cp stderr0 stderr
  [ "${found[*]}" = "$codes" ] || fail "exits ${found[*]}, expected $codes: $*"
  for rank in 1 2 3; do
    [ ! -s "stdout$rank" ] && [ ! -s "stderr$rank" ] || fail "process $rank speaks, too: $(cat "stderr$rank")"
  done
}

# They meet, and process 0 speaks for all.
on_hosts "2 2 2 2" "$ppsim" run no-such-schedule --backend cuda
expect_err "no-such-schedule"
# One on the other host is about to run something else.
for rank in 0 1 2 3; do
  microbatches=$((rank == 3 ? 16 : 8))
  "$ppsim" lower 1f1b --ranks 4 --microbatches $microbatches -o "program$rank.json" 2>/dev/null
done
on_hosts "4 4 4 4" "$ppsim" run "program{}.json" --backend cuda
expect_err "process 3 is about to run with another program than process 0"
# One process proves a Program for all that agree on it; the run then fails at the devices, of which there are none.
on_hosts "1 1 1 1" "$ppsim" run program0.json --backend cuda
expect_err "opening its stages"

# Without an address only processes of one host are known to meet.
MASTER_ADDR="" RANK=2 bash -c 'unset MASTER_ADDR; exec "$@"' - "$ppsim" run program0.json --backend cuda >stdout 2>stderr &&
  fail "two hosts without an address"
expect_err "where process 0 is to be met is not known"

# A study has nothing but the wire between its two halves.
cat >study.json <<'EOF'
{"base": {"model": "llama3-8b:layers=8,sequence=2048", "cluster": "dgx-h100", "nodes": 1, "global_batch_size": 16},
 "axes": {"tp": [1, 2], "pp": [1, 2, 4], "schedule": ["1f1b", "zb-v"]}, "constraints": ["tp*pp <= 8"]}
EOF
on_hosts "0 0 0 0" "$ppsim" study run study.json --store "own{}.sqlite" --jobs 1 --json
expect_json 'd["missing"] == 0 and 0 < d["evaluated"] < d["points"]'
[ ! -e own3.sqlite ] || fail "a store beside that of the first process"
