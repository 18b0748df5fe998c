#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Exports small random encoders to GGUF: read by the gguf package and by llama.cpp, vectors beside transformers'.

Run from the repository root, after `make -s all`: tools/golden/formats/vectors_gguf.py [NAME..] (needs torch, transformers,
safetensors, gguf and the package llama-cpp-py-sync; written with gguf 0.19.0, llama.cpp of October 2026 and
transformers 5.24; ten seconds). Nothing is written; it ends with exit status 1 when a tensor is not that of the model
by gguf's own table of names, when a vector is off by more than a share of 2e-3 of the largest number, when ids of texts
are others, or when the file as a model, or the directory that is imported from it, gives other vectors than the model.
"""
import json
import os
import subprocess
import sys
import tempfile

import gguf
import numpy as np
import torch
import transformers as tf
from tokenizers import Tokenizer

import llama_cpp

TOKENS = llama_cpp.TOKENS
BERT = {"vocab_size": 1600, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
        "num_attention_heads": 4, "max_position_embeddings": 64}
DISTIL = {"vocab_size": 1600, "dim": 64, "hidden_dim": 96, "n_layers": 3, "n_heads": 4, "max_position_embeddings": 64}
ROBERTA = BERT | {"vocab_size": 903, "max_position_embeddings": 66, "type_vocab_size": 1, "pad_token_id": 1,
                  "bos_token_id": 0, "eos_token_id": 2, "layer_norm_eps": 1e-5}
MODERN = {"vocab_size": 903, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
          "num_attention_heads": 4, "max_position_embeddings": 64, "pad_token_id": 1, "bos_token_id": 0,
          "eos_token_id": 2, "cls_token_id": 0, "sep_token_id": 2, "local_attention": 4}
# name: class, configuration, tokenizer, pooling
MODELS = {
    "bert": (tf.BertModel, BERT, "bert_uncased", "mean"),
    "bert-cls": (tf.BertModel, BERT | {"type_vocab_size": 3, "layer_norm_eps": 1e-6}, "bert_uncased", "cls"),
    "distilbert": (tf.DistilBertModel, DISTIL, "bert_uncased", "mean"),
    "roberta": (tf.RobertaModel, ROBERTA, "roberta", "mean"),
    "roberta-last": (tf.RobertaModel, ROBERTA | {"pad_token_id": 5, "max_position_embeddings": 70}, "roberta",
                     "lasttoken"),
    "xlm-roberta": (tf.XLMRobertaModel, ROBERTA, "roberta", "cls"),
    "modernbert": (tf.ModernBertModel, MODERN, "roberta", "mean"),
    "modernbert-cls": (tf.ModernBertModel, MODERN | {"num_hidden_layers": 5, "local_attention": 6, "norm_eps": 1e-6,
                                                     "layer_types": ["full_attention", "sliding_attention"] * 2
                                                     + ["full_attention"]}, "roberta", "cls"),
    "modernbert-far": (tf.ModernBertModel, MODERN | {"layer_types": ["full_attention"] * 4}, "roberta", "lasttoken"),
}
TEXTS = ["The licence of this software", "na\u00efve caf\u00e9, 12345!", "x", "Any program that is a work \u4f60\u597d"]


def tokenizer_of(name, directory):
    if name != "roberta":
        with open(f"{TOKENS}/{name}/tokenizer.json", encoding="utf-8") as file:
            tree = json.load(file)
        vocab = tree["model"]["vocab"]  # without pieces of what stands for the beginning of a word in the file
        tree["model"]["vocab"] = {f"zz{i}zz" if "\u2581" in t else t: i for t, i in vocab.items()}
        with open(f"{directory}/tokenizer.json", "w", encoding="utf-8") as file:
            json.dump(tree, file)
        return Tokenizer.from_file(f"{directory}/tokenizer.json")
    from tokenizers import processors
    with open(f"{TOKENS}/gpt2_small/vocab.json", encoding="utf-8") as file:
        vocab = json.load(file)
    with open(f"{TOKENS}/gpt2_small/merges.txt", encoding="utf-8") as file:
        merges = [line.rstrip("\n") for line in file if line.strip() and not line.startswith("#version")]
    del vocab["<|endoftext|>"]
    vocab = {piece: number + 3 for piece, number in vocab.items()}
    vocab |= {"<s>": 0, "<pad>": 1, "</s>": 2}
    added = [{"id": vocab[t], "content": t, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for t in ("<s>", "<pad>", "</s>")]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tree = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
            "pre_tokenizer": level, "decoder": level, "post_processor": None,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                      "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "vocab": vocab,
                      "merges": merges}}
    made = Tokenizer.from_str(json.dumps(tree))
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    made.save(f"{directory}/tokenizer.json")
    return made


def make(name, directory):
    cls, config, tokenizer, pooling = MODELS[name]
    torch.manual_seed(sum(map(ord, name)))
    model = cls(cls.config_class(**config)).float().eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            p.normal_(0, 0.25 if p.dim() > 1 else 0.2)
            if p.dim() == 1 and key.endswith("weight"):
                p += 1
    model.save_pretrained(directory)
    modules = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
               {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
    os.makedirs(f"{directory}/1_Pooling")
    with open(f"{directory}/modules.json", "w", encoding="utf-8") as file:
        json.dump(modules, file)
    with open(f"{directory}/1_Pooling/config.json", "w", encoding="utf-8") as file:
        json.dump({"embedding_dimension": 64, "pooling_mode": {"cls": "cls", "mean": "mean"}.get(pooling, pooling)}, file)
    return model, tokenizer_of(tokenizer, directory)


def pooled(model, ids, pooling):
    with torch.no_grad():
        x = model(torch.tensor([ids])).last_hidden_state[0]
    return {"mean": x.mean(0), "cls": x[0], "lasttoken": x[-1]}[pooling]


class Vectors(llama_cpp.Reader):
    """llama.cpp as a maker of vectors."""

    def __init__(self, path, positions):
        super().__init__(path, positions)
        self.lib.llama_free(self.context)
        params = self.lib.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = positions
        params.n_threads = params.n_threads_batch = 1
        params.embeddings = True
        params.flash_attn_type = 0
        self.context = self.lib.llama_init_from_model(self.model, params)

    def vector(self, ids, width):
        tokens = self.ffi.new("llama_token[]", ids)
        assert self.lib.llama_encode(self.context, self.lib.llama_batch_get_one(tokens, len(ids))) == 0
        raw = self.lib.llama_get_embeddings_seq(self.context, 0)
        return torch.tensor([raw[i] for i in range(width)])


def tensors_are_the_models(path, model, first):
    """By gguf's own table of names."""
    modern = "Modern" in type(model).__name__
    table = gguf.get_tensor_name_map(gguf.MODEL_ARCH.MODERN_BERT if modern else gguf.MODEL_ARCH.BERT, 5)
    found = {t.name: np.array(t.data).reshape(tuple(reversed(t.shape.tolist()))) for t in gguf.GGUFReader(path).tensors}
    right = {}
    for key, p in model.state_dict().items():
        name = table.get_name(key, (".weight", ".bias"))
        if name is not None and not key.startswith("pooler"):
            right[name] = p.numpy()[first:] if "position_embeddings" in key else p.numpy()
    return found.keys() == right.keys() and all(np.array_equal(found[k], right[k]) for k in right)


def embed(model, texts):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as data:
        data.write("".join(json.dumps({"text": t}) + "\n" for t in texts))
        data.flush()
        out = data.name + ".out.jsonl"
        llama_cpp.ours("embed", "--model", model, "--data", data.name, "--output", out)
    with open(out, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    os.remove(out)
    return torch.tensor([row["embedding"] for row in rows])


def one(name, work):
    directory, path, back = f"{work}/{name}", f"{work}/{name}.gguf", f"{work}/{name}-back"
    pooling = MODELS[name][3]
    model, library = make(name, directory)
    llama_cpp.ours("export", "--model", directory, "--to", path, "--dtype", "fp32")
    config = MODELS[name][1]
    first = config.get("pad_token_id", 0) + 1 if "roberta" in name else 0
    named = tensors_are_the_models(path, model, first)
    try:
        reader = Vectors(path, 64)
    except RuntimeError as why:  # a library for a newer system
        print("without llama.cpp:", str(why)[-90:])
        reader = None
    ids = [library.encode(t).ids for t in TEXTS]
    texts = [t for t, right in zip(TEXTS, ids) if reader and reader.tokens(t) != right]
    right = torch.stack([pooled(model, one, pooling) for one in ids])
    found = torch.stack([reader.vector(one, right.shape[1]) for one in ids]) if reader else right
    scale = float(right.abs().max())
    worst = float((found - right).abs().max()) / scale
    subprocess.run(["build/release/bedplate", "import", "--from", path, "--to", back], check=True, capture_output=True)
    own = [float((embed(m, TEXTS) - right).abs().max()) / scale for m in (directory, path, back)]
    good = named and worst < 2e-3 and not texts and max(own) < 2e-5
    print(f"{name:14} tensors {'equal' if named else 'DIFFER'}, vectors off by {worst:.1e} (llama.cpp), "
          f"{own[0]:.1e} {own[1]:.1e} {own[2]:.1e} (model, file, imported), other ids of {texts}{'' if good else '  WRONG'}")
    return good


def main():
    names = sys.argv[1:] or list(MODELS)
    with tempfile.TemporaryDirectory() as work:
        wrong = [name for name in names if not one(name, os.environ.get("KEEP", work))]
    sys.exit(f"wrong: {wrong}" if wrong else 0)


if __name__ == "__main__":
    main()
