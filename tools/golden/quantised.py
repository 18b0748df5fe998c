#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/quantised.safetensors and qlora_*.safetensors: what bitsandbytes makes of weights, and what
PyTorch computes in float64 for small models whose dense layers have the values of the codes.

Run from the repository root: tools/golden/quantised.py (needs what families.py needs, and bitsandbytes; written with
bitsandbytes 0.50.2 on its CPU backend; some seconds on one core).

quantised.safetensors: map.0, float32, create_dynamic_map(), and for each matrix i:
  weight.<i>    float16  (out, in), what is quantised
  codes.<i>     uint8    bitsandbytes.functional.quantize_4bit, nf4, blocks of 64
  absmax.<i>    float32  its scales
  value.<i>     float32  dequantize_4bit of them (small matrices)
  nested.<i>    uint8    the scales less their mean, quantised in blocks of 256 (larger layers: nested.py)
  scales.<i>    float32  mean, then the scales of scales
  double.<i>    float32  bitsandbytes' dequantize_4bit with these nested scales (small matrices)
  int8.<i>      int8     int8_vectorwise_quant of the fp16 weight
  rows.<i>      float32  its scales, SCB
  back.<i>      float32  int8_vectorwise_dequant of them (small matrices)

qlora_*.safetensors are those of families.py, with the weights as they are before they are quantised, and
  quantised     int32    1 nf4, 2 nf4 with nested scales, 3 int8 (core/ops/quantised.h)
"""
import bitsandbytes.functional as bnb
import numpy as np
import torch
import transformers
from safetensors.numpy import save_file

import families

SHAPES = [(1, 1), (3, 7), (5, 64), (37, 100), (64, 64), (129, 130)]
SMALL = 4000
MAP = bnb.create_dynamic_map().numpy()


def nested(absmax):
    """As quantize_4bit with compress_statistics does it: offset, codes, scales."""
    offset = torch.from_numpy(absmax).mean()
    codes, state = bnb.quantize_blockwise(torch.from_numpy(absmax) - offset, blocksize=256)
    return np.float32(offset.item()), codes.numpy(), state.absmax.numpy()


def plain(weight):
    codes, state = bnb.quantize_4bit(weight, blocksize=64, quant_type="nf4")
    return codes, state


def doubled(weight):
    """The same with nested scales, as bitsandbytes holds it."""
    codes, state = plain(weight)
    offset, inner, scales = nested(state.absmax.numpy())
    state.offset = torch.tensor(offset)
    state.absmax = torch.from_numpy(inner)
    state.state2 = bnb.QuantState(absmax=torch.from_numpy(scales), blocksize=256,
                                  code=torch.from_numpy(MAP), dtype=torch.float32)
    state.nested = True
    return codes, state


def dequantised(weight, form):
    if form == 3:
        codes, rows, _ = bnb.int8_vectorwise_quant(weight.half())
        return bnb.int8_vectorwise_dequant(codes, rows)
    codes, state = plain(weight) if form == 1 else doubled(weight)
    absmax = state.absmax
    if form == 2:
        absmax = bnb.dequantize_blockwise(absmax, state.state2) + state.offset
    # Not dequantize_4bit: the native CPU kernel of 0.50.2 takes wrong scales for rows of 16, 32 or 48 elements.
    pairs = codes.reshape(-1).long()
    values = state.code[torch.stack([pairs >> 4, pairs & 15], 1).reshape(-1)[: weight.numel()]]
    return (values * absmax.repeat_interleave(64)[: weight.numel()]).reshape(weight.shape)


def matrices():
    generator = torch.Generator().manual_seed(21)
    out = {"map.0": MAP}
    for i, shape in enumerate(SHAPES):
        weight = (torch.randn(shape, generator=generator) * 0.3).half()
        if i == 3:
            weight[4:9] = 0 # blocks and rows of zeros
        single = weight.float()
        codes, state = plain(single)
        both, inner = doubled(single)
        rows = bnb.int8_vectorwise_quant(weight)
        out |= {f"weight.{i}": weight.numpy(), f"codes.{i}": codes.numpy().reshape(-1),
                f"absmax.{i}": state.absmax.numpy(), f"nested.{i}": inner.absmax.numpy(),
                f"scales.{i}": np.concatenate([[inner.offset.numpy()], inner.state2.absmax.numpy()]).astype(np.float32),
                f"int8.{i}": rows[0].numpy(), f"rows.{i}": rows[1].numpy()}
        if weight.numel() < SMALL:
            out |= {f"value.{i}": bnb.dequantize_4bit(codes, state).numpy(),
                    f"double.{i}": bnb.dequantize_4bit(both, inner).numpy(),
                    f"back.{i}": bnb.int8_vectorwise_dequant(*rows[:2]).numpy()}
    save_file({k: np.ascontiguousarray(v) for k, v in out.items()}, families.OUT + "quantised.safetensors",
              metadata={"format": "pt"})
    print("quantised", sum(v.nbytes for v in out.values()), "bytes")


FORM = 0
before = {}
own_finish = families.finish


def is_dense(name):
    """The weights of dense layers in the blocks, by the base's names."""
    return name.endswith(".weight") and any(part in name for part in (".layers.", ".layer.", ".h.")) and not any(
        part in name.lower() for part in ("norm", ".ln_", "lora_"))


def finish(name, model, losses, values, tensors):
    tensors["quantised"] = np.array([FORM], np.int32)
    save = families.save_file

    def put(all_tensors, *more, **rest):
        save(all_tensors | before, *more, **rest)

    families.save_file = put
    own_finish(name, model, losses, values, tensors)
    families.save_file = save


own_adapted = families.adapted


def take_codes(model):
    """The dense layers take the values of their codes; Conv1D is quantised as its transpose, as transformers does."""
    before.clear()
    turned = isinstance(model, transformers.GPT2LMHeadModel)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if is_dense(name):
                before[name] = families.single(p)
                weight = p.float().T.contiguous() if turned else p.float()
                values = dequantised(weight, FORM).double()
                p.copy_(values.T if turned else values)


def adapted(model, *more):
    take_codes(model)
    return own_adapted(model, *more)


def main():
    global FORM
    torch.set_num_threads(1)
    matrices()
    families.finish = finish
    families.adapted = adapted
    base = dict(vocabulary=37, positions=32, width=16, layers=2, heads=2, inner=24, batch=2, sequence=7,
                accumulation=1, kv_heads=2, head_width=8, norm_epsilon=1e-6, rope_theta=10000.0, all_linear=1)
    for FORM, name in ((1, "nf4"), (2, "double"), (3, "int8")):
        families.llama_stream(f"qlora_llama_{name}", {**base, "heads": 4, "head_width": 4, "untied": 1,
                                                      "rank": 3, "alpha": 6}, 40, 31)
    FORM = 2
    families.gpt2_stream("qlora_gpt2", {**base, "width": 20, "heads": 2, "inner": 28, "rank": 2, "alpha": 4}, 40, 32)


if __name__ == "__main__":
    main()
