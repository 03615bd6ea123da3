#!/usr/bin/env bash
# The suffix of a file says its format; another format, or none that is known, is refused before any work is done.
source "$(dirname "$0")/support/lib.sh"
small=(1f1b --ranks 2 --microbatches 3)
bad() { expect_error 2 "$@"; }

expect_exit 0 generate "${small[@]}" -o s.json
expect_exit 0 lower "${small[@]}" -o p.json
# is_svg FILE, is_json FILE, is_csv FILE.
is_svg() { python3 -c 'import sys, xml.dom.minidom as x; assert x.parse(sys.argv[1]).documentElement.tagName == "svg"' "$1" || fail "$1 is no SVG"; }
is_json() { python3 -m json.tool "$1" >/dev/null || fail "$1 is no JSON"; }
is_csv() { grep -q '^0F0,' "$1" || fail "$1 is no CSV"; }

# show
expect_exit 0 show "${small[@]}" -o t.svg
is_svg t.svg
expect_exit 0 show "${small[@]}" -o T.SVG
is_svg T.SVG
expect_exit 0 show "${small[@]}" --format svg -o plain
is_svg plain
expect_exit 0 show "${small[@]}" --format svg
cp stdout piped.svg
is_svg piped.svg
for file in t.txt t; do
  expect_exit 0 show "${small[@]}" -o $file
  grep -q "^rank 0 " $file || fail "$file is no text"
done
for file in t.png t.html t.json t.svgz; do bad "--output" ".txt, .svg or .pdf" show "${small[@]}" -o $file; done
bad "--format" "--format text -o new.svg" show "${small[@]}" --format text -o new.svg
bad "--format" "ends in .svg" show "${small[@]}" --format svg -o new.txt

# Schedules and programs.
expect_exit 0 generate "${small[@]}" -o S.CSV
is_csv S.CSV
expect_exit 0 convert S.CSV back.Json
is_json back.Json
expect_exit 0 lower "${small[@]}" -o program
is_json program
for command in "generate ${small[*]} -o" "lower ${small[*]} -o" "convert s.json" \
  "synthesize --ranks 2 --microbatches 2 --activation-limit 2 --unit F=1 -o"; do
  for file in new.yaml new.svg new.csv.gz; do bad "$file" "ends in .json or .csv" $command $file; done
done

# Beside a result.
for file in new.pdf new.svg new.json; do
  bad "--report" "ends in .html or .htm" simulate p.json --unit F=1 --report $file
  bad "--report" "ends in .html or .htm" compare "${small[@]}" gpipe --unit F=1 --report $file
  bad "--report" "ends in .html or .htm" run p.json --report $file
done
expect_exit 0 simulate p.json --unit F=1 --report R.HTML --trace T.CSV
grep -q "</html>" R.HTML || fail "no HTML"
head -n 1 T.CSV >stdout && expect_out "rank,queue,index"
for file in new.txt new; do bad "--trace" "ends in .csv, .json or .pftrace" simulate p.json --unit F=1 --trace $file; done
bad "--certificate" "ends in .json or .cert" verify p.json --certificate new.csv
bad "--repair" "ends in .json or .csv" verify p.json --repair new.svg
bad "--costs-out" "ends in .json" run p.json --costs-out new.csv
bad "--output" "ends in .json" profile "${small[@]}" -o new.csv
bad "--points" "ends in .jsonl or .json" predict "${small[@]}" --points new.csv
[ -z "$(find . -name 'new*')" ] || fail "a refused file was written"

# Outputs that are not files need no suffix.
for target in - /dev/stdout /dev/null; do
  expect_exit 0 show "${small[@]}" -o $target
  expect_exit 0 generate "${small[@]}" -o $target
done
expect_exit 0 simulate p.json --unit F=1 --report /dev/null
expect_exit 0 verify p.json --certificate /dev/null

# A file that is called like a schedule is not taken for it: it needs a path or a suffix.
printf '0F0,0B0\n' >gpipe
mkdir 1f1b
expect_exit 0 simulate gpipe --ranks 2 --microbatches 4 --unit F=1 --json
expect_json 'len(d["per_rank"]) == 2'
expect_exit 0 simulate gpipe:ranks=2,microbatches=4 --unit F=1
expect_exit 0 simulate ./gpipe --unit F=1 --json
expect_json 'len(d["per_rank"]) == 1'
expect_exit 0 verify 1f1b --ranks 2 --microbatches 4
printf '0F0,0B0\n' >mine
expect_exit 0 simulate mine --unit F=1

# Empty lines at the end of a file, which editors leave, are no ranks.
printf '0F0,0B0\r\n1F0,1B0\r\n\r\n\r\n' >blank.csv
expect_exit 0 simulate blank.csv --unit F=1,B=2 --json
expect_json 'len(d["per_rank"]) == 2'
printf '0F0,0B0\r' >cut.csv
expect_exit 0 simulate cut.csv --unit F=1
