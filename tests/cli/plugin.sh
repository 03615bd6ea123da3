#!/usr/bin/env bash
# --plugin: schedules of an outside library, here in C; what is no plugin, and what a plugin does wrong.
source "$(dirname "$0")/support/lib.sh"
include=$data/../../planner/include
compile() { cc -shared -fPIC -I "$include" -o "$1.so" "$1.c" || fail "no C compiler, or it refuses $1.c"; }

cat >mine.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ppsim/planner/plugin.h"

/* All forwards, then all backwards, of one stage a rank. */
static char* all_then_all(const ppsim_parameters* asked, char** refusal) {
  if (asked->chunks > 1) {
    *refusal = strdup("one chunk a rank");
    return NULL;
  }
  char* text = malloc((size_t)asked->ranks * (size_t)asked->microbatches * 48 + 1);
  char* end = text;
  *text = '\0';
  for (int rank = 0; rank < asked->ranks; ++rank) {
    for (int i = 0; i < 2 * asked->microbatches; ++i)
      end += sprintf(end, "%s%d%c%d", i == 0 ? "" : ",", rank, i < asked->microbatches ? 'F' : 'B', i % asked->microbatches);
    end += sprintf(end, "\n");
  }
  return text;
}

static char* broken(const ppsim_parameters* asked, char** refusal) { return (void)asked, (void)refusal, strdup("0F0,0FOO\n"); }

static void release(char* text) { free(text); }

static const ppsim_schedule schedules[] = {{"all-then-all", "all forwards, then all backwards", all_then_all},
                                           {"broken", "no schedule", broken}};
static const ppsim_plugin_v1 plugin = {PPSIM_PLUGIN_VERSION, 2, schedules, release};
const ppsim_plugin_v1* ppsim_plugin(void) { return &plugin; }
END
compile mine
size=(--ranks 4 --microbatches 8)
expect_exit 0 simulate all-then-all "${size[@]}" --unit F=1,B=2 --plugin mine.so
expect_out "all-then-all: 4 ranks"
expect_out "step 33.00 ms"
expect_exit 0 --plugin ./mine.so verify all-then-all:ranks=4,microbatches=8 --json
expect_json 'd["properties"]["deadlock_free"]["verdict"] == "proved"'
expect_exit 0 compare gpipe all-then-all "${size[@]}" --unit F=1,B=2 --plugin mine.so --json
expect_json 'd["schedules"][0]["makespan_ns"] == d["schedules"][1]["makespan_ns"]'
expect_exit 0 generate all-then-all "${size[@]}" -o mine.csv --plugin mine.so
expect_exit 0 list schedules --plugin mine.so
expect_out "all-then-all"

expect_error 2 "all-then-all: one chunk a rank" "mine.so" simulate all-then-all "${size[@]}" --chunks 2 --unit F=1 --plugin mine.so
expect_error 2 "broken:1:2: not an action" "found 0FOO" simulate broken "${size[@]}" --unit F=1 --plugin mine.so
expect_error 2 "no schedule \"all-then-all\"" "" simulate all-then-all "${size[@]}" --unit F=1
expect_error 2 "all-then-all needs ranks and microbatches" "" simulate all-then-all --unit F=1 --plugin mine.so
echo "no library" >text.so
expect_error 2 "text.so: no plugin of ppsim" "expected a shared library" list schedules --plugin text.so
expect_error 2 "nowhere.so: no plugin of ppsim" "No such file" list schedules --plugin nowhere.so
echo "int nothing;" >empty.c && compile empty
expect_error 2 "empty.so: no plugin of ppsim" "found no function ppsim_plugin" list schedules --plugin empty.so
sed 's/PPSIM_PLUGIN_VERSION, 2/7, 2/' mine.c >later.c && compile later
expect_error 2 "later.so: no plugin of ppsim" "found version 7, expected version 1" list schedules --plugin later.so
sed 's/"broken"/"1f1b"/' mine.c >taken.c && compile taken
expect_error 2 "taken.so: no plugin of ppsim" "which there is already" list schedules --plugin taken.so
sed 's/"broken"/"bro ken"/' mine.c >blank.c && compile blank
expect_error 2 "blank.so: no plugin of ppsim" "expected a name of letters, digits and dashes" list schedules --plugin blank.so
expect_error 2 "taken.so: no plugin of ppsim" "" list schedules --plugin mine.so --plugin taken.so

# A Python file, asked through `python -m ppsim.plugin`, for which another program stands in here.
cat >stand-in <<'END'
#!/usr/bin/env bash
[ "$1 $2" = "-m ppsim.plugin" ] || exit 9
shift 2
case "$1 $2" in
  "fails.py ") echo "Traceback"; echo "ValueError: no such thing"; exit 1 ;;
  "none.py ") printf '<ppsim>\n</ppsim>\n' ;;
  "mine.py ") printf 'a warning\n<ppsim>\ntwo-by-two\tforwards, then backwards\n</ppsim>\nat exit\n' ;;
  "mine.py two-by-two")
    [ "$3 $4 $5" = "ranks=1 microbatches=2 style=wide" ] || { echo "ValueError: $*"; exit 1; }
    printf 'a warning\n<ppsim>\n0F0,0F1,0B0,0B1\n</ppsim>\n' ;;
esac
END
chmod +x stand-in
export PPSIM_PYTHON=$PWD/stand-in
touch mine.py
expect_exit 0 simulate two-by-two --ranks 1 --microbatches 2 --set style=wide --unit F=1,B=2 --plugin mine.py
expect_out "two-by-two: 1 rank"
expect_out "step 6.00 ms"
expect_error 2 "mine.py: Python refuses: ValueError" "PPSIM_PYTHON" simulate two-by-two --ranks 2 --microbatches 2 --unit F=1,B=2 --plugin mine.py
expect_error 2 "fails.py: Python refuses: ValueError: no such thing" "PPSIM_PYTHON" list schedules --plugin fails.py
expect_error 2 "none.py: the file registers no schedule" "ppsim.register" list schedules --plugin none.py
export PPSIM_PYTHON=nowhere
expect_error 2 "Python refuses" "nowhere" list schedules --plugin mine.py
