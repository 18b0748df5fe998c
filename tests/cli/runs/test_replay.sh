#!/bin/bash
# SPDX-License-Identifier: MIT
# Steps of a recorded run once more: on other threads, kernels and policies the same lines; of a record
# that tells something else the first difference, by step and tensor.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 600; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
train=(train --model tiny --data "$work/text" --validation-split 0.1 --max-seq-length 32 --max-steps 12
    --save-steps 5 --eval-steps 4 --logging-steps 1000 --threads 1 --quiet)
run_dir=$work/run

expect 0 '' "${train[@]}" --output-dir "$run_dir" --freeze '*wpe*' --freeze '*ln_f*' --adam-beta2 0.95
# verifies record-6.d577
expect 0 '^12 of 12 steps proven in 3 of 3 segments, 3 states compared' replay "$run_dir"
expect 0 '"equal": true, "steps": 12, "executed": 12, "proven": 12, "segments": 3, "segments_of": 3' replay "$run_dir" --all --threads 2 --variant avx2 --policy full --json
[[ $(json kernels) == "host avx2" && $(json threads) == 2 ]]
check $? "the replay's own threads and kernels" "$out"
expect 0 '^3 of 12 steps proven in 1 of 3 segments' replay "$run_dir" --from 6 --to 8
expect 0 'segments of|of 3 segments' replay "$run_dir" --sample 2 --seed 5
[[ $out == *"in 2 of 3 segments"* && $out == *"the rest would take"* ]]
check $? "two of three segments" "$out"
grep -q '"event":"replay".*"equal":true' "$run_dir/events.jsonl"
check $? "replays are events"
expect 2 'up to the last one of the record: found 13, expected at most 12' replay "$run_dir" --to 13
expect 2 'steps are from 1 on' replay "$run_dir" --from 9 --to 3
expect 6 'cannot be read' replay "$work"

# verifies record-8.d5cc
# Data that is not there, or is another, is named with the digest that it should have.
right=$(sha256sum <"$work/text" | cut -c 1-64)
mv "$work/text" "$work/moved"
expect 4 "text, SHA-256 $right: the file that the run read is not here" replay "$run_dir"
expect 0 '^12 of 12 steps proven' replay "$run_dir" --data "$work/moved"
sed 's/beer/bees/' "$work/moved" >"$work/text"
expect 4 "not the one that the run read.*expected $right" replay "$run_dir"
mv "$work/moved" "$work/text"
cp -r "$run_dir" "$work/mute" && rm "$work/mute/events.jsonl"
expect 4 "text, SHA-256 $right: the file that the run read is not here" replay "$work/mute"
expect 0 '^12 of 12 steps proven' replay "$work/mute" --data "$work/text"

# verifies record-9.7cc6
# What a step saw: of a stream its windows, each a place in a file.
expect 0 '^\{"step": 3, "sample": 0, "window": [0-9]+, "first_token": [0-9]+, "tokens": [0-9]+, "file": ".*/text", "byte": [0-9]+\}' replay "$run_dir" --documents 3
[[ $(wc -l <<<"$out") -eq 8 ]]
check $? "as many samples as the batch has" "$out"
expect 2 'the run has no such step' replay "$run_dir" --documents 13

# Two runs: where they part.
expect 0 '' "${train[@]}" --output-dir "$work/same" --freeze '*wpe*' --freeze '*ln_f*' --adam-beta2 0.95 --threads 2
expect 0 '^the same up to step 12' replay --compare "$run_dir" "$work/same"
expect 0 '' "${train[@]}" --output-dir "$work/other" --freeze '*wpe*' --freeze '*ln_f*' --adam-beta2 0.96
expect 4 'they part at step 2: loss|they part at step [0-9]+' replay --compare "$run_dir" "$work/other"
[[ $out == *"began with different adam-beta2"* ]]
check $? "and in which option they began to" "$out"
[[ $out == *"first tensor, at the checkpoints of step 5: "[a-z]* ]]
check $? "and in which tensor first" "$out"
expect 4 '"tensor": "[a-z][^"]*", "tensor_step": 5' replay --compare "$run_dir" "$work/other" --json

# verifies record-7.8a45
# rewritten FROM TO SED: a record whose lines were changed and whose chain was made anew: only a replay
# finds that.
rewritten() {
    cp -r "$1" "$2"
    python3 - "$2/record.jsonl" "$3" "$4" <<'P'
import hashlib, sys
path, old, new = sys.argv[1:]
chain, lines = bytes(32), []
for line in open(path, "rb"):
    body = line.rpartition(b',"chain":"')[0].replace(old.encode(), new.encode())
    chain = hashlib.sha256(chain + body).digest()
    lines.append(body + b',"chain":"' + chain.hex().encode() + b'"}\n')
open(path, "wb").writelines(lines)
P
}
loss=$(grep '^{"step":7,' "$run_dir/record.jsonl" | grep -oE '"loss_bits":"[0-9a-f]*"')
rewritten "$run_dir" "$work/forged" "$loss" "${loss%?????\"}11111\""
expect 8 '^first difference: step 7, loss_bits' replay "$work/forged"
expect 8 '"first_difference": \{"step": 7, "key": "loss_bits", "tensor": ""\}' replay "$work/forged" --from 6 --to 9 --json
expect 0 '^5 of 12 steps proven' replay "$work/forged" --from 1 --to 5
expect 8 'they part at step 7: loss_bits' replay --compare "$run_dir" "$work/forged"
# verifies record-7.8a45
# A run that was computed otherwise than its options say: the state's first tensor is named as well.
rewritten "$work/other" "$work/lied" '"adam-beta2":"0.96"' '"adam-beta2":"0.95"'
expect 8 'first difference: step [0-9]+, .*; first tensor [a-z]' replay "$work/lied"
grep -q '"event":"replay".*"equal":false' "$work/lied/events.jsonl"
check $? "a replay that differs is an event"

# verifies record-14.3e28
# Every member of the first and of the last line that a replay computes, and what the run exported.
expect 0 'exported files: 4 of 4' replay "$run_dir" --threads 1
[[ $out == *"computed again: model and data by their SHA-256"* && $out != *"by the record alone"* ]]
check $? "what was computed again is said" "$out"
expect 0 'not computed: the run.s end and what it exported' replay "$run_dir" --to 5
forge() { # KEY OLD NEW
    rewritten "$run_dir" "$work/$1-forged" "$2" "$3"
    cmp -s "$run_dir/record.jsonl" "$work/$1-forged/record.jsonl" && check 1 "$1: nothing was changed"
    expect 8 "first difference: step (0|12), ${1%-*}" replay "$work/$1-forged"
}
forge config '"n_layer":"2"' '"n_layer":"3"'
forge tokens '"tokens":"' '"tokens":"9'
forge windows '"windows":' '"windows":1'
forge steps_per_epoch '"steps_per_epoch":' '"steps_per_epoch":1'
forge total_steps '"total_steps":12' '"total_steps":13'
forge data_seed '"data_seed":42' '"data_seed":43'
forge program '"program":"bedplate"' '"program":"another"'
forge data "$(head -1 "$run_dir/record.jsonl" | grep -oE '"data":\[[^]]*\]')" '"data":[]'
forge state_digest "$(head -1 "$run_dir/record.jsonl" | grep -oE '"state_digest":"[0-9a-f]*"')" '"state_digest":"0123456789abcdef"'
forge version '"version":"' '"version":"9'
forge config-member '"n_layer":"2",' ''
forge data-bytes "$(head -1 "$run_dir/record.jsonl" | grep -oE '"data":\[\{"name":"[^"]*","bytes":')" '"data":[{"name":"text","bytes":1'
list=$(tail -1 "$run_dir/record.jsonl" | grep -oE '"files":\[.*\]')
forge files-none "$list" '"files":[]'
forge files-other "$list" "$(sed 's/"model.safetensors"/"weights"/' <<<"$list")"
forge files-more "$list" "$(sed -E 's/\[(\{[^}]*\})/[\1,\1/; s/model.safetensors/more/2; s/config.json/more/2' <<<"$list")"
# That a file has other bytes than the record has of it is seen without a replay.
forge files-bytes "$list" "$(sed -E 's/("model.safetensors","bytes":)/\11/' <<<"$list")"
expect 4 'model.safetensors.*another number of bytes' verify "$work/files-bytes-forged"
python3 tools/record_check.py "$work/files-bytes-forged" >"$work/.out" 2>"$work/.err"
[[ $? -eq 4 && $(cat "$work/.err") == *"model.safetensors: the record has another number of bytes"* ]]
check $? "by the second checker too" "$(cat "$work/.out" "$work/.err")"
end=$(tail -1 "$run_dir/record.jsonl" | grep -oE '"state_digest":"[0-9a-f]*"')
# The last line repeats the state of an earlier one of its step (docs/record.md).
rewritten "$run_dir" "$work/state_digest-end-forged" "$end,\"files" '"state_digest":"0123456789abcdef","files'
expect 4 'the line does not follow the one before it' replay "$work/state_digest-end-forged"
# Weights that the run never had, with their SHA-256 in the last line: of the last state, of the best evaluation's, and of an
# average.
quartered() { # DIR TO
    python3 - "$1/model.safetensors" "$work/quarters" <<'P'
import struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
begin = 8 + struct.unpack("<Q", data[:8])[0]
data[begin:] = struct.pack("<f", 0.25) * ((len(data) - begin) // 4)
open(sys.argv[2], "wb").write(data)
P
    rewritten "$1" "$2" "$(sha256sum <"$1/model.safetensors" | cut -c 1-64)" "$(sha256sum <"$work/quarters" | cut -c 1-64)"
    cp "$work/quarters" "$2/model.safetensors"
}
# not_those WHICH DIR: both checkers find the weights.
not_those() {
    expect 4 "model.safetensors.*: the exported tensor is not that of the $1 checkpoint" verify "$2"
    python3 tools/record_check.py "$2" >"$work/.out" 2>"$work/.err"
    [[ $? -eq 4 && $(cat "$work/.err") == *"is not that of the $1 checkpoint"* ]]
    check $? "the second checker finds the weights as well" "$(cat "$work/.out" "$work/.err")"
}
quartered "$run_dir" "$work/quartered"
expect 8 'first difference: step 12, files; model.safetensors' replay "$work/quartered" --all
not_those last "$work/quartered"
expect 4 'model.safetensors.*: the exported tensor is not that of the last checkpoint' export --model "$work/quartered" --card "$work/card"
expect 0 'compared with the last checkpoint: 28 of 28 exported tensors' verify "$run_dir"
yes 'what no line of them says' | head -40 >"$work/held"
expect 0 '' "${train[@]}" --output-dir "$work/best" --validation-split 0 --eval-data "$work/held" --eval-steps 2 --save-steps 2 --learning-rate 0.02 \
    --load-best-model-at-end --json
best=$(json best_step)
[[ $best -gt 0 && $best -lt 12 ]]
check $? "the best evaluation is not the last one: $best" "$out"
expect 0 'compared with the best checkpoint: 28 of 28 exported tensors' verify "$work/best"
python3 tools/record_check.py "$work/best" | grep -q '^28 exported tensors are those of'
check $? "and the second checker has compared as many"
expect 0 'exported files: 4 of 4$' replay "$work/best" --all
quartered "$work/best" "$work/best-quartered"
expect 8 'first difference: step 12, files; model.safetensors' replay "$work/best-quartered" --all
not_those best "$work/best-quartered"
rm -r "$work/best-quartered/checkpoint-$best"
expect 0 'the checkpoint of the best evaluation, of which they are, is not here' replay "$work/best-quartered" --from 11 --to 12
expect 0 '' "${train[@]}" --output-dir "$work/average" --optim schedule_free_adamw
expect 0 'exported files: 4 of 4$' replay "$work/average" --all
quartered "$work/average" "$work/average-quartered"
expect 8 'first difference: step 12, files; model.safetensors' replay "$work/average-quartered" --all
expect 0 'compared with the last checkpoint: 28 of 28 exported tensors' verify "$work/average"
expect 4 'model.safetensors.*: the exported tensor is not that of the last checkpoint' verify "$work/average-quartered"
expect 0 '' "${train[@]}" --output-dir "$work/both" --optim schedule_free_adamw --adam-beta1 0.93 --freeze '*wpe*' --validation-split 0 \
    --eval-data "$work/held" --eval-steps 2 --save-steps 2 --learning-rate 0.02 --load-best-model-at-end
expect 0 'compared with the best checkpoint: 28 of 28 exported tensors' verify "$work/both"
expect 0 'exported files: 4 of 4$' replay "$work/both" --all
expect 0 '' "${train[@]}" --output-dir "$work/coded" --optim schedule_free_adamw_8bit
expect 0 'compared with the last checkpoint: 28 of 28 exported tensors' verify "$work/coded"
quartered "$work/coded" "$work/coded-quartered"
expect 4 'model.safetensors.*: the exported tensor is not that of the last checkpoint' verify "$work/coded-quartered"
kinds=("schedule_free_adamw --bf16" "adamw --bf16 --master split8" "adamw --bf16 --weight-dtype fp8 --save-dtype fp16")
! long_form || kinds+=("schedule_free_adamw_8bit --bf16 --master fp32" "adamw --fp16" "adamw --bf16 --weight-dtype fp8"
    "schedule_free_adamw --bf16 --save-dtype bf16")
for kind in "${kinds[@]}"; do
    read -ra options <<<"$kind"
    rm -rf "$work/narrow" "$work/narrow-quartered"
    expect 0 '' "${train[@]}" --output-dir "$work/narrow" --optim "${options[@]}"
    expect 0 'compared with the last checkpoint: 28 of 28 exported tensors' verify "$work/narrow"
    quartered "$work/narrow" "$work/narrow-quartered"
    expect 4 'model.safetensors.*: the exported tensor is not that of the last checkpoint' verify "$work/narrow-quartered"
done
expect 0 'exported files: 4 of 4$' replay "$work/coded" --all

# Tensors that a checkpoint has otherwise: of single experts, by another name, transposed. All are compared, by both checkers, and
# one changed number of any of them is found.
pricked() { # DIR FILE TENSOR
    rm -rf "$work/pricked"
    python3 - "$1/$2" "$work/point" "$3" <<'P'
import json, struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
begin = 8 + struct.unpack("<Q", data[:8])[0]
data[begin + json.loads(data[8:begin])[sys.argv[3]]["data_offsets"][1] - 1] ^= 1
open(sys.argv[2], "wb").write(data)
P
    rewritten "$1" "$work/pricked" "$(sha256sum <"$1/$2" | cut -c 1-64)" "$(sha256sum <"$work/point" | cut -c 1-64)"
    cp "$work/point" "$work/pricked/$2"
    expect 4 "$2: .*$3: the exported tensor is not that of the last checkpoint" verify "$work/pricked"
    python3 tools/record_check.py "$work/pricked" >"$work/.out" 2>"$work/.err"
    [[ $? -eq 4 && $(cat "$work/.err") == *"$3 is not that of the last checkpoint"* ]]
    check $? "$3: the second checker finds it as well" "$(cat "$work/.out" "$work/.err")"
}
whole() { # DIR COUNT
    expect 0 "compared with the last checkpoint: $2 of $2 exported tensors" verify "$1"
    python3 tools/record_check.py "$1" | grep -q "^$2 exported tensors are those of"
    check $? "$1: the second checker compares as many" "$(python3 tools/record_check.py "$1")"
}
while read -r family count tensors; do
    expect 0 '' "${train[@]}" --model "$family" --save-steps 12 --output-dir "$work/$family"
    whole "$work/$family" "$count"
    long_form || tensors=${tensors%% *}
    for tensor in $tensors; do
        pricked "$work/$family" model.safetensors "model.layers.1.$tensor"
    done
done <<'END'
tiny-mixtral 41 block_sparse_moe.experts.0.w3.weight block_sparse_moe.experts.3.w2.weight block_sparse_moe.gate.weight
tiny-olmoe 51 mlp.experts.4.up_proj.weight mlp.experts.1.gate_proj.weight mlp.experts.2.down_proj.weight
END
expect 0 '' "${train[@]}" --model tiny-olmoe --bf16 --weight-dtype fp8 --save-steps 12 --output-dir "$work/codes"
expect 0 "compared with the last checkpoint: 51 of 51 exported tensors" verify "$work/codes"
expect 0 '' "${train[@]}" --model tiny-olmoe --save-steps 12 --lora-r 3 --output-dir "$work/adapted" \
    --target-modules embed_tokens,q_proj,experts.gate_up_proj,experts.down_proj
whole "$work/adapted" 14
for tensor in embed_tokens.lora_embedding_A layers.1.mlp.experts.lora_B.weight layers.0.mlp.experts.base_layer.lora_A.weight; do
    pricked "$work/adapted" adapter_model.safetensors "base_model.model.model.$tensor"
done

# A checkpoint of which a file is missing is damaged for both checkers, also an older one.
for file in model state; do
    rm -rf "$work/lacks" && cp -r "$run_dir" "$work/lacks" && rm "$work/lacks/checkpoint-5/$file.safetensors"
    expect 4 'a checkpoint in this directory is damaged' verify "$work/lacks"
    python3 tools/record_check.py "$work/lacks" >"$work/.out" 2>"$work/.err"
    [[ $? -eq 4 && $(cat "$work/.err") == *"checkpoint-5/$file.safetensors: damaged: the file is missing"* ]]
    check $? "the second checker misses $file.safetensors" "$(cat "$work/.out" "$work/.err")"
done

# Examples, a pipe of learned rows, and a run that was continued; half precision with loss scaling.
for i in $(seq 1 40); do echo "{\"text\": \"line $i of them\", \"label\": $((i % 2))}"; done >"$work/rows.jsonl"
expect 0 '' train --model tiny-bert --task classification --data "$work/rows.jsonl" --data-format jsonl --max-seq-length 16 \
    --max-steps 6 --save-steps 2 --threads 1 --quiet --output-dir "$work/rows" --per-device-train-batch-size 4 --gradient-accumulation-steps 2 --bf16
expect 0 '^6 of 6 steps proven' replay "$work/rows" --variant portable
expect 0 '"example": [0-9]+' replay "$work/rows" --documents 2
expect 0 '' "${train[@]}" --output-dir "$work/next" --continue-from "$run_dir" --freeze '*wpe*' --freeze '*ln_f*' --adam-beta2 0.95 --learning-rate 0.001
expect 0 '^12 of 12 steps proven' replay "$work/next"
# Pruned checkpoints: one long segment from the first step, and the last one.
expect 0 '' "${train[@]}" --output-dir "$work/pruned" --save-total-limit 1
expect 0 '^12 of 12 steps proven in 1 of 1 segments' replay "$work/pruned"
# An adapter of an older program has no word of its base in the file: its record is proven as before.
# verifies record-6.d577
expect 0 '' train --model tiny-llama --load-in-4bit --lora-r 2 --data "$work/text" --max-seq-length 16 --max-steps 2 \
    --per-device-train-batch-size 2 --quiet --output-dir "$work/q"
expect 0 '^2 of 2 steps proven' replay "$work/q"
python3 - "$work/q" <<'P'
import hashlib, json, os, re, struct, sys

path = os.path.join(sys.argv[1], "adapter_model.safetensors")
data = open(path, "rb").read()
end = 8 + struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:end])
removed = [key for key in header["__metadata__"] if key.startswith("bedplate.base.")]
assert removed
before = json.dumps(header["__metadata__"], separators=(",", ":")).encode()
for key in removed:
    del header["__metadata__"][key]
after = json.dumps(header["__metadata__"], separators=(",", ":")).encode()
text = data[8:end].rstrip().replace(before, after)
assert text != data[8:end].rstrip()
text += b" " * (-len(text) % 8)
new = struct.pack("<Q", len(text)) + text + data[end:]
open(path, "wb").write(new)
record = os.path.join(sys.argv[1], "record.jsonl")
chain, lines = bytes(32), []
for line in open(record, "rb"):
    body = line.rpartition(b',"chain":"')[0]
    body = body.replace(hashlib.sha256(data).hexdigest().encode(), hashlib.sha256(new).hexdigest().encode())
    body = re.sub(rb'("name":"adapter_model.safetensors","bytes":)%d' % len(data), rb'\g<1>%d' % len(new), body)
    chain = hashlib.sha256(chain + body).digest()
    lines.append(body + b',"chain":"' + chain.hex().encode() + b'"}\n')
open(record, "wb").writelines(lines)
P
grep -q bedplate.base "$work/q/adapter_model.safetensors" && check 1 "the word is gone"
expect 0 '^2 of 2 steps proven' replay "$work/q"
finish
