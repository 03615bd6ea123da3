#!/usr/bin/env bash
# Rules for every option of every subcommand: it needs a value, its name must be known, outputs overwrite no input.
source "$(dirname "$0")/support/lib.sh"
small=(1f1b --ranks 2 --microbatches 3)
bad() { expect_error 2 "$@"; }

# An unset variable is not an option that was not given. All options of all subcommands, as --help-all lists them.
empty_values() {
  local command=$1
  shift
  expect_exit 0 "$command" --help-all
  grep -oE '^ +(-[a-z],)?--[a-z0-9-]+ [A-Z{]' stdout | grep -oE -- '--[a-z0-9-]+' >options
  [ "$(wc -l <options)" -ge 1 ] || fail "$command has no options"
  while read -r option; do
    expect_exit 2 "$command" "$@" "$option" ""
    expect_err "$option"
  done <options
}
expect_exit 0 lower "${small[@]}" -o p.json
expect_exit 0 verify p.json --certificate p.cert
empty_values list schedules
empty_values generate 1f1b
empty_values convert p.json new.csv
empty_values lower 1f1b
for command in show simulate compare verify run predict; do empty_values $command p.json; done
empty_values check-certificate p.json p.cert
empty_values synthesize
empty_values profile
bad "--memory-limit has no value" 'found ""' verify "${small[@]}" --unit F=1,A=1 --memory-limit ""
bad "INPUT has no value" 'found ""' verify ""
bad "INPUTS has no value" 'found ""' compare gpipe "" --unit F=1
bad "--memory-limit has no value" "found " verify p.json --unit F=1,A=1 --memory-limit=
# Nor is the next option a value.
bad "--certificate has no value" "found --unit" verify p.json --certificate --unit F=1
expect_exit 2 verify p.json --certificate --json
expect_json 'd["error"]["found"] == "--json"'

# A name that is not known.
bad "unknown option --rank " 'did you mean "--ranks"' simulate 1f1b --rank 4
expect_json 'd["error"]["found"] == "--rank"'
bad "unknown option --rank " 'did you mean "--ranks"' verify --rank=4 1f1b
bad "unknown option --outptu " 'did you mean "--output"' generate "${small[@]}" --outptu x.json
bad "one argument too many" "found gpipe" show 1f1b gpipe
bad "no parameter \"rank\" (did you mean \"ranks\"?)" "found rank=4" simulate 1f1b:rank=4 --unit F=1
bad "no parameter \"chunk\" (did you mean \"chunks\"?)" "found chunk=2" generate interleaved-1f1b --set chunk=2 -o x.json

# A NAME and an option that say something else.
bad "ranks is given twice" "found 4 in the name, --ranks 8" simulate 1f1b:ranks=4,microbatches=8 --ranks 8 --unit F=1
bad "microbatches is given twice" "found 8 in" verify 1f1b:ranks=4,microbatches=8 --microbatches 4
bad "chunks is given twice" "--chunks 3" show interleaved-1f1b:chunks=2 --ranks 2 --microbatches 4 --chunks 3
bad "group is given twice" "--set group=4" show interleaved-1f1b:group=2 --ranks 2 --microbatches 4 --set group=4
bad "graph is given twice" "found --set graph=chain and --set graph=skip" show gpipe --ranks 4 --microbatches 4 --set graph=chain \
  --set graph=skip
expect_exit 0 show gpipe --ranks 4 --microbatches 4 --set graph=skip --set graph=skip
bad "layers is given twice" "found layers=2 and layers=8 of --transformer" run "${small[@]}" --transformer layers=2,hidden=64,layers=8
expect_exit 0 run "${small[@]}" --steps 1 --transformer layers=2,layers=2
for key in ranks microbatches chunks slices; do
  bad "--set is for what only some" "found --set $key=4,microbatches=2, expected --$key" show gpipe --set $key=4,microbatches=2
done
expect_exit 0 show 1f1b:ranks=2 --ranks 2 --microbatches 3
bad "for a NAME" "found 1f1b:microbatches=4" verify 1f1b:microbatches=4 --ranks 2 --all-microbatches
expect_exit 0 verify 1f1b:ranks=2 --all-microbatches --json
expect_json '"all_microbatches" in d'

# Messages about numbers name the quantity and its range.
bad "--ranks" "a whole number from 1 to 2147483647" generate 1f1b --ranks 1e3 --microbatches 4 -o x.json
expect_json 'd["error"]["found"] == "1e3" and d["error"]["expected"].startswith("a whole number")'
for number in 2147483648 0x10 010 +4 4.0 ""; do
  bad "--microbatches" "" generate 1f1b --ranks 4 --microbatches "$number" -o x.json
done
bad "--nodes" "found x, expected a whole number" simulate 1f1b --unit F=1 --nodes x
bad "a unit cost is not a number" "in milliseconds" simulate "${small[@]}" --unit F=1ms
bad "a unit cost is not a number" "in bytes" simulate "${small[@]}" --unit F=1,A=80GB
bad "layers is out of range" "expected 1 to 16777216" simulate 1f1b --model llama3-70b:layers=0 --cluster dgx-h100
printf '0F0,0F1,0BW0,0BW1\n' >legacy.csv
bad "legacy.csv:1:3" "--dialect legacy" verify legacy.csv
expect_exit 0 verify legacy.csv --dialect legacy
printf '0F0,0X0\n' >none.csv
expect_exit 2 verify none.csv
! grep -q "legacy" stderr || fail "no alphabet has 0X0"

# No output overwrites an input.
expect_exit 0 generate "${small[@]}" -o s.json
printf '{"entries":[]}' >c.json
ln -s p.json link.json
cp p.json kept.json
cp s.json kept-s.json
bad "--certificate would overwrite" "p.json" verify p.json --certificate p.json
bad "--repair would overwrite" "link.json" verify p.json --repair link.json
bad "--trace would overwrite" "./s.json" simulate s.json --unit F=1 --trace ./s.json
bad "OUT would overwrite what IN names" "s.json" convert s.json s.json
bad "--output would overwrite" "p.json" lower p.json -o p.json
bad "--costs-out would overwrite what --costs names" "c.json" run p.json --costs c.json --costs-out c.json
# Nor of another output, which need not be there yet.
ln -s later.json dangling.json
ln -s "$work" folder
for other in once.json ./once.json folder/once.json "$work/once.json"; do
  bad "--output would overwrite what --costs-out names" "once.json" generate terapipe --ranks 4 --microbatches 1 \
    --unit F=1 --token-costs length=1024,linear=0.001 -o once.json --costs-out $other
  bad "would overwrite what" "once.json" run p.json --trace once.json --costs-out $other
done
bad "would overwrite what" "dangling.json" run p.json --trace dangling.json --costs-out later.json
bad "would overwrite what" "later.json" run p.json --trace later.json --costs-out dangling.json
[ ! -e once.json ] && [ ! -e later.json ] || fail "one of two outputs was written"
expect_exit 0 simulate p.json --unit F=1 --trace dangling.json --report other.html
[ -s later.json ] && [ -s other.html ] || fail "two outputs to two files"
cmp p.json kept.json || fail "an input was overwritten"
cmp s.json kept-s.json || fail "an input was overwritten"
[ ! -e x.json ] && [ ! -e new.csv ] || fail "a bad command line wrote a file"

# Help is a result, too; what cannot be written is said once.
for words in --help "show --help" "show --help-all" "help show" "completion zsh" man --version; do
  found=0
  timeout $limit_s "$ppsim" $words >/dev/full 2>stderr || found=$?
  [ $found -eq 1 ] || fail "a full stdout: exit $found of $words"
done
for words in "generate ${small[*]} -o -" "show ${small[*]}"; do
  found=0
  timeout $limit_s "$ppsim" $words >&- 2>stderr || found=$?
  [ $found -eq 1 ] && [ "$(wc -l <stderr)" -eq 1 ] || fail "no stdout: exit $found of $words"
done

# A number that is too large, and fields of a model that are given twice.
bad "bad value for --activation-limit" "found 99999999999, expected a number with fewer digits" synthesize --ranks 2 --microbatches 2 \
  --activation-limit 99999999999
bad "--transformer: vocab is no number that it can be" "found vocab=99999999999999999999, expected a whole number of at most" \
  run 1f1b --ranks 2 --microbatches 2 --transformer vocab=99999999999999999999
of_model=(--cluster dgx-h100 --nodes 1 --pp 4 --tp 2 --global-batch-size 16)
bad "model field layers is given twice, and differs" "found 42 and 43" simulate 1f1b --model llama3-8b:layers=42,layers=43 "${of_model[@]}"
expect_exit 0 simulate 1f1b --model llama3-8b:layers=44,hidden=4096,layers=44 "${of_model[@]}"

# Options that a form of the timeline does not have are refused.
unused() { bad "$2 is for $1" "found $2 with $3" show 1f1b --ranks 2 --microbatches 4 "${@:4}"; }
unused "svg" --font text --font Times
unused "svg" --font pdf -o x.pdf --font Times
unused "svg and pdf" --title text --title Mine
unused "svg and pdf" --row-height text -o x.txt --row-height 20
unused "svg and pdf" --columns text --columns 1
unused "svg and pdf" --memory text --unit F=1,B=2,A=1 --memory
expect_exit 2 show 1f1b --ranks 2 --microbatches 4 --json --width 60
expect_err "--width is for text, svg and pdf (found --width with --json, expected no --width)"
unused "text, svg and pdf" --width --live --live --width 60
