#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/blocks/: GGUF's packed element types as the gguf package reads them.

Run from the repository root: tools/golden/blocks.py (needs numpy, gguf, safetensors; written with gguf 0.17; a second).

  blocks.safetensors  for each type NAME.bytes (uint8) of some blocks and NAME.values (float32) that they stand for; floats
                      (float32), and NAME.packed (uint8): these as blocks of the types that the package quantises
  qwen2.gguf          a tiny Qwen2 whose matrices have five of the types
  qwen2.safetensors   its weights under Hugging Face's names, in float32
  mixed.gguf          a Llama of one layer whose matrices have the types that llama.cpp mixes in a file, of random bits
"""
import os

import gguf
import numpy
from gguf.quants import dequantize, quantize
from safetensors.numpy import save_file

OUT = "tests/golden/blocks/"
Type = gguf.GGMLQuantizationType
# Where a block has its half-precision scales.
HALVES = {Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q8_0: [0], Type.Q2_K: [80, 82],
          Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208], Type.IQ4_NL: [0], Type.MXFP4: []}
# How large the scales are with which a matrix of random bits is one that a model may have.
SPREAD = {Type.Q8_0: 6e-4, Type.Q4_0: 1e-2, Type.Q4_K: 3e-4, Type.Q5_K: 2e-4, Type.Q6_K: 5e-5, Type.IQ4_NL: 1e-3}
MIXED = {"attn_q": Type.Q4_K, "attn_k": Type.Q8_0, "attn_v": Type.Q6_K, "attn_output": Type.IQ4_NL, "ffn_gate": Type.MXFP4,
         "ffn_up": Type.Q5_K, "ffn_down": Type.Q4_0, "token_embd": Type.Q8_0, "output": Type.Q6_K}
BLOCKS = 3


def random_blocks(rng, kind):
    _, size = gguf.GGML_QUANT_SIZES[kind]
    raw = rng.integers(0, 256, (BLOCKS, size), dtype=numpy.uint8)
    for at in HALVES[kind]:
        scales = rng.normal(0, 0.1, BLOCKS).astype(numpy.float16)
        raw[:, at:at + 2] = scales.view(numpy.uint8).reshape(BLOCKS, 2)
    return raw


def tiny_model(rng):
    width, inner, vocabulary = 32, 64, 40
    shapes = {"model.embed_tokens.weight": ("token_embd.weight", (vocabulary, width)),
              "model.norm.weight": ("output_norm.weight", (width,)), "lm_head.weight": ("output.weight", (vocabulary, width))}
    layer = {"input_layernorm.weight": ("attn_norm.weight", (width,)), "post_attention_layernorm.weight": ("ffn_norm.weight", (width,)),
             "mlp.gate_proj.weight": ("ffn_gate.weight", (inner, width)), "mlp.up_proj.weight": ("ffn_up.weight", (inner, width)),
             "mlp.down_proj.weight": ("ffn_down.weight", (width, inner))}
    for letter, word in (("q", "attn_q"), ("k", "attn_k"), ("v", "attn_v")):
        layer[f"self_attn.{letter}_proj.weight"] = (f"{word}.weight", (width, width))
        layer[f"self_attn.{letter}_proj.bias"] = (f"{word}.bias", (width,))
    layer["self_attn.o_proj.weight"] = ("attn_output.weight", (width, width))
    shapes.update({f"model.layers.0.{n}": (f"blk.0.{g}", s) for n, (g, s) in layer.items()})
    return {n: (g, (rng.normal(0, 0.3, s) + (1 if "norm" in n else 0)).astype(numpy.float32)) for n, (g, s) in shapes.items()}


def random_matrix(rng, kind, rows, width):
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = (rows, width // elements)
    raw = rng.integers(0, 256, (*blocks, size), dtype=numpy.uint8)
    for n, at in enumerate(HALVES[kind]):
        scales = numpy.abs(rng.normal(SPREAD[kind], SPREAD[kind] / 4, blocks)) * (8 if n else 1)
        raw[:, :, at:at + 2] = scales.astype(numpy.float16).view(numpy.uint8).reshape(*blocks, 2)
    if kind == Type.MXFP4:
        raw[:, :, 0] = rng.integers(120, 123, blocks)
    return raw.reshape(rows, -1)


def mixed_model(rng):
    width, vocabulary = 256, 64
    writer = gguf.GGUFWriter(OUT + "mixed.gguf", "llama")
    for add, value in ((writer.add_block_count, 1), (writer.add_context_length, 64), (writer.add_embedding_length, width),
                       (writer.add_feed_forward_length, width), (writer.add_head_count, 4), (writer.add_head_count_kv, 2),
                       (writer.add_rope_freq_base, 10000.0), (writer.add_layer_norm_rms_eps, 1e-6),
                       (writer.add_file_type, gguf.LlamaFileType.MOSTLY_Q4_K_M)):
        add(value)
    for word, kind in MIXED.items():
        name = f"{word}.weight" if word in ("token_embd", "output") else f"blk.0.{word}.weight"
        rows = vocabulary if word in ("token_embd", "output") else width // 2 if word in ("attn_k", "attn_v") else width
        writer.add_tensor(name, random_matrix(rng, kind, rows, width), raw_dtype=kind)
    for name in ("output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"):
        writer.add_tensor(name, rng.normal(1, 0.1, width).astype(numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    rng = numpy.random.default_rng(7)
    os.makedirs(OUT, exist_ok=True)
    tensors = {}
    later = numpy.random.default_rng(8)
    for kind in HALVES:
        raw = random_blocks(later if kind in (Type.IQ4_NL, Type.MXFP4) else rng, kind)
        tensors[kind.name + ".bytes"] = raw
        tensors[kind.name + ".values"] = dequantize(raw, kind).astype(numpy.float32)
    floats = numpy.concatenate([later.normal(0, size, 64) for size in (1e-6, 0.02, 3)] + [numpy.zeros(32)]).astype(numpy.float32)
    floats[64:96] = numpy.arange(-16, 16) / 8
    floats[96:128] = numpy.abs(floats[96:128])
    tensors["floats"] = floats
    for kind in (Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.MXFP4):
        tensors[kind.name + ".packed"] = quantize(floats, kind)
    save_file(tensors, OUT + "blocks.safetensors")
    writer = gguf.GGUFWriter(OUT + "qwen2.gguf", "qwen2")
    for add, value in ((writer.add_block_count, 1), (writer.add_context_length, 32), (writer.add_embedding_length, 32),
                       (writer.add_feed_forward_length, 64), (writer.add_head_count, 2), (writer.add_head_count_kv, 2),
                       (writer.add_rope_freq_base, 10000.0), (writer.add_layer_norm_rms_eps, 1e-6),
                       (writer.add_file_type, gguf.LlamaFileType.MOSTLY_Q8_0)):
        add(value)
    kinds = [Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0]
    read = {}
    for n, (name, (gguf_name, values)) in enumerate(sorted(tiny_model(rng).items())):
        if values.ndim == 1:
            writer.add_tensor(gguf_name, values)
            read[name] = values
            continue
        kind = kinds[n % len(kinds)]
        raw = quantize(values, kind)
        writer.add_tensor(gguf_name, raw, raw_dtype=kind)
        read[name] = dequantize(raw, kind).astype(numpy.float32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    save_file(read, OUT + "qwen2.safetensors", metadata={"format": "pt"})
    mixed_model(numpy.random.default_rng(11))


if __name__ == "__main__":
    main()
