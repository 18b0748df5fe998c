#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/images/mobilenet_*.safetensors: what transformers' MobileNetV2ForImageClassification computes in
float64, in the form of tools/golden/images.py, with `mobilenet` (float64: depth_multiplier, expand_ratio,
depth_divisible_by, min_depth, whether first_layer_is_expansion, finegrained_output and tf_padding are false; output_stride where that is not 32) in
place of `layers`; and tests/golden/mobilenet/, a directory as transformers saves it, with eval.json: the logits and the loss of
images.csv. Nothing is dropped. Files hold only what the tests read of STEPS steps.

Run from the repository root: tools/golden/mobilenet.py [OUT NAME..] (needs torch, transformers, numpy, safetensors; written with
transformers 5.24; a minute on one core).
"""
import math
import os
import sys

import numpy as np
import torch
import transformers
from image_case import directory, save, single, train

OUT = sys.argv[1] if len(sys.argv) > 1 else "tests/golden/"
ONLY = sys.argv[2:]  # names, where not all are made
STEPS = 20


def draw(model, g):
    """Random weights that float32 holds; batches that were counted."""
    with torch.no_grad():
        for n, p in list(model.named_parameters()) + list(model.named_buffers()):
            if "num_batches" in n:
                p.fill_(7)
                continue
            drawn = torch.randn(p.shape, generator=g, dtype=torch.float64)
            scale = math.sqrt(2.0 / max(1, math.prod(p.shape[1:]))) if p.dim() > 1 else 0.3
            drawn = drawn.abs() + 0.5 if "running_var" in n else drawn * scale
            drawn = drawn + 1.0 if n.endswith("normalization.weight") else drawn
            # Between 0 and 6, so that few numbers lie at the ends, where gradients jump, and both are reached.
            drawn = drawn + 3.0 if n.endswith("normalization.bias") and "reduce" not in n else drawn
            p.copy_(drawn.float())


def kept(model):
    return {n: b for n, b in model.named_buffers() if "num_batches" not in n}


def make(name, seed, rows=7, size=33, channels=3, classes=3, batch=4, accumulation=1, multiplier=0.1, ratio=6.0, divisor=4,
         least=4, first=True, fine=False, tf=True, frozen=False, stride=32):
    if ONLY and name not in ONLY:
        return
    g = torch.Generator().manual_seed(seed)
    model = transformers.MobileNetV2ForImageClassification(transformers.MobileNetV2Config(
        num_channels=channels, image_size=size, depth_multiplier=multiplier, expand_ratio=ratio, depth_divisible_by=divisor,
        min_depth=least, first_layer_is_expansion=first, finegrained_output=fine, tf_padding=tf, classifier_dropout_prob=0.0,
        num_labels=classes, output_stride=stride)).double()
    draw(model, g)
    x = torch.randn((rows, size, size, channels), generator=g).float()
    labels = torch.randint(classes, (rows,), generator=g)
    tensors = {n: single(p) for n, p in model.named_parameters()}
    tensors.update({n: single(b) for n, b in kept(model).items()})
    see = lambda part: model(part.double().permute(0, 3, 1, 2)).logits
    model.eval()
    tensors["logits"] = single(see(x))
    model.train(not frozen)  # there is nothing else that training would change
    tensors.update(train(see, list(model.named_parameters()), x, labels, batch, accumulation, STEPS,
                         lambda: {"first." + n: single(b) for n, b in kept(model).items()}))
    tensors.update({"after." + n: single(b) for n, b in kept(model).items()})
    tensors["mobilenet"] = np.array([multiplier, ratio, divisor, least, not first, not fine, not tf]
                                    + [stride] * (stride != 32), np.float64)
    save(OUT + "images/mobilenet_" + name + ".safetensors", tensors, x, labels, classes, batch, accumulation, frozen)


def whole():
    if ONLY:
        return
    g = torch.Generator().manual_seed(5)
    model = transformers.MobileNetV2ForImageClassification(transformers.MobileNetV2Config(
        image_size=32, depth_multiplier=0.1, depth_divisible_by=4, min_depth=4, finegrained_output=False, num_labels=3,
        id2label={0: "a", 1: "b", 2: "c"}, label2id={"a": 0, "b": 1, "c": 2}))
    draw(model, g)
    directory(OUT + "mobilenet", model, g, 32)


os.makedirs(OUT + "mobilenet", exist_ok=True)
# Gradients through 52 norms of small batches are 1e-4 and more from float64 in PyTorch's own float32, and about 1e-5 in
# Bedplate's; of this seed's numbers, and where norms take running statistics, they are within 1e-5.
make("plain", 12, size=47, channels=1, rows=11, batch=8)
make("half", 51, size=40, channels=1, tf=False, first=False, ratio=2.5, multiplier=0.15, frozen=True)
# Strides that become holes: 2 and 4 apart, 2 apart, and from the first layer on 2 to 16.
make("apart", 61, size=33, channels=1, rows=5, batch=5, frozen=True, stride=8)
make("apart_half", 22, size=24, channels=1, tf=False, frozen=True, stride=16, multiplier=0.15)
make("apart_all", 55, size=17, channels=1, rows=5, batch=5, frozen=True, stride=2)
whole()
