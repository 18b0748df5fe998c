#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/images/*.safetensors: what PyTorch computes in float64 for small convolutional
nets.

Run from the repository root: tools/golden/images.py (needs torch, numpy, safetensors; some seconds on
one core).

Weights were drawn and rounded to float32. Files, all tensors row-major:
  <names of the family>  float32  initial weights and running statistics
  grad.<name>            float32  gradients of the first group
  first.<name>           float32  running statistics after the first step
  after.<name>           float32  the same after the last one
  layers                 uint8    the layers' texts, a line each
  shape                  int32    height, width, channels, classes, batch, accumulation, frozen, and
                                  whether the image is to be given back (mean of squares) or has a class
  tokens                 int32    the bits of the images (rows, height, width, channels)
  labels                 int32    (rows)
  loss                   float64  mean loss of each of STEPS steps of AdamW (rate 1e-2, betas 0.9 and
                                  0.999, epsilon 1e-3 so that no rounding is made large, weight decay 0.1
                                  of weights of products, no clipping)
  norm                   float64  global gradient norm of the first group
  logits                 float32  of all rows in evaluation, before the first step
"""
import math
import os

import numpy as np
import torch
from safetensors.numpy import save_file

OUT = "tests/golden/images/"
STEPS = 12
EPSILON, MOMENTUM = 1e-3, 0.2


def pair(text):
    a = [int(x) for x in text.split("x")]
    return (a[0], a[-1])


def same(size, kernel, stride):
    """What TensorFlow puts before and behind."""
    need = max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
    return need // 2, need - need // 2


class Window(torch.nn.Module):
    """A module over a padded image."""

    def __init__(self, inner, kernel, stride, padding, fill=0.0):
        super().__init__()
        self.kernel, self.stride, self.padding, self.fill = kernel, stride, padding, fill
        self.inner = [inner]

    def forward(self, x):
        k, s, p = self.kernel, self.stride, self.padding
        ends = [same(x.shape[2 + i], k[i], s[i]) if p == "same"
                else (k[i] // 2,) * 2 if p == "half" else (int(p),) * 2 for i in range(2)]
        x = torch.nn.functional.pad(x, (*ends[1], *ends[0]), value=self.fill)
        return self.inner[0](x)


class Unit(torch.nn.Module):
    def __init__(self, cin, cout, kernel, stride, padding, groups=1, norm=True, relu=True):
        super().__init__()
        self.convolution = torch.nn.Conv2d(cin, cout, kernel, stride, groups=groups, bias=not norm)
        self.window = Window(self.convolution, kernel, stride, padding)
        if norm:
            self.normalization = torch.nn.BatchNorm2d(cout, eps=EPSILON, momentum=MOMENTUM)
        self.relu = relu

    def forward(self, x):
        x = self.window(x)
        x = self.normalization(x) if hasattr(self, "normalization") else x
        return torch.relu(x) if self.relu else x


class Several(torch.nn.Module):
    def __init__(self, units, shortcut=None, residual=False):
        super().__init__()
        self.layer = torch.nn.ModuleList(units)
        if shortcut is not None:
            self.shortcut = shortcut
        self.residual = residual

    def forward(self, x):
        y = x
        for unit in self.layer:
            y = unit(y)
        if not self.residual:
            return y
        return torch.relu(y + (self.shortcut(x) if hasattr(self, "shortcut") else x))


class Mean(torch.nn.Module):
    def forward(self, x):
        return x.mean((2, 3), keepdim=True)


def layer_of(text, cin, size):
    """The module of a layer's text over so large an image, and its channels."""
    words = text.split()
    kind, rest = words[0], words[1:]
    cout = int(rest.pop(0)) if kind in ("conv", "dense", "separable", "basic", "bottleneck") else cin
    kernel = None
    if kind not in ("basic", "bottleneck", "dense"):
        kernel = None if rest[0] == "all" else pair(rest[0])
        rest.pop(0)
    value = lambda name, other: rest[rest.index(name) + 1] if name in rest else other
    stride, padding = pair(value("stride", "1")), value("padding", None)
    padding = padding or ("0" if "pool" in kind else "half")
    plain, linear = "plain" in rest, "linear" in rest
    if kind == "conv":
        return Unit(cin, cout, kernel, stride, padding, 1, not plain, not linear), cout
    if kind == "dense":
        return Unit(cin, cout, size, (1, 1), "0", 1, not plain, not linear), cout
    if kind == "depthwise":
        return Unit(cin, cin, kernel, stride, padding, cin, not plain, not linear), cin
    if kind == "separable":
        return Several([Unit(cin, cin, kernel, stride, padding, cin),
                        Unit(cin, cout, (1, 1), (1, 1), "0")]), cout
    if kind in ("basic", "bottleneck"):
        short = None
        if cin != cout or stride != (1, 1):
            short = Unit(cin, cout, (1, 1), stride, "0", relu=False)
        if kind == "basic":
            units = [Unit(cin, cout, (3, 3), stride, padding),
                     Unit(cout, cout, (3, 3), (1, 1), padding, relu=False)]
        else:
            n = cout // 4
            units = [Unit(cin, n, (1, 1), (1, 1), "0"), Unit(n, n, (3, 3), stride, padding),
                     Unit(n, cout, (1, 1), (1, 1), "0", relu=False)]
        return Several(units, short, True), cout
    if kernel is None:
        return Mean(), cin
    if kind == "max-pool":
        return Window(torch.nn.MaxPool2d(kernel, stride), kernel, stride, padding, -math.inf), cin
    return Window(torch.nn.AvgPool2d(kernel, stride), kernel, stride, padding), cin


class Net(torch.nn.Module):
    def __init__(self, v):
        super().__init__()
        layers, c = [], v["channels"]
        x = torch.zeros((1, c, v["height"], v["width"]))
        for text in v["layers"]:
            layer, c = layer_of(text, c, tuple(x.shape[2:]))
            layers.append(layer.eval())
            x = layer(x)
        self.layers = torch.nn.ModuleList(layers)
        shape = self.features(torch.zeros((1, v["channels"], v["height"], v["width"]))).shape
        self.classifier = torch.nn.Linear(math.prod(shape[1:]), v["classes"])

    def features(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

    def forward(self, x):
        """Images are (batch, height, width, channels), and so is what the classifier reads."""
        y = self.features(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        return self.classifier(y.flatten(1))


def single(tensor):
    return np.ascontiguousarray(tensor.detach().float().numpy())


def make(name, seed, layers, rows=11, height=9, width=8, channels=3, classes=4, batch=4,
         accumulation=1, frozen=0, again=0):
    v = dict(layers=layers, height=height, width=width, channels=channels, classes=classes)
    g = torch.Generator().manual_seed(seed)
    model = Net(v).double()
    with torch.no_grad():
        for n, p in list(model.named_parameters()) + list(model.named_buffers()):
            if "num_batches" in n:
                continue
            drawn = torch.randn(p.shape, generator=g, dtype=torch.float64)
            scale = 1.0 / math.sqrt(max(1, math.prod(p.shape[1:]))) if p.dim() > 1 else 0.3
            drawn = drawn.abs() + 0.5 if "running_var" in n else drawn * scale
            drawn = drawn + 1.0 if n.endswith("normalization.weight") else drawn
            p.copy_(drawn.float().double())
    kept = lambda: {n: b for n, b in model.named_buffers() if "num_batches" not in n}
    x = torch.randn((rows, height, width, channels), generator=g).float()
    labels = torch.randint(classes, (rows,), generator=g)
    tensors = {n: single(p) for n, p in model.named_parameters()}
    tensors.update({n: single(b) for n, b in kept().items()})
    model.eval()
    tensors["logits"] = single(model(x.double()))
    model.train(not frozen)
    decayed = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1},
                                   {"params": plain, "weight_decay": 0.0}],
                                  lr=1e-2, betas=(0.9, 0.999), eps=1e-3)
    losses, group = [], batch * accumulation
    for step in range(STEPS):
        first = step % math.ceil(rows / group) * group
        last = min(first + group, rows)
        optimizer.zero_grad()
        loss = 0.0
        for at in range(first, last, batch):  # each micro-batch has its own statistics
            end = min(at + batch, last)
            y, image = model(x[at:end].double()), x[at:end].double().flatten(1)
            part = ((y - image)**2).mean(1).sum() if again else torch.nn.functional.cross_entropy(
                y, labels[at:end], reduction="sum")
            part = part / (last - first)
            part.backward()
            loss += part.item()
        if step == 0:
            norm = math.sqrt(sum(float((p.grad**2).sum()) for p in model.parameters()))
            tensors.update({"grad." + n: single(p.grad) for n, p in model.named_parameters()})
            tensors.update({"first." + n: single(b) for n, b in kept().items()})
        optimizer.step()
        losses.append(loss)
    tensors.update({"after." + n: single(b) for n, b in kept().items()})
    tensors["layers"] = np.frombuffer("".join(t + "\n" for t in layers).encode(), np.uint8)
    tensors["shape"] = np.array([height, width, channels, classes, batch, accumulation, frozen] + [1] * again,
                                np.int32)
    tensors["tokens"] = x.numpy().view(np.int32)
    tensors["labels"] = labels.numpy().astype(np.int32)
    tensors["loss"] = np.array(losses, np.float64)
    tensors["norm"] = np.array([norm], np.float64)
    save_file(tensors, f"{OUT}{name}.safetensors", metadata={"format": "pt"})
    print(name, sum(t.nbytes for t in tensors.values()), "bytes, loss", losses[0], losses[-1])


os.makedirs(OUT, exist_ok=True)
make("plain", 1, ["conv 5 3x2 stride 2x1 plain", "depthwise 3 plain linear"])
make("pools", 2, ["conv 6 3", "max-pool 3 stride 2 padding 1", "mean-pool 2", "conv 5 1 plain"])
make("same", 3, ["conv 6 4x3 stride 2 padding same", "separable 7 3 stride 2 padding same",
                 "mean-pool all"])
make("basic", 4, ["conv 6 3", "basic 6", "basic 8 stride 2", "mean-pool all"])
make("bottleneck", 5, ["conv 8 7 stride 2", "max-pool 3 stride 2 padding 1", "bottleneck 16",
                       "bottleneck 16", "bottleneck 20 stride 2", "mean-pool all"])
make("accumulated", 6, ["conv 5 3", "depthwise 5 stride 2", "basic 6", "mean-pool all"], batch=2,
     accumulation=3)
make("frozen", 7, ["conv 5 3", "basic 7 stride 2", "mean-pool all"], frozen=1)
make("again", 8, ["dense 9", "dense 5 plain", "dense 9 linear"], height=3, width=2, channels=2,
     classes=12, again=1)
