#!/bin/bash
# SPDX-License-Identifier: MIT
# Offloaded experts: only those that a micro-batch uses are read, the bits are those of the run in one arena, and a step never reads
# more than its plan says.
# verifies run-43.3593
. "$(dirname "$0")/../lib.sh"

# Letters of all kinds, and one letter again and again: a token that sees nothing but itself is the same at every place, so all of
# them choose the same experts.
awk 'BEGIN { for (i = 0; i < 200; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
awk 'BEGIN { for (i = 0; i < 4000; i++) printf "a" }' >"$work/letter"
disk=$(mktemp -d "$BUILD/offload_experts.XXXXXX")
trap 'rm -rf "$work" "$disk"' EXIT
offload=(--offload "file:$disk/file:256MiB" --offload-buffered)
shape=(--max-seq-length 16 --device host)
common=("${shape[@]}" --learning-rate 1e-2 --quiet --json)

# What a step reads at most, and where every expert is chosen as often, of a plan; what it has read, of a run.
planned() {
    run plan "${shape[@]}" "${offload[@]}" --json "$@"
    most=$(json read_bytes_per_step) even=$(json even_read_bytes_per_step) written=$(json written_bytes_per_step)
}
trained() { # DATA OPTIONS
    rm -rf "$work/out"
    run train "${common[@]}" --data "$work/$1" --max-steps 3 --output-dir "$work/out" "${@:2}"
    state=$(json state_digest) read=$(json offload_read_bytes_per_step)
}
# The state with and without, over both kinds of letters. Where one token chooses, what is expected is what it reads, so that
# of one letter a step reads what it reads at most less the difference of the two of that plan.
same() { # MODEL EXPERTS TOP OPTIONS
    local options=(--model "$1" "${@:4}") plain spared
    planned "${options[@]/--poison/--json}" --max-seq-length 1
    spared=$((most - even))
    planned "${options[@]/--poison/--json}"
    [[ $code -eq 0 && $even -gt 0 && $even -lt $most ]]
    check $? "$1 ${*:4}: a plan has what is read at most, and what is expected" "$most $even $err"
    trained text "${options[@]}"
    plain=$state
    [[ -n $plain && -z $read ]]
    check $? 'without a tier nothing is read' "$out$err"
    trained text "${options[@]}" "${offload[@]}" --threads 2
    [[ -n $plain && $state == "$plain" && $read -gt 0 && $read -le $most ]]
    check $? "the same bits, and no more is read than $most" "$state $plain $read $out$err"
    trained letter "${options[@]}"
    plain=$state
    trained letter "${options[@]}" "${offload[@]}" --threads 2
    [[ $read -gt 0 && $read -eq $((most - spared)) ]]
    check $? "of one letter $3 of $2 experts are read" "$read of $most less $spared"
    [[ -n $plain && $state == "$plain" ]]
    check $? 'with the same bits' "$state $plain"
}
two=(--per-device-train-batch-size 1 --gradient-accumulation-steps 2)
lora=(--lora-r 2 --target-modules q_proj,v_proj "${two[@]}")
same tiny-mixtral 4 2 "${lora[@]}" --gradient-checkpointing none --poison
same tiny-qwen3-moe 6 2 "${lora[@]}" --gradient-checkpointing full
same tiny-gpt-oss 6 2 "${lora[@]}" --bf16 --gradient-checkpointing memory-poor
same tiny-qwen3-moe 6 2 "${lora[@]}" --target-modules q_proj,experts.gate_up_proj,experts.down_proj --load-in-4bit --bf16 \
    --gradient-release --poison
! long_form || same tiny-glm4-moe 8 3 "${lora[@]}" --load-in-8bit --gradient-checkpointing every:2 --kernels "$other_kernels"

# Weights that are trained and their states, and evaluations.
weights() { # OPTIONS
    local plain
    trained text --eval-data "$work/text" --eval-steps 2 "$@"
    plain="$state $(grep -oE '"eval_loss": [0-9.]+' <<<"$out")"
    planned "${@/--poison/--json}"
    trained text --eval-data "$work/text" --eval-steps 2 "$@" "${offload[@]}" --threads 2
    [[ -n $state && "$state $(grep -oE '"eval_loss": [0-9.]+' <<<"$out")" == "$plain" && $read -gt 0 && $read -le $most && $written -gt 0 ]]
    check $? "trained: $*: the same bits and losses, no more read than $most" "$plain $read $written $out$err"
}
weights --model tiny-olmoe "${two[@]}" --gradient-checkpointing full --poison
weights --model tiny-qwen2-moe "${two[@]}" --optim adamw_8bit --bf16 --gradient-checkpointing none

# In an arena with room, experts stay from the forward that is computed again to the backward of the same rows.
one=(--model tiny-mixtral --lora-r 2 --target-modules q_proj,v_proj --gradient-checkpointing full --per-device-train-batch-size 1
    --gradient-accumulation-steps 1)
trained text "${one[@]}"
plain=$state
run plan "${shape[@]}" "${one[@]}" --json
room=$(json arena_bytes)
planned "${one[@]}"
all=$most room=$(((room + $(json arena_bytes)) / 2))
planned "${one[@]}" --arena $room
[[ $most -lt $all && $even -lt $most && $(json resident_bytes_per_step) -gt 0 ]]
check $? 'with room some are kept' "$most of $all $out$err"
trained text "${one[@]}" "${offload[@]}" --arena $room --threads 2
[[ $state == "$plain" && $read -le $most ]]
check $? 'with the same bits' "$state $plain $read $most $out$err"

# Of several ranks nothing is offloaded.
expect 2 "of several ranks nothing is offloaded" train "${common[@]}" --data "$work/text" "${one[@]}" "${offload[@]}" --fabric threads:2 --output-dir "$work/no"
finish
