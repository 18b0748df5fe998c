#!/bin/bash
# SPDX-License-Identifier: MIT
# Directories as transformers writes them, in shards and in every type, and one whose tensors lie at odd addresses:
# training no step gives every tensor back to the last bit in its own type. That the files are right, the safetensors
# package has seen (tools/golden/formats/roundtrip.py): the very same files come out again. With BP_ROUNDTRIP_OUT=DIR they are
# left there instead.
# verifies formats-5.1c0b
. "$(dirname "$0")/../lib.sh"
golden=tests/golden/roundtrip
to=${BP_ROUNDTRIP_OUT:-$work}

for ((i = 0; i < 60; i++)); do echo "$((i % 2))	line $i"; done >"$work/rows.tsv"
for ((i = 0; i < 60; i++)); do echo "line $i"; done >"$work/text"
for model in "$golden"/*/; do
    name=$(basename "$model")
    data=(--data "$work/text")
    [[ $name == bert* ]] && data=(--task classification --data "$work/rows.tsv")
    run train --model "$model" "${data[@]}" --max-seq-length 8 --per-device-train-batch-size 2 --max-steps 0 --quiet \
        --save-dtype source --output-dir "$to/$name"
    check $code "$name" "$err"
    [[ -n ${BP_ROUNDTRIP_OUT:-} ]] && continue
    [[ "$(sha256sum <"$to/$name/model.safetensors" | cut -c1-64)  $name" == "$(grep "  $name\$" $golden/sha256)" ]]
    check $? "$name: the file that safetensors has compared"
    # A second time nothing is left to change.
    run train --model "$to/$name" "${data[@]}" --max-seq-length 8 --per-device-train-batch-size 2 --max-steps 0 --quiet \
        --save-dtype source --output-dir "$to/$name-again"
    cmp -s "$to/$name/model.safetensors" "$to/$name-again/model.safetensors"
    check $? "$name: and once more" "$err"
    # And so does copying it, which keeps the tensors' order and their places.
    run export --model "$model" --to "$to/$name-copy"
    run train --model "$to/$name-copy" "${data[@]}" --max-seq-length 8 --per-device-train-batch-size 2 --max-steps 0 \
        --quiet --save-dtype source --output-dir "$to/$name-third"
    cmp -s "$to/$name/model.safetensors" "$to/$name-third/model.safetensors"
    check $? "$name: through export" "$err"
done
finish
