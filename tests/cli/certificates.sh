#!/usr/bin/env bash
# A certificate holds for its Program, its sizes and its transport, and for nothing else.
source "$(dirname "$0")/support/lib.sh"
sizes=(--unit F=1,B=2,A=1000)

expect_exit 0 lower 1f1b --ranks 3 --microbatches 4 -o program.json
expect_exit 0 lower gpipe --ranks 3 --microbatches 4 -o other.json
expect_exit 0 verify program.json --certificate plain.cert
expect_exit 0 verify program.json "${sizes[@]}" --certificate sized.cert --json
expect_json '[w["bytes"] for w in d["worst_case_memory"]] == [3000, 2000, 1000]'

expect_exit 0 check-certificate program.json plain.cert --json
expect_json 'd["valid"] and d["properties"] == ["well_formed", "matched", "deadlock_free", "collective_order", "weight_versions", "tensor_use"]'
expect_exit 0 check-certificate program.json sized.cert "${sizes[@]}"
expect_out "weight_versions, tensor_use, memory of program"
# The bounds that were checked, and a limit that they keep to or not.
expect_out "  rank 1: at most 2.00 kB"
bounds='d["worst_case_memory"] == [{"rank": r, "bytes": 3000 - 1000 * r} for r in range(3)]'
expect_exit 0 check-certificate program.json sized.cert "${sizes[@]}" --memory-limit 3kB --json
expect_json "d['valid'] and d['fits'] and d['memory_limit_bytes'] == 3000 and $bounds"
expect_exit 3 check-certificate program.json sized.cert "${sizes[@]}" --memory-limit 2999 --json
expect_json "d['valid'] and not d['fits'] and $bounds"
expect_exit 3 check-certificate program.json sized.cert "${sizes[@]}" --memory-limit 2999
expect_out "rank 0: at most 3.00 kB, above the limit"
! grep -q "rank 1: .*above" stdout || fail "a rank that keeps to the limit"
expect_exit 0 check-certificate program.json plain.cert --json
expect_json '"worst_case_memory" not in d and "fits" not in d'
expect_error 2 "plain.cert: the certificate bounds no memory" "--memory-limit 3kB" \
  check-certificate program.json plain.cert "${sizes[@]}" --memory-limit 3kB
expect_error 2 "size" "much" check-certificate program.json sized.cert "${sizes[@]}" --memory-limit much
expect_exit 0 verify program.json --properties well_formed,matched,deadlock_free,ascending_accumulation --certificate few.cert
expect_exit 0 check-certificate program.json few.cert
expect_out "The certificate holds: well_formed, matched, deadlock_free, ascending_accumulation of program"

# Of another Program, other sizes, no sizes, no certificate at all.
expect_error 4 "plain.cert" "it is about program" check-certificate other.json plain.cert
expect_error 4 "sized.cert" "it is about sizes" check-certificate program.json sized.cert --unit A=999
expect_error 2 "give the costs it was made with" "" check-certificate program.json sized.cert
expect_error 2 "program.json:2:13" '"ppsim-certificate"' check-certificate program.json program.json
sed 's/"version": 3/"version": 1/' plain.cert >old.cert
expect_error 2 "verify the Program again to make a new one" "found 1" check-certificate program.json old.cert
expect_error 2 "gone.cert" "No such file" check-certificate program.json gone.cert
expect_exit 0 generate 1f1b --ranks 3 --microbatches 4 -o schedule.json
expect_error 2 "schedule.json" "this file holds a schedule" check-certificate schedule.json plain.cert

# tampered PYTHON: a change of the sized certificate `c`, its order `o`, or the reuses `r` of its rank 0.
tampered() {
  python3 -c '
import json, sys
c = json.load(open("sized.cert"))
numbers = lambda strings: [int(n) for s in strings for n in s.split()]
order, reuse = numbers(c["order"]), numbers(c["memory"][0]["reuse"])
o, r = list(order), list(reuse)
exec(sys.argv[1])
if o != order: c["order"] = [" ".join(map(str, o))]
if r != reuse: c["memory"][0]["reuse"] = [" ".join(map(str, r))]
json.dump(c, open("tampered.cert", "w"))' "$1"
}
refuted() { tampered "$1" && expect_error 4 "tampered.cert" "$2" check-certificate program.json tampered.cert "${sizes[@]}"; }
broken() { tampered "$1" && expect_error 2 "tampered.cert:1:" "$2" check-certificate program.json tampered.cert "${sizes[@]}"; }

refuted 'o[0], o[1] = o[1], o[0]' "completes before it starts"
refuted 'o[1] = o[0]' "starts twice"
refuted 'o[1] = 10**6' "which is not there"
refuted 'o.pop()' "the order has"
refuted 'o.reverse()' "rank"
refuted 'c["program_hash"] = "0" * 32' "it is about program"
refuted 'c["capabilities"] = {"credits": 2}' "it is about capabilities"
refuted 'c["memory"][0]["bytes"] -= 1' "a bound of 2999 bytes"
refuted 'c["memory"].pop()' "no memory of rank 2"
refuted 'c["memory"] = []' "bounds no memory"
refuted 'c["memory"][1]["rank"] = 0' "memory of rank 0 twice"
refuted 'c["memory"][1]["rank"] = 9' "memory of rank 9"
refuted 'r[2] += 1' "are reused"
refuted 'r[0] = 10**6' "is not on the rank"
refuted 'r[0], r[1] = r[1], r[0]' "may be alive when tensor"
refuted 'c["properties"].remove("matched")' "it does not claim matched"
refuted 'c["properties"].remove("memory")' "bounds memory but does not claim it"
refuted 'c["properties"].append("memory")' "claims memory twice"
refuted 'c["properties"].append("ascending_accumulation"); c["memory"] = []' "bounds no memory"
broken 'c["properties"].append("makespan")' "/properties/7"
broken 'del c["properties"]' 'a missing key'
broken 'del c["order"]' 'a missing key'
broken 'o[0] = -1' "/order/0"
broken 'c["order"][0] = "x"' "/order/0"
broken 'c["order"][0] = 1' "/order/0"
broken 'r.pop()' "/memory/0/reuse/0"
broken 'c["version"] = 1' "/version"
broken 'c["extra"] = 1' "/extra"
broken 'c["capabilities"] = 7' "/capabilities"
head -c 200 sized.cert >tampered.cert
expect_error 2 "tampered.cert:" "not JSON" check-certificate program.json tampered.cert "${sizes[@]}"

# A run asks for the certificate of its own Program; without one it verifies.
expect_exit 0 run program.json --certificate plain.cert --steps 1 --json
expect_json 'd["verified"]'
hash_of() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$1" "${2:-program_hash}"; }
expect_error 4 "plain.cert: the certificate is of another program" "(found $(hash_of plain.cert), expected " run other.json --certificate plain.cert --steps 1
expect_exit 2 run program.json --certificate plain.cert --unverified
expect_exit 0 run program.json --unverified --steps 1 --json
expect_json 'not d["verified"] and d["proved_bytes"] is None'
expect_exit 0 verify program.json --buffers 4 --certificate buffered.cert
expect_error 4 "buffered.cert: the certificate is for another transport" "(found 4 credits, " \
  run program.json --certificate buffered.cert --steps 1
expect_error 4 "sized.cert: the certificate bounds the memory of other tensor sizes" "(found $(hash_of sized.cert sizes_hash), expected " \
  run program.json --certificate sized.cert --steps 1
sed 's/"tensor_use"/"ascending_accumulation"/' plain.cert >unused.cert
expect_error 4 "unused.cert: the certificate does not cover tensor_use" "weight_versions, ascending_accumulation, expected tensor_use)" \
  run program.json --certificate unused.cert --steps 1
sed 's/"order": \["0 1 /"order": ["1 0 /' plain.cert >swapped.cert
expect_error 4 "swapped.cert: certificate: " "completes before it starts" run program.json --certificate swapped.cert --steps 1

# No certificate of what is refuted, or of less than a run needs.
expect_exit 4 verify "$data/deferred_receives.csv" --communicators per-rank --certificate none.cert
expect_exit 3 verify program.json "${sizes[@]}" --memory-limit 2999 --certificate none.cert
expect_error 2 "--properties" "well_formed,matched,deadlock_free" verify program.json --properties matched --certificate none.cert
[ ! -e none.cert ] || fail "a certificate of a refuted Program"

# Of a CSV as a release of PyTorch runs it: with its communicators, or in its own lowering.
expect_exit 0 lower zb-h1 --ranks 4 --microbatches 8 --for torch-2.15 -o new.csv
expect_exit 0 verify new.csv --for torch-2.15 --certificate new.cert
expect_exit 0 check-certificate new.csv new.cert --for torch-2.15
expect_out "The certificate holds: well_formed, matched, deadlock_free"
expect_error 4 "it is about program" "" check-certificate new.csv new.cert --for torch-2.15 --communicators per-rank
expect_exit 0 verify new.csv --for torch-2.15 --communicators per-rank --certificate rank.cert
expect_exit 0 check-certificate new.csv rank.cert --for torch-2.15 --communicators per-rank
expect_error 4 "it knows no WAIT cells" "" check-certificate new.csv new.cert --for torch-2.14
expect_exit 0 generate 1f1b --ranks 2 --microbatches 4 -o order.csv
expect_exit 0 verify order.csv --for torch-2.14 --unit F=1,B=2,A=5 --certificate order.cert
expect_exit 0 check-certificate order.csv order.cert --for torch-2.14 --unit F=1,A=5
expect_out "rank 0: at most 10 B"
expect_error 2 "this file holds a schedule" "--for" check-certificate order.csv order.cert --unit A=5
expect_exit 0 generate zb-h1 --ranks 2 --microbatches 4 --for legacy -o legacy.csv
expect_exit 0 verify legacy.csv --for legacy --certificate legacy.cert
expect_exit 0 check-certificate legacy.csv legacy.cert --for legacy --json
expect_json 'd["valid"] and d["transport"] == "nccl"'
# One for a transport that promises more is none for the release.
expect_exit 0 verify new.csv --communicators per-pair --transport in-process --certificate free.cert
expect_error 4 "not for the transport of torch-2.15" "verify with --for" check-certificate new.csv free.cert --for torch-2.15
expect_exit 0 check-certificate new.csv free.cert --communicators per-pair
expect_error 2 "--for is about the transport" "--transport nccl" check-certificate new.csv new.cert --for torch-2.15 --transport nccl
