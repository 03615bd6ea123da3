#!/usr/bin/env bash
# --emit-sbatch: a script that bash reads, letter by letter the expected one.
source "$(dirname "$0")/support/lib.sh"

expect_exit 0 run 1f1b --ranks 16 --microbatches 32 --steps 5 --transformer "layers=16,hidden=64" --trace "it's a.csv" --emit-sbatch
cp stdout job.sh
bash -n job.sh || fail "bash does not read it"
cat >expected <<'SCRIPT'
#!/usr/bin/env bash
#SBATCH --job-name=ppsim-1f1b
#SBATCH --nodes=2
#SBATCH --ntasks=16
#SBATCH --ntasks-per-node=8
#SBATCH --output=%x-%j.out
#SBATCH --time=00:30:00
set -euo pipefail

# Where the processes meet.
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)
MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))
export MASTER_ADDR MASTER_PORT

# The first process that fails ends all.
srun --kill-on-bad-exit=1 --mpi=pmix ppsim run 1f1b --ranks 16 --microbatches 32 --steps 5 --transformer layers=16,hidden=64 --trace 'it'\''s a.csv' --transport mpi
SCRIPT
diff expected job.sh >&2 || fail "another script"

# The script runs the given command: stand-ins for srun and ppsim print its words.
mkdir bin
printf '#!/usr/bin/env bash\nwhile [[ $1 == -* ]]; do shift; done\nexec "$@"\n' >bin/srun
printf '#!/usr/bin/env bash\nprintf "%%s\\n" "${CUDA_DEVICE_MAX_CONNECTIONS:-}" "${MASTER_ADDR:-}:${MASTER_PORT:-}" "$@"\n' >bin/ppsim
printf '#!/usr/bin/env bash\nprintf "node1\\nnode2\\n"\n' >bin/scontrol
chmod +x bin/*
PATH="$PWD/bin:$PATH" SLURM_JOB_NODELIST="node[1-2]" SLURM_JOB_ID=20005 bash job.sh >words
printf '%s\n' "" node1:20005 run 1f1b --ranks 16 --microbatches 32 --steps 5 --transformer layers=16,hidden=64 --trace "it's a.csv" \
  --transport mpi >expected
diff expected words >&2 || fail "other words"

# A process for each GPU, which finds set what CUDA and NCCL read when they start, and where all meet.
expect_exit 0 run 1f1b --ranks 4 --microbatches 8 --backend cuda --emit-sbatch
cp stdout job.sh
bash -n job.sh || fail "bash does not read it"
for line in "#SBATCH --nodes=1" "#SBATCH --ntasks=4" "#SBATCH --gpus-per-node=4" "export CUDA_DEVICE_MAX_CONNECTIONS=32"; do
  grep -qxF -- "$line" job.sh || fail "no $line"
done
grep -q MODULE_LOADING job.sh && fail "the warm-up loads the kernels that a step launches, and no others"
PATH="$PWD/bin:$PATH" SLURM_JOB_NODELIST=node1 SLURM_JOB_ID=20005 bash job.sh >words
printf '%s\n' 32 node1:20005 run 1f1b --ranks 4 --microbatches 8 --backend cuda >expected
diff expected words >&2 || fail "other words"
expect_exit 0 run 1f1b --ranks 16 --microbatches 16 --backend cuda --emit-sbatch
expect_out "#SBATCH --nodes=2"

# Copy engines join the ranks of one process.
expect_exit 0 run 1f1b --ranks 4 --microbatches 8 --backend cuda --transport copy --emit-sbatch
cp stdout job.sh
for line in "#SBATCH --ntasks=1" "#SBATCH --gpus-per-node=4"; do
  grep -qxF -- "$line" job.sh || fail "no $line"
done
PATH="$PWD/bin:$PATH" bash job.sh >words
printf '%s\n' 32 : run 1f1b --ranks 4 --microbatches 8 --backend cuda --transport copy >expected
diff expected words >&2 || fail "other words"

expect_error 2 "spread evenly" "6 ranks, 4 on a node" run 1f1b --ranks 6 --microbatches 8 --ranks-per-node 4 --emit-sbatch
expect_error 2 "copies join the ranks of one node" "16 ranks, 8 on a node" \
  run 1f1b --ranks 16 --microbatches 16 --backend cuda --transport copy --emit-sbatch

# Several ranks on a GPU need fewer of them.
expect_exit 0 run 1f1b --ranks 4 --microbatches 8 --backend cuda --ranks-per-device 2 --emit-sbatch
expect_out "#SBATCH --gpus-per-node=2"

# Options of the script are not passed to the command in it, in either spelling.
for spread in "--ranks-per-node 2" "--ranks-per-node=2"; do
  expect_exit 0 run 1f1b --ranks 4 --microbatches 8 $spread --steps 5 --emit-sbatch=true
  expect_out "#SBATCH --nodes=2"
  grep -qx "srun .* ppsim run 1f1b --ranks 4 --microbatches 8 --steps 5 --transport mpi" stdout || fail "another command"
done
expect_exit 0 run 1f1b --ranks 4 --microbatches 8 --transport=mpi --emit-sbatch
grep -qx "srun .* ppsim run 1f1b --ranks 4 --microbatches 8 --transport=mpi" stdout || fail "another command"

# A script that could not run is not written.
expect_exit 0 lower 1f1b --ranks 4 --microbatches 8 -o program.json
run=(run program.json --emit-sbatch)
expect_error 2 "a process for each rank" "found --transport inproc" "${run[@]}" --transport inproc
expect_error 2 "no standard input" "found the input -" run - --emit-sbatch <program.json
expect_error 2 "no standard input" "found --costs -" "${run[@]}" --costs -
expect_error 2 "no standard input" "found --certificate -" "${run[@]}" --certificate -
expect_error 2 "no-proof.json" "No such file" "${run[@]}" --certificate no-proof.json
expect_error 2 "--transformer cannot be read" "found depth=3" "${run[@]}" --transformer depth=3
expect_error 2 "--buffers" "some" "${run[@]}" --buffers some
expect_error 2 "on a GPU only" "found a CPU" "${run[@]}" --arithmetic bf16
expect_error 2 "no kernels for a GPU" "another --arithmetic" "${run[@]}" --arithmetic float64 --backend cuda
expect_error 2 "one rank on a device" "found --ranks-per-device 2" "${run[@]}" --backend cuda --transport nccl --ranks-per-device 2
