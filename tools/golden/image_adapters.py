#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/images/*_adapters*.safetensors: what PEFT's adapters of convolutions compute in float64 beside
transformers' ResNet, MobileNetV2 and ViT, in the form of tools/golden/resnet.py, mobilenet.py and vit.py, and

  adapters               int32: rank, alpha, whether it is divided by the rank's root
  targets                names of target_modules, or one expression, a line each
  ranks, alphas          lines "key number" of rank_pattern and alpha_pattern, where there are some

Norms take their running statistics, as Bedplate lets them beside adapters. And tests/golden/resnet/adapter, what PEFT
saves of an adapter beside tests/golden/resnet, with the logits in logits.json.

Run from the repository root: tools/golden/image_adapters.py (needs torch, transformers, peft, numpy, safetensors;
written with transformers 5.24 and PEFT 0.21.2; some seconds on one core).
"""
import json
import math
import os
import re
import sys

import numpy as np
import peft
import torch
import transformers
from image_case import hub, save, single, train

OUT = sys.argv[1] if len(sys.argv) > 1 else "tests/golden/"
STEPS = 20


def draw(model, g):
    """Random weights that float32 holds."""
    with torch.no_grad():
        for n, p in list(model.named_parameters()) + list(model.named_buffers()):
            if "num_batches" in n:
                continue
            drawn = torch.randn(p.shape, generator=g, dtype=torch.float64)
            scale = 1.0 / math.sqrt(max(1, math.prod(p.shape[1:]))) if p.dim() in (2, 4) else 0.3
            drawn = drawn.abs() + 0.5 if "running_var" in n else drawn * scale
            # As mobilenet.py: few numbers lie where ReLU6 has its corners.
            drawn = drawn + 3.0 if n.startswith("mobilenet") and n.endswith("normalization.bias") and "reduce" not in n \
                else drawn
            p.copy_((drawn + (1.0 if re.search("norm[a-z_]*.weight$", n) else 0.0)).float())


def named(model):
    """Names in files, and tensors."""
    for n, p in list(model.named_parameters()) + list(model.named_buffers()):
        if "num_batches" in n or "original_module" in n:
            continue
        n = n.replace(".default", "").replace(".base_layer", "").replace(".modules_to_save", "")
        n = hub(n)
        yield (n if "lora_" in n else n.replace("base_model.model.", "")), p


def make(name, seed, model, more, shape, targets, rank, alpha, rows=11, batch=4, accumulation=1, rooted=False, ranks=(),
         alphas=()):
    height, width, channels = shape
    classes = model.config.num_labels
    g = torch.Generator().manual_seed(seed)
    draw(model, g)
    model = peft.get_peft_model(model.double(), peft.LoraConfig(
        r=rank, lora_alpha=alpha, target_modules=targets, use_rslora=rooted, rank_pattern=dict(ranks),
        alpha_pattern=dict(alphas), modules_to_save=["classifier"]))
    for m in model.modules():  # what transformers' padding asks of a convolution, and PEFT's do not say
        if isinstance(m, peft.tuners.lora.Conv2d):
            m.stride, m.kernel_size, m.dilation = m.base_layer.stride, m.base_layer.kernel_size, m.base_layer.dilation
    with torch.no_grad():
        for n, p in model.named_parameters():
            if "lora_" in n:
                p.copy_((torch.randn(p.shape, generator=g) * 0.8 / math.sqrt(math.prod(p.shape[1:]))).float())
    x = torch.randn((rows, height, width, channels), generator=g).float()
    labels = torch.randint(classes, (rows,), generator=g)
    tensors = {n: single(p) for n, p in named(model)}
    see = lambda part: model(pixel_values=part.double().permute(0, 3, 1, 2)).logits
    model.eval()  # no dropout anywhere: only the norms differ
    tensors["logits"] = single(see(x))
    trained = [(n, p) for n, p in named(model) if p.requires_grad]
    tensors.update(train(see, trained, x, labels, batch, accumulation, STEPS))
    still = [n for n in tensors if "running_" in n]
    tensors.update({when + n: tensors[n] for n in still for when in ("first.", "after.")})
    lines = lambda rows: np.frombuffer("".join(r + "\n" for r in rows).encode(), np.uint8)
    tensors["targets"] = lines([targets] if isinstance(targets, str) else targets)
    for key, rows_of in (("ranks", ranks), ("alphas", alphas)):
        if rows_of:
            tensors[key] = lines("%s %g" % row for row in rows_of)
    tensors["adapters"] = np.array([rank, alpha, rooted], np.int32)
    tensors.update(more)
    save(OUT + "images/" + name + ".safetensors", tensors, x, labels, classes, batch, accumulation)


def resnet(hidden, depths, layer_type, channels=3):
    model = transformers.ResNetForImageClassification(transformers.ResNetConfig(
        num_channels=channels, embedding_size=4, hidden_sizes=hidden, depths=depths, layer_type=layer_type, num_labels=4))
    return model, {"resnet": np.array([4, layer_type == "bottleneck", 0, 0, len(hidden), *hidden, *depths], np.int32)}


def mobilenet(channels):
    model = transformers.MobileNetV2ForImageClassification(transformers.MobileNetV2Config(
        num_channels=channels, image_size=40, depth_multiplier=0.15, expand_ratio=2.5, depth_divisible_by=4, min_depth=4,
        finegrained_output=False, classifier_dropout_prob=0.0, num_labels=4))
    return model, {"mobilenet": np.array([0.15, 2.5, 4, 4, 0, 1, 0], np.float64)}


def vit():
    model = transformers.ViTForImageClassification(transformers.ViTConfig(
        hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20, image_size=8, patch_size=4,
        num_labels=4))
    return model, {"vit": np.array([12, 2, 3, 20, 4, 0, 0, 0], np.int32)}


def directory():
    """One pattern of ranks, a window of 7 x 7 with stride 2, one of 3 x 3, and 1 x 1 with and without a stride."""
    torch.manual_seed(6)
    base = transformers.ResNetForImageClassification.from_pretrained(OUT + "resnet")
    model = peft.get_peft_model(base, peft.LoraConfig(r=2, lora_alpha=3, target_modules=["convolution"],
                                                      rank_pattern={"layer.1.convolution": 1},
                                                      modules_to_save=["classifier"]))
    with torch.no_grad():
        for p in model.parameters():
            if p.requires_grad:
                p.copy_(torch.randn(p.shape) * 0.3)
    model.save_pretrained(OUT + "resnet/adapter")
    os.remove(OUT + "resnet/adapter/README.md")
    x = torch.tensor([[float(v) for v in line.split(",")[:-1]] for line in open(OUT + "resnet/images.csv")])
    with torch.no_grad():
        logits = model.eval().double()(pixel_values=x.double().reshape(-1, 16, 16, 3).permute(0, 3, 1, 2)).logits
    with open(OUT + "resnet/adapter/logits.json", "w") as f:
        json.dump({"logits": [[round(v, 7) for v in row] for row in logits.tolist()]}, f)
        f.write("\n")


make("resnet_adapters", 1, *resnet([8, 12], [2, 1], "bottleneck"), (21, 18, 3), ["convolution"], 3, 6)
make("resnet_adapters_some", 2, *resnet([6, 8], [1, 2], "basic", 1), (41, 34, 1),
     r".*stages\.1\..*\.convolution|.*embedder\.convolution", 2, 3, rooted=True, batch=2, accumulation=3,
     ranks=[("layer.1.convolution", 1), ("embedder.convolution", 4)], alphas=[(r"layers\.1\..*convolution", 8)])
make("mobilenet_adapters", 3, *mobilenet(3), (40, 40, 3),
     ["first_conv.convolution", "expand_1x1.convolution", "reduce_1x1.convolution", "conv_1x1.convolution"], 2, 4, rows=7)
make("vit_adapters_patches", 4, *vit(), (8, 8, 3), ["projection", "q_proj", "fc2"], 3, 6)
directory()
