#!/bin/bash
# SPDX-License-Identifier: MIT
# A run goes on with the model it began with: every field of every family's config.json that is
# changed before --resume is refused by its key, and checkpoints of earlier versions go on.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 60; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
awk 'BEGIN { for (i = 0; i < 40; i++) print i % 5 ".5,0." i % 7 ",1." i % 3 ",0.2," i % 3 }' >"$work/rows.csv"

# other KEY VALUE: another value of the same kind.
other() {
    case $1:$2 in
    num_attention_heads:* | n_head:* | num_key_value_heads:*) echo $(($2 / 2)) ;;
    hidden_size:* | n_embd:*) echo $(($2 + 32)) ;;
    num_hidden_layers:* | n_layer:*) echo $(($2 + 1)) ;;
    head_dim:*) echo $(($2 + 2)) ;;
    cell:*) echo '"lstm"' ;;
    hidden_act:'"tanh"') echo '"relu"' ;;
    model_type:*) [[ $2 == '"gpt2"' ]] && echo '"llama"' || echo '"gpt2"' ;;
    *:true) echo false ;;
    *:false) echo true ;;
    *:null) echo 24 ;;
    *:\"*) echo '"another"' ;;
    *:*.* | *:*e-*) echo 0.3125 ;;
    *) echo $(($2 + 8)) ;;
    esac
}

# verifies face-13.60d2
# Changes each line "key": value of the model's config.json, one at a time.
each_field() { # NAME TRAIN-OPTIONS..
    local name=$1 key value new
    shift
    local train=(train --model "$work/$name" --output-dir "$work/$name-run" --max-steps 4 --save-steps 1
        --threads 1 --quiet --max-seq-length 4 "$@")
    run "${train[@]}" --stop-at-step 2
    check $code "$name: the run that is resumed" "$err"
    cp "$work/$name/config.json" "$work/$name.json"
    while IFS=: read -r key value; do
        new=$(other "$key" "$value")
        sed -E "s/^  \"$key\": .*[^,](,?)$/  \"$key\": ${new//\//\\/}\1/" "$work/$name.json" >"$work/$name/config.json"
        cmp -s "$work/$name.json" "$work/$name/config.json" && check 1 "$name: $key: nothing was changed"
        run "${train[@]}" --resume
        [[ $code -eq 2 && ($err == *"--resume: $key differs"* || $err == *"$key: dropout is not implemented"*) || $code -eq 4 && $err == *"config.json: $key: this value is not supported"* ]]
        check $? "$name: $key $value -> $new (exit $code)" "$err"
        [[ $code -eq 2 ]] && told=$((told + 1))
    done < <(sed -nE 's/^  "([a-z0-9_]+)": ("[^"]*"|[-0-9.e]+|true|false|null),?$/\1:\2/p' "$work/$name.json" |
        grep -vE '^(torch_dtype|vocab_size|input_size|model_type|problem_type):')
    cp "$work/$name.json" "$work/$name/config.json"
    run "${train[@]}" --resume
    check $code "$name: goes on as it was" "$err"
}

told=0
for preset in tiny tiny-llama tiny-bert tiny-mlp tiny-gru; do
    options=(--data "$work/text")
    [[ $preset == tiny-mlp ]] && options=(--data "$work/rows.csv")
    run train --model $preset "${options[@]}" --max-seq-length 4 --max-steps 0 --threads 1 --quiet --output-dir "$work/made"
    check $code "the files of $preset" "$err"
    mkdir "$work/$preset"
    cp "$work/made/config.json" "$work/$preset"
    rm -r "$work/made"
    each_field $preset "${options[@]}"
done
mkdir "$work/qwen2"
sed 's/"llama"/"qwen2"/; s/LlamaFor/Qwen2For/; /attention_bias/d; /mlp_bias/d; s/^  "hidden_act"/  "head_dim": 16,\n&/' \
    "$work/tiny-llama/config.json" >"$work/qwen2/config.json"
each_field qwen2 --data "$work/text"
[[ $told -ge 50 ]]
check $? "fields that were told: $told"

# Checkpoints of the version before the rows were the keys (tests/golden/checkpoints), and the digest to
# which that version came, where these are the same kernels.
old() { # NAME EPSILON-KEY DIGEST
    local name=$1 run=$work/old-$1-run
    mkdir "$work/old-$name"
    cp "tests/golden/checkpoints/$name/checkpoint-2/config.json" "$work/old-$name"
    cp -r "tests/golden/checkpoints/$name" "$run"
    chmod -R u+w "$run"
    local train=(train --model "$work/old-$name" --data "$work/text" --output-dir "$run" --max-steps 4 --save-steps 2
        --max-seq-length 4 --threads 1 --quiet --json --resume)
    sed -E "s/^  \"$2\": .*/  \"$2\": 0.001,/" "$run/checkpoint-2/config.json" >"$work/old-$name/config.json"
    expect 2 "$2 differs from the checkpoint.s: found \"0.001\", expected \"1e-05\"" "${train[@]}"
    cp "$run/checkpoint-2/config.json" "$work/old-$name/config.json"
    expect 0 '' "${train[@]}"
    [[ -d $run/checkpoint-4 && ($err == *"was made by kernels"* || $(json state_digest) == "$3") ]]
    check $? "$name: a checkpoint of an earlier version goes on" "$out$err"
}
old gpt2 layer_norm_epsilon 3ad965cc65c4c41a
old llama rms_norm_eps b391467ea8c9585f
finish
