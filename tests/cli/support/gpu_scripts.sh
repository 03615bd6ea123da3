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

# without_device: the program is one that finds no GPU and lists three schedules.
without_device() {
  mkdir none
  cat >none/ppsim <<END
#!/bin/sh
case "\$1 \$2 \$3" in
  "doctor --json ") echo '{"checks": [{"check": "backend cuda", "detail": "not here: a test"}]}' ;;
  "list schedules --json") echo '{"schedules": [{"name": "1f1b"}, {"name": "pipedream"}, {"name": "vocab-1"}]}' ;;
  *) exec "$ppsim" "\$@" ;;
esac
END
  chmod +x none/ppsim
  export PPSIM_BIN=$PWD/none
}
