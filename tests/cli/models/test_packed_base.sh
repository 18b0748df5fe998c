#!/bin/bash
# SPDX-License-Identifier: MIT
# A GGUF file's packed weights stay as they are below adapters, in evaluation and in generation: the same results as with
# the floats that they stand for, in the file's bytes.
. "$(dirname "$0")/../lib.sh"

golden=tests/golden/blocks
awk 'BEGIN { for (i = 0; i < 2000; i++) printf "%c%c", i * i % 61, 0 }' >"$work/ids.bin"
mixed=(--model $golden/mixed.gguf --data "$work/ids.bin" --max-seq-length 32 --json)
learn=(train "${mixed[@]}" --lora-r 4 --target-modules all-linear --max-steps 6 --learning-rate 1e-2 --quiet)
learnt() {
    run "${learn[@]}" "$@"
    check $code "${*##*/}" "$err"
    state=$(json state_digest)
}

# Every type that llama.cpp mixes, with adapters on every layer: bits of the run over floats, for threads and policies.
learnt --dequantize --output-dir "$work/floats" --threads 2
right=$state
floats=$(json arena_bytes)
for how in "--threads 2" "--threads 1" "--threads 3 --gradient-checkpointing full" "--threads 2 --gradient-checkpointing every:2" \
    "--threads 2 --sequence-chunk 16" "--threads 2 --offload file:$work/tier:4MB"; do
    read -ra words <<<"$how"
    rm -rf "$work/packed"
    learnt "${words[@]}" --save-steps 3 --output-dir "$work/packed"
    [[ $state == "$right" ]]
    # verifies formats-8.e397
    check $? "packed weights and floats leave the same state ($how)" "$err"
done
learnt --use-dora --threads 2 --output-dir "$work/dora"
dora=$state
learnt --use-dora --threads 2 --dequantize --output-dir "$work/dora-floats"
[[ $state == "$dora" ]]
check $? "with magnitudes too" "$err"
rm -rf "$work/packed"
learnt --threads 2 --save-steps 3 --output-dir "$work/packed"
packed=$(json arena_bytes)
run "${learn[@]}" --threads 2 --resume-from-checkpoint "$work/packed/checkpoint-3" --output-dir "$work/resumed"
[[ $(json state_digest) == "$right" ]]
check $? "a run that is resumed ends there as well" "$err"

# The plan has the file's bytes of these tensors: 393,216 elements in 252,160 bytes.
weights() {
    run plan --model $golden/mixed.gguf --max-seq-length 32 --lora-r 4 --target-modules all-linear --json "$@"
    bytes=$(sed -E 's/.*"classes": \{"weights": ([0-9]*).*/\1/' <<<"$out")
}
weights --dequantize
more=$bytes
weights
[[ $((more - bytes)) -eq $((393216 * 4 - 252160)) && $packed -lt $floats ]]
check $? "packed weights take the file's bytes ($bytes of $more; arena $packed of $floats)"
run plan --model $golden/mixed.gguf --max-seq-length 32 --lora-r 4 --target-modules all-linear
grep -q "frozen base in the file's types" <<<"$out"
check $? "which the plan says" "$out"

# Evaluation and generation.
for more in "" "--adapter $work/packed"; do
    read -ra words <<<"$more"
    run eval "${mixed[@]}" "${words[@]}"
    loss=$(json loss)
    small=$(json arena_bytes)
    run eval "${mixed[@]}" "${words[@]}" --dequantize
    [[ $code -eq 0 && $(json loss) == "$loss" && $small -lt $(json arena_bytes) ]]
    check $? "the same loss in fewer bytes ($loss)" "$err"
    run generate --model $golden/mixed.gguf "${words[@]}" --prompt-ids 1,2,3 --max-new-tokens 12 --temperature 0
    text=$out
    run generate --model $golden/mixed.gguf "${words[@]}" --prompt-ids 1,2,3 --max-new-tokens 12 --temperature 0 --dequantize
    [[ $code -eq 0 && $out == "$text" ]]
    check $? "the same tokens" "$err"
done
run eval "${mixed[@]}" --bf16
[[ $code -eq 0 && $(json loss) =~ ^4\. ]]
check $? "in bf16 too" "$err"

# What cannot be.
expect 7 'cuda: model.layers.0.self_attn.q_proj.weight: .*--dequantize.*Q4_K' \
    plan --model $golden/mixed.gguf --lora-r 4 --max-seq-length 32 --device cuda:sm_80
expect 0 'bytes' plan --model $golden/mixed.gguf --lora-r 4 --max-seq-length 32 --device cuda:sm_80 --dequantize
head -c 280000 $golden/mixed.gguf >"$work/cut.gguf"
expect 4 "cut.gguf: the file's length differs" eval "${mixed[@]}" --model "$work/cut.gguf"
# bent FIND REPLACE: the file with the number behind a tensor's name changed.
bent() { LC_ALL=C sed "s/$1/$2/" $golden/mixed.gguf >"$work/bent.gguf"; }
bent 'attn_q.weight\x02\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x0c' \
    'attn_q.weight\x02\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x10'
expect 4 "bent.gguf: blk.0.attn_q.weight: a tensor's type is not .*: found 16" eval "${mixed[@]}" --model "$work/bent.gguf"
bent 'attn_q.weight\x02\x00\x00\x00\x00\x01' 'attn_q.weight\x02\x00\x00\x00\x80\x00'
expect 4 'bent.gguf: blk.0.attn_q.weight: .*no whole blocks' eval "${mixed[@]}" --model "$work/bent.gguf"
{
    head -c -300 $golden/mixed.gguf
    printf '\001'
    tail -c 299 $golden/mixed.gguf
} >"$work/other.gguf"
expect 2 'base-digest differs' "${learn[@]}" --model "$work/other.gguf" --threads 2 \
    --resume-from-checkpoint "$work/packed/checkpoint-3" --output-dir "$work/other"
finish
