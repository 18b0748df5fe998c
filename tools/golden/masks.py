#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/masks/: what transformers puts behind the masks of two texts with a small BERT.

Run from the repository root, after `make -s all`: tools/golden/masks.py (needs torch, transformers; written with
transformers 5.23; some seconds).

  config.json     a BertForMaskedLM for the tokenizer bert_uncased
  prompts.txt     a text a line
  candidates.txt  for each [MASK] a line: the prompt's number, its position, then seven times a token and its probability,
                  in float64, of the model that `bedplate train --max-steps 0` makes of that directory (seed 42)
"""
import os
import shutil
import subprocess
import tempfile

import torch
import transformers

OUT = "tests/golden/masks/"
PROMPTS = ["the [MASK] of what is [MASK].", "[MASK]"]


def main():
    os.makedirs(OUT, exist_ok=True)
    transformers.BertConfig(
        architectures=["BertForMaskedLM"], vocab_size=1600, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=32, initializer_range=0.4).to_json_file(OUT + "config.json")
    open(OUT + "prompts.txt", "w").write("".join(p + "\n" for p in PROMPTS))
    with tempfile.TemporaryDirectory() as to:
        os.mkdir(to + "/base")
        shutil.copy(OUT + "config.json", to + "/base")
        shutil.copy("tests/golden/tokenizers/bert_uncased/tokenizer.json", to + "/base")
        subprocess.run(["build/release/bedplate", "train", "--model", to + "/base", "--data", OUT + "prompts.txt",
                        "--max-seq-length", "4", "--per-device-train-batch-size", "1", "--max-steps", "0", "--quiet",
                        "--output-dir", to + "/model"], check=True)
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=to + "/model/tokenizer.json", mask_token="[MASK]")
        model = transformers.BertForMaskedLM.from_pretrained(to + "/model").double().eval()
        with open(OUT + "candidates.txt", "w") as f, torch.no_grad():
            for n, prompt in enumerate(PROMPTS):
                ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
                shares = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0].softmax(-1)
                for at in (ids[0] == tokenizer.mask_token_id).nonzero()[:, 0].tolist():
                    top = shares[at].topk(7)
                    pairs = " ".join(f"{t} {p:.9g}" for p, t in zip(top.values.tolist(), top.indices.tolist()))
                    f.write(f"{n} {at} {pairs}\n")
    print(open(OUT + "candidates.txt").read())


if __name__ == "__main__":
    main()
