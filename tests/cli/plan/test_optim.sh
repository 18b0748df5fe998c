#!/bin/bash
# SPDX-License-Identifier: MIT
# Update rules and forms of gradient release through the program: the rules' own numbers, what the plan
# says of a form, what is refused, and that runs resume bit for bit.
. "$(dirname "$0")/../lib.sh"

data=$work/data.txt
for ((i = 0; i < 400; i++)); do echo "line $i: the quick brown fox jumps over $((i * i % 97)) dogs"; done >"$data"
# train DIR ARGUMENTS: 8 steps; the digest of the state is left in $digest.
train() {
    local directory=$work/$1
    shift
    run train --model tiny --data "$data" --output-dir "$directory" --max-steps 8 --max-seq-length 16 \
        --per-device-train-batch-size 2 --learning-rate 1e-2 --device host --threads 2 --json "$@"
    digest=$(json state_digest)
    [[ $code -eq 0 && -n $digest ]]
    check $? "train $*" "$err"
}
same() { [[ $1 == "$2" ]]; check $? "$3 ($1, $2)"; }
differ() { [[ $1 != "$2" ]]; check $? "$3 ($1)"; }

# What is no rule, and no form of gradient release.
expect 2 '^bedplate: --optim: unknown value: found "adamwhat", expected sgd, .*apollo_mini$' plan --model tiny --optim adamwhat
expect 2 '^bedplate: --optim: unknown value: found "loin", expected sgd, ' plan --model tiny --optim loin
expect 2 '^bedplate: --optim: unknown value: found "lio": the nearest is lion$' plan --model tiny --optim lio
expect 2 '^bedplate: --optim: unknown value: found "nothing", expected sgd, .*apollo_mini$' plan --model tiny --optim nothing
expect 2 '^bedplate: --gradient-release: no such value: found "often", expected exact' \
    plan --gradient-release often --model tiny

# verifies face-29.8ffc
# --optim-args: what a rule takes, and what it is told when it does not.
args='bedplate: --optim-args: '
expect 2 "^${args}not a key of this rule: found \"beta3=0.9\", expected KEY=VALUE,.. of momentum, dampening, nesterov for sgd$" \
    plan --model tiny --optim sgd --optim-args beta3=0.9
expect 2 "^${args}not a key of this rule: found \"momentum=0.9\", expected KEY=VALUE,.. of other rules, none for adamw$" \
    plan --model tiny --optim-args momentum=0.9
expect 2 "^${args}the key has an option of its own: found \"adam-beta1=0.9\", expected --adam-beta1$" plan --model tiny --optim lion --optim-args adam-beta1=0.9
expect 2 "^${args}the key has an option of its own: found \"eps=1\", expected --adam-epsilon$" plan --model tiny --optim-args eps=1
expect 2 "^${args}a key without a value: found \"momentum\"" plan --model tiny --optim sgd --optim-args momentum
expect 2 "^${args}not a number: found \"momentum=much\"" plan --model tiny --optim sgd --optim-args momentum=much
expect 2 "^${args}not a number: found \"momentum=\"" plan --model tiny --optim sgd --optim-args momentum=0.5,momentum=
expect 2 "^${args}neither true nor false: found \"nesterov=2\"" plan --model tiny --optim sgd --optim-args momentum=0.9,nesterov=2
expect 2 'momentum: has to be at least 0 and below 1' plan --model tiny --optim sgd --optim-args momentum=1
expect 2 'nesterov: nesterov needs a momentum above 0' plan --model tiny --optim sgd --optim-args nesterov=true
expect 2 'without momentum it has no state to store in 8 bits' plan --model tiny --optim sgd_8bit --optim-args momentum=0
expect 2 'alpha: has to be a number of at least 0' plan --model tiny --optim ademamix --optim-args alpha=-1
for given in 'sgd momentum=0.9,nesterov=1' 'sgd_8bit momentum=0.9,dampening=0.1' 'rmsprop alpha=0.9,momentum=0.5' \
    'lars momentum=0.8,trust_coefficient=0.02' 'ademamix alpha=2,beta3=0.99,t_alpha=10,t_beta3=10' \
    'adafactor clip_threshold=2,decay_rate=0.5,scale_parameter=1,eps2=1e-4' 'muon momentum=0.9,nesterov=0,match_rms=0' \
    'apollo rank=8,scale=2,update_proj_gap=50'; do
    expect 0 ", ${given%% *}\$" plan --model tiny --device host --optim "${given%% *}" --optim-args "${given#* }"
done
# verifies face-29.8ffc
# Rules over whole matrices: no shards, no bits where there is no state to store, no pass of one rule to measure;
# resumed across a projection that is drawn anew, and with released gradients, the same bits.
for rule in adafactor muon_8bit adam_mini_8bit apollo_mini; do
    expect 2 'shard: the update rule looks at whole tensors' plan --model tiny --optim "$rule" --ranks 2 \
        --gradient-accumulation-steps 2 --virtual-ranks 2 --shard optimizer
    expect 2 'over whole matrices' bench optim --optim "$rule" --elements 100000
done
expect 2 'param-override: its state is a few floats' plan --model tiny --optim adafactor --param-override '*:optim_bits=8'
for rule in 'adafactor scale_parameter=1' 'muon_8bit momentum=0.9' 'apollo rank=4,update_proj_gap=3' 'apollo_mini update_proj_gap=5'; do
    train "whole_$rule" --optim "${rule%% *}" --optim-args "${rule#* }"
    one=$digest
    train "cut_$rule" --optim "${rule%% *}" --optim-args "${rule#* }" --stop-at-step 4
    train "cut_$rule" --optim "${rule%% *}" --optim-args "${rule#* }" --resume
    same "$one" "$digest" "$rule: resumed"
    train "released_$rule" --optim "${rule%% *}" --optim-args "${rule#* }" --gradient-release
    same "$one" "$digest" "$rule: released"
done
# They change the result, are kept with it, and without a change resume to the same bits.
train sgd --optim sgd
one=$digest
train heavy --optim sgd --optim-args momentum=0.9
two=$digest
differ "$one" "$two" 'momentum changes what is trained'
train heavy_cut --optim sgd --optim-args momentum=0.9 --stop-at-step 3
run train --model tiny --data "$data" --output-dir "$work/heavy_cut" --max-steps 8 --max-seq-length 16 \
    --per-device-train-batch-size 2 --learning-rate 1e-2 --device host --optim sgd --optim-args momentum=0.8 --resume
[[ $code -eq 2 ]] && grep -q 'optim-args differs' <<<"$err"
check $? 'resuming with another momentum is refused' "$err"
train heavy_cut --optim sgd --optim-args momentum=0.9 --resume
same "$digest" "$two" 'a run with momentum resumed ends in the same state'

# What the plan says of the forms of gradient release.
plan=(plan --model tiny --device host --gradient-accumulation-steps 3)
expect 0 '^release +exact: what the ordinary form computes; .*: 2 \(the norm first\)' "${plan[@]}" --gradient-release
expect 0 '^release +exact: .*micro-batch: 1, .*: 1$' "${plan[@]}" --gradient-release exact --max-grad-norm 0
expect 0 '^release +previous-norm: clip factor .*micro-batch: 1, .*: 1$' "${plan[@]}" --gradient-release previous_norm
expect 0 '^release +adama: m = beta1 m .*sum g_i\^2.*micro-batch: 1, .*: 3$' "${plan[@]}" --gradient-release adama --max-grad-norm 0
run "${plan[@]}"
! grep -q '^release' <<<"$out"
check $? 'without gradient release there is no such line' "$out"
run "${plan[@]}" --gradient-release adama --max-grad-norm 0 --json
[[ $(json form) == adama && $(json backward_passes) == 1 && $(json moment_passes) == 3 ]]
check $? 'the form in JSON' "$out"
for word in true exact; do
    echo "gradient-release = $word" >"$work/run.conf"
    expect 0 '^gradient-release = exact$' plan --model tiny --config "$work/run.conf" --print-options
done
expect 0 '^gradient-release = none$' plan --model tiny --gradient-release=false --print-options
expect 2 '^bedplate: --gradient-release: no such value: found "sometimes", expected exact\|previous-norm\|adama\|none$' \
    plan --model tiny --gradient-release=sometimes
expect 0 'released in backward' plan --gradient-release --model tiny --device host
expect 2 'gradient-release: adama folds a gradient away before the norm' plan --model tiny --gradient-release adama
expect 2 'gradient-release: adama folds gradients into the moments' plan --model tiny --gradient-release adama --max-grad-norm 0 --optim lion
expect 2 'gradient-release: percentile clipping needs' plan --model tiny --gradient-release previous-norm --percentile-clipping 90
expect 2 'gradient-release: a dynamic loss scale .*fixed --loss-scale' plan --model tiny --fp16 --gradient-release previous-norm

# Clipping keeps the tape for a second backward. Where one table is most of the model, that is more
# than gradients kept would be: the plan says it, with what would be smaller, and no fit chooses it.
mkdir "$work/table"
echo '{"model_type": "bert", "vocab_size": 20000, "hidden_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 2, "intermediate_size": 128, "max_position_embeddings": 64}' >"$work/table/config.json"
table=(--model "$work/table" --task classification --num-labels 2 --max-seq-length 32
    --per-device-train-batch-size 16 --device host)
run plan "${table[@]}" --json
without=$(json arena_bytes)
run plan "${table[@]}" --gradient-release previous-norm --json
previous=$(json arena_bytes)
[[ $(json enlarges) == false && $(json arena_bytes_without) -eq $without && $previous -lt $without ]]
check $? 'a form that saves bytes is no matter' "$out"
run plan "${table[@]}" --gradient-release --json
released=$(json arena_bytes)
[[ $released -gt $without && $(json enlarges) == true && $(json arena_bytes_without) -eq $without &&
    $(json arena_bytes_previous_norm) -eq $previous ]]
check $? 'JSON says that release enlarges the arena, and what would be smaller' "$out"
grouped() { printf "%d" "$1" | rev | sed 's/.../&,/g; s/,$//' | rev; }
expect 0 "^ +it enlarges this arena: $(grouped $((released - without))) bytes more than without it \($(grouped "$without") bytes; with --gradient-release previous-norm $(grouped "$previous")\)" \
    plan "${table[@]}" --gradient-release
run plan "${table[@]}" --gradient-release --gradient-checkpointing none --arena "$released" --json
[[ $code -eq 0 && $(json form) == none && $(json arena_bytes) -eq $without ]]
check $? 'a fit leaves out a release that enlarges' "$out$err"
run plan "${table[@]}" --gradient-release --gradient-checkpointing none --arena $((released - 1)) --json
[[ $code -eq 0 && $(json form) == none ]]
check $? 'and so fits where it would not' "$out$err"
expect 0 '^--gradient-release is left out: it would enlarge' plan "${table[@]}" --gradient-release --arena "$released" \
    --gradient-checkpointing none
run plan "${table[@]}" --gradient-release --max-grad-norm 0 --arena "$without" --json
[[ $code -eq 0 && $(json enlarges) == false && $(json form) == exact ]]
check $? 'a fit keeps a release that saves' "$out$err"
{
    echo text,label
    for i in {1..16}; do echo "line $i,$((i % 2))"; done
} >"$work/rows.csv"
run train "${table[@]}" --data "$work/rows.csv" --output-dir "$work/t" --max-steps 1 --gradient-release
[[ $code -eq 0 ]] && grep -q 'bedplate: --gradient-release enlarges this arena: ' <<<"$err"
check $? 'train says it as well' "$err"

# The approximate forms resume bit for bit: the norm of the step before is part of the state.
forms() { # NAME OPTIONS: trains through, and in two pieces
    local name=$1
    shift
    train "$name" "$@"
    local whole=$digest
    train "${name}_cut" "$@" --stop-at-step 3
    train "${name}_cut" "$@" --resume
    same "$digest" "$whole" "$name resumed ends in the same state"
    digest=$whole
}
forms exact --gradient-release --gradient-accumulation-steps 2 --max-grad-norm 0.3
one=$digest
forms previous --gradient-release previous-norm --gradient-accumulation-steps 2 --max-grad-norm 0.3
differ "$digest" "$one" 'the norm of the step before clips otherwise'
forms adama --gradient-release adama --gradient-accumulation-steps 2 --max-grad-norm 0 --bf16 --optim adamw_8bit
run train --model tiny --data "$data" --output-dir "$work/previous_cut" --max-steps 8 --max-seq-length 16 \
    --per-device-train-batch-size 2 --learning-rate 1e-2 --device host --gradient-accumulation-steps 2 \
    --max-grad-norm 0.3 --gradient-release exact --resume
[[ $code -eq 2 ]] && grep -q 'gradient-release differs from the checkpoint' <<<"$err"
check $? 'another form does not resume it' "$err"

# verifies optim-8.2b0b
# Schedule-free: evaluations are at the average, which is what files hold, and change no bit of the run; it goes
# on after a stop, with an evaluation there or not, in every form.
head -30 "$data" >"$work/few.txt"
free=(--lr-scheduler-type constant_with_warmup --warmup-steps 3 --save-strategy no)
for form in "--optim schedule_free_adamw" "--optim schedule_free_adamw_8bit --bf16 --gradient-release --max-grad-norm 0" \
    "--optim schedule_free_adamw --lora-r 2 --gradient-accumulation-steps 2 --gradient-checkpointing full"; do
    rm -rf "$work"/free*
    train free $form "${free[@]}" --save-dtype fp32
    whole=$digest
    train free_e $form "${free[@]}" --save-dtype fp32 --eval-data "$work/few.txt" --eval-steps 2
    same "$digest" "$whole" "$form: evaluations change no bit"
    inside=$(grep -oE '"eval_loss": [0-9.]+' <<<"$out" | tail -1 | grep -oE '[0-9.]+')
    places=(--model "$work/free_e")
    [[ $form != *lora* ]] || places=(--model tiny --adapter "$work/free_e")
    [[ $form != *bf16* ]] || places+=(--bf16)
    run eval "${places[@]}" --data "$work/few.txt" --max-seq-length 16 --device host --threads 2 --json
    awk -v a="$inside" -v b="$(json loss)" -v most="$([[ $form == *bf16* ]] && echo 2e-3 || echo 1e-6)" \
        'BEGIN { d = a - b; exit !(a > 0 && d * d <= most * most) }'
    check $? "$form: files hold what evaluations saw ($inside, $(json loss))" "$out$err"
    train free_cut $form "${free[@]}" --save-strategy steps --stop-at-step 5
    train free_cut $form "${free[@]}" --save-strategy steps --resume
    same "$digest" "$whole" "$form: resumed it ends in the same state"
done
expect 2 'adam-beta1: the average is formed with 1 / beta1' plan --model tiny --optim schedule_free_adamw --adam-beta1 0
expect 2 'weight-dtype: this update rule evaluates an average' \
    plan --model tiny --optim schedule_free_adamw --bf16 --weight-dtype fp8 --device host
expect 2 'offload: this update rule evaluates an average' \
    plan --model tiny --optim schedule_free_adamw --device host --offload "file:$work/below:1GiB"
expect 2 'shard: this update rule evaluates an average' \
    plan --model tiny --optim schedule_free_adamw --device host --ranks 2 --shard optimizer --virtual-ranks 2 --gradient-accumulation-steps 2
finish
