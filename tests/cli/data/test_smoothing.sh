#!/bin/bash
# SPDX-License-Identifier: MIT
# --label-smoothing-factor and --class-weights: losses of an evaluation from its logits by the formula, in
# awk; the kernels themselves are compared with PyTorch in tests/unit/device/host/rows/test_loss_golden.c.
. "$(dirname "$0")/../lib.sh"

words=(ale beer stout)
for ((i = 0; i < 60; i++)); do
    label=$((i % 7 < 4 ? 0 : i % 7 < 6 ? 1 : 2))
    printf '%d\tbottle %d of %s\n' $label "$i" "${words[$label]}"
done >"$work/train.tsv"
head -n 23 "$work/train.tsv" >"$work/held.tsv"
classes=(train --model tiny-bert --task classification --num-labels 3 --data "$work/train.tsv" --max-seq-length 24
    --per-device-train-batch-size 4 --gradient-accumulation-steps 2 --threads 1 --dropout 0 --quiet --json
    --save-steps 0 --logging-steps 1)

# loss SMOOTHING WEIGHTS: of $work/rows, as torch.nn.functional.cross_entropy defines it.
loss() {
    sed -E 's/.*"label": "LABEL_([0-9]+)".*"logits": \[([^]]*)\].*/\1 \2/; s/,//g' "$work/rows" | awk -v e="$1" -v w="$2" '
        BEGIN { split(w, weight, ",") }
        {
            most = $2; sum = 0; all = 0
            for (i = 2; i <= NF; i++) most = $i > most ? $i : most
            for (i = 2; i <= NF; i++) sum += exp($i - most)
            lse = most + log(sum)
            for (i = 2; i <= NF; i++) all += weight[i - 1] * (lse - $i)
            total += (1 - e) * weight[$1 + 1] * (lse - $($1 + 2)) + e / (NF - 1) * all
            rows += weight[$1 + 1]
        }
        END { printf "%.9g\n", total / rows }'
}
close() { # A B: equal to 2e-6 of it
    awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; d = d < 0 ? -d : d; exit !(b != "" && d <= 2e-6 * b) }'
}

number=0
judged() { # SMOOTHING WEIGHTS OPTIONS..
    number=$((number + 1))
    run "${classes[@]}" --eval-data "$work/held.tsv" --max-steps 6 --output-dir "$work/c$number" "${@:3}"
    check $code "${*:3}" "$err"
    local found
    found=$(json eval_loss)
    digest=$(json state_digest)
    run eval --model "$work/c$number" --data "$work/held.tsv" --max-seq-length 24 --predictions "$work/rows" --json
    check $code "eval" "$err"
    close "$found" "$(loss "$1" "$2")"
    check $? "${*:3}: the loss $found is that of the formula, $(loss "$1" "$2")"
}
judged 0 1,1,1 --seed 1
plain=$digest
judged 0 1,1,1 --seed 1 --label-smoothing-factor 0 --class-weights 1,1,1
[[ $digest == "$plain" ]]
check $? "weights of 1 change no bit"
judged 0.1 1,1,1 --seed 1 --label-smoothing-factor 0.1
[[ $digest != "$plain" ]]
check $? "smoothing does"
judged 0 0.5,2,7 --seed 1 --class-weights 0.5,2,7
judged 0.3 0.5,2,0 --seed 1 --class-weights 0.5,2,0 --label-smoothing-factor 0.3
counts=$(awk '{ n[$1]++ } END { printf "%.9g,%.9g,%.9g", NR / 3 / n[0], NR / 3 / n[1], NR / 3 / n[2] }' "$work/train.tsv")
judged 0 "$counts" --seed 1 --class-weights balanced
balanced=$digest
judged 0 "$counts" --seed 1 --class-weights "$counts"
[[ $digest == "$balanced" ]]
check $? "balanced is $counts"

# verifies face-24.2c85
# Exact under accumulation: one group of 8, however it is divided, has the same mean.
for shape in 8x1 4x2 2x4 1x8; do
    run "${classes[@]}" --max-steps 1 --output-dir "$work/g$shape" --class-weights 0.5,2,7 --label-smoothing-factor 0.1 \
        --per-device-train-batch-size ${shape%x*} --gradient-accumulation-steps ${shape#*x}
    found="$(head -1 <<<"$out" | grep -oE '"loss": [^,]*' | sed 's/.*: //') $(head -1 <<<"$out" | grep -oE '"grad_norm": [^,]*' | sed 's/.*: //')"
    first=${first:-$found}
    close "${found% *}" "${first% *}" && close "${found#* }" "${first#* }"
    check $? "$shape: loss and gradient norm $found, $first" "$err"
done

# Of a language model: any policy, release and slices of the table give the same bits; chunks and 16 bits work.
awk 'BEGIN { for (i = 0; i < 60; i++) print i, "bottles of ale" }' >"$work/text"
lm=(train --model tiny --data "$work/text" --max-seq-length 16 --per-device-train-batch-size 4 --threads 2 --max-steps 4
    --quiet --json --label-smoothing-factor 0.2 --logging-steps 1 --max-grad-norm 0)
run "${lm[@]}" --output-dir "$work/lm"
whole=$(json state_digest) loss=$(grep -oE '"loss": [^,]*' <<<"$out" | tail -1 | sed 's/.*: //')
check $code "a language model" "$err"
forms=("--kernels $other_kernels")
[[ $other_kernels == avx2 ]] || ! grep -qw avx2 /proc/cpuinfo || forms+=("--kernels avx2")
for options in "--gradient-release" "--gradient-checkpointing full" "${forms[@]}"; do
    # shellcheck disable=SC2086
    run "${lm[@]}" --output-dir "$work/lm${options// /}" $options
    [[ $code -eq 0 && $(json state_digest) == "$whole" ]]
    check $? "$options: the same bits" "$err"
done
for options in "--loss-chunk-rows 7" "--bf16" "--model tiny-llama" "--model tiny-gru" "--model tiny-bert"; do
    # shellcheck disable=SC2086
    run "${lm[@]}" --output-dir "$work/lm${options// /}" $options
    check $code "$options" "$err"
    [[ $options == *chunk* ]] && { close "$(grep -oE '"loss": [^,]*' <<<"$out" | tail -1 | sed 's/.*: //')" "$loss"; check $? "chunks: $loss" "$out"; }
done

# Plans know of it, to the byte; other values are other runs; what cannot be is refused.
run plan --model tiny-bert --task classification --num-labels 3 --max-seq-length 24 --per-device-train-batch-size 4 \
    --gradient-accumulation-steps 2 --class-weights balanced --label-smoothing-factor 0.1 --dropout 0 --threads 1 --json
planned=$(json arena_bytes)
run "${classes[@]}" --max-steps 1 --output-dir "$work/planned" --class-weights balanced --label-smoothing-factor 0.1
[[ $code -eq 0 && $(json arena_bytes) == "$planned" ]]
check $? "the plan is $planned bytes" "$out$err"
run "${classes[@]}" --max-steps 2 --stop-at-step 1 --output-dir "$work/run" --class-weights 1,2,3 --label-smoothing-factor 0.1
check $code "stopped" "$err"
expect 2 'class-weights differs from the checkpoint.s' "${classes[@]}" --max-steps 2 --output-dir "$work/run" --resume \
    --class-weights 1,2,4 --label-smoothing-factor 0.1
expect 2 'label-smoothing-factor differs from the checkpoint.s' "${classes[@]}" --max-steps 2 --output-dir "$work/run" --resume \
    --class-weights 1,2,3
run "${classes[@]}" --max-steps 2 --output-dir "$work/run" --resume --class-weights 1,2,3 --label-smoothing-factor 0.1
check $code "resumed" "$err"
wrong() {
    expect "$1" "$2" "${classes[@]}" --max-steps 1 --output-dir "$work/x" "${@:3}"
}
wrong 2 'class-weights: there has to be a weight for each class: found 2, expected 3' --class-weights 1,2
wrong 2 'class-weights: the weights are numbers of at least 0, or balanced: found "-1"' --class-weights 1,2,-1
wrong 2 'class-weights: the weights are numbers of at least 0, or balanced: found "heavy"' --class-weights heavy
wrong 4 'class-weights: balanced needs rows of every class; this one has none: found 3' --class-weights balanced --num-labels 4
wrong 2 'label-smoothing-factor: the value is out of range' --label-smoothing-factor 1
wrong 2 'label-smoothing-factor: labels are smoothed where' --task regression --num-labels 1 --label-smoothing-factor 0.1
expect 2 'class-weights: weights go with --task classification and token-classification' "${lm[@]}" --output-dir "$work/x" --class-weights 1,2
finish
