#!/usr/bin/env bash
# A job of two hosts to its end, without a GPU: the script of --emit-sbatch, in two network namespaces that have an address, a
# name and a /dev/shm each, with the strict fake in place of CUDA and NCCL. It is skipped where nobody may make such namespaces.
source "$(dirname "$0")/support/lib.sh"
served=${PPSIM_SERVED:?the folder of served_gpu, which ctest sets}
two_hosts=$support/../../served_gpu/two_hosts
job=(--ranks 4 --microbatches 8 --backend cuda --arithmetic integer --steps 2 --compare --json
  --transformer "hidden=8,heads=2,ffn=8,vocab=8,sequence=4")

# on_hosts CODE COMMAND...: as a batch script, with two devices on each host.
on_hosts() {
  local expected=$1 found=0
  shift
  PATH=$served:$PATH timeout "$limit_s" "$two_hosts" "$served/served_gpu" --devices 2 "$@" >stdout 2>stderr || found=$?
  if [ "$found" -eq 77 ]; then
    cat stderr >&2
    exit 77
  fi
  [ "$found" -eq "$expected" ] || fail "exit $found, expected $expected: $*"
}

# The gradients are those of the reference, and of one process on a CPU.
for graphs in "" --graphs; do
  "$ppsim" run chimera --with reduce-grad,opt,clip "${job[@]}" $graphs --ranks-per-node 2 --emit-sbatch 2>stderr |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["script"])' >job.sh
  on_hosts 0 sbatch job.sh
  expect_json 'd["gradients_equal"] and d["verified"] and len(d["processes"]) == 4'
  expect_err "calls of 4 processes in 1 jobs, on up to 2 hosts; nothing is held against them"
done

# A container for each process, as the page on DGX starts them, gets what it needs of the job: `docker` keeps of the environment
# what is passed on by name.
mkdir path
cat >path/docker <<'END'
#!/usr/bin/env bash
[ "$1" = run ] || exit 125
shift
kept=()
while [[ $1 == -* ]]; do
  case $1 in
    -e) [ -z "${!2+x}" ] || kept+=("$2=${!2}") ;;&
    -e | -v | --gpus | --ulimit) shift ;;
    --rm | --network=host | --ipc=host | --pid=host) ;;
    *) exit 125 ;;
  esac
  shift
done
exec env -i PATH="$PATH" PPSIM_SERVED_GPU="$PPSIM_SERVED_GPU" "${kept[@]}" "$@"
END
chmod +x path/docker
sed -n '/^ppsim run zb-v .*in-docker/,/^sbatch job.sh$/p' "$support/../../../docs/dgx.md" >page
sed -i "s|^ppsim run .*--emit-sbatch|$ppsim run 1f1b ${job[*]} --ranks-per-node 2 --emit-sbatch|; /^sbatch/d" page
sed -i 's| --json| |; s| > job.sh$| >job.sh|' page
[ "$(wc -l <page)" -ge 8 ] || fail "the page has no containers on several hosts"
bash -e page 2>stderr || fail "the commands of the page"
PATH=$PWD/path:$PATH on_hosts 0 sbatch job.sh
expect_out "gradients equal the unpipelined reference bit by bit"
expect_err "calls of 4 processes in 1 jobs, on up to 2 hosts; nothing is held against them"

# A command is wrapped as a script is, and the hosts share no /tmp.
on_hosts 0 sbatch --nodes=2 --gpus-per-node=2 --ntasks-per-node=2 --time=00:20:00 --wrap \
  'touch /tmp/of-the-batch-host-$$; srun sh -c "ls /tmp/of-the-batch-host-$$ 2>/dev/null; hostname"; rm /tmp/of-the-batch-host-$$'
[ "$(sort stdout | uniq -c | xargs)" = "2 host-0 2 host-1" ] || fail "not two processes on each host with a /tmp of its own"

# Copies do not leave a host, and say so before the first step; nothing is left open.
srun=(srun --nodes=2 --ntasks=4 --ntasks-per-node=2 --gpus-per-node=2 --kill-on-bad-exit=1)
on_hosts 1 "${srun[@]}" ppsim run 1f1b "${job[@]}" --transport copy
expect_err "copies need all processes on one host with one /dev/shm"
expect_err "nothing is held against them"

# A process of the other host that dies in a step is named, and all end.
on_hosts 137 "${srun[@]}" bash -c 'if [ "$SLURM_PROCID" = 3 ]; then export PPSIM_SERVED_INSTEAD="cuEventRecordWithFlags 40 dies"; fi; exec "$@"' - \
  ppsim run 1f1b "${job[@]}"
expect_err "process 3"
expect_err "nothing is held against them"
