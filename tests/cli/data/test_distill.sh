#!/bin/bash
# SPDX-License-Identifier: MIT
# Distillation: what a teacher says, in a file, training from that by policies, threads, packing, resumed; files of
# other data, other models, other rows and damaged ones.
# verifies layers-34.5c43
. "$(dirname "$0")/../lib.sh"

for ((i = 0; i < 40; i++)); do
    echo "{\"text\": \"line $i: $(printf 'ab%.0s' $(seq $((1 + i % 9)))) end\"}"
done >"$work/data.jsonl"
sed 's/ab/ba/g' "$work/data.jsonl" >"$work/other.jsonl"
shape=(--data "$work/data.jsonl" --max-seq-length 48)
run train --model tiny "${shape[@]}" --per-device-train-batch-size 4 --max-steps 40 --learning-rate 1e-3 --output-dir "$work/teacher"
check $code "a teacher is trained" "$err"

expect 2 'option is needed.*--output|--output' distill --model "$work/teacher" "${shape[@]}"
run distill --model "$work/teacher" "${shape[@]}" --distill-top-k 8 --output "$work/said" --json
[[ $code -eq 0 && $(json rows) -eq 20 && $(json top_k) -eq 8 ]]
check $? "what a teacher says is written" "$out$err"
[[ $(stat -c %s "$work/said") -eq $((96 + 20 * (16 + 8 * 8 * 48))) && $(json bytes) -eq $(stat -c %s "$work/said") ]]
check $? "8 bytes a token, 16 a row and 96 of a header" "$out"
run distill --model "$work/teacher" "${shape[@]}" --distill-top-k 8 --per-device-eval-batch-size 3 --threads 1 --output "$work/again"
cmp -s "$work/said" "$work/again"
check $? "other batches and threads write the same bytes" "$err"

# What stands at the output stays until there is something whole; and it is nothing that is read.
# What a killed run leaves, half a file, is no hindrance, and no part of the next.
run distill --model "$work/teacher" "${shape[@]}" --distill-top-k 4 --output "$work/whole"
head -c 1000 "$work/whole" >"$work/killed.tmp"
run distill --model "$work/teacher" "${shape[@]}" --distill-top-k 4 --output "$work/killed"
[[ $code -eq 0 && ! -e $work/killed.tmp ]] && cmp -s "$work/whole" "$work/killed"
check $? "a rerun behind a killed run makes the whole file" "$err"
mkdir "$work/again.tmp"
expect 6 'again.tmp' distill --model "$work/teacher" "${shape[@]}" --distill-top-k 4 --output "$work/again"
cmp -s "$work/said" "$work/again"
check $? "what was there is there" "$err"
rmdir "$work/again.tmp"
cp "$work/data.jsonl" "$work/data.tmp"
cat "$work/data.jsonl" "$work/teacher/model.safetensors" "$work/teacher/config.json" >"$work/before"
ln -s "$work/teacher/config.json" "$work/link"
for file in data.jsonl teacher/model.safetensors teacher/config.json link; do
    expect 2 'another path' distill --model "$work/teacher" "${shape[@]}" --output "$work/$file"
done
expect 2 'another path' distill --model "$work/teacher" --data "$work/data.tmp" --max-seq-length 48 --output "$work/data"
expect 2 'another path' distill --model "$work/teacher" --data "$work/data.jsonl" "$work/data.tmp" --data-weights 1,1 \
    --max-seq-length 48 --output "$work/data.tmp"
cat "$work/data.jsonl" "$work/teacher/model.safetensors" "$work/teacher/config.json" | cmp -s - "$work/before"
check $? "what is read is not touched"

student=(train --model tiny "${shape[@]}" --seed 5 --per-device-train-batch-size 4 --gradient-accumulation-steps 2
    --learning-rate 1e-3 --max-steps 12 --distill "$work/said" --distill-alpha 0.7 --distill-temperature 2)
run "${student[@]}" --output-dir "$work/a" --logging-steps 1 --json
check $code "train --distill" "$out$err"
digest=$(json state_digest) bytes=$(json arena_bytes)
first=$(grep -oE '"loss": [0-9.]+' <<<"$out" | head -1 | tr -dc 0-9.)
last=$(grep -oE '"loss": [0-9.]+' <<<"$out" | tail -1 | tr -dc 0-9.)
awk -v a="$first" -v b="$last" 'BEGIN { exit !(b < a) }'
check $? "the loss falls from $first to $last" "$out"
plan=$("$program" plan "${student[@]:1}" --json | grep -oE '"arena_bytes": [0-9]+' | head -1)
[[ $plan == "\"arena_bytes\": $bytes" ]]
check $? "the plan's arena is the run's" "$plan $bytes"
n=0
for more in "--gradient-checkpointing full --threads 1" "--gradient-checkpointing sqrt --loss-chunk-rows 7" "--gradient-release exact" "--length-buckets none"; do
    # shellcheck disable=SC2086
    run "${student[@]}" $more --output-dir "$work/p$((n++))" --json
    [[ $code -eq 0 && $(json state_digest) == "$digest" ]]
    check $? "$more: the same bits" "$out$err"
done
run "${student[@]}" --output-dir "$work/b" --stop-at-step 5
run "${student[@]}" --output-dir "$work/b" --resume --json
[[ $code -eq 0 && $(json state_digest) == "$digest" ]]
check $? "stopped and resumed: the same bits" "$out$err"
run "${student[@]}" --output-dir "$work/b" --resume --distill-alpha 0.6
[[ $code -eq 2 ]] && grep -q 'distill-alpha differs' <<<"$err"
check $? "another alpha is another run" "$err"

# alpha 0 is cross entropy: the losses of a run without a teacher, within rounding.
run train --model tiny "${shape[@]}" --seed 5 --per-device-train-batch-size 4 --max-steps 1 --output-dir "$work/ce" --json --logging-steps 1
plain=$(grep -oE '"loss": [0-9.]+' <<<"$out" | head -1 | tr -dc 0-9.)
run train --model tiny "${shape[@]}" --seed 5 --per-device-train-batch-size 4 --max-steps 1 --output-dir "$work/zero" --json --logging-steps 1 \
    --distill "$work/said" --distill-alpha 0
taught=$(grep -oE '"loss": [0-9.]+' <<<"$out" | head -1 | tr -dc 0-9.)
awk -v a="$plain" -v b="$taught" 'BEGIN { d = a - b; exit !(a > 0 && d * d < 1e-10) }'
check $? "alpha 0 has the loss of cross entropy: $plain, $taught" "$out$err"

run train --model tiny "${shape[@]}" --max-steps 2 --distill "$work/said" --distill-alpha 1 --output-dir "$work/one"
check $code "alpha 1 is the teacher alone" "$err"

# Packed rows.
run distill --model "$work/teacher" "${shape[@]}" --packing --output "$work/packed"
check $code "packed rows of a teacher" "$err"
run train --model tiny "${shape[@]}" --packing --max-steps 4 --distill "$work/packed" --output-dir "$work/k" --json
check $code "train --packing --distill" "$err"
expect 4 'hold several documents' train --model tiny "${shape[@]}" --max-steps 1 --distill "$work/packed" --output-dir "$work/x"

# On a GPU, which here is the instrument of tools/ptxvm: the teacher's tokens and the losses of the host.
if [[ -e $BUILD/ptxvm/libcuda.so.1 ]]; then
    gpu=(--device cuda --per-device-train-batch-size 2 --max-steps 2 --logging-steps 1 --json)
    LD_LIBRARY_PATH=$PWD/$BUILD/ptxvm run distill --model "$work/teacher" "${shape[@]}" --distill-top-k 8 --device cuda --output "$work/gpu"
    [[ $code -eq 0 && $(stat -c %s "$work/gpu") -eq $(stat -c %s "$work/said") ]]
    check $? "a teacher on the instrument" "$err"
    LD_LIBRARY_PATH=$PWD/$BUILD/ptxvm run train --model tiny "${shape[@]}" "${gpu[@]}" --distill "$work/gpu" --distill-temperature 2 --output-dir "$work/g"
    found=$(grep -oE '"loss": [0-9.]+' <<<"$out" | tr -dc '0-9. ')
    run train --model tiny "${shape[@]}" "${gpu[@]:2}" --distill "$work/said" --distill-temperature 2 --output-dir "$work/h"
    wanted=$(grep -oE '"loss": [0-9.]+' <<<"$out" | tr -dc '0-9. ')
    awk -v a="$found" -v b="$wanted" 'BEGIN { n = split(a, x, " "); split(b, y, " ");
        for (i = 1; i <= n; i++) { d = x[i] - y[i]; if (d * d > 1e-10) exit 1 } exit n < 2 }'
    check $? "the losses of the host: $wanted, $found" "$err"
fi

# A service finds the file from any folder.
run plan --model tiny "${shape[@]}" --distill "../$(realpath --relative-to=.. "$work/said")" --output-dir "$work/u" --unit systemd
[[ $out == *"--distill $PWD/../"* ]]
check $? "a unit has the whole path of what is said" "$code $out$err"

# What is not for this run.
ln -s loop "$work/loop"
expect 4 'cannot be read' plan --model tiny "${shape[@]}" --distill "$work/none"
expect 4 'no file that .bedplate distill. made' train --model tiny "${shape[@]}" --distill "$work/data.jsonl" --output-dir "$work/x"
expect 4 'from other data' train --model tiny --data "$work/other.jsonl" --max-seq-length 48 --distill "$work/said" --output-dir "$work/x"
expect 4 'another length' train --model tiny --data "$work/data.jsonl" --max-seq-length 32 --distill "$work/said" --output-dir "$work/x"
head -40 "$work/data.jsonl" | sed '20s/end/ned/' >"$work/changed.jsonl"
expect 4 'from other data' train --model tiny --data "$work/changed.jsonl" --max-seq-length 48 --max-steps 10 --num-train-epochs 1 --distill "$work/said" --output-dir "$work/x"
cp "$work/said" "$work/bad"
printf '\x7f' | dd of="$work/bad" bs=1 seek=$((64 + 8 + 100)) conv=notrunc 2>/dev/null
expect 4 'a row of the distillation file is damaged: row: found 1' train --model tiny "${shape[@]}" --max-steps 20 --distill "$work/bad" --output-dir "$work/y"
cp "$work/said" "$work/bad"
printf '\x7f' | dd of="$work/bad" bs=1 seek=20 conv=notrunc 2>/dev/null
expect 4 'header of the distillation file is damaged' plan --model tiny "${shape[@]}" --distill "$work/bad"
run distill --model tiny "${shape[@]}" --distill-top-k 8 --output "$work/bad"
head -c $((96 + 10 * (16 + 8 * 8 * 48))) "$work/said" | dd of="$work/bad" conv=notrunc 2>/dev/null
expect 4 'its rows differ from its header' train --model tiny "${shape[@]}" --max-steps 1 --distill "$work/bad" --output-dir "$work/x"
head -c 9000 "$work/said" >"$work/bad"
expect 4 'not complete' plan --model tiny "${shape[@]}" --distill "$work/bad"
for command in "distill --output $work/x.said" "plan --distill $work/said"; do
    # shellcheck disable=SC2086
    expect 2 'recurrent net.s logits' $command --model tiny-gru "${shape[@]}"
done
expect 2 'has no teacher' plan --model tiny "${shape[@]}" --distill "$work/said" --max-steps 2 --length-buckets none --emit-c "$work/c"
expect 2 'left to right' plan --model tiny-bert --task masked-lm "${shape[@]}" --distill "$work/said"
expect 2 'no smoothed labels' plan --model tiny "${shape[@]}" --distill "$work/said" --label-smoothing-factor 0.1
expect 6 'loop \(open\)' plan --model tiny "${shape[@]}" --distill "$work/loop"
for option in --distill-alpha --distill-temperature; do
    expect 2 "${option#--}: there is no teacher.*--distill FILE with it" plan --model tiny "${shape[@]}" "$option" 0.9
done
for option in --length-buckets=4 --pooling=cls --normalize=true --prompt-name=query; do
    expect 2 "${option%=*}" distill --model "$work/teacher" "${shape[@]}" --output "$work/x.said" "$option"
done
expect 2 'data-weights.*numbers from 0|numbers from 0.*data-weights' distill --model "$work/teacher" "${shape[@]}" --data-weights nonsense --output "$work/x.said"
expect 2 'a weight for each argument' distill --model "$work/teacher" "${shape[@]}" --data-weights 1,2 --output "$work/x.said"
expect 2 'distill-top-k' distill --model "$work/teacher" "${shape[@]}" --distill-top-k 200 --output "$work/x.said"

echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
