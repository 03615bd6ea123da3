#!/usr/bin/env bash
# studies/accuracy/measure names a figure that gets worse, and a result the error of its class.
source "$(dirname "$0")/support/lib.sh"

study=$data/../../studies/accuracy
cp "$data/../../docs/accuracy.md" .
cp -r "$study" study
sed -i 's/^memory,all,max_percent,4,.*/memory,all,max_percent,4,1.0/' study/bars.csv
if study/measure "$ppsim" . >stdout 2>stderr; then fail "a limit that is exceeded"; fi
expect_err "memory allocated, maximum: "
expect_err "but bars.csv has 1.0 %"

# The error of a class is that of validate.
"$ppsim" validate "$study"/data/*.csv --json >groups.json
cat >classes.py <<'PYTHON'
import json, re, subprocess, sys

ppsim = sys.argv[1]
groups = {group["name"]: group for group in json.load(open("groups.json"))["groups"]}
clusters = {"a100-sxm-80gb": "dgx-a100", "a100-sxm-40gb": "azure-nd96asr-v4", "h100-sxm-80gb": "dgx-h100", "b200-sxm": "dgx-b200", "gb200": "gb200-nvl72"}
types = {"bf16": ["bf16", "fp16"], "fp8": ["fp8", "mxfp8"], "nvfp4": ["nvfp4"]}
seen = 0
for kind, model in {"dense": "llama3-8b", "moe": "mixtral-8x7b"}.items():
    for gpu, cluster in clusters.items():
        for dtype, names in types.items():
            alike = [groups[name] for name in (f"{kind} {gpu} {other}" for other in names) if name in groups]
            if not alike:
                continue
            runs = sum(group["n"] for group in alike)
            mean = sum(group["n"] * group["mean_percent"] for group in alike) / runs
            command = [ppsim, "simulate", "1f1b", "--model", model, "--cluster", cluster, "--nodes", "1", "--pp", "4"]
            command += ["--dp", "1" if gpu == "gb200" else "2", "--dtype", dtype, "--global-batch-size", "8", "--json"]
            error = json.loads(subprocess.run(command, stdout=subprocess.PIPE).stdout)["known_error"]
            found = re.fullmatch(r".*: ([0-9.]+) % mean over (\d+) runs", error)
            assert found and int(found[2]) == runs and abs(float(found[1]) - mean) <= 0.06, (kind, gpu, dtype, error, mean, runs)
            seen += 1
assert seen == 13, seen
PYTHON
python3 classes.py "$ppsim" || fail "workload/src/validated.cpp is older than the cost model"
