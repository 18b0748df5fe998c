#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/readback/sha256: digests of GGUF files that Bedplate wrote and the gguf package read.

Run from the repository root, after `make -s all`: tools/golden/formats/readback.py (needs gguf, numpy, safetensors,
tokenizers; written with gguf 0.19.0; a second).

tests/cli/models/test_gguf.sh makes models (readback/*.json) of random weights with tokenizers (a byte-level BPE as vocab.json, Llama 3's and
Qwen2's splits, a BPE with byte fallback) and exports them in F32, F16 and BF16. Here gguf.GGUFReader reads each file;
all its keys with their types and values, and all tensors with their names, types, shapes and values, must be those
that follow from the model directory: the keys of llama.cpp's convert_hf_to_gguf.py, tokens and merges as the
tokenizers library has them, Llama's query and key rows in the converter's order.
"""
import hashlib
import json
import os
import subprocess
import tempfile

import gguf
import numpy as np
from gguf import GGUFValueType as T
from safetensors.numpy import load_file
from tokenizers import Tokenizer

import port

LIST = "tests/golden/readback/sha256"
TYPES = {"gpt2": (0, gguf.GGMLQuantizationType.F32), "llama2": (1, gguf.GGMLQuantizationType.F16),
         "llama3": (32, gguf.GGMLQuantizationType.BF16), "qwen2": (32, gguf.GGMLQuantizationType.BF16)}


def model_keys(name, c):
    arch = c["model_type"]
    keys = {"general.architecture": (T.STRING, arch), "general.type": (T.STRING, "model"),
            "general.name": (T.STRING, name + "-model"), "general.file_type": (T.UINT32, TYPES[name][0]),
            "general.quantization_version": (T.UINT32, 2)}

    def put(key, value, kind=T.UINT32):
        keys[f"{arch}.{key}"] = (kind, float(np.float32(value)) if kind == T.FLOAT32 else value)

    if arch == "gpt2":
        put("block_count", c["n_layer"])
        put("context_length", c["n_positions"])
        put("embedding_length", c["n_embd"])
        put("feed_forward_length", 4 * c["n_embd"])
        put("attention.head_count", c["n_head"])
        put("attention.layer_norm_epsilon", 1e-5, T.FLOAT32)
        return keys
    put("block_count", c["num_hidden_layers"])
    put("context_length", c["max_position_embeddings"])
    put("embedding_length", c["hidden_size"])
    put("feed_forward_length", c["intermediate_size"])
    put("attention.head_count", c["num_attention_heads"])
    put("attention.head_count_kv", c["num_key_value_heads"])
    put("attention.layer_norm_rms_epsilon", c["rms_norm_eps"], T.FLOAT32)
    put("rope.freq_base", c["rope_theta"], T.FLOAT32)
    if arch == "llama":
        put("vocab_size", c["vocab_size"])
        put("rope.dimension_count", c["hidden_size"] // c["num_attention_heads"])
    return keys


def tokenizer_keys(directory, c):
    """tokenizer.ggml.*, from the files themselves."""
    path = f"{directory}/tokenizer.json"
    if os.path.exists(path):
        whole = json.load(open(path))
        vocab = Tokenizer.from_file(path).get_vocab()
        added = {a["id"]: a["special"] for a in whole["added_tokens"]}
        merges = [m if isinstance(m, str) else " ".join(m) for m in whole["model"]["merges"]]
        fallback, unknown = whole["model"].get("byte_fallback", False), whole["model"].get("unk_token")
    else:
        vocab = json.load(open(f"{directory}/vocab.json"))
        added = {vocab["<|endoftext|>"]: True}
        merges = open(f"{directory}/merges.txt", encoding="utf-8").read().split("\n")[1:]
        merges, fallback, unknown = [m for m in merges if m], False, None
    texts = {i: t for t, i in vocab.items()}
    pre = {"gpt2": "gpt-2", "qwen2": "qwen2", "llama": "default" if fallback else "llama-bpe"}[c["model_type"]]

    def type_of(i):
        if i not in texts:
            return gguf.TokenType.UNUSED
        if texts[i] == unknown:
            return gguf.TokenType.UNKNOWN
        if i in added:
            return gguf.TokenType.CONTROL if added[i] else gguf.TokenType.USER_DEFINED
        byte = fallback and len(texts[i]) == 6 and texts[i].startswith("<0x")
        return gguf.TokenType.BYTE if byte else gguf.TokenType.NORMAL

    every = range(c["vocab_size"])
    types = [int(type_of(i)) for i in every]
    keys = {"model": (T.STRING, "llama" if fallback else "gpt2"), "pre": (T.STRING, pre),
            "tokens": (T.STRING, [texts.get(i, f"[PAD{i}]") for i in every]), "token_type": (T.INT32, types),
            "bos_token_id": (T.UINT32, c["bos_token_id"]), "eos_token_id": (T.UINT32, c["eos_token_id"])}
    if not fallback:
        keys["merges"] = (T.STRING, merges)
    else:
        first = {}
        for rank, pair in enumerate(merges):
            first.setdefault(pair.replace(" ", ""), rank)
        scores = [-float(first.get(texts[i], len(merges))) if types[i] == gguf.TokenType.NORMAL else 0.0 for i in every]
        keys |= {"scores": (T.FLOAT32, scores), "unknown_token_id": (T.UINT32, vocab[unknown])}
    return {f"tokenizer.ggml.{k}": v for k, v in keys.items()}


def check_keys(reader, wanted):
    found = {k: f for k, f in reader.fields.items() if not k.startswith("GGUF.")}
    assert found.keys() == wanted.keys(), found.keys() ^ wanted.keys()
    for key, (kind, value) in wanted.items():
        types = [T.ARRAY, kind] if isinstance(value, list) else [kind]
        assert found[key].types == types, (key, found[key].types)
        assert found[key].contents() == value, (key, found[key].contents(), value)


def frequencies(c):
    """Factors of llama3's scaling, by the formula of modeling_rope_utils.py."""
    s = c["rope_scaling"]
    width = c["hidden_size"] // c["num_attention_heads"]
    inverse = 1.0 / c["rope_theta"] ** (np.arange(0, width, 2, dtype=np.float64) / width)
    wave = 2 * np.pi / inverse
    old = s["original_max_position_embeddings"]
    part = (old / wave - s["low_freq_factor"]) / (s["high_freq_factor"] - s["low_freq_factor"])
    scaled = np.where(wave > old / s["low_freq_factor"], inverse / s["factor"],
                      np.where(wave < old / s["high_freq_factor"], inverse,
                               (1 - part) * inverse / s["factor"] + part * inverse))
    return (inverse / scaled).astype(np.float32)


def converted(name, array, c):
    if c["model_type"] == "gpt2":
        return port.converted(name, array)
    to = port.TOPS.get(name)
    if to is None:
        _, _, layer, *rest, kind = name.split(".")
        to = f"blk.{layer}.{port.LLAMA['.'.join(rest)]}.{kind}"
    if c["model_type"] == "llama" and ("q_proj" in name or "k_proj" in name):
        array = port.permuted(array, c["num_attention_heads" if "q_proj" in name else "num_key_value_heads"])
    return to, array


def check_tensors(reader, name, directory, c):
    found = {t.name: t for t in reader.tensors}
    assert len(found) == len(reader.tensors)
    wanted = dict(converted(n, a, c) for n, a in load_file(f"{directory}/model.safetensors").items())
    if "rope_scaling" in c:
        factors = found.pop("rope_freqs.weight")
        assert np.allclose(factors.data, frequencies(c), rtol=1e-6) and factors.tensor_type == 0
    assert found.keys() == wanted.keys(), found.keys() ^ wanted.keys()
    for to, array in wanted.items():
        kind = gguf.GGMLQuantizationType.F32 if port.always_f32(to, array) else TYPES[name][1]
        t = found[to]
        assert t.tensor_type == kind and [int(d) for d in t.shape] == list(array.shape)[::-1], (to, t.tensor_type)
        # BF16 by the rule for weights: half away from zero (core/base/dtype.h); the others as the package rounds.
        if kind == gguf.GGMLQuantizationType.BF16:
            bits = (np.ascontiguousarray(array).view(np.uint32) + 0x8000) & 0xffff0000
            value = bits.astype(np.uint32).view(np.float32)
        else:
            value = gguf.quants.dequantize(gguf.quants.quantize(np.ascontiguousarray(array), kind), kind)
        assert np.array_equal(gguf.quants.dequantize(t.data, kind).reshape(array.shape), value), to
    return len(reader.tensors)


def main():
    lines = []
    with tempfile.TemporaryDirectory() as out:
        subprocess.run(["tests/cli/models/test_gguf.sh"], env=os.environ | {"BP_GGUF_OUT": out}, check=True)
        for name in TYPES:
            directory, path = f"{out}/{name}-model", f"{out}/{name}.gguf"
            c = json.load(open(f"tests/golden/readback/{name}.json"))
            reader = gguf.GGUFReader(path)
            keys = model_keys(name, c) | tokenizer_keys(directory, c)
            check_keys(reader, keys)
            print(name, len(keys), "keys and", check_tensors(reader, name, directory, c), "tensors are right")
            lines.append(f"{hashlib.sha256(open(path, 'rb').read()).hexdigest()}  {name}.gguf\n")
    open(LIST, "w").write("".join(lines))


if __name__ == "__main__":
    main()
