#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs that a program of before the change of words began (tests/golden/old): their checkpoints, records, files
# below the arena and of what a teacher says are read as they were. Each goes on to the digest that the old program
# came to, is verified and replayed; what was damaged, or is not known, is refused.
. "$(dirname "$0")/../lib.sh"
program=$(realpath "$program")
cp -r tests/golden/old "$work/old"
chmod -R u+w "$work/old"
cd "$work/old" || exit 1

# goes_on NAME DIGEST OPTIONS: the rest of a run.
goes_on() {
    local name=$1 digest=$2
    shift 2
    [[ $name == offload ]] || cp -r "$name" "$name.damaged"
    expect 0 'agrees with' verify "$name"
    run train "$@" --max-steps 4 --save-steps 2 --threads 1 --device host --quiet --output-dir "$name" --json --resume
    [[ $code -eq 0 && $(json state_digest) == "$digest" ]]
    check $? "$name goes on to its end (exit $code)" "$out$err"
    [[ $(grep -c '^{"run"' "$name/record.jsonl") == 1 && $(grep -c '^{"step"' "$name/record.jsonl") == 4 ]]
    check $? "$name has one record" "$(cut -c1-300 "$name/record.jsonl")"
    expect 0 'ended at step 4' verify "$name"
    # The second checker knows of no file beside a checkpoint.
    [[ $name == offload ]] || python3 "$OLDPWD/tools/record_check.py" "$name" >"$work/.out" 2>&1
    check $? "the second checker agrees with $name" "$(cat "$work/.out")"
    expect 0 '' report "$name" --output "$work/page.html"
    expect 0 '' watch "$name" --once
}
# replays NAME: all that is in a run, by what its record and its events say.
replays() {
    expect 0 'steps? 1 to 4|4 of 4|proven' replay "$1" --all --kernels portable
}
gpt2=(--model model-gpt2 --max-seq-length 8 --per-device-train-batch-size 2)
goes_on plain 260bc500fb32d8a4 "${gpt2[@]}" --data text.txt --validation-split 0.1 --eval-steps 1 --replay-every 1 \
    --on-spike clip --spike-threshold 6 --length-buckets none --gradient-accumulation-steps 2
goes_on lora d2ee02820235fdbe "${gpt2[@]}" --model model-wide --data text.txt --lora-r 2 --target-modules all-linear --load-in-4bit --bf16
goes_on average 386e673a2fe65290 "${gpt2[@]}" --data text.txt --gradient-release adama --gradient-accumulation-steps 2 --max-grad-norm 0
goes_on ranks dc215c9fd5c5a21c "${gpt2[@]}" --data text.txt --gradient-accumulation-steps 2 --optim schedule_free_adamw
goes_on distill 682404cc00ea3c8a "${gpt2[@]}" --data text.txt --distill text.teacher
goes_on preference f52e257bd3ff0bf5 "${gpt2[@]}" --data pairs.jsonl --task dpo --max-seq-length 16
goes_on buckets 77b2fd87186ba99f --model model-bert --data rows.tsv --task classification --max-seq-length 32 \
    --per-device-train-batch-size 2 --length-buckets 8,16
goes_on offload a11f0374929f7940 "${gpt2[@]}" --model model-wide --data text.txt --bf16 --optim adamw_8bit \
    --offload "file:offload.tier:4MiB" --offload-what states,weights --offload-two-versions --offload-buffered
for name in plain lora average ranks distill preference buckets; do
    replays "$name"
done
expect 0 '' replay --compare plain plain.damaged

# A byte of a state, of a line and of the teacher's file; a key that is not known; a record of another format.
damaged() {
    local name=$1 file=$2 from=$3 to=$4
    rm -rf again && cp -r "$name.damaged" again
    sed -i "s/$from/$to/" "again/$file"
    cmp -s "again/$file" "$name.damaged/$file"
    check $((!$?)) "$file of $name was changed"
}
damaged plain record.jsonl '"norm":1' '"norm":2'
expect 4 'chain is not that' verify again
damaged plain record.jsonl '"norm"' '"norn"'
expect 4 'chain is not that' verify again
damaged plain record.jsonl '^{"run":1' '{"run":9'
expect 4 'chain is not that' verify again
damaged ranks checkpoint-2/state.safetensors 'key.result.lanes' 'key.result.lames'
expect 4 'digest|damaged|differs' verify again
expect 4 'checkpoint is damaged and is passed over' train "${gpt2[@]}" --data text.txt --gradient-accumulation-steps 2 \
    --optim schedule_free_adamw --virtual-ranks 2 --max-steps 4 --threads 1 --device host --output-dir again --resume --stop-at-step 1
finish
