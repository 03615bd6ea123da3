#!/usr/bin/env bash
# Bad input is told first: before a device that is missing, and before costs that were not given.
source "$(dirname "$0")/support/lib.sh"
export PPSIM_CUDA_LIBRARY=/nowhere/libcuda.so

expect_exit 0 lower 1f1b --ranks 2 --microbatches 4 -o program.json
sed 's/"version"/"versoin"/' program.json >slip.json
cat >algorithms.json <<'END'
{"format": "ppsim-algorithms", "version": 1, "device": "D", "library": "L",
 "products": [{"product": "p", "multiprocessors": 132, "algorithm": "00", "ns": 1, "first_ns": 1}]}
END
sed 's/"algorithm"/"algoritm"/' algorithms.json >bad.json
on_gpu=(--backend cuda --arithmetic bf16)
run=(run program.json "${on_gpu[@]}")

# With good inputs only the device is missing.
expect_error 2 "the backend cannot run here" "/nowhere/libcuda.so" "${run[@]}" --algorithms algorithms.json
# --algorithms, of every command that has it.
for command in "${run[*]}" "profile 1f1b --ranks 2 --microbatches 4 ${on_gpu[*]} -o costs.json" \
  "predict 1f1b --ranks 2 --microbatches 4 ${on_gpu[*]}" "${run[*]} --emit-sbatch"; do
  # shellcheck disable=SC2086
  expect_error 2 "bad.json:2:" "algoritm" $command --algorithms bad.json
  # shellcheck disable=SC2086
  expect_error 2 "algorithms.csv" ".json" $command --algorithms algorithms.csv
  # shellcheck disable=SC2086
  expect_exit 2 $command --algorithms .
done
# All else that a run reads or writes.
expect_error 2 "no-such-file.json" "No such file" run no-such-file.json "${on_gpu[@]}"
expect_error 2 "slip.json:1:1:" "a file without \"version\"" run slip.json "${on_gpu[@]}"
expect_error 2 "no-such-schedule" "" run no-such-schedule --ranks 2 --microbatches 4 "${on_gpu[@]}"
expect_error 2 "no-costs.json" "No such file" "${run[@]}" --costs no-costs.json
expect_error 2 "no-proof.json" "No such file" "${run[@]}" --certificate no-proof.json
expect_error 2 "--transformer cannot be read" "found depth=3" "${run[@]}" --transformer depth=3
expect_error 2 "--buffers" "some" "${run[@]}" --buffers some
for output in --trace --report --costs-out; do
  suffix=.json
  [ $output != --report ] || suffix=.html
  expect_error 1 "nowhere/out$suffix" "" "${run[@]}" $output "nowhere/out$suffix"
done
expect_error 2 "no-such-file.json" "No such file" profile no-such-file.json "${on_gpu[@]}" -o costs.json
expect_error 2 "no-such-schedule" "" predict no-such-schedule --ranks 2 --microbatches 4 "${on_gpu[@]}"
# On a CPU, too, nothing is run before a file that cannot be read.
expect_error 2 "slip.json:1:1:" "a file without \"version\"" predict 1f1b slip.json --ranks 2 --microbatches 4 --steps 100000

# Nor do costs that are missing hide a file that is.
for command in "checkpoint no-such-file.json --storage 1GB" "compare no-such-file.json program.json" \
  "sensitivity no-such-file.json" "simulate no-such-file.json"; do
  # shellcheck disable=SC2086
  expect_error 2 "no-such-file.json" "No such file" $command
done
expect_error 2 "slip.json:1:1:" "a file without \"version\"" checkpoint slip.json --storage 1GB
expect_error 2 "a checkpoint is that of a model" "--model" checkpoint program.json --storage 1GB
