#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/families/{gpt2,mistral,qwen2,qwen3,smollm3,granite,olmo2,gemma,gemma2,gemma3,phi3,neox,rope}_*.safetensors: what PyTorch computes
in float64 for small models of these families, in the files of tools/golden/families.py with the model's config.json
beside (uint8 tensor "config").

Run from the repository root: tools/golden/today.py [NAME..] (needs what quantised.py needs; some seconds on one core).
"""
import importlib
import os
import sys

import torch
import transformers

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import families  # noqa: E402
import quantised  # noqa: E402
import qwen3  # noqa: E402


def offset_norm(self, x):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * (1.0 + self.weight)


for module, kind in (("mistral", "Mistral"), ("smollm3", "SmolLM3"), ("granite", "Granite"), ("olmo2", "Olmo2"),
                     ("phi3", "Phi3")):
    models = importlib.import_module(f"transformers.models.{module}.modeling_{module}")
    getattr(models, kind + "RMSNorm").forward = families.exact_norm
for module, kind in (("gemma", "Gemma"), ("gemma2", "Gemma2"), ("gemma3", "Gemma3")):
    models = importlib.import_module(f"transformers.models.{module}.modeling_{module}")
    getattr(models, kind + "RMSNorm").forward = offset_norm

BASE = dict(vocabulary=37, positions=32, width=16, layers=2, heads=4, inner=24, batch=2, sequence=9, accumulation=1,
            kv_heads=2, head_width=6, norm_epsilon=1e-6, rope_theta=10000.0)
DEFAULT = {"rope_theta": 10000.0, "rope_type": "default"}
LORA = dict(rank=3, alpha=6, all_linear=1)


def llama_like(v, kind, drop=(), **more):
    common = dict(
        vocab_size=v["vocabulary"], max_position_embeddings=v["positions"], hidden_size=v["width"],
        num_hidden_layers=v["layers"], num_attention_heads=v["heads"], num_key_value_heads=v["kv_heads"],
        head_dim=v["head_width"], intermediate_size=v["inner"], rms_norm_eps=v["norm_epsilon"], rope_parameters=DEFAULT,
        use_cache=False, bos_token_id=1, eos_token_id=2, pad_token_id=None, tie_word_embeddings=not v.get("untied"),
        attn_implementation="eager")
    common.update(more)
    for key in drop:
        del common[key]
    return getattr(transformers, kind + "Config")(**common)


def stream(name, v, kind, config, seed, form=None, kin=None):
    generator = torch.Generator().manual_seed(seed)
    head = kind + ("LMHeadModel" if kind == "GPT2" else "ForCausalLM")
    classes = getattr(transformers, head)
    model = families.draw(classes(config.config if isinstance(config, (Inside, Older)) else config), generator)
    if kin in ("gemma", "gemma2", "gemma3"): # norms are kept about 0
        with torch.no_grad():
            for key, p in model.named_parameters():
                if "norm" in key:
                    p.sub_(1.0).copy_(p.float().double())
    for module in model.modules(): # in float64 as everything else
        if hasattr(module, "embed_scale"):
            module.embed_scale = module.embed_scale.double() if torch.is_tensor(module.embed_scale) else module.embed_scale
    own = families.finish, families.adapted
    if form: # dense layers have the values of their codes
        families.finish, families.adapted = quantised.finish, quantised.adapted
        quantised.FORM = form
    if v.get("rank"):
        targets = {"phi3": ["qkv_proj"], "neox": ["query_key_value"]}.get(kin, ["q_proj", "v_proj", "down_proj"])
        model = families.adapted(model, v, targets, generator)
    with qwen3.WithConfig(config, head):
        families.stream("families/" + name, model, v, 40, generator)
    families.finish, families.adapted = own


def mistral():
    for name, window, more in (("window", 4, {}), ("whole", 9, {}), ("one_less", 8, {}), ("none", None, {}),
                               ("lora", 3, LORA)):
        v = {**BASE, "untied": 1, **more}
        stream("mistral_" + name, v, "Mistral", llama_like(v, "Mistral", sliding_window=window), 51)


def qwen_windows():
    """Windows of later layers, of layers that are listed, and of all."""
    for kind in ("Qwen2", "Qwen3"):
        drop = ("head_dim",) if kind == "Qwen2" else ()
        v = {**BASE, "layers": 3, "untied": 1, "head_width": 4 if kind == "Qwen2" else 6}
        name = kind.lower() + "_window"
        for case, seed, own, more in (
                ("_later", 93, dict(sliding_window=3, max_window_layers=1), {}),
                ("_listed", 94, dict(sliding_window=4, layer_types=["sliding_attention", "full_attention",
                                                                    "sliding_attention"]), {}),
                ("_lora", 95, dict(sliding_window=2, max_window_layers=0), LORA)):
            config = llama_like(v, kind, drop=drop, use_sliding_window=True, **own)
            stream(name + case, {**v, **more}, kind, config, seed)
            if case == "_later":
                stream(name + "_older", v, kind, Older(config), seed)


def rope():
    scaled = {
        "linear": dict(rope_type="linear", factor=4.0),
        "dynamic": dict(rope_type="dynamic", factor=4.0),
        "yarn": dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=8),
        "yarn_more": dict(rope_type="yarn", factor=8.0, original_max_position_embeddings=4, beta_fast=4.0, beta_slow=2.0,
                          attention_factor=1.25, truncate=False),
        "llama3": dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                       original_max_position_embeddings=16)}
    for name, parameters in scaled.items():
        v = {**BASE, "head_width": 8, "untied": 1}
        config = llama_like(v, "Llama", rope_parameters={"rope_theta": 100.0, **parameters})
        stream("rope_" + name, v, "Llama", config, 52)


def smollm3():
    v = {**BASE, "layers": 4, "head_width": 4}
    stream("smollm3_every_fourth", v, "SmolLM3", llama_like(v, "SmolLM3", drop=("head_dim",)), 53)
    stream("smollm3_listed", v, "SmolLM3", llama_like(v, "SmolLM3", drop=("head_dim",), no_rope_layers=[0, 1, 1, 0]), 54)
    windows = llama_like(v, "SmolLM3", drop=("head_dim",), no_rope_layer_interval=2, use_sliding_window=True,
                         sliding_window=3)
    stream("smollm3_window", v, "SmolLM3", windows, 96)
    stream("smollm3_window_older", v, "SmolLM3", Older(windows, no_rope_layers=None), 96)


def granite():
    v = {**BASE, "head_width": 4}
    config = llama_like(v, "Granite", drop=("head_dim",), attention_multiplier=0.3, embedding_multiplier=3.0,
                        residual_multiplier=0.4, logits_scaling=2.5)
    stream("granite_factors", v, "Granite", config, 55)
    stream("granite_lora", {**v, **LORA}, "Granite", config, 56)
    # What a sublayer adds is scaled with its bias.
    biases = llama_like(v, "Granite", drop=("head_dim",), attention_bias=True, mlp_bias=True, residual_multiplier=0.4)
    stream("granite_biases", v, "Granite", biases, 84)
    stream("granite_biases_lora", {**v, **LORA}, "Granite", biases, 85)


def gpt2():
    for name, more in (("gelu", dict(activation_function="gelu")),
                       ("relu_by_layer", dict(activation_function="relu", scale_attn_by_inverse_layer_idx=True))):
        config = transformers.GPT2Config(
            vocab_size=BASE["vocabulary"], n_positions=BASE["positions"], n_embd=BASE["width"], n_layer=3,
            n_head=BASE["heads"], n_inner=BASE["inner"], embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0,
            use_cache=False, bos_token_id=1, eos_token_id=2, attn_implementation="eager", **more)
        stream("gpt2_" + name, {**BASE, "layers": 3}, "GPT2", config, 86)


def olmo2():
    v = {**BASE, "head_width": 4, "untied": 1}
    config = llama_like(v, "Olmo2", drop=("head_dim",))
    stream("olmo2_grouped", v, "Olmo2", config, 57)
    stream("olmo2_lora", {**v, **LORA}, "Olmo2", config, 58)


def gemma():
    config = llama_like(BASE, "Gemma", hidden_act="gelu")
    stream("gemma_plain", BASE, "Gemma", config, 68, kin="gemma")
    stream("gemma_lora", {**BASE, **LORA}, "Gemma", config, 69, kin="gemma")
    stream("gemma_nf4", {**BASE, **LORA}, "Gemma", config, 69, form=1, kin="gemma")


def gemma2():
    more = dict(hidden_activation="gelu_pytorch_tanh", attn_logit_softcapping=2.0, final_logit_softcapping=1.5,
                query_pre_attn_scalar=10, sliding_window=4)
    config = llama_like(BASE, "Gemma2", **more)
    stream("gemma2_caps", BASE, "Gemma2", config, 59, kin="gemma2")
    more.update(attn_logit_softcapping=None, final_logit_softcapping=None, layer_types=["full_attention", "sliding_attention"])
    stream("gemma2_plain", BASE, "Gemma2", llama_like(BASE, "Gemma2", **more), 60, kin="gemma2")
    v = {**BASE, **LORA}
    stream("gemma2_lora", v, "Gemma2", config, 61, kin="gemma2")


class Older:
    """The config as transformers 4 wrote it: no list of layers, the rotary base at the top."""

    def __init__(self, config, **more):
        self.config = config
        self.more = more

    def to_dict(self):
        values = self.config.to_dict()
        del values["layer_types"]
        values.update(self.more, rope_theta=values.pop("rope_parameters")["rope_theta"], rope_scaling=None)
        return values


class Inside:
    """The config of a model beside an image model, as files of Gemma 3 with images hold it."""

    def __init__(self, config):
        self.config = config

    def to_dict(self):
        inner = self.config.to_dict()
        return {"model_type": "gemma3", "bos_token_id": 2, "eos_token_id": [1, 106], "mm_tokens_per_image": 256,
                "text_config": inner, "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 1152}}


def gemma3():
    v = {**BASE, "layers": 6}
    config = llama_like(v, "Gemma3Text", hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=8, sliding_window=3,
                        rope_parameters={"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000.0},
                                         "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}})
    config.architectures = ["Gemma3ForCausalLM"]
    transformers.Gemma3TextForCausalLM = transformers.Gemma3ForCausalLM
    stream("gemma3_two_bases", v, "Gemma3Text", config, 67, kin="gemma3")
    stream("gemma3_inside", v, "Gemma3Text", Inside(config), 67, kin="gemma3")
    stream("gemma3_lora", {**v, **LORA}, "Gemma3Text", config, 92, kin="gemma3")
    v = {**BASE, "layers": 3, "task": 2, "classes": 3, "batch": 4}
    config = llama_like(v, "Gemma3Text", hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=8, sliding_window=5,
                        use_bidirectional_attention=True, pad_token_id=0, num_labels=3, problem_type=families.PROBLEM[2],
                        layer_types=["sliding_attention", "full_attention", "sliding_attention"], attn_implementation="sdpa")
    generator = torch.Generator().manual_seed(97)
    model = families.draw(transformers.Gemma3TextForSequenceClassification(config), generator)
    with torch.no_grad():
        for key, p in model.named_parameters():
            if "norm" in key:
                p.sub_(1.0).copy_(p.float().double())
    model.model.embed_tokens.embed_scale = model.model.embed_tokens.embed_scale.double()
    with qwen3.WithConfig(config, "Gemma3TextForSequenceClassification"):
        families.judge("families/gemma3_classes_both_ways", model, v, [9, 3, 1, 5], generator)


def phi3():
    v = {**BASE, "head_width": 4, "untied": 1}
    stream("phi3_fused", v, "Phi3", llama_like(v, "Phi3", drop=("head_dim",), sliding_window=5), 63, kin="phi3")
    wide = {**v, "width": 32}
    part = {"rope_theta": 10000.0, "rope_type": "default", "partial_rotary_factor": 0.75}
    stream("phi3_partial", wide, "Phi3", llama_like(wide, "Phi3", drop=("head_dim",), rope_parameters=part), 64, kin="phi3")
    for name, original in (("short", 9), ("long", 8)):
        long = {**part, "rope_type": "longrope", "short_factor": [1.0, 1.1, 1.25], "long_factor": [1.5, 2.0, 4.5]}
        config = llama_like(wide, "Phi3", drop=("head_dim",), rope_parameters=long, original_max_position_embeddings=original)
        stream("phi3_" + name, wide, "Phi3", config, 65, kin="phi3")
    stream("phi3_lora", {**v, **LORA}, "Phi3", llama_like(v, "Phi3", drop=("head_dim",)), 66, kin="phi3")


def neox():
    """Of files the head's name, which is another than the module's."""
    own = families.own_name
    families.own_name = lambda name: (own(name) or "").replace("lm_head.", "embed_out.") or None
    v = {**BASE, "kv_heads": 4, "head_width": 8, "width": 32, "untied": 1}
    many = dict(vocab_size=v["vocabulary"], max_position_embeddings=v["positions"], hidden_size=v["width"],
                num_hidden_layers=v["layers"], num_attention_heads=v["heads"], intermediate_size=v["inner"],
                layer_norm_eps=1e-5, use_cache=False, tie_word_embeddings=False, attn_implementation="eager")
    quarter = {"rope_theta": 10000.0, "rope_type": "default", "partial_rotary_factor": 0.25}
    three = dict(quarter, partial_rotary_factor=0.75, rope_theta=500.0)
    make = transformers.GPTNeoXConfig
    stream("neox_parallel", v, "GPTNeoX", make(rope_parameters=quarter, **many), 91)
    stream("neox_one_by_one", v, "GPTNeoX", make(rope_parameters=three, use_parallel_residual=False, attention_bias=False,
                                                 hidden_act="gelu_new", **many), 92)
    stream("neox_scaled", v, "GPTNeoX", make(rope_parameters=dict(quarter, rope_type="linear", factor=4.0,
                                                                  partial_rotary_factor=1.0), **many), 93)
    stream("neox_relu", v, "GPTNeoX", make(rope_parameters=quarter, hidden_act="relu", **many), 103)
    lora = {**v, **LORA}
    stream("neox_lora", lora, "GPTNeoX", make(rope_parameters=quarter, **many), 94, kin="neox")
    stream("neox_nf4", lora, "GPTNeoX", make(rope_parameters=quarter, **many), 95, form=1, kin="neox")
    v = {**v, "task": 2, "classes": 3, "batch": 4}
    config = make(rope_parameters=quarter, pad_token_id=0, num_labels=3, problem_type=families.PROBLEM[2], **many)
    generator = torch.Generator().manual_seed(96)
    model = families.draw(transformers.GPTNeoXForSequenceClassification(config), generator)
    with qwen3.WithConfig(config, "GPTNeoXForSequenceClassification"):
        families.judge("families/neox_classes", model, v, [9, 3, 1, 5], generator)
    families.own_name = own


def main():
    torch.set_num_threads(1)
    os.makedirs(families.OUT + "families", exist_ok=True)
    for make in (gpt2, mistral, qwen_windows, rope, smollm3, granite, olmo2, gemma, gemma2, gemma3, phi3, neox):
        if len(sys.argv) == 1 or make.__name__ in sys.argv[1:]:
            make()


if __name__ == "__main__":
    main()
