#!/bin/bash
# SPDX-License-Identifier: MIT
# Checkpoint policies and the fit through the program: spelling, choices that fit, bits that stay,
# shapes that a resumed run keeps, and what is said when nothing fits.
. "$(dirname "$0")/../lib.sh"

# Spelling: the option, what was found, what would be right.
bad_policy() {
    expect 2 "^bedplate: --gradient-checkpointing:.*found \"?$1\"?, (expected|expected) $2" \
        plan --model tiny --gradient-checkpointing "$1"
}
bad_policy everything 'none\|full\|memory-poor\|every:K'
bad_policy every: 'every:K with K of at least 1'
bad_policy every:0 'every:K with K of at least 1'
bad_policy every:3x 'every:K with K of at least 1'
bad_policy every:9999999999 'every:K with K of at least 1'
bad_policy list: 'list: and numbers of stages'
bad_policy list:1,,2 'list: and numbers of stages'
bad_policy list:1,2, 'list: and numbers of stages'
bad_policy list:-1 'list: and numbers of stages'
bad_policy selective: 'selective: and some of norm, gelu, swiglu, attention'
bad_policy selective:norm,relu 'selective: and some of norm, gelu, swiglu, attention'
expect 2 'the model has 4 stages: found 4, expected 0 to 3' plan --model tiny \
    --gradient-checkpointing list:1,4
printf 'model = tiny\ngradient-checkpointing = list:1,\n' >"$work/bad.conf"
expect 2 'bad.conf:2: no such checkpoint policy' plan --config "$work/bad.conf"
expect 2 'not a size' plan --model tiny --arena 5MBs
expect 2 '--max-batch: the option needs --arena' plan --model tiny --max-batch

# Every policy plans without waste; slots are a class of the map; the schedule is a line.
schedule() {
    run plan --model tiny --dropout 0.1 --gradient-checkpointing "$1"
    [[ $code -eq 0 ]] && grep -qE "^schedule +$2" <<<"$out" && grep -qE '^waste +0 bytes' <<<"$out"
    check $? "the schedule of $1" "$out$err"
}
schedule none 'forward 0-2 keeping all; backward 3-0$'
schedule auto 'forward 0-2 keeping all; backward 3-0$'
schedule full 'forward 0-2 dropping all but the inputs of 1-3; backward 3-0 recomputing all$'
schedule every:2 'forward 0-2 dropping all but the input of 2; backward 3-2 recomputing all; again 0; backward 1-0 recomputing all$'
schedule list:2 'forward 0-2 dropping all but the input of 2; backward 3-2 recomputing all; again 0; backward 1-0'
schedule sqrt 'forward 0-2 dropping all but the input of 2; backward'
schedule memory_poor 'forward 0-2 dropping all; backward 3; again 0-1 dropping all; backward 2 recomputing all; again 0; backward 1-0'
schedule selective:norm,swiglu 'forward 0-2 keeping all but norm, gelu; backward 3-0 recomputing norm, gelu$'
expect 0 '; and so on to again 0; .*\([0-9] times\)$' plan --model demo --gradient-checkpointing memory-poor --max-seq-length 32
run plan --model tiny --gradient-checkpointing full --json
[[ $(json checkpoint) -gt 0 && $(json schedule) == forward* ]]
check $? "checkpoint slots are counted, and the JSON has the schedule" "$out"

# at N: a budget N tenths of the way from the least arena to keeping everything.
at() { echo $((least + (most - least) * $1 / 10)); }

# verifies compile-5.3a79
# The choice keeps the budget; what was given is kept.
free=(plan --model demo --max-seq-length 64 --json)
run "${free[@]}"
most=$(json arena_bytes)
run "${free[@]}" --arena 1000
least=$(json arena_bytes)
[[ $code -eq 3 && $least -lt $most ]]
check $? "the least arena is known when nothing fits ($least of $most)" "$err"
for ((i = 0; i < 6; i++)); do
    budget=$((least + (most - least) * i / 5))
    run "${free[@]}" --arena $budget
    batch=$(json per_device_train_batch_size)
    accumulation=$(json gradient_accumulation_steps)
    [[ $code -eq 0 && $(json arena_bytes) -le $budget && $((batch * accumulation)) -eq 8 ]]
    check $? "a choice inside $budget bytes" "$out$err"
done
run "${free[@]}" --arena "$(at 6)" --per-device-train-batch-size 8 --loss-chunk-rows 128
[[ $code -eq 0 && $(json per_device_train_batch_size) -eq 8 && $(json loss_chunk_rows) -eq 128 ]]
check $? "explicit shapes are kept" "$out$err"
printf 'gradient-checkpointing = full\ngradient_accumulation_steps = 2\n' >"$work/some.conf"
run "${free[@]}" --arena "$(at 9)" --config "$work/some.conf"
[[ $code -eq 0 && $(json gradient_checkpointing) == full && $(json gradient_accumulation_steps) -eq 2 &&
    $(json per_device_train_batch_size) -eq 8 ]]
check $? "a configuration file's options are explicit too" "$out$err"
run plan --model demo --max-seq-length 64 --arena "$(at 6)"
grep -q '^chosen' <<<"$out" && grep -q '^runner-up' <<<"$out" && grep -q '^too large' <<<"$out"
check $? "plan prints the choice, the runner-up and the rest" "$out"
run plan --model tiny --arena 1GB --print-options
! grep -qE '^(gradient-checkpointing|per-device-train-batch-size|loss-chunk-rows) =' <<<"$out"
check $? "printed options leave free what the fit may choose" "$out"

# With weights in 8 bits the least arena is less, so a budget between the two is theirs alone; and what is chosen for
# a small one trains to the state of the run that keeps everything.
kept=$least
plain=(plan --model demo --bf16 --max-seq-length 64 --json)
run "${plain[@]}" --arena 1000
wide=$(json arena_bytes)
run "${plain[@]}" --weight-dtype fp8 --arena 1000
narrow=$(json arena_bytes)
[[ $code -eq 3 && $narrow -lt $wide ]]
check $? "weights in 8 bits have a smaller least arena ($narrow, $wide)" "$err"
expect 3 'the arena is too small|does not fit' "${plain[@]}" --arena $(((narrow + wide) / 2))
run "${plain[@]}" --weight-dtype fp8 --arena $(((narrow + wide) / 2))
[[ $code -eq 0 && $(json arena_bytes) -le $(((narrow + wide) / 2)) && $(json schedule) == *recomputing* ]]
check $? "which fits them, with something computed again" "$out$err"
for ((i = 0; i < 200; i++)); do echo "line $i of ale and bread, $((i * 37 % 101)) mugs"; done >"$work/eight"
digests=()
eight=(--model tiny --bf16 --weight-dtype fp8 --max-seq-length 40 --per-device-train-batch-size 4 --loss-chunk-rows 160)
run plan "${eight[@]}" --gradient-checkpointing none --json
whole=$(json arena_bytes)
run plan "${eight[@]}" --gradient-checkpointing memory-poor --json
poor=$(json arena_bytes)
for arena in 0 $(((whole + poor) / 2)); do
    run train "${eight[@]}" --data "$work/eight" --output-dir "$work/eight-$arena" --max-steps 2 --device host --arena "$arena" \
        --json --quiet
    digests+=("$(json state_digest)")
done
[[ $poor -lt $whole && -n ${digests[0]} && ${digests[0]} == "${digests[1]}" ]]
check $? "what is chosen for weights in 8 bits has the bits of keeping all ($poor, $whole)" "${digests[*]} $err"
least=$kept

# verifies face-5.3e8f
# When nothing fits: the least, the largest buffer, the cheapest change; and following it fits.
tight=(plan --model demo --max-seq-length 64 --per-device-train-batch-size 8 --loss-chunk-rows 512
    --arena $((least + (most - least) / 8)))
run "${tight[@]}" --gradient-checkpointing none
[[ $code -eq 3 ]] && grep -qE 'largest buffer at the peak is [^ ]+ with [0-9,]+ bytes' <<<"$err"
check $? "the largest buffer is named" "$err"
advice=$(grep -oE 'fit with .*:' <<<"$err" | sed 's/fit with //; s/:$//')
[[ -n $advice ]]
check $? "a change is proposed" "$err"
# shellcheck disable=SC2086
expect 0 '"fits": true' "${tight[@]}" --gradient-checkpointing none --json $advice

# The curve and the largest batch.
run plan --model tiny --frontier --json --html "$work/page.html"
grep -qE '"frontier": \[\{"arena_bytes": [0-9]+, "seconds": [^,]+, "policy": "[a-z-]+"\}, \{' <<<"$out"
check $? "the JSON has the curve" "$out"
# Ten budgets; choosing any set of values gains over choosing classes, somewhere, and loses nowhere.
json_gains=$(grep -oE '"frontier_gains": \[[^]]*\]' <<<"$out" | grep -oE '\{[^}]*\}')
[[ $(wc -l <<<"$json_gains") -eq 10 ]] &&
    awk -F'[:,}]' '{ if ($6 > $4 * 1.0001) worse++; if ($6 < $4 * 0.999) better++ }
        END { exit !(better > 0 && worse == 0) }' <<<"$json_gains"
check $? "the JSON has the gains of kept sets" "$json_gains"
[[ $(grep -c '<circle' "$work/page.html") -gt 5 && $(grep -c '</svg></div>' "$work/page.html") -eq 4 &&
    $(grep -c '</svg></svg></div>' "$work/page.html") -eq 1 ]]
check $? "the page draws it"
expect 0 'times the fastest' plan --model tiny --frontier
expect 0 'budget of arena     classes, s   kept sets, s      saved, %' plan --model tiny-llama --frontier
# A schedule of sets is told by the names of what they keep.
run plan --model tiny --per-device-train-batch-size 8 --gradient-accumulation-steps 1 --loss-chunk-rows 512 \
    --arena 5400000 --gradient-checkpointing auto
grep -qE 'keeping (norm_1|qkv|attention|middle|before|active).*recomputing all but (norm_1|qkv|att|mid|bef|act)' <<<"$out"
check $? "the schedule names what it keeps" "$out"
run plan --model tiny --max-seq-length 64 --arena 20MB --max-batch --json
batch=$(json max_batch)
[[ $code -eq 0 && $batch -gt 8 && $(json per_device_train_batch_size) -eq $batch ]]
check $? "the largest batch ($batch) is planned" "$out$err"
expect 0 '.' plan --model tiny --arena 20MB --per-device-train-batch-size "$batch"
expect 3 'does not fit' plan --model tiny --arena 20MB --per-device-train-batch-size $((batch + 1))
# A net without a width has a largest batch too.
expect 0 'batch [0-9]+ x 490 numbers' plan --model ds-cnn --arena 200MB --max-batch
# Models that cannot have every memory option are offered the others.
expect 3 'it would fit with --optim adamw_8bit' plan --model gru --arena 50MB

# verifies compile-4.ecdd
# Bits: every policy and auto train to the same state, dropout included.
awk 'BEGIN { for (i = 0; i < 300; i++) print i, "green bottles" }' >"$work/text"
train=(train --model demo --dropout 0.1 --max-seq-length 16 --data "$work/text" --max-steps 3
    --per-device-train-batch-size 2 --gradient-accumulation-steps 2 --loss-chunk-rows 16 --quiet --json)
run plan --model demo --max-seq-length 16 --per-device-train-batch-size 2 \
    --gradient-accumulation-steps 2 --loss-chunk-rows 16 --json
most=$(json arena_bytes)
run plan --model demo --max-seq-length 16 --per-device-train-batch-size 2 \
    --gradient-accumulation-steps 2 --loss-chunk-rows 16 --json --arena 1000
least=$(json arena_bytes)
run "${train[@]}" --output-dir "$work/none"
digest=$(json state_digest)
number=0
hows=("memory-poor" "list:1,3" "selective:gelu,attention" "auto --arena $(at 0)")
! long_form || hows+=("full" "every:2" "sqrt" "selective:norm" "auto --arena $(at 9)" "auto --arena $(at 5)")
for how in "${hows[@]}" "auto --arena $(at 5) --calibrate"; do
    number=$((number + 1))
    # shellcheck disable=SC2086
    run "${train[@]}" --output-dir "$work/p$number" --gradient-checkpointing $how
    [[ $code -eq 0 && $(json state_digest) == "$digest" ]]
    check $? "the state after training with $how is the same" "$out$err"
done
grep -q '"flops_per_second"' "$work/p$number/calibration.json"
check $? "the calibration is saved"
before=$(md5sum <"$work/p$number/calibration.json")
# A resumed run reads it again.
run "${train[@]}" --output-dir "$work/p$number" --gradient-checkpointing auto \
    --arena "$(at 5)" --calibrate --resume
[[ $code -eq 0 && $before == "$(md5sum <"$work/p$number/calibration.json")" ]]
check $? "the calibration is read again" "$err"

# A bound of the time is printed beside the choice, and what the choice takes more.
run plan --model demo --max-seq-length 64 --per-device-train-batch-size 8 --json
most=$(json arena_bytes)
for part in 16 17 18 19; do
    run plan --model demo --max-seq-length 64 --per-device-train-batch-size 8 --arena $((most * part / 20)) --json
    awk -v s="$(json estimated_seconds)" -v b="$(json lower_bound_seconds)" -v g="$(json gap)" \
        'BEGIN { d = s / b - 1 - g; exit !(b > 0 && g >= 0 && g < 0.05 && d * d < 1e-10) }'
    check $? "a lower bound of the time at $part twentieths, gap $(json gap)" "$out$err"
done
run plan --model demo --max-seq-length 64 --per-device-train-batch-size 8 --arena $((most * 8 / 10))
grep -qE '^estimated lower bound of a step in this budget: [0-9.]+ s; gap of the choice: [0-9.]+ %$' <<<"$out"
check $? "the same in words" "$out"
run plan --model demo --max-seq-length 64 --per-device-train-batch-size 8 --arena "$most" --json --gradient-checkpointing full
[[ $code -eq 0 && $out != *lower_bound_seconds* ]]
check $? "none of a schedule that is given" "$out$err"
run plan --model demo --max-seq-length 64 --per-device-train-batch-size 8 --arena "$most" --json
[[ $code -eq 0 && $out != *lower_bound_seconds* ]]
check $? "none where everything is kept" "$out$err"

# Shapes that the fit chose are stored and kept when the run goes on, in another arena or in none.
fit=(train --model demo --max-seq-length 64 --data "$work/text" --max-steps 4 --lr-scheduler-type constant
    --quiet --json)
run plan --model demo --max-seq-length 64 --json
most=$(json arena_bytes)
run "${fit[@]}" --output-dir "$work/whole" --arena $((most * 7 / 10))
chosen=$(head -n 1 <<<"$out")
digest=$(json state_digest)
grep -q '"choice"' <<<"$chosen"
check $? "train says what the fit chose" "$out$err"
agains=("" "--arena $((most * 8 / 10))")
! long_form || agains+=("--arena $((most * 2))")
for again in "${agains[@]}"; do
    rm -rf "$work/parts"
    run "${fit[@]}" --output-dir "$work/parts" --arena $((most * 7 / 10)) --stop-at-step 2
    # shellcheck disable=SC2086
    run "${fit[@]}" --output-dir "$work/parts" --resume $again
    [[ $code -eq 0 && $(json state_digest) == "$digest" ]]
    check $? "resumed with '$again' the run ends in the same state" "$out$err"
done
expect 2 '(batch-size|accumulation-steps) differs' "${fit[@]}" --output-dir "$work/parts" --resume \
    --per-device-train-batch-size 1
run "${fit[@]}" --output-dir "$work/eval" --arena $((most * 7 / 10)) --validation-split 0.3 --eval-steps 1 --max-steps 2
[[ $code -eq 0 && $(json arena_bytes) -le $((most * 7 / 10)) ]]
check $? "evaluation and saving are inside the plan" "$out$err"
expect 3 'does not fit' "${fit[@]}" --output-dir "$work/nowhere" --arena 1MB
[[ ! -e $work/nowhere ]]
check $? "a plan that does not fit leaves no directory"
expect 0 'ms_per_step' bench step --model tiny --arena 6MB --repeat 1 --json

# Where something is frozen below, and where rows of numbers are read, auto has schedules too.
run plan --model tiny --lora-r 4 --per-device-train-batch-size 4 --arena 2500KB --gradient-checkpointing auto --json
[[ $code -eq 0 && $(json gradient_checkpointing) == auto ]]
check $? "auto above a frozen base" "$out$err"
mkdir "$work/rows"
echo '{"model_type": "mlp", "input_size": 32, "hidden_size": 32, "num_hidden_layers": 12, "num_labels": 3}' \
    >"$work/rows/config.json"
rows=(--model "$work/rows" --per-device-train-batch-size 512 --gradient-accumulation-steps 2 --json)
run plan "${rows[@]}"
most=$(json arena_bytes)
run plan "${rows[@]}" --arena $((most * 3 / 4)) --gradient-checkpointing auto
[[ $code -eq 0 && $(json gradient_checkpointing) == auto && $(json arena_bytes) -le $((most * 3 / 4)) ]]
check $? "auto over dense layers" "$out$err"
expect 0 'ms_per_step' bench step "${rows[@]}" --repeat 1
expect 0 'ms_per_step' bench step --model tiny-bert --task classification --repeat 1 --json
expect 0 'ms_per_step' bench step --model tiny-bert --task regression --repeat 1 --json

# What a step computes is the sum of its products: a table of words that is only looked up is none of them.
words=(--model tiny-bert --task classification --per-device-train-batch-size 2)
run plan "${words[@]}" --listing
flops=$(sed -nE 's/^program step: .* ops, ([0-9,]+) flops of products.*/\1/p' <<<"$out" | tr -d ,)
run bench step "${words[@]}" --repeat 1 --json
awk -v counted="$flops" -v rate="$(json gflops)" -v ms="$(json ms_per_step)" \
    'BEGIN { found = rate * ms * 1e6; exit !(counted > 0 && found > 0.999 * counted && found < 1.001 * counted) }'
check $? "the operations of a step are those of its products ($flops)" "$out$err"

# verifies compile-14.a94c
# Of 32 x 250 tokens and 40,000 words all logits would take 1.28 GB, and their gradients as much again.
mkdir "$work/words"
echo '{"model_type":"gpt2","vocab_size":40000,"n_positions":256,"n_embd":64,"n_layer":2,"n_head":2}' \
    >"$work/words/config.json"
run plan --model "$work/words" --max-seq-length 250 --per-device-train-batch-size 32 --listing
logits=$(grep -oE 'logits = [^ ]* @[^ ]* [0-9]+ bytes' <<<"$out" | awk '{ if ($5 > m) m = $5 } END { print m + 0 }')
[[ $logits -gt 0 && $logits -le 64000000 ]]
check $? "logits and their gradients share one chunk of at most 64 MB ($logits bytes)"
# verifies compile-4.ecdd
# What fits nowhere is tried by its bound alone, and then laid out: the bytes that are said do fit (the bound is less). In the
# short form by two of Pythia's six layers, for a third of the time.
pythia=$work/pythia
mkdir "$pythia"
layers=2
! long_form || layers=6
echo '{"model_type": "gpt_neox", "vocab_size": 50304, "hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": '$layers',
    "num_attention_heads": 8, "max_position_embeddings": 2048, "rotary_pct": 0.25, "use_parallel_residual": true,
    "hidden_act": "gelu", "layer_norm_eps": 1e-5, "tie_word_embeddings": false}' >"$pythia/config.json"
least=(plan --model "$pythia" --gradient-checkpointing full --per-device-train-batch-size 8 --loss-chunk-rows 293 --json
    --offload "file:$work/tier:2000GB")
run "${least[@]}" --arena 300MB
bytes=$(json arena_bytes)
[[ $code -eq 3 && $(json waste_bytes) -gt 0 ]] && grep -qE "\"choice\": \{[^}]*\"arena_bytes\": $bytes," <<<"$out"
check $? "the least is what a layout needs" "$out$err"
run "${least[@]}" --arena "$bytes"
check "$code" "and fits" "$out$err"

# A search with hundreds of plans, of which few fit. The limit is against one that does not end; no test asserts a time.
tight=(plan --model pythia-70m --arena 300MB --offload "file:$work/tier:2000GB")
# On a terminal it says how far it is, and leaves nothing of that behind; an interrupt ends it at once.
(ulimit -t 600 && script -qec "$program ${tight[*]}" /dev/null </dev/null >"$work/.out" 2>&1)
code=$?
[[ $code -eq 3 ]] && grep -aq '^least' "$work/.out"
check $? "a search among plans that do not fit ends ($code)" "$(tail -c 300 "$work/.out")"
last=$(grep -a 'planning: [0-9]* plans in' "$work/.out" | tail -1)
[[ -n $last && ${last##*$'\r\e[K'} != *planning* ]]
check $? "progress on a terminal, removed at the end" "$(tail -c 300 "$work/.out")"
# To the end of its first seconds, after which it would have begun.
script -qec "timeout -s INT 1.6 $program ${tight[*]} --quiet" /dev/null </dev/null >"$work/.out" 2>&1 # limit: nothing may come
! grep -aq 'planning:' "$work/.out"
check $? "none with --quiet"
timeout --preserve-status -s INT 0.3 "$program" "${tight[@]}" >"$work/.out" 2>&1 # limit: at any moment before its end
code=$?
[[ $code -eq 130 && ! -e $work/tier ]]
check $? "an interrupted plan ends with 130 and leaves nothing ($code)" "$(cat "$work/.out")"
# So does one whose single candidates take seconds, and a training that is still planning; at once, within any of them: what
# counts is processor time, of which a busy machine has no more.
mkdir "$work/empty"
long=(--model llama-13b --arena 80GB --offload "file:$work/empty/tier:400GB")
used() { awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$1/stat" 2>/dev/null; } # hundredths of a second
TIMEFORMAT='%U %S'
for command in plan "train --data $work/text --max-seq-length 1024 --output-dir $work/empty/out"; do
    for end in INT:130 TERM:143; do
        long_form || [[ ${command%% *}-$end == plan-INT* || ${command%% *}-$end == train-TERM* ]] || continue
        read -ra words <<<"$command"
        # What runs in the background ignores INT, and so does what runs beside it.
        env --default-signal=INT "$program" "${words[@]}" "${long[@]}" >"$work/.out" 2>&1 </dev/null &
        pid=$!
        wait_for 600 '[[ $(used $pid) -ge 100 ]]' $pid
        before=$(used $pid)
        kill -"${end%:*}" $pid
        { time wait $pid; } 2>"$work/.time"
        code=$?
        after=$(tail -1 "$work/.time" | awk -v b="${before:-0}" '{ printf "%d", ($1 + $2) * 100 - b }')
        [[ $code -eq ${end#*:} && -z $(ls -A "$work/empty") && $after -lt 500 ]] # limit: the whole search takes 1,600
        check $? "${words[0]} ends by ${end%:*} while it plans ($code, $after hundredths)" "$(tail -3 "$work/.out")"
    done
done
# While a single candidate takes long the seconds go on: the same number of plans is drawn twice.
mkdir "$work/deep"
echo '{"model_type":"llama","vocab_size":32000,"hidden_size":8192,"intermediate_size":28672,"num_hidden_layers":400,
    "num_attention_heads":64,"num_key_value_heads":8,"max_position_embeddings":8192,"rms_norm_eps":1e-5}' >"$work/deep/config.json"
drawn_again() {
    tr '\r' '\n' <"$work/.out" | grep -aoE 'planning: [0-9]+ plans' | uniq -d | grep -q .
}
script -qec "echo \$\$ >'$work/.pid'; exec '$program' plan --model '$work/deep' --arena 80GB --max-seq-length 1024 \
    --offload 'file:$work/empty/tier:9000GB'" /dev/null </dev/null >"$work/.out" 2>&1 &
pid=$!
wait_for 120 drawn_again $pid
check $? "progress within one candidate" "$(tail -c 300 "$work/.out")"
kill -TERM "$(cat "$work/.pid")" # in the background INT is ignored
wait $pid
code=$?
[[ $code -eq 143 && -z $(ls -A "$work/empty") ]]
check $? "which a signal ends ($code)" "$(tail -c 300 "$work/.out")"

# Where backward runs twice a schedule that computes less again gains twice: it is found beside the policies with a name.
mkdir "$work/deep"
cat >"$work/deep/config.json" <<'END'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 12,
 "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 2000, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
 "tie_word_embeddings": false}
END
deep=(plan --model "$work/deep" --max-seq-length 64 --per-device-train-batch-size 12 --lora-r 8 --target-modules all-linear
    --gradient-release --device host --threads 4 --arena 89556211 --json)
run "${deep[@]}" --gradient-checkpointing selective:attention
named=$(json estimated_seconds)
run "${deep[@]}"
awk -v a="$(json estimated_seconds)" -v b="$named" 'BEGIN { exit !(a > 0 && a < b) }'
check $? "with release, a schedule faster than $named s is found ($(json estimated_seconds))" "$err"
finish
