#!/usr/bin/env bash
# TAB in the shells themselves, typed at a terminal: bash, and zsh and fish where they are installed.
source "$(dirname "$0")/support/lib.sh"
mkdir bin && ln -s "$ppsim" bin/ppsim
export PATH=$work/bin:$PATH

begins=("ppsim simu" "ppsim simulate terap" "ppsim simulate 1f1b --microbatche" "ppsim simulate 1f1b --model gpt-oss-1"
  "ppsim simulate 1f1b --model gpt3-175b --cluster dgx-h1" "ppsim show 1f1b --format sv" "ppsim help ver" "ppsim verify my-or")
touch my-order.csv
cat >wanted <<END
ppsim simulate
ppsim simulate terapipe
ppsim simulate 1f1b --microbatches
ppsim simulate 1f1b --model gpt-oss-120b
ppsim simulate 1f1b --model gpt3-175b --cluster dgx-h100
ppsim show 1f1b --format svg
ppsim help verify
ppsim verify my-order.csv
END
for shell in bash zsh fish; do
  if ! command -v $shell >/dev/null; then
    [ -z "${CI:-}" ] || fail "continuous integration tests completion in $shell"
    echo "SKIPPED: completion in $shell, which is not installed (scripts/bootstrap --tests)" >&2
    continue
  fi
  expect_exit 0 completion $shell
  cp stdout ppsim.$shell
  python3 "$support/complete.py" $shell ppsim.$shell "${begins[@]}" >stdout 2>stderr || fail "$shell"
  diff wanted stdout >stderr || fail "what $shell makes of the begin of a line"
  [ $shell = zsh ] || continue
  mkdir functions && cp ppsim.zsh functions/_ppsim
  python3 "$support/complete.py" zsh functions "${begins[@]}" >stdout 2>stderr || fail "zsh, from a folder of functions"
  diff wanted stdout >stderr || fail "what zsh makes of the begin of a line when it loads the function itself"
done
