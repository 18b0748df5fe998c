#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/families/{qwen2_moe,qwen3_moe,olmoe,mixtral,glm4_moe,gpt_oss}_*.safetensors: what PyTorch computes in float64
for small models with mixtures of experts, in the files of tools/golden/families.py with the model's config.json beside
(uint8 tensor "config").

Run from the repository root: tools/golden/experts.py (needs what qwen3.py needs; written with transformers 5.24; some
seconds on one core). Experts are computed one after the other (experts_implementation "eager"), and the router's softmax,
which transformers computes in float32 whatever the type, in float64.
"""
import json
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from transformers.models.glm4_moe import modeling_glm4_moe
from transformers.models.gpt_oss import modeling_gpt_oss
from transformers.models.mixtral import modeling_mixtral
from transformers.models.olmoe import modeling_olmoe
from transformers.models.qwen2_moe import modeling_qwen2_moe
from transformers.models.qwen3_moe import modeling_qwen3_moe

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import families  # noqa: E402
import quantised  # noqa: E402

MXFP4 = 64 + 39  # core/ops/storage_format.h
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64)


def route(self, hidden_states):
    hidden_states = hidden_states.reshape(-1, self.hidden_dim)
    logits = F.linear(hidden_states, self.weight)
    shares = torch.softmax(logits, dim=-1)
    top, index = torch.topk(shares, self.top_k, dim=-1)
    if getattr(self, "norm_topk_prob", True): # Mixtral has no such key
        top = top / top.sum(dim=-1, keepdim=True)
    return logits, top, index


for module, prefix in ((modeling_qwen2_moe, "Qwen2Moe"), (modeling_qwen3_moe, "Qwen3Moe"), (modeling_olmoe, "Olmoe"),
                       (modeling_mixtral, "Mixtral")):
    getattr(module, prefix + "RMSNorm").forward = families.exact_norm
    getattr(module, prefix + "TopKRouter").forward = route

def route_scored(self, hidden_states):
    """Glm4MoeTopkRouter.forward, which computes in float32, in the type of its input."""
    logits = F.linear(hidden_states.reshape(-1, self.hidden_dim), self.weight)
    scores = logits.sigmoid()
    groups = (scores + self.e_score_correction_bias).view(len(logits), self.num_group, -1)
    kept = torch.topk(groups.topk(2, dim=-1)[0].sum(-1), k=self.topk_group, dim=-1)[1]
    open_ = torch.zeros(groups.shape[:2], dtype=torch.bool).scatter_(1, kept, True)
    index = torch.topk(groups.masked_fill(~open_[..., None], -torch.inf).flatten(1), k=self.top_k, dim=-1)[1]
    weights = scores.gather(1, index)
    if self.norm_topk_prob:
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
    return logits, weights * self.routed_scaling_factor, index


modeling_glm4_moe.Glm4MoeRMSNorm.forward = families.exact_norm
modeling_glm4_moe.Glm4MoeTopkRouter.forward = route_scored
modeling_gpt_oss.GptOssRMSNorm.forward = families.exact_norm

CLASSES = {"glm4_moe": (transformers.Glm4MoeConfig, transformers.Glm4MoeForCausalLM),
           "gpt_oss": (transformers.GptOssConfig, transformers.GptOssForCausalLM),
           "qwen2_moe": (transformers.Qwen2MoeConfig, transformers.Qwen2MoeForCausalLM),
           "qwen3_moe": (transformers.Qwen3MoeConfig, transformers.Qwen3MoeForCausalLM),
           "mixtral": (transformers.MixtralConfig, transformers.MixtralForCausalLM),
           "olmoe": (transformers.OlmoeConfig, transformers.OlmoeForCausalLM)}


def config_of(kind, v, **more):
    common = dict(
        vocab_size=v["vocabulary"], max_position_embeddings=v["positions"], hidden_size=v["width"],
        num_hidden_layers=v["layers"], num_attention_heads=v["heads"], num_key_value_heads=v["kv_heads"],
        intermediate_size=v["inner"], rms_norm_eps=v["norm_epsilon"], attention_bias=bool(v.get("output_bias")),
        rope_parameters={"rope_theta": v["rope_theta"], "rope_type": "default"}, use_cache=False,
        pad_token_id=None, bos_token_id=None, eos_token_id=None, tie_word_embeddings=not v.get("untied"),
        num_experts=v["experts"], num_experts_per_tok=v["chosen"], norm_topk_prob=bool(v.get("renormalise")),
        attn_implementation="sdpa", experts_implementation="eager", **more)
    if v.get("balance"):
        common.update(output_router_logits=True, router_aux_loss_coef=v["balance"])
    if kind == "qwen3_moe":
        common.update(head_dim=v["head_width"], moe_intermediate_size=v["expert_inner"],
                      decoder_sparse_step=v.get("every", 1), mlp_only_layers=v.get("alone", []),
                      use_sliding_window=bool(v.get("window")), sliding_window=v.get("window"))
    if kind == "qwen2_moe":
        common.update(moe_intermediate_size=v["expert_inner"], shared_expert_intermediate_size=v["shared"],
                      decoder_sparse_step=v.get("every", 1), mlp_only_layers=v.get("alone", []),
                      qkv_bias=bool(v.get("qkv_bias", 1)), use_sliding_window=bool(v.get("window")),
                      sliding_window=v.get("window") or 4096, max_window_layers=v.get("near", 28))
        del common["attention_bias"]
    if kind == "glm4_moe":
        common.update(moe_intermediate_size=v["expert_inner"], n_routed_experts=common.pop("num_experts"),
                      n_shared_experts=v["shared"], n_group=v["groups"], topk_group=v["kept"], head_dim=v["head_width"],
                      routed_scaling_factor=v["scale"], first_k_dense_replace=v["dense"], use_qk_norm=bool(v.get("normed")),
                      attention_bias=bool(v.get("qkv_bias")), partial_rotary_factor=0.5)
        common["rope_parameters"]["partial_rotary_factor"] = 0.5
    if kind == "gpt_oss":
        common.update(head_dim=v["head_width"], num_local_experts=common.pop("num_experts"), sliding_window=v["window"],
                      intermediate_size=v["expert_inner"], attention_bias=bool(v.get("qkv_bias", 1)),
                      swiglu_limit=v.get("limit", 7.0), attn_implementation="eager", layer_types=v.get("kinds"))
        if v.get("factor"):
            common["rope_parameters"].update(rope_type="yarn", factor=v["factor"], truncate=bool(v.get("truncate")),
                                             original_max_position_embeddings=v["original"])
        del common["norm_topk_prob"]
    if kind == "mixtral":
        common.update(head_dim=v["head_width"] or None, num_local_experts=common.pop("num_experts"),
                      sliding_window=v.get("window"))
        del common["norm_topk_prob"], common["attention_bias"]
    return CLASSES[kind][0](**common)


def balanced(model, v, ids, labels):
    """A group's loss with the balancing loss of transformers: the mean of the micro-batches', whose padding is masked."""
    out = model(input_ids=ids, output_router_logits=True)
    loss = families.token_loss(out.logits, labels)
    routers = [r.reshape(*ids.shape, -1) for r in out.router_logits]
    parts = [slice(i, i + v["batch"]) for i in range(0, len(ids), v["batch"])]
    for part in parts:
        logits = tuple(r[part].reshape(-1, r.shape[-1]) for r in routers)
        aux = modeling_mixtral.load_balancing_loss_func(logits, v["experts"], v["chosen"], (labels[part] >= 0).long())
        loss = loss + v["balance"] * aux / len(parts)
    return loss


def balanced_stream(name, model, v, token_count, generator):
    """families.stream with that loss."""
    tokens = torch.randint(v["vocabulary"], (token_count,), generator=generator).numpy()
    ids, labels = families.windows_of(tokens, v["sequence"])
    group = v["batch"] * v["accumulation"]
    groups = -(-len(ids) // group)

    def losses(step):
        part = slice(step % groups * group, (step % groups + 1) * group)
        return balanced(model, v, ids[part], labels[part])

    families.finish(name, model, losses, v, {
        "tokens": tokens.astype(np.int32), "logits": families.single(model(input_ids=ids[:group]).logits[0])})


def take_codes(model, v, generator):
    """Experts, and for v["form"] dense layers, take the values of codes; what they had is returned, by name. Each expert's
    matrix, (out, in), has its own; of MXFP4 codes and exponents are drawn (OCP Microscaling 1.0: e2m1 times 2^(e - 127))."""
    before = {}
    with torch.no_grad():
        for key, p in model.named_parameters():
            experts = key.endswith(("experts.gate_up_proj", "experts.down_proj"))
            if experts and v["experts_form"] == MXFP4:
                count, width, out = p.shape
                codes = torch.randint(16, (count, out, width // 32, 32), generator=generator)
                scales = torch.randint(121, 125, (count, out, width // 32, 1), generator=generator)
                p.copy_((E2M1[codes] * 2.0 ** (scales - 127)).reshape(count, out, width).transpose(1, 2))
            elif experts:
                before[key] = families.single(p)
                p.copy_(torch.stack([quantised.dequantised(e.float(), v["experts_form"]).double() for e in p]))
            elif v.get("form") and quantised.is_dense(key) and not key.endswith("mlp.gate.weight"):
                before[key] = families.single(p)
                p.copy_(quantised.dequantised(p.float(), v["form"]).double())
    return before


def stream(name, kind, v, tokens, seed):
    generator = torch.Generator().manual_seed(seed)
    config = config_of(kind, v)
    model = families.draw(CLASSES[kind][1](config), generator)
    for buffer, b in model.named_buffers(): # which are no parameters, and belong to files all the same
        if buffer.endswith("e_score_correction_bias"):
            b.copy_((torch.randn(b.shape, generator=generator, dtype=torch.float64) * 0.3).float())
    before = take_codes(model, v, generator) if v.get("experts_form") else {}
    if v.get("rank"):
        parameters = ["experts.gate_up_proj", "experts.down_proj"][:v.get("parameters", 0)]
        model = families.adapted(model, v, ["q_proj", "v_proj"], generator, parameters)
        v = {**v, "all_linear": 2 + len(parameters)} # no dense layer: tests/fixtures/plans/family_case.c
    text = json.dumps({**config.to_dict(), "architectures": [CLASSES[kind][1].__name__]}).encode()
    save = families.save_file

    def save_with_config(tensors, path, metadata):
        for key in [n for n in tensors if ".experts." in n and n.endswith("lora_B.weight")]:
            b = tensors[key] # (out, r * experts) in PEFT's files, (experts, out, r) in a plan
            tensors[key] = np.ascontiguousarray(b.reshape(b.shape[0], -1, v["experts"]).transpose(2, 0, 1))
        tensors.update({families.own_name(n).removeprefix("base_model.model."): families.single(b)
                        for n, b in model.named_buffers() if n.endswith("e_score_correction_bias")})
        tensors["config"] = np.frombuffer(text, np.uint8).copy()
        if v.get("experts_form"):
            tensors.update(before)
            tensors["quantised"] = np.array([v.get("form", 0), v["experts_form"]], np.int32)
        save(tensors, path, metadata=metadata)

    families.save_file = save_with_config
    (balanced_stream if v.get("balance") else families.stream)("families/" + name, model, v, tokens, generator)
    families.save_file = save


def main():
    torch.set_num_threads(1)
    base = dict(vocabulary=37, positions=32, width=16, layers=2, heads=4, inner=24, batch=2, sequence=7,
                accumulation=1, kv_heads=2, head_width=6, norm_epsilon=1e-6, rope_theta=10000.0, experts=5, chosen=2,
                expert_inner=10)
    stream("qwen3_moe_plain", "qwen3_moe", base, 40, 81)
    stream("qwen3_moe_renormalised", "qwen3_moe",
           {**base, "renormalise": 1, "untied": 1, "experts": 9, "chosen": 4, "accumulation": 2}, 40, 82)
    stream("qwen3_moe_some_layers", "qwen3_moe",
           {**base, "layers": 5, "every": 2, "alone": [3], "qkv_bias": 1, "output_bias": 1, "renormalise": 1}, 40, 83)
    stream("qwen3_moe_all_chosen", "qwen3_moe", {**base, "experts": 3, "chosen": 3, "expert_inner": 17}, 40, 84)
    stream("qwen3_moe_one_chosen", "qwen3_moe", {**base, "chosen": 1, "window": 4, "renormalise": 0}, 40, 85)
    stream("qwen3_moe_lora", "qwen3_moe", {**base, "renormalise": 1, "rank": 3, "alpha": 6, "untied": 1}, 40, 87)
    stream("qwen3_moe_one_token", "qwen3_moe", {**base, "sequence": 1, "batch": 1, "experts": 12, "renormalise": 1}, 3, 86)
    own = {**base, "kv_heads": 4, "head_width": 0, "norm_epsilon": 1e-5}
    stream("olmoe_plain", "olmoe", {**own, "untied": 1}, 40, 88)
    stream("olmoe_renormalised", "olmoe", {**own, "kv_heads": 2, "renormalise": 1, "experts": 6, "chosen": 3}, 40, 89)
    stream("mixtral_plain", "mixtral", {**own, "untied": 1, "kv_heads": 2}, 40, 90)
    stream("mixtral_window", "mixtral", {**own, "head_width": 6, "kv_heads": 1, "window": 4, "experts": 4, "chosen": 3}, 40, 91)
    shared = {**base, "head_width": 0, "shared": 14, "qkv_bias": 1}
    stream("qwen2_moe_plain", "qwen2_moe", {**shared, "untied": 1}, 40, 95)
    stream("qwen2_moe_some_layers", "qwen2_moe", {**shared, "layers": 5, "every": 2, "alone": [3], "renormalise": 1,
                                                  "balance": 0.1, "accumulation": 2, "window": 3, "near": 4}, 40, 96)
    stream("qwen2_moe_lora", "qwen2_moe", {**shared, "rank": 3, "alpha": 6, "untied": 1, "qkv_bias": 0}, 40, 97)
    glm = {**base, "head_width": 8, "untied": 1, "dense": 1, "layers": 3, "shared": 2, "groups": 1, "kept": 1, "scale": 1.0,
           "renormalise": 1}
    stream("glm4_moe_plain", "glm4_moe", {**glm, "qkv_bias": 1}, 40, 100)
    stream("glm4_moe_groups", "glm4_moe", {**glm, "experts": 12, "groups": 4, "kept": 2, "scale": 2.5, "normed": 1,
                                           "chosen": 3, "accumulation": 2}, 40, 101)
    stream("glm4_moe_lora", "glm4_moe", {**glm, "renormalise": 0, "rank": 3, "alpha": 6, "dense": 0, "parameters": 2}, 40, 102)
    oss = {**base, "untied": 1, "inner": 10, "head_width": 8, "window": 3, "factor": 4.0, "original": 8, "limit": 0.35}
    stream("gpt_oss_plain", "gpt_oss", {**oss, "layers": 3}, 40, 103)
    stream("gpt_oss_balanced", "gpt_oss", {**oss, "kv_heads": 4, "qkv_bias": 0, "experts": 9, "chosen": 4, "accumulation": 2,
                                           "limit": 7.0, "balance": 0.4, "factor": 0, "window": 4,
                                           "kinds": ["full_attention", "sliding_attention"]}, 43, 104)
    stream("gpt_oss_lora", "gpt_oss", {**oss, "rank": 3, "alpha": 6}, 40, 105)
    stream("gpt_oss_expert_lora", "gpt_oss", {**oss, "rank": 2, "alpha": 5, "parameters": 2, "chosen": 3, "truncate": 1,
                                              "accumulation": 2}, 40, 106)
    stream("gpt_oss_one_token", "gpt_oss", {**oss, "sequence": 1, "batch": 1, "chosen": 1}, 3, 107)
    stream("gpt_oss_mxfp4", "gpt_oss", {**oss, "width": 32, "expert_inner": 32, "rank": 2, "alpha": 5, "parameters": 2,
                                        "chosen": 3, "experts_form": MXFP4}, 40, 108)
    coded = {**base, "expert_inner": 12, "renormalise": 1, "untied": 1, "rank": 3, "alpha": 6, "parameters": 2}
    stream("qwen3_moe_nf4", "qwen3_moe", {**coded, "form": 2, "experts_form": 2}, 40, 109)
    stream("qwen3_moe_int8", "qwen3_moe", {**coded, "form": 3, "experts_form": 3, "parameters": 0}, 40, 110)
    stream("qwen2_moe_expert_lora", "qwen2_moe", {**shared, "rank": 3, "alpha": 6, "untied": 1, "parameters": 2}, 40, 98)
    stream("qwen3_moe_expert_lora", "qwen3_moe", {**base, "rank": 2, "alpha": 5, "untied": 1, "parameters": 1, "chosen": 3,
                                                  "renormalise": 1, "balance": 0.2, "accumulation": 2}, 40, 99)
    stream("qwen3_moe_balanced", "qwen3_moe",
           {**base, "layers": 3, "alone": [1], "untied": 1, "experts": 6, "accumulation": 2, "balance": 0.5}, 43, 92)
    stream("olmoe_balanced_lora", "olmoe", {**own, "rank": 3, "alpha": 6, "untied": 1, "batch": 3, "balance": 0.3}, 40, 93)
    stream("mixtral_balanced", "mixtral", {**own, "kv_heads": 2, "chosen": 3, "balance": 0.02}, 40, 94)


if __name__ == "__main__":
    main()
