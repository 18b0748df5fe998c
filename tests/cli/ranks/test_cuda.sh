#!/bin/bash
# SPDX-License-Identifier: MIT
# The program on a GPU, which here is the instrument of tools/ptxvm: what it says of the memory outside
# the arena and of devices, and how it fails.
# verifies face-11.5c57
. "$(dirname "$0")/../lib.sh"
export LD_LIBRARY_PATH=$PWD/$BUILD/ptxvm
[[ -e $LD_LIBRARY_PATH/libcuda.so.1 ]] || { echo "no $LD_LIBRARY_PATH/libcuda.so.1"; exit 1; }

awk 'BEGIN { for (i = 0; i < 200; i++) print i, "bottles of ale" }' >"$work/text"
cat >"$work/config.json" <<'EOF'
{"model_type": "gpt2", "vocab_size": 256, "n_positions": 16, "n_embd": 16, "n_layer": 1, "n_head": 2}
EOF
common=(--model "$work" --data "$work/text" --max-seq-length 8 --per-device-train-batch-size 1
    --max-steps 4 --device cuda)

run train "${common[@]}" --output-dir "$work/a" --json
check $((code != 0)) "train" "$err"
for key in free_after_context free_after_arena free_after_modules_and_graphs free_after_seal \
    free_after_step_3; do
    [[ $(json $key) -gt 0 ]]
    check $? "the summary has $key" "$out"
done
[[ $(json unchanged_by_steps) == true && $(json free_after_step_3) -eq $(json free_after_seal) ]]
check $? "steps take no memory of the device" "$out"
[[ $(json driver_bytes) -eq $((123456789 - $(json arena_bytes))) ]]
check $? "the driver's share by the management library" "$out"
FAKE_ML=init run train "${common[@]}" --output-dir "$work/b" --json
[[ $(json driver_bytes) == unknown ]]
check $? "a share that is not known" "$out"
expect 0 'step 3 [0-9,]+$' train "${common[@]}" --output-dir "$work/c"
expect 0 '^1 of 1 runs came to the known states' selftest --device cuda
# Steps computed twice, and spikes, on a GPU: the bits of a run without.
expect 0 '' train "${common[@]}" --output-dir "$work/once" --quiet --json
plain=$(json state_digest)
expect 0 '' train "${common[@]}" --output-dir "$work/twice" --quiet --json --replay-every 1 --on-spike rollback
[[ $(json state_digest) == "$plain" && $(tail -1 "$work/twice/events.jsonl") == *'"replays":4,"mismatches":0,"verified":4'* ]]
check $? "steps computed twice on a GPU" "$(tail -1 "$work/twice/events.jsonl")"
# On a Jetson's GPU the arena is the host's memory too: the same bits, with checkpoints, and with offloaded states.
# verifies device-35.61d3
PTXVM_DEVICE=sm_87 expect 0 '' train "${common[@]}" --output-dir "$work/jetson" --quiet --json --save-steps 2
[[ $(json state_digest) == "$plain" && $(json driver_bytes) -gt 0 ]]
check $? "a GPU that shares the host's memory" "$out"
PTXVM_DEVICE=sm_87 expect 0 '' train "${common[@]}" --output-dir "$work/jetson" --quiet --json --resume
[[ $(json state_digest) == "$plain" ]]
check $? "and resumed there" "$out"
PTXVM_DEVICE=sm_87 expect 0 '' train "${common[@]}" --output-dir "$work/jetson-below" --quiet --json \
    --offload host:64MiB --offload-what states
[[ $(json state_digest) == "$plain" ]]
check $? "and with offloaded states" "$out"
expect 0 '"cold_jit_seconds"' devices --json
expect 0 'PTX target sm_80 with the PTX of sm_80, .* free, cold JIT' devices --arena 1GiB
PTXVM_DEVICE=sm_90 expect 0 'PTX target sm_90a with the PTX of sm_90a' devices
PTXVM_DEVICE=sm_75 expect 0 'not usable: the GPU is too old' devices
# GPUs between the targets and behind them run what every GPU does; what is a Hopper's alone is refused there by name.
for gpu in sm_86 sm_89 sm_100 sm_120; do
    PTXVM_DEVICE=$gpu expect 0 'PTX target sm_80 with the PTX of sm_80' devices
    PTXVM_DEVICE=$gpu expect 7 "sm_90a: the GPU's compute capability .* does not fit the target: found ${gpu#sm_}, expected 90" train \
        "${common[@]}" --device cuda:sm_90a --output-dir "$work/between"
    PTXVM_DEVICE=$gpu expect 2 'product-dtype fp8 on cuda:sm_80: products in fp8 are made by a Hopper' train "${common[@]}" \
        --output-dir "$work/between" --product-dtype fp8
    [[ ! -e $work/between ]]
    check $? "refused before the first step" "$(ls "$work/between" 2>&1)"
done
PTXVM_DRIVER=11040 expect 0 'driver 11.4; not usable: the NVIDIA driver is too old: .* CUDA 12.0' devices
PTXVM_DEVICE=none expect 0 'not usable: the NVIDIA driver finds no GPU' devices
LD_LIBRARY_PATH=$LD_LIBRARY_PATH/old expect 0 'not usable: the NVIDIA driver is too old' devices
expect 0 'not usable: .* smaller than the arena: found [0-9]+, expected at least 1099511627776' devices --arena 1TiB
expect 0 '"usable": false, "reason": "[^"]*: found [0-9]+, expected at least [0-9]+"' devices --arena 1TiB --json
for target in sm_80 sm_90a; do
    expect 0 "device +cuda $target with the PTX of $target" plan --model tiny --device cuda:$target
    expect 0 "\"target\": \"$target\", \"ptx\": \"$target\"" plan --model tiny --device cuda:$target --json
done
# A plan for Hopper says which products and attention its own kernels do not take, and why.
# verifies device-24.f51a
expect 0 'as sm_80 +[0-9]+ matmul, an operand of less than 128 KiB: first op [0-9]+ m=[0-9]+ n=' plan --model tiny \
    --bf16 --device cuda:sm_90a
mkdir "$work/odd" # whose rows no tensor map describes
echo '{"model_type": "gpt2", "vocab_size": 256, "n_positions": 512, "n_embd": 1020, "n_layer": 1, "n_head": 15}' >"$work/odd/config.json"
expect 0 'as sm_80 +[0-9]+ matmul, rows that are no multiples of 16 bytes apart: first op .* lda=1020 ' plan --model "$work/odd" \
    --bf16 --device cuda:sm_90a
expect 0 '"other_kernels": \{.*"matmul: rows that are no multiples of 16 bytes apart": [0-9]' plan --model "$work/odd" --bf16 \
    --device cuda:sm_90a --json
expect 0 '"other_kernels": \{.*"attention_forward: heads of neither 64 nor 128": 2' plan --model tiny --bf16 \
    --device cuda:sm_90a --json
expect 0 '[0-9]+ matmul_quantised, an operand of less than 128 KiB: first op' plan --model tiny --bf16 --load-in-4bit \
    --lora-r 4 --device cuda:sm_90a
expect 0 '"other_kernels": \{.*"attention_packed_backward: heads of neither 64 nor 128": 2' plan --model tiny --bf16 \
    --packing --max-seq-length 64 --device cuda:sm_90a --json
run plan --model gpt2 --bf16 --packing --max-seq-length 128 --device cuda:sm_90a
[[ $code -eq 0 && $out != *attention_packed* ]]
check $? "attention within packed documents is Hopper's own" "$out"
expect 0 '[0-9]+ matmul_quantised, fewer than 48 tiles of 128 x 128: first op' plan --model gpt2 --bf16 \
    --max-seq-length 512 --per-device-train-batch-size 1 --load-in-8bit --lora-r 4 --device cuda:sm_90a
run plan --model gpt2 --bf16 --max-seq-length 1024 --per-device-train-batch-size 8 --load-in-4bit --lora-r 4 \
    --device cuda:sm_90a
[[ $code -eq 0 && $out == *'as sm_80 '*' matmul, '* && $out != *matmul_quantised,* ]]
check $? "all products with a base in 4 bits are Hopper's own, not those of adapters" "$out"
for options in '--model gpt2 --bf16 --max-seq-length 1024 --device cuda:sm_90a' '--model tiny --device cuda:sm_90a' \
    '--model tiny --bf16 --device cuda:sm_80'; do
    read -ra list <<<"$options"
    run plan "${list[@]}"
    [[ $code -eq 0 && $out != *'as sm_80 '* ]]
    check $? "nothing of the kind: $options" "$out"
done

# Training with Hopper's own attention ends where training with the kernels for every GPU does, on the same GPU.
mkdir "$work/heads"
echo '{"model_type": "gpt2", "vocab_size": 256, "n_positions": 128, "n_embd": 128, "n_layer": 1, "n_head": 2, "eos_token_id": 255}' >"$work/heads/config.json"
for ((i = 0; i < 1000; i++)); do echo "$i bottles of ale"; done >"$work/long"
for ((i = 1; i < 40; i++)); do
    printf '{"text": "%s"}\n' "$(printf "$i of %.0s" $(seq $((1 + i * 5 % 17))))"
done >"$work/short.jsonl"
ways=(long)
! long_form || ways+=('short.jsonl --packing')
for way in "${ways[@]}"; do
    read -r data packed <<<"$way"
    digests=()
    for target in sm_90a sm_80; do
        PTXVM_DEVICE=sm_90 run train --model "$work/heads" --data "$work/$data" --output-dir "$work/heads-$target" --bf16 \
            --max-seq-length 128 --per-device-train-batch-size 2 --max-steps 1 $packed --device cuda:$target --quiet --json
        digests+=("$(json state_digest)")
        rm -rf "$work/heads-$target"
    done
    [[ -n ${digests[0]} && ${digests[0]} == "${digests[1]}" ]]
    check $? "the same state with either attention: $way" "${digests[*]} $err"
done
# And with Hopper's own product in the head of the loss, which is the one that is large enough here.
mkdir "$work/loss"
sed 's/"vocab_size": 256/"vocab_size": 1536/' "$work/heads/config.json" >"$work/loss/config.json"
if long_form; then
    digests=()
    for target in sm_90a sm_80; do
        PTXVM_DEVICE=sm_90 run train --model "$work/loss" --data "$work/long" --output-dir "$work/loss-$target" --bf16 \
            --max-seq-length 128 --per-device-train-batch-size 4 --max-steps 1 --device cuda:$target --quiet --json
        digests+=("$(json state_digest)")
    done
    [[ -n ${digests[0]} && ${digests[0]} == "${digests[1]}" ]]
    check $? "the same state with either product in the head" "${digests[*]} $err"
fi
run plan --model "$work/loss" --bf16 --max-seq-length 128 --per-device-train-batch-size 4 --device cuda:sm_90a --listing
others=$(grep -oE '[0-9]+ matmul, ' <<<"$out" | awk '{ n += $1 } END { print n + 0 }')
[[ $code -eq 0 && $(grep -cE ' matmul m=' <<<"$out") -gt $others && $others -gt 0 && $out == *'matmul m=512 n=1536 k=128'* &&
    $(grep 'as sm_80' -A2 <<<"$out") != *n=1536* ]]
check $? "which is Hopper's own" "$others $err"
run plan --model "$work/heads" --bf16 --max-seq-length 128 --per-device-train-batch-size 4 --device cuda:sm_90a
[[ $code -eq 0 && $out == *' matmul, '* && $out != *' attention_'* ]]
check $? "whose attention is Hopper's own" "$out"

# Weights and tapes in 8 bits: the same state whatever is kept, and the host's loss but for roundings of 16 bits.
for option in '--weight-dtype fp8' '--tape-dtype fp8'; do
    read -ra list <<<"$option --model tiny --data $work/long --bf16 --max-seq-length 32 --per-device-train-batch-size 1"
    digests=() losses=()
    for where in 'cuda none' 'cuda full' 'host none'; do
        read -ra way <<<"--device ${where% *} --gradient-checkpointing ${where#* }"
        run train "${list[@]}" "${way[@]}" --max-steps 2 --logging-steps 1 --output-dir "$work/8-${list[0]}-${where// /-}" \
            --json --quiet
        digests+=("$(json state_digest)")
        losses+=("$(grep -oE '"step": 2, .*"loss": [0-9.]+' <<<"$out" | grep -oE '[0-9.]+$')")
    done
    [[ -n ${digests[0]} && ${digests[0]} == "${digests[1]}" ]]
    check $? "$option on a GPU: the same state whatever is kept" "${digests[*]} $err"
    awk -v a="${losses[0]}" -v b="${losses[2]}" 'BEGIN { exit !(a > 1 && (a - b) ^ 2 < 1e-6) }'
    check $? "$option: the host's loss" "${losses[*]}"
done

# Predictions come from the device, of pairs of texts too.
printf '1\tgood film\n0\tbad film\n1\ta good one\n' >"$work/films.tsv"
printf 'text\ttext_pair\tlabel\ngood\tfilm\t1\nbad\tfilm\t0\na good\tlong one\t1\n' >"$work/pairs.tsv"
for data in films pairs; do
    for device in host cuda; do
        run eval --model tiny-bert --task classification --data "$work/$data.tsv" --max-seq-length 8 --device $device \
            --per-device-eval-batch-size 2 --predictions "$work/$device.jsonl"
        check $code "predictions on $device" "$err"
    done
    paste -d' ' "$work/host.jsonl" "$work/cuda.jsonl" | sed -E 's/"[a-z]+"://g; s/[^0-9.e-]+/ /g' | awk '
        { for (i = 1; i <= NF / 2; i++) { d = $i - $(i + NF / 2); bad += d * d > 1e-10 } }
        END { exit !(NR == 3 && NF == 12 && !bad) }'
    check $? "the same on both" "$(cat "$work/host.jsonl" "$work/cuda.jsonl")"
done

# Tags with weighted classes and smoothed labels, and smoothed ends of answers, have the host's losses.
printf 'good JJ\nfilm NN\n\na DT\nbad JJ\n\nfilm NN\n' >"$work/tags.txt"
printf '{"question": "what", "context": "a good film", "answers": {"text": ["film"], "answer_start": [7]}}\n' >"$work/asks.jsonl"
mkdir "$work/bert"
cp tests/golden/answers/config.json tests/golden/tokenizers/bert_uncased/tokenizer.json "$work/bert"
learnt() { # DATA TASK OPTIONS..: the losses of two steps, and the last norm
    local device losses=()
    for device in host cuda; do
        run train --model "$work/bert" --data "$work/$1" --task "$2" --max-seq-length 12 --device $device --max-steps 2 --quiet --json \
            --learning-rate 1e-2 --logging-steps 1 --per-device-train-batch-size 2 --label-smoothing-factor 0.1 \
            --output-dir "$work/$2.$device" "${@:3}"
        check $code "$2 on $device" "$err"
        losses+=("$(grep -oE '"(loss|grad_norm)": [^,]*' <<<"$out" | sed 's/.*: //' | tr '\n' ' ')")
    done
    awk '{ for (i = 1; i <= NF / 2; i++) { d = $i - $(i + NF / 2); bad += d * d > 1e-10 * $i * $i } }
        END { exit !(NF >= 8 && !bad) }' <<<"${losses[*]}"
    check $? "$2: losses of both devices" "${losses[*]}"
}
learnt tags.txt token-classification --class-weights 0.5,1,2
learnt asks.jsonl question-answering --doc-stride 2

run train --model tiny-bert --task classification --data "$work/pairs.tsv" --max-seq-length 8 --device cuda \
    --per-device-train-batch-size 2 --max-steps 2 --output-dir "$work/pairs"
check $code "pairs are trained" "$err"

# The processor's peak is nothing to hold a GPU's step against.
expect 0 '^step: [0-9.]+ ms, [0-9.]+ GFLOP/s, [0-9.]+ tokens/s' bench step --model tiny --dropout 0 --repeat 1 \
    --max-seq-length 8 --per-device-train-batch-size 1 --device cuda

# Every family, with adapters too.
for model in tiny-llama "tiny-bert --task masked-lm"; do
    for more in "" "--bf16 --lora-r 2 --target-modules all-linear"; do
        rm -rf "$work/f"
        expect 0 'model directory' train --model $model $more --data "$work/text" --max-steps 2 \
            --max-seq-length 8 --per-device-train-batch-size 1 --device cuda --output-dir "$work/f"
    done
done
# Recurrent models, chains over rows of numbers, families of their own words: the losses of the host.
printf '1,2,3,4,0\n4,3,2,1,2\n0,1,0,1,1\n' >"$work/rows.csv"
awk 'BEGIN { for (k = 0; k < 6; k++) { for (i = 0; i < 64; i++) printf "%d,", (i * i + 7 * k * i) % 11 - 5; print k % 3 } }' \
    >"$work/images.csv"
models=("tiny-lstm --bf16 --data $work/text" "tiny-mlp --data $work/rows.csv" "tiny-cnn --data $work/images.csv" "tiny-gemma --data $work/text"
    "tiny-modernbert --task masked-lm --data $work/text")
! long_form || models+=("tiny-gru --data $work/text" "tiny-neox --data $work/text" "tiny-electra --task masked-lm --data $work/text")
for model in "${models[@]}"; do
    losses=()
    for device in host cuda; do
        rm -rf "$work/f"
        length=(--max-seq-length 7)
        [[ $model != tiny-mlp* && $model != tiny-cnn* ]] || length=()
        [[ $model != tiny-gru* && $model != tiny-lstm* ]] || length+=(--time-chunk 3)
        run train --model $model "${length[@]}" --per-device-train-batch-size 2 --max-steps 3 --device $device \
            --output-dir "$work/f" --json
        losses+=("$(grep -oE '"mean_loss": [0-9.]+' <<<"$out" | grep -oE '[0-9.]+')")
    done
    awk -v a="${losses[0]}" -v b="${losses[1]}" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 < 1e-6 * a ^ 2) }'
    check $? "$model trains as on the host" "${losses[*]} $out$err"
done
# What only the host computes is refused when it is planned, by name: nothing is made.
for command in plan "train --data $work/text --output-dir $work/none"; do
    expect 7 'cuda: relative_bias: the device has no kernel' $command --model tiny-mpnet --task masked-lm --max-seq-length 8 \
        --per-device-train-batch-size 1 --device cuda
done
[[ ! -e $work/none ]]
check $? "and no directory is made for it"
run generate --model tiny-gru --device cuda --prompt abc --max-new-tokens 4 --output-ids
check $((code != 0)) "a recurrent model generates" "$out$err"
expect 0 'step 4/4' train "${common[@]}" --tf32 --output-dir "$work/t"
expect 2 'TF32 is for a GPU' train "${common[@]}" --tf32 --device host --output-dir "$work/t2"

# The approximate forms of gradient release go the way that they go on the host.
for form in 'previous-norm --max-grad-norm 0.3' 'adama --max-grad-norm 0'; do
    for device in host cuda; do
        # shellcheck disable=SC2086
        run train "${common[@]}" --device "$device" --output-dir "$work/$device-${form%% *}" --learning-rate 1e-2 \
            --max-steps 2 --gradient-accumulation-steps 2 --gradient-release $form --json
        declare "$device=$(grep -oE '"loss": [0-9.e+-]+' <<<"$out" | tail -1 | cut -d' ' -f2)"
    done
    awk -v a="$host" -v b="$cuda" 'BEGIN { exit !(a > 0 && (a - b) * (a - b) <= 1e-10 * a * a) }'
    check $? "gradient release ${form%% *} on both devices ($host, $cuda)" "$err"
done

PTXVM_FAULT=cuModuleLoadDataEx:2:218 expect 7 'cuModuleLoadDataEx' train "${common[@]}" --output-dir "$work/d"
PTXVM_DRIVER=11040 expect 7 'too old.*found 11040, expected at least 12000|too old: it has to support' train \
    "${common[@]}" --output-dir "$work/d"
PTXVM_MEMORY=100000 expect 7 'smaller than the arena: found [0-9]+, expected at least [0-9]+' train \
    "${common[@]}" --output-dir "$work/d"
PTXVM_DEVICE=none expect 7 'no GPU|NO_DEVICE' train "${common[@]}" --output-dir "$work/d"
expect 7 'this machine has no GPU of that number; they count from 0: found 3, expected at most 0' train \
    "${common[@]}" --output-dir "$work/d" --device cuda:3
for device in cuda: cuda:x cuda:0x cuda:1000 cuda:sm_70; do
    expect 2 'no such device' train "${common[@]}" --output-dir "$work/d" --device $device
done

# A second tier: what lives in the host's memory, pinned when the run opens, gives the bits of the run in one arena.
sed -i 's/"n_embd": 16/"n_embd": 64/' "$work/config.json"
common[9]=2 # steps: what the first has moved there comes back in the second
tier() { # OPTIONS..
    local arena line=" $*"
    rm -rf "$work/tier"
    # shellcheck disable=SC2086
    run train "${common[@]}" --output-dir "$work/tier" --json --quiet ${line% --offload-what *}
    plain=$(json state_digest) arena=$(json arena_bytes)
    rm -rf "$work/tier"
    run train "${common[@]}" --output-dir "$work/tier" --json --quiet --offload host:64MiB "$@"
    [[ $code -eq 0 && -n $plain && $(json state_digest) == "$plain" && $(json arena_bytes) -lt $arena ]]
    check $? "states in the host's memory, $*: the same bits, a smaller arena ($arena)" "$out$err"
    least=$(json arena_bytes) whole=$arena
}
tier
tier --gradient-accumulation-steps 2 --gradient-release --bf16 --optim adamw_8bit --master split8
tier --gradient-accumulation-steps 2 --bf16 --optim adamw_8bit --offload-what weights,gradients
! long_form || tier --gradient-accumulation-steps 2 --bf16 --gradient-dtype int8 --offload-what weights,gradients
adapters=(--lora-r 3 --target-modules all-linear --load-in-4bit --gradient-checkpointing full)
sed -i 's/"n_layer": 1/"n_layer": 3/' "$work/config.json"
tier "${adapters[@]}"
# With more arena some of it stays there from one use to the next.
# verifies run-40.2495
budget=$(((least + whole) / 2))
run train "${common[@]}" "${adapters[@]}" --output-dir "$work/kept2" --json --quiet --offload host:64MiB --arena $budget
[[ $code -eq 0 && -n $plain && $(json state_digest) == "$plain" && $(json arena_bytes) -le $budget ]]
check $? "what stays on the GPU until it is used again: the same bits" "$out$err"
run plan "${common[@]:0:2}" "${common[@]:4:4}" --device cuda:sm_80 "${adapters[@]}" --json --offload host:64MiB --arena $budget
[[ $(json resident_bytes_per_step) -gt 0 ]]
check $? "and its plan says how much" "$out$err"
planned=(plan --model tiny --max-seq-length 32 --per-device-train-batch-size 1 --gradient-accumulation-steps 1 --device cuda:sm_80)
run "${planned[@]}" --offload host:1GiB --offload-what states --json
[[ $(json pinned_bytes) -gt 0 && $(json written_bytes_per_step) -eq $(json read_bytes_per_step) && -z $(json file_bytes) ]]
check $? "a plan says what is pinned and moved of states" "$out$err"
run "${planned[@]}" --offload host:1GiB --json # weights come for forward and backward, too
[[ $(json pinned_bytes) -gt 0 && $(json written_bytes_per_step) -gt 0 && -z $(json file_bytes) &&
    $(json written_bytes_per_step) -lt $(json read_bytes_per_step) ]]
check $? "a plan says what is pinned and moved" "$out$err"
least=$(json arena_bytes)
expect 0 "bytes of the host's memory, pinned" "${planned[@]}" --offload host:1GiB
expect 3 'it would fit with --offload host:[0-9]+.*: [0-9,]+ bytes' "${planned[@]}" --arena $((least + 4096)) --gradient-checkpointing none
expect 0 '' "${planned[@]}" --arena $((least + 4096)) --gradient-checkpointing none --offload host:1GiB
expect 3 'does not fit there: found 4096, expected at least [0-9]+' train "${common[@]}" --output-dir "$work/no" --offload host:4KiB
expect 2 'a GPU has no tier in a file' train "${common[@]}" --output-dir "$work/no" --offload file:x:1GiB
finish
