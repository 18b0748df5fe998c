# SPDX-License-Identifier: MIT
"""What the golden data of image models have in common: resnet.py, mobilenet.py, vit.py and image_adapters.py."""
import json
import math

import numpy as np
import torch
from safetensors.numpy import save_file

# Names in files of ViT's names in memory.
HUB = (("vit.layers.", "vit.encoder.layer."), ("attention.q_proj", "attention.attention.query"),
       ("attention.k_proj", "attention.attention.key"), ("attention.v_proj", "attention.attention.value"),
       ("attention.o_proj", "attention.output.dense"), ("mlp.fc1", "intermediate.dense"), ("mlp.fc2", "output.dense"))


def hub(name):
    for new, old in HUB:
        name = name.replace(new, old)
    return name


def single(tensor):
    return np.ascontiguousarray(tensor.detach().float().numpy())


def train(see, trained, x, labels, batch, accumulation, steps, first=dict):
    """Losses of AdamW's steps, and of the first step the gradients, their norm and what `first` gives; `trained`: pairs
    of names and parameters, `see`: logits of images."""
    tensors, losses, rows, group = {}, [], len(labels), batch * accumulation
    decayed = [p for _, p in trained if p.dim() > 1]
    plain = [p for _, p in trained if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}],
                                  lr=1e-2, betas=(0.9, 0.999), eps=1e-3)
    for step in range(steps):
        start = step % math.ceil(rows / group) * group
        end = min(start + group, rows)
        optimizer.zero_grad()
        total = 0.0
        for at in range(start, end, batch):
            part = slice(at, min(at + batch, end))
            loss = torch.nn.functional.cross_entropy(see(x[part]), labels[part], reduction="sum") / (end - start)
            loss.backward()
            total += loss.item()
        losses.append(total)
        if step == 0:
            tensors.update({"grad." + n: single(p.grad) for n, p in trained})
            tensors["norm"] = np.array([math.sqrt(sum((p.grad ** 2).sum().item() for _, p in trained))])
            tensors.update(first())
        optimizer.step()
    tensors["loss"] = np.array(losses)
    return tensors


def save(path, tensors, x, labels, classes, batch, accumulation, frozen=False):
    tensors["shape"] = np.array([*x.shape[1:], classes, batch, accumulation, frozen], np.int32)
    tensors["tokens"] = single(x).view(np.int32)
    tensors["labels"] = labels.int().numpy()
    save_file(tensors, path)
    print(path, tensors["loss"][0], tensors["loss"][-1])


def directory(path, model, g, size):
    """The model as transformers saves it, six images with labels, and what it says of them."""
    model.eval()
    model.save_pretrained(path)
    x = (torch.rand((6, size, size, 3), generator=g) * 1000).round() / 1000
    labels = [0, 1, 2, 2, 1, 0]
    with open(path + "/images.csv", "w") as f:
        for row, label in zip(x, labels):
            f.write(",".join("%.3f" % v for v in row.flatten()) + ",%d\n" % label)
    with torch.no_grad():
        model = model.double()
        logits = model(x.double().permute(0, 3, 1, 2)).logits
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor(labels)).item()
    with open(path + "/eval.json", "w") as f:
        json.dump({"loss": loss, "logits": [[round(v, 7) for v in row] for row in logits.tolist()]}, f)
        f.write("\n")
