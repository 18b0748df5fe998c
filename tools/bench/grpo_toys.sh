#!/bin/bash
# SPDX-License-Identifier: MIT
# Toy tasks learned by rewards from random weights (docs/how-to/grpo.md): the first step of every fifth with a reward above 0.97 and
# 0.99, and seconds of processor time of as many steps; the reference runs in PyTorch stop at the first above 0.99. One thread.
# Usage: tools/bench/grpo_toys.sh [SEED]
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
printf '%-10s %6s %6s %9s %9s\n' task '>.97' '>.99' 's, user' 'PyTorch'
how=(train --task grpo --model "$work/toy" --reward places --num-generations 8 --per-device-train-batch-size 128 --max-completion-length 4
    --learning-rate 1e-3 --lr-scheduler-type constant --weight-decay 0 --seed "${1:-42}" --threads 1 --json --quiet --output-dir "$work/out"
    --overwrite-output-dir)
first() { python3 -c '
import re, sys
print(next((a for a, b in re.findall(r"\"step\": *(\d+).*?\"reward\": *([0-9.]+)", open(sys.argv[1]).read()) if float(b) > float(sys.argv[2])), "-"))
' "$work/log" "$1"; }
# toy TASK MOST REFERENCE: at most so many steps.
toy() {
    local TIMEFORMAT='%U' took
    "$program" "${how[@]}" --data "$work/$1.jsonl" --max-steps "$2" --logging-steps 5 >"$work/log" 2>&1
    local good best
    good=$(first 0.97) best=$(first 0.99)
    took=$({ time "$program" "${how[@]}" --data "$work/$1.jsonl" --max-steps "${best/-/$2}" --logging-steps 1000 >"$work/out.log" 2>&1; } 2>&1)
    printf '%-10s %6s %6s %9s %9s\n' "$1" "$good" "$best" "$took" "$3"
}
toy constant 80 0.8
toy copy 400 3.5
toy sort 1000 11
