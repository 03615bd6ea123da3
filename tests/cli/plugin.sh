#!/usr/bin/env bash
# --plugin: schedules and cost models of an outside library, here in C; what is no plugin, and what a plugin does wrong.
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

/* F of a stage takes as long as its number, plus that of its rank, says. */
static char* by_stage(const ppsim_pipeline* pipeline, char** refusal) {
  int ms = 1;
  for (size_t i = 0; i < pipeline->settings; ++i)
    if (strcmp(pipeline->keys[i], "f") == 0) ms = atoi(pipeline->values[i]);
  if (ms < 1) {
    *refusal = strdup("f is 1 or more");
    return NULL;
  }
  char* text = malloc((size_t)pipeline->stages * 64 + 256);
  char* end = text + sprintf(text, "{\"format\": \"ppsim-tables\", \"version\": 1, \"costs\": [%s",
                             "{\"kind\": \"SEND_F\", \"ns\": 0}, {\"kind\": \"SEND_B\", \"ns\": 0}, {\"kind\": \"B\", \"ns\": 0}");
  for (int stage = 0; stage < pipeline->stages; ++stage) {
    end += sprintf(end, ", {\"kind\": \"F\", \"stage\": %d, \"ns\": %d000000}", stage,
                   ms * (stage + 1 + pipeline->rank_of_stage[stage]));
  }
  sprintf(end, "]}");
  return text;
}

static char* no_table(const ppsim_pipeline* pipeline, char** refusal) { return (void)pipeline, (void)refusal, strdup("{}"); }

static void release(char* text) { free(text); }

static const ppsim_schedule schedules[] = {{"all-then-all", "all forwards, then all backwards", all_then_all},
                                           {"broken", "no schedule", broken}};
static const ppsim_cost_model cost_models[] = {{"by-stage", "F that grows with the stage", by_stage}, {"no-table", "nothing", no_table}};
static const ppsim_plugin_v1 plugin = {PPSIM_PLUGIN_VERSION, 2, schedules, release, 2, cost_models};
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

# Two stages on two ranks: F of 1 and of 2 + 1 times f.
expect_exit 0 simulate gpipe --ranks 2 --microbatches 1 --costs by-stage --plugin mine.so
expect_out "step 4.00 ms"
expect_exit 0 simulate gpipe --ranks 2 --microbatches 1 --costs by-stage:f=2 --plugin mine.so --json
expect_json 'd["makespan_ns"] == 8_000_000'
expect_exit 0 compare gpipe 1f1b --ranks 2 --microbatches 1 --costs by-stage:f=2 --plugin mine.so --json
expect_json '[s["makespan_ns"] for s in d["schedules"]] == [8_000_000] * 2'
expect_exit 0 list cost-models --plugin mine.so
expect_out "F that grows with the stage"
expect_error 2 "by-stage: f is 1 or more" "mine.so" simulate gpipe --ranks 2 --microbatches 1 --costs by-stage:f=0 --plugin mine.so
expect_error 2 "a cost model is told the counts of the schedule" "ranks=4" simulate gpipe --ranks 2 --microbatches 1 --costs by-stage:ranks=4 --plugin mine.so
expect_error 2 "no-table" "format" simulate gpipe --ranks 2 --microbatches 1 --costs no-table --plugin mine.so
expect_error 2 "by-stage: the table lacks" "no cost of I of stage 0" simulate zb-h1 --ranks 2 --microbatches 2 --costs by-stage --plugin mine.so
expect_error 2 "by-stage" "" simulate gpipe --ranks 2 --microbatches 1 --costs by-stage

expect_error 2 "plan searches the schedules of ppsim alone" "found --plugin" plan --model llama3-8b --cluster dgx-h100 --nodes 1 \
  --global-batch-size 8 --plugin mine.so
expect_error 2 "study evaluates the schedules of ppsim alone" "found --plugin" study run points.json --plugin mine.so
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
sed 's/"no-table"/"by-stage"/' mine.c >twice.c && compile twice
expect_error 2 'found a cost model "by-stage", which there is already' "twice.so" list cost-models --plugin twice.so
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
  "mine.py ")
    printf 'a warning\n<ppsim>\nschedule\ttwo-by-two\tforwards, then backwards\ncosts\tslow\t\n</ppsim>\nat exit\n'
    ;;
  "mine.py costs")
    [ "$3 $4 $5 $6 $7 $8" = "slow ranks=1 microbatches=2 slices=1 rank_of_stage=0 by=x y" ] || { echo "ValueError: $*"; exit 1; }
    printf '<ppsim>\n{"format": "ppsim-tables", "version": 1, "costs": [{"kind": "F", "ns": 7000000}, {"kind": "B", "ns": 0}]}\n</ppsim>\n'
    ;;
  "mine.py schedule")
    [ "$3 $4 $5 $6" = "two-by-two ranks=1 microbatches=2 style=wide" ] || { echo "ValueError: $*"; exit 1; }
    printf 'a warning\n<ppsim>\n0F0,0F1,0B0,0B1\n</ppsim>\n' ;;
esac
END
chmod +x stand-in
export PPSIM_PYTHON=$PWD/stand-in
touch mine.py
expect_exit 0 simulate two-by-two --ranks 1 --microbatches 2 --set style=wide --unit F=1,B=2 --plugin mine.py
expect_out "two-by-two: 1 rank"
expect_out "step 6.00 ms"
expect_exit 0 simulate two-by-two --ranks 1 --microbatches 2 --set style=wide --costs "slow:by=x y" --plugin mine.py
expect_out "step 14.00 ms"
sed 's/0F0,0F1,0B0,0B1/0F0,0B0/' stand-in >short
chmod +x short
PPSIM_PYTHON=$PWD/short expect_error 2 "two-by-two: the plugin made another schedule" "found 1 rank, 1 microbatch" \
  simulate two-by-two --ranks 1 --microbatches 2 --set style=wide --unit F=1,B=2 --plugin mine.py
expect_error 2 "mine.py: Python refuses: ValueError" "PPSIM_PYTHON" simulate two-by-two --ranks 2 --microbatches 2 --unit F=1,B=2 --plugin mine.py
sed 's/{ echo "ValueError: $\*"; exit 1; }/{ echo "a warning"; echo "no odd ranks"; exit 3; }/' stand-in >refuses
chmod +x refuses
refused=(--ranks 3 --microbatches 2 --unit F=1,B=2 --plugin mine.py)
PPSIM_PYTHON=$PWD/refuses expect_error 2 "mine.py: two-by-two: no odd ranks" "" simulate two-by-two "${refused[@]}"
PPSIM_PYTHON=$PWD/refuses expect_exit 2 simulate two-by-two "${refused[@]}"
grep -q PPSIM_PYTHON stderr && fail "what a plugin refuses has nothing to do with the Python"
expect_error 2 "fails.py: Python refuses: ValueError: no such thing" "PPSIM_PYTHON" list schedules --plugin fails.py
expect_error 2 "none.py: the file registers neither a schedule nor costs" "ppsim.register" list schedules --plugin none.py
export PPSIM_PYTHON=nowhere
expect_error 2 "Python refuses" "nowhere" list schedules --plugin mine.py
