#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/dora_*.safetensors: what PEFT and PyTorch compute in float64 for small models whose adapters
have magnitudes (use_dora).

Run from the repository root: tools/golden/dora.py (needs what quantised.py needs; written with PEFT 0.21.2 and PyTorch
2.15.0; some seconds on one core).

They are those of families.py and quantised.py, and
  magnitudes    int32    1
"""
import numpy as np
import peft
import torch

import families

own_finish = families.finish


def finish(name, model, losses, values, tensors):
    own_finish(name, model, losses, values, tensors | {"magnitudes": np.array([1], np.int32)})


def adapted(model, v, targets, generator):
    """The model with adapters of random A and B, and magnitudes up to some tenths away from where they begin."""
    config = peft.LoraConfig(
        r=v["rank"], lora_alpha=v["alpha"], lora_dropout=0.0, use_rslora=bool(v.get("rslora")), use_dora=True,
        target_modules="all-linear" if v.get("all_linear") else targets, task_type="CAUSAL_LM")
    model = peft.get_peft_model(model, config).double()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if ".lora_" in name:
                drawn = torch.randn(p.shape, generator=generator, dtype=torch.float64) * 0.2
                p.copy_((p * (1 + drawn) if "magnitude" in name else drawn).float().double())
    return model


families.finish = finish
families.adapted = adapted

import quantised # noqa: E402: it takes what stands in families now


def main():
    torch.set_num_threads(1)
    base = dict(vocabulary=37, positions=32, width=16, layers=2, heads=2, inner=24, batch=2, sequence=7,
                accumulation=1, kv_heads=2, head_width=8, norm_epsilon=1e-6, rope_theta=10000.0)
    families.llama_stream("dora_llama", {**base, "heads": 4, "head_width": 4, "untied": 1, "rank": 3, "alpha": 6,
                                         "all_linear": 1, "qkv_bias": 1, "output_bias": 1, "mlp_bias": 1}, 40,
                          51)
    families.llama_stream("dora_some", {**base, "rank": 4, "alpha": 2, "rslora": 1, "accumulation": 2}, 60, 52)
    families.gpt2_stream("dora_gpt2", {**base, "rank": 2, "alpha": 4, "all_linear": 1}, 40, 53)
    families.finish = quantised.finish
    families.adapted = quantised.adapted
    for quantised.FORM, name in ((1, "nf4"), (2, "double"), (3, "int8")):
        families.llama_stream(f"qdora_llama_{name}", {**base, "heads": 4, "head_width": 4, "untied": 1,
                                                      "rank": 3, "alpha": 6, "all_linear": 1}, 40, 54)
    quantised.FORM = 2
    families.gpt2_stream("qdora_gpt2", {**base, "width": 20, "heads": 2, "inner": 28, "rank": 2, "alpha": 4,
                                        "all_linear": 1}, 40, 55)


if __name__ == "__main__":
    main()
