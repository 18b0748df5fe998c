#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/mxfp4: a gpt-oss whose experts are blocks of MXFP4, as its files have them, an adapter of PEFT's, and
what transformers and PEFT compute of both in float64, of the values that the blocks stand for.

Run from the repository root: tools/golden/formats/mxfp4.py (needs torch, transformers, PEFT, safetensors; written with
transformers 5.24 and PEFT 0.21; some seconds on one core). Blocks are drawn: X_blocks has in each byte two numbers of e2m1,
the first in the low half, X_scales exponents e of 2^(e - 127), 32 elements each (OCP Microscaling Formats 1.0).

config.json, model.safetensors   the model
tokens.bin                       uint16: the data
adapter/                         attention and experts, as PEFT writes it
losses.json                      the mean loss over rows of 8 tokens, without the adapter and with it
"""
import json
import os

import numpy as np
import peft
import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file

OUT = "tests/golden/mxfp4/"
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64)
ROW = 8


def draw(model, generator):
    """Random weights; the experts' blocks and scales by the names of their tensors."""
    blocks = {}
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
                experts, width, out = p.shape
                pairs = torch.randint(256, (experts, out, width // 32, 16), generator=generator, dtype=torch.uint8)
                scales = torch.randint(120, 124, (experts, out, width // 32), generator=generator, dtype=torch.uint8)
                codes = torch.stack([pairs & 15, pairs >> 4], -1).flatten(3).long()
                values = E2M1[codes] * 2.0 ** (scales.double() - 127)[..., None]
                p.copy_(values.reshape(experts, out, width).transpose(1, 2))
                blocks[name + "_blocks"], blocks[name + "_scales"] = pairs, scales
            else:
                p.copy_((torch.randn(p.shape, generator=generator, dtype=torch.float64) * 0.2 + ("norm" in name)).float())
    return blocks


def mean_loss(model, tokens):
    windows = [(tokens[i:i + ROW], tokens[i + 1:i + ROW + 1]) for i in range(0, len(tokens) - ROW, ROW)]
    ids, labels = (torch.stack(part) for part in zip(*windows))
    with torch.no_grad():
        return F.cross_entropy(model(input_ids=ids).logits.flatten(0, 1), labels.flatten()).item()


def main():
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(33)
    config = transformers.GptOssConfig(
        vocab_size=61, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_local_experts=5, num_experts_per_tok=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, sliding_window=4, max_position_embeddings=64, use_cache=False,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, tie_word_embeddings=False, pad_token_id=None,
        bos_token_id=None, eos_token_id=None, attn_implementation="eager", experts_implementation="eager")
    model = transformers.GptOssForCausalLM(config).double()
    blocks = draw(model, generator)
    tensors = {n: t.float().contiguous() for n, t in model.state_dict().items() if n + "_blocks" not in blocks} | blocks
    tokens = torch.randint(61, (6 * ROW + 1,), generator=generator)
    losses = {"base": mean_loss(model, tokens)}
    text = {**config.to_dict(), "architectures": ["GptOssForCausalLM"], "dtype": "float32",
            "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}}
    os.makedirs(OUT, exist_ok=True)
    with open(OUT + "config.json", "w") as f:
        json.dump(text, f, indent=1, sort_keys=True)
    save_file(tensors, OUT + "model.safetensors", metadata={"format": "pt"})
    tokens.numpy().astype(np.uint16).tofile(OUT + "tokens.bin")
    lora = peft.LoraConfig(r=2, lora_alpha=6, lora_dropout=0.0, target_modules=["q_proj", "o_proj"], task_type="CAUSAL_LM",
                           target_parameters=["experts.gate_up_proj", "experts.down_proj"])
    model = peft.get_peft_model(model, lora).double()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if ".lora_" in name:
                p.copy_((torch.randn(p.shape, generator=generator, dtype=torch.float64) * 0.2).float())
    losses["adapter"] = mean_loss(model, tokens)
    model.float().save_pretrained(OUT + "adapter")
    if os.path.exists(OUT + "adapter/README.md"):
        os.remove(OUT + "adapter/README.md")
    with open(OUT + "losses.json", "w") as f:
        json.dump(losses, f)
    print(losses)


if __name__ == "__main__":
    main()
