#!/bin/bash
# SPDX-License-Identifier: MIT
# A second tier of memory: the bits of a run whose frozen weights live in a file are those of the run
# that has them in its arena, whatever the family, the form, the policy and the threads; the plan says
# what moves; what cannot be is refused.
# verifies run-24.0483
. "$(dirname "$0")/../lib.sh"

data=$work/data.txt
for ((i = 0; i < 300; i++)); do echo "line $i: the quick brown fox jumps over $((i * i % 97)) dogs"; done >"$data"
# The work folder may be in memory; an offload file an arena may not.
disk=$(mktemp -d "$BUILD/offload.XXXXXX")
trap 'rm -rf "$work" "$disk"' EXIT
file=$disk/offload
lora=(--lora-r 3 --target-modules all-linear --max-seq-length 32 --device host)
common=(--data "$data" --max-steps 3 --json)
offload=(--offload "file:$file:64MiB")
# Where the build folder itself is in memory, all of this goes through the page cache.
dd if=/dev/zero of="$file" bs=4096 count=1 oflag=direct status=none 2>/dev/null &&
    [[ $(stat -f -c %T "$disk") != tmpfs ]] || offload+=(--offload-buffered)
rm -f "$file"
adapts=("${lora[@]}")
digest() {
    rm -rf "$work/out"
    run train "${adapts[@]}" "${common[@]}" --output-dir "$work/out" "$@"
    state=$(json state_digest)
}

# same MODEL OPTIONS: the same state with and without the tier, which holds some of it.
same() {
    local plain moved arena
    digest --model "$@" --threads 2
    plain=$state
    arena=$(json arena_bytes)
    digest --model "$@" --threads 1 "${offload[@]}"
    moved=$state
    [[ -n $plain && $moved == "$plain" && $(json arena_bytes) -lt $arena ]]
    check $? "$* has the same bits and a smaller arena" "$plain $moved $out$err"
    run plan --model "${@/--poison/--json}" "${lora[@]}" --threads 1 "${offload[@]}" --json
    [[ $(json file_bytes) -gt 0 && $(json read_bytes_per_step) -gt 0 && $(json written_bytes_per_step) -eq 0 ]]
    check $? "and its plan says what moves" "$out$err"
}
same tiny --load-in-4bit --gradient-checkpointing full
same tiny-llama --load-in-4bit --bnb-4bit-use-double-quant false --gradient-checkpointing memory-poor --poison
same tiny-llama --load-in-8bit --bf16 --gradient-accumulation-steps 2 --per-device-train-batch-size 2 \
    --gradient-checkpointing full
same tiny-qwen3 --bf16 --gradient-checkpointing selective:norm,gelu,attention --gradient-release
! long_form || same tiny-gemma2 --load-in-4bit --gradient-checkpointing every:2 --kernels portable
same tiny-bert --task masked-lm --gradient-checkpointing full
# A table of several slices of 4 MiB.
mkdir "$work/words"
cat >"$work/words/config.json" <<'END'
{"model_type": "llama", "vocab_size": 12500, "max_position_embeddings": 64, "hidden_size": 512, "intermediate_size": 128,
 "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-6, "hidden_act": "silu",
 "tie_word_embeddings": true}
END
same "$work/words" --bf16 --per-device-train-batch-size 2 --loss-chunk-rows 40
if long_form; then
    digest --model "$work/words" --per-device-train-batch-size 1 --eval-steps 2 --validation-split 0.1
    plain=$state
    digest --model "$work/words" --per-device-train-batch-size 1 --eval-steps 2 --validation-split 0.1 "${offload[@]}"
    [[ -n $plain && $state == "$plain" ]]
    check $? "in fp32, and with evaluations" "$out$err"
fi

# The options before those by which steps are judged: a run that begins with a selftest takes 2 s more.
unjudged() { sed 's/ --replay-every .*//' <<<"$*"; }

# Masters, optimizer states and the weights that they move: every form of them, by whole gradients and released ones. The
# trust ratios of some rules need whole tensors: theirs stay.
# verifies run-27.be75
states() {
    local plain moved arena
    # shellcheck disable=SC2046
    digest --model $(unjudged "$@") --threads 2
    plain=$state
    arena=$(json arena_bytes)
    digest --model "$@" --threads 1 "${offload[@]}"
    moved=$state
    [[ -n $plain && $moved == "$plain" && $(json arena_bytes) -lt $arena ]]
    check $? "$* has the same bits and a smaller arena" "$plain $moved $out$err"
}
adapts=(--max-seq-length 32 --device host)
small=(--gradient-accumulation-steps 2 --per-device-train-batch-size 4)
states tiny
states tiny --bf16 --optim adamw_8bit --master split8 --gradient-dtype int8 "${small[@]}"
states tiny-llama --bf16 --optim adamw_4bit --gradient-release "${small[@]}"
states tiny-llama --gradient-release adama --max-grad-norm 0 --poison "${small[@]}"
states tiny --optim lion --virtual-ranks 2 "${small[@]}"
states tiny-llama --fp16 --optim sgd --optim-args momentum=0.9 --gradient-checkpointing full
states tiny-bert --task masked-lm --bf16 --master none --optim ademamix
states tiny-llama --bf16 --optim adopt --gradient-release "${small[@]}"
! long_form || states tiny-gru --optim adamw_8bit --replay-every 1 --on-spike skip
# Weights that are trained be offloaded only where that is not forbidden; then a step reads them, and its arena is smaller.
shape=(plan --model tiny-llama --max-seq-length 32 --device host --threads 1 --gradient-checkpointing full --gradient-release
    --loss-chunk-rows 32 --per-device-train-batch-size 1 --json "${offload[@]}")
run "${shape[@]}"
moved=$(json arena_bytes) read=$(json read_bytes_per_step) written=$(json written_bytes_per_step)
run "${shape[@]}" --offload-what bases,states
[[ $moved -lt $(json arena_bytes) && $read -gt $written && $(json read_bytes_per_step) -eq $(json written_bytes_per_step) ]]
check $? "weights offload: a smaller arena, and more is read than written" "$moved $read $written $out"
run "${shape[@]}" --offload-what bases
[[ $code -eq 0 && -z $(json file_bytes) ]]
check $? "nothing is frozen, so no bases are offloaded" "$out"
expect 2 'nothing is offloaded: found states, expected --offload file:PATH:BYTES' plan --model tiny --offload-what states
expect 2 'flash takes what is frozen' plan --model tiny --offload flash:1MB --offload-what bases
expect 2 'named by bases, states, weights, gradients, checkpoints and streams.*found .states,moments' "${shape[@]}" --offload-what states,moments
expect 2 'named by bases, states, weights, gradients, checkpoints and streams' "${shape[@]}" --offload-what ''
digest --model tiny-llama --gradient-checkpointing sqrt --validation-split 0.1 --eval-steps 2 --save-steps 2
plain=$state
rm -rf "$work/out"
run train --model tiny-llama --gradient-checkpointing sqrt "${adapts[@]}" "${common[@]}" --validation-split 0.1 --eval-steps 2 \
    --save-steps 2 --output-dir "$work/out" --stop-at-step 2 "${offload[@]}"
run train --model tiny-llama --gradient-checkpointing sqrt "${adapts[@]}" "${common[@]}" --validation-split 0.1 --eval-steps 2 \
    --save-steps 2 --output-dir "$work/out" --resume "${offload[@]}"
[[ -n $plain && $(json state_digest) == "$plain" ]]
check $? "trained weights offload: evaluated, saved and resumed to the same bits" "$out$err"
# Checkpoints go there once the stage behind them has been forward, where that is asked for.
# verifies run-30.64ec
leaves() {
    # shellcheck disable=SC2046
    digest --model $(unjudged "$@") --threads 2
    plain=$state
    digest --model "$@" --threads 2 "${offload[@]}"
    moved=$(json arena_bytes)
    digest --model "$@" --threads 1 "${offload[@]}" --offload-what weights,checkpoints
    [[ -n $plain && $state == "$plain" && $(json arena_bytes) -lt $moved ]]
    check $? "$* with checkpoints offload: the same bits, a smaller arena" "$plain $state $moved $out$err"
}
leaves tiny --gradient-checkpointing full
leaves tiny-llama --bf16 --gradient-release --gradient-accumulation-steps 4 --gradient-checkpointing full --poison
leaves tiny --optim lion --virtual-ranks 2 --gradient-accumulation-steps 2 --gradient-checkpointing every:2 --poison
! long_form || leaves tiny-llama --fp16 --optim sgd --gradient-checkpointing memory-poor --replay-every 1 --on-spike skip
leaves tiny-gru --gradient-release adama --max-grad-norm 0 --gradient-checkpointing full
expect 2 'beside one length' plan --model tiny --length-buckets 16,32 "${adapts[@]}" "${offload[@]}" --offload-what checkpoints
# What is added up of gradients over micro-batches goes there behind each stage, and comes back where the next
# micro-batch adds to it, in the norm and in the update; sums in 8 bits likewise.
# verifies run-32.4ea1
sinks() {
    # shellcheck disable=SC2046
    digest --model $(unjudged "$@") --threads 2
    plain=$state
    digest --model "$@" --threads 2 "${offload[@]}"
    moved=$(json arena_bytes)
    digest --model "$@" --threads 1 "${offload[@]}" --offload-what weights,gradients
    [[ -n $plain && $state == "$plain" && $(json arena_bytes) -lt $moved ]]
    check $? "$* with gradients offload: the same bits, a smaller arena" "$plain $state $(json arena_bytes) $moved $out$err"
}
grouped=(--gradient-accumulation-steps 3 --per-device-train-batch-size 2)
sinks tiny "${grouped[@]}" --gradient-checkpointing full
sinks tiny-llama --bf16 --optim adamw_8bit --gradient-checkpointing full "${grouped[@]}" --poison
sinks tiny --bf16 --optim adamw_4bit --master split8 --gradient-dtype int8 --gradient-checkpointing full "${grouped[@]}" --poison
! long_form || sinks tiny-llama --fp16 --optim sgd --gradient-checkpointing full "${grouped[@]}" --replay-every 1 --on-spike skip
sinks tiny-gru --optim lion "${grouped[@]}"
sinks tiny-bert --task masked-lm --gradient-checkpointing full --gradient-accumulation-steps 1
# A tensor of more than a part: 1,048,576 elements are brought at once.
mkdir "$work/wide"
cat >"$work/wide/config.json" <<'END'
{"model_type": "gpt2", "vocab_size": 256, "n_positions": 64, "n_embd": 600, "n_layer": 1, "n_head": 4, "resid_pdrop": 0.0,
 "embd_pdrop": 0.0, "attn_pdrop": 0.0}
END
states "$work/wide" --bf16 --optim adamw_8bit --per-device-train-batch-size 1
! long_form || sinks "$work/wide" --bf16 --optim adamw_8bit --per-device-train-batch-size 1 --gradient-accumulation-steps 2 \
    --gradient-checkpointing full
sinks "$work/wide" --bf16 --gradient-dtype int8 --per-device-train-batch-size 1 --gradient-accumulation-steps 2 \
    --gradient-checkpointing full
# Each micro-batch writes them once and all but the first read them; the norm and the update read them once more.
shape=(plan --model tiny-llama --max-seq-length 32 --device host --threads 1 --gradient-checkpointing full --json "${offload[@]}"
    "${grouped[@]}")
run "${shape[@]}"
read=$(json read_bytes_per_step) written=$(json written_bytes_per_step) moved=$(json file_bytes)
run "${shape[@]}" --offload-what weights,gradients
sunk=$((($(json written_bytes_per_step) - written) / 3))
[[ $sunk -gt 0 && $(json read_bytes_per_step) -eq $((read + 4 * sunk)) && $(json written_bytes_per_step) -eq $((written + 3 * sunk)) &&
    $(json file_bytes) -ge $((moved + sunk)) ]]
check $? "gradients offload: $sunk bytes written in each of 3 micro-batches, read in 2 of them and twice by the update" "$out"
run plan --model tiny --max-seq-length 32 --device host --threads 1 "${offload[@]}" --offload-what states --json
[[ $(json written_bytes_per_step) -gt 0 && $(json written_bytes_per_step) -eq $(json read_bytes_per_step) ]]
check $? "what is read of states is written" "$out"
written=$(json written_bytes_per_step)
seconds=$(json counted_seconds)
run plan --model tiny --max-seq-length 32 --device host --threads 1 "${offload[@]}" --offload-what states --offload-endurance 600TB --json
awk -v w="$written" -v s="$seconds" -v n="$(json steps_until_worn)" -v d="$(json days_until_worn)" '
    function near(a, b) { return (a - b) ^ 2 < 1e-12 * b * b }
    BEGIN { exit !(w > 0 && near(n, 600e12 / w) && near(d, n * s / 86400)) }'
check $? "a drive of 600 TB lasts so many steps and days" "$out"
expect 0 'worn after +[0-9,]+ steps, [0-9.e+]+ days' plan --model tiny --max-seq-length 32 --device host "${offload[@]}" \
    --offload-endurance 600TB
run plan --model tiny --max-seq-length 32 --device host --threads 1 --optim lamb "${offload[@]}" --json
[[ $code -eq 0 && -z $(json file_bytes) ]]
check $? "states of LAMB stay" "$out$err"

adapts=("${lora[@]}")

# Steps that are computed again are the same.
digest --model tiny-llama --threads 2
plain=$state
digest --model tiny-llama --threads 2 --replay-every 1 --on-spike skip "${offload[@]}"
[[ -n $plain && $state == "$plain" ]]
check $? "judged and computed again: the same bits" "$out$err"

# Evaluation and resuming find the file's bytes as well.
digest --model tiny-llama --load-in-4bit --max-steps 4 --validation-split 0.2 --eval-steps 2 --save-steps 2
whole=$state
losses=$(grep -oE '"eval_loss": [0-9.]+' <<<"$out" | sort)
rm -rf "$work/out"
run train --model tiny-llama --load-in-4bit "${lora[@]}" "${common[@]}" --max-steps 4 --validation-split 0.2 --eval-steps 2 \
    --save-steps 2 --output-dir "$work/out" --stop-at-step 2 "${offload[@]}"
parts=$(grep -oE '"eval_loss": [0-9.]+' <<<"$out")
rm -f "$file"
run train --model tiny-llama --load-in-4bit "${lora[@]}" "${common[@]}" --max-steps 4 --validation-split 0.2 --eval-steps 2 \
    --save-steps 2 --output-dir "$work/out" --resume "${offload[@]}"
[[ -n $whole && $(json state_digest) == "$whole" ]]
check $? "resumed with a new file offload: the same state" "$out$err"
parts+=$'\n'$(grep -oE '"eval_loss": [0-9.]+' <<<"$out")
[[ -n $losses && $(sort -u <<<"$losses") == "$(sort -u <<<"$parts")" ]]
check $? "evaluations are the same" "$losses / $parts"

# With --arena as little is offloaded as fits.
shapes=(--model tiny-llama "${lora[@]}" --load-in-8bit --threads 1 --gradient-checkpointing full --loss-chunk-rows 64
    --per-device-train-batch-size 8 --gradient-accumulation-steps 1 --json)
run plan "${shapes[@]}"
arena=$(json arena_bytes)
run plan "${shapes[@]}" "${offload[@]}"
least=$(json arena_bytes)
all=$(json file_bytes)
run plan "${shapes[@]}" --arena "$arena" "${offload[@]}"
[[ $code -eq 0 && -z $(json file_bytes) ]]
check $? "what fits has nothing offload" "$out$err"
run plan "${shapes[@]}" --arena $(((arena + least) / 2)) "${offload[@]}"
[[ $code -eq 0 && $(json file_bytes) -gt 0 && $(json file_bytes) -lt $all && $(json arena_bytes) -le $(((arena + least) / 2)) ]]
check $? "half as much is asked for: less than all is offloaded ($(json file_bytes) of $all)" "$out$err"
short=(--model tiny-llama --lora-r 3 --target-modules all-linear --max-seq-length 4 --device host --threads 1 --json
    --gradient-checkpointing full --per-device-train-batch-size 1 --gradient-accumulation-steps 1)
run plan "${short[@]}" --arena 1000
whole=$(grep -oE 'expected at least [0-9,]+' <<<"$err" | grep -oE '[0-9,]+$' | tr -d ,)
expect 3 "it would fit with --offload file:PATH:[0-9]+.*: [0-9,]+ bytes" plan "${short[@]}" --arena $((whole - 40000))

full=(--model tiny --max-seq-length 32 --device host --threads 1 --json --gradient-checkpointing full --loss-chunk-rows 64
    --per-device-train-batch-size 2 --gradient-accumulation-steps 1)
run plan "${full[@]}"
arena=$(json arena_bytes)
run plan "${full[@]}" "${offload[@]}"
least=$(json arena_bytes)
all=$(json file_bytes)
run plan "${full[@]}" --arena $(((arena + least) / 2)) "${offload[@]}"
[[ $code -eq 0 && $(json file_bytes) -gt 0 && $(json file_bytes) -lt $all ]]
check $? "some of the states are offloaded where that is enough" "$out$err"

# More of what is trained would be offloaded here, for the room that its weights make, if it did not write 32,768 bytes more
# in each step. Plans are the same on every machine.
run plan --model tiny --device host --threads 1 --max-seq-length 32 --gradient-checkpointing full --json \
    --per-device-train-batch-size 1 --loss-chunk-rows 32 --optim adamw_8bit --gradient-release --gradient-accumulation-steps 8 \
    "${offload[@]}" --arena 1143040
[[ $code -eq 0 && $(json resident_bytes_per_step) -gt 0 && $(json written_bytes_per_step) -le 674816 ]]
check $? "no more is written for what is kept" "$out$err"

# What moves for what was chosen is some of what moves, and where nothing is kept no less than a bound; where something
# is, no bound is printed.
bounded() {
    local moved
    moved=$(json chosen_bytes_per_step)
    [[ $moved -gt 0 && $moved -le $(($(json read_bytes_per_step) + $(json written_bytes_per_step))) ]]
    check $? "what moves for what was chosen is some of what moves" "$out$err"
    if [[ $(json resident_bytes_per_step) -gt 0 ]]; then
        [[ -z $(json least_bytes_per_step) ]]
    else
        [[ $(json least_bytes_per_step) -gt 0 && $moved -ge $(json least_bytes_per_step) ]]
    fi
    check $? "and no less than its bound, which is of plans that keep nothing" "$out$err"
}

# The choice is held against a bound, and a run that makes it has the bits of the one in one arena.
adapts=("${full[@]:2}")
digest --model tiny
plain=$state
for part in 3 5 7; do
    budget=$((least + (arena - least) * part / 8))
    digest --model tiny --arena "$budget" "${offload[@]}"
    [[ -n $plain && $state == "$plain" && $(json arena_bytes) -le $budget ]]
    check $? "as little offloaded as fits $budget bytes: the same state" "$plain $state $out$err"
    run plan "${full[@]}" --arena "$budget" "${offload[@]}"
    bounded
done
expect 0 'chosen +[0-9,]+ bytes a step move for the states .* keeps nothing are it less than [0-9,]+' plan "${full[@]/--json/--listing}" --arena "$budget" "${offload[@]}"

# Gradients come last, where they are named: some of them, held against the same bound.
shape=("${full[@]}" --gradient-accumulation-steps 3 "${offload[@]}" --offload-what weights,gradients)
run plan "${full[@]}" --gradient-accumulation-steps 3 "${offload[@]}"
arena=$(json arena_bytes)
run plan "${shape[@]}"
least=$(json arena_bytes)
budget=$(((arena + least) / 2))
digest --model tiny --gradient-accumulation-steps 3
plain=$state
digest --model tiny --gradient-accumulation-steps 3 --arena "$budget" "${offload[@]}" --offload-what weights,gradients
[[ -n $plain && $state == "$plain" && $(json arena_bytes) -le $budget ]]
check $? "as few gradients offload as fit $budget bytes: the same state" "$plain $state $out$err"
run plan "${shape[@]}" --arena "$budget"
bounded
expect 0 'chosen +[0-9,]+ bytes a step move for the gradients' plan "${full[@]/--json/--listing}" --gradient-accumulation-steps 3 "${offload[@]}" \
    --offload-what weights,gradients --arena "$budget"
# Where only they make it fit, the message says so.
shape=(plan --model tiny --max-seq-length 32 --device host --threads 1 --gradient-checkpointing full --loss-chunk-rows 32
    --per-device-train-batch-size 1 --gradient-accumulation-steps 3 --json)
run "${shape[@]}" "${offload[@]}"
arena=$(json arena_bytes)
run "${shape[@]}" "${offload[@]}" --offload-what weights,gradients
expect 3 'it would fit with --offload file:PATH:[0-9]+ --offload-what bases,weights,gradients.*: [0-9,]+ bytes' "${shape[@]}" \
    --arena $(((arena + $(json arena_bytes)) / 2))
expect 3 'it would fit with --offload file:PATH:[0-9]+ --gradient' "${shape[@]}" --arena "$arena"

# Between the arena of the plan that has all offload and the one that has nothing there, what is brought stays where there
# is room until it is used again: the larger the arena, the less is read, and the bits are the same.
# verifies run-40.2495
keeps() {
    local read=0 written=0 more=0 k budget kept
    digest --model "$@" --threads 2
    plain=$state
    run plan --model "${@/--poison/--json}" "${adapts[@]}" --threads 1 --json
    arena=$(json arena_bytes)
    run plan --model "${@/--poison/--json}" "${adapts[@]}" --threads 1 "${offload[@]}" --json
    least=$(json arena_bytes)
    [[ $least -lt $arena && -z $(json resident_bytes_per_step) ]]
    check $? "$* with all offload keeps nothing" "$least $arena $out$err"
    for k in 1 2 4 7; do
        budget=$((least + (arena - least) * k / 10))
        run plan --model "${@/--poison/--json}" "${adapts[@]}" --threads 1 "${offload[@]}" --arena "$budget" --json
        kept=$(json resident_bytes_per_step)
        [[ $(json most_resident_bytes_per_step) -ge ${kept:=0} && $(json arena_bytes) -le $budget &&
            ($read -eq 0 || ($(json read_bytes_per_step) -le $read && $(json written_bytes_per_step) -le $written)) ]]
        check $? "in $budget bytes no more is read, nor written, than in less" "$read $written $out$err"
        [[ -z $(json chosen_bytes_per_step) ]] || bounded
        read=$(json read_bytes_per_step)
        written=$(json written_bytes_per_step)
        more=$((more + kept))
    done
    [[ $more -gt 0 ]]
    check $? "and something is kept" "$out"
    run plan --model "${@/--poison/--json}" "${adapts[@]}" --threads 1 "${offload[@]}" --arena $((least + (arena - least) / 5)) --map
    [[ $out == *weight* && -z $(awk '/^  0x/ && $4 == $5' <<<"$out") ]]
    check $? "and what is read elsewhere is not on the map" "$(awk '/^  0x/ && $4 == $5' <<<"$out")"
    for k in 2 7; do
        digest --model "$@" --threads 1 "${offload[@]}" --arena $((least + (arena - least) * k / 10))
        [[ -n $plain && $state == "$plain" && $(json arena_bytes) -lt $arena ]]
        check $? "$* keeps some from use to use: the same state" "$plain $state $out$err"
    done
}
keeps tiny --gradient-checkpointing full --gradient-accumulation-steps 1 --per-device-train-batch-size 1 --loss-chunk-rows 32
keeps tiny-llama --bf16 --gradient-release --gradient-checkpointing full --gradient-accumulation-steps 4 --poison \
    --per-device-train-batch-size 1 --loss-chunk-rows 32
adapts=("${lora[@]}")
! long_form || keeps tiny-llama --load-in-4bit --gradient-checkpointing sqrt --gradient-accumulation-steps 2 --per-device-train-batch-size 1 \
    --loss-chunk-rows 32
! long_form || keeps "$work/words" --bf16 --per-device-train-batch-size 2 --gradient-accumulation-steps 1 --loss-chunk-rows 40
# Programs for shorter rows keep the same.
for ((i = 0; i < 64; i++)); do
    printf '{"prompt": "a%.*s", "completion": "c"}\n' $((i % 23)) bbbbbbbbbbbbbbbbbbbbbbb
done >"$work/rows.jsonl"
rows=("${lora[@]}" --threads 1 --gradient-checkpointing full --gradient-accumulation-steps 1 --per-device-train-batch-size 1
    --data "$work/rows.jsonl" --loss-chunk-rows 32 --length-buckets 8,16,24 --json)
run plan --model tiny-llama "${rows[@]}" "${offload[@]}"
budget=$(($(json arena_bytes) + 90000))
run train --model tiny-llama "${rows[@]}" --max-steps 8 --output-dir "$work/rows1"
plain=$(json state_digest)
run train --model tiny-llama "${rows[@]}" --max-steps 8 --output-dir "$work/rows2" "${offload[@]}" --arena "$budget"
[[ -n $plain && $(json state_digest) == "$plain" && $(grep -oE '"micro_batches": [1-9]' <<<"$out" | wc -l) -gt 2 ]]
check $? "rows of several lengths keep some from use to use: the same state" "$plain $out$err"
run plan --model tiny-llama "${rows[@]}" "${offload[@]}" --arena "$budget"
[[ $(json resident_bytes_per_step) -gt 100000 && $out == *'"length_buckets": [8, 16, 24, 32]'* ]]
check $? "and their plan says so" "$out"

# Two versions in the file: checkpoints leave there what lives there, and a run that dies goes on from its last whole
# step.
# verifies run-26.fc76
shape=(--model tiny --max-seq-length 32 --device host --threads 1 --bf16 --optim adamw_8bit --per-device-train-batch-size 2 --json)
two=(train "${shape[@]}" --data "$data" --save-steps 1 --quiet)
file2=$disk/two
kept=(--offload "file:$file2:64MiB" "${offload[@]:2}" --offload-two-versions)
run plan "${shape[@]}" --offload "file:$file2:1GiB"
once=$(json file_bytes)
run plan "${shape[@]}" --offload "file:$file2:1GiB" --offload-two-versions
[[ $(json file_bytes) -ge $((2 * once)) && $(json file_bytes) -lt $((2 * once + 65536)) ]]
check $? "a plan counts both versions ($once, $(json file_bytes))" "$out"
run "${two[@]}" --max-steps 40 --output-dir "$work/one"
plain=$(json state_digest)
whole=$(stat -c %s "$work"/one/checkpoint-40/state.safetensors)
rm -rf "$work/one"
run "${two[@]}" --max-steps 40 --output-dir "$work/two" "${kept[@]}"
[[ $code -eq 0 && -n $plain && $(json state_digest) == "$plain" ]]
check $? "two versions: the same bits" "$out$err"
[[ $(echo "$work"/two/checkpoint-*) == "$work/two/checkpoint-39 $work/two/checkpoint-40" &&
    $(stat -c %s "$work/two/checkpoint-39/state.safetensors") -lt $((whole / 2)) &&
    $(stat -c %s "$work/two/checkpoint-40/state.safetensors") -gt $((whole / 2)) ]]
check $? "the last two checkpoints are kept; the states are in the file, at the end in the checkpoint" "$(ls -l "$work"/two/*/state*)"
expect 0 'agrees with 2 checkpoints' verify "$work/two"
newest() { ls -d "$1"/checkpoint-* 2>/dev/null | sed 's/.*-//' | sort -n | tail -1; }
for ((kill = 0; kill < 2; kill++)); do
    rm -rf "$work/two"
    "$program" "${two[@]}" --max-steps 40 --output-dir "$work/two" "${kept[@]}" >/dev/null 2>&1 </dev/null &
    pid=$!
    wait_for 120 '[[ $(newest "$work/two") -ge $((3 + 8 * kill)) ]]' "$pid"
    { kill -9 "$pid"; wait "$pid"; } 2>/dev/null
    run "${two[@]}" --max-steps 40 --output-dir "$work/two" --resume "${kept[@]}"
    [[ $code -eq 0 && $(json state_digest) == "$plain" ]]
    check $? "killed between two steps, and gone on with: the same bits" "$out$err"
done
expect 0 'agrees with 2 checkpoints' verify "$work/two"
rm -rf "$work/two"
run "${two[@]}" --max-steps 40 --output-dir "$work/two" "${kept[@]}" --stop-at-step 4
expect 2 'give that file, and --offload-two-versions' "${two[@]}" --max-steps 40 --output-dir "$work/two" --resume
cp -r "$work/two" "$work/copy"
for at in 0 "$once"; do dd if=/dev/urandom of="$file2" bs=4096 seek=$((at / 4096)) count=4 conv=notrunc status=none; done
expect 4 'another state than the checkpoint records' "${two[@]}" --max-steps 40 --output-dir "$work/two" --resume "${kept[@]}"
rm -f "$file2"
expect 6 "no version of the checkpoint's step: found -1, expected 4" "${two[@]}" --max-steps 40 --output-dir "$work/copy" \
    --resume "${kept[@]}"
expect 2 'do not go with it' "${two[@]}" --max-steps 4 --output-dir "$work/no" "${kept[@]}" --on-spike rollback
expect 2 'needs an offload file' "${two[@]}" --max-steps 4 --output-dir "$work/no" --offload-two-versions
rm -f "$file2"

# What cannot be.
train=(train --model tiny-llama --load-in-4bit "${lora[@]}" "${common[@]}" --output-dir "$work/no")
expect 2 'expected file:PATH:BYTES' "${train[@]}" --offload "$file"
expect 2 'expected file:PATH:BYTES' "${train[@]}" --offload host
expect 2 'expected file:PATH:BYTES' "${train[@]}" --offload host:x:1GiB
expect 2 "in the host's memory already" "${train[@]}" --offload host:1GiB
expect 2 'expected file:PATH:BYTES' "${train[@]}" --offload "file:$file:many"
expect 3 'does not fit there: found 4096, expected at least [0-9]+' "${train[@]}" "${offload[@]:2}" --offload "file:$file:4KiB"
expect 6 'no such directory' "${train[@]}" --offload "file:$disk/none/offload:1GiB"
expect 6 'is a directory' "${train[@]}" --offload "file:$disk:1GiB"
expect 2 'has no tier' plan --model tiny-llama --load-in-4bit "${lora[@]}" --device cuda:sm_80 "${offload[@]}"
if [[ $(stat -f -c %T /dev/shm 2>&1) == tmpfs && -w /dev/shm ]]; then
    expect 2 'offload-buffered' "${train[@]}" --offload "file:/dev/shm/offload.$$:64MiB"
    expect 0 '' "${train[@]}" --offload "file:/dev/shm/offload.$$:64MiB" --offload-buffered
    rm -f "/dev/shm/offload.$$"
fi

# The file goes while the run is on: storage is at fault, and the last checkpoint is whole.
rm -rf "$work/gone"
"$program" train --model tiny-llama --load-in-4bit "${lora[@]}" --data "$data" --max-steps 100000 --save-steps 20 \
    --save-total-limit 2 --output-dir "$work/gone" "${offload[@]}" >"$work/.out" 2>"$work/.err" </dev/null &
pid=$!
wait_for 120 'compgen -G "$work/gone/checkpoint-*" >/dev/null' "$pid"
rm -f "$file"
wait "$pid"
[[ $? -eq 6 ]] && grep -q 'removed or cut off' "$work/.err"
check $? "a file that is removed ends the run with 6" "$(tail -3 "$work/.err")"
expect 0 '' verify "$work/gone"

finish
