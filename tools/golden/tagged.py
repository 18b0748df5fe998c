#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/tagged/: sentences of tagged words, and what transformers makes of them with a small BERT.

Run from the repository root, after `make -s all`: tools/golden/tagged.py (needs torch, transformers; some seconds).

  config.json    a BertForMaskedLM, for the tokenizer bert_uncased
  rows.jsonl     sentences with `tokens` and `ner_tags`, of one word and of more than a row takes
  columns.txt    the same as CoNLL has them
  eval.json      what eval has to say, without and with all tokens labelled (keys all_*): loss in float64, accuracy, and
                 entities counted by regular expression over strings of tags; with weighted classes and smoothed
                 labels (learn) also the norm of all gradients
  words.txt      a line a sentence: the likeliest classes of its words, - where one was cut off

of the model that `bedplate train --max-steps 0` makes of that directory (random weights of seed 42), the sentences
tokenised and labelled as run_ner.py does it, cut to 24 tokens.
"""
import json
import os
import random
import re
import shutil
import subprocess
import tempfile

import torch
import transformers
from transformers.trainer_pt_utils import LabelSmoother

OUT = "tests/golden/tagged/"
LENGTH = 24
TAGS = ["O", "O", "B-PER", "I-PER", "B-LOC", "I-LOC", "S-ORG", "B-ORG", "I-ORG", "E-ORG"]


def write_inputs():
    generator = random.Random(5)
    words = open("tests/golden/tokenizers/words.txt", encoding="utf-8").read().split()
    words += ["don't", "U.S.", "naïve", "日本語", "x-ray's", "unaffable"]
    rows = []
    for _ in range(48):
        n = generator.choice([1, 2, 4, 7, 12, 30])
        rows.append((generator.choices(words, k=n), generator.choices(TAGS, k=n)))
    with open(OUT + "rows.jsonl", "w", encoding="utf-8") as f:
        for i, (w, t) in enumerate(rows):
            f.write(json.dumps({"id": str(i), "tokens": w, "pos_tags": [7] * len(w), "ner_tags": t},
                               ensure_ascii=False) + "\n")
    with open(OUT + "columns.txt", "w", encoding="utf-8") as f:
        f.write("-DOCSTART- -X- -X- O\n\n")
        for w, t in rows:
            f.writelines(f"{a} NN X {b}\n" for a, b in zip(w, t))
            f.write("\n")
    transformers.BertConfig(
        architectures=["BertForMaskedLM"], vocab_size=1600, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=32, initializer_range=0.2, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0).to_json_file(OUT + "config.json")
    return rows


def label_rows(tokenizer, rows, names, every):
    """run_ner.py's tokenize_and_align_labels."""
    ids = {n: i for i, n in enumerate(names)}
    inside = [ids.get("I-" + n[2:], i) if n.startswith("B-") else i for i, n in enumerate(names)]
    batch = tokenizer([w for w, _ in rows], truncation=True, max_length=LENGTH, is_split_into_words=True, padding=True,
                      return_tensors="pt")
    labels = []
    for i, (_, tags) in enumerate(rows):
        row, before = [], None
        for word in batch.word_ids(i):
            first = word is not None and word != before
            row.append(ids[tags[word]] if first else inside[ids[tags[word]]] if every and word is not None else -100)
            before = word
        labels.append(row)
    return batch, torch.tensor(labels)


def spans(tags):
    """Entities of a sentence: (type, first, last). A tag goes on with an entity where its letter is I or E, the one
    before it B or I, and both have one type; what stands for nothing is O."""
    found, text = set(), ""
    kinds = [t.split("-", 1)[1] if t != "O" else "" for t in tags]
    for i, t in enumerate(tags):
        goes_on = t[0] in "IE" and i > 0 and tags[i - 1][0] in "BI" and kinds[i - 1] == kinds[i]
        text += "o" if t == "O" else "i" if goes_on else "b"
    for m in re.finditer("bi*", text):
        found.add((kinds[m.start()], m.start(), m.end() - 1))
    return found


def measure(logits, labels, names, prefix):
    given = found = right = hits = count = 0
    for row, truth in zip(logits.argmax(-1).tolist(), labels.tolist()):
        pairs = [(names[a], names[b]) for a, b in zip(row, truth) if b >= 0]
        a, b = spans([x for x, _ in pairs]), spans([y for _, y in pairs])
        found, given, right = found + len(a), given + len(b), right + len(a & b)
        hits, count = hits + sum(x == y for x, y in pairs), count + len(pairs)
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, len(names)), labels.reshape(-1)).item()
    return {prefix + k: v for k, v in dict(
        loss=loss, tokens=count, accuracy=hits / count, precision=right / found, recall=right / given,
        f1=2 * right / (found + given)).items()}


def learn(model, batch, labels, classes):
    """Loss and gradient norm of all rows as one batch, by CrossEntropyLoss with class weights and smoothed labels; and
    the loss of transformers' LabelSmoother."""
    weights = torch.tensor([0.25 * (1 + i % 4) for i in range(classes)], dtype=torch.float64)
    found = {}
    for name, weight, smoothing in (("weighted", weights, 0.0), ("both", weights, 0.2)):
        model.zero_grad()
        logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, classes), labels.reshape(-1), weight=weight,
                                                 label_smoothing=smoothing)
        loss.backward()
        norm = torch.sqrt(sum((p.grad ** 2).sum() for p in model.parameters() if p.grad is not None))
        found[name + "_loss"], found[name + "_norm"] = loss.item(), norm.item()
    found["smooth_loss"] = LabelSmoother(epsilon=0.2)({"logits": logits.detach()}, labels).item()
    return found


def balance(tokenizer, rows, names):
    """scikit-learn's balanced weights over the words that have pieces."""
    counts = {n: 0 for n in names}
    for words, tags in rows:
        for i in {w for w in tokenizer(words, is_split_into_words=True).word_ids() if w is not None}:
            counts[tags[i]] += 1
    return ",".join(f"{sum(counts.values()) / len(names) / counts[n]:.9g}" for n in names)


def main():
    os.makedirs(OUT, exist_ok=True)
    rows = write_inputs()
    names = sorted({t for _, tags in rows for t in tags})
    with tempfile.TemporaryDirectory() as to:
        os.mkdir(to + "/base")
        shutil.copy(OUT + "config.json", to + "/base")
        shutil.copy("tests/golden/tokenizers/bert_uncased/tokenizer.json", to + "/base")
        subprocess.run(["build/release/bedplate", "train", "--model", to + "/base", "--task", "token-classification",
                        "--data", OUT + "rows.jsonl", "--max-seq-length", str(LENGTH), "--max-steps", "0", "--quiet",
                        "--output-dir", to + "/model"], check=True)
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=to + "/model/tokenizer.json", pad_token="[PAD]")
        model = transformers.BertForTokenClassification.from_pretrained(to + "/model").double().eval()
        assert [model.config.id2label[i] for i in range(len(names))] == names
        measures = {}
        for every in (False, True):
            batch, labels = label_rows(tokenizer, rows, names, every)
            with torch.no_grad():
                logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
            measures.update(measure(logits, labels, names, "all_" if every else ""))
            if not every:
                measures.update(learn(model, batch, labels, len(names)), balanced=balance(tokenizer, rows, names))
    with open(OUT + "words.txt", "w") as f:
        for i, (words, _) in enumerate(rows):
            ids = batch.word_ids(i)
            best = logits[i].argmax(-1).tolist()
            f.write(" ".join(names[best[ids.index(w)]] if w in ids else "-" for w in range(len(words))) + "\n")
    json.dump(measures, open(OUT + "eval.json", "w"), indent=1)
    print(measures)


if __name__ == "__main__":
    main()
