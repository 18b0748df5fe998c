#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times a training step of PyTorch on this machine's CPU, as a user of it would write it: Hugging Face's
GPT2LMHeadModel (sdpa attention, no dropout), loss, backward, clipping at 1.0, fused AdamW.

    tools/bench/torch_step.py [--batch N] [--sequence N] [--threads N] [--steps N] [--compile] [--bf16]
                              [--checkpoint]

Prints one JSON object: ms_per_step (the median of the steps after two for warming up) and peak_bytes
(the largest resident size of the process during those steps, less what the interpreter and its libraries
held before the model was made). --compile is torch.compile, --bf16 autocast, --checkpoint Hugging Face's
gradient checkpointing.
"""
import argparse
import json
import resource
import statistics
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel


def resident():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--sequence", type=int, default=64)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--checkpoint", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    before = resident()
    config = GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    model = GPT2LMHeadModel(config).train()
    if args.checkpoint:
        model.gradient_checkpointing_enable()
        model.config.use_cache = False
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    network = torch.compile(model) if args.compile else model
    tokens = torch.randint(0, config.vocab_size, (args.batch, args.sequence))
    seconds = []
    for _ in range(args.steps + 2):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=args.bf16):
            loss = network(input_ids=tokens, labels=tokens, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"ms_per_step": round(1e3 * statistics.median(seconds[2:]), 1), "peak_bytes": resident() - before}))


main()
