#!/usr/bin/env bash
# Help, completion, the manual page, the version, and suggestions for misspelled words.
source "$(dirname "$0")/support/lib.sh"

at_most() {
  local longest
  longest=$(awk '{ if (length($0) > most) most = length($0) } END { print most + 0 }' stdout)
  [ "$longest" -le "$1" ] || fail "$longest columns: ppsim $2"
}

expect_exit 0 --help
at_most 80 --help
expect_out "simulate"
expect_out "Exit codes: 0 done"
commands=$(grep -oE '^  [a-z][a-z-]*  ' stdout | tr -d ' ')
for command in $commands; do
  expect_exit 0 "$command" --help
  at_most 80 "$command --help"
  [ "$(grep -cE '^  (-[a-z],)?--' stdout)" -le 10 ] || fail "more than ten options: $command --help"
  cp stdout short
  expect_exit 0 help "$command"
  cmp -s stdout short || fail "ppsim help $command is another text than ppsim $command --help"
  expect_exit 0 "$command" --help-all
  at_most 80 "$command --help-all"
  # The options that --help shows first are in --help-all.
  { grep -oE '^  (-[a-z],)?--[a-z0-9-]+' short || true; } >options
  while read -r option; do
    grep -qF -- "$option" stdout || fail "$command has no $option"
  done <options
done
expect_exit 0 simulate --help
expect_out "Examples:"
expect_out "ppsim simulate --help-all"
[ "$(grep -cE '^  --' stdout)" -eq 10 ] || fail "ten options of simulate come first"
expect_exit 0 help simulate --all
expect_out "--compare-trace"
expect_error 2 'did you mean "simulate"' "found simulat" help simulat
expect_exit 0 help --json
expect_json '"simulate" in d["text"]'

# The examples of the help run.
mkdir examples && cd examples
"$ppsim" generate 1f1b --ranks 4 --microbatches 8 -o schedule.json
"$ppsim" lower schedule.json -o program.json
"$ppsim" verify program.json --certificate proof.json >/dev/null
for command in check-certificate generate convert lower show simulate compare; do
  "$ppsim" $command --help | sed -n '/^Examples:/,/^$/p' | sed -n 's/^  ppsim /ppsim /p; s/^      /      /p' >lines
  sed "s|^ppsim|'$ppsim'|" lines >script
  bash -e script >../stdout 2>../stderr || { cd ..; fail "an example of $command --help"; }
done
cd ..

# Completion: what bash offers for a line.
expect_exit 0 completion bash
cp stdout complete.bash
offered() {
  bash -c 'source complete.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _ppsim; printf "%s\n" "${COMPREPLY[@]}"' _ "$@"
}
offers() {
  local wanted=$1
  shift
  offered "$@" >stdout
  grep -qxF -- "$wanted" stdout || fail "no completion $wanted of: $*"
}
offers simulate ppsim sim
offers --microbatches ppsim simulate 1f1b --mi
offers zb-v ppsim simulate zb
offers llama3-70b ppsim simulate 1f1b --model llama3
offers dgx-h100 ppsim compare 1f1b --cluster dgx
offers svg ppsim show 1f1b --format s
offers verify ppsim help ver
offers complete.bash ppsim verify compl
expect_exit 0 completion zsh
grep -q '^#compdef ppsim' stdout || fail "zsh finds no completion"
if command -v zsh >/dev/null; then zsh -n stdout || fail "zsh does not read it"; fi
expect_exit 0 completion fish
expect_out "complete -c ppsim -n '__fish_seen_subcommand_from simulate' -l microbatches -r"
if command -v fish >/dev/null; then fish -n stdout || fail "fish does not read it"; fi
expect_error 2 "SHELL" "tcsh" completion tcsh

# The manual page.
expect_exit 0 man
expect_out ".TH PPSIM 1"
expect_out '\-\-microbatches'
if command -v groff >/dev/null; then
  groff -man -Tutf8 -ww stdout >page 2>stderr || fail "groff"
  [ ! -s stderr ] || fail "groff complains"
fi
# mandoc is the stricter reader; lexgrog finds what `apropos` shows, and man draws the page. It has no date: it is as old as the build.
cp stdout ppsim.1
for tool in mandoc lexgrog man; do
  command -v $tool >/dev/null || { [ -z "${CI:-}" ] || fail "continuous integration has $tool"; echo "SKIPPED: the manual page in $tool, which is not installed" >&2; }
done
if command -v mandoc >/dev/null; then
  mandoc -T lint -W warning ppsim.1 2>&1 | grep -v 'missing date' >stderr || true
  [ ! -s stderr ] || fail "mandoc complains"
fi
if command -v lexgrog >/dev/null; then
  lexgrog ppsim.1 >stdout || fail "lexgrog finds no name"
  expect_out "ppsim - "
fi
if command -v man >/dev/null; then
  MANWIDTH=80 man --warnings -l ppsim.1 >stdout 2>stderr || fail "man"
  [ ! -s stderr ] || fail "man complains"
  expect_out "OPTIONS OF ALL COMMANDS"
fi

# The version has the data that a bug report needs.
expect_exit 0 --version
[[ $(head -1 stdout) =~ ^ppsim\ [0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "the first line of --version"
for words in "build " "Z3 4." "transports "; do expect_out "$words"; done

# Suggestions for misspelled words.
meant() {
  local wanted=$1
  shift
  expect_exit 2 "$@"
  expect_err "did you mean \"$wanted\""
}
unit=(--unit F=1)
size=(--ranks 4 --microbatches 8)
meant zb-v simulate ZB-V "${size[@]}" "${unit[@]}"
meant zb-v simulate zbv "${size[@]}" "${unit[@]}"
meant interleaved-1f1b simulate interleaved "${size[@]}" "${unit[@]}"
meant gpipe simulate GPipe "${size[@]}" "${unit[@]}"
meant llama3.1-405b simulate 1f1b --model llama3-405b --cluster dgx-h100
meant llama3-70b simulate 1f1b --model Llama3-70B --cluster dgx-h100
meant dgx-h100 simulate 1f1b --model llama3-70b --cluster h100
meant group generate interleaved-1f1b "${size[@]}" --set Group=4 -o x.json
meant verify Verify 1f1b
meant generate gen 1f1b
meant --microbatches simulate 1f1b --micro 8 "${unit[@]}"
meant --memory-limit verify 1f1b --memory_limit 80GB
job=(--model llama3-70b --cluster dgx-h100 --nodes 8 --tp 8 --pp 4 --dp 2 --global-batch-size 128)
expect_error 2 "--memory-limit has no unit" "expected 80GB" verify 1f1b "${job[@]}" --memory-limit 80

# On a terminal of 80 columns no line breaks inside a word, and long work reports progress on stderr.
cat >terminal.py <<'PYTHON'
import fcntl, os, pty, re, signal, struct, sys, termios
until = re.compile(os.environ["UNTIL"].encode()) if "UNTIL" in os.environ else None  # then it is interrupted
child, terminal = pty.fork()
if child == 0:
    os.environ["TERM"] = "xterm"
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, int(sys.argv[1]), 0, 0))
    os.execv(sys.argv[2], sys.argv[2:])
text = b""
while True:
    try:
        part = os.read(terminal, 65536)
    except OSError:
        break
    if not part:
        break
    text += part
    if until and until.search(text):
        os.kill(child, signal.SIGINT)
        until = None
os.waitpid(child, 0)
sys.stdout.buffer.write(text.replace(b"\r\n", b"\n"))
PYTHON
shown() {
  python3 terminal.py 80 "$ppsim" "$@" >stdout
  sed 's/\x1b\[[0-9;]*m//g' stdout >plain
  [ -s plain ] || fail "nothing on a terminal: $*"
  python3 -c 'import sys; sys.exit(max(len(line.rstrip("\n")) for line in open("plain", encoding="utf-8")) > 80)' ||
    fail "lines of more than 80 columns: $*"
}
shown show zb-v "${size[@]}"
shown show 1f1b --ranks 16 --microbatches 32
shown compare 1f1b forward-only "${size[@]}" --unit F=1,B=2
shown simulate 1f1b "${job[@]}"
tr '\n' ' ' <plain | tr -s ' ' >line
grep -q "reading of data from storage, checkpoints" line || fail "a word was broken"
shown --help
long=(jitter 1f1b --ranks 16 --microbatches 256 --unit F=1,B=2 --vary all=normal:0.1)
UNTIL='ppsim: [0-9]+ s' timeout "$limit_s" python3 terminal.py 80 "$ppsim" "${long[@]}" --samples 1000000 >stdout || fail "no progress"
search=(synthesize --ranks 8 --microbatches 16 --placement v --activation-limit 8 --unit F=5,I=6,W=4 -o best.json)
UNTIL='ppsim: [0-9]+ s, makespan [0-9.]+ ms, none below' timeout "$limit_s" python3 terminal.py 100 "$ppsim" "${search[@]}" >stdout ||
  fail "no word of the best so far"
shown "${long[@]}" --samples 100
expect_out "in 100 samples"
python3 terminal.py 80 "$ppsim" "${long[@]}" --samples 10000 --json >stdout
! grep -qE 'ppsim: [0-9]+ s' stdout || fail "progress with --json"
