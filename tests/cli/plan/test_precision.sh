#!/bin/bash
# SPDX-License-Identifier: MIT
# Working types, masters, 8-bit state, freezing and released gradients through the program: what
# contradicts itself, the bytes that the plan promises, and that training keeps its promises.
# verifies compile-1.aa19
. "$(dirname "$0")/../lib.sh"

# What contradicts itself is refused with what would be right.
expect 2 '^bedplate: --bf16: there is one working type: found "--bf16 --fp16"' plan --model tiny --bf16 --fp16
expect 2 '^bedplate: --fp32: there is one working type' plan --model tiny --fp32 --bf16
expect 2 '^bedplate: --master: fp32 weights are their own master: found "split"' plan --model tiny --master split
expect 2 '^bedplate: --master: only bf16.*found "split".*--master fp32 with --fp16' plan --model tiny --fp16 --master split
expect 2 '^bedplate: --loss-scale: fp16 gradients underflow.*found "none".*dynamic' plan --model tiny --fp16 --loss-scale none
expect 2 '^bedplate: --loss-scale:.*found "-3"' plan --model tiny --fp16 --loss-scale=-3
expect 2 '^bedplate: --param-override:.*found "x lr=1"' plan --model tiny --param-override 'x lr=1'
expect 2 '^bedplate: --param-override: a setting is not understood: found "optim_bits=7"' plan --model tiny --param-override '*: optim_bits=7'
expect 2 '^bedplate: --param-override: the rule sets nothing: found "\*:"' plan --model tiny --param-override '*:'
expect 2 'param-override: without momentum .*take --optim-args momentum=0.9' plan --model tiny --optim sgd --param-override '*: optim_bits=8'
expect 2 'a setting is not understood: found "rank=3"' plan --model tiny --param-override '*: lr=1,rank=3'
expect 2 'a setting is not understood: found "lr"' plan --model tiny --param-override '*: lr'
rules=()
for ((i = 0; i < 257; i++)); do rules+=(--param-override "h.$i*: lr=0"); done
expect 2 'param-override: there are too many rules.*at most 256' plan --model tiny "${rules[@]}"
expect 2 'no parameter of this model' plan --model tiny --freeze 'transformer.nothing*'
expect 2 'every parameter is frozen' plan --model tiny --freeze '*'

# A rate or a decay of some parameters does what the same of all would: a rule over every name gives the
# weights that the plain option gives, bit for bit; a rate of 0 leaves those that it names as they were.
for ((i = 0; i < 100; i++)); do echo "line $i of ale"; done >"$work/lines"
weights() {
    local name=$1
    shift
    run train --model tiny --data "$work/lines" --max-seq-length 16 --per-device-train-batch-size 4 --max-steps 3 \
        --lr-scheduler-type constant --threads 2 --quiet --output-dir "$work/rule-$name" "$@"
    check $code "train with $*" "$err"
    declare -g "$name=$(md5sum <"$work/rule-$name/model.safetensors")"
}
weights plain --learning-rate 1e-3
weights rule --learning-rate 2e-3 --param-override '*: lr=1e-3'
weights other --learning-rate 2e-3
[[ $plain == "$rule" && $plain != "$other" ]]
check $? "a rule for the rate of all is --learning-rate ($plain, $rule, $other)"
weights decay --learning-rate 1e-3 --weight-decay 0.1 --decay-all
weights decay_rule --learning-rate 1e-3 --param-override '*: weight_decay=0.1'
[[ $decay == "$decay_rule" && $decay != "$plain" ]]
check $? "a rule for the decay of all is --weight-decay with --decay-all"
weights still --learning-rate 1e-3 --param-override '*: learning_rate=0,weight_decay=0'
weights once --learning-rate 1e-3 --param-override '*: lr=0, weight_decay=0' --max-steps 1
[[ $still == "$once" && $still != "$plain" ]]
check $? "a rate of 0 learns nothing, however long"

# Bytes per parameter of GPT-2 124M, as the issue of mixed precision has them.
per() { grep -oE '"bytes_per_parameter": \{[^}]*\}' <<<"$out" | grep -oE "\"$1\": [0-9.e-]+" | cut -d' ' -f2; }
sum_below() {
    local most=$1 total
    shift
    run plan --model gpt2 --max-seq-length 64 --per-device-train-batch-size 4 --device host --json "$@"
    total=$(awk -v a="$(per weights)" -v b="$(per master)" -v c="$(per optimizer)" -v d="$(per gradients)" \
        'BEGIN { printf "%.4f", a + b + c + d }')
    awk -v t="$total" -v m="$most" 'BEGIN { exit !(t <= m && t > m - 0.2) }'
    check $? "bytes per parameter with $* ($total, at most $most)" "$err"
    [[ $(json waste_bytes) == 0 ]]
    check $? "no waste with $*" "$out"
}
all8=(--optim adamw_8bit --param-override '*: optim_bits=8')
sum_below 18.0 --bf16 --master fp32
sum_below 8.1 --bf16 "${all8[@]}"
sum_below 6.2 --bf16 "${all8[@]}" --gradient-release
sum_below 5.2 --bf16 --master split8 "${all8[@]}" --gradient-release
all4=(--optim adamw_4bit --param-override '*: optim_bits=4')
sum_below 4.2 --bf16 --master split8 "${all4[@]}" --gradient-release
sum_below 4.2 --bf16 --master none "${all8[@]}" --gradient-release
sum_below 3.2 --bf16 --master none "${all4[@]}" --gradient-release

# Full gradients in 2 bytes and in 1, listed as what they are; released ones are neither.
sum_below 8.1 --bf16 "${all8[@]}" --gradient-accumulation-steps 4 --gradient-dtype bf16
sum_below 7.3 --bf16 "${all8[@]}" --gradient-accumulation-steps 4 --gradient-dtype int8
awk -v g="$(per gradients)" 'BEGIN { exit !(g > 1.0625 && g < 1.2) }'
check $? "gradients of a byte, a sixteenth, and a stage's ($(per gradients))" "$out"
[[ $(json precision) == *'gradients bf16, added up in int8' && $(json gradient_sums) == 'full gradients added up in int8'* ]]
check $? 'the plan says that they are full gradients' "$out"
expect 0 '^gradients   full gradients added up in int8, 1.0625 bytes' plan --model tiny --gradient-dtype int8 --device host
expect 2 'gradient-dtype: .*released gradients are never full.*--gradient-dtype bf16 with --gradient-release, or int8 without' \
    plan --model tiny --gradient-dtype int8 --gradient-release

# Training: `train DIR ARGUMENTS` runs 12 steps and leaves the digest of the state in $digest.
data=$work/data.txt
for ((i = 0; i < 400; i++)); do echo "line $i: the quick brown fox jumps over $((i * i % 97)) dogs"; done >"$data"
train() {
    local directory=$work/$1
    shift
    run train --model tiny --data "$data" --output-dir "$directory" --max-steps 12 --max-seq-length 32 \
        --per-device-train-batch-size 2 --learning-rate 1e-2 --device host --threads 2 --json "$@"
    digest=$(json state_digest)
    [[ $code -eq 0 && -n $digest ]]
    check $? "train $*" "$err"
}
same() { [[ $1 == "$2" ]]; check $? "$3 ($1, $2)"; }

# Released gradients: equal bits, one and three micro-batches, clipping active.
train plain --max-grad-norm 0.5
one=$digest
train released --max-grad-norm 0.5 --gradient-release
same "$digest" "$one" 'released gradients give the same state'
train plain3 --gradient-accumulation-steps 3 --bf16 --optim adamw_8bit
one=$digest
train released3 --gradient-accumulation-steps 3 --bf16 --optim adamw_8bit --gradient-release --gradient-checkpointing sqrt
same "$digest" "$one" 'and so they do over three micro-batches in bf16 with 8-bit state'

# Sums in 8 bits: any policy and number of threads gives the same bits, and so does a resumed run.
train sums --gradient-accumulation-steps 3 --bf16 --gradient-dtype int8
one=$digest
train sums_cut --gradient-accumulation-steps 3 --bf16 --gradient-dtype int8 --gradient-checkpointing full --stop-at-step 5
train sums_cut --gradient-accumulation-steps 3 --bf16 --gradient-dtype int8 --threads 1 --resume
same "$digest" "$one" 'a run with int8 gradients resumed ends in the same state'
run train --model tiny --data "$data" --output-dir "$work/sums" --max-steps 12 --max-seq-length 32 \
    --per-device-train-batch-size 2 --learning-rate 1e-2 --device host --resume --json --bf16 \
    --gradient-accumulation-steps 3
[[ $code -eq 2 ]] && grep -q 'gradient-dtype differs from the checkpoint' <<<"$err"
check $? 'resuming with other gradients is refused' "$err"

# What is frozen keeps its bytes; the rest moves; resuming needs the same rules.
expect 0 '^frozen +.* parameters of 1 tensor \(transformer.wte.weight\), which saves at least [1-9][0-9,]* bytes' \
    plan --model tiny --freeze 'transformer.wte*' --device host
train frozen --freeze 'transformer.wte*' --stop-at-step 6
run train --model tiny --data "$data" --output-dir "$work/frozen" --max-steps 12 --max-seq-length 32 \
    --per-device-train-batch-size 2 --learning-rate 1e-2 --device host --resume --json
[[ $code -eq 2 ]] && grep -q 'freeze differs from the checkpoint' <<<"$err"
check $? 'resuming without --freeze is refused' "$err"
train whole --freeze 'transformer.wte*'
one=$digest
train frozen --freeze 'transformer.wte*' --resume
same "$digest" "$one" 'a frozen run resumed ends in the same state'

# fp16 with loss scaling runs, reports the scale, and resumes bit for bit.
train half --fp16
one=$digest
train half_cut --fp16 --stop-at-step 5
train half_cut --fp16 --resume
same "$digest" "$one" 'an fp16 run resumed ends in the same state'
finish
