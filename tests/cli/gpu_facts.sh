#!/usr/bin/env bash
# scripts/gpu_check on stand-ins: the questions about the device.
source "$(dirname "$0")/support/lib.sh"
source "$support/gpu_scripts.sh"
with_device

# A question that dies and one that fails are told, and the others are asked.
script 1 gpu_check --limit 60 check
python3 - <<'END' || fail "not what was asked"
import json
facts = {fact["fact"]: fact for name in ("facts", "processes") for fact in json.load(open(f"check/{name}.json"))["facts"]}
assert facts["4 parts work at the same time, as graphs"]["as_expected"]
assert facts["one of 8 parts of the multiprocessors has its share of the speed, streamed"]["as_expected"]
assert not facts["8 parts work at the same time, streamed"]["as_expected"]
assert not facts["two processes on one device, told apart by NCCL_HOSTID, over loopback"]["as_expected"]
assert facts["two processes on one device run a schedule over copies by CUDA IPC, streamed"]["as_expected"]
assert facts["kernels run beside 20 streams that wait for a number"]["as_expected"]
assert facts["kernels run beside 24 branches of graphs that wait for a number"]["answer"]["exit"] == -11
assert "kernels run beside 28 streams that wait for a number" not in facts
assert facts["a copy within the device holds the part that makes it up no more than by its own share"]["answer"]["exit"] == 1
assert json.load(open("check/kernels.json"))["good"]
END
