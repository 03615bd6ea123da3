#!/usr/bin/env bash
# Where results go: files that cannot be written, closed pipes, colours, formats by suffix.
source "$(dirname "$0")/support/lib.sh"
small=(1f1b --ranks 2 --microbatches 3)

expect_exit 0 generate "${small[@]}" -o s.json
expect_exit 0 lower "${small[@]}" -o p.json
for target in gone/file .; do
  expect_error 1 "$target" "cannot write" generate "${small[@]}" -o $target
  expect_error 1 "$target" "cannot write" convert s.json $target
  expect_error 1 "$target" "cannot write" lower "${small[@]}" -o $target
  expect_error 1 "$target" "cannot write" verify p.json --certificate $target
  expect_error 1 "$target" "cannot write" simulate "${small[@]}" --unit F=1 --report $target
done
expect_error 1 "gone/t.json" "cannot write" simulate "${small[@]}" --unit F=1 --trace gone/t.json
expect_error 1 "gone/t.csv" "cannot write" run p.json --steps 1 --trace gone/t.csv
expect_error 1 "gone/c.json" "cannot write" run p.json --steps 1 --costs-out gone/c.json
# Before a run of hours, not after it; what fails later does not take the result along.
expect_error 1 "gone/r.html" "cannot write" run p.json --steps 1000000 --report gone/r.html
for option in --trace --costs-out; do
  expect_error 1 "gone/t.json" "cannot write" run p.json --steps 1000000 $option gone/t.json
done
expect_exit 2 run p.json --steps 1 --report new.html --certificate p.json
[ ! -e new.html ] || fail "asking has made a file"
ln -s /dev/full full.csv
expect_exit 1 run p.json --steps 1 --trace full.csv --costs-out costs.json
expect_err "No space left on device"
expect_out "measured step"
python3 -m json.tool costs.json >/dev/null || fail "a trace that cannot be written has lost the costs"
expect_exit 1 run p.json --steps 1 --trace full.csv --json
expect_json 'd["measured_step_ns"] > 0 and d["error"]["file"] == "full.csv"'
expect_error 1 "gone/c.json" "cannot write" profile "${small[@]}" --steps 100000 -o gone/c.json
ln -s /dev/full full.json
expect_exit 1 profile "${small[@]}" --steps 2 -o full.json
expect_err "No space left on device"
expect_out "lower quartile"
expect_exit 1 profile "${small[@]}" --steps 2 -o full.json --json
expect_json 'd["classes"] > 0 and d["error"]["file"] == "full.json"'
expect_exit 1 show "${small[@]}" --format svg -o gone/t.svg
expect_exit 1 generate "${small[@]}" -o /dev/full
expect_err "No space left on device"
for words in "generate ${small[*]} -o -" "list models" "show ${small[*]}" "verify p.json" "list models --json"; do
  found=0
  timeout $limit_s "$ppsim" $words >/dev/full 2>stderr || found=$?
  [ $found -eq 1 ] || fail "a full stdout: exit $found of $words"
  expect_err "-: cannot write"
done

# A reader that leaves early ends the program quietly.
: >stdout
for words in "generate gpipe --ranks 64 --microbatches 1024 -o -" "list models"; do
  found=0
  (timeout $limit_s "$ppsim" $words 2>stderr || echo $? >code) | head -n 1 >stdout
  [ -s stdout ] || fail "no first line"
  [ ! -s stderr ] || fail "a closed pipe is no news"
done

# Files are written before the result is printed: all of them stay on disk if printing fails.
exec {unread}> >(exec true)
wait $!
files_of() {
  local files=$1 found=0
  shift
  timeout $limit_s "$ppsim" "$@" >&$unread 2>stderr || found=$?
  [ $found -eq 141 ] || fail "a closed pipe: exit $found of $*"
  for file in $files; do [ -s "$file" ] || fail "no $file of $*"; done
}
for json in "" --json; do
  files_of "z.json z.html zc.json" run p.json --steps 1 --trace z.json --report z.html --costs-out zc.json $json
  files_of "z.json z.html" simulate p.json --unit F=1 --trace z.json --report z.html $json
  files_of z.html compare gpipe 1f1b --ranks 2 --microbatches 3 --unit F=1 --report z.html $json
  files_of z.cert verify p.json --certificate z.cert $json
  files_of zc.json profile "${small[@]}" --steps 2 -o zc.json $json
  files_of "zc.json z.jsonl" predict "${small[@]}" --steps 2 --costs-out zc.json --points z.jsonl $json
  rm z*.*
done
files_of z.svg show p.json -o z.svg --json
files_of zc.json generate terapipe --ranks 2 --microbatches 2 --slices 2 --unit F=1 --token-costs length=64,linear=1 \
  -o - --costs-out zc.json
files_of z.cert synthesize --ranks 2 --microbatches 2 --activation-limit 2 --unit F=1,B=2 -o - --certificate z.cert
exec {unread}>&-

# A file that may not be written stays, and nothing is left beside it.
echo keep >locked.json
chmod 444 locked.json
if [ ! -w locked.json ]; then
  expect_error 1 "locked.json" "Permission denied" generate "${small[@]}" -o locked.json
fi
[ -z "$(find . -name '*.tmp*')" ] || fail "a temporary file is left"

# A link is written through, not replaced.
echo old >target.json
ln -s target.json link.json
expect_exit 0 generate "${small[@]}" -o link.json
[ -L link.json ] || fail "the link was replaced"
cmp s.json target.json || fail "the link's target was not written"

# stdout belongs to the result.
expect_error 2 "--certificate" "stdout" verify p.json --certificate -
expect_error 2 "--report" "stdout" simulate p.json --unit F=1 --report -
expect_error 2 "--costs-out" "stdout" run p.json --costs-out -
# A wrong suffix is found before the work is done.
expect_error 2 "--trace" ".pftrace" run p.json --trace trace.txt
expect_error 2 "--trace" ".pftrace" simulate p.json --unit F=1 --trace -

# Written files have the right content.
expect_exit 0 simulate p.json --unit F=1,B=2,c=0.5 --trace t.csv --report r.html
head -n 1 t.csv >stdout && expect_out "rank,queue,index,instruction,start_ns,end_ns"
[ "$(wc -l <t.csv)" -eq 25 ] || fail "a line for each instruction: $(wc -l <t.csv)"
grep -q "</html>" r.html || fail "no HTML"
! grep -qE 'src="http|href="http' r.html || fail "the page is not self-contained"
expect_exit 0 simulate p.json --unit F=1 --trace t.json --json
python3 -m json.tool t.json >/dev/null || fail "the trace is no JSON"
expect_exit 0 simulate p.json --unit F=1 --trace t.pftrace
[ -s t.pftrace ] || fail "an empty trace"
expect_exit 0 show p.json --format svg -o t.svg
python3 -c 'import xml.dom.minidom as x; assert x.parse("t.svg").documentElement.tagName == "svg"' || fail "no SVG"
# With --json, too, which names it.
expect_exit 0 show p.json -o drawn.svg --json
expect_json 'list(d) == ["file", "rows"] and d["file"] == "drawn.svg"'
cmp t.svg drawn.svg || fail "another picture with --json"
expect_exit 0 show p.json -o drawn.txt --width 60 --json
expect_exit 0 show p.json --width 60
cmp stdout drawn.txt || fail "another text with --json"
expect_exit 0 show p.json --json
expect_json 'list(d) == ["rows"] and len(d["rows"]) == 2'
for format in text svg; do
  expect_exit 2 show p.json --format $format --json
  expect_json 'd["error"]["found"] == "--format '$format' --json" and "-o FILE" in d["error"]["expected"]'
done

# Colours only where somebody sees them.
for setting in NO_COLOR=1 TERM=dumb TERM=xterm; do
  env "$setting" timeout $limit_s "$ppsim" show p.json >stdout 2>stderr
  ! grep -q $'\033' stdout || fail "colours in a file ($setting)"
done
if script -qec true /dev/null >/dev/null 2>&1; then
  colours() { script -qec "env $1 '$ppsim' show p.json $2" /dev/null </dev/null | grep -c $'\033\[' || true; }
  [ "$(colours TERM=xterm '')" -gt 0 ] || fail "no colours on a terminal"
  [ "$(colours 'TERM=xterm NO_COLOR=1' '')" -eq 0 ] || fail "colours in spite of NO_COLOR"
  [ "$(colours TERM=dumb '')" -eq 0 ] || fail "colours in spite of TERM=dumb"
  [ "$(colours TERM=xterm --no-color)" -eq 0 ] || fail "colours in spite of --no-color"
  # A table of 84 columns fits 80 when it moves together, which it does for that alone.
  table() { script -qec "stty cols $1; '$ppsim' compare gpipe 1f1b --ranks 8 --microbatches 32 --unit F=1,B=2" /dev/null </dev/null | tr -d '\r'; }
  table 80 | grep -q '^schedule .* parameters p2p volume$' || fail "a table is broken that fits the terminal"
  table 120 | grep -q '^schedule .* parameters  p2p volume$' || fail "a table moved together in a wide terminal"
fi

# A link into a folder that is not there.
ln -s none/of/it.json dangling.json
ln -s none.json here.json
expect_exit 1 generate "${small[@]}" -o dangling.json
expect_err "; first mkdir -p none/of"
expect_exit 0 generate "${small[@]}" -o here.json
[ -f none.json ] || fail "a link to a file that is made"
