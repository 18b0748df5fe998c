#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Bedplate beside PyTorch, transformers, PEFT, bitsandbytes and llama.cpp on this machine: the same models,
the same shapes, in turns, in one sitting.

    tools/bench/peers/compare.py [--models DIR] [--threads 1] [--rounds 2] [--rows REGEX] [--bedplate PROGRAM]
        [--kernels FORM] [--run 'COMMAND'] [--output FILE.md]

Three tables. Losses: twenty steps on one batch by transformers and by bedplate. Steps: least milliseconds
of a step over the rounds (PyTorch eager and compiled, the better of both is compared), and bytes (PyTorch's
largest resident size beyond its libraries, bedplate's arena). Generation: tokens per second at batch 1. A
peer that cannot do a row, or is not installed, has a dash. --run is put before each command (chrt, taskset).
Needs torch and transformers for its python3; peft, bitsandbytes and llama_cpp for their rows.
"""
import argparse
import datetime
import json
import os
import random
import re
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

# Name, model, batch, tokens, options of bedplate, options of torch_step.py.
CHECKPOINT = (["--gradient-checkpointing", "full"], ["--checkpoint"])
LORA = (["--lora-r", "8", "--target-modules", "all-linear"], ["--lora-r", "8"])
QLORA = (LORA[0] + ["--load-in-4bit"], LORA[1] + ["--load-in-4bit"])
BF16 = (["--bf16"], ["--bf16"])
AMX = (["--bf16", "--kernels", "amx"], ["--bf16"])
NOTHING = ([], [])
RECIPES = [("full", [NOTHING]), ("full, checkpointed", [CHECKPOINT]), ("LoRA", [LORA]),
           ("LoRA, checkpointed", [LORA, CHECKPOINT]), ("QLoRA", [QLORA]), ("QLoRA, checkpointed", [QLORA, CHECKPOINT]),
           ("full, bf16", [BF16]), ("full, bf16 by AMX", [AMX])]
SHAPES = [("gpt2", 4, 64), ("gpt2", 1, 512), ("llama", 2, 128), ("minilm", 16, 64)]
LENGTHS = "12,20,9,33,16,24,14,64,18,11,27,40,15,22,10,30"


def parsed():
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default="/tmp/bedplate-peers")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--rows", default=".")
    parser.add_argument("--bedplate", default=os.path.join(os.environ.get("BUILD", "build/release"), "bedplate"))
    parser.add_argument("--kernels", default="auto")
    parser.add_argument("--run", default="")
    parser.add_argument("--output")
    return parser.parse_args()


def last_json(args, command):
    """The last JSON object that a command prints; an empty one where it fails."""
    done = subprocess.run(args.run.split() + command, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if done.returncode == 0 and lines else {}


def torch_step(args, model, batch, sequence, options):
    return last_json(args, [
        sys.executable, os.path.join(HERE, "torch_step.py"), "--model", os.path.join(args.models, model),
        "--batch", str(batch), "--sequence", str(sequence), "--threads", str(args.threads),
        "--steps", str(args.steps)] + options)


def bedplate_step(args, model, batch, sequence, options):
    return last_json(args, [
        args.bedplate, "bench", "step", "--model", os.path.join(args.models, model),
        "--per-device-train-batch-size", str(batch), "--max-seq-length", str(sequence), "--dropout", "0",
        "--threads", str(args.threads), "--repeat", str(args.steps), "--json"]
        + ([] if "--kernels" in options else ["--kernels", args.kernels]) + options)


def least(results):
    values = [r["ms_per_step"] for r in results if "ms_per_step" in r]
    return min(values) if values else None


def shown(value, form="{:.0f}"):
    return "-" if value is None else form.format(value)


def step_row(args, name, model, batch, sequence, recipe):
    ours = [o for part in recipe for o in part[0]]
    theirs = [o for part in recipe for o in part[1]]
    quantised = "--load-in-4bit" in theirs
    eager, compiled, own = [], [], []
    for _ in range(args.rounds):
        eager.append(torch_step(args, model, batch, sequence, theirs))
        compiled.append({} if quantised else torch_step(args, model, batch, sequence, theirs + ["--compile"]))
        own.append(bedplate_step(args, model, batch, sequence, ours))
    times = [least(eager), least(compiled), least(own)]
    peers = [t for t in times[:2] if t is not None]
    ratio = times[2] / min(peers) if peers and times[2] else None
    better = eager if not peers or times[0] == min(peers) else compiled
    gigabytes = [better[-1].get("peak_bytes"), own[-1].get("arena_bytes")]
    cells = [f"{model} {batch} x {sequence}, {name}"] + [shown(t) for t in times] + [shown(ratio, "{:.2f}")]
    cells += [shown(b and b / 1e9, "{:.2f}") for b in gigabytes]
    return "| " + " | ".join(cells) + " |"


def steps_table(args, out):
    out("| a step, ms | PyTorch | compiled | Bedplate | of the better | GB, PyTorch | GB, Bedplate |")
    out("|---|---|---|---|---|---|---|")
    for model, batch, sequence in SHAPES:
        for name, recipe in RECIPES:
            if re.search(args.rows, f"steps {model} {batch}x{sequence} {name}"):
                out(step_row(args, name, model, batch, sequence, recipe))


def token_file(path, vocabulary, count):
    numbers = random.Random(1)
    with open(path, "wb") as file:
        file.write(struct.pack(f"<{count}H", *[numbers.randrange(vocabulary) for _ in range(count)]))


def bedplate_losses(args, model, batch, sequence, data, more):
    """The losses of twenty steps, from the lines that `train --json` prints."""
    directory = os.path.join(args.models, "out")
    subprocess.run(["rm", "-rf", directory], check=True)
    done = subprocess.run(
        [args.bedplate, "train", "--model", os.path.join(args.models, model), "--data", data, "--output-dir", directory,
         "--per-device-train-batch-size", str(batch), "--max-seq-length", str(sequence), "--learning-rate", "1e-4",
         "--lr-scheduler-type", "constant", "--max-steps", "20", "--dropout", "0", "--logging-steps", "1", "--save-steps",
         "1000", "--threads", str(args.threads), "--json", "--quiet"] + more, capture_output=True, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    subprocess.run(["rm", "-rf", directory], check=True)
    return [row["loss"] for row in rows if "loss" in row and "step" in row]


def losses_table(args, out):
    out("| twenty steps, AdamW | largest difference of the losses | last loss, transformers | Bedplate |")
    out("|---|---|---|---|")
    for model, vocabulary in (("gpt2", 50257), ("llama", 49152)):
        if not re.search(args.rows, f"losses {model}"):
            continue
        data = os.path.join(args.models, "tokens.bin")
        token_file(data, vocabulary, 2 * 32 + 1)
        theirs = last_json(args, [
            sys.executable, os.path.join(HERE, "torch_step.py"), "--model", os.path.join(args.models, model), "--batch", "2",
            "--sequence", "32", "--threads", str(args.threads), "--steps", "18", "--data", data])["losses"]
        own = bedplate_losses(args, model, 2, 32, data, ["--data-format", "nanogpt"])
        furthest = max(abs(a - b) for a, b in zip(theirs, own))
        out(f"| {model} 2 x 32 | {furthest:.1e} | {theirs[-1]:.6f} | {own[-1]:.6f} |")


def generation_table(args, out):
    out("| tokens per second, batch 1 | prompt | after it | same tokens |")
    out("|---|---|---|---|")
    model = os.path.join(args.models, "gpt2")
    count = ["--prompt", "64", "--tokens", "48"]
    peers = [("transformers, fp32", "transformers", model)]
    for kind in ("fp32", "fp16", "bf16"):
        path = os.path.join(args.models, f"gpt2-{kind}.gguf")
        subprocess.run([args.bedplate, "export", "--model", model, "--to", path, "--format", "gguf", "--dtype", kind],
                       check=True, capture_output=True)
        peers.append((f"llama.cpp, {kind}", "llama.cpp", path))
    script = [sys.executable, os.path.join(HERE, "generate.py")]
    first = None
    for name, peer, path in peers:
        best = last_json(args, script + [peer, path, "--threads", str(args.threads)] + count)
        first = first or best.get("ids")
        generation_row(out, name, best, first)
    for name, more in (("fp32", []), ("fp16", ["--fp16"]), ("bf16", ["--bf16"]), ("8 bits", ["--load-in-8bit"]),
                       ("4 bits", ["--load-in-4bit"])):
        own = last_json(args, [
            args.bedplate, "generate", "--model", model, "--prompt-ids", ",".join(str(i) for i in range(1, 65)),
            "--max-new-tokens", "48", "--temperature", "0", "--threads", str(args.threads), "--kernels", args.kernels,
            "--json"] + more)
        generation_row(out, f"Bedplate, {name}", own, first)


def generation_row(out, name, result, first):
    same = "-" if not result or not first else sum(a == b for a, b in zip(result["ids"], first))
    out(f"| {name} | {shown(result.get('prompt_tokens_per_second'), '{:.1f}')} "
        f"| {shown(result.get('tokens_per_second'), '{:.1f}')} | {same} |")


def main():
    args = parsed()
    file = open(args.output, "a") if args.output else sys.stdout

    def out(line):
        print(line, file=file, flush=True)

    os.makedirs(args.models, exist_ok=True)
    subprocess.run([sys.executable, os.path.join(HERE, "models.py"), args.models], check=True, capture_output=True)
    with open("/proc/cpuinfo") as info:
        name = next(line.split(":")[1].strip() for line in info if line.startswith("model name"))
    out(f"{name}, {args.threads} thread(s), kernels {args.kernels}, {datetime.date.today()}\n")
    for title, table in (("losses", losses_table), ("steps", steps_table), ("generation", generation_table)):
        if re.search(args.rows, title) or title in args.rows:
            table(args, out)
            out("")


main()
