#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Exports models with Unigram tokenizers and with SentencePiece's own files, and lets llama.cpp read them: the same ids.

Run from the repository root, after `make -s all`: tools/golden/formats/unigram_gguf.py [write] (needs torch, transformers,
tokenizers, sentencepiece, gguf and the package llama-cpp-py-sync, whose library wants glibc 2.38, newer than Debian
12's; written with gguf 0.19.0, llama-cpp-py-sync 0.11739 of
October 2026, sentencepiece 0.2.3, tokenizers 0.23.3; a minute). It ends with exit status 1 when the ids of more than
OTHERS of 400 texts are others than those of the library that made the tokenizer (texts of spaces alone, equal scores
that float and double order otherwise, and marks that the tokenizers library takes as one with their character), when
the tokenizers library gives more than MARKED others for the tokenizer.json that is imported from the file, or when a
key is none of the gguf package's. `write`: gguf_ids.txt gets llama.cpp's ids of the first KEPT_LINES texts for the
tokenizers of KEPT: `=` before the name where the imported tokenizer.json has them too, `-` where not.

Tokenizers: those of tests/golden/tokenizers, and new ones that SentencePiece makes of other sizes, with and without a
map, spaces and a space before the text; XLM-R's tokenizer.json with the map nmt_nfkc.
"""
import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import gguf
import sentencepiece
import torch
import transformers as tf
from tokenizers import Tokenizer

import llama_cpp
import tokens

LINES, OTHERS, MARKED, KEPT_LINES = 400, 12, 40, 100
KEPT = ["unigram", "unigram_strip", "spm_unigram", "xlmr_own", "spm_plain"]
REFUSED = {"unigram_bytes": "byte_fallback", "unigram_nfkc": "normal forms", "unigram_nfc": "normal forms",
           "spm_bytes": "byte_fallback", "spm_bpe_map": "character map", "spm_bpe": "piece of users"}
APART = ["\0", "<unk>", "\x85", "\u1680"]
# name: what SentencePiece is told
MADE = {
    "nmt-nfkc": {"model_type": "unigram", "vocab_size": 500, "normalization_rule_name": "nmt_nfkc"},
    "nfkc-cf": {"model_type": "unigram", "vocab_size": 1200, "normalization_rule_name": "nmt_nfkc_cf"},
    "identity": {"model_type": "unigram", "vocab_size": 700, "normalization_rule_name": "identity"},
    "kept": {"model_type": "unigram", "vocab_size": 700, "remove_extra_whitespaces": False},
    "plain": {"model_type": "unigram", "vocab_size": 700, "remove_extra_whitespaces": False, "add_dummy_prefix": False},
    "crossing": {"model_type": "unigram", "vocab_size": 900, "split_by_whitespace": False},
    "bpe": {"model_type": "bpe", "vocab_size": 900, "byte_fallback": True, "normalization_rule_name": "identity",
            "remove_extra_whitespaces": False},
    "bpe-plain": {"model_type": "bpe", "vocab_size": 1100, "byte_fallback": True, "normalization_rule_name": "identity",
                  "remove_extra_whitespaces": False, "add_dummy_prefix": False,
                  "user_defined_symbols": ["<tool>", "\u2581\u2581\u2581"]},
}


def model_of(directory, vocabulary, encoder):
    torch.manual_seed(vocabulary)
    if encoder:
        model = tf.XLMRobertaModel(tf.XLMRobertaConfig(
            vocab_size=vocabulary, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
            max_position_embeddings=40, type_vocab_size=1, pad_token_id=1, bos_token_id=0, eos_token_id=2,
            layer_norm_eps=1e-5))
    else:
        model = tf.LlamaForCausalLM(tf.LlamaConfig(
            vocab_size=vocabulary, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
            max_position_embeddings=64, bos_token_id=1, eos_token_id=2))
    model.save_pretrained(directory)
    if encoder:
        os.makedirs(f"{directory}/1_Pooling")
        with open(f"{directory}/modules.json", "w", encoding="utf-8") as file:
            json.dump([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                       {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}], file)
        with open(f"{directory}/1_Pooling/config.json", "w", encoding="utf-8") as file:
            json.dump({"pooling_mode": "mean"}, file)


class Library:
    """What made the tokenizer, with the tokens around a text."""

    def __init__(self, folder):
        self.before, self.behind, self.own = [], [], None
        if os.path.exists(f"{folder}/tokenizer.json"):
            self.own = Tokenizer.from_file(f"{folder}/tokenizer.json")
            self.size = self.own.get_vocab_size()
            return
        self.fairseq = os.path.exists(f"{folder}/sentencepiece.bpe.model")
        name = "sentencepiece.bpe.model" if self.fairseq else "tokenizer.model"
        self.pieces = sentencepiece.SentencePieceProcessor(model_file=f"{folder}/{name}")
        self.size = self.pieces.get_piece_size() + (2 if self.fairseq else 0)
        self.before, self.behind = ([0], [2]) if self.fairseq else ([1], [])

    def ids(self, text):
        if self.own is not None:
            return self.own.encode(text).ids
        ids = self.pieces.encode(text)
        ids = [{0: 3, 1: 0, 2: 2}.get(i, i + 1) for i in ids] if self.fairseq else ids
        return self.before + ids + self.behind


def train(name, work):
    folder = f"{work}/made-{name}"
    os.makedirs(folder)
    tokens.sentences(f"{work}/sentences.txt")
    sentencepiece.SentencePieceTrainer.train(
        input=f"{work}/sentences.txt", model_prefix=f"{folder}/tokenizer", character_coverage=0.99, num_threads=1,
        minloglevel=2, input_sentence_size=4000, shuffle_input_sentence=False, **MADE[name])
    os.remove(f"{folder}/tokenizer.vocab")
    return folder


def exported(name, folder, work):
    library = Library(folder)
    encoder = name in ("unigram", "unigram_strip", "xlmr_own", "xlmr")
    directory, path = f"{work}/{name}", f"{work}/{name}.gguf"
    model_of(directory, library.size + 5, encoder)
    for file in os.listdir(folder):
        if file != "texts.txt":
            shutil.copy(f"{folder}/{file}", directory)
    done = subprocess.run(["build/release/bedplate", "export", "--model", directory, "--to", path, "--dtype", "fp32"],
                          check=True, capture_output=True, text=True)
    return library, path, done.stderr


def tame(text):
    """Without what llama.cpp and the libraries see differently: see APART."""
    text = re.sub("|".join(APART), " ", text)
    return re.sub(r"(.)\1{4,}", r"\1\1\1", text) or "x"


def keys_are_theirs(path):
    """What the gguf package's writer would make of the same values: names and types."""
    table = gguf.GGUFReader(path).fields
    kinds = {"tokens": [gguf.GGUFValueType.ARRAY, gguf.GGUFValueType.STRING],
             "scores": [gguf.GGUFValueType.ARRAY, gguf.GGUFValueType.FLOAT32],
             "token_type": [gguf.GGUFValueType.ARRAY, gguf.GGUFValueType.INT32],
             "precompiled_charsmap": [gguf.GGUFValueType.ARRAY, gguf.GGUFValueType.UINT8],
             "add_space_prefix": [gguf.GGUFValueType.BOOL], "remove_extra_whitespaces": [gguf.GGUFValueType.BOOL],
             "unknown_token_id": [gguf.GGUFValueType.UINT32]}
    names = {v for k, v in vars(gguf.Keys.Tokenizer).items() if not k.startswith("_")}
    wrong = [k for k, v in table.items() if k.startswith("tokenizer.") and k not in names]
    wrong += [k for k, want in kinds.items() if f"tokenizer.ggml.{k}" in table
              and list(table[f"tokenizer.ggml.{k}"].types) != want]
    return wrong


def xlmr(work):
    """XLM-R's tokenizer.json of the pieces with the map nmt_nfkc."""
    from sentencepiece import sentencepiece_model_pb2
    model = sentencepiece_model_pb2.ModelProto()
    with open(f"{work}/made-nmt-nfkc/tokenizer.model", "rb") as file:
        model.ParseFromString(file.read())
    with open(f"{tokens.HERE}/unigram/tokenizer.json", encoding="utf-8") as file:
        tree = json.load(file)
    vocab = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    vocab += [(piece.piece, piece.score) for piece in model.pieces[3:]] + [("<mask>", 0.0)]
    tree["model"]["vocab"] = vocab
    tree["added_tokens"][-1]["id"] = len(vocab) - 1
    tree["normalizer"]["precompiled_charsmap"] = base64.b64encode(model.normalizer_spec.precompiled_charsmap).decode()
    os.makedirs(f"{work}/made-xlmr")
    with open(f"{work}/made-xlmr/tokenizer.json", "w", encoding="utf-8") as file:
        json.dump(tree, file)
    return f"{work}/made-xlmr"


def imported(path, work):
    """The tokenizers library over the tokenizer.json that comes out of the file again; None: it is none of it."""
    shutil.rmtree(f"{work}/back", ignore_errors=True)
    done = subprocess.run(["build/release/bedplate", "import", "--from", path, "--to", f"{work}/back"], check=True,
                          capture_output=True, text=True)
    if "no tokenizer is written" in done.stderr:
        print(" " * 14, done.stderr.strip().split(": ", 2)[-1])
        return None
    return Tokenizer.from_file(f"{work}/back/tokenizer.json")


def one(name, folder, work, kept):
    library, path, said = exported(name, folder, work)
    if name in REFUSED:
        print(f"{name:14} {said.strip().split(': ', 2)[-1]}")
        return REFUSED[name] in said and "has no tokenizer" in said
    wrong = keys_are_theirs(path)
    reader = llama_cpp.Reader(path, 64)
    words = tokens.words_of()
    texts = [tame(tokens.line(number, words).decode(errors="replace")) for number in range(LINES)]
    found = [reader.tokens(text) for text in texts]
    others = [i for i in range(LINES) if found[i] != library.ids(texts[i])]
    back = imported(path, work)
    marked = [i for i in range(LINES) if back is not None and found[i] != back.encode(texts[i]).ids]
    print(f"{name:14} {LINES - len(others)} of {LINES} lines, {sum(map(len, found))} ids; imported "
          f"{'-' if back is None else LINES - len(marked)}{' keys: ' + str(wrong) if wrong else ''}")
    for i in (others + marked)[:int(os.environ.get("SHOW", "0"))]:
        print("   ", ascii(texts[i]), found[i], library.ids(texts[i]), back.encode(texts[i]).ids if back else "")
    if name in KEPT:
        kept += [f"{'-' if i in marked or back is None else '='}{name} {texts[i].encode().hex()} "
                 f"{' '.join(map(str, found[i]))}" for i in range(KEPT_LINES) if i not in others]
    return not wrong and len(others) <= OTHERS and len(marked) <= MARKED


def main():
    kept, wrong = [], []
    with tempfile.TemporaryDirectory() as work:
        if sys.argv[1:] == ["write"]:
            os.makedirs(f"{tokens.HERE}/spm_plain", exist_ok=True)
            shutil.copy(f"{train('bpe', work)}/tokenizer.model", f"{tokens.HERE}/spm_plain")
            shutil.rmtree(f"{work}/made-bpe")
        for name in KEPT + list(REFUSED) + list(MADE) + ["xlmr"]:
            folder = xlmr(work) if name == "xlmr" else train(name, work) if name in MADE else f"{tokens.HERE}/{name}"
            if not one(name, folder, work, kept):
                wrong.append(name)
    if sys.argv[1:] == ["write"]:
        with open(f"{tokens.HERE}/gguf_ids.txt", "w", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in kept))
    sys.exit(f"wrong: {wrong}" if wrong else 0)


if __name__ == "__main__":
    main()
