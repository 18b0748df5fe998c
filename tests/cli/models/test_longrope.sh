#!/bin/bash
# SPDX-License-Identifier: MIT
# Longrope: the length of a text decides by which factors it is turned, and nothing that says how it is computed.
# verifies layers-2.7756
golden=tests/golden/longrope
. "$(dirname "$0")/../lib.sh"

value() { grep -oE "\"$1\": \"[^\"]*\"" "$golden/eval.json" | cut -d'"' -f4; }
prompt=$(value prompt)
wanted=$(value ids)

# A prompt of 26 tokens, and the model's own length 32: the same beginning whatever follows it, and past 32 the tokens
# of transformers, which reads all again there.
for tokens in 6 7 8 20; do
    run generate --model "$golden" --prompt-ids "$prompt" --max-new-tokens $tokens --temperature 0 --ignore-eos --threads 1
    [[ $code -eq 0 && $out == "$(cut -d' ' -f1-$tokens <<<"$wanted")" ]]
    check $? "$tokens tokens are transformers'" "$out$err"
done
# Sampled, alone and several at once, which pass the length in different turns.
sampled=(generate --model "$golden" --prompt-ids "$prompt" --temperature 0.9 --seed 5 --ignore-eos --threads 1)
run "${sampled[@]}" --max-new-tokens 20
alone=$out
for tokens in 5 9 20; do
    run "${sampled[@]}" --max-new-tokens $tokens --num-return-sequences 3
    [[ $code -eq 0 && $(head -1 <<<"$out") == "$(cut -d' ' -f1-$tokens <<<"$alone")" ]]
    check $? "$tokens sampled tokens, the first of three" "$out$err"
done

# What a run reads does not hang on batches, buckets, accumulation, packing or policies: the loss is that of texts read
# one by one.
echo '{% for m in messages %}{{ m.content }}{% endfor %}' >"$work/short"
rows=(--model "$golden" --data "$golden/rows.jsonl" --chat-template "$work/short" --max-seq-length 64 --threads 1)
for more in "--per-device-eval-batch-size 1" "--per-device-eval-batch-size 3" "--per-device-eval-batch-size 8 --length-buckets none" \
    "--per-device-eval-batch-size 1 --length-buckets 16,32,48" "--per-device-eval-batch-size 5 --kernels portable"; do
    # shellcheck disable=SC2086
    run eval "${rows[@]}" --json $more
    near loss loss
done
train=(train "${rows[@]}" --validation-split 0.25 --max-steps 6 --learning-rate 1e-3 --loss-chunk-rows 16 --quiet --json)
same=
for more in "--gradient-accumulation-steps 3" "--per-device-train-batch-size 3" "--gradient-accumulation-steps 3 --length-buckets 16,32,48" \
    "--per-device-train-batch-size 3 --length-buckets none --per-device-eval-batch-size 2" \
    "--per-device-train-batch-size 3 --gradient-checkpointing full --poison"; do
    rm -rf "$work/run"
    [[ $more == *train-batch* ]] || more="--per-device-train-batch-size 1 $more"
    # shellcheck disable=SC2086
    run "${train[@]}" $more --output-dir "$work/run"
    found="$(json state_digest) $(json eval_loss)"
    same=${same:-$found}
    [[ $code -eq 0 && $found == "$same" ]]
    check $? "$more: the same training ($found for $same)" "$err"
done
# A packed row has texts of several lengths, each of which is turned by its own.
awk 'BEGIN { for (i = 0; i < 6; i++) print "{\"messages\": [{\"role\": \"user\", \"content\": \"ab\"}, {\"role\": \"assistant\", \"content\": \"cdefghij\"}]}" }' >"$work/tens.jsonl"
head -2 "$golden/rows.jsonl" | tail -1 >>"$work/tens.jsonl"
first() { # OPTIONS: the loss of a first step over all rows
    rm -rf "$work/run"
    run train --model "$golden" --data "$work/tens.jsonl" --chat-template "$work/short" --threads 1 --quiet --max-steps 1 --learning-rate 1e-9 \
        --output-dir "$work/run" "$@"
    check $code "a step with $*" "$err"
    first=$(grep '^{"step":1' "$work/run/record.jsonl" | grep -oE '"(valid|loss)":[0-9.]*' | paste -sd' ')
}
first --max-seq-length 48 --per-device-train-batch-size 7
rows=$first
first --max-seq-length 128 --packing --per-device-train-batch-size 1
awk -v a="${first##*:}" -v b="${rows##*:}" 'BEGIN { exit !(a > 0 && b > 0 && (a - b) ^ 2 < 1e-10) }'
check $? "packed and in rows of their own the texts have the same loss ($first, $rows)"

# A conversation that passes the length.
printf 'one\ntwo and three\nfour\n' >"$work/said"
"$program" generate --model "$golden" --chat --chat-template "$work/short" --temperature 0 --max-new-tokens 12 --ignore-eos --threads 1 --json \
    <"$work/said" >"$work/talk" 2>"$work/.err"
check $? "a conversation passes the length" "$(cat "$work/.err")"
last=$(tail -1 "$work/talk" | grep -oE '"prompt_tokens": [0-9]*|"content": "([^"\\]|\\.)*"' | paste -sd' ')
[[ $(tail -1 "$work/talk" | grep -oE '"prompt_tokens": [0-9]*' | tr -dc 0-9) -gt 32 ]]
check $? "it does" "$last"
finish
