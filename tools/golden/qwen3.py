#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/families/qwen3_*.safetensors: what PyTorch computes in float64 for small Qwen3 models, and PEFT for
adapters of floats, nf4 and int8, in the files of tools/golden/families.py with the model's config.json beside (uint8
tensor "config").

Run from the repository root: tools/golden/qwen3.py (needs what quantised.py needs; some seconds on one core).
"""
import json
import os
import sys

import numpy as np
import torch
import transformers

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import families  # noqa: E402
import quantised  # noqa: E402

transformers.models.qwen3.modeling_qwen3.Qwen3RMSNorm.forward = families.exact_norm


def config_of(v, **more):
    return transformers.Qwen3Config(
        vocab_size=v["vocabulary"], max_position_embeddings=v["positions"], hidden_size=v["width"],
        num_hidden_layers=v["layers"], num_attention_heads=v["heads"], num_key_value_heads=v["kv_heads"],
        head_dim=v["head_width"], intermediate_size=v["inner"], rms_norm_eps=v["norm_epsilon"],
        attention_bias=bool(v.get("qkv_bias")), rope_parameters={"rope_theta": v["rope_theta"], "rope_type": "default"},
        use_cache=False, pad_token_id=0 if v.get("task") else None, tie_word_embeddings=not v.get("untied"),
        attn_implementation="sdpa", **more)


class WithConfig:
    """families.finish writes through this: the config goes beside the tensors."""

    def __init__(self, config, kind):
        values = config.to_dict()
        values["architectures"] = [kind]
        self.text = json.dumps(values).encode()
        self.save = families.save_file

    def __enter__(self):
        def save(tensors, path, metadata):
            tensors["config"] = np.frombuffer(self.text, np.uint8).copy()
            self.save(tensors, path, metadata=metadata)
        families.save_file = save

    def __exit__(self, *_):
        families.save_file = self.save


def stream(name, v, tokens, seed):
    generator = torch.Generator().manual_seed(seed)
    config = config_of(v)
    model = families.draw(transformers.Qwen3ForCausalLM(config), generator)
    if v.get("rank"):
        model = families.adapted(model, v, ["q_proj", "v_proj", "down_proj"], generator)
    with WithConfig(config, "Qwen3ForCausalLM"):
        families.stream("families/" + name, model, v, tokens, generator)


def quantised_stream(name, v, form):
    """The same with dense layers that have the values of their codes (tools/golden/quantised.py)."""
    own = families.finish, families.adapted
    families.finish, families.adapted = quantised.finish, quantised.adapted
    quantised.FORM = form
    stream(name, v, 40, 47)
    families.finish, families.adapted = own


def judge(name, v, lengths, seed):
    generator = torch.Generator().manual_seed(seed)
    config = config_of(v, num_labels=v["classes"], problem_type=families.PROBLEM[v["task"]])
    model = families.draw(transformers.Qwen3ForSequenceClassification(config), generator)
    with WithConfig(config, "Qwen3ForSequenceClassification"):
        families.judge("families/" + name, model, v, lengths, generator)


def main():
    torch.set_num_threads(1)
    os.makedirs(families.OUT + "families", exist_ok=True)
    base = dict(vocabulary=37, positions=32, width=16, layers=2, heads=4, inner=24, batch=2, sequence=7,
                accumulation=1, kv_heads=2, head_width=6, norm_epsilon=1e-6, rope_theta=10000.0)
    stream("qwen3_grouped", base, 40, 41) # heads * head_dim is not the width
    stream("qwen3_untied_biases", {**base, "kv_heads": 1, "head_width": 10, "qkv_bias": 1, "output_bias": 1,
                                   "untied": 1, "sequence": 10, "accumulation": 2}, 26, 42)
    stream("qwen3_one_head", {**base, "layers": 1, "heads": 1, "kv_heads": 1, "head_width": 16, "vocabulary": 29}, 40, 43)
    stream("qwen3_one_token", {**base, "sequence": 1, "batch": 1}, 3, 44)
    stream("qwen3_lora", {**base, "rank": 3, "alpha": 6, "all_linear": 1, "untied": 1}, 40, 45)
    for form, kind in ((1, "nf4"), (3, "int8")):
        quantised_stream("qwen3_" + kind, {**base, "rank": 3, "alpha": 6, "all_linear": 1, "untied": 1}, form)
    judge("qwen3_classes", {**base, "task": 2, "classes": 3, "batch": 4}, [7, 3, 1, 5], 46)


if __name__ == "__main__":
    main()
