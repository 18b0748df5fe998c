#!/bin/bash
# SPDX-License-Identifier: MIT
# preprocessor_config.json: images are resized, cut and normalised to the bits that transformers' processors compute (with
# Pillow), a run keeps the file; what is not computed is refused.
# verifies formats-52.a562
. "$(dirname "$0")/../lib.sh"
golden=tests/golden/prep
if ! ls /usr/lib/*/libpng16.so.16 /lib/*/libpng16.so.16 >/dev/null 2>&1; then
    echo "skipped: PNG images need libpng16.so.16"
    finish
fi
printf 'file_name,label\n%s,0\n%s,1\n' "$PWD/$golden/tall.png" "$PWD/tests/golden/pictures/colour.png" >"$work/list.csv"
net() { # net FOLDER SIZE
    mkdir -p "$work/$1"
    echo '{"model_type": "cnn", "image_height": '"$2"', "image_width": '"$2"', "num_labels": 2,
           "layers": ["conv 4 3 plain linear", "mean-pool 4 stride 4"]}' >"$work/$1/config.json"
}
learn() { # learn NET DATA..
    rm -rf "$work/out"
    run train --model "$work/$1" --data "${@:2}" --per-device-train-batch-size 2 --max-steps 2 --learning-rate 1e-2 --json \
        --output-dir "$work/out"
}
net bare 16
cases=0
for case in "$golden"/*/; do
    net images 16
    cp "$case/preprocessor_config.json" "$work/images"
    learn bare "$case/x.npy"
    right=$(json state_digest)
    check $code "$case: the array" "$err"
    learn images "$work/list.csv" --data-format imagefolder
    [[ $code -eq 0 && -n $right && $(json state_digest) == "$right" ]] &&
        cmp -s "$work/out/preprocessor_config.json" "$case/preprocessor_config.json"
    check $? "$case: the bits of transformers, and the file goes along" "$out$err"
    cases=$((cases + 1))
done
[[ $cases -eq 6 ]]
check $? "six processors"

refused() { # refused PATTERN JSON [SIZE]
    net images "${3:-16}"
    echo "$2" >"$work/images/preprocessor_config.json"
    learn images "$work/list.csv" --data-format imagefolder
    [[ $code -eq 4 ]] && grep -qE "$1" <<<"$err"
    check $? "$2: refused ($1; $code)" "$err"
}
half='"image_mean": [0.5], "image_std": [0.5]'
refused 'preprocessor_config.json: resample: .*bilinear' "{\"resample\": 1, $half}"
refused 'image_std' '{"size": 16}'
refused 'image_std' '{"size": 16, "image_mean": [0.5], "image_std": [0]}'
refused 'image_mean' '{"size": 16, "image_mean": [1, 2], "image_std": [1]}'
for part in 1e-300 0.001 1.5 200; do
    refused 'crop_pct' "{\"size\": {\"shortest_edge\": 16}, \"crop_pct\": $part, $half}"
done
refused 'size' "{\"size\": {\"height\": 16}, $half}"
refused 'size' "{\"size\": 0, $half}"
refused 'size' "{\"size\": {\"longest_edge\": 16}, $half}"
refused 'do_resize' "{\"do_resize\": 3, $half}"
refused 'list.csv:3: .*colour.png: .*smaller than what' \
    "{\"do_resize\": false, \"do_center_crop\": true, \"crop_size\": 16, $half}"
refused 'tall.png: .*another height.*found 16, expected 8' "{\"size\": 16, $half}" 8
refused 'JSON' '[1]'
finish
