#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/sentences/NAME: small models of random weights as sentence-transformers saves them, with their
tokenizers, and vectors.txt, the vectors in float64 that it computes of texts.txt (a line a text).

Run from the repository root: tools/golden/sentences.py [NAME..] (needs torch, transformers, sentence-transformers;
written with transformers 5.24 and sentence-transformers 6.2; some seconds on one core).
"""
import os
import shutil
import sys
import tempfile

import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling

OUT = "tests/golden/sentences/"
TEXTS = ["the word", "The Number of the words", "", "hello, world!", "abc cab bac, a <mask> word.", "é e É zzz",
         "<s> the </s> word", "numbers  <mask>numbers <mask>  numbers", "a b c a b c a b c a b c a b c a b c a b c a b c a"]
WORDS = ["[UNK]", "the", "word", "num", "##ber", "##s", "a", "b", "c", "##a", "##b", "##c", "e", "##e", "hello", "world",
         "of", ",", ".", "!"]


def drawn(model, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=generator) * 0.3)
    return model


def saved(name, model, tokenizer, length, modules):
    folder = OUT + name
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as base:
        model.save_pretrained(base)
        tokenizer.save_pretrained(base)
        first = Transformer(base)
        first.max_seq_length = length
        whole = SentenceTransformer(modules=[first] + modules, device="cpu")
        whole.save(folder, create_model_card=False)
        vectors = whole.double().encode(TEXTS, batch_size=4, convert_to_tensor=True)
    with open(folder + "/vectors.txt", "w", encoding="utf-8") as f:
        f.writelines(" ".join(f"{x:.9f}" for x in v.tolist()) + "\n" for v in vectors)
    for extra in ("README.md", ".gitattributes"):
        if os.path.exists(f"{folder}/{extra}"):
            os.remove(f"{folder}/{extra}")
    print(name, tuple(vectors.shape), sorted(os.listdir(folder)))


def mpnet():
    words = ["<s>", "<pad>", "</s>"] + WORDS + ["<mask>"]
    tokenizer = transformers.MPNetTokenizer(vocab={w: i for i, w in enumerate(words)})
    config = transformers.MPNetConfig(vocab_size=len(words), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                                      intermediate_size=24, max_position_embeddings=34, layer_norm_eps=1e-5)
    saved("mpnet", drawn(transformers.MPNetModel(config), 1), tokenizer, 20, [Pooling(16, pooling_mode="mean")])


def gemma(name="gemma", behind=()):
    """Gemma 3 that reads in both directions, as EmbeddingGemma does, here with a tokenizer of words."""
    words = ["<pad>", "<eos>", "<bos>"] + WORDS + ["<mask>"]
    tokenizer = transformers.MPNetTokenizer(vocab={w: i for i, w in enumerate(words)}, pad_token="<pad>", cls_token="<bos>",
                                            bos_token="<bos>", eos_token="<eos>", sep_token="<eos>")
    config = transformers.Gemma3TextConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1,
        head_dim=8, intermediate_size=24, max_position_embeddings=64, query_pre_attn_scalar=8, sliding_window=6,
        use_bidirectional_attention=True, layer_types=["sliding_attention", "sliding_attention", "full_attention"])
    saved(name, drawn(transformers.Gemma3TextModel(config), 2), tokenizer, 20,
          [Pooling(16, pooling_mode="mean"), *behind, Normalize()])


def dense():
    """EmbeddingGemma's chain, and a bias and tanh besides."""
    gemma("dense", [drawn(Dense(16, 24, bias=False, activation_function=torch.nn.Identity()), 4),
                    drawn(Dense(24, 12, bias=True, activation_function=torch.nn.Tanh()), 5)])


PIECES = ["\u2581", "\u2581the", "\u2581word", "\u2581num", "ber", "s", "a", "b", "c", "e", "h", "\u2581hello", "world",
          "\u2581w", "or", "ld", "d", "o", "f", "\u2581of", "n", "u", "m", "r", "l", "w", "t", "k", ",", ".", "!", "z", "T", "N"]


def unigram(special):
    return [(s, 0.0) for s in special] + [(p, -2.0 - 0.37 * i) for i, p in enumerate(PIECES)]


def t5():
    """sentence-t5's chain: a Unigram tokenizer, the mean, a Dense without bias, and Normalize."""
    vocab = unigram(["<pad>", "</s>", "<unk>"])
    tokenizer = transformers.T5Tokenizer(vocab=vocab, extra_ids=3)
    config = transformers.T5Config(vocab_size=len(tokenizer) + 2, d_model=16, d_kv=6, d_ff=24, num_layers=2, num_heads=2,
                                   feed_forward_proj="gated-gelu", relative_attention_num_buckets=8,
                                   relative_attention_max_distance=12)
    saved("t5", drawn(transformers.T5EncoderModel(config), 6), tokenizer, 20,
          [Pooling(16, pooling_mode="mean"), drawn(Dense(16, 12, bias=False, activation_function=torch.nn.Identity()), 7),
           Normalize()])


def deberta():
    """DeBERTa-v3, here with a tokenizer of words, and the first token."""
    words = ["[PAD]", "[CLS]", "[SEP]"] + WORDS + ["[MASK]"]
    tokenizer = transformers.BertTokenizer(vocab={w: i for i, w in enumerate(words)})
    config = transformers.DebertaV2Config(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=64, relative_attention=True, position_buckets=8, norm_rel_ebd="layer_norm", share_att_key=True,
        pos_att_type=["p2c", "c2p"], position_biased_input=False, type_vocab_size=0)
    saved("deberta", drawn(transformers.DebertaV2Model(config), 8), tokenizer, 20, [Pooling(16, pooling_mode="cls")])


def nomic():
    words = ["[PAD]", "[CLS]", "[SEP]"] + WORDS + ["[MASK]"]
    tokenizer = transformers.BertTokenizer(vocab={w: i for i, w in enumerate(words)})
    config = transformers.NomicBertConfig(vocab_size=len(words), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                                          intermediate_size=24, max_position_embeddings=32)
    saved("nomic", drawn(transformers.NomicBertModel(config), 3), tokenizer, 20, [Pooling(16, pooling_mode="mean")])


def main():
    torch.set_num_threads(1)
    os.makedirs(OUT, exist_ok=True)
    with open(OUT + "texts.txt", "w", encoding="utf-8") as f:
        f.writelines(t + "\n" for t in TEXTS)
    for name in sys.argv[1:] or ["mpnet", "gemma", "dense", "nomic", "t5", "deberta"]:
        globals()[name]()


if __name__ == "__main__":
    main()
