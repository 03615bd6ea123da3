#!/usr/bin/env bash
# Every answer names the transport that it holds for, and a certificate holds on another one exactly where that is sound.
source "$(dirname "$0")/support/lib.sh"
hangs=$data/regressions/launch-order-forward-hangs.json

# A run names what its proof holds for.
expect_exit 0 lower 1f1b --ranks 2 --microbatches 3 -o program.json
expect_exit 0 run program.json --steps 1
[ "$(head -n 1 stdout)" = "transport in-process, mpi or copy: queues are independent" ] || fail "the first line"
expect_exit 0 run program.json --steps 1 --transport in-process --json
expect_json 'd["transport"] == "inproc" and d["proved_transport"] == "in-process"'
expect_exit 0 run program.json --steps 1 --unverified
[ "$(head -n 1 stdout)" = "unverified: nothing is proved of any transport" ] || fail "the first line"
expect_exit 0 run program.json --steps 1 --unverified --json
expect_json 'd["proved_transport"] is None'
for transport in any mpi copy in-process; do
  expect_exit 0 verify program.json --transport $transport --certificate $transport.cert
  expect_exit 0 run program.json --steps 1 --certificate $transport.cert --json
  expect_json "d['proved_transport'] == '$transport'"
done
expect_exit 0 run program.json --steps 1 --certificate any.cert
[ "$(head -n 1 stdout)" = "transport any: a proof holds on in-process, mpi, copy and nccl" ] || fail "the first line"

# A simulation names it, too, where there is no time to tell.
for command in simulate compare; do
  expect_error 4 "ppsim: transport nccl: " "deadlock: 18 of 26 instructions never complete" \
    $command "$hangs" --unit F=1 --transport nccl
  expect_json 'd["error"]["transport"] == "nccl" and d["error"]["code"] == "deadlock"'
  expect_error 4 "ppsim: transport any: " "is launched after" $command "$hangs" --unit F=1
  expect_exit 0 $command "$hangs" --unit F=1 --transport in-process
done
sed 's/"1F1",*//' program.json >broken.json
expect_exit 4 simulate broken.json --unit F=1 --transport nccl --json
expect_json 'd["error"]["transport"] == "nccl" and d["error"]["code"] == "ill_formed"'
expect_error 2 "unknown --transport" "found ncc" simulate program.json --unit F=1 --transport ncc

# A certificate names its transport, and not another one.
expect_exit 0 check-certificate program.json mpi.cert --json
expect_json 'd["transport"] == "mpi"'
expect_exit 0 check-certificate program.json any.cert --transport nccl
expect_exit 0 verify program.json --transport nccl --certificate nccl.cert
forged() { sed "$2" "$1" >forged.cert && ! cmp -s "$1" forged.cert || fail "nothing was forged: $2"; }
refused() { expect_error 4 "forged.cert: certificate: $1" "$2" check-certificate program.json forged.cert; }
forged mpi.cert 's/"transport": "mpi"/"transport": "nccl"/'
refused "it names transport nccl, and its capabilities are another's" "rendezvous"
forged mpi.cert 's/"transport": "mpi"/"transport": "tcp"/'
refused "it names transport tcp" ""
forged any.cert 's/"transport": "any"/"transport": "nccl-one-queue"/'
refused "it names transport nccl-one-queue" ""
# A guaranteed order that any does not keep, no order at all, a weaker chain and another one.
python3 - <<'EOF'
import json
for name, change in {
    "guarantee": lambda c: c["capabilities"].update(guaranteed_launches=c["capabilities"]["launches"]),
    "dropped": lambda c: c.update(capabilities={}),
    "weaker": lambda c: c["capabilities"]["launches"].pop("compute"),
    "completion": lambda c: c["capabilities"]["launches"].update(order="completion"),
}.items():
    certificate = json.load(open("any.cert"))
    change(certificate)
    json.dump(certificate, open(name + ".cert", "w"))
    certificate.pop("transport")
    json.dump(certificate, open(name + "-unnamed.cert", "w"))
EOF
for attack in guarantee dropped weaker completion; do
  expect_error 4 "$attack.cert: certificate: it" "" check-certificate program.json $attack.cert
  expect_error 4 "$attack-unnamed.cert: certificate: it is about capabilities" "" check-certificate program.json $attack-unnamed.cert
done

# Waits that were considered and do not occur make nothing unsafe; what tensor use rests on is looked at again.
safe=(--properties well_formed,matched,deadlock_free)
expect_exit 0 verify program.json --transport nccl "${safe[@]}" --certificate safe.cert
for certificate in safe nccl; do
  expect_exit 0 check-certificate program.json $certificate.cert --transport in-process
  expect_error 4 "$certificate.cert: the certificate is for another transport; verify with --transport any" "start in host order" \
    check-certificate program.json $certificate.cert --transport any
done
expect_exit 0 run program.json --steps 1 --certificate nccl.cert --json
expect_json 'd["proved_transport"] == "nccl"'
expect_exit 0 run program.json --steps 1 --buffers 2 --certificate in-process.cert
expect_exit 0 verify program.json --transport in-process "${safe[@]}" --certificate narrow.cert
expect_error 4 "for another transport" "" check-certificate program.json narrow.cert --transport nccl

# Which certificate is accepted where, as the documentation has it.
names=(any in-process mpi copy nccl nccl-one-queue)
for made in "${names[@]}"; do
  expect_exit 0 verify program.json --transport $made "${safe[@]}" --certificate $made-safe.cert
  row="| \`$made\` |"
  for used in "${names[@]}"; do
    code=0
    "$ppsim" check-certificate program.json $made-safe.cert --transport $used >stdout 2>stderr || code=$?
    case $code in 0) row+=" accepted |" ;; 4) row+=" refused |" ;; *) fail "$made on $used" ;; esac
  done
  grep -qxF "$row" "$data/../../docs/transports.md" || fail "docs/transports.md: $row"
done

# Computation that launches collectives: a certificate without them does not cover it.
model=(--model llama3-8b --cluster dgx-h100 --nodes 1 --tp 4 --pp 2 --global-batch-size 3)
expect_error 4 "the certificate is for computation that launches no collectives, and with --tp 4 it does" \
  "verify with --transport nccl, --model and --tp 4" check-certificate program.json nccl.cert --transport nccl "${model[@]}"
expect_exit 0 verify program.json --transport nccl "${model[@]}" --properties well_formed,matched,deadlock_free,tensor_use --certificate loops.cert
expect_exit 0 check-certificate program.json loops.cert --transport nccl
expect_exit 0 check-certificate program.json loops.cert --transport nccl "${model[@]}"
expect_exit 0 check-certificate program.json loops.cert --transport any

# Version 2 knew no order of launches.
sed 's/"version": 3/"version": 2/' nccl.cert >old.cert
expect_error 2 "old.cert:" "an unknown key" check-certificate program.json old.cert
sed -e 's/"version": 3/"version": 2/' -e '/"transport"/d' nccl.cert >old.cert
expect_error 2 "/capabilities/launches: an unknown key" "it is of version 3" check-certificate program.json old.cert
sed -e 's/"version": 3/"version": 2/' -e '/"transport"/d' in-process.cert >old.cert
expect_exit 0 check-certificate program.json old.cert --transport mpi

# Transfers that are kernels slow computation down, where the table says how much: forwards of one wave or two.
cat >beside.json <<'EOF'
{"format": "ppsim-tables", "version": 1, "costs": [
  {"kind": "F", "ns": 4, "ns_beside_transfers": 8}, {"kind": "SEND_F", "ns": 1}]}
EOF
step() { expect_exit 0 simulate forward-only --ranks 2 --microbatches 2 --costs beside.json --transport "$1" --json; }
step nccl
expect_json 'd["makespan_ns"] == 16 and "beside_transfers_hash" in d'
step any
expect_json 'd["makespan_ns"] == 13 and "beside_transfers_hash" not in d'
expect_error 2 "beside.json: nothing is proved of the time of a step whose transfers slow computation down" "ns_beside_transfers with --transport nccl" \
  verify forward-only --ranks 2 --microbatches 2 --costs beside.json --transport nccl --properties makespan
expect_exit 0 verify forward-only --ranks 2 --microbatches 2 --costs beside.json --properties makespan
