#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/port/: a small GPT-2 with a tokenizer, and what other programs make of it.

Run from the repository root: tools/golden/formats/port.py (needs torch, transformers, numpy, gguf, safetensors;
written with transformers 5.23 and gguf 0.19). With --check DIR FILE.gguf it instead reads a GGUF file
with the gguf package and compares every tensor with those of the Hugging Face directory DIR, after
the conversions that llama.cpp's converter makes, and prints the keys.

Files:
  model.safetensors, config.json   Hugging Face's GPT2LMHeadModel, float32
  vocab.json, merges.txt           a byte-level BPE: 256 bytes, a dozen merges, <|endoftext|>; one id
                                   of the model's vocabulary has no token
  f32.gguf, f16.gguf, bf16.gguf    by gguf-py's GGUFWriter, with the keys, names, types and order of
                                   tensors of convert_hf_to_gguf.py (GPT2Model): matrices (out, in),
                                   vectors, norms and position embeddings always float32
  tokens.gguf                      f16.gguf with the tokenizer's keys, as set_vocab writes them
  fp32.llmc, bf16.llmc             llm.c's format as its train_gpt2.py (write_model) lays it out
  llama.*, qwen2.*                 LlamaForCausalLM (grouped heads, biases, a head of its own) and
                                   Qwen2ForCausalLM (tied), float32, and as GGUF with float16 as the
                                   converter's LlamaModel and Qwen2Model write them
It also prints the factors of LLAMA3's rotary frequencies that tests/unit/tools/formats/gguf/test_gguf_llama.c
has (modeling_rope_utils.py).
"""
import json
import os
import sys

import gguf
import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from transformers import (GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen2Config,
                          Qwen2ForCausalLM)
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

OUT = "tests/golden/port/"
Q = gguf.GGMLQuantizationType
NAMES = {
    "transformer.wte": "token_embd", "transformer.wpe": "position_embd",
    "transformer.ln_f": "output_norm", "ln_1": "attn_norm", "ln_2": "ffn_norm",
    "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down"}


def printable():
    """GPT-2's characters for the 256 bytes."""
    direct = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {b: chr(b) for b in direct}
    extra = 256
    for b in range(256):
        if b not in table:
            table[b] = chr(extra)
            extra += 1
    return [table[b] for b in range(256)]


def tokenizer():
    vocab = {c: i for i, c in enumerate(printable())}
    merges = []
    for pair in ["t h", "th e", "\u0120 the", "i n", "in g", "\u0120 a", "a n", "an d", "e r",
                 "\u0120 and", "\u00c3 \u00a9", "\u0120 \u0120"]:
        left, right = pair.split(" ")
        merges.append((left, right))
        vocab[left + right] = len(vocab)
    vocab["<|endoftext|>"] = len(vocab)
    return vocab, merges


def gguf_name(name):
    if ".h." in name:
        _, _, layer, *rest, kind = name.split(".")
        return f"blk.{layer}.{NAMES['.'.join(rest)]}.{kind}"
    stem, kind = name.rsplit(".", 1)
    return f"{NAMES[stem]}.{kind}"


def converted(name, array):
    matrix = name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight"))
    return gguf_name(name), np.ascontiguousarray(array.T) if matrix else array


def always_f32(name, array):
    return array.ndim < 2 or name.endswith("_norm.weight") or name == "position_embd.weight"


def order(tensors):
    """The model's own order: embeddings, blocks, final norm."""
    def key(name):
        kinds = ["ln_1", "c_attn", "attn.c_proj", "ln_2", "c_fc", "mlp.c_proj"]
        if ".h." not in name:
            return (0 if "wte" in name else 1 if "wpe" in name else 10**6,
                    0, 0 if name.endswith("weight") else 1)
        layer = int(name.split(".")[2])
        kind = next(i for i, k in enumerate(kinds) if k in name)
        return 2 + layer, kind, 0 if name.endswith("weight") else 1
    return sorted(tensors, key=key)


def write_gguf(path, config, tensors, qtype, file_type, vocab=None):
    w = gguf.GGUFWriter(path, "gpt2")
    w.add_type("model")
    w.add_name("port")
    w.add_block_count(config.n_layer)
    w.add_context_length(config.n_positions)
    w.add_embedding_length(config.n_embd)
    w.add_feed_forward_length(config.n_inner or 4 * config.n_embd)
    w.add_head_count(config.n_head)
    w.add_layer_norm_eps(config.layer_norm_epsilon)
    w.add_file_type(file_type)
    w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    if vocab is not None:
        by_id = {i: t for t, i in vocab.items()}
        tokens, types = [], []
        for i in range(config.vocab_size):
            tokens.append(by_id.get(i, f"[PAD{i}]"))
            types.append(gguf.TokenType.UNUSED if i not in by_id else
                         gguf.TokenType.CONTROL if by_id[i] == "<|endoftext|>" else
                         gguf.TokenType.NORMAL)
        w.add_tokenizer_model("gpt2")
        w.add_tokenizer_pre("gpt-2")
        w.add_token_list(tokens)
        w.add_token_types(types)
        gguf.SpecialVocab(OUT, load_merges=True).add_to_gguf(w)
    else:
        w.add_bos_token_id(config.bos_token_id)
        w.add_eos_token_id(config.eos_token_id)
    for name in order(tensors):
        to, array = converted(name, tensors[name])
        kind = Q.F32 if always_f32(to, array) else qtype
        w.add_tensor(to, gguf.quants.quantize(array, kind), raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def write_llmc(path, config, tensors, bf16):
    width, layers = config.n_embd, config.n_layer
    padded = (config.vocab_size + 127) // 128 * 128
    header = np.zeros(256, np.int32)
    header[:8] = [20240326, 5 if bf16 else 3, config.n_positions, config.vocab_size, layers,
                  config.n_head, width, padded]

    def put(f, array):
        t = torch.from_numpy(np.ascontiguousarray(array))
        f.write(t.to(torch.bfloat16).view(torch.int16).numpy().tobytes() if bf16 else t.numpy().tobytes())

    with open(path, "wb") as f:
        f.write(header.tobytes())
        wte = np.zeros((padded, width), np.float32)
        wte[: config.vocab_size] = tensors["transformer.wte.weight"]
        put(f, wte)
        put(f, tensors["transformer.wpe.weight"])
        for kind in ["ln_1.weight", "ln_1.bias", "attn.c_attn.weight", "attn.c_attn.bias",
                     "attn.c_proj.weight", "attn.c_proj.bias", "ln_2.weight", "ln_2.bias",
                     "mlp.c_fc.weight", "mlp.c_fc.bias", "mlp.c_proj.weight", "mlp.c_proj.bias"]:
            for layer in range(layers):
                name = f"transformer.h.{layer}.{kind}"
                put(f, converted(name, tensors[name])[1])
        put(f, tensors["transformer.ln_f.weight"])
        put(f, tensors["transformer.ln_f.bias"])


LLAMA = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
         "post_attention_layernorm": "ffn_norm"}
TOPS = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight"}
ORDER = ["input_layernorm", "q_proj", "k_proj", "v_proj", "o_proj", "post_attention_layernorm",
         "gate_proj", "up_proj", "down_proj"]


def permuted(array, heads):
    """LlamaModel.permute of the converter."""
    return (array.reshape(heads, 2, array.shape[0] // heads // 2, *array.shape[1:])
            .swapaxes(1, 2).reshape(array.shape))


def llama_order(name):
    if ".layers." not in name:
        return (0 if "embed" in name else 10**6 if "norm" in name else 10**7), 0, 0
    kind = next(i for i, k in enumerate(ORDER) if k in name)
    return 1 + int(name.split(".")[2]), kind, 0 if name.endswith("weight") else 1


def make_llama(arch, model, config):
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(0, 0.3)
    tensors = {n: p.detach().numpy() for n, p in model.named_parameters()}
    save_file(tensors, f"{OUT}{arch}.safetensors", metadata={"format": "pt"})
    w = gguf.GGUFWriter(f"{OUT}{arch}.gguf", arch)
    w.add_type("model")
    w.add_name(arch)
    w.add_block_count(config.num_hidden_layers)
    w.add_context_length(config.max_position_embeddings)
    w.add_embedding_length(config.hidden_size)
    w.add_feed_forward_length(config.intermediate_size)
    w.add_head_count(config.num_attention_heads)
    w.add_head_count_kv(config.num_key_value_heads)
    w.add_rope_freq_base(20000.0)
    w.add_layer_norm_rms_eps(config.rms_norm_eps)
    if arch == "llama":
        w.add_key_length(config.head_dim)
        w.add_value_length(config.head_dim)
        w.add_vocab_size(config.vocab_size)
        w.add_rope_dimension_count(config.head_dim)
    w.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    for name in sorted(tensors, key=llama_order):
        array = tensors[name]
        to = TOPS.get(name)
        if to is None:
            _, _, layer, *rest, kind = name.split(".")
            to = f"blk.{layer}.{LLAMA['.'.join(rest)]}.{kind}"
        if arch == "llama" and ("q_proj" in name or "k_proj" in name):
            array = permuted(array, config.num_attention_heads if "q_proj" in name
                             else config.num_key_value_heads)
        kind = Q.F32 if always_f32(to, array) else Q.F16
        w.add_tensor(to, gguf.quants.quantize(np.ascontiguousarray(array), kind), raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def make_llamas():
    torch.manual_seed(7)
    shape = dict(vocab_size=19, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
                 num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=32,
                 rms_norm_eps=1e-6)
    config = LlamaConfig(**shape, head_dim=12, attention_bias=True, mlp_bias=True,
                         tie_word_embeddings=False)
    make_llama("llama", LlamaForCausalLM(config), config)
    config = Qwen2Config(**shape, tie_word_embeddings=True)
    make_llama("qwen2", Qwen2ForCausalLM(config), config)
    config = LlamaConfig(hidden_size=128, num_attention_heads=2, rope_parameters={
        "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 8192})
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    plain = 1.0 / (500000.0 ** (torch.arange(0, 64, 2, dtype=torch.float64) / 64))
    print("llama3:", [round(float(f), 7) for f in plain / scaled.double()])


def make():
    torch.manual_seed(6)
    vocab, merges = tokenizer()
    config = GPT2Config(vocab_size=len(vocab) + 1, n_positions=6, n_embd=8, n_layer=2, n_head=2,
                        n_inner=None, bos_token_id=len(vocab) - 1, eos_token_id=len(vocab) - 1)
    model = GPT2LMHeadModel(config)
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(0, 0.3)
    os.makedirs(OUT, exist_ok=True)
    model.save_pretrained(OUT)
    os.remove(OUT + "generation_config.json")
    tensors = load_file(OUT + "model.safetensors")
    with open(OUT + "vocab.json", "w") as f:
        json.dump(vocab, f, ensure_ascii=False)
    with open(OUT + "merges.txt", "w") as f:
        f.write("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    write_gguf(OUT + "f32.gguf", config, tensors, Q.F32, gguf.LlamaFileType.ALL_F32)
    write_gguf(OUT + "f16.gguf", config, tensors, Q.F16, gguf.LlamaFileType.MOSTLY_F16)
    write_gguf(OUT + "bf16.gguf", config, tensors, Q.BF16, gguf.LlamaFileType.MOSTLY_BF16)
    write_gguf(OUT + "tokens.gguf", config, tensors, Q.F16, gguf.LlamaFileType.MOSTLY_F16, vocab)
    write_llmc(OUT + "fp32.llmc", config, tensors, False)
    write_llmc(OUT + "bf16.llmc", config, tensors, True)
    make_llamas()
    for name in sorted(os.listdir(OUT)):
        print(name, os.path.getsize(OUT + name), "bytes")


def check(directory, path):
    tensors = {}
    for name in os.listdir(directory):
        if name.endswith(".safetensors"):
            from safetensors.torch import load_file as load
            tensors.update(load(os.path.join(directory, name)))
    tensors = {n if n.startswith("transformer.") else "transformer." + n: t
               for n, t in tensors.items() if not n.startswith("lm_head")}
    reader = gguf.GGUFReader(path)
    for key, field in reader.fields.items():
        value = field.contents()
        print(key, "=", value if not isinstance(value, list) else f"{len(value)} items, {value[:3]} ...")
    found = {t.name: t for t in reader.tensors}
    for name, tensor in tensors.items():
        to, array = converted(name, tensor.float().numpy())
        t = found.pop(to)
        wanted = gguf.quants.dequantize(gguf.quants.quantize(array, t.tensor_type), t.tensor_type)
        got = gguf.quants.dequantize(t.data, t.tensor_type).reshape(wanted.shape)
        assert list(reversed([int(d) for d in t.shape])) == list(array.shape), (to, t.shape)
        assert np.array_equal(got, wanted), to
        assert t.tensor_type == Q.F32 or not always_f32(to, array), to
    assert not found, list(found)
    print(len(tensors), "tensors equal")


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "--check":
        check(sys.argv[2], sys.argv[3])
    else:
        make()
