#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/embeddings/: texts, and the vectors that a small BERT makes of them.

Run from the repository root, after `make -s all`: tools/golden/embeddings.py (needs torch, transformers; written with
transformers 5.23; some seconds). Where sentence-transformers is installed the vectors are compared with its own.

  texts.txt     a text a line; some are empty, some longer than 24 tokens
  vectors.txt   for each way of pooling its name, then a line a text: the first 8 of 16 numbers, in float64, of the
                model that `bedplate train --task masked-lm --max-steps 0` makes of tests/golden/pairs/config.json
                (random weights of seed 42); formulas: sentence-transformers' Pooling
  scores.jsonl  pairs of these texts with scores, some of them equal
  scores.txt    Pearson and Spearman of the cosines of pooling mean with the scores, by NumPy; recall at 1, 3, 10
"""
import json
import os
import random
import shutil
import subprocess
import tempfile

import numpy
import torch
import transformers

OUT = "tests/golden/embeddings/"
LENGTH = 24
WAYS = ["mean", "cls", "lasttoken", "mean_sqrt_len_tokens", "weightedmean"]


def write_texts():
    generator = random.Random(16)
    words = open("tests/golden/tokenizers/words.txt", encoding="utf-8").read().split()
    texts = [" ".join(generator.choices(words, k=generator.choice([0, 1, 2, 3, 6, 9, 25]))) for _ in range(40)]
    with open(OUT + "texts.txt", "w", encoding="utf-8") as f:
        f.writelines(t + "\n" for t in texts)
    with open(OUT + "scores.jsonl", "w", encoding="utf-8") as f:
        for i in range(20):
            row = {"score": generator.randrange(0, 11) / 2, "sentence2": texts[2 * i + 1], "sentence1": texts[2 * i]}
            f.write(json.dumps(row, ensure_ascii=generator.random() < 0.5) + "\n")
    return texts


def pool(way, x, mask):
    """sentence_transformers.models.Pooling.forward"""
    m = mask.unsqueeze(-1).to(x.dtype)
    n = mask.sum(1)
    if way == "cls":
        return x[:, 0]
    if way == "lasttoken":
        return x[torch.arange(len(x)), n - 1]
    if way == "weightedmean":
        w = torch.arange(1, x.shape[1] + 1).to(x.dtype).unsqueeze(0).unsqueeze(-1)
        return (x * m * w).sum(1) / (m * w).sum(1).clamp(min=1e-9)
    total = (x * m).sum(1)
    count = m.sum(1).clamp(min=1e-9)
    return total / (torch.sqrt(count) if way == "mean_sqrt_len_tokens" else count)


def make_model(to):
    os.mkdir(to + "/base")
    shutil.copy("tests/golden/pairs/config.json", to + "/base")
    shutil.copy("tests/golden/tokenizers/bert_uncased/tokenizer.json", to + "/base")
    subprocess.run(["build/release/bedplate", "train", "--model", to + "/base", "--task", "masked-lm", "--data",
                    OUT + "texts.txt", "--max-seq-length", str(LENGTH), "--max-steps", "0", "--quiet", "--output-dir",
                    to + "/model"], check=True)
    return to + "/model"


def ranks(x):
    """Ranks from 1 on, of equal ones the mean."""
    x = numpy.asarray(x)
    return numpy.array([(x < v).sum() + ((x == v).sum() + 1) / 2 for v in x])


def write_scores(vectors):
    rows = [json.loads(line) for line in open(OUT + "scores.jsonl", encoding="utf-8")]
    u = torch.nn.functional.normalize(vectors, dim=1).numpy()
    a, b = u[0::2], u[1::2]
    found, given = (a * b).sum(1), [r["score"] for r in rows]
    similar = a @ b.T
    place = (similar > similar.diagonal()[:, None]).sum(1)
    with open(OUT + "scores.txt", "w") as f:
        f.write(f"pearson_cosine {numpy.corrcoef(found, given)[0, 1]:.12g}\n")
        f.write(f"spearman_cosine {numpy.corrcoef(ranks(found), ranks(given))[0, 1]:.12g}\n")
        for k in [1, 3, 5, 10]:
            f.write(f"recall_at_{k} {(place < k).mean():.12g}\n")


def compare(path, texts, vectors, tokenizer):
    """With sentence-transformers itself, in fp32."""
    try:
        from sentence_transformers import SentenceTransformer, models
    except ImportError:
        print("sentence-transformers is not installed: not compared with it")
        return
    tokenizer.save_pretrained(path)
    for way in WAYS:
        inner = models.Transformer(path, max_seq_length=LENGTH)
        found = SentenceTransformer(modules=[inner, models.Pooling(16, pooling_mode=way)], device="cpu").encode(texts)
        print(f"{way}: differs from sentence-transformers by {abs(found - vectors[way].numpy()).max():.1e}")


def main():
    os.makedirs(OUT, exist_ok=True)
    texts = write_texts()
    with tempfile.TemporaryDirectory() as to:
        path = make_model(to)
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=path + "/tokenizer.json", pad_token="[PAD]")
        model = transformers.BertModel.from_pretrained(path, add_pooling_layer=False).double().eval()
        batch = tokenizer(texts, truncation=True, max_length=LENGTH, padding=True, return_tensors="pt")
        with torch.no_grad():
            x = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
        vectors = {way: pool(way, x, batch["attention_mask"]) for way in WAYS}
        compare(path, texts, vectors, tokenizer)
    with open(OUT + "vectors.txt", "w") as f:
        for way in WAYS:
            f.write(way + "\n")
            f.writelines(" ".join(f"{v:.7g}" for v in row[:8]) + "\n" for row in vectors[way].tolist())
    write_scores(vectors["mean"])
    lengths = batch["attention_mask"].sum(1).tolist()
    print(len(texts), "texts of", min(lengths), "to", max(lengths), "tokens")


if __name__ == "__main__":
    main()
