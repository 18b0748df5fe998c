#!/bin/bash
# SPDX-License-Identifier: MIT
# Processor time of whole plans: presets x what is trained x what is offloaded x arenas.
#     tools/bench/planning.sh [PRESET|DIR..]       BEDPLATE=another program, ARENAS="1GB 3GB 10GB 80GB", MOST=seconds of a plan, JOBS=1
# "70b" is a directory with the shape of Llama 3 70B. A line per plan, as soon as it is made: preset, options, arena asked for, seconds of
# processor, arena, lower bound, and counted seconds of a step of what was chosen (0: nothing fits). The last lines are those of more than ten seconds.
# An arena that is too small costs most, since ways out are then looked for.
set -u
export program=${BEDPLATE:-${BUILD:-build/release}/bedplate} most=${MOST:-120}
folder=$(mktemp -d)
export folder
trap 'rm -rf "$folder"' EXIT
presets=("$@")
[[ $# -gt 0 ]] || mapfile -t presets < <("$program" plan --help presets | awk 'on && !/ tiny/ { print $1 } /^Presets/ { on = 1 }'; echo 70b)
read -ra arenas <<<"${ARENAS-0 1GB 3GB 10GB 80GB}"
kinds=("--bf16" "--lora-r 8 --bf16" "--lora-r 8 --bf16 --load-in-4bit --target-modules all-linear")
tier="--offload file:/var/tmp/none:900GB --device host"
tiers=("" "$tier" "$tier --offload-what bases,states,weights,checkpoints" "$tier --offload-what weights,gradients,checkpoints")
mkdir "$folder/70b"
cat >"$folder/70b/config.json" <<'END'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
 "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192, "rms_norm_eps": 1e-05,
 "rope_theta": 500000.0, "hidden_act": "silu", "tie_word_embeddings": false, "torch_dtype": "bfloat16"}
END
export TIMEFORMAT='%U %S'
one() { # PRESET OPTIONS ARENA
    local out seconds model=$1
    [[ $model != 70b ]] || model=$folder/70b
    out=$(mktemp -p "$folder")
    # shellcheck disable=SC2086 # options are words
    seconds=$(
        ulimit -t "$most"
        { time "$program" plan --model "$model" $2 --arena "$3" --json >"$out" 2>/dev/null; } 2>&1
    )
    awk -v what="$1 | $2 | $3" -v seconds="$seconds" '
        function number(name) {
            return match(all, "\"" name "\": ?[0-9.e+]+") ? substr(all, RSTART + length(name) + 3, RLENGTH - length(name) - 3) + 0 : 0
        }
        { all = all $0 }
        END {
            split(seconds, time, " ")
            printf "%s | %.1f | %.0f | %.0f | %.4f\n", what, time[1] + time[2], number("arena_bytes"), number("lower_bound_bytes"),
                number("estimated_seconds")
        }' "$out"
    rm -f "$out"
}
export -f one
for preset in "${presets[@]}"; do
    for kind in "${kinds[@]}"; do
        for where in "${tiers[@]}"; do
            for arena in "${arenas[@]}"; do
                [[ $arena == 0 && $preset == 70b && -z $where ]] || printf '%s\0' "$preset" "$kind $where" "$arena"
            done
        done
    done
done | xargs -0 -n 3 -P "${JOBS:-1}" bash -c 'one "$@"' one | tee "$folder/all"
awk -F ' [|] ' '$4 > 10 { print "more than ten seconds: " $0 }' "$folder/all"
