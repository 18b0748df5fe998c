#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/pairs/: pairs of texts, and what transformers makes of them with a small BERT.

Run from the repository root, after `make -s all`: tools/golden/pairs.py (needs torch, transformers; written with
transformers 5.23; some seconds).

  config.json   a BertForSequenceClassification with two named classes, for the tokenizer bert_uncased
  rows.tsv      columns as GLUE's RTE has them (index, sentence1, sentence2, label); texts of no word and of many
  logits.txt    two numbers a row: the logits in float64, of the model that `bedplate train --max-steps 0` makes of that
                directory (random weights of seed 42), the rows tokenised as run_glue.py does it, cut to 24 tokens
"""
import os
import random
import shutil
import subprocess
import tempfile

import torch
import transformers

OUT = "tests/golden/pairs/"
LENGTH = 24


def write_inputs():
    generator = random.Random(3)
    words = open("tests/golden/tokenizers/words.txt", encoding="utf-8").read().split()
    pick = lambda counts: " ".join(generator.choices(words, k=generator.choice(counts)))
    with open(OUT + "rows.tsv", "w", encoding="utf-8") as f:
        f.write("index\tsentence1\tsentence2\tlabel\n")
        for i in range(40):
            f.write(f"{i}\t{pick([0, 1, 3, 6, 20])}\t{pick([0, 2, 4, 9, 25])}\t"
                    f"{['not_equivalent', 'equivalent'][generator.randrange(2)]}\n")
    transformers.BertConfig(
        architectures=["BertForSequenceClassification"], vocab_size=1600, hidden_size=16, num_hidden_layers=2,
        num_attention_heads=2, intermediate_size=24, max_position_embeddings=32, initializer_range=0.2,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, id2label={0: "not_equivalent", 1: "equivalent"},
        label2id={"not_equivalent": 0, "equivalent": 1}).to_json_file(OUT + "config.json")


def main():
    os.makedirs(OUT, exist_ok=True)
    write_inputs()
    with tempfile.TemporaryDirectory() as to:
        os.mkdir(to + "/base")
        shutil.copy(OUT + "config.json", to + "/base")
        shutil.copy("tests/golden/tokenizers/bert_uncased/tokenizer.json", to + "/base")
        subprocess.run(["build/release/bedplate", "train", "--model", to + "/base", "--task", "classification", "--data",
                        OUT + "rows.tsv", "--max-seq-length", str(LENGTH), "--max-steps", "0", "--quiet", "--output-dir",
                        to + "/model"], check=True)
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=to + "/model/tokenizer.json", pad_token="[PAD]")
        model = transformers.BertForSequenceClassification.from_pretrained(to + "/model").double().eval()
        rows = [line.rstrip("\n").split("\t") for line in open(OUT + "rows.tsv", encoding="utf-8")][1:]
        first, second = [r[1] for r in rows], [r[2] for r in rows]
        batch = tokenizer(first, second, truncation=True, max_length=LENGTH, padding=True, return_tensors="pt",
                          return_token_type_ids=True)
        whole = [len(ids) for ids in tokenizer(first, second)["input_ids"]]
        with torch.no_grad():
            logits = model(**batch).logits
        plain = model(**{k: v for k, v in batch.items() if k != "token_type_ids"}).logits
    with open(OUT + "logits.txt", "w") as f:
        f.writelines(f"{a:.9g} {b:.9g}\n" for a, b in logits.tolist())
    print(len(rows), "pairs,", sum(n > LENGTH for n in whole), "of them cut; token types move logits by up to",
          float((logits - plain).abs().max()))


if __name__ == "__main__":
    main()
