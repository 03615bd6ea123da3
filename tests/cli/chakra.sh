#!/usr/bin/env bash
# Chakra traces in: an exported trace takes the time of the simulated step; other files are refused.
source "$(dirname "$0")/support/lib.sh"

cat >costs.json <<'END'
{"format": "ppsim-tables", "version": 1,
 "costs": [{"kind": "F", "ns": 1000000}, {"kind": "B", "ns": 2000000}, {"kind": "SEND_F", "ns": 250000}, {"kind": "SEND_B", "ns": 125000}],
 "sizes": [{"tensor": "boundary_output", "bytes": 1048576}, {"tensor": "outgoing_gradient", "bytes": 1048576}, {"tensor": "incoming_gradient", "bytes": 1048576}]}
END
# A rank that computes nothing has a trace without nodes.
cat >idle.json <<'END'
{"format": "ppsim-schedule", "version": 1, "pipeline": {"ranks": 3, "stages": 2, "microbatches": 1, "placement": [0, 2]},
 "rows": [["0F0", "0B0"], [], ["1F0", "1B0"]]}
END
expect_exit 0 export chakra idle.json --costs costs.json -o idle
expect_exit 0 chakra idle/trace --json
expect_json 'd["makespan_ns"] == 6375000 and d["per_rank"][1]["busy_ns"] == 0'

for schedule in 1f1b gpipe interleaved-1f1b:chunks=2; do
  expect_exit 0 simulate $schedule --ranks 4 --microbatches 8 --costs costs.json --json
  makespan=$(python3 -c 'import json; print(json.load(open("stdout"))["makespan_ns"])')
  rm -rf traces
  expect_exit 0 export chakra $schedule --ranks 4 --microbatches 8 --costs costs.json -o traces
  for path in traces traces/trace traces/trace.2.et; do
    expect_exit 0 chakra $path --json
    expect_json "d['makespan_ns'] == $makespan and len(d['per_rank']) == 4 and d['free_messages'] == 0"
  done
done
expect_exit 0 chakra traces
expect_out "4 ranks, "

# Copies, and sums without other ranks, are beside computation there as here.
python3 - <<'END'
import json
table = json.load(open("costs.json"))
for kind, ns in {"I": 1000000, "W": 900000, "OVERLAP_F_B": 3000000, "OFFLOAD": 700000, "RELOAD": 900000, "LOAD": 300000,
                 "REDUCE_GRAD": 1700000, "OPT": 800000, "UNSHARD": 600000, "RESHARD": 0}.items():
    table["costs"].append({"kind": kind, "ns": ns})
table["sizes"] += [{"tensor": "gradients", "bytes": 4096}]
json.dump(table, open("more.json", "w"))
END
for made in "gpipe --offload half" "dualpipe-v --with reduce-grad,opt" "1f1b --with reduce-grad,opt,load --offload all" "zb-h1 --with unshard,reduce-grad"; do
  expect_exit 0 lower $made --ranks 2 --microbatches 8 --costs more.json -o beside.json
  expect_exit 0 simulate beside.json --costs more.json --json
  makespan=$(python3 -c 'import json; print(json.load(open("stdout"))["makespan_ns"])')
  rm -rf beside
  expect_exit 0 export chakra beside.json --costs more.json -o beside
  expect_exit 0 chakra beside --json
  expect_json "d['makespan_ns'] == $makespan"
done

# As the feeder of ASTRA-sim reads a file (mlcommons/chakra, src/feeder): by data dependencies alone, and attributes of
# these types. A rank computes in its order even so.
cat >feeder.py <<'END'
import sys

def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at

def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            assert key & 7 == 2, key
            size, at = varint(data, at)
            value, at = data[at : at + size], at + size
        yield key >> 3, value

def numbers(packed):
    at, found = 0, []
    while at < len(packed):
        value, at = varint(packed, at)
        found.append(value)
    return found

TYPES = {"is_cpu_op": 27, "comm_type": 9, "comm_size": 9, "comm_src": 7, "comm_dst": 7, "comm_tag": 7, "pg_name": 29}
data = open(sys.argv[1], "rb").read()
at, messages = 0, []
while at < len(data):
    size, at = varint(data, at)
    messages.append(data[at : at + size])
    at += size
before, computing = {}, []
for message in messages[1:]:  # the first one is the metadata
    node = {"id": 0, "deps": []}
    for field, value in fields(message):
        if field == 1: node["id"] = value
        if field == 3: node["type"] = value
        if field == 5: node["deps"] += numbers(value) if isinstance(value, bytes) else [value]
        if field == 10:
            attribute = dict(fields(value))
            assert TYPES[attribute[1].decode()] in attribute, attribute
    everything = set(node["deps"])
    for other in node["deps"]: everything |= before[other]
    before[node["id"]] = everything
    if node["type"] == 4: computing.append(node["id"])
assert len(computing) == 16, computing
for earlier, later in zip(computing, computing[1:]): assert earlier in before[later], (earlier, later)
END
rm -rf traces
expect_exit 0 export chakra 1f1b --ranks 4 --microbatches 8 --costs costs.json -o traces
for rank in 0 1 2 3; do python3 feeder.py traces/trace.$rank.et || fail "what ASTRA-sim's feeder makes of rank $rank"; done

# Without durations of messages the network model gives them.
sed 's/"ns": 250000/"ns": 0/; s/"ns": 125000/"ns": 0/' costs.json >free.json
expect_exit 0 export chakra gpipe --ranks 2 --microbatches 2 --costs free.json -o free
expect_exit 0 chakra free
expect_out "4 messages and collectives have no duration"
expect_exit 0 chakra free --bandwidth 1.048576 --latency 0 --json
cp stdout slow
expect_exit 0 chakra free --json
python3 -c '
import json
free, slow = json.load(open("stdout")), json.load(open("slow"))
# gpipe over two ranks: one message forward and one backward are on the longest path, of 1 ms each.
assert slow["makespan_ns"] - free["makespan_ns"] == 2_000_000 and slow["free_messages"] == 0, (free, slow)
assert slow["priced_messages"] == 4 and free["priced_messages"] == 0, (free, slow)' || fail "the time of messages"

expect_exit 0 chakra traces --latency 1000
expect_out "--bandwidth and --latency change nothing"
expect_exit 0 chakra free --bandwidth 1e12
expect_out "the network is too fast for them"
! grep -qF "change nothing" stdout || fail "all take the time of the network, which is none"
expect_exit 0 chakra free --latency 1000
! grep -qF "change nothing" stdout || fail "latency changes what has no duration"
expect_exit 0 chakra free --latency 1000 --json
python3 -c '
import json
free, slow = json.load(open("stdout")), json.load(open("slow"))
assert slow["makespan_ns"] == free["makespan_ns"] and free["free_messages"] == 0, (free, slow)' || fail "latency alone"

# Files that are not regular are skipped: a pipe would block for ever.
cp -r traces pipes && mkfifo pipes/other.0.et && rm -f pipes/comm_groups.json && mkfifo pipes/comm_groups.json
expect_exit 0 chakra pipes
rm pipes/trace.2.et && mkfifo pipes/trace.2.et
expect_error 2 "the trace of a rank is missing" "" chakra pipes
mkdir only && mkfifo only/trace.0.et
expect_error 2 "no Chakra traces" "" chakra only

# Folders and files that are no traces.
expect_error 2 "no Chakra traces" "" chakra nowhere
mkdir empty
expect_error 2 "no Chakra traces" "no such file" chakra empty
mkdir two && cp traces/trace.0.et two/a.0.et && cp traces/trace.0.et two/b.0.et
expect_error 2 "several runs in one folder" "found a and b" chakra two
cp -r traces hole && rm hole/trace.1.et
expect_error 2 "the trace of a rank is missing" "up to rank 3" chakra hole
cp -r traces cut && head -c 777 traces/trace.1.et >cut/trace.1.et
expect_error 2 "cut/trace.1.et: the trace is cut off" "" chakra cut
cp -r traces text && cp costs.json text/trace.1.et
expect_error 2 "text/trace.1.et" "" chakra text
cp -r traces none && : >none/trace.3.et
expect_error 2 "none/trace.3.et: no trace" "an empty file" chakra none
cp -r traces groups && echo '{"1": [0, 9]}' >groups/comm_groups.json
expect_error 2 "no rank of group 1" "found 9" chakra groups
for members in 0 '{"a": 0}' null; do
  echo "{\"1\": $members}" >groups/comm_groups.json
  expect_error 2 "no ranks of group 1" "expected a list of ranks" chakra groups
done
echo '{"1": [0, 1, 0]}' >groups/comm_groups.json
expect_error 2 "a rank is in group 1 twice" "found 0" chakra groups
# Nested deeper than a stack has room for.
python3 -c 'print("{\"1\": [" + "[" * 1000000 + "]" * 1000000 + "]}")' >groups/comm_groups.json
expect_error 2 "no rank of group 1" "found an array" chakra groups
echo '[' >groups/comm_groups.json
expect_error 2 "groups/comm_groups.json: no groups of ranks" "" chakra groups
# The trace of another rank in its place.
cp -r traces swapped && cp traces/trace.0.et swapped/trace.1.et
expect_error 2 "a message of another rank" "" chakra swapped
