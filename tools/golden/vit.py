#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/images/vit_*.safetensors: what transformers' ViTForImageClassification computes in float64, in the
form of tools/golden/images.py, with `vit` (int32: width, layers, heads, width inside the mlp, patch size, whether queries,
keys and values lack biases, rank of adapters, their alpha, number of hidden_act) in place of `layers`; adapters of all dense layers of the blocks
are trained beside the classifier alone, as PEFT does. And tests/golden/vit/, a directory as transformers saves it, with
eval.json: the logits and the loss of images.csv; in tests/golden/vit/adapter what PEFT saves of an adapter beside it, with
the logits in logits.json.

tests/golden/images/clip_*.safetensors and siglip_*.safetensors are the same of CLIPForImageClassification and
SiglipForImageClassification, with the kind of tower (bp_vit_kind) behind `vit`'s other numbers, 20 steps; in
tests/golden/clip/ and tests/golden/siglip/ are directories of theirs.

Run from the repository root: tools/golden/vit.py (needs torch, transformers, numpy, safetensors; written with transformers
5.24; some seconds on one core).
"""
import json
import math
import os
import sys

import numpy as np
import torch
import transformers
from image_case import directory, hub, save, single, train

OUT = sys.argv[1] if len(sys.argv) > 1 else "tests/golden/"
torch.set_num_threads(1)
STEPS = 50
TOWER_STEPS = 20
ACTS = ("gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "relu")
TOWER_ACTS = ACTS + ("quick_gelu",)


def draw(model, g):
    """Random weights that float32 holds."""
    with torch.no_grad():
        for n, p in model.named_parameters():
            drawn = torch.randn(p.shape, generator=g, dtype=torch.float64)
            scale = 0.3 if p.dim() != 2 and p.dim() != 4 else 1.0 / math.sqrt(math.prod(p.shape[1:]))
            p.copy_((drawn * scale + (1.0 if "layernorm" in n and n.endswith("weight") else 0.0)).float())


class Adapted(torch.nn.Module):
    def __init__(self, base, rank, alpha, g):
        super().__init__()
        self.base, self.scale = base, alpha / rank
        one = lambda *shape: torch.nn.Parameter((torch.randn(shape, generator=g) * 0.4).float().double())
        self.lora_A, self.lora_B = one(rank, base.in_features), one(base.out_features, rank)

    def forward(self, x):
        return self.base(x) + self.scale * (x @ self.lora_A.T @ self.lora_B.T)


def adapt(model, rank, alpha, g):
    for n, m in list(model.named_modules()):
        if isinstance(m, torch.nn.Linear) and n.startswith("vit.layers."):
            setattr(model.get_submodule(n.rpartition(".")[0]), n.rpartition(".")[2], Adapted(m, rank, alpha, g))


def named(model):
    """Names in files, and parameters; adapters as PEFT calls them."""
    for n, p in model.named_parameters():
        n = hub(n).replace(".base.", ".")
        yield ("base_model.model." + n + ".weight" if "lora_" in n else n), p


def config(image, patch, width, heads, layers, inner, **more):
    return transformers.ViTConfig(hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
                                  intermediate_size=inner, image_size=image, patch_size=patch, **more)


def make(name, seed, image=8, patch=4, width=12, heads=3, layers=2, inner=20, channels=3, biased=True, rows=11, classes=4,
         batch=4, accumulation=1, rank=0, alpha=0, act="gelu"):
    g = torch.Generator().manual_seed(seed)
    model = transformers.ViTForImageClassification(config(image, patch, width, heads, layers, inner, num_channels=channels,
                                                          qkv_bias=biased, num_labels=classes, hidden_act=act)).double()
    draw(model, g)
    if rank:
        adapt(model, rank, alpha, g)
    for n, p in named(model):
        p.requires_grad_(not rank or "lora_" in n or n.startswith("classifier."))
    x = torch.randn((rows, image, image, channels), generator=g).float()
    labels = torch.randint(classes, (rows,), generator=g)
    tensors = {n: single(p) for n, p in named(model)}
    see = lambda part: model(part.double().permute(0, 3, 1, 2)).logits
    model.eval()
    tensors["logits"] = single(see(x))
    model.train()
    trained = [(n, p) for n, p in named(model) if p.requires_grad]
    tensors.update(train(see, trained, x, labels, batch, accumulation, STEPS))
    tensors["vit"] = np.array([width, layers, heads, inner, patch, not biased, rank, alpha, ACTS.index(act)], np.int32)
    save(OUT + "images/vit_" + name + ".safetensors", tensors, x, labels, classes, batch, accumulation)


def whole():
    g = torch.Generator().manual_seed(5)
    model = transformers.ViTForImageClassification(config(
        8, 4, 12, 2, 2, 24, num_labels=3, id2label={0: "a", 1: "b", 2: "c"}, label2id={"a": 0, "b": 1, "c": 2}))
    draw(model, g)
    directory(OUT + "vit", model, g, 8)


def adapter():
    """Named as PEFT names ViT's modules beside transformers 5."""
    import peft

    torch.manual_seed(6)
    base = transformers.ViTForImageClassification.from_pretrained(OUT + "vit")
    model = peft.get_peft_model(base, peft.LoraConfig(r=2, lora_alpha=3, target_modules=["q_proj", "fc2"], bias="lora_only",
                                                      modules_to_save=["classifier"], layers_to_transform=[1]))
    with torch.no_grad():
        for p in model.parameters():
            if p.requires_grad:
                p.copy_(torch.randn(p.shape) * 0.3)
    model.save_pretrained(OUT + "vit/adapter")
    os.remove(OUT + "vit/adapter/README.md")
    x = torch.tensor([[float(v) for v in line.split(",")[:-1]] for line in open(OUT + "vit/images.csv")])
    with torch.no_grad():
        logits = model.eval().double()(pixel_values=x.double().reshape(-1, 8, 8, 3).permute(0, 3, 1, 2)).logits
    with open(OUT + "vit/adapter/logits.json", "w") as f:
        json.dump({"logits": [[round(v, 7) for v in row] for row in logits.tolist()]}, f)
        f.write("\n")


TEXT = dict(hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2, vocab_size=32,
            max_position_embeddings=8, bos_token_id=30, eos_token_id=31)


def tower_of(clip, classes, vision, **more):
    if clip:
        return transformers.CLIPForImageClassification(
            transformers.CLIPConfig(vision_config=vision, text_config=TEXT, num_labels=classes, projection_dim=6, **more))
    return transformers.SiglipForImageClassification(
        transformers.SiglipConfig(vision_config=vision, text_config=TEXT, num_labels=classes, **more))


def tower_draw(model, g):
    """Random weights that float32 holds."""
    with torch.no_grad():
        for n, p in model.named_parameters():
            drawn = torch.randn(p.shape, generator=g, dtype=torch.float64)
            scale = 0.3 if p.dim() < 2 else 1.0 / math.sqrt(math.prod(p.shape[1:]))
            p.copy_((drawn * scale + (1.0 if "norm" in n and n.endswith("weight") else 0.0)).float())


def tower_named(model):
    """Parameters by their names; adapters as PEFT calls them. SigLIP's pooling head is not one of a classifier's."""
    for n, p in model.named_parameters():
        if not n.startswith("vision_model.head."):
            n = n.replace(".base.", ".")
            yield ("base_model.model." + n + ".weight" if "lora_" in n else n), p


def tower_adapt(model, rank, alpha, g):
    for n, m in list(model.named_modules()):
        if isinstance(m, torch.nn.Linear) and n.startswith("vision_model.encoder."):
            setattr(model.get_submodule(n.rpartition(".")[0]), n.rpartition(".")[2], Adapted(m, rank, alpha, g))


def tower(clip, name, seed, image=8, patch=4, width=12, heads=3, layers=2, inner=20, channels=3, rows=11, classes=4, batch=4,
         accumulation=1, rank=0, alpha=0, act="quick_gelu"):
    g = torch.Generator().manual_seed(seed)
    vision = dict(hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=inner,
                  image_size=image, patch_size=patch, num_channels=channels, hidden_act=act, layer_norm_eps=1e-12)
    model = tower_of(clip, classes, vision).double()
    tower_draw(model, g)
    if rank:
        tower_adapt(model, rank, alpha, g)
    for n, p in model.named_parameters():
        p.requires_grad_((not rank or "lora_" in n or n.startswith("classifier.")) and not n.startswith("vision_model.head.")
                         and not (clip and "post_layernorm" in n))
    x = torch.randn((rows, image, image, channels), generator=g).float()
    labels = torch.randint(classes, (rows,), generator=g)
    tensors = {n: single(p) for n, p in tower_named(model)}
    see = lambda part: model(part.double().permute(0, 3, 1, 2)).logits
    model.eval()
    tensors["logits"] = single(see(x))
    model.train()
    trained = [(n, p) for n, p in tower_named(model) if p.requires_grad]
    tensors.update(train(see, trained, x, labels, batch, accumulation, TOWER_STEPS))
    tensors["vit"] = np.array([width, layers, heads, inner, patch, 0, rank, alpha, TOWER_ACTS.index(act), 1 if clip else 2], np.int32)
    save(OUT + "images/" + ("clip_" if clip else "siglip_") + name + ".safetensors", tensors, x, labels, classes, batch,
         accumulation)


def tower_directory(clip):
    g = torch.Generator().manual_seed(15)
    vision = dict(hidden_size=12, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, image_size=8, patch_size=4)
    model = tower_of(clip, 3, vision, id2label={0: "a", 1: "b", 2: "c"}, label2id={"a": 0, "b": 1, "c": 2})
    tower_draw(model, g)
    path = OUT + ("clip" if clip else "siglip")
    os.makedirs(path, exist_ok=True)
    directory(path, model, g, 8)


def main():
    os.makedirs(OUT + "vit", exist_ok=True)
    make("plain", 1)
    make("rest", 2, image=11, patch=3, channels=1, biased=False, width=8, heads=1, layers=1, inner=12, rows=7)
    make("two_micros", 3, batch=2, accumulation=3, width=16, heads=4)
    make("one_patch", 4, image=4, patch=4, rows=5, batch=2, layers=1)
    make("lora", 5, rank=3, alpha=6)
    make("relu", 7, act="relu")
    make("tanh_form", 8, act="gelu_fast", batch=3)
    whole()
    adapter()
    for clip in (True, False):
        tower(clip, "plain", 1)
        tower(clip, "odd", 2, image=11, patch=3, channels=1, width=8, heads=1, layers=1, inner=12, act="gelu")
        tower(clip, "two_micros", 3, rows=17, batch=2, accumulation=3, width=16, heads=4, act="gelu_pytorch_tanh")
        tower(clip, "one_patch", 4, image=4, patch=4, rows=5, batch=2, layers=1)
        tower(clip, "lora", 6, rank=3, alpha=3)
        tower_directory(clip)


if __name__ == "__main__":
    main()
