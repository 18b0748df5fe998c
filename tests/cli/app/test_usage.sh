#!/bin/bash
# SPDX-License-Identifier: MIT
# Options: spelling, values, ranges, configuration files, help, and what is said when they are wrong.
. "$(dirname "$0")/../lib.sh"

expect 0 'bedplate train --model' --help
expect 0 '^bedplate [0-9]+\.[0-9]+' --version
expect 2 'Exit codes'
# verifies face-1.2c36
expect 2 'trian: unknown command: the nearest is train$' trian
expect 2 'xyzzy: unknown command: expected plan, train, .*arena$' xyzzy
for command in plan train eval generate tokenize verify bench devices arena; do
    expect 0 "^bedplate $command" $command --help
done

# verifies face-1.2c36
expect 2 '--lerning-rate: unknown option: the nearest is --learning-rate$' plan --lerning-rate 1
expect 2 '--qqqqqqqqqqqqqqqqqqqqq: unknown option$' plan --qqqqqqqqqqqqqqqqqqqqq
expect 2 '--data: an option of other commands: expected plan, train, .*, found generate$' generate --model tiny --data x
# verifies face-3.9e3a
# What train takes plan takes as well, so that the same line says beforehand what a run needs.
options() { "$program" "$1" --help all | grep -oE '^ +--[a-z0-9-]+' | tr -d ' ' | LC_ALL=C sort; }
lacks=$(LC_ALL=C comm -23 <(options train) <(options plan) | grep -vxE -- '--(fabric.*|mpi|poison|replay-every|selftest-every)' | tr '\n' ' ')
[[ -z $lacks && $(options train | wc -l) -gt 100 ]]
check $? "plan takes the options of train" "$lacks"
# verifies face-2.6b05
expect 2 '--learning-rate: the value is out of range: found "-1", expected 0 to 1000$' \
    plan --model tiny --learning-rate -1
expect 2 'not a number' plan --model tiny --learning-rate fast
expect 2 '--product-fp8-from: no products are in fp8: found "auto", expected --product-dtype fp8 with it' \
    plan --model tiny --product-fp8-from 64
expect 2 'not a whole number' plan --model tiny --seed 1.5
expect 2 'out of range' plan --model tiny --seed 99999999999999999999999
expect 2 'out of range: found "0", expected 1 to' plan --model tiny --per-device-train-batch-size 0
expect 2 'not a size' plan --model tiny --arena 4Gigs
expect 2 'out of range' plan --model tiny --arena -4GiB
expect 2 'no such value: found "quadratic", expected constant.*linear' plan --model tiny --lr-scheduler-type quadratic
expect 2 'no such checkpoint policy.*every:K' plan --model tiny --gradient-checkpointing every:0
expect 2 'neither true nor false: found "maybe", expected true or false' plan --model tiny --decay-all=maybe
expect 2 'fp32 is left by naming another precision' plan --model tiny --fp32=false
expect 2 'the option needs a value' plan --model
expect 2 'the option needs at least one file' train --model tiny --data --output-dir x
expect 2 '--model: the option is needed' plan
expect 2 'an argument that is not expected' plan tiny
expect 2 'an argument is missing' verify
expect 2 'unknown measurement' bench speed
expect 2 'max-seq-length.*found 65, expected at most 64' plan --model tiny --max-seq-length 65
# Rotary positions have no table: a preset of theirs is planned and trained at any length, with a line.
expect 0 'llama-3-8b: the model was made for 8,192 positions; this run has 32,768' plan --model llama-3-8b --max-seq-length 32768 \
    --lora-r 8 --load-in-4bit --bf16 --per-device-train-batch-size 1 --gradient-checkpointing full
expect 0 'made for 128 positions; this run has 256' train --model tiny-llama --data README.md --max-seq-length 256 --max-steps 1 \
    --per-device-train-batch-size 1 --output-dir "$work/longer"
grep -q '"max_position_embeddings": 256' "$work/longer/config.json"
check $? "the model that it made has as many positions" "$(cat "$work/longer/config.json")"

# - and _ are the same, = and a space are the same, other programs' names are known.
run plan --model tiny --print-options --max_seq_length=32 --micro_batch_size 3 --arena 1.5KiB \
    --gradient_checkpointing true
check $((code != 0)) "print-options"
grep -qx '# n_embd = 64' <<<"$out" && grep -qx '# tie_word_embeddings = true' <<<"$out"
check $? "and the model's configuration, key by key" "$out"
for line in 'max-seq-length = 32' 'per-device-train-batch-size = 3' 'arena = 1536' \
    'gradient-checkpointing = full' 'adam-beta2 = 0.999' 'learning-rate = 5e-05' 'seed = 42' \
    'num-train-epochs = 3' 'max-steps = -1' 'logging-steps = 500' 'max-grad-norm = 1'; do
    grep -qxF -- "$line" <<<"$out"
    check $? "print-options has '$line'" "$out"
done

# verifies face-4.b853
# The resolved set is a configuration file; the command line wins over it.
printf '%s\n' "$out" >"$work/a.conf"
run plan --config "$work/a.conf" --print-options --max-seq-length 16
grep -qx 'max-seq-length = 16' <<<"$out" && grep -qx 'per-device-train-batch-size = 3' <<<"$out"
check $? "a printed set reads back, the command line wins"

# What is printed is a file for --config: the same run, though options stand in it that nobody gave.
seq 1 600 >"$work/numbers"
for ((i = 0; i < 12; i++)); do
    echo '{"prompt":"q '$i'","chosen":"yes '$i'","rejected":"no"}'
done >"$work/preferred.jsonl"
for more in '' '--lora-r 2 --load-in-4bit' '--optim adamw_8bit --bf16' '--lr-scheduler-type polynomial' \
    '--optim lion --arena 3MB' "--data $work/preferred.jsonl" "--data $work/preferred.jsonl --task orpo" \
    "--offload file:$work/tier:16MB" '--lr-scheduler-type cosine_with_min_lr --min-lr 0'; do
    data="--data $work/numbers"
    [[ $more != *--data* ]] || data=
    # shellcheck disable=SC2086
    set -- --model tiny --max-steps 2 --max-seq-length 16 --seed 7 $data $more
    run train "$@" --output-dir "$work/said" --overwrite-output-dir --quiet --json
    right=$(json state_digest)
    run train "$@" --output-dir "$work/printed" --overwrite-output-dir --print-options
    echo "$out" >"$work/printed.conf"
    run train --config "$work/printed.conf" --quiet --json
    [[ $code -eq 0 && -n $right && $(json state_digest) == "$right" ]]
    check $? "printed options are a run's own: $more" "$err"
done

# Where the program asks whether an option was given, its default on paper is another choice: it is not
# printed. Those that stand here are resolved before they are printed, or asked for a refusal alone.
printed=$(for verb in train plan rollout; do
    "$program" $verb --print-options --model tiny --data "$work/preferred.jsonl" --arena 3MB 2>/dev/null
done)
asked=$(grep -rhoE 'option_given\([^"()]*"[a-z0-9-]+"' "$(dirname "$0")/../../../tools/bedplate" --include='*.c' | grep -oE '[a-z0-9-]+"$' | tr -d '"' | sort -u)
check $(($(wc -l <<<"$asked") < 15)) "the sources ask whether an option was given" "$asked"
for name in $asked; do
    case $name in
        beta | loss-type | scale-rewards) ;; # of --task grpo, resolved
        temperature | max-new-tokens | top-k) ;; # of generate and fill-mask
        *)
            ! grep -q "^$name = " <<<"$printed"
            check $? "nobody gave $name: it is not printed" "$(grep "^$name = " <<<"$printed")" ;;
    esac
done
printf '# a comment\n\n  model = "tiny"  \r\nmax_seq_length=8\n' >"$work/b.conf"
expect 0 'batch 8 x 8 tokens' plan --config "$work/b.conf"
printf 'model = tiny\nmax-seq-lenght = 8\n' >"$work/c.conf"
expect 2 'c.conf:2' plan --config "$work/c.conf"
expect 2 'nearest is --max-seq-length' plan --config "$work/c.conf"
printf 'model tiny\n' >"$work/d.conf"
expect 2 'd.conf:1: no option: found "model tiny", expected' plan --config "$work/d.conf"
printf 'seed = -3\n' >"$work/e.conf"
expect 2 'e.conf:1: the value is out of range' plan --model tiny --config "$work/e.conf"
expect 2 'cannot be read' plan --config "$work/none.conf"
head -c 70000 /dev/zero >"$work/f.conf"
expect 2 'not a list of options' plan --config "$work/f.conf"

# plan: every byte has a class, and the classes add up.
run plan --model tiny --json
check $((code != 0)) "plan --json"
for key in arena_bytes lower_bound_bytes host_bytes parameters peak_op fits weights master optimizer \
    gradients checkpoint tape workspace io; do
    grep -q "\"$key\":" <<<"$out"
    check $? "plan --json has $key"
done
[[ $(json arena_bytes) -eq $(json lower_bound_bytes) && $(json parameters) -eq 120576 ]]
check $? "the tiny plan is optimal and counts 120,576 parameters"
expect 0 '^program step: [0-9]+ ops' plan --model tiny --listing
expect 0 'adamw x 28' plan --model tiny --listing
expect 0 'waste 0 \(optimal\)' plan --model tiny --map
expect 0 '^from op +weights +master +optimizer' plan --model tiny --map
run plan --model tiny --map --json
[[ $(wc -l <<<"$out") -eq 2 ]] && ! grep -qv '^{.*}$' <<<"$out" && grep -q '"columns":\[{"op":0,"classes":{"weights":' <<<"$out"
# verifies face-15.b00f
check $? 'plan --map --json is two objects' "$out"
run plan --model tiny --html "$work/map.html"
grep -q '<tr><td>optimizer</td><td class="r">964,608</td><td class="r u">8.00</td>' "$work/map.html"
check $? 'the page has the anatomy' "$(grep '<tr><td>' "$work/map.html")"
# verifies arena-13.2aff
grep -q '<svg' "$work/map.html" && ! grep -qE 'https?://[^w]|<script' "$work/map.html"
check $? "the page has a drawing, and loads and runs nothing"
expect 6 'page could not be written' plan --model tiny --html "$work/no/where.html"
expect 0 '124,439,808 parameters' plan --model gpt2 --max-seq-length 64
expect 0 'host' devices
expect 0 'null: executes nothing' plan --model tiny --device null
expect 0 '"executes": false' plan --model tiny --device null --json
expect 2 'executes nothing, it is for plans alone: found null, expected bedplate plan' train --model tiny --device null
expect 2 'executes nothing, it is for plans alone' plan --model tiny --device null --calibrate --arena 1GiB
expect 2 'no such device: found nul, expected auto.host.*.null' plan --model tiny --device nul
expect 0 '"device": "host"' devices --json
expect 0 'fraction_of_peak' bench gemm --m 64 --n 64 --k 64 --json
expect 0 'ms_per_step.*tokens_per_second.*gflops.*peak_gflops.*fraction_of_peak' \
    bench step --model tiny --repeat 2 --json
expect 0 'GFLOP/s' bench gemm --m 64 --n 64 --k 64 --threads 1 --kernels portable

# arena: offsets for anybody's buffers.
printf 'id,lower,upper,size\na,0,3,4\nb,3,9,4\nc,0,9,4\n' >"$work/in.csv"
expect 0 '^id,lower,upper,size,offset' arena "$work/in.csv"
expect 0 '"arena_bytes": ?8' arena "$work/in.csv" --json
expect 3 'found 7, the best needs 8' arena "$work/in.csv" --capacity 7
printf 'id,lower,upper,size\na,3,0,4\n' >"$work/bad.csv"
expect 4 'bad.csv:2' arena "$work/bad.csv"
expect 4 'cannot be read' arena "$work/none.csv"
# Options of version 0.1 are answered with their names of today.
expect 2 'the nearest is --offload$' plan --model tiny --below file:x:1GiB
expect 2 'the nearest is --offload-what$' plan --model tiny --below-what states
expect 2 'the nearest is --virtual-ranks$' train --model tiny --lanes 2
# What the library calls an option's value is told by the option's name.
expect 2 '^bedplate: --virtual-ranks: the number of virtual ranks is a power of two' plan --model tiny --virtual-ranks 3 --per-device-train-batch-size 4

finish
