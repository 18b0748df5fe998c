#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/rows_*.safetensors: what PEFT and PyTorch compute in float64 for small models of whose token
embedding some rows are trained beside adapters (trainable_token_indices).

Run from the repository root: tools/golden/rows.py (needs what families.py needs; written with PEFT 0.21.2 and PyTorch
2.15.0; some seconds on one core).

They are those of families.py, and
  trained_tokens    int32    tokens whose rows are trained, in the order of trainable_token_indices
"""
import numpy as np
import peft
import torch

import families

own_finish = families.finish
own_own_name = families.own_name


def own_name(name):
    name = name.replace(".token_adapter.base_layer.", ".")
    return name.removesuffix(".default") if "trainable_tokens_delta" in name else own_own_name(name)


def finish(name, model, losses, values, tensors):
    own_finish(name, model, losses, values, tensors | {"trained_tokens": np.array(values["tokens"], np.int32)})


def adapted(model, v, targets, generator):
    """The model with adapters of random A and B, and rows some tenths away from the table's."""
    masked = isinstance(model, transformers.BertForMaskedLM)
    every = ["query", "key", "value", "intermediate.dense", "output.dense"] if masked else "all-linear"
    config = peft.LoraConfig(r=v["rank"], lora_alpha=v["alpha"], lora_dropout=0.0,
                             target_modules=every if v.get("all_linear") else targets,
                             trainable_token_indices=v["tokens"], task_type=None if masked else "CAUSAL_LM")
    model = peft.get_peft_model(model, config).double()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if ".lora_" in name or "trainable_tokens_delta" in name:
                drawn = torch.randn(p.shape, generator=generator, dtype=torch.float64) * 0.2
                p.copy_((drawn if ".lora_" in name else p + drawn).float().double())
    return model


def masked_draw(v):
    """families.draw, with adapters put beside what it drew. PEFT 0.21.2 leaves out the bias of a tied head while its
    rows are not merged, and has it when they are: here it is 0."""
    def both(model, generator, deviation=0.15):
        model = families_draw(model, generator, deviation)
        with torch.no_grad():
            model.cls.predictions.bias.zero_()
        return adapted(model, v, ["query", "value"], generator)
    return both


families.finish = finish
families.adapted = adapted
families.own_name = own_name
families_draw = families.draw
transformers = families.transformers


def main():
    torch.set_num_threads(1)
    base = dict(vocabulary=37, positions=32, width=16, layers=2, heads=2, inner=24, batch=2, sequence=7,
                accumulation=1, kv_heads=2, head_width=8, norm_epsilon=1e-6, rope_theta=10000.0)
    # Runs and single ones, the first and the last token, in an order of their own; two windows of two.
    families.llama_stream("rows_llama", {**base, "heads": 4, "head_width": 4, "rank": 3, "alpha": 6,
                                         "accumulation": 2, "tokens": [12, 3, 4, 5, 36, 0]}, 60, 61)
    families.llama_stream("rows_llama_untied", {**base, "untied": 1, "rank": 2, "alpha": 2,
                                                "tokens": [30, 31, 32, 33]}, 40, 62)
    families.gpt2_stream("rows_gpt2", {**base, "rank": 2, "alpha": 4, "all_linear": 1, "tokens": [8]}, 40, 63)
    masked = dict(vocabulary=41, positions=16, width=16, layers=2, heads=2, inner=24, batch=4, sequence=9,
                  accumulation=1, norm_epsilon=1e-12, types=2, task=1, rank=2, alpha=4, all_linear=1,
                  tokens=[2, 7, 40, 39])
    families.draw = masked_draw(masked)
    families.bert_masked("rows_bert_masked", masked, [9, 4, 7, 6], 64)


if __name__ == "__main__":
    main()
