#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/families/{t5,mt5}_*.safetensors: what the encoders of T5 and mT5 compute in float64, tokens' classes
as encoders.py has them and vectors as contrast.py has them.

Run from the repository root: tools/golden/t5.py (needs what contrast.py needs; some seconds on one core).
"""
import os
import sys

import torch
import transformers

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import contrast  # noqa: E402
import encoders  # noqa: E402
import families  # noqa: E402
import qwen3  # noqa: E402


def sizes(v, **more):
    return dict(vocab_size=v["vocabulary"], d_model=v["width"], d_kv=v["head_width"], d_ff=v["inner"], num_layers=v["layers"],
                num_heads=v["heads"], relative_attention_num_buckets=v.get("buckets", 32),
                relative_attention_max_distance=v.get("distance", 128), dropout_rate=0.0, feed_forward_proj=v["act"],
                layer_norm_epsilon=v.get("epsilon", 1e-6), pad_token_id=v["pad"], attn_implementation="eager", **more)


def normalise(self, x):
    """The norm, which transformers computes in float32 whatever the type."""
    return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


transformers.models.t5.modeling_t5.T5LayerNorm.forward = normalise
transformers.models.mt5.modeling_mt5.MT5LayerNorm.forward = normalise


def tokens(name, kind, v, lengths, seed):
    v = {**v, "task": encoders.TOKENS}
    encoders.KINDS[kind] = ({"t5": "T5", "mt5": "MT5"}[kind], lambda w, **more: sizes(w, **{
        k: a for k, a in more.items() if k != "hidden_act"}))
    encoders.case(name, kind, v, lengths, seed)


class Vectors(transformers.T5EncoderModel):
    def forward(self, **inputs):
        return super().forward(**inputs).last_hidden_state


def vectors(name, v, lengths, way, seed, dense=()):
    config = transformers.T5Config(**sizes(v))
    config.architectures = ["T5EncoderModel"]
    contrast.Holder = lambda prefix, model: model
    with qwen3.WithConfig(config, "T5EncoderModel"):
        contrast.case(name, "", Vectors(config), v, lengths, 2, way, seed, dense)


def main():
    torch.set_num_threads(1)
    own = dict(vocabulary=41, positions=64, width=16, layers=2, heads=2, head_width=6, inner=24, batch=4, sequence=9,
               accumulation=1, pad=0, classes=5, act="relu")
    tokens("t5_tokens", "t5", own, [9, 4, 1, 6], 140)
    tokens("t5_tokens_two_micros", "t5", {**own, "batch": 2, "accumulation": 2, "act": "gated-gelu"}, [9, 2, 7, 3], 141)
    tokens("mt5_tokens", "mt5", {**own, "act": "gated-gelu", "heads": 4, "head_width": 3, "layers": 3}, [9, 4, 7, 6], 142)
    tokens("t5_far", "t5", {**own, "positions": 160, "sequence": 150, "batch": 3, "act": "gated-silu", "epsilon": 1e-5},
           [150, 131, 40], 143)
    tokens("t5_near", "t5", {**own, "sequence": 30, "buckets": 10, "distance": 12}, [30, 13, 7, 1], 144)
    tokens("t5_lora", "t5", {**own, "rank": 2, "alpha": 4, "all_linear": 1, "act": "gated-gelu"}, [9, 4, 1, 6], 145)
    both = {**own, "accumulation": 2, "vocabulary": 6}
    vectors("t5_vectors", {**both, "layers": 3}, [9, 1, 1, 2, 1, 1, 2, 7], "mean", 146)
    vectors("t5_vectors_dense", {**both, "act": "gated-gelu"}, [9, 1, 1, 2, 1, 1, 2, 7], "mean", 147, [(12, 0, 0)])


if __name__ == "__main__":
    main()
