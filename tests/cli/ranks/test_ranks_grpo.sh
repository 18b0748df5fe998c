#!/bin/bash
# SPDX-License-Identifier: MIT
# Training by rewards of completions on several ranks: completions are divided among them, and the record, its completions and
# rewards included, is that of one rank, for any number of sequences at once and of threads; threads, TCP and MPI.
. "$(dirname "$0")/../lib.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

for ((i = 0; i < 64; i++)); do printf '{"prompt": "%02d=", "answer": "%d"}\n' "$i" $((i % 10)); done >"$work/prompts.jsonl"
for ((i = 0; i < 64; i++)); do printf '{"text": "%02d=%d", "label": 0.%d}\n' "$i" $((i % 7)) $((i % 10)); done >"$work/judged.jsonl"
run train --model tiny --task regression --data "$work/judged.jsonl" --max-steps 10 --per-device-train-batch-size 8 --max-seq-length 8 \
    --quiet --output-dir "$work/judge"
check $code "a reward model" "$err"
for ((i = 0; i < 64; i++)); do printf '{"prompt": "%02d=", "completion": "%d"}\n' "$i" $((i % 10)); done >"$work/digits.jsonl"
cat >"$work/grader.sh" <<'END'
echo '{"name": "test", "version": "1", "rewards": ["a", "b"]}'
echo started >>"$STARTED"
while read -r l; do
    id=${l#*:}
    id=${id%%,*}
    [[ $id -lt ${LAST:-9999} ]] || exit 3
    echo "{\"id\": $id, \"rewards\": {\"a\": 0.$((id % 10)), \"b\": $((id % 3))}}"
done
END
export STARTED="$work/started"
how=(train --task grpo --model tiny --data "$work/prompts.jsonl" --num-generations 4 --per-device-train-batch-size 4
    --gradient-accumulation-steps 8 --virtual-ranks 4 --max-completion-length 4 --learning-rate 1e-3 --max-steps 4 --save-steps 2 --quiet)

# verifies policy-10.7d9b
# alike OPTIONS..: the files of one rank on 1, 2 and 4.
alike() {
    rm -rf "$work/one" "$work/run"
    run "${how[@]}" --fabric none --threads 1 --output-dir "$work/run" "$@"
    check $code "one rank: $*" "$err"
    mv "$work/run" "$work/one"
    grep '^{"rollout":' "$work/one/record.jsonl" | grep -q '"advantages":"[^"]*[1-9a-f]'
    check $? "there is something to learn: $*"
    for ranks in 1 2 4; do
        rm -rf "$work/run"
        run "${how[@]}" --fabric threads:$ranks --fabric-seed $ranks --threads 1 --output-dir "$work/run" "$@"
        [[ $code -eq 0 ]] && cmp -s "$work/one/record.jsonl" "$work/run/record.jsonl"
        check $? "$ranks ranks: the same record: $*" "$out$err$(diff "$work/one/record.jsonl" "$work/run/record.jsonl" | cut -c1-300 | head -4)"
        diff -r -x events.jsonl "$work/one" "$work/run" >/dev/null
        check $? "$ranks ranks: the same files: $*" "$(diff -rq "$work/one" "$work/run")"
    done
}
alike --reward places --reward 'regex:[a-m]'
alike --reward places --reward 'regex:[a-m]' --bf16 --lora-r 4 --beta 0.1 --num-iterations 2 --top-entropy-quantile 0.5
run train --model tiny --data "$work/digits.jsonl" --max-steps 5 --per-device-train-batch-size 8 --max-seq-length 8 --quiet --output-dir "$work/began"
check $code "a model with weights" "$err"
alike --model "$work/began" --reward 'regex:[a-m]' --beta 0.1
alike --reward-model "$work/judge" --loss-type online_dpo --lora-r 2
rm -f "$STARTED"
alike --reward places --reward-command "bash $work/grader.sh"
[[ $(wc -l <"$STARTED") -eq 4 ]]
check $? "the command is rank 0's alone" "$(wc -l <"$STARTED") starts of 4 runs"
# Three prompts a step: one of four ranks has none.
alike --reward 'regex:[a-m]' --per-device-train-batch-size 1 --gradient-accumulation-steps 12

# Every number of sequences and of threads has this record.
rm -rf "$work/one"
run "${how[@]}" --reward 'regex:[a-m]' --output-dir "$work/one"
for slots in 1 2 16; do
    for threads in 1 2 3 4 5; do
        rm -rf "$work/run"
        run "${how[@]}" --reward 'regex:[a-m]' --slots $slots --threads $threads --fabric threads:$((threads % 2 + 1)) --output-dir "$work/run"
        [[ $code -eq 0 ]] && cmp -s "$work/one/record.jsonl" "$work/run/record.jsonl"
        check $? "$slots sequences, $threads threads: the same record" "$err"
    done
done

# Ranks that share the weights out all generate all completions.
for form in optimizer gradients parameters; do
    rm -rf "$work/one" "$work/run"
    run "${how[@]}" --reward 'regex:[a-m]' --fabric none --output-dir "$work/one"
    run "${how[@]}" --reward 'regex:[a-m]' --fabric threads:4 --shard $form --output-dir "$work/run"
    [[ $code -eq 0 && $(grep -o '"state_digest":"[0-9a-f]*"' "$work/one/record.jsonl" | tail -1) == $(grep -o '"state_digest":"[0-9a-f]*"' "$work/run/record.jsonl" | tail -1) ]]
    check $? "--shard $form: the same state" "$out$err"
    cmp -s <(grep '^{"rollout"' "$work/one/record.jsonl" | sed 's/,"chain.*//') <(grep '^{"rollout"' "$work/run/record.jsonl" | sed 's/,"chain.*//')
    check $? "--shard $form: the same completions"
done

# Stopped on four ranks, resumed on two.
rm -rf "$work/one" "$work/run"
run "${how[@]}" --reward 'regex:[a-m]' --output-dir "$work/one"
run "${how[@]}" --reward 'regex:[a-m]' --fabric threads:4 --stop-at-step 2 --output-dir "$work/run"
run "${how[@]}" --reward 'regex:[a-m]' --fabric threads:2 --resume --output-dir "$work/run"
[[ $code -eq 0 ]] && cmp -s "$work/one/record.jsonl" "$work/run/record.jsonl"
check $? "stopped on four ranks, resumed on two: the same record" "$out$err"

# Processes that meet by TCP, and under mpirun.
port=$((10000 + $$ % 400 * 40))
export TORCHELASTIC_RUN_ID=$$.$RANDOM # others who test beside this one may come to the same port
tcp() {
    local size=$1 rank pids=()
    shift
    port=$((port + 20))
    for ((rank = 0; rank < size; rank++)); do
        MASTER_ADDR=127.0.0.1 MASTER_PORT=$port RANK=$rank WORLD_SIZE=$size LOCAL_RANK=$rank timeout -k 5 1200 \
            "$program" "$@" >"$work/.out.$rank" 2>"$work/.err.$rank" </dev/null &
        pids+=($!)
    done
    codes=
    for rank in "${pids[@]}"; do
        wait "$rank"
        codes+="$? "
    done
    err=$(cat "$work"/.err.*)
}
for size in 2 4; do
    rm -rf "$work/run"
    tcp $size "${how[@]}" --reward 'regex:[a-m]' --threads 1 --output-dir "$work/run"
    [[ $codes =~ ^(0 )+$ ]] && cmp -s "$work/one/record.jsonl" "$work/run/record.jsonl"
    check $? "$size ranks by TCP: the same record" "$codes$err"
done
if command -v mpirun >/dev/null; then
    rm -rf "$work/run"
    timeout -k 5 1200 mpirun --oversubscribe -n 2 "$program" "${how[@]}" --reward 'regex:[a-m]' --threads 1 --output-dir "$work/run" >"$work/.out" 2>&1 </dev/null
    code=$?
    [[ $code -eq 0 ]] && cmp -s "$work/one/record.jsonl" "$work/run/record.jsonl"
    check $? "2 ranks under mpirun: the same record" "$(cat "$work/.out")"
else
    echo "skipped: no mpirun"
fi

# A command that rank 0 cannot start, or that fails, ends all ranks with one message and the state saved.
for fabric in none threads:4; do
    rm -rf "$work/run"
    expect 4 'the reward command ended, or said too much, before a hello line' "${how[@]}" --fabric $fabric --reward-command 'exit 3' --reward-timeout 5s --output-dir "$work/run" # limit: it ends before
    rm -rf "$work/run"
    LAST=50 expect 4 'the reward command ended' "${how[@]}" --fabric $fabric --reward-command "bash $work/grader.sh" --output-dir "$work/run"
    [[ $err == *'step 1 is saved'* ]]
    check $? "$fabric: the state is saved" "$err"
    messages <<<"$err" >"$work/said.$fabric"
done
cmp -s "$work/said.none" "$work/said.threads:4"
check $? "four ranks say what one says" "$err"
rm -rf "$work/run"
tcp 2 "${how[@]}" --reward-command 'exit 3' --reward-timeout 5s --output-dir "$work/run" # limit: it ends before
[[ $codes == "4 4 " ]]
check $? "processes end with the same exit code" "$codes$err"
finish
