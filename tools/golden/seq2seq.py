#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/seq2seq: a small T5 with its decoder and a tokenizer, as transformers saves them, rows of two texts, and
what transformers computes of the first ten in float64 (`loss`, of sources cut to 12 tokens and targets to 8) and writes of them
(`greedy`, a line of ids for each, 10 at most).

Run from the repository root: tools/golden/seq2seq.py (needs torch, transformers and tokenizers; some seconds on one core).
"""
import json
import os
import random

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

OUT = "tests/golden/seq2seq/"
WORDS = "the a cat dog house tree runs sleeps eats big small red blue green under over near king queen river".split()
SOURCE, TARGET = 12, 8


def tokenizer(texts):
    tok = Tokenizer(models.Unigram())
    tok.pre_tokenizer, tok.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    tok.train_from_iterator(texts, trainers.UnigramTrainer(vocab_size=64, special_tokens=["<pad>", "</s>", "<unk>"],
                                                           unk_token="<unk>"))
    tok.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tok, eos_token="</s>", unk_token="<unk>", pad_token="<pad>")


def main():
    torch.set_num_threads(1)
    torch.manual_seed(3)
    random.seed(3)
    os.makedirs(OUT, exist_ok=True)
    rows = []
    for _ in range(48):
        words = [random.choice(WORDS) for _ in range(random.randint(1, 6))]
        rows.append({"source": " ".join(words), "target": " ".join(reversed(words[:3]))})
    tok = tokenizer([r["source"] for r in rows])
    config = transformers.T5Config(vocab_size=len(tok) + 2, d_model=24, d_kv=6, d_ff=32, num_layers=2, num_heads=3,
                                   dropout_rate=0.0, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
                                   decoder_start_token_id=0, pad_token_id=0, eos_token_id=1)
    model = transformers.T5ForConditionalGeneration(config)
    model.lm_head.weight = torch.nn.Parameter(torch.randn(config.vocab_size, 24) * 0.3)
    model.save_pretrained(OUT)
    tok.save_pretrained(OUT)
    model = model.double().eval()
    with open(OUT + "rows.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(r) + "\n" for r in rows)
    held = rows[:10]
    with open(OUT + "held.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(r) + "\n" for r in held)
    x = tok([r["source"] for r in held], max_length=SOURCE, truncation=True, padding=True, return_tensors="pt")
    y = tok([r["target"] for r in held], max_length=TARGET, truncation=True, padding=True, return_tensors="pt").input_ids
    y[y == 0] = -100
    with open(OUT + "loss", "w", encoding="utf-8") as file:
        loss = model(input_ids=x.input_ids, attention_mask=x.attention_mask, labels=y).loss
        print(f"{loss.item():.8f} {int((y >= 0).sum())}", file=file)
    with open(OUT + "greedy", "w", encoding="utf-8") as file:
        for row in held:
            one = tok(row["source"], return_tensors="pt")
            ids = model.generate(input_ids=one.input_ids, attention_mask=one.attention_mask, max_new_tokens=10, do_sample=False,
                                 num_beams=1)
            print(*ids[0, 1:].tolist(), file=file)


if __name__ == "__main__":
    main()
