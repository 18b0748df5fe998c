#!/bin/bash
# SPDX-License-Identifier: MIT
# Distillation of adapters, of 16-bit and quantised students, by virtual ranks and ranks, of conversations, held-out parts,
# mixtures and rows by length; another teacher, another tokenizer, another table; records and replays; that a
# student comes nearer to its teacher.
# verifies layers-34.5c43
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 120; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
shape=(--data "$work/text" --max-seq-length 24)
run train --model tiny "${shape[@]}" --max-steps 60 --learning-rate 3e-3 --output-dir "$work/teacher"
check $code "a teacher is trained" "$err"
run distill --model "$work/teacher" "${shape[@]}" --output "$work/said" --json
check $code "the teacher speaks" "$out$err"
loss=$(json loss) teacher=$(json teacher_digest)
run eval --model "$work/teacher" "${shape[@]}" --json
[[ -n $loss && $(json loss) == "$loss" ]]
check $? "its loss is what eval tells" "$loss, $(json loss)"
run distill --model "$work/teacher" "${shape[@]}" --bf16 --output "$work/said16" --json
[[ $code -eq 0 && $(json teacher_digest) != "$teacher" ]]
check $? "a teacher in bf16 is another teacher" "$out$err"

# trained NAME OPTIONS..: a student of three steps of $said over $data; digest and arena.
said=$work/said
data=("${shape[@]}")
trained() {
    local name=$1
    shift
    rm -rf "${work:?}/$name"
    run train --max-steps 3 --seed 7 --per-device-train-batch-size 2 --gradient-accumulation-steps 4 --distill "$said" \
        --distill-alpha 0.8 --distill-temperature 1.5 --learning-rate 1e-3 "${data[@]}" --json --output-dir "$work/$name" "$@"
    digest=$(json state_digest) bytes=$(json arena_bytes)
}

# alike OPTIONS..: the same bits in other forms of the same run, in the bytes that are planned.
alike() {
    trained a "$@"
    local right=$digest
    [[ $code -eq 0 && -n $right ]]
    check $? "a student with $*" "$out$err"
    run plan --seed 7 --per-device-train-batch-size 2 --gradient-accumulation-steps 4 --distill "$work/said" "${shape[@]}" --json "$@"
    [[ $(json arena_bytes) == "$bytes" ]]
    check $? "planned is used: $*" "$(json arena_bytes) $bytes"
    for form in "--gradient-checkpointing full" "--gradient-checkpointing every:1 --threads 1" "--loss-chunk-rows 5" \
        "--kernels $other_kernels --poison"; do
        # a table's gradient in 16 bits is rounded once a chunk, with a teacher or without
        [[ $form == --loss* && $* == *--bf16* && $* != *--lora* ]] && continue
        # shellcheck disable=SC2086
        trained b "$@" $form
        [[ $code -eq 0 && $digest == "$right" ]]
        check $? "$form: $*" "$digest, right would be $right; $err"
    done
}
alike --model tiny
alike --model tiny-llama --lora-r 4 --use-dora
alike --model tiny-llama --lora-r 4 --load-in-4bit --bf16
alike --model tiny-qwen3 --bf16 --gradient-release --optim adamw_8bit
alike --model tiny --fp16
alike --model tiny --gradient-dtype int8 --bf16

# The row that is held counts in the plan: of k more tokens it takes 8 k bytes a place, whatever the batch; the staging
# of samples, which takes the same for each and is rounded up to pages, is what two batches differ by.
host_of() { "$program" plan --model tiny "${shape[@]}" --json --distill "$work/$1" --per-device-train-batch-size "$2" |
    grep -oE '"host_bytes": [0-9]+' | tr -dc 0-9; }
for k in 1 100; do
    run distill --model "$work/teacher" "${shape[@]}" --distill-top-k $k --output "$work/k$k"
done
one=$(($(host_of k100 1) - $(host_of k1 1))) two=$(($(host_of k100 2) - $(host_of k1 2)))
row=$((2 * one - two - 8 * 99 * 24))
[[ ${row#-} -le 8192 ]]
check $? "the plan counts a row of what is said" "$one $two"

# Lanes and ranks.
trained a --model tiny --virtual-ranks 4
right=$digest
for ranks in 2 4; do
    trained b --model tiny --virtual-ranks 4 --fabric threads:$ranks
    [[ $code -eq 0 && -n $right && $digest == "$right" ]]
    check $? "$ranks ranks" "$digest, right would be $right; $err"
done

trained b --model tiny --virtual-ranks 4 --fabric threads:2 --shard parameters
[[ $code -eq 0 && $digest == "$right" ]]
check $? "ranks that share the weights out" "$digest, right would be $right; $err"

# Beside evaluations, whose loss has no teacher, and with what is offloaded.
trained a --model tiny
right=$digest
trained b --model tiny --eval-data "$work/text" --eval-steps 1
[[ $code -eq 0 && $digest == "$right" ]] && grep -q '"eval_loss"' <<<"$out"
check $? "evaluations change nothing" "$digest, right would be $right; $err"
trained b --model tiny --offload "file:$work/tier:64MB"
[[ $code -eq 0 && $digest == "$right" ]]
check $? "weights that are offloaded" "$digest, right would be $right; $err"

# Rows in another order, of a part of the data, of a mixture.
for ((i = 0; i < 40; i++)); do
    echo "{\"prompt\": \"line $i: \", \"completion\": \"$(printf 'ab%.0s' $(seq $((1 + i % 9)))) end\"}"
done >"$work/rows.jsonl"
for part in "--group-by-length" "--validation-split 0.25" "--data-weights 3,1"; do
    data=(--data "$work/text" --max-seq-length 24)
    [[ $part != --data* ]] || data=(--data "$work/text" "$work/text" --max-seq-length 24)
    [[ $part != --group* ]] || data=(--data "$work/rows.jsonl" --max-seq-length 24)
    said=$work/part
    # shellcheck disable=SC2086
    run distill --model "$work/teacher" "${data[@]}" ${part#--group-by-length} --output "$said"
    check $code "a teacher of $part" "$err"
    # shellcheck disable=SC2086
    trained a --model tiny $part --max-steps 20
    check $code "a student of $part" "$err"
done
data=("${shape[@]}")
said=$work/said
run distill --model "$work/teacher" "${shape[@]}" --validation-split 0.25 --output "$work/part" --quiet
expect 4 'from other data' train --model tiny "${shape[@]}" --distill "$work/part" --output-dir "$work/x"

# Conversations: what users say is read, and not learned.
for ((i = 0; i < 12; i++)); do
    echo "{\"messages\": [{\"role\": \"user\", \"content\": \"say $i\"}, {\"role\": \"assistant\", \"content\": \"it is $i\"}]}"
done >"$work/chat.jsonl"
echo '{% for m in messages %}{{ m.role[0] + ":" + m.content + ";" }}{% endfor %}{% if add_generation_prompt %}a:{% endif %}' >"$work/short"
data=(--data "$work/chat.jsonl" --chat-template "$work/short" --max-seq-length 24)
said=$work/talked
run distill --model "$work/teacher" "${data[@]}" --output "$said"
check $code "a teacher reads conversations" "$err"
trained a --model tiny
check $code "a student of them" "$err"
right=$digest
trained b --model tiny --loss-on all
[[ $code -eq 0 && $digest != "$right" ]]
check $? "who learns all of it learns something else" "$err"
trained b --model tiny --packing
grep -q 'no --packing, of both' <<<"$err"
check $? "packed rows are others" "$err"
data=("${shape[@]}")
said=$work/said

# A run goes on with its own teacher.
trained a --model tiny --stop-at-step 2
cp "$work/said" "$work/kept"
cp "$work/said16" "$work/said"
run train --max-steps 3 --seed 7 --model tiny --per-device-train-batch-size 2 --gradient-accumulation-steps 4 --distill "$work/said" \
    --distill-alpha 0.8 --distill-temperature 1.5 --learning-rate 1e-3 "${shape[@]}" --json --output-dir "$work/a" --resume
[[ $code -eq 2 ]] && grep -q 'data differs from the checkpoint.s: found ".*teacher [0-9a-f]*"' <<<"$err"
check $? "another teacher's file is another run" "$code $err"
cp "$work/kept" "$work/said"

# The record of a run is executed again; the teacher is found where it was, or where it is said to be, by what it says.
trained a --model tiny --save-steps 1
expect 0 '^3 of 3 steps proven' replay "$work/a" --all
mv "$work/said" "$work/moved"
expect 4 'said: .*that the run read is not here; give its path.*expected --distill' replay "$work/a" --all
expect 0 '^3 of 3 steps proven' replay "$work/a" --all --distill "$work/moved"

# The same weights under another configuration, or an adapter that counts for more, say something else: another teacher.
cp -r "$work/teacher" "$work/wider"
sed -i 's/"layer_norm_epsilon": *[^,}]*/"layer_norm_epsilon": 0.25/' "$work/wider/config.json"
run distill --model "$work/wider" "${shape[@]}" --output "$work/said" --json
[[ $code -eq 0 && $(json teacher_digest) != "$teacher" ]]
check $? "another epsilon is another teacher" "$out$err"
expect 4 'not the one that the run read' replay "$work/a" --all
grep -q "$work/said" <<<"$err"
check $? "which a replay names" "$err"
resumed=(train --max-steps 3 --seed 7 --model tiny --per-device-train-batch-size 2 --gradient-accumulation-steps 4 --distill-alpha 0.8
    --distill-temperature 1.5 --learning-rate 1e-3 "${shape[@]}" --json --output-dir "$work/a" --resume)
trained a --model tiny
right=$digest said=$work/moved
trained a --model tiny
[[ $code -eq 0 && -n $digest && $digest != "$right" ]]
check $? "and which is_teacher something else" "$err"
right=$digest
trained a --model tiny --stop-at-step 2
expect 2 'data differs from the checkpoint.s' "${resumed[@]}" --distill "$work/said"
expect 2 'there is no teacher' "${resumed[@]}"
plain=(train --max-steps 3 --model tiny "${shape[@]}" --output-dir "$work/plain")
run "${plain[@]}" --distill "$work/moved" --stop-at-step 1
expect 2 'data differs from the checkpoint.s' "${plain[@]}" --resume
run train --model tiny "${shape[@]}" --max-steps 2 --output-dir "$work/untaught.run"
expect 2 'distill: the run has no teacher' replay "$work/untaught.run" --all --distill "$work/moved"
expect 0 '^2 of 2 steps proven' replay "$work/untaught.run" --all

# Ranks are processes with a file each: by the same name another one is told, and the same one may lie elsewhere.
port=$((10000 + $$ % 400 * 40))
export TORCHELASTIC_RUN_ID=$$.$RANDOM # others who test beside this one may come to the same port
pair() {
    local rank codes='' pids=()
    port=$((port + 20))
    rm -rf "$work/ranks"
    for rank in 0 1; do
        MASTER_ADDR=127.0.0.1 MASTER_PORT=$port RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank timeout -k 5 1200 "$program" train --model tiny \
            "${shape[@]}" --max-steps 2 --per-device-train-batch-size 1 --gradient-accumulation-steps 2 --virtual-ranks 2 --threads 1 \
            --output-dir "$work/ranks" --distill "$work/$1.$rank" >"$work/.out.$rank" 2>"$work/.err.$rank" </dev/null &
        pids+=($!)
    done
    for rank in 0 1; do
        wait "${pids[$rank]}"
        codes+="$? "
    done
    code=$codes
    err=$(cat "$work/.err.0" "$work/.err.1")
}
cp "$work/moved" "$work/there.0"
cp "$work/moved" "$work/there.1"
pair there
[[ $code == '0 0 ' ]]
check $? "two processes with copies of one file" "$code $err"
cp "$work/said" "$work/there.1"
pair there
[[ $code == '2 2 ' ]] && grep -q 'the data differ between the ranks' <<<"$err"
check $? "two processes with files of different teachers" "$code $err"
mv "$work/moved" "$work/said"
run "${resumed[@]}" --distill "$work/said"
[[ $code -eq 0 && $(json state_digest) == "$right" ]]
check $? "a file that was moved is the same" "$out$err"
said=$work/said
run train --model tiny "${shape[@]}" --max-steps 4 --lora-r 2 --learning-rate 1e-2 --output-dir "$work/adapter"
run distill --model tiny --adapter "$work/adapter" "${shape[@]}" --output "$work/adapted" --json
one=$(json teacher_digest)
sed -i 's/"lora_alpha": *[0-9.]*/"lora_alpha": 64/' "$work/adapter/adapter_config.json"
run distill --model tiny --adapter "$work/adapter" "${shape[@]}" --output "$work/adapted" --json
[[ $code -eq 0 && -n $one && $(json teacher_digest) != "$one" ]]
check $? "an adapter that counts for more is another teacher" "$one $out$err"

# Tokenizers: the same one's tokens serve a model with a larger table; another one's are refused by name.
small=tests/golden/tokenizers
for name in big:gpt2_small:1000 wide:gpt2_small:1100 other:llama3:1100; do
    IFS=: read -r model tokenizer words <<<"$name"
    mkdir -p "$work/$model"
    cp $small/"$tokenizer"/* "$work/$model"
    echo "{\"model_type\": \"gpt2\", \"vocab_size\": $words, \"n_positions\": 64, \"n_embd\": 16, \"n_layer\": 1, \"n_head\": 2}" \
        >"$work/$model/config.json"
done
run distill --model "$work/big" "${shape[@]}" --distill-top-k 4 --output "$work/words"
check $code "a teacher with a tokenizer" "$err"
run train --model "$work/wide" "${shape[@]}" --max-steps 2 --distill "$work/words" --output-dir "$work/w"
check $code "the same tokens in a larger table" "$err"
run distill --model "$work/wide" "${shape[@]}" --distill-top-k 4 --output "$work/wider.said"
for command in plan "train --max-steps 1 --output-dir $work/x"; do
    # shellcheck disable=SC2086
    expect 4 'larger than the model.s.*found 1[01][0-9][0-9], expected at most 1000' $command --model "$work/big" \
        "${shape[@]}" --distill "$work/wider.said"
done
expect 4 "with another tokenizer" train --model "$work/other" "${shape[@]}" --max-steps 2 --distill "$work/words" --output-dir "$work/x"

# A student that learns from its teacher alone says in the end what the teacher says: more of the teacher's first
# tokens are its own than of a student's that read the same text as long.
run train --model tiny "${shape[@]}" --seed 9 --max-steps 100 --learning-rate 3e-3 --distill "$work/said" --distill-alpha 1 \
    --output-dir "$work/taught" --logging-steps 1 --json
first=$(grep -oE '"loss": [0-9.]+' <<<"$out" | head -1 | tr -dc 0-9.)
last=$(grep -oE '"loss": [0-9.]+' <<<"$out" | tail -1 | tr -dc 0-9.)
awk -v a="$first" -v b="$last" 'BEGIN { exit !(b > 0 && b < 0.5 * a) }'
check $? "the loss falls to less than a half: $first, $last" "$out$err"
run eval --model "$work/taught" "${shape[@]}" --json
taught=$(json loss)
run train --model tiny "${shape[@]}" --seed 9 --max-steps 1 --learning-rate 1e-9 --output-dir "$work/untaught"
run eval --model "$work/untaught" "${shape[@]}" --json
untaught=$(json loss)
awk -v a="$untaught" -v b="$taught" -v c="$loss" 'BEGIN { exit !(b > 0 && b - c < 0.5 * (a - c)) }'
check $? "eval tells cross entropy: $untaught, then $taught; the teacher's is $loss"

echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
