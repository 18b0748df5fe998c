#!/bin/bash
# SPDX-License-Identifier: MIT
# Completions of prompts: the same for any number at once, threads and kernels; what generate writes, greedily; rows that
# train reads; what is refused.
. "$(dirname "$0")/../lib.sh"

cat >"$work/p.jsonl" <<'END'
{"prompt": "7 green", "answer": 12, "id": "a"}
{"prompt": "12", "deep": {"a": [1, 2.5, null, true, "é"]}, "finish": "old"}

{"prompt": "bottles, é", "answer": null, "other": 1e3}
END
take=(rollout --data "$work/p.jsonl" --num-generations 5 --max-completion-length 9 --output-ids)

# verifies face-63.36a6
for model in tiny "tiny-llama --bf16" tiny-gemma2 "tiny-qwen3 --load-in-4bit"; do
    first=''
    # shellcheck disable=SC2086
    for how in "--slots 1" "--slots 2 --threads 1" "--slots 3 --threads 3 --kernels $other_kernels" "--slots 16 --kernels avx2" \
        "--threads 2"; do
        run "${take[@]}" --model $model $how --output "$work/o.jsonl"
        first=${first:-$(cat "$work/o.jsonl")}
        [[ $code -eq 0 && $(wc -l <"$work/o.jsonl") -eq 15 && $(cat "$work/o.jsonl") == "$first" ]]
        check $? "$model: the same completions, $how" "$out$err"
    done
    [[ $(grep -o '"completion_ids": [^]]*' <<<"$first" | sort -u | wc -l) -eq 15 ]]
    check $? "$model: all of them differ" "$first"
    # shellcheck disable=SC2086
    run "${take[@]}" --model $model --output "$work/o.jsonl" --seed 7
    [[ $code -eq 0 && $(cat "$work/o.jsonl") != "$first" ]]
    check $? "$model: another seed, others" "$out$err"
    # shellcheck disable=SC2086
    run "${take[@]}" --model $model --output "$work/o.jsonl" --temperature 0 --num-generations 2
    ids=$(grep -o '"completion_ids": [^]]*' "$work/o.jsonl" | head -1 | tr -dc '0-9 ')
    # shellcheck disable=SC2086
    run generate --model $model --prompt-ids 55,32,103,114,101,101,110 --max-new-tokens 9 --temperature 0 --output-ids
    [[ $code -eq 0 && $ids == *" $out" ]]
    check $? "$model: without a temperature, what generate writes" "$ids | $out$err"
done

run "${take[@]}" --model tiny --output "$work/o.jsonl"
row=$(sed -n 6p "$work/o.jsonl")
[[ $row == '{"prompt": "12", "completion": "'*'"generation": 0, "finish": "length", "tokens": 9, "logp": -'*'"deep": {"a": [1, 2.5, null, true, "é"]}}' ]]
check $? "a row has its prompt, the completion and its other columns" "$row"
grep -q 'no end token: every completion has 9 tokens' <<<"$err"
check $? "that there is no end token is said" "$err"
run "${take[@]}" --model tiny --output "$work/q.jsonl" --json --arena 1MiB
[[ $code -eq 0 && $(json completions) -eq 15 && $(json tokens) -eq 135 && $(json truncated) -eq 15 && $(json slots) -eq 15 ]]
check $? "--json" "$out$err"
least=$(json arena_bytes)
run "${take[@]}" --model tiny --output "$work/q.jsonl" --json --arena "$((least - 1))"
[[ $code -eq 0 && $(json slots) -lt 15 && $(json arena_bytes) -lt $least ]]
check $? "fewer at once where there is less room" "$out$err"
cmp -s "$work/o.jsonl" "$work/q.jsonl"
check $? "and the same bytes" "$out$err"

# A model that ends texts: completions end with the token, and are no longer.
for ((i = 0; i < 64; i++)); do printf '{"prompt": "%d:", "completion": "%d"}\n' $((i % 10)) $((i % 10)); done >"$work/echo.jsonl"
run train --model tiny --data "$work/echo.jsonl" --max-steps 120 --per-device-train-batch-size 16 --max-seq-length 8 \
    --learning-rate 3e-3 --quiet --output-dir "$work/e"
check $code "a model to begin with" "$err"
printf '{"messages": [{"role": "user", "content": "4:"}, {"role": "assistant", "content": "old"}], "a": 1}\n' >"$work/m.jsonl"
printf '{"prompt": "%d:"}\n' 1 2 3 4 5 6 7 >"$work/seven.jsonl"
for slots in 1 2 16; do
    run rollout --model "$work/e" --data "$work/seven.jsonl" --num-generations 6 --max-completion-length 12 --slots $slots \
        --output "$work/s$slots.jsonl"
    [[ $code -eq 0 ]] && cmp -s "$work/s1.jsonl" "$work/s$slots.jsonl"
    check $? "texts that end at different places, $slots at once" "$out$err"
done
grep -q '"finish": "stop", "tokens": 2' "$work/s1.jsonl"
check $? "they end" "$(head -3 "$work/s1.jsonl")"
run train --model "$work/e" --data "$work/s1.jsonl" --max-steps 2 --per-device-train-batch-size 4 --max-seq-length 32 --quiet \
    --output-dir "$work/m"
check $code "train reads them" "$out$err"
! grep -q '\\u0000' "$work/s1.jsonl"
check $? "the end token is no part of the text" "$(head -3 "$work/s1.jsonl")"
run rollout --model "$work/e" --data "$work/m.jsonl" --chat-template chatml --num-generations 1 --max-completion-length 5 \
    --output "$work/o.jsonl"
grep -q '^{"prompt": \[{"role": "user", "content": "4:"}\], "completion": \[{"role": "assistant", "content": "' "$work/o.jsonl" &&
    grep -q '"a": 1}$' "$work/o.jsonl"
check $? "messages stay messages" "$out$err$(cat "$work/o.jsonl")"

# verifies face-65.70e7
# Rewards: each completion's, the best of each prompt, those that reach a threshold; rows that train reads.
best=(rollout --model "$work/e" --data "$work/rows.jsonl" --num-generations 9 --max-completion-length 6 --temperature 2)
for i in 1 2 3 4; do printf '{"prompt": "%d:", "answer": %d}\n' $i $i; done >"$work/rows.jsonl"
run "${best[@]}" --reward exact --reward contains --reward-weights 2,1 --output "$work/all.jsonl" --json
[[ $code -eq 0 && $(wc -l <"$work/all.jsonl") -eq 36 && $(json written) -eq 36 ]]
check $? "all completions, with rewards" "$out$err"
grep -q '"completion": "2", "reward": 3, "rewards": {"exact": 1, "contains": 1}' "$work/all.jsonl" &&
    grep -q '"reward": 0, "rewards": {"exact": 0, "contains": 0}' "$work/all.jsonl"
check $? "the weighted sum and its parts" "$(head -3 "$work/all.jsonl")"
run "${best[@]}" --reward exact --reward contains --reward-weights 2,1 --output "$work/best.jsonl" --best-of-n --json
python3 - "$work/all.jsonl" "$work/best.jsonl" <<'END'
import json, sys
rows = [[json.loads(l) for l in open(p)] for p in sys.argv[1:]]
best = {}
for row in rows[0]:
    if row["prompt"] not in best or row["reward"] > best[row["prompt"]]["reward"]:
        best[row["prompt"]] = row
sys.exit(rows[1] != list(best.values()) or len(best) != 4)
END
check $? "the best of each prompt, the first of equals" "$out$err$(cat "$work/best.jsonl")"
run "${best[@]}" --reward exact --reward contains --reward-weights 2,1 --output "$work/most.jsonl" --reward-threshold 1
cmp -s <(grep -v '"reward": 0,' "$work/all.jsonl") "$work/most.jsonl"
check $? "those that reach a threshold" "$out$err$(cat "$work/most.jsonl")"
run train --model "$work/e" --data "$work/best.jsonl" --max-steps 2 --per-device-train-batch-size 4 --max-seq-length 32 \
    --quiet --output-dir "$work/r"
check $code "train reads the best" "$out$err"
run "${best[@]}" --output "$work/o.jsonl" --reward-command \
    'echo "{\"name\":\"length\"}"; while read -r line; do id=${line#*:}; echo "{\"id\":${id%%,*},\"reward\":0.5}"; done'
[[ $code -eq 0 && $(grep -c '"reward": 0.5, ' "$work/o.jsonl") -eq 36 && $out == *'mean reward 0.5, 36 written' ]]
check $? "a command gives rewards" "$out$err$(head -2 "$work/o.jsonl")"
expect 2 'best-of-n: there is nothing to choose by; expected --reward' "${best[@]}" --output "$work/o.jsonl" --best-of-n
expect 2 'reward-threshold: there is nothing to choose by' "${best[@]}" --output "$work/o.jsonl" --reward-threshold 0

# What is refused, by name.
bad() { # CODE PATTERN LINE OPTIONS: a line behind two good ones
    local want=$1 pattern=$2
    { printf '{"prompt": "a"}\n{"prompt": "b"}\n%s\n' "$3"; } >"$work/bad.jsonl"
    shift 3
    expect "$want" "$pattern" rollout --model tiny --data "$work/bad.jsonl" --max-completion-length 4 --output "$work/o.jsonl" "$@"
}
bad 4 'bad.jsonl:3: the row has no prompt: `prompt`' '{"text": "x"}'
bad 4 'bad.jsonl:3: the prompt is empty' '{"prompt": ""}'
bad 4 'bad.jsonl:3: a line of JSON lines is an object' '[1]'
bad 4 'bad.jsonl:3' '{"prompt": "x"'
bad 4 'bad.jsonl:3: a message is an object of role and content' '{"prompt": ["x"]}' --chat-template chatml
bad 4 'has no chat template' '{"prompt": [{"role": "user", "content": "x"}]}'
bad 2 'max-completion-length: the longest prompt and --max-completion-length are longer' "{\"prompt\": \"$(yes ab | head -c 8000 | tr -d '\n')\"}"
bad 2 'kernels: with AMX a product of several rows has other bits.*another instruction set' '' --kernels amx
bad 2 'top-k: .*found rollout' '' --top-k 5
bad 2 'top-p: .*found rollout' '' --top-p 0.5
bad 2 'slots: the value is no number of sequences: found x, expected auto or 1 to 4096' '' --slots x
bad 2 'slots: .*found 0,' '' --slots 0
expect 2 'output: the option is needed' rollout --model tiny --data "$work/p.jsonl"
expect 2 'data: the option is needed' rollout --model tiny --output "$work/o.jsonl"
expect 2 'recurrent model' rollout --model tiny-gru --data "$work/p.jsonl" --output "$work/o.jsonl"
expect 2 'read, or written as something else' rollout --model tiny --data "$work/p.jsonl" --output "$work/p.jsonl"
finish
