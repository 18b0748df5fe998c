#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/answers/: questions about texts, and what transformers makes of them with a small BERT.

Run from the repository root, after `make -s all`: tools/golden/answers.py (needs torch, transformers; some seconds).

  config.json    a BertForMaskedLM, for the tokenizer bert_uncased
  squad.json     questions as SQuAD 2 nests them, some without an answer; contexts of other scripts, accents, characters
                 that normalising drops or takes apart, of less than a row and of many windows
  flat.jsonl     the questions that have an answer, a flat object a line
  windows.txt    a line a window of squad.json: ids, where the second text begins, first and last token of the answer
  eval.json      loss in float64 over all windows, exact match and F1; keys flat_* for the other file,
                 smooth_* with smoothed labels (learn)
  answers.txt    a JSON string a question of squad.json: what run_qa.py's postprocessing answers; flat.txt of the other

of the model that `bedplate train --max-steps 0` makes of that directory (random weights of seed 42), with rows of 40
tokens, a stride of 9, five best and at most six tokens of an answer.
"""
import json
import os
import random
import re
import shutil
import string
import subprocess
import tempfile

import torch
import transformers

OUT = "tests/golden/answers/"
LENGTH, STRIDE, BEST, LONGEST = 40, 9, 5, 6
ODD = ["na\u00efve", "Caf\u00e9", "e\u0301tude", "\u65e5\u672c\u8a9e", "\u00c5ngstr\u00f6m", "x\u00ady", "\u0130stanbul",
       "\u4e2d", "U.S.", "(1989)", "\u201cquoted\u201d", "a\u200bb", "\u1e69", "\u00df", "don't", "\ud55c\uad6d", "a\u00a0b"]


def write_inputs():
    generator = random.Random(11)
    words = [w for w in open("tests/golden/tokenizers/words.txt", encoding="utf-8").read().split() if w.isascii()]
    words = [w for w in words if not w.startswith("<")] + ODD * 3
    short = [w for w in words if w.isascii() and w.isalpha() and len(w) < 6]
    data, number = [], 0
    for title in range(3):
        paragraphs = []
        for _ in range(3):
            text = [generator.choice(words) for _ in range(generator.choice([3, 12, 30, 70]))]
            context = generator.choice(["", " "]) + generator.choice([" ", "  "]).join(text) + generator.choice(["", ".", " "])
            qas = []
            for _ in range(3):
                question = " ".join(generator.choice(short) for _ in range(generator.choice([1, 2, 3]))) + "?"
                answers = []
                for _ in range(generator.choice([0, 1, 1, 2])):
                    first = generator.randrange(len(text))
                    piece = generator.choice(text[first:first + 3])
                    answers.append({"text": piece, "answer_start": context.index(piece)})
                qas.append({"id": f"q{number}", "question": question, "answers": answers, "is_impossible": not answers})
                number += 1
            paragraph = {"qas": qas, "context": context} if title % 2 else {"context": context, "qas": qas}
            paragraphs.append(paragraph)
        data.append({"title": f"T{title}", "paragraphs": paragraphs})
    json.dump({"version": "v2.0", "data": data}, open(OUT + "squad.json", "w", encoding="utf-8"), ensure_ascii=False)
    rows = [dict(id=q["id"], context=p["context"], question=q["question"],
                 answers={"text": [a["text"] for a in q["answers"]],
                          "answer_start": [a["answer_start"] for a in q["answers"]]})
            for d in data for p in d["paragraphs"] for q in p["qas"]]
    with open(OUT + "flat.jsonl", "w", encoding="utf-8") as f:
        f.writelines(json.dumps(r, ensure_ascii=False) + "\n" for r in rows if r["answers"]["text"])
    transformers.BertConfig(
        architectures=["BertForMaskedLM"], vocab_size=1600, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=48, initializer_range=0.2, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0).to_json_file(OUT + "config.json")
    return rows


def windows_of(tokenizer, rows):
    """run_qa.py's features, the search for the answer's ends as the course of Hugging Face bounds it."""
    batch = tokenizer([r["question"].lstrip() for r in rows], [r["context"] for r in rows], truncation="only_second",
                      max_length=LENGTH, stride=STRIDE, return_overflowing_tokens=True, return_offsets_mapping=True,
                      padding="max_length", return_tensors="pt", return_token_type_ids=True)
    ends = []
    for i, sample in enumerate(batch["overflow_to_sample_mapping"].tolist()):
        answers, offsets, kinds = rows[sample]["answers"], batch["offset_mapping"][i].tolist(), batch.sequence_ids(i)
        place = [t for t, k in enumerate(kinds) if k == 1]
        if not answers["text"] or not place:
            ends.append((0, 0))
            continue
        begin = answers["answer_start"][0]
        end = begin + len(answers["text"][0])
        first, last = place[0], place[-1]
        if offsets[first][0] > begin or offsets[last][1] < end:
            ends.append((0, 0))
            continue
        while first <= place[-1] and offsets[first][0] <= begin:
            first += 1
        while last >= place[0] and offsets[last][1] >= end:
            last -= 1
        ends.append((first - 1, last + 1))
    return batch, torch.tensor(ends)


def answer(row, features, negative):
    """run_qa.py's postprocess_qa_predictions of one question. features: (start logits, end logits, offsets or None)."""
    found, null = [], None
    for start, end, offsets in features:
        if null is None or start[0] + end[0] < null:
            null = start[0] + end[0]
        order = lambda x: sorted(range(len(x)), key=lambda t: (x[t], t))[:-BEST - 1:-1]
        for a in order(start):
            for b in order(end):
                if offsets[a] is None or offsets[b] is None or b < a or b - a + 1 > LONGEST:
                    continue
                found.append((start[a] + end[b], row["context"][offsets[a][0]:offsets[b][1]]))
    found = sorted(found, key=lambda x: x[0], reverse=True)
    if not found or negative and null - found[0][0] > 0:
        return ""
    return found[0][1]


def plain(text):
    text = "".join(c for c in text.lower() if c not in set(string.punctuation))
    return re.sub(r"\b(a|an|the)\b", " ", text).split()


def measure(rows, found, prefix):
    exact = f1 = 0.0
    for row, text in zip(rows, found):
        golds = [plain(t) for t in row["answers"]["text"]]
        golds = [g for g in golds if g] or [[]]
        guess = plain(text)
        def overlap(g):
            if not g or not guess:
                return float(g == guess)
            common = sum(min(g.count(w), guess.count(w)) for w in set(g))
            return 2 * common / (len(g) + len(guess))
        exact += max(float(g == guess) for g in golds)
        f1 += max(map(overlap, golds))
    return {prefix + "exact_match": 100 * exact / len(rows), prefix + "f1": 100 * f1 / len(rows)}


def learn(model, inputs, ends):
    """Loss and gradient norm of all windows as one batch, both ends' labels smoothed as CrossEntropyLoss does it in
    place of the one of transformers' class (whose Trainer leaves question answering as it is)."""
    model.zero_grad()
    out = model(**inputs)
    loss = sum(torch.nn.functional.cross_entropy(logits, ends[:, i], label_smoothing=0.2)
               for i, logits in enumerate((out.start_logits, out.end_logits))) / 2
    loss.backward()
    norm = torch.sqrt(sum((p.grad ** 2).sum() for p in model.parameters() if p.grad is not None))
    return {"smooth_loss": loss.item(), "smooth_norm": norm.item()}


def main():
    os.makedirs(OUT, exist_ok=True)
    rows = write_inputs()
    with tempfile.TemporaryDirectory() as to:
        os.mkdir(to + "/base")
        shutil.copy(OUT + "config.json", to + "/base")
        shutil.copy("tests/golden/tokenizers/bert_uncased/tokenizer.json", to + "/base")
        subprocess.run(["build/release/bedplate", "train", "--model", to + "/base", "--task", "question-answering", "--data",
                        OUT + "squad.json", "--max-seq-length", str(LENGTH), "--doc-stride", str(STRIDE), "--max-steps",
                        "0", "--quiet", "--output-dir", to + "/model"], check=True)
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=to + "/model/tokenizer.json", pad_token="[PAD]")
        model = transformers.BertForQuestionAnswering.from_pretrained(to + "/model").double().eval()
        measures = {}
        for prefix, some in (("", rows), ("flat_", [r for r in rows if r["answers"]["text"]])):
            batch, ends = windows_of(tokenizer, some)
            inputs = {k: batch[k] for k in ("input_ids", "attention_mask", "token_type_ids")}
            with torch.no_grad():
                out = model(**inputs, start_positions=ends[:, 0], end_positions=ends[:, 1])
            features = [[] for _ in some]
            for i, sample in enumerate(batch["overflow_to_sample_mapping"].tolist()):
                kinds = batch.sequence_ids(i)
                offsets = [o if k == 1 else None for o, k in zip(batch["offset_mapping"][i].tolist(), kinds)]
                features[sample].append((out.start_logits[i].tolist(), out.end_logits[i].tolist(), offsets))
            found = [answer(r, f, prefix == "") for r, f in zip(some, features)]
            measures.update({prefix + "loss": out.loss.item(), prefix + "windows": len(ends)}, **measure(some, found, prefix))
            with open(OUT + (prefix and "flat.txt" or "answers.txt"), "w", encoding="utf-8") as f:
                f.writelines(json.dumps(t, ensure_ascii=False) + "\n" for t in found)
            if prefix == "flat_":
                measures.update(learn(model, inputs, ends))
            if prefix == "":
                with open(OUT + "windows.txt", "w") as f:
                    for i in range(len(ends)):
                        ids = batch["input_ids"][i][: int(batch["attention_mask"][i].sum())].tolist()
                        second = batch["token_type_ids"][i].tolist().index(1)
                        f.write(f"{' '.join(map(str, ids))} | {second} {ends[i][0]} {ends[i][1]}\n")
    json.dump(measures, open(OUT + "eval.json", "w"), indent=1)
    print(measures)


if __name__ == "__main__":
    main()
