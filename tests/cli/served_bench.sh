#!/usr/bin/env bash
# scripts/gpu_bench to its end on the strict fake, as small as it can be: every part of it but cuDNN's attention. Its times
# mean nothing. And algorithms that are on disk as soon as they are timed.
source "$(dirname "$0")/support/lib.sh"
source "$support/gpu_scripts.sh"
served=${PPSIM_SERVED:?the folder of served_gpu, which ctest sets}
export PPSIM_BIN=$served

found=0
timeout "$limit_s" "$served/served_gpu" --devices 1 "$scripts/gpu_bench" bench >stdout 2>stderr || found=$?
[ "$found" -eq 3 ] || fail "exit $found, expected 3: gpu_bench on the strict fake"
expect_out "gpu_bench: rehearsed on the strict fake: "
expect_out ", 0 failures; not rehearsed: cuDNN's attention; not measured: no GPU"
expect_err "nothing is held against them"
python3 - <<'END' || fail "not what was asked"
import json
bench = json.load(open("bench/bench.json"))
assert {product["parts"] for product in bench["products"]} == {1, 4}
assert {(one["mode"], one["ranks"]) for one in bench["host"]} == {(m, r) for m in ("streamed", "graphs") for r in (1, 4)}
assert {(point["ranks"], point["family"]) for point in bench["points"]} == {(2, "one stage")} and len(bench["points"]) == 4
orders = {(schedule, ranks) for schedule in ("gpipe", "1f1b", "zb-h1") for ranks in (2, 4)}
assert {(one["schedule"], one["ranks"]) for one in bench["halves"]} == orders
algorithms = json.load(open("bench/algorithms.json"))
assert algorithms["device"] == "strict fake" and algorithms["products"]
END

# A part of it is rehearsed as the whole is.
found=0
timeout "$limit_s" "$served/served_gpu" --devices 1 "$scripts/gpu_bench" --only kernels part >stdout 2>stderr || found=$?
[ "$found" -eq 3 ] || fail "exit $found, expected 3: a part of gpu_bench on the strict fake"
expect_out "gpu_bench: rehearsed on the strict fake: 6 kernels, 0 failures"

# A run that is ended keeps what it has timed: the file is there while the steps go on.
cat >ended <<'END'
#!/usr/bin/env bash
"$PPSIM_BIN/ppsim" run 1f1b --ranks 1 --microbatches 4 --backend cuda --arithmetic bf16 --steps 100000 --no-profile \
  --algorithms kept.json --transformer layers=1,hidden=16,heads=2,ffn=16,vocab=16,sequence=8 &
for ((look = 0; look < 1000; ++look)); do
  if [ -s kept.json ]; then break; fi
  sleep 0.05
done
kill -KILL $!
END
chmod +x ended
timeout "$limit_s" "$served/served_gpu" --devices 1 ./ended >stdout 2>stderr || true
python3 -c 'import json; assert json.load(open("kept.json"))["products"]' || fail "nothing was kept"
