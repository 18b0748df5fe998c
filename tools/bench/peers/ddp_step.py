#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times a training step of PyTorch's DistributedDataParallel over gloo on this machine: processes of some
threads each, every one with its part of the batch; the model that transformers opens (sdpa attention),
loss, backward with the gradients' exchange, clipping at 1.0, fused AdamW, fp32 (or fp64, to see whose
rounding two losses differ by).

    tools/bench/peers/ddp_step.py --model DIR [--ranks N] [--threads N] [--batch N] [--sequence N]
        [--steps N] [--data TOKENS] [--learning-rate F] [--dtype float32|float64]

--batch is that of all ranks. Prints one JSON object of rank 0: ms_per_step (the median of the steps after
two for warming up), peak_bytes (the largest rank's resident size during those steps, less what interpreter,
libraries and process group held before the model was made) and losses (the mean over the ranks).
"""
import argparse
import json
import os
import resource
import statistics
import time

import numpy
import torch
import torch.distributed
import transformers


def resident():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--sequence", type=int, default=32)
    parser.add_argument("--steps", type=int, default=18)
    parser.add_argument("--data")
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    return parser.parse_args()


def part_of(args, rank):
    """This rank's sequences and targets."""
    count = args.batch * args.sequence
    if args.data:
        tokens = torch.from_numpy(numpy.fromfile(args.data, dtype=numpy.uint16).astype(numpy.int64))
    else:
        torch.manual_seed(1)
        tokens = torch.randint(0, 50257, (count + 1,))
    mine = slice(rank * args.batch // args.ranks, (rank + 1) * args.batch // args.ranks)
    shape = (args.batch, args.sequence)
    return tokens[:count].reshape(shape)[mine], tokens[1 : count + 1].reshape(shape)[mine].reshape(-1)


def step(args, network, optimizer, inputs, targets):
    optimizer.zero_grad(set_to_none=True)
    logits = network(input_ids=inputs, use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


def play(rank, args):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29511")
    torch.set_num_threads(args.threads)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=args.ranks)
    before = resident()
    model = transformers.AutoModelForCausalLM.from_pretrained(args.model, dtype=getattr(torch, args.dtype)).train()
    network = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(network.parameters(), lr=args.learning_rate, weight_decay=0.0, fused=True)
    inputs, targets = part_of(args, rank)
    losses, seconds = [], []
    for _ in range(args.steps + 2):
        start = time.perf_counter()
        losses.append(step(args, network, optimizer, inputs, targets))
        seconds.append(time.perf_counter() - start)
    of_all = torch.stack(losses).double()
    torch.distributed.all_reduce(of_all)
    peak = torch.tensor([resident() - before], dtype=torch.long)
    torch.distributed.all_reduce(peak, op=torch.distributed.ReduceOp.MAX)
    if rank == 0:
        print(
            json.dumps({
                "ms_per_step": round(1e3 * statistics.median(seconds[2:]), 2),
                "peak_bytes": peak.item(),
                "losses": (of_all / args.ranks).tolist(),
            }), flush=True)
    torch.distributed.destroy_process_group()


def main():
    args = arguments()
    torch.multiprocessing.spawn(play, args=(args,), nprocs=args.ranks)


if __name__ == "__main__":
    main()
