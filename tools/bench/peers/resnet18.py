#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ResNet-18 for images of 32 x 32 (the preset resnet-18-cifar) trained by Bedplate and by PyTorch from the same weights, on
the same images in the same order: losses, and the accuracy on images that neither saw.

    tools/bench/peers/resnet18.py [--bedplate PROGRAM] [--cifar DIR] [--rows N] [--test-rows N] [--steps N] [--batch N]
        [--rate R] [--threads N]

Needs torch and safetensors. --cifar: a folder with CIFAR-10's binary files (data_batch_1.bin .., test_batch.bin). Without it
the handwritten digits that scikit-learn carries (1,797 of 8 x 8), made 32 x 32 with three planes, the last fifth held out;
that needs scikit-learn. AdamW, its rate falling linearly to 0, decay 0.01 of weights of products, no clipping, float32.
The order is the one that Bedplate's record tells (`replay --documents`). Prints a row for each of the two.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch
from safetensors.torch import load_file

CLASSES, SIDE = 10, 32
DECAY, BETAS, EPSILON = 0.01, (0.9, 0.999), 1e-8


def parsed():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bedplate", default="build/release/bedplate")
    parser.add_argument("--cifar")
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--test-rows", type=int, default=0)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


def cifar(path, names):
    rows = np.concatenate([np.fromfile(os.path.join(path, n), np.uint8).reshape(-1, 3073) for n in names])
    return rows[:, 1:].reshape(-1, 3, SIDE, SIDE), rows[:, 0]


def digits():
    from sklearn.datasets import load_digits

    data = load_digits()
    small = torch.tensor(data.images, dtype=torch.float32)[:, None] / 16.0
    large = torch.nn.functional.interpolate(small, (SIDE, SIDE), mode="bilinear", align_corners=False)
    images = (large * 255).round().clamp(0, 255).to(torch.uint8).repeat(1, 3, 1, 1).numpy()
    order = np.random.default_rng(0).permutation(len(images))
    cut = len(images) * 4 // 5
    labels = data.target.astype(np.uint8)
    return (images[order[:cut]], labels[order[:cut]]), (images[order[cut:]], labels[order[cut:]])


def sets(args):
    if args.cifar:
        train = cifar(args.cifar, sorted(n for n in os.listdir(args.cifar) if n.startswith("data_batch")))
        test = cifar(args.cifar, ["test_batch.bin"])
    else:
        train, test = digits()
    some = lambda part, n: tuple(x[: n or None] for x in part)
    return some(train, args.rows), some(test, args.test_rows)


def write(path, images, labels):
    np.concatenate([labels[:, None], images.reshape(len(images), -1)], 1).astype(np.uint8).tofile(path)


def run(args, verb, *more):
    done = subprocess.run([args.bedplate, verb, *more], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{verb} {' '.join(more)}: {done.stderr[-1000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


class Unit(torch.nn.Module):
    def __init__(self, cin, cout, kernel, stride):
        super().__init__()
        self.convolution = torch.nn.Conv2d(cin, cout, kernel, stride, kernel // 2, bias=False)
        self.normalization = torch.nn.BatchNorm2d(cout)

    def forward(self, x):
        return self.normalization(self.convolution(x))


class Basic(torch.nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.layer = torch.nn.ModuleList([Unit(cin, cout, 3, stride), Unit(cout, cout, 3, 1)])
        if cin != cout or stride != 1:
            self.shortcut = Unit(cin, cout, 1, stride)

    def forward(self, x):
        y = self.layer[1](torch.relu(self.layer[0](x)))
        return torch.relu(y + (self.shortcut(x) if hasattr(self, "shortcut") else x))


class Net(torch.nn.Module):
    """As ResNet's authors have it for CIFAR: no pool behind the first convolution of 3 x 3."""

    def __init__(self):
        super().__init__()
        widths = [64, 64, 128, 128, 256, 256, 512, 512]
        before = [64] + widths[:-1]
        blocks = [Basic(a, b, 2 if b != a else 1) for a, b in zip(before, widths)]
        self.layers = torch.nn.ModuleList([Unit(3, 64, 3, 1)] + blocks)
        self.classifier = torch.nn.Linear(512, CLASSES)

    def forward(self, x):
        x = torch.relu(self.layers[0](x))
        for block in self.layers[1:]:
            x = block(x)
        return self.classifier(x.mean((2, 3)))


def ours(args, work, model):
    out = os.path.join(work, "out")
    options = ["--model", model, "--data", os.path.join(work, "train.bin"), "--data-format", "cifar10", "--output-dir", out,
               "--per-device-train-batch-size", str(args.batch), "--max-steps", str(args.steps), "--learning-rate", str(args.rate),
               "--lr-scheduler-type", "linear", "--warmup-steps", "0", "--weight-decay", str(DECAY), "--max-grad-norm", "0",
               "--threads", str(args.threads), "--logging-steps", "1", "--save-steps", "0", "--quiet", "--json"]
    began = time.time()
    said = run(args, "train", *options)
    seconds = time.time() - began
    judged = run(args, "eval", "--model", out, "--data", os.path.join(work, "test.bin"), "--data-format", "cifar10", "--json")[-1]
    losses = [line["loss"] for line in said if "loss" in line and line.get("event", "step") == "step"]
    return out, losses, judged, seconds


def order(args, work, out, model):
    """Rows of each step."""
    steps = []
    for step in range(1, args.steps + 1):
        lines = run(args, "replay", out, "--documents", str(step), "--model", model, "--data", os.path.join(work, "train.bin"))
        steps.append([line["example"] for line in lines if "example" in line])
    return steps


def theirs(args, model, rows, train, test):
    torch.set_num_threads(args.threads)
    net = Net()
    missing, unexpected = net.load_state_dict(load_file(os.path.join(model, "model.safetensors")), strict=False)
    if unexpected or any("num_batches" not in name for name in missing):
        sys.exit(f"another net: {missing} {unexpected}")
    as_input = lambda images: torch.tensor(images).float().div(255.0).contiguous(memory_format=torch.channels_last)
    x, y = as_input(train[0]), torch.tensor(train[1].astype(np.int64))
    decayed = [p for p in net.parameters() if p.dim() > 1]
    plain = [p for p in net.parameters() if p.dim() <= 1]
    rule = torch.optim.AdamW([{"params": decayed, "weight_decay": DECAY}, {"params": plain, "weight_decay": 0.0}], lr=args.rate,
                             betas=BETAS, eps=EPSILON)
    net = net.to(memory_format=torch.channels_last).train()
    losses, began = [], time.time()
    for step, part in enumerate(rows):
        for group in rule.param_groups:
            group["lr"] = args.rate * (args.steps - step) / args.steps
        loss = torch.nn.functional.cross_entropy(net(x[part]), y[part])
        rule.zero_grad()
        loss.backward()
        rule.step()
        losses.append(loss.item())
    seconds = time.time() - began
    net.eval()
    with torch.no_grad():
        found = torch.cat([net(part) for part in as_input(test[0]).split(64)])
    right = torch.tensor(test[1].astype(np.int64))
    return losses, (found.argmax(1) == right).float().mean().item(), torch.nn.functional.cross_entropy(found, right).item(), seconds


def main():
    args = parsed()
    train, test = sets(args)
    with tempfile.TemporaryDirectory() as work:
        write(os.path.join(work, "train.bin"), *train)
        write(os.path.join(work, "test.bin"), *test)
        model = os.path.join(work, "begin")
        run(args, "train", "--model", "resnet-18-cifar", "--data", os.path.join(work, "train.bin"), "--data-format", "cifar10",
            "--max-steps", "0", "--output-dir", model, "--quiet")
        out, losses, judged, seconds = ours(args, work, model)
        rows = order(args, work, out, model)
        peer = theirs(args, model, rows, train, test)
    print(f"{len(train[0])} images to learn from, {len(test[0])} to judge; {args.steps} steps of {args.batch}, rate {args.rate}")
    print("| | first loss | last five | accuracy | loss of the held-out | s |\n|---|---|---|---|---|---|")
    mean = lambda values: sum(values) / max(1, len(values))
    print(f"| Bedplate | {losses[0]:.5f} | {mean(losses[-5:]):.4f} | {judged['accuracy']:.4f} | {judged['loss']:.4f} | {seconds:.0f} |")
    print(f"| PyTorch {torch.__version__.split('+')[0]} | {peer[0][0]:.5f} | {mean(peer[0][-5:]):.4f} | {peer[1]:.4f} | {peer[2]:.4f} | "
          f"{peer[3]:.0f} |")


if __name__ == "__main__":
    main()
