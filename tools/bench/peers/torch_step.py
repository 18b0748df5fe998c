#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times a training step of PyTorch on this machine's CPU, as a user of it would write it: the model that
transformers opens (sdpa attention), loss, backward, clipping at 1.0, fused AdamW.

    tools/bench/peers/torch_step.py --model DIR [--batch N] [--sequence N] [--threads N] [--steps N]
        [--compile] [--bf16] [--checkpoint] [--lora-r R] [--load-in-4bit] [--lengths N,N,..]
        [--data TOKENS] [--learning-rate F]

Prints one JSON object: ms_per_step (the median of the steps after two for warming up), cpu_ms_per_step (the
same of the process's own time), peak_bytes (the largest resident size of the process during those steps,
less what the interpreter and its libraries held before the model was made) and losses. --lora-r puts PEFT's
adapters on every dense layer of the blocks, --load-in-4bit bitsandbytes' NF4 below them. A model with a head
of classes gets texts of --lengths tokens in turn, padded to the longest of the batch; any other gets windows
of one token file (raw 16-bit ids), or random tokens.
"""
import argparse
import json
import resource
import statistics
import time

import numpy
import torch
import transformers

DENSE = {
    "gpt2": ["c_attn", "c_proj", "c_fc"],
    "llama": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
    "bert": ["query", "key", "value", "attention.output.dense", "intermediate.dense", "output.dense"],
}


def resident():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--sequence", type=int, default=64)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--checkpoint", action="store_true")
    parser.add_argument("--lora-r", type=int, default=0)
    parser.add_argument("--load-in-4bit", action="store_true")
    parser.add_argument("--lengths")
    parser.add_argument("--data")
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    return parser.parse_args()


def opened(args):
    """The network in training, and whether it has a head of classes."""
    config = transformers.AutoConfig.from_pretrained(args.model)
    classes = "SequenceClassification" in config.architectures[0]
    kind = transformers.AutoModelForSequenceClassification if classes else transformers.AutoModelForCausalLM
    more = {}
    if args.load_in_4bit:
        more["quantization_config"] = transformers.BitsAndBytesConfig(
            load_in_4bit=True, llm_int8_skip_modules=["classifier"] if classes else None, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=torch.float32)
    model = kind.from_pretrained(args.model, dtype=torch.float32, **more).train()
    if args.checkpoint:
        model.config.use_cache = False
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if args.lora_r:
        import peft

        adapters = peft.LoraConfig(
            r=args.lora_r, lora_alpha=8, target_modules=DENSE[config.model_type],
            task_type="SEQ_CLS" if classes else "CAUSAL_LM")
        if args.checkpoint:
            model.enable_input_require_grads()
        model = peft.get_peft_model(model, adapters)
    return model, config, classes


def batch_of(args, config, classes):
    """One batch: the arguments of a call of the model, and the targets of its logits."""
    torch.manual_seed(1)
    if classes:
        lengths = [int(n) for n in args.lengths.split(",")] if args.lengths else [args.sequence]
        lengths = [min(lengths[i % len(lengths)], args.sequence) for i in range(args.batch)]
        ids = torch.zeros(args.batch, max(lengths), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, length in enumerate(lengths):
            ids[row, :length] = torch.randint(5, config.vocab_size, (length,))
            ids[row, 0], ids[row, length - 1] = 2, 3
            mask[row, :length] = 1
        return {"input_ids": ids, "attention_mask": mask}, torch.arange(args.batch) % 2
    if args.data:
        tokens = torch.from_numpy(numpy.fromfile(args.data, dtype=numpy.uint16).astype(numpy.int64))
    else:
        tokens = torch.randint(0, config.vocab_size, (args.batch * args.sequence + 1,))
    count = args.batch * args.sequence
    shape = (args.batch, args.sequence)
    return {"input_ids": tokens[:count].reshape(shape), "use_cache": False}, tokens[1 : count + 1]


def main():
    args = arguments()
    torch.set_num_threads(args.threads)
    before = resident()
    model, config, classes = opened(args)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=args.learning_rate, weight_decay=0.0, fused=True)
    network = torch.compile(model) if args.compile else model
    inputs, targets = batch_of(args, config, classes)
    seconds, own, losses = [], [], []
    for _ in range(args.steps + 2):
        start, start_own = time.perf_counter(), time.process_time()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=args.bf16):
            logits = network(**inputs).logits
            loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]).float(), targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
        own.append(time.process_time() - start_own)
    print(
        json.dumps({
            "ms_per_step": round(1e3 * statistics.median(seconds[2:]), 2),
            "cpu_ms_per_step": round(1e3 * statistics.median(own[2:]), 2),
            "peak_bytes": resident() - before,
            "losses": losses,
        }))


main()
