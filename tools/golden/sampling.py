#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/sampling.safetensors: what the logits processors of transformers, in the order in which its generate()
runs them, make of random logits.

Run from the repository root: tools/golden/sampling.py (needs torch, transformers, safetensors; written with
transformers 5.23; some seconds).

  settings       (cases, 5) float64: temperature, top_k, top_p, min_p, repetition_penalty
  ids            (cases, 8) int32: the tokens so far
  logits         (cases, 61) float32
  probabilities  (cases, 61) float64: of the next token; 0 for what may not follow
"""
import itertools

import torch
import transformers
from safetensors.torch import save_file

TOKENS = 61


def main():
    torch.manual_seed(5)
    config = transformers.GPT2Config(vocab_size=TOKENS, n_positions=16, n_embd=4, n_layer=1, n_head=1)
    model = transformers.GPT2LMHeadModel(config)
    kinds = itertools.product([1.0, 0.6, 1.7], [0, 12], [1.0, 0.8, 0.3], [0.0, 0.15], [1.0, 1.4, 0.8])
    rows = [case for n, case in enumerate(kinds) if n % 4 != 3]
    settings, tokens, given, found = [], [], [], []
    for temperature, top_k, top_p, min_p, penalty in rows:
        ids = torch.randint(0, TOKENS, (1, 8))
        ids[0, 5] = ids[0, 2]  # a token twice is penalised once
        logits = 3 * torch.randn(1, TOKENS)
        how = transformers.GenerationConfig(
            do_sample=True, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p or None,
            repetition_penalty=penalty, num_beams=1, max_length=16)
        chain = model._get_logits_processor(generation_config=how, input_ids_seq_length=8, device="cpu")
        scores = chain(ids, logits.clone())
        settings.append([temperature, top_k, top_p, min_p, penalty])
        tokens.append(ids[0].int())
        given.append(logits[0])
        found.append(scores[0].double().softmax(-1))
    save_file({"settings": torch.tensor(settings, dtype=torch.float64), "ids": torch.stack(tokens),
               "logits": torch.stack(given), "probabilities": torch.stack(found)},
              "tests/golden/sampling.safetensors")
    print(len(rows), "cases;", [str(type(p).__name__) for p in chain])


if __name__ == "__main__":
    main()
