#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tests/golden/longrope: a Phi-3 whose rotary positions have short and long factors, as transformers saves it, with
rows.jsonl (texts about the length at which they change) and eval.json: the mean loss of the texts read one by one, and
what a prompt of 26 tokens goes on with, past that length (32).

Run from the repository root: tools/golden/longrope.py (needs torch and transformers; written with transformers 5.24.0,
torch 2.15.0)."""
import json
import os
import random

import torch
from transformers import Phi3Config, Phi3ForCausalLM

WHERE = "tests/golden/longrope"
LENGTHS = [12, 40, 20, 33, 31, 48, 32, 34, 33, 16, 64, 8] * 3

torch.manual_seed(3)
config = Phi3Config(
    vocab_size=256, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
    num_key_value_heads=1, max_position_embeddings=128, original_max_position_embeddings=32, pad_token_id=0,
    bos_token_id=1, eos_token_id=2, tie_word_embeddings=False, initializer_range=0.5,
    rope_parameters={"rope_type": "longrope", "short_factor": [1.0, 1.1, 1.25, 1.5], "rope_theta": 10000.0,
                     "long_factor": [3.0, 4.0, 6.0, 8.0], "original_max_position_embeddings": 32})
model = Phi3ForCausalLM(config).eval().float()
model.save_pretrained(WHERE)
os.remove(f"{WHERE}/generation_config.json")

random.seed(4)
texts = [bytes(random.randrange(97, 123) for _ in range(length)) for length in LENGTHS]
with open(f"{WHERE}/rows.jsonl", "w", encoding="ascii") as rows:
    for text in texts:
        turns = zip(("user", "assistant"), (text[:2].decode(), text[2:].decode()))
        rows.write(json.dumps({"messages": [{"role": role, "content": content} for role, content in turns]}) + "\n")

total = count = 0
with torch.no_grad():
    for text in texts:
        ids = torch.tensor([list(text)])
        labels = ids.clone()
        labels[:, :2] = -100
        total += model(ids, labels=labels).loss.item() * (len(text) - 2)
        count += len(text) - 2
prompt = [random.randrange(3, 256) for _ in range(26)]
said = model.generate(torch.tensor([prompt]), max_new_tokens=20, do_sample=False, eos_token_id=None, pad_token_id=0)
with open(f"{WHERE}/eval.json", "w", encoding="ascii") as told:
    json.dump({"loss": total / count, "tokens": count, "prompt": ",".join(map(str, prompt)),
               "ids": " ".join(map(str, said[0, 26:].tolist()))}, told)
    told.write("\n")
