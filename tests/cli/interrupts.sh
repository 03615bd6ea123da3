#!/usr/bin/env bash
# Ctrl-C: exit 130, SIGTERM: 143, at once, and the old file or none.
source "$(dirname "$0")/support/lib.sh"

# [signal=INT code=130 ticks=30] interrupted ARGUMENTS...: a command that would run for minutes, interrupted once it runs.
interrupted() {
  local found=0 waited=0
  # A background job of a script ignores SIGINT; the program is to have the default.
  python3 -c '
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
os.execv(sys.argv[1], sys.argv[1:])' "$ppsim" "$@" >stdout 2>stderr &
  local pid=$!
  # Once it has used some processor time, its handler is in place.
  until [ "$(awk '{print $14 + $15}' "/proc/$pid/stat" 2>/dev/null || echo 999)" -ge "${ticks:-30}" ]; do
    sleep 0.05
    waited=$((waited + 1))
    [ $waited -lt 2000 ] || fail "not started: ppsim $*"
  done
  kill "-${signal:-INT}" $pid
  # A process that ignores the signal would run for minutes.
  for ((waited = 0; waited < 400; ++waited)); do
    kill -0 $pid 2>/dev/null || break
    sleep 0.05
  done
  kill -KILL $pid 2>/dev/null || true
  wait $pid || found=$?
  [ $found -eq "${code:-130}" ] || fail "interrupted: exit $found of ppsim $*"
  expect_err "interrupted"
}

echo old >kept.json
expect_exit 0 lower 1f1b --ranks 2 --microbatches 4 -o p.json
interrupted run p.json --steps 1000000 --costs-out kept.json
interrupted run p.json --steps 1000000 --unverified --trace t.json
signal=TERM code=143 interrupted run p.json --steps 1000000 --json
expect_json 'd["error"]["code"] == "interrupted"'
interrupted simulate 1f1b --ranks 256 --microbatches 4096 --unit F=1,B=2 --report r.html
interrupted jitter 1f1b --ranks 16 --microbatches 256 --unit F=1,B=2 --vary all=normal:0.1 --samples 1000000
interrupted verify 1f1b --ranks 256 --microbatches 4096 --json
expect_json 'd["error"]["code"] == "interrupted" and d["error"]["message"]'
# Also while the Program is made, when nothing is decided.
expect_json 'len(d["properties"]) == 6 and d["properties"]["deadlock_free"]["verdict"] == "unknown"'
interrupted verify 1f1b --ranks 8 --microbatches 32 --resident 3 --state-limit 1000000000 --timeout 600 --json
expect_json 'd["error"]["code"] == "interrupted" and d["properties"]["matched"]["verdict"] == "proved"'
expect_json 'd["properties"]["deadlock_free"] == {"verdict": "unknown", "reason": "interrupted"}'
expect_json 'len(d["properties"]) == 6'
interrupted verify 1f1b --ranks 8 --microbatches 32 --resident 3 --state-limit 1000000000 --timeout 600
expect_err "interrupted; decided before: well_formed proved, matched proved, collective_order proved"
# Within a question to Z3 or between two, whenever it comes. The best so far is kept.
search=(synthesize --ranks 8 --microbatches 32 --unit F=5,I=6,W=4 --activation-limit 5 --timeout 600)
for attempt in 1 2 3 4 5 6; do
  ticks=$((30 * attempt)) interrupted "${search[@]}" -o best.json
done
expect_err "the best so far is in best.json: makespan"
expect_exit 0 verify best.json
interrupted "${search[@]}" -o best.csv --json
expect_json 'd["error"]["code"] == "interrupted" and d["file"] == "best.csv" and d["lower_bound_ns"] < d["value_ns"]'
expect_json 'd["peak_live_activations"] <= 5 and not d["optimal"]'
expect_exit 0 verify best.csv
interrupted "${search[@]}" -o -
cp stdout piped.json
expect_exit 0 verify piped.json
interrupted synthesize --ranks 8 --microbatches 32 --placement v --unit F=5,I=6,W=4 --activation-limit 8 --timeout 600 -o v.json --certificate v-proof.json
expect_err "there is no v-proof.json yet"
expect_err "the best so far is in v.json: makespan"
expect_exit 0 verify v.json
[ "$(cat kept.json)" = old ] || fail "a file changed"
[ ! -e t.json ] && [ ! -e r.html ] || fail "a file of an interrupted command"
[ -z "$(find . -name '*.tmp*')" ] || fail "a temporary file is left"
