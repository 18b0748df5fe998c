#!/bin/bash
# SPDX-License-Identifier: MIT
# Toy tasks learned by rewards from random weights (docs/how-to/grpo.md): steps, the last reward, seconds; and of the reference runs in
# PyTorch ten times the seconds. Usage: tools/bench/grpo_toys.sh [SEED]
set -eu
program=${BEDPLATE:-build/release/bedplate}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
BP_TOYS=$work python3 - <<'END'
import json, os, random
w = os.environ["BP_TOYS"]
os.mkdir(w + "/toy")
vocab = {c: i for i, c in enumerate("0123456789=")}
level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
json.dump({"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": level, "post_processor": None, "decoder": level,
           "model": {"type": "BPE", "dropout": None, "unk_token": None, "vocab": vocab, "merges": []}}, open(w + "/toy/tokenizer.json", "w"))
json.dump({"tokenizer_class": "GPT2Tokenizer"}, open(w + "/toy/tokenizer_config.json", "w"))
json.dump({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 12, "n_positions": 16, "n_embd": 64, "n_layer": 2,
           "n_head": 4}, open(w + "/toy/config.json", "w"))
random.seed(3)
answers = {"constant": lambda d: "5555", "copy": lambda d: d, "sort": lambda d: "".join(sorted(d))}
files = {k: open(f"{w}/{k}.jsonl", "w") for k in answers}
for _ in range(1024):
    d = "".join(random.choice("0123456789") for _ in range(4))
    for k in answers:
        files[k].write(json.dumps({"prompt": d + "=", "answer": answers[k](d)}) + "\n")
END
printf '%-10s %6s %8s %8s %8s %10s\n' task steps reward seconds user "at most"
toy() {
    local TIMEFORMAT='%R %U' took reward
    took=$({ time "$program" train --task grpo --model "$work/toy" --data "$work/$1.jsonl" --reward places --num-generations 8 \
        --per-device-train-batch-size 128 --max-completion-length 4 --learning-rate 1e-3 --lr-scheduler-type constant --weight-decay 0 \
        --max-steps "$2" --logging-steps "$2" --seed "${seed:-42}" --json --quiet --output-dir "$work/out" --overwrite-output-dir \
        >"$work/log" 2>&1; } 2>&1)
    reward=$(grep -o '"reward": *[0-9.e+-]*' "$work/log" | tail -1 | grep -o '[0-9.e+-]*$')
    printf '%-10s %6s %8s %8s %8s %10s\n' "$1" "$2" "$reward" "${took% *}" "${took#* }" "$3"
}
seed=${1:-42}
toy constant 40 8
toy copy 200 35
toy sort 800 110
