# SPDX-License-Identifier: MIT
# grpo_toys.py FOLDER: a small model of eleven tokens and the prompts of three toy tasks, as the reference runs in PyTorch
# have them. For grpo_toys.sh and tests/cli/data/test_grpo_toys.sh.
import json
import os
import random
import sys

w = sys.argv[1]
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
