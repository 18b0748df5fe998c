#!/bin/bash
# SPDX-License-Identifier: MIT
# The longer proof: a GPT of 10.8 M parameters (6 layers, 384 wide, bytes), 5,000 steps of 64 tokens on a text, by fp32 AdamW and
# by the three lowest rungs of the ladder of docs/figures/memory.md; the loss over held-out text every 1,000 steps.
#
#     tools/bench/proof.sh TEXT [STEPS] [RECIPE..]     5000 steps and all recipes unless given
#
# BUILD (build/release) and PROOF_OUT (a fresh folder) are taken from the environment. A recipe takes 5 to 9
# minutes of one core. Gradients are whole here: released ones have the same bits, and would be computed twice for the norm.
set -u
text=${1:?usage: proof.sh TEXT [STEPS] [RECIPE..]}
steps=${2:-5000}
bedplate=${BUILD:-build/release}/bedplate
out=${PROOF_OUT:-$(mktemp -d)}
mkdir -p "$out/model"
cat >"$out/model/config.json" <<'END'
{"model_type": "gpt2", "vocab_size": 256, "n_positions": 256, "n_embd": 384, "n_layer": 6, "n_head": 6, "resid_pdrop": 0.0,
 "embd_pdrop": 0.0, "attn_pdrop": 0.0}
END
recipes() { # name, bytes per parameter with --gradient-release, options
    cat <<'END'
fp32   16.00 --optim adamw
split8 5.15  --optim adamw_8bit --bf16 --master split8 --param-override *:optim_bits=8
split8_4bit 4.18 --optim adamw_4bit --bf16 --master split8 --param-override *:optim_bits=4
none_4bit 3.18 --optim adamw_4bit --bf16 --master none --param-override *:optim_bits=4
END
}
set -f # patterns are the program's
while read -r name bytes options; do
    [[ $# -lt 3 || " ${*:3} " == *" $name "* ]] || continue
    rm -rf "$out/$name"
    # shellcheck disable=SC2086
    losses=$("$bedplate" train --model "$out/model" --data "$text" --data-format bytes --validation-split 0.02 \
        --output-dir "$out/$name" --max-steps "$steps" --seed 1 --learning-rate 3e-4 --lr-scheduler-type cosine \
        --warmup-steps 100 --weight-decay 0.1 --adam-beta2 0.99 --max-grad-norm 1 --max-seq-length 64 \
        --per-device-train-batch-size 1 --gradient-accumulation-steps 1 --eval-steps $((steps < 1000 ? steps : 1000)) \
        --save-steps 0 --device host --threads 1 --json --quiet $options |
        sed -n 's/^{"step": [0-9]*, "epoch": [^,]*, "eval_loss": \([0-9.e+-]*\).*/\1/p')
    [[ -n $losses ]] || { echo "$name: no loss" >&2; exit 1; }
    # shellcheck disable=SC2086
    printf '%-12s %6s %s\n' "$name" "$bytes" "$(printf ' %.5f' $losses)"
done < <(recipes)
