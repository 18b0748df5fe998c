#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/families/{ernie4_5,glm,glm4,seed_oss,olmo3,exaone4,hunyuan,cohere,cohere2,
starcoder2,arcee,granite4}_*.safetensors: what PyTorch computes in float64 for small
models of these families, in the files of today.py.

Run from the repository root: tools/golden/decoders.py [NAME..] (needs what quantised.py needs; some seconds on one core).
"""
import importlib
import os
import sys

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import families  # noqa: E402
import today  # noqa: E402
from today import BASE, LORA, stream  # noqa: E402

for module, kind in (("ernie4_5", "Ernie4_5"), ("glm", "Glm"), ("glm4", "Glm4"), ("seed_oss", "SeedOss"),
                     ("olmo3", "Olmo3"), ("exaone4", "Exaone4"), ("hunyuan_v1_dense", "HunYuanDenseV1"), ("arcee", "Arcee"),
                     ("granitemoehybrid", "GraniteMoeHybrid")):
    models = importlib.import_module(f"transformers.models.{module}.modeling_{module}")
    getattr(models, kind + "RMSNorm").forward = families.exact_norm


def llama_like(v, kind, **more):
    return today.llama_like(v, kind, **{"rope_parameters": dict(today.DEFAULT), **more}) # classes write into it


def exact_layer_norm(self, x):
    x = x - x.mean(-1, keepdim=True)
    return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)


for module, kind in (("cohere", "Cohere"), ("cohere2", "Cohere2")):
    models = importlib.import_module(f"transformers.models.{module}.modeling_{module}")
    getattr(models, kind + "LayerNorm").forward = exact_layer_norm


def turned_in_double(module):
    """ERNIE and Cohere turn heads in float32 whatever the type: here in the type that they have."""
    models = importlib.import_module(f"transformers.models.{module}.modeling_{module}")
    half = models.rotate_half

    def apply(q, k, cos, sin, unsqueeze_dim=1):
        cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
        if module == "ernie4_5":
            cos = cos[..., : cos.shape[-1] // 2].repeat_interleave(2, dim=-1)
            sin = sin[..., : sin.shape[-1] // 2].repeat_interleave(2, dim=-1)
        return q * cos + half(q) * sin, k * cos + half(k) * sin

    models.apply_rotary_pos_emb = apply


def ernie4_5():
    turned_in_double("ernie4_5")
    stream("ernie4_5_plain", BASE, "Ernie4_5", llama_like(BASE, "Ernie4_5"), 201)
    biases = llama_like(BASE, "Ernie4_5", use_bias=True, rope_parameters={"rope_theta": 500.0, "rope_type": "linear", "factor": 2.0})
    stream("ernie4_5_biases", {**BASE, "untied": 1}, "Ernie4_5", biases, 202)
    stream("ernie4_5_lora", {**BASE, **LORA}, "Ernie4_5", llama_like(BASE, "Ernie4_5"), 203)


def glm():
    v = {**BASE, "head_width": 8, "untied": 1}
    for kind, name in (("Glm", "glm"), ("Glm4", "glm4")):
        stream(name + "_half", v, kind, llama_like(v, kind), 205)
        part = {"rope_theta": 500.0, "rope_type": "default", "partial_rotary_factor": 0.75}
        stream(name + "_tied", {**v, "untied": 0}, kind, llama_like({**v, "untied": 0}, kind, attention_bias=False, rope_parameters=part), 206)
        stream(name + "_lora", {**v, **LORA}, kind, llama_like(v, kind), 207, kin="glm")


def seed_oss():
    none = dict(attention_dropout=0.0, residual_dropout=0.0)
    v = {**BASE, "untied": 1}
    stream("seed_oss_plain", v, "SeedOss", llama_like(v, "SeedOss", **none), 208)
    stream("seed_oss_biases", BASE, "SeedOss", llama_like(BASE, "SeedOss", attention_bias=False, attention_out_bias=True, mlp_bias=True,
                                                          **none), 209)
    stream("seed_oss_lora", {**v, **LORA}, "SeedOss", llama_like(v, "SeedOss", **none), 210)


def olmo3():
    v = {**BASE, "layers": 4, "head_width": 4, "untied": 1}
    two = {"full_attention": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8, "rope_theta": 500.0},
           "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}
    one = {name: {"rope_type": "default", "rope_theta": 500.0} for name in two}
    stream("olmo3_two_bases", v, "Olmo3", llama_like(v, "Olmo3", drop=("head_dim",), sliding_window=3, rope_parameters=two), 311)
    config = llama_like(v, "Olmo3", drop=("head_dim",), sliding_window=4, rope_parameters=one,
                        layer_types=["full_attention", "sliding_attention"] * 2)
    stream("olmo3_listed", v, "Olmo3", config, 212)
    stream("olmo3_lora", {**v, **LORA}, "Olmo3", config, 213)


def exaone4():
    v = {**BASE, "layers": 4, "untied": 1}
    stream("exaone4_windows", v, "Exaone4", llama_like(v, "Exaone4", sliding_window=3), 214)
    two = {**v, "layers": 2}
    full = llama_like(two, "Exaone4", sliding_window=None, layer_types=["full_attention"] * 2)
    stream("exaone4_full", two, "Exaone4", full, 215)
    stream("exaone4_lora", {**v, **LORA}, "Exaone4", llama_like(v, "Exaone4", sliding_window=4, layer_types=[
        "full_attention", "sliding_attention", "sliding_attention", "full_attention"]), 216)


def hunyuan():
    v = {**BASE, "untied": 1}
    stretched = {"rope_theta": 100.0, "rope_type": "dynamic", "alpha": 50.0, "factor": 1.0}
    stream("hunyuan_alpha", v, "HunYuanDenseV1", llama_like(v, "HunYuanDenseV1", rope_parameters=stretched), 217)
    stream("hunyuan_biases", BASE, "HunYuanDenseV1", llama_like(BASE, "HunYuanDenseV1", attention_bias=True), 218)
    stream("hunyuan_lora", {**v, **LORA}, "HunYuanDenseV1", llama_like(v, "HunYuanDenseV1", rope_parameters=stretched), 219)


def cohere():
    turned_in_double("cohere")
    drop = ("head_dim", "rms_norm_eps")
    v = {**BASE, "head_width": 4}
    stream("cohere_plain", v, "Cohere", llama_like(v, "Cohere", drop=drop, logit_scale=0.25), 220)
    biases = llama_like(v, "Cohere", drop=drop, logit_scale=0.3, attention_bias=True)
    stream("cohere_biases", {**v, "untied": 1}, "Cohere", llama_like({**v, "untied": 1}, "Cohere", drop=drop, logit_scale=0.3,
                                                                     attention_bias=True), 221)
    stream("cohere_lora", {**v, **LORA}, "Cohere", biases, 222)


def cohere2():
    turned_in_double("cohere2")
    drop = ("head_dim", "rms_norm_eps")
    v = {**BASE, "layers": 4, "head_width": 4}
    stream("cohere2_windows", v, "Cohere2", llama_like(v, "Cohere2", drop=drop, logit_scale=0.25, sliding_window=3), 223)
    config = llama_like(v, "Cohere2", drop=drop, sliding_window=4, layer_types=["full_attention", "sliding_attention"] * 2)
    stream("cohere2_lora", {**v, **LORA}, "Cohere2", config, 224)


def starcoder2():
    drop = ("head_dim", "rms_norm_eps")
    v = {**BASE, "head_width": 4}
    stream("starcoder2_biases", v, "Starcoder2", llama_like(v, "Starcoder2", drop=drop), 225)
    more = dict(use_bias=False, hidden_act="gelu", sliding_window=4)
    stream("starcoder2_window", {**v, "untied": 1}, "Starcoder2", llama_like({**v, "untied": 1}, "Starcoder2", drop=drop, **more), 226)
    stream("starcoder2_lora", {**v, **LORA}, "Starcoder2", llama_like(v, "Starcoder2", drop=drop), 227, kin="starcoder2")


def arcee():
    stream("arcee_plain", BASE, "Arcee", llama_like(BASE, "Arcee"), 228)
    biases = llama_like({**BASE, "untied": 1}, "Arcee", attention_bias=True, mlp_bias=True)
    stream("arcee_biases", {**BASE, "untied": 1}, "Arcee", biases, 229)
    stream("arcee_lora", {**BASE, **LORA}, "Arcee", llama_like(BASE, "Arcee"), 230)


def granite4():
    v = {**BASE, "head_width": 4}
    more = dict(attention_multiplier=0.3, embedding_multiplier=3.0, residual_multiplier=0.4, logits_scaling=2.5,
                num_local_experts=0, shared_intermediate_size=v["inner"], layer_types=["full_attention"] * 2,
                mamba_n_heads=8, mamba_d_head=4, time_step_limit=None)
    drop = ("head_dim",)
    turned = llama_like(v, "GraniteMoeHybrid", drop=drop, position_embedding_type="rope", **more)
    stream("granite4_turned", v, "GraniteMoeHybrid", turned, 231)
    still = llama_like({**v, "untied": 1}, "GraniteMoeHybrid", drop=drop, attention_bias=True, **more)
    stream("granite4_still", {**v, "untied": 1}, "GraniteMoeHybrid", still, 232)
    stream("granite4_lora", {**v, **LORA}, "GraniteMoeHybrid", turned, 233)


def main():
    torch.set_num_threads(1)
    for make in (ernie4_5, glm, seed_oss, olmo3, exaone4, hunyuan, cohere, cohere2, starcoder2, arcee,
                 granite4):
        if len(sys.argv) == 1 or make.__name__ in sys.argv[1:]:
            make()


if __name__ == "__main__":
    main()
