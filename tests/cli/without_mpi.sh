#!/usr/bin/env bash
# The program by itself, as it is where MPI is not installed: it starts, and says what brings MPI.
source "$(dirname "$0")/support/lib.sh"

mkdir bin
cp "$ppsim" bin/ppsim
! ldd bin/ppsim | grep -i libmpi || fail "the program is linked with MPI"
ppsim=$work/bin/ppsim
expect_exit 0 --version
expect_out "mpi: not installed"
expect_exit 0 doctor
expect_out "transport mpi: not here: the package ppsim-mpi brings it"
expect_exit 0 run 1f1b --ranks 2 --microbatches 4
expect_error 2 "the transport mpi needs ppsim_mpi.so" "the package ppsim-mpi" run 1f1b --ranks 2 --microbatches 4 --transport mpi

# A library that is another one.
touch empty.so
PPSIM_MPI_MODULE=./empty.so expect_error 2 "empty.so: file too short" "PPSIM_MPI_MODULE" run 1f1b --ranks 2 --microbatches 4 --transport mpi
