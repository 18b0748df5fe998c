#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the model directories of the comparison with random weights, as transformers saves them.

    tools/bench/peers/models.py DIR

gpt2: GPT-2 124M. llama: LLaMA's form, 134 million weights (576 wide, 30 layers, 9 heads, 3 of them for keys:
the shape of SmolLM-135M). minilm: BERT's form, 6 layers, 384 wide, with a head of two classes
(all-MiniLM-L6's shape) and a word-piece vocabulary of made-up words. gpt2 gets a byte-level vocabulary of
pairs, for llama.cpp opens no model without one. Directories that are there stay.
"""
import json
import os
import sys

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)


def gpt2():
    return GPT2LMHeadModel(GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))


def llama():
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
            num_key_value_heads=3, max_position_embeddings=2048, tie_word_embeddings=True))


def minilm():
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536,
            max_position_embeddings=512, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=2))


def word_pieces(directory):
    """A vocabulary whose every entry behind the five special ones is one whole word: w5, w6, .."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"w{i}" for i in range(5, 30522)]
    with open(os.path.join(directory, "vocab.txt"), "w") as file:
        file.write("\n".join(words) + "\n")
    with open(os.path.join(directory, "tokenizer_config.json"), "w") as file:
        json.dump({"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 512}, file)


def byte_pairs(directory):
    """A byte-level BPE of GPT-2's size: the 256 bytes, and the first 50,000 pairs of them."""
    printable = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    rest = [b for b in range(256) if b not in printable]
    letters = [chr(b) for b in printable] + [chr(256 + i) for i in range(len(rest))]
    pairs = [(a, b) for a in letters for b in letters][:50000]
    words = letters + [a + b for a, b in pairs] + ["<|endoftext|>"]
    with open(os.path.join(directory, "vocab.json"), "w") as file:
        json.dump({word: i for i, word in enumerate(words)}, file, ensure_ascii=False)
    with open(os.path.join(directory, "merges.txt"), "w") as file:
        file.write("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in pairs))


def main():
    torch.manual_seed(1)
    for name, make in (("gpt2", gpt2), ("llama", llama), ("minilm", minilm)):
        directory = os.path.join(sys.argv[1], name)
        if os.path.exists(os.path.join(directory, "model.safetensors")):
            continue
        make().save_pretrained(directory)
        if name == "gpt2":
            byte_pairs(directory)
        if name == "minilm":
            word_pieces(directory)


main()
