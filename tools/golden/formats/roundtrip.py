#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/roundtrip/: small directories as transformers' save_pretrained writes them, in shards, and digests
of what Bedplate makes of them when it trains no step.

Run from the repository root, after `make -s all`: tools/golden/formats/roundtrip.py (needs torch, transformers, numpy,
safetensors; written with transformers 5.23; some seconds).

  <name>/    config.json, shards and their index; `mixed` is a single file with tensors of three types, each of them
             at an address that is no multiple of its element
  sha256     of the model.safetensors that tests/cli/models/test_roundtrip.sh gets: every tensor has the name, type, shape and
             bytes of the source, and transformers opens both with the same parameters
"""
import hashlib
import json
import os
import shutil
import struct
import subprocess
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save

OUT = "tests/golden/roundtrip/"
LLAMA = dict(vocab_size=256, hidden_size=12, intermediate_size=20, num_hidden_layers=2, num_attention_heads=2,
             num_key_value_heads=1, max_position_embeddings=16, bos_token_id=1, eos_token_id=2, pad_token_id=None)


def models():
    gpt2 = transformers.GPT2Config(vocab_size=256, n_positions=16, n_embd=12, n_layer=2, n_head=2, bos_token_id=0,
                                   eos_token_id=0)
    bert = transformers.BertConfig(vocab_size=256, hidden_size=12, num_hidden_layers=2, num_attention_heads=2,
                                   intermediate_size=20, max_position_embeddings=16)
    llama = transformers.LlamaConfig(**LLAMA, attention_bias=True, tie_word_embeddings=False)
    qwen2 = transformers.Qwen2Config(**LLAMA, tie_word_embeddings=True)
    yield "gpt2_f16", transformers.GPT2LMHeadModel(gpt2), torch.float16
    yield "llama_bf16", transformers.LlamaForCausalLM(llama), torch.bfloat16
    yield "qwen2_f32", transformers.Qwen2ForCausalLM(qwen2), torch.float32
    yield "bert_f16", transformers.BertForSequenceClassification(bert), torch.float16
    yield "mixed", transformers.LlamaForCausalLM(llama), torch.float32


def scatter(model):
    """Values over the whole range of the type, zeros of both signs and denormals among them."""
    with torch.no_grad():
        for p in model.parameters():
            exponent = torch.randint(-30, 5, p.shape).float()
            p.copy_(torch.randn(p.shape) * 2.0**exponent)
            flat = p.view(-1)
            flat[0], flat[-1] = 0.0, -0.0


def misaligned(tensors):
    """A safetensors file whose header ends at an odd offset."""
    plain = save(tensors, metadata={"format": "pt"})
    size = struct.unpack("<Q", plain[:8])[0]
    header = plain[8 : 8 + size].rstrip(b" ")
    header += b" " * (1 + len(header) % 2)
    assert (8 + len(header)) % 2 == 1
    return struct.pack("<Q", len(header)) + header + plain[8 + size :]


def write(name, model, dtype):
    shutil.rmtree(OUT + name, ignore_errors=True)
    scatter(model)
    model.to(dtype).save_pretrained(OUT + name, max_shard_size="8KB")
    if name == "mixed":
        kinds = [torch.float32, torch.bfloat16, torch.float16]
        tensors = {n: p.detach().to(kinds[i % 3]) for i, (n, p) in enumerate(model.named_parameters())}
        for file in os.listdir(OUT + name):
            if file != "config.json":
                os.remove(OUT + name + "/" + file)
        with open(OUT + name + "/model.safetensors", "wb") as f:
            f.write(misaligned(tensors))
    generation = OUT + name + "/generation_config.json"
    if os.path.exists(generation):
        os.remove(generation)


def bits(tensor):
    return tensor.contiguous().view(torch.int32 if tensor.dtype == torch.float32 else torch.int16)


def check(name, made):
    source, shards = {}, [f for f in os.listdir(OUT + name) if f.endswith(".safetensors")]
    for file in shards:
        source.update(load_file(f"{OUT}{name}/{file}"))
    result = load_file(f"{made}/model.safetensors")
    assert source.keys() == result.keys(), source.keys() ^ result.keys()
    for key, tensor in source.items():
        assert tensor.dtype == result[key].dtype and torch.equal(bits(tensor), bits(result[key])), key
    kind = getattr(transformers, json.load(open(OUT + name + "/config.json"))["architectures"][0])
    first, second = kind.from_pretrained(OUT + name), kind.from_pretrained(made)
    for (a, p), (b, q) in zip(first.named_parameters(), second.named_parameters(), strict=True):
        assert a == b and torch.equal(p, q), a
    print(name, len(shards), "files,", len(source), "tensors equal bit by bit")


def main():
    torch.manual_seed(11)
    os.makedirs(OUT, exist_ok=True)
    for name, model, dtype in models():
        write(name, model, dtype)
    with tempfile.TemporaryDirectory() as to:
        subprocess.run(["tests/cli/models/test_roundtrip.sh"], env=os.environ | {"BP_ROUNDTRIP_OUT": to}, check=True)
        with open(OUT + "sha256", "w") as out:
            for name, _, _ in models():
                check(name, f"{to}/{name}")
                digest = hashlib.sha256(open(f"{to}/{name}/model.safetensors", "rb").read()).hexdigest()
                out.write(f"{digest}  {name}\n")


if __name__ == "__main__":
    main()
