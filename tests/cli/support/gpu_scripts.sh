# Helpers of tests/cli/gpu_*.sh, which run scripts/gpu_check and gpu_bench.
scripts=$(cd "$data/../../scripts" && pwd)

# script CODE NAME ARGUMENTS...: runs one of the scripts with the programs of $PPSIM_BIN.
script() {
  local expected=$1 found=0
  shift
  timeout "$limit_s" "$scripts/$1" "${@:2}" >stdout 2>stderr || found=$?
  [ "$found" -eq "$expected" ] || fail "exit $found, expected $expected: $*"
}

# with_device: the programs are stand-ins that answer for a device.
with_device() { export PPSIM_BIN=$support/device PPSIM_ON_CPU=$ppsim; }
