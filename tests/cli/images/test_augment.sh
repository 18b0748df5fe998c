#!/bin/bash
# SPDX-License-Identifier: MIT
# Crops and flips of images at random: the same bits however a step is computed, none in evaluations, refused where there is
# no image. What is done to an image: tests/unit/tools/formats/images/test_image_augment.c.
# verifies formats-53.d3f0
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (k = 0; k < 40; k++) {
    for (i = 0; i < 64; i++) printf "%.3f,", ((i * i + 7 * k * i) % 11 - 5) / 8 + (k % 3 - 1) * (i % 8 - 4) / 3
    print k % 3 } }' >"$work/images.csv"
mkdir "$work/net"
echo '{"model_type": "cnn", "image_height": 8, "image_width": 8, "num_channels": 1, "num_labels": 3,
       "layers": ["conv 4 3 plain", "conv 6 3 stride 2 plain", "mean-pool all"]}' >"$work/net/config.json"
common=(train --model "$work/net" --data "$work/images.csv" --max-steps 10 --learning-rate 1e-2 --quiet --json --save-steps 0
    --logging-steps 1)
flips=(--random-horizontal-flip 0.5)
seen=
for more in "--random-crop 2" "--random-resized-crop 0.3" "--random-horizontal-flip 1"; do
    rm -rf "$work"/[a-e]
    # shellcheck disable=SC2086
    same_bits --model "$work/net" --threads 2 $more -- "${common[@]}" $more --threads 2
    [[ $seen != *$(json state_digest)* ]]
    check $? "$more is its own result"
    seen+=" $(json state_digest)"
done
run "${common[@]}" --output-dir "$work/plain" --per-device-train-batch-size 8
[[ $code -eq 0 && $seen != *$(json state_digest)* ]]
check $? "nothing is done where nothing was asked for" "$out$err"
plain=$(json state_digest)
run "${common[@]}" --output-dir "$work/none" --per-device-train-batch-size 8 --random-crop 0 --random-horizontal-flip 0
[[ $(json state_digest) == "$plain" ]]
check $? "0 is nothing" "$out$err"

# A sample is one of its group, however that is cut into micro-batches.
losses=()
for cut in "8 1" "2 4"; do
    run "${common[@]}" --output-dir "$work/cut${cut% *}" --random-crop 2 "${flips[@]}" --max-steps 1 \
        --per-device-train-batch-size "${cut% *}" --gradient-accumulation-steps "${cut#* }"
    losses+=("$(head -n 1 <<<"$out" | grep -oE '"loss": [0-9.e+-]+' | cut -d' ' -f2)")
done
awk -v a="${losses[0]}" -v b="${losses[1]}" 'BEGIN { d = a - b; exit !(a > 0 && d * d < 1e-12) }'
check $? "one batch of 8 or four of 2: the same images" "${losses[*]}"

# Lanes over any number of ranks; another seed is another run.
lanes=("${common[@]}" "${flips[@]}" --random-crop 2 --per-device-train-batch-size 2 --gradient-accumulation-steps 4 --virtual-ranks 4)
run "${lanes[@]}" --output-dir "$work/l1"
one=$(json state_digest)
run "${lanes[@]}" --output-dir "$work/l2" --fabric threads:2
[[ -n $one && $(json state_digest) == "$one" ]]
check $? "two ranks: the same bits" "$out$err"
run "${lanes[@]}" --output-dir "$work/l3" --data-seed 7
[[ $code -eq 0 && $(json state_digest) != "$one" ]]
check $? "another seed: other images" "$out$err"

# Evaluation never changes images: at a learning rate of 0 its loss is that of the model, while training's moves.
still=("${common[@]}" --eval-data "$work/images.csv" --learning-rate 0 --per-device-train-batch-size 8)
run "${still[@]}" --output-dir "$work/s1"
loss=$(json eval_loss) first=$(head -n 1 <<<"$out" | grep -oE '"loss": [0-9.e+-]+')
run "${still[@]}" --output-dir "$work/s2" --random-crop 3 "${flips[@]}"
[[ -n $loss && $(json eval_loss) == "$loss" ]]
check $? "evaluations see images as they are" "$out$err"
[[ -n $first && $(head -n 1 <<<"$out" | grep -oE '"loss": [0-9.e+-]+') != "$first" ]]
check $? "training does not" "$out$err"

run "${common[@]}" --output-dir "$work/r" --per-device-train-batch-size 8 "${flips[@]}"
grep -rqa 'random-horizontal-flip' "$work/r"
check $? "the result's keys name it" "$(ls "$work/r")"
expect 2 'resume: random-horizontal-flip differs' "${common[@]}" --output-dir "$work/r" --per-device-train-batch-size 8 --resume \
    --random-horizontal-flip 0.25
expect 2 '--random-resized-crop.*give either|give either.*--random-resized-crop' "${common[@]}" --output-dir "$work/x" \
    --random-crop 1 --random-resized-crop 0.5
expect 2 '--random-crop.*8|8.*--random-crop' "${common[@]}" --output-dir "$work/x" --random-crop 8
expect 2 'random-horizontal-flip' "${common[@]}" --output-dir "$work/x" --random-horizontal-flip 1.5
for command in plan train; do
    expect 2 '--random-crop.*reads none|reads none.*--random-crop' $command --model tiny-mlp --data "$work/images.csv" --random-crop 1
done
expect 2 'crops and flips no images' plan --model "$work/net" --emit-c "$work/x" --max-steps 5 "${flips[@]}"
finish
