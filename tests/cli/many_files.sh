#!/usr/bin/env bash
# `verify` of a folder, and of several files, under several communicator policies: one table, and no file stops another.
source "$(dirname "$0")/support/lib.sh"

mkdir files
cp "$data/deferred_receives.csv" files/b.csv
printf '0F0,0B0\n1F0,1B0\n' >files/a.csv
echo "not a schedule" >files/notes.txt

expect_exit 4 verify files --communicators per-rank,per-edge
grep -qE '^files/a.csv +per-rank +proved$' stdout || fail "a.csv is proved"
grep -qE '^files/b.csv +per-rank +refuted +deadlock_free$' stdout || fail "b.csv is refuted"
grep -qE '^files/b.csv +per-edge +proved$' stdout || fail "b.csv is proved per edge"
expect_out "3 proved"
expect_out "1 refuted"
[ "$(grep -c '^files' stdout)" -eq 4 ] || fail "two files under two policies"

expect_exit 4 verify files --communicators all --json
expect_json '[(r["file"], r["communicators"], r["verdict"]) for r in d["results"][4:]] == [("files/b.csv", p, v) for p, v in (("per-rank", "refuted"), ("per-pair", "refuted"), ("per-edge", "proved"), ("per-stage-edge", "proved"))]'
expect_json 'd["counts"] == {"proved": 6, "error": 0, "refuted": 2, "does not fit": 0, "unknown": 0}'
expect_json 'len(d["results"][4]["properties"]["deadlock_free"]["counterexample"]["cycle"]) == 4'

# Numbers of ranks are those of a NAME beside files, and a folder that has none is an error in its row.
expect_exit 0 verify files/a.csv 1f1b --ranks 2 --microbatches 3
expect_error 2 "are for a NAME, this is a file" "" verify files/a.csv --ranks 2 --microbatches 3
mkdir bare
expect_exit 2 verify files/a.csv bare
grep -qE '^bare +- +error +bare: a folder without schedules' stdout || fail "the folder has a row"
expect_out "1 proved"
expect_exit 2 verify files/a.csv bare --ranks 2 --microbatches 3
expect_out "are for a NAME, this is a file"

# Without --communicators each file has the usual ones. Files and names can stand side by side.
expect_exit 0 verify files/a.csv files/b.csv 1f1b:ranks=2,microbatches=3
expect_out "3 proved"
grep -qE '^files/a.csv +per-edge +proved$' stdout || fail "the policy that was assumed"
expect_exit 0 lower 1f1b --ranks 2 --microbatches 3 -o native.json
expect_exit 0 verify native.json files/a.csv
grep -qE '^native.json +of the file +proved$' stdout || fail "a Program has its own communicators"

# One file or name: the policy that was assumed is said, and several give a table.
expect_exit 0 verify files/b.csv
expect_out "with communicators per-edge, the default (--communicators)"
expect_exit 0 verify files/b.csv --json
expect_json 'd["communicators"] == "per-edge" and d["preparation_seconds"] > 0'
expect_exit 4 verify files/b.csv --communicators per-rank
expect_out "with communicators per-rank"
expect_exit 0 verify native.json --json
expect_json '"communicators" not in d'
expect_exit 4 verify files/b.csv --communicators all
grep -qE '^files/b.csv +per-pair +refuted +deadlock_free$' stdout || fail "each policy of one file"
expect_exit 0 verify 1f1b --ranks 2 --microbatches 3 --communicators per-rank,per-edge
expect_out "2 proved"
expect_error 2 "under one policy" "found --communicators all" verify files/b.csv --communicators all --certificate proof.json

# A file that cannot be read is a separate error, and comes before refuted ones.
printf '0F0,0FOO\n' >files/broken.csv
expect_exit 2 verify files --communicators per-rank
expect_out "files/broken.csv:1:2: not an action"
expect_out "1 refuted"
expect_exit 2 verify files files/absent.csv --communicators per-rank --json
expect_json '[r["error"]["file"] for r in d["results"] if r["verdict"] == "error"] == ["files/broken.csv", "files/absent.csv"]'
expect_json 'd["counts"]["refuted"] == 1'

# So is a path with the name of a file that cannot be read: a dangling link, and a folder.
mkdir odd odd/dir.csv && cp files/a.csv odd && ln -s nowhere odd/link.csv && mkfifo odd/pipe.csv
expect_exit 2 verify odd --json
expect_json '[(r["file"], r["verdict"]) for r in d["results"]] == [("odd/a.csv", "proved"), ("odd/dir.csv", "error"), ("odd/link.csv", "error")]'

# A schedule that does not fit comes after a refuted one.
expect_exit 3 verify files/a.csv files/a.csv --unit F=1,B=2,A=1e9 --memory-limit 1kB
expect_out "does not fit"
expect_exit 4 verify files/a.csv files/b.csv --communicators per-rank --unit F=1,B=2,A=1e9 --memory-limit 1kB

mkdir empty
expect_error 2 "a folder without schedules" "empty" verify empty
expect_error 2 "unknown --communicators" "per-planet" verify files --communicators per-planet
expect_error 2 "unknown --communicators" "expected one of per-rank" verify files --communicators per-rank,,per-edge
expect_error 2 "are for one input" "2 inputs" verify files files/a.csv --certificate proof.json
