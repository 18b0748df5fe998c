#!/bin/bash
# SPDX-License-Identifier: MIT
# The record of a run: the same bytes however the run was interrupted, verified by two programs that
# share no code, every changed field found, and signed as people sign.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 600; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
train=(train --model tiny --data "$work/text" --validation-split 0.1 --max-seq-length 32 --max-steps 30
    --save-steps 5 --eval-steps 4 --logging-steps 1000 --threads 1 --quiet --json)
whole=$work/whole/record.jsonl

expect 0 '' "${train[@]}" --output-dir "$work/whole"
same() { # DIRECTORY NAME
    cmp -s "$whole" "$work/$1/record.jsonl"
    check $? "$2: the record is that of the run that never met trouble"
}

# verifies record-2.deef
# A member of a line, as text.
member() { grep -oE "\"$2\":(\"[^\"]*\"|[^,}]*)" <<<"$1" | head -1 | sed -E 's/^"[^"]*"://; s/"//g'; }
head=$(head -1 "$whole")
[[ $(grep -oE '"data":\[\{[^]]*' <<<"$head") == *"\"bytes\":$(stat -c %s "$work/text"),\"sha256\":\"$(sha256sum <"$work/text" | cut -c 1-64)\""* ]]
check $? "the run's line has size and SHA-256 of its data" "$head"
[[ $(grep -c '^{"step":' "$whole") -eq 30 && $(grep -c '^{"state":' "$whole") -eq 6 && $(grep -c '^{"eval":' "$whole") -eq 8 ]]
check $? "a line for each step, state and evaluation" "$(cut -c 1-60 "$whole")"
for file in model.safetensors config.json tokenizer.json; do
    tail -1 "$whole" | grep -q "\"name\":\"$file\",\"bytes\":$(stat -c %s "$work/whole/$file"),\"sha256\":\"$(sha256sum <"$work/whole/$file" | cut -c 1-64)\""
    check $? "the last line has the SHA-256 of $file" "$(tail -1 "$whole")"
done
[[ $(member "$(tail -1 "$whole")" state_digest) == "$(json state_digest)" ]]
check $? "the last line has the state's digest"
[[ $(grep -c '"event":"save"' "$work/whole/events.jsonl") -eq 6 ]]
check $? "events name the saves" "$(cat "$work/whole/events.jsonl")"
grep -aq 'run.build.*run.parent.*run.processor\|run.build' "$work/whole/checkpoint-5/state.safetensors"
check $? "a checkpoint says which build saved it"

# verifies record-1.4186
# Stopped and continued at every step, also where an evaluation or a checkpoint was due anyway.
stops='1 3 4 7 20' every=3 rounds=10
! long_form || stops='1 3 4 5 7 8 20 29' every=1 rounds=20
[[ -z ${BP_TEST_SHORT:-} ]] || stops='1 3 4 7' every=3 # builds that are slow
for stop in $stops; do
    expect 0 '' "${train[@]}" --output-dir "$work/stop$stop" --stop-at-step $stop
    expect 0 '' "${train[@]}" --output-dir "$work/stop$stop" --resume
    same "stop$stop" "stopped at $stop"
done
expect 0 '' "${train[@]}" --output-dir "$work/stop7" --resume
same stop7 "continued after its end"

# verifies record-1.4186
# Killed at random, over and over, by the signal that nobody can catch: every third time at any moment from the start on, else
# a moment after it has begun and written some more lines, however slow the machine; one that is over by then begins anew.
RANDOM=7
starts=0 # of runs that were over
lines() { cat "$work/kill/record.jsonl" 2>/dev/null | wc -l; }
for ((i = 0; i < rounds; i++)); do
    if [[ $(tail -1 "$work/kill/record.jsonl" 2>/dev/null) == *'"end"'* ]]; then
        ((starts += $(grep -sc '"event":"\(start\|resume\)"' "$work/kill/events.jsonl")))
        rm -rf "$work/kill"
    fi
    begun=$(grep -sc '"event":"\(start\|resume\)"' "$work/kill/events.jsonl")
    "$program" "${train[@]}" --output-dir "$work/kill" --resume >/dev/null 2>&1 &
    pid=$!
    if ((i % 3 != 0)); then
        more=$(($(lines) + RANDOM % 4))
        wait_for 120 '[[ $(grep -sc "\"event\":\"\(start\|resume\)\"" "$work/kill/events.jsonl") -gt ${begun:-0} && $(lines) -ge $more ]]' $pid
    fi
    sleep "0.0$((RANDOM % 6))" # no wait: a moment
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
done
expect 0 '' "${train[@]}" --output-dir "$work/kill" --resume
same kill "killed $rounds times"
((starts += $(grep -c '"event":"\(start\|resume\)"' "$work/kill/events.jsonl")))
[[ $starts -gt 2 ]]
check $? "events tell each start" "$(grep -c . "$work/kill/events.jsonl")"
# A torn line, and lines behind the checkpoint.
expect 0 '' "${train[@]}" --output-dir "$work/torn" --stop-at-step 12
printf '{"step":13,"first":9' >>"$work/torn/record.jsonl"
expect 0 '' "${train[@]}" --output-dir "$work/torn" --resume
same torn "a torn line"

# verifies record-5.59d2
# Other threads, kernels and policies: the same lines but for the plan's digest.
expect 0 '' "${train[@]}" --output-dir "$work/other" --threads 2 --kernels avx2 --gradient-checkpointing full
cmp -s <(sed 's/,"chain".*//; s/"plan":"[0-9a-f]*"//' "$whole") <(sed 's/,"chain".*//; s/"plan":"[0-9a-f]*"//' "$work/other/record.jsonl")
check $? "two threads, other kernels and checkpoints give the same record"

# verifies record-3.52dc
# Both programs agree, on whole records and on those of which one field was changed.
checker() { python3 tools/record_check.py "$@" >"$work/.out" 2>"$work/.err"; }
expect 0 'agrees with 6 checkpoints and 4 exported files' verify "$work/whole"
checker "$work/whole" && grep -q 'agrees with 6 checkpoints and 4 exported files' "$work/.out"
check $? "both checkers have the same counts"
cp -r "$work/whole" "$work/lacking"
rm "$work/lacking/config.json"
expect 0 'and 3 exported files \(not here: 1\), chain' verify "$work/lacking"
checker "$work/lacking" && grep -qF 'and 3 exported files (not here: 1), chain' "$work/.out"
check $? "the second checker agrees" "$(cat "$work/.out" "$work/.err")"
[[ $(grep -o 'chain [0-9a-f]*' "$work/.out") == "chain $(member "$(tail -1 "$whole")" chain)" ]]
check $? "and names the last chain"

python3 - "$whole" "$work/edits" <<'P'
import json, os, re, sys
lines = open(sys.argv[1], encoding="utf-8").read().splitlines()
os.mkdir(sys.argv[2])
seen, made = set(), 0
for number, line in enumerate(lines):
    kind = re.match(r'\{"(\w+)"', line).group(1)
    for value in re.finditer(r'(?<=[:\[,{])("(?:[^"\\]|\\.)*"|-?[0-9][-+0-9.e]*|true|false|null)', line):
        token = value.group(0)
        rank = (kind, len(re.findall(r'"', line[:value.start()])) if kind in ("run", "end") else
                line[:value.start()].rsplit('"', 2)[-2:][0], line[value.end():value.end() + 1] == ":")
        if rank in seen:
            continue
        seen.add(rank)
        last = token[-2] if token[0] == '"' and len(token) > 2 else token[-1]
        other = {"e": "f", "9": "8"}.get(last, chr(ord(last) ^ 1)) if last.isalnum() else last
        at = value.end() - (2 if token[0] == '"' and len(token) > 2 else 1)
        if token == '""':
            edited = line[:at] + "x" + line[at:]
        else:
            edited = line[:at] + other + line[at + 1:]
        if edited == line:
            continue
        open(f"{sys.argv[2]}/{made}.jsonl", "w", encoding="utf-8").write(
            "\n".join(lines[:number] + [edited] + lines[number + 1:]) + "\n")
        made += 1
for name, changed in {"gone": lines[:7] + lines[8:], "twice": lines[:8] + lines[7:],
                      "swapped": lines[:7] + [lines[8], lines[7]] + lines[9:],
                      "beheaded": lines[1:]}.items():
    open(f"{sys.argv[2]}/{name}.jsonl", "w", encoding="utf-8").write("\n".join(changed) + "\n")
P
# One interpreter for all of them: starting it costs more than a check.
python3 - "$program" "$work" "$every" >"$work/.out" 2>&1 <<'P'
import contextlib, glob, io, shutil, subprocess, sys
sys.path.insert(0, "tools")
sys.dont_write_bytecode = True
import record_check
program, work, every = sys.argv[1], sys.argv[2], int(sys.argv[3])
edits = sorted(glob.glob(f"{work}/edits/*.jsonl"))
for edit in edits[every - 1::every]:
    shutil.copyfile(edit, f"{work}/whole/record.jsonl")
    ours = subprocess.run([program, "verify", f"{work}/whole"], capture_output=True).returncode
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        theirs = record_check.main([f"{work}/whole"])
    if (ours, theirs) != (4, 4):
        print(f"{edit}: ours {ours}, theirs {theirs}, both should be 4")
print(f"edits {len(edits)}")
P
edits=$(sed -n 's/^edits //p' "$work/.out")
[[ $(wc -l <"$work/.out") -eq 1 ]]
check $? "both find every changed field" "$(cat "$work/.out")"
[[ ${edits:-0} -gt 100 ]]
check $? "fields that were changed one at a time: $((edits / every))"
cp "$work/stop1/record.jsonl" "$whole"

# verifies record-3.52dc
# Cut to its beginning it is a shorter record, which the checkpoints contradict.
head -12 "$whole" >"$work/short" && cp "$work/short" "$work/stop3/record.jsonl"
expect 4 'saved with a longer, or another, record' verify "$work/stop3"
checker "$work/stop3"
[[ $? -eq 4 ]]
check $? "the second checker sees it as well" "$(cat "$work/.err")"
expect 4 'not the one that the checkpoint was saved with' "${train[@]}" --output-dir "$work/stop3" --resume
cmp -s "$work/short" "$work/stop3/record.jsonl"
check $? "nothing of it was lost"
mv "$work/stop3/record.jsonl" "$work/aside"
rm -r "$work/stop3/checkpoint-30"
expect 0 'one begins at step 25' "${train[@]}" --output-dir "$work/stop3" --resume
[[ $(member "$(head -1 "$work/stop3/record.jsonl")" from) == 25 ]]
check $? "a record that begins at a checkpoint says so"
expect 0 'up to step|ended at step 30' verify "$work/stop3"
# A state that is told falsely, under a new chain: found by a checkpoint of its step, or by another line about it.
falsified() { # DIRECTORY KIND: of the last such line; both checkers refuse it
    python3 - "$1/record.jsonl" "$2" <<'P'
import hashlib, re, sys
path, kind = sys.argv[1:]
bodies = [line.rpartition(',"chain":')[0] for line in open(path, encoding="utf-8", newline="\n")]
at = max(i for i, body in enumerate(bodies) if body.startswith('{"%s":' % kind))
bodies[at] = re.sub(r'"state_digest":"[0-9a-f]{16}"', '"state_digest":"0123456789abcdef"', bodies[at])
chain = bytes(32)
with open(path, "w", encoding="utf-8", newline="\n") as out:
    for body in bodies:
        chain = hashlib.sha256(chain + body.encode()).digest()
        out.write(body + ',"chain":"' + chain.hex() + '"}\n')
P
    expect 4 'another state than the checkpoint|does not follow the one before it' verify "$1"
    checker "$1"
    [[ $? -eq 4 ]] && grep -qE 'another state' "$work/.err"
    check $? "the second checker finds a false state of $2 in ${1##*/}" "$(cat "$work/.err")"
}
for kind in end state; do
    rm -rf "$work"/false*
    cp -r "$work/stop7" "$work/false-$kind"
    [[ $kind == end ]] || rm -r "$work/false-$kind/checkpoint-30" # whose chain it is
    falsified "$work/false-$kind" $kind
    cp -r "$work/stop7" "$work/false-$kind-alone"
    rm -r "$work/false-$kind-alone"/checkpoint-[123]*
    falsified "$work/false-$kind-alone" $kind
done
cp -r "$work/stop3" "$work/false-run"
rm -r "$work/false-run/checkpoint-30"
expect 0 'ended at step 30' verify "$work/false-run"
falsified "$work/false-run" run
printf x >>"$work/stop4/model.safetensors"
expect 4 'model.safetensors: the file is not the one that the run exported' verify "$work/stop4"

# verifies record-4.4319
# A directory with another run's record, which was killed before it saved anything.
cp "$work/stop1/record.jsonl" "$work/short"
mkdir "$work/foreign" && head -9 "$work/short" >"$work/foreign/record.jsonl"
expect 2 'holds the record of another run' "${train[@]}" --output-dir "$work/foreign" --learning-rate 0.5
cmp -s <(head -9 "$work/short") "$work/foreign/record.jsonl"
check $? "and it is as it was"
# Of the same run, whose checkpoint of step 5 is gone: it begins anew where that is said, or nothing was saved yet.
expect 2 'lists saved states, and no checkpoint is here' "${train[@]}" --output-dir "$work/foreign"
expect 0 '' "${train[@]}" --output-dir "$work/foreign" --overwrite-output-dir
same foreign "the same run again"
rm -r "$work/foreign" && mkdir "$work/foreign" && head -7 "$work/short" >"$work/foreign/record.jsonl"
expect 0 '' "${train[@]}" --output-dir "$work/foreign"
same foreign "the same run again, which was killed early"

# A checkpoint of a program before records goes on.
cp -r tests/golden/checkpoints/gpt2 "$work/old" && chmod -R u+w "$work/old"
mkdir "$work/old-model" && cp "$work/old/checkpoint-2/config.json" "$work/old-model"
head -60 "$work/text" >"$work/old-text"
expect 0 'one begins at step 2' train --model "$work/old-model" --data "$work/old-text" --output-dir "$work/old" --max-steps 4 \
    --save-steps 2 --max-seq-length 4 --threads 1 --quiet --resume
expect 0 'record: ' verify "$work/old"

# Steps computed twice: a state says up to which step. The same command line gives the same record, however it
# was interrupted; a replay needs none of it.
twice=("${train[@]}" --replay-every 3)
expect 0 '' "${twice[@]}" --output-dir "$work/twice"
[[ $(grep -oE '^\{"state":[0-9]+|"verified":[0-9]+' "$work/twice/record.jsonl" | tr -dc '0-9\n' | paste -sd' ') == '5 3 10 9 15 15 20 18 25 24 30 30' ]]
check $? "states tell the last verified step" "$(grep '^{"state' "$work/twice/record.jsonl")"
stops=16 kills=1 # each start has a selftest of 2 s
[[ -z ${BP_TEST_LONG:-} ]] || stops='4 10 16' kills=3
for stop in $stops; do
    expect 0 '' "${twice[@]}" --output-dir "$work/pieces" --stop-at-step $stop --resume
done
for ((i = 1; i <= kills; i++)); do
    "$program" "${twice[@]}" --output-dir "$work/pieces" --resume >/dev/null 2>&1 &
    pid=$!
    wait_for 120 '[[ $(grep -c "\"event\":\"save\"" "$work/pieces/events.jsonl") -gt $((3 + i)) ]]' $pid
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
done
expect 0 '' "${twice[@]}" --output-dir "$work/pieces" --resume
cmp -s "$work/twice/record.jsonl" "$work/pieces/record.jsonl"
check $? "and do so over resumes"
cmp -s <(sed 's/,"chain".*//; s/,"verified":[0-9]*//' "$work/twice/record.jsonl") <(sed 's/,"chain".*//' "$whole")
check $? "all else is the record of a run without"
expect 0 'agrees with 6 checkpoints and 4 exported files, verified up to step 30, chain' verify "$work/twice"
expect 0 '"verified": 30, "chain"' verify "$work/twice" --json
checker "$work/twice" && grep -q ', verified up to step 30, chain' "$work/.out"
check $? "the second checker says so as well" "$(cat "$work/.out" "$work/.err")"
expect 0 '^the same up to step 30' replay --compare "$work/twice" "$work/stop1"
expect 0 '^30 of 30 steps proven' replay "$work/twice"
# Whoever makes the chain anew cannot tell a step that is to come, one before the last, no number, or another one
# than the checkpoint's.
for edit in '"verified":15/"verified":16' '"verified":18/"verified":14' '"verified":24/"verified":"x"' '"verified":24/"verified":-4' '"verified":24/"verified":23'; do
    cp -r "$work/twice" "$work/edited"
    python3 - "$work/edited/record.jsonl" "$edit" <<'P'
import hashlib, sys
old, new = sys.argv[2].encode().split(b"/")
chain, lines = bytes(32), []
for line in open(sys.argv[1], "rb"):
    body = line.rpartition(b',"chain":"')[0].replace(old, new)
    chain = hashlib.sha256(chain + body).digest()
    lines.append(body + b',"chain":"' + chain.hex().encode() + b'"}\n')
open(sys.argv[1], "wb").writelines(lines)
P
    rm -rf "$work"/edited/checkpoint-30 # the chain is not what they say either; one is enough for the last edit
    run verify "$work/edited"
    ours=$code
    checker "$work/edited"
    [[ $? -eq 4 && $ours -eq 4 ]]
    check $? "$edit: ours $ours" "$err$(cat "$work/.err")"
    rm -rf "$work/edited"
done

# verifies record-10.8102
# Signed with what people have, as docs/record.md shows it.
if command -v ssh-keygen >/dev/null; then
    ssh-keygen -q -t ed25519 -N '' -f "$work/key" -C trainer
    echo "trainer $(cat "$work/key.pub")" >"$work/allowed"
    ssh-keygen -q -Y sign -f "$work/key" -n bedplate-record "$whole" 2>"$work/.err"
    check $? "ssh-keygen signs the record" "$(cat "$work/.err")"
    verify_signature() {
        ssh-keygen -q -Y verify -f "$work/allowed" -I trainer -n bedplate-record -s "$whole.sig" <"$1" >/dev/null 2>&1
    }
    verify_signature "$whole"
    check $? "and the signature is good"
    sed '3s/applied/appliee/' "$whole" >"$work/short"
    ! verify_signature "$work/short"
    check $? "but not for another record"
else
    echo "skipped: a record that is signed (no ssh-keygen on this machine)"
fi
checker "$work/stop1" --statement && python3 - "$work/.out" "$work/stop1" <<'P'
import hashlib, json, sys
statement = json.load(open(sys.argv[1]))
assert statement["_type"] == "https://in-toto.io/Statement/v1"
assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
for subject in statement["subject"]:
    data = open(f"{sys.argv[2]}/{subject['name']}", "rb").read()
    assert hashlib.sha256(data).hexdigest() == subject["digest"]["sha256"]
assert statement["predicate"]["buildDefinition"]["resolvedDependencies"][0]["name"] == "text"
P
check $? "an in-toto statement of what was exported" "$(cat "$work/.out" "$work/.err")"
# verifies record-2.deef
# Of models that read rows of numbers a label stands with -1 for each further number, as in records from the first on: such
# records are replayed and continued.
mkdir "$work/numbers"
echo '{"model_type": "mlp", "input_size": 11, "hidden_sizes": [4], "num_labels": 3}' >"$work/numbers/config.json"
awk 'BEGIN { for (k = 0; k < 3; k++) { for (i = 0; i < 11; i++) printf "%.2f,", (i * 5 + k * 3) % 8 / 4 - 1; print k } }' \
    >"$work/numbers.csv"
expect 0 '' train --model "$work/numbers" --data "$work/numbers.csv" --output-dir "$work/of-numbers" --max-steps 1 \
    --per-device-train-batch-size 3 --save-steps 0 --quiet
python3 - "$work/of-numbers/record.jsonl" "$work/numbers.csv" 2>"$work/.err" <<'P'
import hashlib, itertools, json, struct, sys
rows = [line.split(",") for line in open(sys.argv[2])]
said = [json.loads(line)["batch"] for line in open(sys.argv[1]) if line.startswith('{"step"')]
def batch(order):
    columns = [struct.pack("<11f", *map(float, rows[k][:11])) for k in order]
    columns += [struct.pack("<11i", int(rows[k][11]), *[-1] * 10) for k in order] + [struct.pack("<i", 11)] * 3
    return hashlib.sha256(b"".join(columns)).hexdigest()
assert said and said[0] in [batch(order) for order in itertools.permutations(range(3))], said
P
check $? "the batch of rows of numbers" "$(cat "$work/.err")"
finish
