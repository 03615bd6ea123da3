#!/usr/bin/env bash
# Answers of the program to wrong command lines and files: tests/golden/cli/wrong_usages.txt, in which each message says what is
# wrong, where, and what to do instead. PPSIM_UPDATE_GOLDEN=1 rewrites the file.
golden=$(cd "$(dirname "$0")/../golden/cli" && pwd)/wrong_usages.txt
source "$(dirname "$0")/support/lib.sh"
# The same on every machine.
export LC_ALL=C COLUMNS=80 CUDA_VISIBLE_DEVICES=
unset PPSIM_JOBS NO_COLOR
mkdir bin usages && ln -s "$ppsim" bin/ppsim
export PATH=$work/bin:$PATH
cd usages

# Lines that begin with "$ " run in one folder, one after another. A wrong usage prints its message and its exit code.
answers() {
  local line code
  while IFS= read -r line; do
    case $line in
      '' | '#'*) printf '%s\n' "$line" ;;
      '$ ppsim' | '$ ppsim '*)
        printf '%s\n' "$line"
        code=0
        timeout "$limit_s" bash -c "${line#??}" >../stdout 2>../stderr </dev/null || code=$?
        cat ../stderr
        [ ! -s ../stdout ] || printf 'stdout: %s bytes\n' "$(wc -c <../stdout)"
        printf 'exit %s\n' "$code"
        ;;
      '$ '*)
        printf '%s\n' "$line"
        bash -c "${line#??}" >../stdout 2>../stderr || { cd .. && fail "$line"; }
        ;;
    esac
  done <"$golden"
}
answers >../answers
if [ -n "${PPSIM_UPDATE_GOLDEN:-}" ]; then cp ../answers "$golden"; fi
cd ..
diff -u "$golden" answers >stdout || fail "not what tests/golden/cli/wrong_usages.txt has; PPSIM_UPDATE_GOLDEN=1 rewrites it"
