#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/families/bert_{tokens,answers}*.safetensors: what BertForTokenClassification and
BertForQuestionAnswering compute in float64, with PEFT's adapters too, in the files of tools/golden/families.py.

Run from the repository root: tools/golden/heads.py (needs torch, transformers, peft; some seconds on one core).

labels are (samples, sequence) classes, -100 where there is none; of answers (samples, 2): the first and the last token.
logits are (samples * sequence, classes); of answers (samples * 2, sequence), over padding too.
"""
import os
import sys

import numpy as np
import peft
import torch
import transformers

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import families  # noqa: E402

TOKENS, ANSWERS = 5, 6


def with_adapters(model, v, kind, generator):
    if not v.get("rank"):
        return model
    every = ["query", "key", "value", "intermediate.dense", "output.dense"]
    model = peft.get_peft_model(model, peft.LoraConfig(
        r=v["rank"], lora_alpha=v["alpha"], lora_dropout=0.0, target_modules=every, task_type=kind)).double()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if ".lora_" in name:
                p.copy_((torch.randn(p.shape, generator=generator, dtype=torch.float64) * 0.2).float().double())
    return model


def inputs_of(v, lengths, seconds, generator):
    ids, mask = families.samples(v, lengths, generator)
    inputs = dict(input_ids=ids, attention_mask=mask)
    tensors = {"tokens": ids.numpy().astype(np.int32), "lengths": np.array(lengths, np.int32)}
    if seconds is not None:
        begin = torch.tensor([s or v["sequence"] for s in seconds])[:, None]
        inputs["token_type_ids"] = (torch.arange(v["sequence"])[None] >= begin).long() * mask
        tensors["seconds"] = np.array(seconds, np.int32)
    return inputs, tensors


def tokens(name, v, lengths, seed):
    generator = torch.Generator().manual_seed(seed)
    v = {**v, "task": TOKENS}
    model = families.draw(transformers.BertForTokenClassification(families.bert_config(v, num_labels=v["classes"])),
                          generator)
    model = with_adapters(model, v, "TOKEN_CLS", generator)
    inputs, tensors = inputs_of(v, lengths, None, generator)
    there = (torch.rand(inputs["input_ids"].shape, generator=generator) < 0.6) & (inputs["attention_mask"] == 1)
    there[0, 0] = True
    labels = torch.where(there, torch.randint(v["classes"], there.shape, generator=generator), -100)
    tensors["labels"] = labels.numpy().astype(np.int32)
    tensors["logits"] = families.single(model(**inputs).logits).reshape(-1, v["classes"])
    families.finish("families/" + name, model, lambda _: model(**inputs, labels=labels).loss, v, tensors)


def answers(name, v, lengths, ends, seed, seconds=None):
    generator = torch.Generator().manual_seed(seed)
    v = {**v, "task": ANSWERS, "classes": 2}
    model = families.draw(transformers.BertForQuestionAnswering(families.bert_config(v, num_labels=2)), generator)
    model = with_adapters(model, v, "QUESTION_ANS", generator)
    inputs, tensors = inputs_of(v, lengths, seconds, generator)
    tensors["labels"] = np.array(ends, np.int32)
    # PEFT's own class leaves the token types out.
    whole = model.base_model.model if v.get("rank") else model
    found = whole(**inputs)
    tensors["logits"] = families.single(torch.stack([found.start_logits, found.end_logits], 1)).reshape(-1, v["sequence"])
    first, last = torch.tensor(ends).T

    def loss(_):
        return whole(**inputs, start_positions=first, end_positions=last).loss

    families.finish("families/" + name, model, loss, v, tensors)


def main():
    torch.set_num_threads(1)
    bert = dict(vocabulary=41, positions=16, width=16, layers=2, heads=2, inner=24, batch=4, sequence=9, accumulation=1,
                norm_epsilon=1e-12, types=2)
    tokens("bert_tokens", {**bert, "classes": 9}, [9, 4, 1, 6], 51)
    tokens("bert_tokens_two_micros", {**bert, "classes": 5, "heads": 1, "types": 1, "batch": 2, "accumulation": 2},
           [9, 2, 7, 3], 52)
    tokens("bert_tokens_lora", {**bert, "classes": 4, "rank": 2, "alpha": 4, "all_linear": 1}, [9, 4, 1, 6], 53)
    answers("bert_answers_pairs", bert, [9, 7, 4, 8], [(4, 6), (6, 6), (0, 0), (5, 7)], 54, [4, 6, 2, 3])
    answers("bert_answers_two_micros", {**bert, "heads": 4, "batch": 2, "accumulation": 2}, [9, 9, 5, 8],
            [(0, 8), (3, 4), (4, 4), (0, 0)], 55)
    answers("bert_answers_pairs_lora", {**bert, "rank": 2, "alpha": 4, "all_linear": 1}, [9, 7, 4, 8],
            [(4, 6), (6, 6), (0, 0), (5, 7)], 56, [4, 6, 2, 3])


if __name__ == "__main__":
    main()
