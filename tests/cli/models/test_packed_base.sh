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
    "--threads 2 --sequence-chunk 16" "--threads 2 --loss-chunk-rows 7" "--threads 2 --offload file:$work/tier:4MB"; do
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

# The plan has the file's bytes of these tensors and of the token embedding, each aligned: 425,984 elements in 283,008 bytes.
weights() {
    run plan --model $golden/mixed.gguf --max-seq-length 32 --lora-r 4 --target-modules all-linear --json "$@"
    bytes=$(sed -E 's/.*"classes": \{"weights": ([0-9]*).*/\1/' <<<"$out")
}
weights --dequantize
more=$bytes
weights
left=$((425984 * 4 - 283008 - (more - bytes)))
[[ $left -ge 0 && $left -lt $((8 * 256)) && $packed -lt $floats ]]
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
run eval "${mixed[@]}" --token-accuracy
accuracy=$out
run eval "${mixed[@]}" --token-accuracy --dequantize
[[ $(sed -E 's/.*"(token_accuracy|accuracy)": ([0-9.]*).*/\2/' <<<"$out") == $(sed -E 's/.*"(token_accuracy|accuracy)": ([0-9.]*).*/\2/' <<<"$accuracy") ]]
check $? "logits that are kept are the same" "$out$accuracy"
for words in --bf16 "--bf16 --token-accuracy" --fp16; do
    read -ra more <<<"$words"
    run eval "${mixed[@]}" "${more[@]}"
    loss=$(json loss)
    run eval "${mixed[@]}" "${more[@]}" --dequantize
    # In fp16 each is rounded alike; in bf16 ties go another way.
    awk -v a="$loss" -v b="$(json loss)" -v most="$([[ $words == --fp16 ]] && echo 0 || echo 0.01)" \
        'BEGIN { d = a - b; exit !(a > 0 && d <= most && -d <= most) }'
    check $? "a loss with $words: $loss, as of floats" "$out$err"
done

# The adapter alone, as llama.cpp loads it beside the file: keys, and a pair for each tensor in the file's order of rows.
run export --model $golden/mixed.gguf --adapter "$work/packed" --to "$work/adapter.gguf" --json
[[ $code -eq 0 && $(json type) == adapter && $(json tensors) -eq 14 && $(json parameters) -eq 13312 ]]
check $? "an adapter is exported alone" "$out$err"
LC_ALL=C grep -aq 'general.type.*adapter.*adapter.type.*lora.*adapter.lora.alpha' "$work/adapter.gguf" &&
    LC_ALL=C grep -aq 'blk.0.attn_q.weight.lora_a.*blk.0.attn_q.weight.lora_b' "$work/adapter.gguf"
check $? "with the keys and names of the format"
run import --from $golden/mixed.gguf --to "$work/directory"
run export --model "$work/directory" --adapter "$work/packed" --to "$work/again.gguf"
cmp -s "$work/adapter.gguf" "$work/again.gguf"
# verifies formats-7.5b71
check $? "the same beside the file and beside the directory that it was imported to" "$err"
# Its numbers: what B's rows times A add to the file's weights are the merged file's.
run export --model $golden/mixed.gguf --adapter "$work/packed" --merge --to "$work/merged.gguf"
check $code "a GGUF file with its adapter merged is a GGUF file" "$err"
run eval "${mixed[@]}" --adapter "$work/packed"
loss=$(json loss)
run eval "${mixed[@]}" --model "$work/merged.gguf"
awk -v a="$loss" -v b="$(json loss)" 'BEGIN { d = a - b; exit !(a > 0 && d * d < 1e-12) }'
check $? "whose loss is that of base and adapter ($loss, $(json loss))" "$err"
for kind in q8_0 q5_0 q5_1 q4_0 q4_1 q4_k q5_k q6_k; do
    run export --model $golden/mixed.gguf --adapter "$work/packed" --merge --save-quant $kind --to "$work/$kind.gguf"
    run eval "${mixed[@]}" --model "$work/$kind.gguf"
    awk -v a="$loss" -v b="$(json loss)" 'BEGIN { d = a - b; exit !(d * d < 0.15 * 0.15) }'
    check $? "merged in $kind it is near ($loss, $(json loss))" "$err"
done
run eval "${mixed[@]}" --model "$work/q8_0.gguf"
small=$(json arena_bytes)
run eval "${mixed[@]}" --model "$work/q8_0.gguf" --dequantize
[[ $small -lt $(json arena_bytes) ]]
check $? "and stays packed"
run export --model "$work/directory" --save-quant q4_0 --to "$work/one.gguf"
mkdir "$work/read"
run import --from "$work/one.gguf" --to "$work/read/directory"
run export --model "$work/read/directory" --save-quant q4_0 --to "$work/two.gguf"
cmp -s "$work/one.gguf" "$work/two.gguf"
check $? "what was packed is packed again to the same bytes" "$err"
# Types by their numbers in the file: rows of 256 in blocks of K, narrower ones in what llama.cpp takes for them.
types() { # FILE
    python3 - "$1" <<'P'
import struct, sys
data = open(sys.argv[1], "rb").read()
number, at = struct.unpack_from("<QQ", data, 8), 24
def text(at):
    n = struct.unpack_from("<Q", data, at)[0]
    return data[at + 8:at + 8 + n].decode("utf-8", "replace"), at + 8 + n
SIZE = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
def value(kind, at):
    if kind == 8:
        return text(at)
    if kind == 9:
        inner, n = struct.unpack_from("<IQ", data, at)
        at += 12
        for _ in range(n):
            _, at = value(inner, at)
        return n, at
    return int.from_bytes(data[at:at + SIZE[kind]], "little"), at + SIZE[kind]
said = []
for _ in range(number[1]):
    key, at = text(at)
    kind = struct.unpack_from("<I", data, at)[0]
    what, at = value(kind, at + 4)
    if key == "general.file_type":
        said.append("file %d" % what)
seen = set()
for _ in range(number[0]):
    name, at = text(at)
    rank = struct.unpack_from("<I", data, at)[0]
    at += 4 + 8 * rank
    if rank > 1:
        seen.add(struct.unpack_from("<I", data, at)[0])
    at += 12
print(*said, *sorted(seen))
P
}
run import --from $golden/qwen2.gguf --to "$work/narrow"
for kind in q4_k:14:12:6 q5_k:16:13:7 q6_k:18:14:8; do
    IFS=: read -r word file large small <<<"$kind"
    found=$(types "$work/$word.gguf")
    [[ $found == "file $file $large" ]]
    check $? "$word: the file's type and its matrices' ($found)"
    run export --model "$work/narrow" --save-quant "$word" --to "$work/narrow.gguf"
    found=$(types "$work/narrow.gguf")
    [[ $found == "file $file $small" ]]
    check $? "$word: rows of 32 ($found)" "$err"
done

# What cannot be.
expect 2 '--save-quant: blocks are written to a GGUF file' export --model "$work/directory" --save-quant q8_0 --to "$work/no"
expect 2 '--save-quant: blocks are written to a GGUF file' \
    export --model "$work/directory" --save-quant q8_0 --dtype fp16 --to "$work/no.gguf"
expect 2 '--save-quant: an adapter is written alone in fp32' \
    export --model "$work/directory" --adapter "$work/packed" --save-quant q8_0 --to "$work/no.gguf"
expect 2 'q_proj.weight: GGUF adapters hold no magnitudes' \
    export --model "$work/directory" --adapter "$work/dora" --to "$work/no.gguf"
expect 2 '--adapter: an adapter is exported merged' export --model "$work/directory" --adapter "$work/packed" --to "$work/no"
[[ ! -e $work/no && ! -e $work/no.gguf ]]
check $? "and nothing is left there"
# A weight that is no number, or beyond the steps of a type, has no blocks: 2^23 has none, 2^17 has.
for bits in 0000c07f 0000807f 0000004b 00000048; do
    cp -r "$work/directory" "$work/odd"
    python3 - "$work/odd/model.safetensors" $bits <<'P'
import json, struct, sys
with open(sys.argv[1], "r+b") as f:
    size = struct.unpack("<Q", f.read(8))[0]
    header = json.loads(f.read(size))
    name = next(n for n in header if n.endswith("up_proj.weight"))
    f.seek(8 + size + header[name]["data_offsets"][0])
    f.write(bytes.fromhex(sys.argv[2]))
P
    for type in q8_0 q4_0 q4_1; do
        if [[ $bits == 00000048 ]]; then
            expect 0 '' export --model "$work/odd" --to "$work/odd.gguf" --save-quant $type
            continue
        fi
        expect 4 'blk.*ffn_.*weight: a weight is not a number, or too large' \
            export --model "$work/odd" --to "$work/odd2.gguf" --save-quant $type
    done
    rm -rf "$work/odd"
done
expect 7 'cuda: model.embed_tokens.weight: .*--dequantize.*Q8_0' \
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
