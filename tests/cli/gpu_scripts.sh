#!/usr/bin/env bash
# scripts/gpu_check and gpu_bench without a GPU.
source "$(dirname "$0")/support/lib.sh"
source "$support/gpu_scripts.sh"
before=$(ls "$scripts/../studies")

# Without a GPU: the same measurement, small, and nothing is left of it.
without_device
script 3 gpu_bench
expect_out "not measured: no GPU"

# A rehearsal names what it rehearses and what it does not, and a failure in it is a failure.
script 3 gpu_check
expect_out "not rehearsed: facts, processes: no served_gpu is beside the programs in $PWD/none"
expect_out "not rehearsed: strict fake, unit: no ppsim_tests_unit is beside the programs in $PWD/none"
expect_out "not rehearsed: strict fake, cross: no ppsim_tests_cross is beside the programs in $PWD/none"
expect_out "rehearsed: gradients on the CPU: 5 equal, 1 refused, 0 wrong"
for mode in streamed updates; do
  expect_out "bits: float32, $mode: equal in 7 schedules, and in 2 with slices"
done
expect_out "not measured: no GPU: not here: a test"
mkdir tests
printf '#!/bin/sh\ncase $1 in *StrictFake*) echo "[  PASSED  ] 7 tests." ;; esac\n' >tests/ppsim_tests_unit
printf '#!/bin/sh\necho "[  PASSED  ] 0 tests."\necho "[  FAILED  ] 1 test."\nexit 1\n' >tests/ppsim_tests_cross
chmod +x tests/*
script 1 gpu_check --only kernels
expect_out "rehearsed: strict fake, unit: [  PASSED  ] 7 tests."
expect_out "rehearsed: strict fake, cross: FAILED"
expect_err "[  FAILED  ] 1 test."
unset PPSIM_BIN
rm -r tests
[ "$(ls "$scripts/../studies")" = "$before" ] || fail "something was written under studies"

# A program that does not start is not a machine without a GPU.
mkdir broken
printf '#!/bin/sh\necho "libz3.so.4: no such file" >&2\nexit 127\n' >broken/ppsim
chmod +x broken/ppsim
PPSIM_BIN=$PWD/broken script 1 gpu_check
expect_err "does not run here: exit 127: libz3.so.4: no such file"
