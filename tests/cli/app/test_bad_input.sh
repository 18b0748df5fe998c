#!/bin/bash
# SPDX-License-Identifier: MIT
# Bad input: each gets a message that names the file or option, the exit code of its class, and
# leaves earlier files as they were.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 300; i++) print i, "green bottles" }' >"$work/text"
train=(train --model tiny --max-seq-length 16 --per-device-train-batch-size 2 --max-steps 3
    --logging-steps 1 --quiet)
run "${train[@]}" --data "$work/text" --output-dir "$work/good"
check $((code != 0)) "a good run to begin with" "$err"
before=$(cd "$work/good" && find . -type f -exec md5sum {} + | sort)

# verifies face-5.3e8f
# An arena smaller than the plan.
expect 3 '--arena: the plan does not fit: [0-9,]+ bytes are missing' plan --model tiny --arena 1MiB
fixed=(--model tiny --arena 5MB --per-device-train-batch-size 8 --gradient-checkpointing none)
expect 3 'the largest buffer at the peak is [a-z0-9._]+ with [0-9,]+ bytes \([a-z]+\)' plan "${fixed[@]}"
expect 3 'it would fit with --[a-z-]+ [a-z0-9]+.*: [0-9,]+ bytes' plan "${fixed[@]}"
advice=$(grep -oE 'fit with .*:' <<<"$err" | sed 's/fit with //; s/:$//')
# shellcheck disable=SC2086
expect 0 '"fits": true' plan "${fixed[@]}" --json $advice
for budget in 2.2MB 1900kB 1.5MB 1.1MB; do
    run plan --model tiny --arena $budget
    advice=$(grep -oE 'fit with .*:' <<<"$err" | sed 's/fit with //; s/:$//')
    # shellcheck disable=SC2086
    expect 0 '"fits": true' plan --model tiny --arena $budget --json $advice
done
expect 3 'no option that was tried makes it fit; without others the least is [0-9,]+ bytes' plan --model tiny --arena 1000
run plan "${fixed[@]}" --json
[[ $code -eq 3 && $(json fits) == false ]]
check $? "the JSON says that it does not fit" "$out"
expect 3 'bytes are missing' "${train[@]}" --data "$work/text" --output-dir "$work/small" --arena 100KB
[[ ! -e $work/small ]]
check $? "a plan that does not fit leaves no directory"

# verifies face-8.5190
# Data.
expect 4 'no-such-file: there is no such file' "${train[@]}" --data "$work/no-such-file" --output-dir "$work/x"
expect 4 'there is no such file' "${train[@]}" --data "$work/*.none" --output-dir "$work/x"
mkdir "$work/folder"
expect 4 'folder: data is read from files' "${train[@]}" --data "$work/folder" --output-dir "$work/x"
expect 4 'no-such-file: there is no such file' import --from "$work/no-such-file" --to "$work/x"
expect 4 'folder: there is no such file' import --from "$work/folder" --to "$work/x"
expect 2 '--dropout: the value is out of range' "${train[@]}" --data "$work/text" --dropout -0.5 --output-dir "$work/x"
head -c 32 "$work/text" >"$work/short"
expect 4 'short: the data holds fewer tokens than one batch needs: found 32, expected at least 33' \
    "${train[@]}" --data "$work/short" --output-dir "$work/x"
: >"$work/empty"
expect 4 'empty:.*found 0' "${train[@]}" --data "$work/empty" --output-dir "$work/x"
for ((i = 0; i < 200; i++)); do printf '\x2c\x01'; done >"$work/ids.bin"
expect 4 "ids.bin: a token id is not below the model's vocabulary: found 300, expected below" \
    "${train[@]}" --data "$work/ids.bin" --output-dir "$work/x"
head -c 399 "$work/ids.bin" >"$work/odd.bin"
expect 4 'odd.bin: .*odd number of bytes' "${train[@]}" --data "$work/odd.bin" --output-dir "$work/x"
{ printf '\x88\xd8\x34\x01\x01\x00\x00\x00\xc9\x00\x00\x00'; head -c 1012 /dev/zero; cat "$work/ids.bin"; } >"$work/llmc.bin"
expect 4 "llmc.bin: the file.s size differs from its header.*found 1424, expected 1426" \
    "${train[@]}" --data "$work/llmc.bin" --output-dir "$work/x"
expect 4 'text: the file has no llm.c token header' "${train[@]}" --data "$work/text" --data-format llmc --output-dir "$work/x"
expect 4 'two kinds' "${train[@]}" --data "$work/text" "$work/ids.bin" --output-dir "$work/x"
mkdir "$work/words"
sed 's/"vocab_size": 256/"vocab_size": 300/' "$work/good/config.json" >"$work/words/config.json"
cp "$work/good/model.safetensors" "$work/words"
expect 4 'text needs a tokenizer.*give --tokenizer, or token files' train --model "$work/words" \
    --data "$work/text" --output-dir "$work/x" --max-seq-length 16
expect 2 'give either --eval-data or --validation-split' "${train[@]}" --data "$work/text" \
    --eval-data "$work/text" --validation-split 0.5 --output-dir "$work/x"
expect 2 '--output-dir: the option is needed' "${train[@]}" --data "$work/text"
expect 2 '--data: the option is needed' "${train[@]}" --output-dir "$work/x"
[[ ! -e $work/x ]]
check $? "none of these made the output directory"

# A bad token in the middle is met after hours: the steps until then are saved.
{
    head -c 20000 /dev/zero
    printf '\xff\xff'
    head -c 20000 /dev/zero
} >"$work/middle.bin"
expect 4 'middle.bin: a token id is not below' "${train[@]}" --data "$work/middle.bin" \
    --output-dir "$work/middle" --max-steps -1
grep -qE 'step [0-9]+ is saved' <<<"$err"
check $? "the steps before a bad token are saved" "$err"
expect 0 'valid' verify "$work/middle"

# verifies face-8.5190
# Models.
expect 4 'found "tinny", .*the nearest preset is tiny$' plan --model tinny
cp -r "$work/good" "$work/m"
rm -r "$work"/m/checkpoint-*
bad_config() {
    sed "$2" "$work/good/config.json" >"$work/m/config.json"
    expect 4 "m/config.json: $1" plan --model "$work/m"
}
bad_config 'n_head: the heads do not divide the width' 's/"n_head": 4/"n_head": 5/'
bad_config 'activation_function: this value is not supported: found "silu", expected "gelu_new", .* or "relu"' 's/gelu_new/silu/'
bad_config 'model_type: this value is not supported: found "mamba", expected one of the [0-9]* types in docs/families.md, such as "gpt2"' 's/"gpt2"/"mamba"/'
bad_config 'scale_attn_by_inverse_layer_idx:.*found 1, expected true or false' 's/layer_idx": false/layer_idx": 1/'
bad_config 'reorder_and_upcast_attn:.*found true, expected false' 's/upcast_attn": false/upcast_attn": true/'
bad_config 'add_cross_attention' 's/^{/{ "add_cross_attention": true,/'
bad_config 'n_embd: this value is not supported: found -64, expected a whole number from 1' 's/"n_embd": 64/"n_embd": -64/'
bad_config 'n_layer: this value is not supported: found 99999999999, expected a whole number from 1 to 4096' 's/"n_layer": 2/"n_layer": 99999999999/'
bad_config 'n_layer: this value is not supported: found "2", expected a whole' 's/"n_layer": 2/"n_layer": "2"/'
bad_config 'attn_pdrop: this value is not supported: found 1.5, expected a number from 0 to below 1' 's/"attn_pdrop": 0.0/"attn_pdrop": 1.5/'
bad_config '.*' 's/}/,/'
bad_config '.*' 's/"n_head": 4/"n_head": 4, "n_head": 4/'
expect 4 'm/config.json' plan --model "$work/m"
head -c 100 "$work/good/config.json" >"$work/m/config.json"
expect 4 'm/config.json' plan --model "$work/m"
cp "$work/good/config.json" "$work/m"
size=$(stat -c %s "$work/good/model.safetensors")
for bytes in 0 7 8 100 3000 $((size - 1)); do
    head -c "$bytes" "$work/good/model.safetensors" >"$work/m/model.safetensors"
    expect 4 'm/model.safetensors' eval --model "$work/m" --data "$work/text"
done
bad_weights() {
    LC_ALL=C sed "$2" "$work/good/model.safetensors" >"$work/m/model.safetensors"
    expect 4 "$1" eval --model "$work/m" --data "$work/text"
}
bad_weights 'wxe.weight: the file holds a tensor that the model does not have' 's/transformer.wpe/transformer.wxe/'
bad_weights 'transformer.wpe.weight: a tensor of the model is missing' 's/transformer.wpe/transformer.wxe/'
bad_weights 'weight: a tensor.s shape differs' 's/"shape":\[64,64\]/"shape":[4096 ]/'
bad_weights "m/model.safetensors" 's/"dtype"/"dtypo"/'
bad_weights "m/model.safetensors" 's/"F32"/"F33"/'
bad_weights "m/model.safetensors" 's/\[64,64\]/[-4,64]/'
rm "$work/m/model.safetensors"
: >"$work/m/pytorch_model.bin"
expect 4 'not in safetensors files' eval --model "$work/m" --data "$work/text"

# Several tokens may end a text, and all of them are kept.
draw=(--prompt-ids 1,2 --seed 3 --output-ids --max-new-tokens 9)
run generate --model "$work/good" "${draw[@]}" --ignore-eos
read -r -a free <<<"$out"
cp "$work/good/model.safetensors" "$work/m"
sed -E "s/\"eos_token_id\": [^,]*,/\"eos_token_id\": [255, ${free[4]}],/" "$work/good/config.json" >"$work/m/config.json"
run generate --model "$work/m" "${draw[@]}"
[[ $code -eq 0 && $(wc -w <<<"$out") -le 5 && "$(tr -d '\n' <<<"$out") " == *" ${free[4]} "* ]]
check $? "the second of two tokens ends the text" "$out, freely ${free[*]} $err"
run train --model "$work/m" --data "$work/text" --max-steps 0 --max-seq-length 16 --output-dir "$work/ends" --quiet
grep -q "\"eos_token_id\": \[255, ${free[4]}\]" "$work/ends/config.json"
check $? "a trained model's configuration has both" "$err"

# Generation.
expect 2 'give one of --prompt and --prompt-ids' generate --model "$work/good"
expect 2 'give --prompt or --prompt-ids, not both' generate --model "$work/good" --prompt x --prompt-ids 3
! grep -q '^try:' <<<"$err"
check $? "a command that would fail again is not proposed" "$err"
expect 2 'the prompt is empty' generate --model "$work/good" --prompt ''
expect 2 'longer than the model.s n_positions: found 65, expected at most 64' \
    generate --model "$work/good" --prompt x --max-new-tokens 64
expect 4 'not below the model.s vocabulary: found 256' generate --model "$work/good" --prompt-ids 1,256
expect 2 'not a list of token ids' generate --model "$work/good" --prompt-ids 1,two
expect 4 'a text prompt needs a tokenizer' generate --model "$work/words" --prompt x

# The output directory.
expect 2 'good: the output directory holds a different model' train --model demo --data "$work/text" \
    --output-dir "$work/good" --resume
expect 2 'good: the output directory holds checkpoints of an earlier run' "${train[@]}" \
    --data "$work/text" --output-dir "$work/good"
resume=("${train[@]}" --output-dir "$work/good" --resume)
# verifies face-13.60d2
expect 2 'seed differs.*found "7", expected "42"' "${resume[@]}" --data "$work/text" --seed 7
expect 2 'learning-rate differs' "${resume[@]}" --data "$work/text" --learning-rate 1
expect 2 'per-device-train-batch-size differs' "${resume[@]}" --data "$work/text" --per-device-train-batch-size 1
expect 2 'total-steps differs' "${resume[@]}" --data "$work/text" --max-steps 4
expect 2 'data differs' "${resume[@]}" --data "$work/text" "$work/text"
expect 2 'attn_pdrop differs from the checkpoint' "${resume[@]}" --data "$work/text" --dropout 0.5
expect 4 'there is no valid checkpoint' verify "$work/m"
: >"$work/file"
expect 6 'file' "${train[@]}" --data "$work/text" --output-dir "$work/file"
expect 6 'none' "${train[@]}" --data "$work/text" --output-dir "$work/none/where"

# verifies face-10.1cfb
# A medium that takes no more: a file-size limit stands in for it.
full() {
    (
        trap '' XFSZ
        ulimit -f 200
        "$program" "$@" >/dev/null 2>"$work/.err"
    )
    code=$?
    err=$(cat "$work/.err")
}
cp -r "$work/good" "$work/disk"
full train --model tiny --max-seq-length 16 --per-device-train-batch-size 2 --max-steps 4 --quiet \
    --lr-scheduler-type constant --data "$work/text" --output-dir "$work/disk2"
[[ $code -eq 6 ]] && grep -q 'disk2' <<<"$err"
check $? "a full medium is exit 6 and named (exit $code)" "$err"
rm -rf "$work/disk"
run "${train[@]}" --lr-scheduler-type constant --data "$work/text" --output-dir "$work/disk"
full "${train[@]}" --lr-scheduler-type constant --data "$work/text" --output-dir "$work/disk" --resume --max-steps 5
[[ $code -eq 6 ]]
check $? "a checkpoint that cannot be written is exit 6 (exit $code)" "$err"
expect 0 'step 3, valid' verify "$work/disk"
if [[ -e /dev/full ]]; then
    lost() { # CODE ARGUMENTS..: the output goes nowhere
        local want=$1
        shift
        "$program" "$@" >/dev/full 2>"$work/.err" </dev/null
        code=$?
        [[ $code -eq $want ]] && grep -q 'stdout: the output could not be written' "$work/.err"
        check $? "output that cannot be written is exit $want (exit $code): $*" "$(cat "$work/.err")"
    }
    mapfile -t commands < <("$program" --help | sed -n 's/^  bedplate \([a-z]*\) .*/\1/p')
    [[ ${#commands[@]} -ge 20 ]]
    check $? "the help lists the commands" "${commands[*]}"
    for command in "${commands[@]}"; do
        lost 6 "$command" --help
        lost 6 "$command" --help all
        lost 6 help "$command"
    done
    lost 6 --help
    lost 6 --version
    on=(--model "$work/good" --data "$work/text" --max-seq-length 16)
    lost 6 plan --model tiny
    lost 6 plan --model tiny --json
    lost 6 eval "${on[@]}" --json
    lost 6 eval "${on[@]}"
    lost 6 generate --model "$work/good" --prompt a --max-new-tokens 2 --json
    lost 6 verify "$work/good" --json
    lost 6 verify "$work/good"
    lost 6 devices --json
    lost 6 watch "$work/good" --json
    lost 6 completion bash
    lost 6 train --model tiny --print-options
    short=("${on[@]}" --max-steps 1 --lr-scheduler-type constant --output-dir "$work/unheard")
    lost 0 train "${short[@]}" --json
    rm -rf "$work/unheard"
    lost 0 train "${short[@]}" # what it is for lies in its directory
fi
# The value of an option may be longer than a path: the run has its files, or ends with a message, never with exit code 0
# and nothing done.
layers=$(for ((i = 0; i < 40; i++)); do printf 'h.0.attn.c_attn,h.1.mlp.c_fc,'; done)
long=("${train[@]}" --data "$work/text" --output-dir "$work/long")
expect 0 '' "${long[@]}" --lora-r 2 --target-modules "${layers%,}" --stop-at-step 2
expect 0 '' "${long[@]}" --lora-r 2 --target-modules "${layers%,}" --resume
[[ -s $work/long/adapter_model.safetensors ]]
check $? "a list of ${#layers} bytes is kept, and known again" "$out$err"
count=0
for name in $("$program" train --help all | sed -nE 's/^  --([a-z0-9-]+) .*(FILE|DIR|PATH|NAME|COMMAND).*/\1/p'); do
    for length in 600 5000; do
        rm -rf "$work/long"
        run "${long[@]}" "--$name" "$(printf '%0*d' $length 0)"
        [[ ($code -eq 0 && -s $work/long/model.safetensors) || ($code -ne 0 && $err == *bedplate:* && $err != *'bedplate: done'*) ]]
        check $? "--$name of $length bytes (exit $code)" "$err"
        count=$((count + 1))
    done
done
[[ $count -ge 40 ]]
check $? "options with a value of words" "$count"
[[ $before == "$(cd "$work/good" && find . -type f -exec md5sum {} + | sort)" ]]
check $? "nothing of all this touched the good directory"
seq 1 300 >"$work/count.txt"
# Where options mend a command, the command with them is printed, and works as a shell takes it.
mended() { # CODE ARGUMENTS..
    local want=$1 line
    shift
    run "$@"
    line=$(sed -n 's/^try: bedplate //p' <<<"$err")
    [[ $code -eq $want && -n $line ]]
    check $? "bedplate $* ends with $want and proposes a command" "$code $err"
    eval "run $line"
    check $code "bedplate $line" "$err"
}
mended 2 plan --model tiny-llama --load-in-4bit
# Of every preset of each kind: what is proposed works, and where nothing can be proposed the reason is that of the model.
for preset in $("$program" plan --help presets | sed -n '/^Presets/,$p' | sed -nE 's/^  ([a-z0-9.-]+) .*/\1/p'); do
    [[ $preset =~ ^(tiny|tiny-.*|whisper-tiny|ds-cnn|mlp|autoencoder|gru|lstm|resnet-8|mobilenet-v1.*)$ ]] || continue # quick ones
    for options in --load-in-4bit --load-in-8bit "--emit-c $work/emitted" "--data $work/count.txt --max-seq-length 16 --packing"; do
        # shellcheck disable=SC2086
        run plan --model "$preset" $options
        said=$err
        line=$(sed -n 's/^try: bedplate //p' <<<"$said" | grep -v ' --help presets$')
        if [[ -n $line ]]; then
            eval "run $line"
            check $code "$preset: bedplate $line" "$err"
        elif [[ $options == --load* ]]; then
            [[ $code -eq 2 && $said != *'for instance'* ]]
            check $? "$preset $options: nothing is proposed that the model has not" "$said"
        fi
    done
done
mended 4 plan --model tiny --data "$work/count.txt" --max-seq-length 16 --packing
mended 2 plan --model tiny --emit-c "$work/emitted"
mended 2 generate --model tiny --max-new-tokens 4
[[ $(stat -f -c %T /dev/shm 2>/dev/null) != tmpfs ]] || mended 2 train --model tiny --data "$work/count.txt" --max-seq-length 16 \
    --max-steps 1 --output-dir "$work/memory" --offload "file:/dev/shm/bedplate-test.$$:64MB" --quiet
rm -f "/dev/shm/bedplate-test.$$"
finish
