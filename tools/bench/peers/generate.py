#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times generation at batch 1 by a peer: greedy tokens after the ids 1, 2, 3, ..

    tools/bench/peers/generate.py transformers DIR [--prompt N] [--tokens N] [--threads N]
    tools/bench/peers/generate.py llama.cpp FILE.gguf ..

Prints one JSON object: tokens_per_second (of the tokens after the first), prompt_tokens_per_second and ids.
llama.cpp is the llama_cpp wheel.
"""
import argparse
import json
import time


def with_transformers(args, prompt):
    import torch
    import transformers

    torch.set_num_threads(args.threads)
    model = transformers.AutoModelForCausalLM.from_pretrained(args.model).eval()
    seconds, ids, cache, inputs = [], [], None, torch.tensor([prompt])
    with torch.no_grad():
        for _ in range(args.tokens):
            start = time.perf_counter()
            step = model(input_ids=inputs, past_key_values=cache, use_cache=True)
            cache, inputs = step.past_key_values, step.logits[:, -1:].argmax(-1)
            ids.append(int(inputs))
            seconds.append(time.perf_counter() - start)
    return seconds, ids


def with_llama_cpp(args, prompt):
    import llama_cpp
    import numpy

    model = llama_cpp.Llama(
        args.model, n_ctx=len(prompt) + args.tokens, n_threads=args.threads, n_threads_batch=args.threads, verbose=False)
    seconds, ids, step = [], [], prompt
    for _ in range(args.tokens):
        start = time.perf_counter()
        model.eval(step)
        logits = llama_cpp.llama_get_logits_ith(model.ctx, -1)
        step = [int(numpy.argmax(numpy.ctypeslib.as_array(logits, shape=(model.n_vocab(),))))]
        ids += step
        seconds.append(time.perf_counter() - start)
    return seconds, ids


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=["transformers", "llama.cpp"])
    parser.add_argument("model")
    parser.add_argument("--prompt", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    prompt = list(range(1, args.prompt + 1))
    run = with_transformers if args.peer == "transformers" else with_llama_cpp
    seconds, ids = run(args, prompt)
    print(
        json.dumps({
            "tokens_per_second": round((len(seconds) - 1) / sum(seconds[1:]), 2),
            "prompt_tokens_per_second": round(len(prompt) / seconds[0], 2),
            "ids": ids,
        }))


main()
