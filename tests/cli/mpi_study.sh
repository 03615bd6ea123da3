#!/usr/bin/env bash
# study run by mpirun: the rows of one process, on one machine and on several, also where one process is killed.
source "$(dirname "$0")/support/lib.sh"
source "$support/mpi.sh"
cat >study.json <<'EOF'
{
  "base": {"model": "llama3-8b:layers=8,sequence=2048", "cluster": "dgx-h100", "nodes": 1, "global_batch_size": 16},
  "axes": {"tp": [1, 2, 3], "pp": [1, 2, 4], "schedule": ["1f1b", "zb-v", "gpipe"], "microbatch_size": [1, 2],
           "recompute": ["none", "selective", "full", "minimal"]}
}
EOF
rows() { python3 -c 'import sqlite3, sys
for row in sqlite3.connect(sys.argv[1]).execute("SELECT * FROM points ORDER BY key"): print(row)' "$1"; }
mpi() { timeout $limit_s mpirun --oversubscribe -np 4 "$@" >stdout 2>stderr; }
expect_exit 0 study run study.json
rows study.json.sqlite >whole

# On one machine they share the store; one object, from process 0.
mpi "$ppsim" study run study.json --store shared.sqlite --json || fail "four processes of mpirun"
expect_json 'd["missing"] == 0 and 0 < d["evaluated"] < d["points"]'
rows shared.sqlite | cmp - whole || fail "four processes of mpirun have other rows"

# One of them is killed while it has points; --enable-recovery lets mpirun leave the others alone.
cat >one_dies.sh <<'EOF'
[ "$OMPI_COMM_WORLD_RANK" != 2 ] || { "$@" & sleep 0.1; kill -KILL $!; kill -KILL $$; }
exec "$@"
EOF
mpi --enable-recovery bash one_dies.sh "$ppsim" study run study.json --store three.sqlite --jobs 1 || true
rows three.sqlite | cmp - whole || fail "the others did not finish when one was killed"

# On several machines they have no store in common, and tell each other. Folders stand for machines.
cat >elsewhere.sh <<'EOF'
export OMPI_COMM_WORLD_LOCAL_SIZE=1
mkdir -p "machine$OMPI_COMM_WORLD_RANK" && cd "machine$OMPI_COMM_WORLD_RANK" && exec "$@"
EOF
mpi bash elsewhere.sh "$ppsim" study run ../study.json --store own.sqlite --jobs 1 --json || fail "four machines"
expect_json 'd["missing"] == 0 and 0 < d["evaluated"] < d["points"]'
rows machine0/own.sqlite | cmp - whole || fail "four machines have other rows"
[ ! -e machine1/own.sqlite ] || fail "a store beside that of the first process"
mpi bash elsewhere.sh "$ppsim" study run ../study.json --store own.sqlite --json || fail "again"
expect_json 'd["evaluated"] == 0'
! mpi bash elsewhere.sh "$ppsim" study run ../none.json || fail "a study that is not there"
expect_err "none.json"
