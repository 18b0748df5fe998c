#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/images/resnet_*.safetensors: what transformers' ResNetForImageClassification computes in float64,
in the form of tools/golden/images.py, with `resnet` (int32: embedding size, bottleneck, downsample_in_first_stage,
downsample_in_bottleneck, stages, their channels, their layers) in place of `layers`; and tests/golden/resnet/, a
directory as transformers saves it, with eval.json: the logits and the loss of images.csv.

Run from the repository root: tools/golden/resnet.py (needs torch, transformers, numpy, safetensors; written with
transformers 5.24; some seconds on one core).
"""
import math
import os
import sys

import numpy as np
import torch
import transformers
from image_case import directory, save, single, train

OUT = sys.argv[1] if len(sys.argv) > 1 else "tests/golden/"
STEPS = 50


def draw(model, g):
    """Random weights that float32 holds; batches that were counted."""
    with torch.no_grad():
        for n, p in list(model.named_parameters()) + list(model.named_buffers()):
            if "num_batches" in n:
                p.fill_(7)
                continue
            drawn = torch.randn(p.shape, generator=g, dtype=torch.float64)
            scale = 1.0 / math.sqrt(max(1, math.prod(p.shape[1:]))) if p.dim() > 1 else 0.3
            drawn = drawn.abs() + 0.5 if "running_var" in n else drawn * scale
            drawn = drawn + 1.0 if n.endswith("normalization.weight") else drawn
            p.copy_(drawn.float())


def make(name, seed, hidden, depths, embedding=4, layer_type="basic", first=False, early=False, rows=11, height=21,
         width=18, channels=3, classes=4, batch=4, accumulation=1):
    g = torch.Generator().manual_seed(seed)
    model = transformers.ResNetForImageClassification(transformers.ResNetConfig(
        num_channels=channels, embedding_size=embedding, hidden_sizes=hidden, depths=depths, layer_type=layer_type,
        downsample_in_first_stage=first, downsample_in_bottleneck=early, num_labels=classes)).double()
    draw(model, g)
    kept = lambda: {n: b for n, b in model.named_buffers() if "num_batches" not in n}
    x = torch.randn((rows, height, width, channels), generator=g).float()
    labels = torch.randint(classes, (rows,), generator=g)
    tensors = {n: single(p) for n, p in model.named_parameters()}
    tensors.update({n: single(b) for n, b in kept().items()})
    see = lambda part: model(part.double().permute(0, 3, 1, 2)).logits
    model.eval()
    tensors["logits"] = single(see(x))
    model.train()
    tensors.update(train(see, list(model.named_parameters()), x, labels, batch, accumulation, STEPS,
                         lambda: {"first." + n: single(b) for n, b in kept().items()}))
    tensors.update({"after." + n: single(b) for n, b in kept().items()})
    tensors["resnet"] = np.array([embedding, layer_type == "bottleneck", first, early, len(hidden), *hidden, *depths],
                                 np.int32)
    save(OUT + "images/resnet_" + name + ".safetensors", tensors, x, labels, classes, batch, accumulation)


def whole():
    g = torch.Generator().manual_seed(5)
    model = transformers.ResNetForImageClassification(transformers.ResNetConfig(
        embedding_size=4, hidden_sizes=[8, 12], depths=[1, 2], layer_type="bottleneck", num_labels=3,
        id2label={0: "a", 1: "b", 2: "c"}, label2id={"a": 0, "b": 1, "c": 2}, image_size=16))
    draw(model, g)
    directory(OUT + "resnet", model, g, 16)


os.makedirs(OUT + "resnet", exist_ok=True)
make("basic", 1, [6, 8], [1, 2])
make("bottleneck", 2, [8, 12], [2, 1], layer_type="bottleneck", rows=7, height=41, width=34, channels=1)
make("early", 3, [8, 12], [1, 1], layer_type="bottleneck", early=True, first=True, rows=7, height=49, width=36,
     channels=1)
whole()
