#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/families/{qwen3_next,qwen3_5,qwen3_5_moe}_*.safetensors: what PyTorch computes in float64 for small
models with layers of linear attention by the gated delta rule, in the files of tools/golden/families.py with the model's
config.json beside (uint8 tensor "config").

Run from the repository root: tools/golden/hybrids.py (needs what qwen3.py needs; written with transformers 5.24; some
seconds on one core). transformers computes the rule in chunks of 64 places, in float32 whatever the type; its text is
executed here with float64 in that place. A_log, dt_bias, the convolutions and norms have random values.
"""
import inspect
import json
import os
import sys

import numpy as np
import torch
import transformers
from transformers.models.qwen3_5 import modeling_qwen3_5
from transformers.models.qwen3_5_moe import modeling_qwen3_5_moe
from transformers.models.qwen3_next import modeling_qwen3_next

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import experts  # noqa: E402
import families  # noqa: E402


def exact(forward):
    """forward, with Tensor.float() leaving the type as it is."""
    def run(*values, **named):
        float_of = torch.Tensor.float
        torch.Tensor.float = lambda tensor: tensor
        try:
            return forward(*values, **named)
        finally:
            torch.Tensor.float = float_of
    return run


def gated_norm(self, hidden_states, gate):
    variance = hidden_states.pow(2).mean(-1, keepdim=True)
    return self.weight * hidden_states * torch.rsqrt(variance + self.variance_epsilon) * torch.nn.functional.silu(gate)


for module, prefix in ((modeling_qwen3_next, "Qwen3Next"), (modeling_qwen3_5, "Qwen3_5"), (modeling_qwen3_5_moe, "Qwen3_5Moe")):
    for name in ("torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule"):
        text = inspect.getsource(getattr(module, name)).replace("torch.float32", "torch.float64")
        exec(compile(text, name, "exec"), module.__dict__)
    for name in ("RMSNorm", "GatedDeltaNet"):
        kind = getattr(module, prefix + name)
        kind.forward = exact(kind.forward)
    getattr(module, prefix + "RMSNormGated").forward = gated_norm
for module, prefix in ((modeling_qwen3_next, "Qwen3Next"), (modeling_qwen3_5_moe, "Qwen3_5Moe")):
    getattr(module, prefix + "TopKRouter").forward = experts.route

CLASSES = {"qwen3_next": (transformers.Qwen3NextConfig, transformers.Qwen3NextForCausalLM),
           "qwen3_5": (transformers.Qwen3_5TextConfig, transformers.Qwen3_5ForCausalLM),
           "qwen3_5_moe": (transformers.Qwen3_5MoeTextConfig, transformers.Qwen3_5MoeForCausalLM)}


def config_of(kind, v):
    common = dict(
        vocab_size=v["vocabulary"], max_position_embeddings=v["positions"], hidden_size=v["width"],
        num_hidden_layers=v["layers"], num_attention_heads=v["heads"], num_key_value_heads=v["kv_heads"],
        head_dim=v["head_width"], intermediate_size=v["inner"], rms_norm_eps=v["norm_epsilon"],
        attention_bias=bool(v.get("qkv_bias")), use_cache=False, pad_token_id=None, bos_token_id=None, eos_token_id=None,
        rope_parameters={"rope_theta": v["rope_theta"], "rope_type": "default", "partial_rotary_factor": v["share"]},
        tie_word_embeddings=not v.get("untied"), linear_conv_kernel_dim=v["taps"], linear_num_key_heads=v["linear_keys"],
        linear_num_value_heads=v["linear_values"], linear_key_head_dim=v["linear_key"],
        linear_value_head_dim=v["linear_value"], attn_implementation="sdpa", experts_implementation="eager")
    if v.get("kinds"):
        common["layer_types"] = [["full_attention", "linear_attention"][k] for k in v["kinds"]]
    if kind != "qwen3_5":
        common.update(moe_intermediate_size=v["expert_inner"], shared_expert_intermediate_size=v["shared"],
                      num_experts=v["experts"], num_experts_per_tok=v["chosen"])
        if v.get("balance"):
            common.update(output_router_logits=True, router_aux_loss_coef=v["balance"])
    if kind == "qwen3_next":
        common.update(norm_topk_prob=bool(v.get("renormalise")), decoder_sparse_step=v.get("every", 1),
                      mlp_only_layers=v.get("alone", []))
    return CLASSES[kind][0](**common)


def stream(name, kind, v, tokens, seed):
    generator = torch.Generator().manual_seed(seed)
    config = config_of(kind, v)
    model = families.draw(CLASSES[kind][1](config), generator)
    with torch.no_grad():
        for parameter, p in model.named_parameters():
            drawn = torch.randn(p.shape, generator=generator, dtype=torch.float64)
            if parameter.endswith("norm.weight") and not parameter.endswith("linear_attn.norm.weight"):
                p.copy_((drawn * 0.15).float()) # 1 is added
            elif parameter.endswith("conv1d.weight"):
                p.copy_((drawn * 0.6).float())
            elif parameter.endswith("A_log") or parameter.endswith("dt_bias"):
                p.copy_((drawn * 0.8).float())
    if v.get("rank"):
        model = families.adapted(model, v, ["q_proj", "v_proj"], generator)
        v = {**v, "all_linear": v.get("all_linear", 2)} # targets: tests/fixtures/plans/family_case.c
    text = json.dumps({**config.to_dict(), "architectures": [CLASSES[kind][1].__name__]}).encode()
    save = families.save_file

    def save_with_config(tensors, path, metadata):
        tensors["config"] = np.frombuffer(text, np.uint8).copy()
        save(tensors, path, metadata=metadata)

    families.save_file = save_with_config
    (experts.balanced_stream if v.get("balance") else families.stream)("families/" + name, model, v, tokens, generator)
    families.save_file = save


def main():
    torch.set_num_threads(1)
    # Where a query and a key are almost orthogonal, a head gives almost nothing, which its norm makes large: with an epsilon of
    # 1e-6 weights that differ by 6e-8 have losses that differ by 1e-2 after 50 steps, in float64; with 1e-2 by 3e-7.
    base = dict(vocabulary=37, positions=128, width=16, layers=4, heads=4, inner=24, batch=2, sequence=7, accumulation=1,
                kv_heads=2, head_width=8, norm_epsilon=1e-2, rope_theta=10000.0, share=0.25, untied=1, taps=4, linear_keys=2,
                linear_values=4, linear_key=6, linear_value=5)
    stream("qwen3_5_plain", "qwen3_5", base, 40, 201)
    stream("qwen3_5_tied", "qwen3_5", {**base, "untied": 0, "layers": 3, "kinds": [1, 0, 1], "share": 0.5, "taps": 2,
                                       "linear_values": 2, "linear_value": 18, "accumulation": 2, "qkv_bias": 1,
                                       "output_bias": 1}, 60, 202)
    stream("qwen3_5_long", "qwen3_5", {**base, "layers": 2, "kinds": [1, 0], "sequence": 71, "linear_keys": 1,
                                       "linear_values": 3, "linear_key": 17, "linear_value": 16}, 300, 203)
    stream("qwen3_5_lora", "qwen3_5", {**base, "rank": 3, "alpha": 6, "all_linear": 1, "layers": 2, "kinds": [1, 0]}, 40, 204)
    stream("qwen3_5_one_token", "qwen3_5", {**base, "sequence": 1, "batch": 1}, 3, 205)
    mixed = {**base, "experts": 5, "chosen": 2, "expert_inner": 10, "shared": 14}
    stream("qwen3_next_plain", "qwen3_next", {**mixed, "renormalise": 1}, 40, 206)
    stream("qwen3_next_some_layers", "qwen3_next", {**mixed, "every": 2, "alone": [1], "untied": 0, "linear_values": 6,
                                                    "balance": 0.1, "accumulation": 2}, 43, 217)
    stream("qwen3_next_lora", "qwen3_next", {**mixed, "rank": 3, "alpha": 6, "layers": 2, "kinds": [1, 0],
                                             "renormalise": 1}, 40, 208)
    stream("qwen3_5_moe_plain", "qwen3_5_moe", {**mixed, "chosen": 3}, 40, 209)


if __name__ == "__main__":
    main()
