#!/usr/bin/env bash
# study: points resume after a kill with the same rows, shards merge, exports agree, and a regression is exit code 6.
source "$(dirname "$0")/support/lib.sh"
cat >study.json <<'EOF'
{
  "base": {"model": "llama3-8b:layers=8,sequence=2048", "cluster": "dgx-h100", "nodes": 1, "global_batch_size": 16},
  "axes": {"tp": [1, 2, 3], "pp": [1, 2, 4], "schedule": ["1f1b", "zb-v", "gpipe"], "microbatch_size": [1, 2],
           "recompute": ["none", "selective", "full"]},
  "constraints": ["tp*pp <= 8"]
}
EOF
rows() { python3 -c 'import sqlite3, sys
for row in sqlite3.connect(sys.argv[1]).execute("SELECT * FROM points ORDER BY key"): print(row)' "$1"; }

expect_exit 0 study run study.json --jobs 2 --json
expect_json 'd["points"] == d["done"] and d["fits"] > 0 and d["impossible"] > 0 and d["missing"] == 0'
expect_json 'sum(r["points"] for r in d["reasons"]) == d["impossible"] and all(r["reason"] for r in d["reasons"])'
rows study.json.sqlite >whole

# A schedule without a backward keeps nothing for one, and is no better step of training.
cat >inference.json <<'EOF'
{
  "base": {"model": "llama3-8b", "cluster": "dgx-h100", "nodes": 2, "global_batch_size": 32, "pp": 4, "tp": 1, "recompute": "full"},
  "axes": {"schedule": ["1f1b", "forward-only"]}
}
EOF
expect_exit 0 study run inference.json --json
expect_json 'd["fits"] == 2 and d["best"]["point"]["schedule"] == "1f1b"'

# Killed at five moments, and resumed.
for pause in 0.01 0.03 0.05 0.08 0.15; do
  "$ppsim" study run study.json --jobs 2 --store killed.sqlite >/dev/null 2>&1 &
  pid=$!
  sleep "$pause"
  kill -KILL "$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || true
done
expect_exit 0 study run study.json --store killed.sqlite
rows killed.sqlite >resumed
cmp whole resumed || fail "a killed study has other rows"

# Four processes share one store: each point is evaluated once, and those of one that is killed by another.
shared=()
for process in 0 1 2 3; do
  "$ppsim" study run study.json --jobs 1 --store four.sqlite --json >"four$process" 2>&1 &
  shared+=($!)
done
for pid in "${shared[@]}"; do wait "$pid" || fail "one of four processes failed"; done
python3 -c 'import json
counts = [json.load(open(f"four{process}")) for process in range(4)]
assert sum(c["evaluated"] for c in counts) == counts[0]["points"], counts
assert all(c["missing"] == 0 for c in counts), counts' || fail "points were evaluated twice, or left out"
rows four.sqlite >four
cmp whole four || fail "four processes have other rows"
shared=()
for process in 0 1 2 3; do
  "$ppsim" study run study.json --jobs 1 --store three.sqlite >/dev/null 2>&1 &
  shared+=($!)
done
sleep 0.1
kill -KILL "${shared[0]}" 2>/dev/null || true
wait "${shared[0]}" 2>/dev/null || true
for pid in "${shared[@]:1}"; do wait "$pid" || fail "a process did not end well after another one was killed"; done
rows three.sqlite >three
cmp whole three || fail "three of four processes have other rows"

# The claim of a process on another machine ends when it stays silent; that of a dead process on this one at once.
python3 -c 'import sqlite3
base = sqlite3.connect("study.json.sqlite"); base.execute("DELETE FROM points")
keys = [row[0] for row in sqlite3.connect("four.sqlite").execute("SELECT key FROM points ORDER BY key LIMIT 3")]
base.execute("INSERT INTO claims VALUES (?, ?, 1, ?, ?)", (keys[0], "elsewhere", "0", 1.0))
base.execute("INSERT INTO claims VALUES (?, ?, 2, ?, ?)", (keys[2], "ahead", "0", 4e9))
import socket
base.execute("INSERT INTO claims VALUES (?, ?, 999999999, ?, ?)", (keys[1], socket.gethostname(), "0", 4e9))
base.commit()'
expect_exit 0 study run study.json --json
expect_json 'd["evaluated"] == d["points"]'

# As mpirun starts them, the first one speaks.
OMPI_COMM_WORLD_RANK=1 "$ppsim" study run study.json >second 2>&1 || fail "process 1 of mpirun failed"
[[ ! -s second ]] || fail "process 1 of mpirun speaks"

for shard in 0 1 2; do
  expect_exit 0 study run study.json --shard "$shard/3" --store "part$shard.sqlite"
done
expect_exit 0 study run study.json --store merged.sqlite --merge part0.sqlite --merge part1.sqlite --merge part2.sqlite
rows merged.sqlite >merged
cmp whole merged || fail "shards have other rows"
expect_exit 0 study status study.json --store part1.sqlite --json
expect_json 'd["done"] + d["missing"] == d["points"] and d["missing"] > 0'

# Rows agree with simulate.
expect_exit 0 study export study.json -o points.jsonl
expect_exit 0 study export study.json -o points.csv
python3 -c 'import csv, json
lines = [json.loads(line) for line in open("points.jsonl")]
table = list(csv.DictReader(open("points.csv")))
assert len(lines) == len(table)
for line, row in zip(lines, table):
    assert line["status"] == row["status"] and line["point"]["tp"] == row["tp"]
    if line["status"] == "fits": assert line["step_ns"] == int(row["step_ns"])
one = next(l for l in lines if l["status"] == "fits" and l["point"]["schedule"] == "zb-v" and l["point"]["pp"] == "4")
p = one["point"]
print(one["step_ns"], one["peak_bytes"], p["tp"], p["microbatch_size"], p["recompute"])' >one
read -r step peak tp size recompute <one
expect_exit 0 simulate zb-v --model llama3-8b:layers=8,sequence=2048 --cluster dgx-h100 --nodes 1 --tp "$tp" --pp 4 \
  --dp "$((8 / tp / 4))" --global-batch-size 16 --microbatch-size "$size" --recompute "$recompute" --json
expect_json "d['step_ns'] == $step and d['peak_bytes'] == $peak"

# A baseline that was faster.
expect_exit 0 study diff study.json --baseline study.json.sqlite
cp killed.sqlite faster.sqlite
python3 -c 'import sqlite3
base = sqlite3.connect("faster.sqlite"); base.execute("UPDATE points SET step_ns = step_ns * 0.9, key = key || 1"); base.commit()'
expect_exit 6 study diff study.json --baseline faster.sqlite
expect_out "step_ns is "
expect_exit 0 study diff study.json --baseline faster.sqlite --tolerance 0.2

# A value that is wrong everywhere is named.
sed 's/"zb-v"/"zb-w"/' study.json >typo.json
expect_exit 0 study run typo.json
expect_out 'no schedule "zb-w" (did you mean "zb-v"?)'

expect_exit 2 study resume study.json --store none.sqlite
expect_err "there is no such store"
echo '{"base": {"modle": "llama3-8b"}}' >bad.json
expect_exit 2 study run bad.json
expect_err 'did you mean "model"'
expect_exit 2 study run study.json --shard 3/3
echo text >text.sqlite
expect_exit 2 study run study.json --store text.sqlite

# Words that say neither, files of somebody else, and a comparison of nothing.
echo '{"base": {"model": "llama3-8b", "cluster": "dgx-h100", "nodes": 1, "global_batch_size": 16, "tp": 8, "schedule": "1f1b", "fsdp": "banana"}}' >fsdp.json
expect_exit 0 study run fsdp.json
expect_exit 0 study export fsdp.json -o fsdp.csv
grep -q "fsdp is on or off" fsdp.csv || fail "fsdp=banana was taken for something"
expect_exit 2 study diff study.json --baseline fsdp.json.sqlite
expect_err "nothing to compare"
python3 -c 'import sqlite3; base = sqlite3.connect("other.sqlite"); base.execute("CREATE TABLE mine (x)"); base.commit()'
before=$(md5sum <other.sqlite)
expect_exit 2 study status study.json --store other.sqlite
expect_err "no store of a study"
[ "$before" = "$(md5sum <other.sqlite)" ] || fail "a file of somebody else was changed"
# Several processes open a new store at once.
for one in 1 2 3 4; do "$ppsim" study run fsdp.json --store several.sqlite >"run$one" 2>&1 & pids+=($!); done
for pid in "${pids[@]}"; do wait "$pid" || fail "one of several processes: $(cat run*)"; done

# --watch: a line for each change, and the best point is that of most tokens a second.
expect_exit 0 study run study.json --store watched.sqlite --jobs 1 --watch --json
expect_json 'd["best"]["point"]["tp"] in ("1", "2") and d["best"]["step_ns"] > 0'
python3 -c 'import json
watched = [line for line in open("stderr") if " points, " in line]
assert watched and len(set(watched)) == len(watched), watched
end = json.load(open("stdout"))
assert watched[-1].startswith("%d of %d points, %d fit; best " % (end["points"], end["points"], end["fits"])), watched[-1]
rates = [json.loads(line).get("tokens_per_second") or 0 for line in open("points.jsonl")]
assert max(rates) == end["best"]["tokens_per_second"], (max(rates), end["best"])
assert "global_batch_size" not in watched[-1] and "schedule " in watched[-1]' || fail "--watch"

# From another process, while others write, until all is done.
expect_exit 0 study run study.json --shard 0/3 --store followed.sqlite
"$ppsim" study status study.json --store followed.sqlite --watch >follower 2>followed &
follower=$!
expect_exit 0 study run study.json --store followed.sqlite
timeout 60 tail --pid=$follower -f /dev/null || fail "a watch does not end with its study"
wait "$follower" || fail "study status --watch"
[ "$(tail -n 1 followed | cut -d' ' -f1)" = "$(wc -l <points.jsonl)" ] || fail "a watch that did not see the end"
grep -q "  best: " follower || fail "no best point in the end"
expect_exit 2 study status study.json --store none.sqlite --watch
expect_err "there is no such store"

# A point is that of what its files hold: another model in the same file is another point, and the old one stays.
python3 - <<'END'
import json
json.dump({"hidden_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 8, "intermediate_size": 4096,
           "vocab_size": 32000, "max_position_embeddings": 2048, "model_type": "llama"}, open("config.json", "w"))
json.dump({"base": {"model": "./config.json", "cluster": "dgx-h100", "global_batch_size": 16},
           "axes": {"dp": [8]}}, open("files.json", "w"))
END
step_of() { expect_exit 0 study run files.json --json; python3 -c 'import json; print(json.load(open("stdout"))["best"]["step_ns"])'; }
first=$(step_of)
cp config.json first.json
sed -i 's/"num_hidden_layers": 8/"num_hidden_layers": 16/' config.json
second=$(step_of)
[ "$second" -gt $((first * 3 / 2)) ] || fail "the result of the model before: $first, then $second"
cp first.json config.json
[ "$(step_of)" = "$first" ] || fail "the first model has another result"
mv config.json gone.json
expect_error 2 "config.json" "No such file" study run files.json

# An order that follows costs follows those of recomputation, here as in simulate.
cat >follows.json <<'END'
{"base": {"model": "llama3-8b", "cluster": "dgx-h100", "tp": 2, "pp": 4, "global_batch_size": 16, "recompute": "full"},
 "axes": {"schedule": ["v-adaptive", "vocab-2"]}}
END
expect_exit 0 study run follows.json
expect_exit 0 study export follows.json -o follows.jsonl
for schedule in v-adaptive vocab-2; do
  expect_exit 0 simulate $schedule --model llama3-8b --cluster dgx-h100 --nodes 1 --tp 2 --pp 4 --global-batch-size 16 --recompute full --json
  SCHEDULE=$schedule python3 -c 'import json, os
rows = [json.loads(line) for line in open("follows.jsonl")]
row = next(row for row in rows if row["point"]["schedule"] == os.environ["SCHEDULE"])
assert row["step_ns"] == json.load(open("stdout"))["step_ns"], (row, os.environ["SCHEDULE"])' || fail "$schedule in a study"
done

# An option that an action does not use is refused, with the actions that take it.
unused() {
  expect_exit 2 study "$1" study.json "${@:3}"
  expect_err "$3 is for $2 (found $3 with $1, expected no $3)"
}
unused run export --output z.csv
unused run diff --baseline study.json.sqlite
unused run diff --tolerance 0.1
unused resume export --output z.csv
unused status "run and resume" --merge none.sqlite
unused status "run and resume" --shard 0/4
unused status "run and resume" --jobs 2
unused status export --output z.csv
unused export "run and resume" --shard 0/4
unused export "run, resume and status" --watch
unused diff "run and resume" --merge none.sqlite
unused diff "run, resume and status" --watch
unused diff export --output z.csv

# A word is compared with no number, and a study has a point.
with_constraint() { sed 's/"constraints": \[[^]]*\]/"constraints": ["'"$1"'"]/' study.json >constrained.json; }
with_constraint "schedule==2"
expect_exit 2 study run constrained.json
expect_err 'a constraint compares numbers, and values of schedule are words (found "schedule==2", expected names of numbers: nodes, global_batch_size, sequence_length, tp,'
with_constraint "2 < tp*recompute"
expect_exit 2 study run constrained.json
expect_err "values of recompute are words"
with_constraint "tp > 100"
expect_exit 2 study run constrained.json
expect_err "the study has no point"
