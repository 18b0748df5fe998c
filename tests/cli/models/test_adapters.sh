#!/bin/bash
# SPDX-License-Identifier: MIT
# Several adapters on one base at once: each has the bytes of its run alone, in one arena that holds the base once, whatever
# ends the process in between; what they cannot have together is refused with its line.
. "$(dirname "$0")/../lib.sh"

for n in a b c; do
    for ((i = 0; i < 120; i++)); do echo "$n line $i: the quick brown fox jumps over $((i * i % 97)) dogs $n"; done >"$work/$n.txt"
done
cat >"$work/jobs.jsonl" <<END
{"name": "a", "data": "$work/a.txt", "lora_r": 4, "learning_rate": 1e-2, "max_steps": 8}

{"name": "b", "data": ["$work/b.txt"], "lora_r": 8, "lora_alpha": 16, "target_modules": ["q_proj", "down_proj"], "learning_rate": 3e-3, "max_steps": 5, "lora_dropout": 0.1, "seed": 7, "use_dora": true}
{"name": "c", "data": "$work/c.txt", "lora-r": 2, "rank_pattern": {"v_proj": 3}, "learning_rate": 1e-3, "max_steps": 10, "per_device_train_batch_size": 4, "weight_decay": 0.1, "optim": "adamw_8bit", "eval_data": "$work/a.txt", "eval_steps": 4}
END
a=(--data "$work/a.txt" --lora-r 4 --learning-rate 1e-2 --max-steps 8)
b=(--data "$work/b.txt" --lora-r 8 --lora-alpha 16 --target-modules q_proj,down_proj --learning-rate 3e-3 --max-steps 5
    --lora-dropout 0.1 --seed 7 --use-dora)
c=(--data "$work/c.txt" --lora-r 2 --rank-pattern v_proj=3 --learning-rate 1e-3 --max-steps 10
    --per-device-train-batch-size 4 --weight-decay 0.1 --optim adamw_8bit --eval-data "$work/a.txt" --eval-steps 4)
run train --model tiny-llama --data "$work/a.txt" --max-seq-length 32 --max-steps 3 --quiet --output-dir "$work/base"
check $code "a base" "$err"
common=(--model "$work/base" --max-seq-length 32 --threads 2 --quiet --json)

# field NAME KEY: what the summary of an adapter says.
field() { grep "\"adapter\": \"$1\".*\"state_digest\"" <<<"$out" | grep -oE "\"$2\": [^,}]*" | head -1 | sed 's/.*: //; s/"//g'; }
# alone NAME OPTIONS: its run by itself, in $work/alone/NAME.
alone() {
    local name=$1
    local -n own=$name
    shift
    mkdir -p "$work/alone"
    rm -rf "$work/alone/$name"
    run train "${common[@]}" "${own[@]}" "$@" --output-dir "$work/alone/$name"
}

# verifies face-67.77c8
# together NAME OPTIONS: the digest of each one's state, its record and its adapter are those of its run alone.
together() {
    local what=$1 n
    local -A digest
    shift
    rm -rf "$work/all"
    run train "${common[@]}" --adapters "$work/jobs.jsonl" --output-dir "$work/all" "$@"
    check $code "$what: three adapters" "$err"
    for n in a b c; do digest[$n]=$(field $n state_digest); done
    for n in a b c; do
        alone $n "$@"
        [[ $code -eq 0 && -n ${digest[$n]} && $(json state_digest) == "${digest[$n]}" ]] &&
            cmp "$work/all/$n/record.jsonl" "$work/alone/$n/record.jsonl" &&
            cmp "$work/all/$n/adapter_model.safetensors" "$work/alone/$n/adapter_model.safetensors" &&
            cmp "$work/all/$n/adapter_config.json" "$work/alone/$n/adapter_config.json"
        check $? "$what: $n is what it is alone" "$err"
    done
}
together fp32
# What is made is used as that of a run alone.
for n in a b c; do
    expect 0 'valid, state digest' verify "$work/all/$n"
done
expect 0 'exported files: 2 of 2' replay "$work/all/b" --all
expect 0 '"loss"' eval --model "$work/base" --adapter "$work/all/a" --data "$work/a.txt" --max-seq-length 32 --json
expect 0 '' export --model "$work/base" --adapter "$work/all/c" --merge --to "$work/merged"
expect 0 '' generate --model "$work/base" --adapter "$work/all/a" --prompt "a line" --max-new-tokens 4
together "bf16, checkpointing" --bf16 --gradient-checkpointing full
together "4 bits, poison" --load-in-4bit --bf16 --poison
together "8 bits, gradient release, two micro-batches" --load-in-8bit --gradient-release --gradient-accumulation-steps 2
# Packed blocks of a GGUF file, which the runs share as they are.
awk 'BEGIN { for (i = 0; i < 2000; i++) printf "%c%c", i * i % 61, 0 }' >"$work/ids.bin"
packed=(--model tests/golden/blocks/mixed.gguf --data "$work/ids.bin" --max-seq-length 32 --threads 2 --max-steps 4 --quiet --json)
printf '[{"name": "x", "lora_r": 4},\n {"name": "y", "lora_r": 2, "target_modules": "all-linear", "learning_rate": 1e-2}]' >"$work/packed.json"
run train "${packed[@]}" --adapters "$work/packed.json" --output-dir "$work/packed"
check $code "two adapters on packed blocks" "$err"
for n in x:"--lora-r 4" y:"--lora-r 2 --target-modules all-linear --learning-rate 1e-2"; do
    # shellcheck disable=SC2086
    run train "${packed[@]}" ${n#*:} --output-dir "$work/alone/${n%%:*}"
    [[ $code -eq 0 ]] && cmp "$work/packed/${n%%:*}/record.jsonl" "$work/alone/${n%%:*}/record.jsonl"
    check $? "packed blocks: ${n%%:*} is what it is alone" "$err"
done

# verifies face-68.a852
# Bytes: plan and run say the same, the base counts once, and what is resident lies within.
run plan "${common[@]}" --adapters "$work/jobs.jsonl"
check $code "a plan" "$err"
base=$(json base_bytes) host=$(json host_bytes) planned=$out
[[ $out =~ \"workspace_bytes\":\ ([0-9]+),\ \"arena_bytes\":\ ([0-9]+) ]]
workspace=${BASH_REMATCH[1]} arena=${BASH_REMATCH[2]}
own=$(($(grep -oE '"own_bytes": [0-9]+, "workspace' <<<"$planned" | grep -oE '[0-9]+' | head -3 | paste -sd+)))
[[ $arena -eq $((base + own + workspace)) && $base -gt 0 ]]
check $? "the arena is the base, what each keeps, and one workspace" "$planned"
most=0
sum=0
for n in a b c; do
    declare -n own_options=$n
    run plan "${common[@]}" "${own_options[@]}"
    one=$(json arena_bytes)
    sum=$((sum + one))
    [[ $one -gt $most ]] && most=$one
    grep -q "\"alone_arena_bytes\": $one," <<<"$planned"
    check $? "the plan says what $n takes alone" "$one $planned"
done
[[ $arena -gt $most && $arena -lt $((sum - 2 * base)) ]]
check $? "all take less than their sum without the bases: $arena of $sum"
run train "${common[@]}" --adapters "$work/jobs.jsonl" --output-dir "$work/seen"
[[ $code -eq 0 && $(json arena_bytes) -eq $arena && $(json host_bytes) -eq $host ]]
check $? "plan and train say the same" "$planned $out $err"
case $BUILD in
*sanitize* | *tsan*) ;;
*)
    resident=$(json peak_resident_bytes)
    [[ -z $resident || ($resident -le $((arena + host)) && $resident -ge $(((arena + host) * 8 / 10))) ]]
    check $? "resident $resident of $((arena + host)) bytes"
    ;;
esac
# In fewer bytes policies are chosen inside what the others leave; the bits are the same.
less=$((arena - workspace / 4))
digest=$(for n in a b c; do field $n state_digest; done)
run train "${common[@]}" --adapters "$work/jobs.jsonl" --output-dir "$work/less" --arena $less
[[ $code -eq 0 && $(json arena_bytes) -le $less && $(for n in a b c; do field $n state_digest; done) == "$digest" ]]
check $? "an arena of $less bytes" "$out $err"
expect 3 'the plan of all adapters does not fit: found [0-9]+, expected at least' plan "${common[@]}" \
    --adapters "$work/jobs.jsonl" --arena $((base + 1000))
expect 3 'the plan of all adapters does not fit' train "${common[@]}" --adapters "$work/jobs.jsonl" \
    --arena $((base + 1000)) --output-dir "$work/small"
[[ ! -e $work/small/a ]]
check $? "a plan that does not fit writes no run"

# verifies face-69.32d4
# Killed in the middle and resumed, one of them past its end; then a signal.
sed -e 's/"max_steps": 8/"max_steps": 300/; s/"max_steps": 10/"max_steps": 250/; s/"max_steps": 5/"max_steps": 30/' "$work/jobs.jsonl" >"$work/long.jsonl"
long=("${common[@]}" --adapters "$work/long.jsonl" --save-steps 20 --eval-strategy no)
run train "${long[@]}" --output-dir "$work/whole"
check $code "longer runs" "$err"
for signal in KILL TERM; do
    # One that was ended before the signal came, on a machine that gave this script no turn, is begun again.
    for ((tries = 0; tries < 100; tries++)); do
        rm -rf "$work/cut"
        "$program" train "${long[@]}" --output-dir "$work/cut" >"$work/.cut" 2>&1 </dev/null &
        pid=$!
        wait_for 120 "[[ -e $work/cut/b/adapter_model.safetensors ]] && compgen -G '$work/cut/a/checkpoint-*' >/dev/null" $pid
        kill -$signal $pid 2>/dev/null
        wait $pid 2>/dev/null
        ended=$?
        [[ $ended -eq 0 || -e $work/cut/a/adapter_model.safetensors ]] || break
    done
    [[ $ended -eq $((128 + $(kill -l $signal))) && -e $work/cut/b/adapter_model.safetensors && ! -e $work/cut/a/adapter_model.safetensors ]]
    check $? "ended by $signal with $ended while one had finished" "$(cat "$work/.cut")"
    expect 2 'give --resume' train "${long[@]}" --output-dir "$work/cut"
    run train "${long[@]}" --output-dir "$work/cut" --resume
    check $code "resumed after $signal" "$err"
    for n in a b c; do
        cmp "$work/cut/$n/record.jsonl" "$work/whole/$n/record.jsonl" &&
            cmp "$work/cut/$n/adapter_model.safetensors" "$work/whole/$n/adapter_model.safetensors"
        check $? "$n went on to the same bytes after $signal"
    done
done

# One that fails drops out, and the others end as they would have.
sed -e '1s/1e-2, "max_steps": 8/900, "weight_decay": 900, "lr_scheduler_type": "constant", "max_steps": 40/' "$work/jobs.jsonl" >"$work/wild.jsonl"
run train "${common[@]}" --adapters "$work/wild.jsonl" --output-dir "$work/wild"
[[ $code -eq 5 ]] && grep -q 'a: the loss or the gradient norm' <<<"$err"
check $? "a loss that is not finite ends its adapter with 5: $code" "$err"
for n in b c; do
    cmp "$work/wild/$n/record.jsonl" "$work/seen/$n/record.jsonl"
    check $? "and $n is what it is without it"
done

# What is said of one of them has its name: steps that are saved before bad data, data that somebody writes to.
{
    head -c 20000 /dev/zero
    printf '\xff\xff'
    head -c 20000 /dev/zero
} >"$work/middle.bin"
cp "$work/b.txt" "$work/own.txt"
cat >"$work/named.jsonl" <<END
{"name": "first", "data": "$work/middle.bin", "lora_r": 2, "max_steps": -1}
{"name": "second", "data": "$work/own.txt", "lora_r": 2, "max_steps": 100000, "save_steps": 20}
END
"$program" train "${common[@]}" --adapters "$work/named.jsonl" --output-dir "$work/named" >"$work/.named" 2>&1 </dev/null &
pid=$!
wait_for 120 "compgen -G '$work/named/second/checkpoint-*' >/dev/null" $pid
echo 'one more line' >>"$work/own.txt"
wait_for 120 "grep -q 'was written to' $work/.named" $pid
wait_for 120 "grep -q 'is saved' $work/.named" $pid
kill -TERM $pid
wait $pid 2>/dev/null
grep -qE '^bedplate: first: step [0-9]+ is saved$' "$work/.named"
check $? "steps that are saved are named" "$(cat "$work/.named")"
grep -qE '^bedplate: second: .*own.txt: the file was written to while the run reads it' "$work/.named"
check $? "data that changed are named" "$(cat "$work/.named")"

# verifies face-70.d9e1
# Bad input, with its line.
bad() {
    local want=$1 pattern=$2
    printf '%s\n' "$3" >"$work/bad.jsonl"
    shift 3
    expect "$want" "$pattern" train "${common[@]}" --adapters "$work/bad.jsonl" --output-dir "$work/bad" "$@"
}
one="{\"name\": \"x\", \"data\": \"$work/a.txt\", \"lora_r\": 2, \"max_steps\": 1}"
bad 2 'bad.jsonl:2: name: an adapter before it has this name: found "x"' "$one"$'\n'"$one"
bad 2 'bad.jsonl:2: output_dir: an adapter before it has this directory' "$one"$'\n'"${one/\"x\"/\"y\", \"output_dir\": \"$work/./bad/x/\"}"
bad 2 'bad.jsonl:1: data: the adapter has no data' '{"name": "x", "lora_r": 2}'
bad 4 'missing.txt' "${one/a.txt/missing.txt}"
bad 2 'bad.jsonl:1: .*lora_rank_of_it' "${one/lora_r/lora_rank_of_it}"
bad 2 'bad.jsonl:1: lora_r: an adapter has a rank: found "0"' "${one/\"lora_r\": 2/\"lora_r\": 0}"
bad 2 'bad.jsonl:1: lora_r: the value is out of range' "${one/\"lora_r\": 2/\"lora_r\": 5000}"
bad 2 'bad.jsonl:1: lora_r: an adapter has a rank' "{\"name\": \"x\", \"data\": \"$work/a.txt\"}"
for key in model bf16 load_in_4bit trainable freeze threads device offload task arena resume adapters trainable_token_indices; do
    bad 2 "bad.jsonl:1: $key: the option is one for all adapters" "${one/\"lora_r\"/\"$key\": \"1\", \"lora_r\"}"
done
bad 2 'bad.jsonl:1: name: the name cannot be a directory' "${one/\"x\"/\"..\/x\"}"
bad 2 'bad.jsonl:1: name: the adapter has no name' '{"lora_r": 2}'
bad 2 'bad.jsonl:1: adapter: an adapter is an object' '3'
bad 2 'bad.jsonl:2' "$one"$'\n{"name": "y",'
bad 2 'bad.jsonl:1.*twice' "${one/\"lora_r\"/\"lora_r\": 3, \"lora_r\"}"
bad 2 'given twice' "${one/\"lora_r\"/\"lora_rank\": 3, \"lora_r\"}"
bad 2 'bad.jsonl:3: lora_r: ' $'[\n'"$one"$',\n{"name": "y", "data": "z", "lora_r": 0}]'
bad 2 'the value cannot be an option' "${one/\"lora_r\"/\"target_modules\": [[\"q_proj\"]], \"lora_r\"}"
for key in data eval_data target_modules; do bad 2 "bad.jsonl:1: $key: the list is empty" "{\"name\": \"x\", \"lora_r\": 2, \"$key\": []}"; done
printf '{"name": "x", "data": [], "lora_r": 2}\n' >"$work/bad.jsonl"
expect 2 'bad.jsonl:1: data: the list is empty: found "\[]", expected one value at least' plan "${common[@]}" --adapters "$work/bad.jsonl"
bad 2 'the file has no adapter' ''
bad 2 'q_prj' "${one/\"lora_r\"/\"target_modules\": \"q_prj\", \"lora_r\"}"
expect 2 'the file cannot be read' train "${common[@]}" --adapters "$work/none.jsonl" --output-dir "$work/bad"
# A base of random weights is that of its seed.
bad 2 'bad.jsonl:2: .*y.*' "$one"$'\n'"${one/\"x\"/\"y\", \"seed\": 7}" --model tiny-llama
grep -q -- '--seed: the base is drawn from the seed, which is one for all adapters: found 7, expected 42' <<<"$err"
check $? "another seed draws another base" "$err"
# What several cannot have.
for option in "--offload file:$work/tier:64MB" "--ref-model $work/base" "--metrics $work/m.prom" "--continue-from $work/all/a" \
    "--resume-from-checkpoint $work/all/a" "--logging-dir $work/logs" "--trainable-token-indices 5"; do
    # shellcheck disable=SC2086
    expect 2 "${option%% *}: .*: expected no --adapters with it" train "${common[@]}" --adapters "$work/jobs.jsonl" \
        --output-dir "$work/bad" $option
done
expect 2 'task: completions are generated by one adapter' train "${common[@]}" --adapters "$work/jobs.jsonl" \
    --output-dir "$work/bad" --task grpo
expect 2 'several adapters train on one rank: found 2, expected 1' train "${common[@]}" --adapters "$work/jobs.jsonl" --output-dir "$work/bad" --fabric threads:2
expect 2 'memory of the host' plan "${common[@]}" --adapters "$work/jobs.jsonl" --device cuda:sm_90a
expect 2 'output-dir' train "${common[@]}" --adapters "$work/jobs.jsonl"
finish
