#!/usr/bin/env bash
# Every kind of damage in a file: exit 2 (4 where the file is good and its Program is not), place, found, expected.
source "$(dirname "$0")/support/lib.sh"

# csv TEXT CODE WHERE FOUND; json likewise.
csv() { printf '%b' "$1" >bad.csv && expect_error "$2" "bad.csv$3" "$4" verify bad.csv; }
json() { printf '%s' "$1" >bad.json && expect_error "$2" "bad.json$3" "$4" verify bad.json; }
pipeline='"pipeline":{"ranks":1,"stages":1,"microbatches":1}'
schedule() { json '{"format":"ppsim-schedule","version":1,"name":"x",'"$1"'}' "$2" "$3" "$4"; }
program() { json '{"format":"ppsim-program","version":1,"pipeline":{"ranks":2,"stages":2,"microbatches":1},'"$1"'}' "$2" "$3" "$4"; }

csv '' 2 ': ' 'found nothing, expected stage 0'
csv '\n,\n' 2 ': ' 'found nothing'
csv '0F0,0FOO' 2 ':1:2' 'found 0FOO'
csv '0F0\n1F0,1F' 2 ':2:2' 'found 1F'
csv '0F0;0B0' 2 ':1:1' 'found 0F0;0B0'
csv '00F0,0B0' 2 ':1:1: not an action: a number has a leading zero' 'found 00F0'
csv '0F0,0SEND_F01' 2 ':1:2' 'leading zero'
csv 'F0' 2 ':1:1' 'found F0'
csv '0F-1' 2 ':1:1' 'found 0F-1'
csv '0F99999999999' 2 ':1:1' 'found 0F99999999999'
csv '99999999999F0' 2 ':1:1' 'found 99999999999F0'
csv '0F16777215' 2 ': ' 'found microbatch 16777215'
csv '100000F0' 2 ': ' 'found stage 100000'
csv '0F0,0B0\n0F0,0B0' 2 ':2:1' 'stage 0 stands in row 1 too'
csv '0F0,0SEND_F0,,0B0\n1RECV_F0,1F0,1B0' 2 ':1:3' 'an empty cell'
csv '0F0,0SEND_F0,0B0' 2 ':1:2' 'without its other end'
csv '0F0,(0F1;0B0OVERLAP_F_B,0B1' 2 ':1:2' 'not an overlapped pair'
csv '0F0,0\0B0' 2 ':1:2' 'not an action'
csv '\0\001\002' 2 ':1:1' 'not an action'
csv '"0F0' 2 ':1:1' 'closing quote'
csv '\xff\xfe0F0' 2 ':1:1' 'a text in UTF-16'
csv '0F0,0B0,0F0' 4 ': rank 0' '2 times'
csv '0B0,0F0' 4 ': rank 0' '0B0 at position 0 needs 0F0'

json '' 2 ':1:1' 'not JSON'
json '{' 2 ':1:2' 'not JSON'
json '[]' 2 ':1:1' 'expected'
json 'null' 2 ':1:1' 'expected'
json '{}' 2 ':1:1' 'without "format"'
json '{"format":"nope","version":1}' 2 ':1:11' 'found "nope"'
json '{"format":"ppsim-schedule","version":2}' 2 ':1:38' 'found 2, expected 1'
schedule "$pipeline"',"rows":[["0F0","0B0"]],"extra":1' 2 ':1:' '/extra: an unknown key'
schedule "$pipeline"',"rows":[["0F0","0FOO"]]' 2 ':1:' '/rows/0/1: not an action (found 0FOO'
schedule "$pipeline"',"rows":[["0F0","0B00"]]' 2 ':1:' '/rows/0/1: not an action: a number has a leading zero (found 0B00'
schedule "$pipeline"',"rows":[["0F0",7]]' 2 ':1:' '/rows/0/1'
schedule "$pipeline"',"rows":[["1F0"]]' 2 ':1:' 'stage 1 is out of range'
schedule "$pipeline"',"rows":[["0F9"]]' 2 ':1:' 'microbatch 9 is out of range'
schedule "$pipeline"',"rows":[["0B0","0F0"]]' 4 ':1:' '0B0 at position 0 needs 0F0'
schedule "$pipeline"',"rows":[["0F0"],["0B0"]]' 2 ':1:' 'found 2 rows, expected 1'
schedule "$pipeline" 2 ':1:' 'expected "rows"'
for bad in -1 0 1.5 1e3 '"1"' null 99999999999999999999999; do
  schedule '"pipeline":{"ranks":1,"stages":1,"microbatches":'$bad'},"rows":[[]]' 2 ':1:' 'microbatches'
done
schedule '"pipeline":{"ranks":1,"stages":1,"microbatches":1,"microbatches":2},"rows":[[]]' 2 ':1:' 'given twice'
# A small file cannot make the program ask for all memory there is.
schedule '"pipeline":{"ranks":1000000000,"stages":1,"microbatches":1},"rows":[[]]' 2 ':1:' 'ranks must be in'
schedule '"pipeline":{"ranks":1,"stages":16,"microbatches":16777216},"rows":[[]]' 2 ':1:' 'must be at most'
program '"communicators":[],"ranks":[["0F0","0SEND_F0@7"],[]]' 2 ':1:' 'communicator'
program '"communicators":[{"name":"a","members":[0,5]}],"ranks":[["0F0","0SEND_F0@0"],[]]' 2 ':1:' 'communicator a'
program '"communicators":[],"ranks":[["0F0"]]' 2 ':1:' 'found 1'
program '"communicators":[{"name":"a","members":[0,1]}],"ranks":[["0F0","0SEND_F0@"],[]]' 2 ':1:' '/ranks/0/1'

# Well-formed as a file, wrong as a Program: that is for verify to say, with the culprit.
cat >wrong.json <<'JSON'
{"format":"ppsim-program","version":1,"pipeline":{"ranks":2,"stages":2,"microbatches":1},
 "communicators":[{"name":"a","members":[0,1]}],"ranks":[["0F0","0SEND_F0@0"],[]]}
JSON
expect_exit 4 verify wrong.json
expect_out "rank 1: 1F0 is missing"
expect_out "0SEND_F0 never completes"
expect_exit 4 verify wrong.json --json
expect_json 'd["properties"]["well_formed"]["counterexample"]["violations"]'
expect_json 'd["properties"]["deadlock_free"]["counterexample"]["absent"][0]["action"] == "0SEND_F0"'
expect_exit 4 simulate wrong.json --unit F=1
expect_exit 4 run wrong.json --unverified

# An ill-formed Program that could finish is refused as well: its times would be those of something else.
cat >twice.json <<'JSON'
{"format":"ppsim-program","version":1,"pipeline":{"ranks":1,"stages":1,"microbatches":1},
 "communicators":[],"ranks":[["0F0","0F0","0B0"]]}
JSON
for command in 'simulate IN --unit F=1' 'compare IN --unit F=1' 'show IN --unit F=1' 'run IN --unverified' \
    'run IN --unverified --backend emulated --unit F=1'; do
  words=(${command/IN/twice.json})
  expect_error 4 "not well-formed" "rank 0: 0F0 is there 2 times" "${words[@]}"
  expect_json 'd["error"]["code"] == "ill_formed"'
done

# Other files than schedules.
mkdir folder
for command in 'convert IN out.json' 'lower IN -o out.json' 'simulate IN --unit F=1' show run; do
  words=(${command/IN/./folder})
  [ ${#words[@]} -gt 1 ] || words+=(./folder)
  expect_error 2 "./folder" "Is a directory" "${words[@]}"
done
expect_error 2 "./folder" "a folder without schedules" verify ./folder
# A file that opens, and whose bytes do not come.
[ ! -r /proc/self/mem ] || expect_error 2 "/proc/self/mem" "Input/output error" simulate /proc/self/mem --unit F=1
expect_error 2 "gone.json" "No such file" verify gone.json
expect_error 2 "gone/x" "No such file" simulate gone/x --unit F=1
printf '{"format":"ppsim-tables"' >bad.costs
expect_error 2 "bad.costs:1:" "not JSON" simulate 1f1b --ranks 2 --microbatches 2 --costs bad.costs
expect_error 2 "folder" "Is a directory" simulate 1f1b --ranks 2 --microbatches 2 --costs folder
expect_error 2 "gone/c.json" "No such file" simulate 1f1b --model gone/c.json --cluster dgx-h100
printf '{"hidden_size": "wide"}' >config.json
expect_error 2 "config.json" "model_type" simulate 1f1b --model ./config.json --cluster dgx-h100
printf '{"model_type": "llama", "hidden_size": "wide"}' >config.json
expect_error 2 "config.json" "num_hidden_layers" simulate 1f1b --model ./config.json --cluster dgx-h100

# Your own model: the file of docs/cli.md, and fields after its name.
sed -n '/^\$ cat config.json$/,/^}$/p' "$data/../../docs/cli.md" | sed 1d >config.json
own=(simulate 1f1b --cluster dgx-h100 --nodes 1 --pp 4 --dp 2 --global-batch-size 16 --sequence-length 4096 --model)
expect_exit 0 "${own[@]}" ./config.json
expect_exit 0 "${own[@]}" config.json:layers=8
expect_error 2 "unknown model field" "found wings=8" "${own[@]}" config.json:wings=8
expect_error 2 "unknown model field" "found layers" "${own[@]}" config.json:layers
expect_error 2 "gone.json" "No such file" "${own[@]}" gone.json:layers=8

# Your own cluster: the file of docs/cli.md, one with a slip, and an entry of the list.
sed -n '/^\$ cat cluster.json$/,/^}$/p' "$data/../../docs/cli.md" | sed 1d >cluster.json
own=(simulate 1f1b --model llama3-8b --nodes 1 --tp 2 --pp 4 --global-batch-size 16 --cluster)
expect_exit 0 "${own[@]}" cluster.json
expect_out "4 ranks, 4 stages, 16 microbatches"
sed 's/node_gbytes_per_s/node_gbytes/' cluster.json >slip.json
expect_error 2 "slip.json:5:" "found node_gbytes, expected one of" "${own[@]}" slip.json
sed 's/"memory_bytes": 80000000000/"memory_bytes": 80e9/' cluster.json >slip.json
expect_error 2 "/gpu/memory_bytes" "expected a whole number" "${own[@]}" slip.json
# A node as NCCL writes it down: the file of docs/cli.md, a GPU that it cannot have, and a slip.
sed -n '/^\$ cat node.xml$/,/^<.system>$/p' "$data/../../docs/cli.md" | sed 1d >node.xml
topology=(simulate 1f1b --model llama3-8b --nodes 4 --tp 2 --pp 4 --global-batch-size 16 --cluster)
expect_exit 0 "${topology[@]}" node.xml
expect_out "on 4 x node.xml (h100-sxm-80gb)"
expect_exit 0 "${topology[@]}" node.xml:h200-sxm-141gb
expect_out "on 4 x node.xml (h200-sxm-141gb)"
expect_error 2 "node.xml:4:" "expected h100-sxm-80gb or h200-sxm-141gb" "${topology[@]}" node.xml:b200-sxm
sed 's/count="18"/count="all"/' node.xml >slip.xml
expect_error 2 "slip.xml:4:" "<nvlink> needs count" "${topology[@]}" slip.xml
sed 's/<nic>/<nic/' node.xml >slip.xml
expect_error 2 "slip.xml:9:" "no XML" "${topology[@]}" slip.xml
expect_exit 0 list clusters --json
python3 -c 'import json; print(json.dumps(next(c for c in json.load(open("stdout"))["clusters"] if c["name"] == "dgx-h100")))' >listed.json
expect_exit 0 "${own[@]}" ./listed.json --json
cp stdout listed.out
expect_exit 0 "${own[@]}" dgx-h100 --json
python3 - <<'END' || fail "another cluster than the listed one"
import json
a, b = json.load(open("listed.out")), json.load(open("stdout"))
assert a["makespan_ns"] == b["makespan_ns"]
END
