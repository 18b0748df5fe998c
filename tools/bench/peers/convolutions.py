#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The convolutions of ResNet-50 as PyTorch computes them, forward and backward, on one thread, beside what
tools/bench/step_ops measures of Bedplate's (products and what lays out their operands).

    tools/bench/peers/convolutions.py [BATCH [STEPS]]      (needs torch; 2 images and 3 steps)
    build/release/tools/bench/step_ops preset=resnet-50 sequence=150528 batch=BATCH steps=STEPS clock=busy

Seconds are the processor's, so that what else the machine does counts little. Prints a row for each kind of
convolution, and the sum: milliseconds of a step, GFLOP/s. oneDNN packs its weights in every call, as training does.
"""
import sys
import time

import torch
import torch.nn.functional as F

# side of the input, channels in and out, kernel, stride, how many there are
LAYERS = [(224, 3, 64, 7, 2, 1), (56, 64, 64, 1, 1, 1), (56, 64, 64, 3, 1, 3), (56, 64, 256, 1, 1, 4), (56, 256, 64, 1, 1, 2),
          (56, 256, 128, 1, 1, 1), (56, 128, 128, 3, 2, 1), (28, 128, 512, 1, 1, 4), (56, 256, 512, 1, 2, 1),
          (28, 512, 128, 1, 1, 3), (28, 128, 128, 3, 1, 3), (28, 512, 256, 1, 1, 1), (28, 256, 256, 3, 2, 1),
          (14, 256, 1024, 1, 1, 6), (28, 512, 1024, 1, 2, 1), (14, 1024, 256, 1, 1, 5), (14, 256, 256, 3, 1, 5),
          (14, 1024, 512, 1, 1, 1), (14, 512, 512, 3, 2, 1), (7, 512, 2048, 1, 1, 3), (14, 1024, 2048, 1, 2, 1),
          (7, 2048, 512, 1, 1, 2), (7, 512, 512, 3, 1, 2)]


def main():
    torch.set_num_threads(1)
    batch = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    print("| input | kernel | stride | out | calls | ms | GFLOP/s |\n|---|---|---|---|---|---|---|")
    all_ms = all_work = 0.0
    for side, channels, out, kernel, stride, count in LAYERS:
        x = torch.randn(batch, channels, side, side).contiguous(memory_format=torch.channels_last)
        w = torch.randn(out, channels, kernel, kernel).contiguous(memory_format=torch.channels_last).requires_grad_()
        x.requires_grad_(channels != 3)  # the first has nobody that its input's gradient would go to
        times = []
        for _ in range(steps + 2):
            began = time.process_time()
            y = F.conv2d(x, w, stride=stride, padding=kernel // 2)
            y.backward(y.detach())
            times.append(time.process_time() - began)
        ms = 1e3 * sorted(times[2:])[steps // 2] * count
        work = (3 if channels != 3 else 2) * 2.0 * y.numel() * channels * kernel * kernel * count
        all_ms, all_work = all_ms + ms, all_work + work
        print(f"| {side} x {side} x {channels} | {kernel} | {stride} | {out} | {count} | {ms:.2f} | {work / ms * 1e-6:.1f} |")
    print(f"| all | | | | | {all_ms:.2f} | {all_work / all_ms * 1e-6:.1f} |")


if __name__ == "__main__":
    main()
