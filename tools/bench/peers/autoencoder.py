#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""MLPerf Tiny's anomaly autoencoder trained by Bedplate, ONNX Runtime training and AIfES: bytes and time.

    tools/bench/peers/autoencoder.py [--bedplate PROGRAM] [--ort PYTHON] [--aifes DIR] [--steps N]

--ort: a Python 3.11 that has onnxruntime-training 1.19.2, onnx 1.16.2 and torch (torch only makes the artifacts).
--aifes: a clone of https://github.com/Fraunhofer-IMS/AIfES_for_Arduino (2.2.0), compiled here with -O3 -march=native.
A peer that is not given has a dash. One thread; the time is the processor's, by the difference of two runs or by the
peer's own clock, so that other programs on the machine disturb it little. Bytes: Bedplate's arena, and its whole
process; AIfES's two functions; how far ONNX Runtime's process grew after its imports, and the whole of it. Bedplate's
net has batch norm behind each layer but the last, as MLPerf Tiny's has; the peers' have dense layers and ReLU alone.
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = [("sgd", 1), ("sgd", 32), ("adamw", 1), ("adamw", 32)]


def parsed():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bedplate", default="build/release/bedplate")
    parser.add_argument("--ort")
    parser.add_argument("--aifes")
    parser.add_argument("--steps", type=int, default=200)
    return parser.parse_args()


def last_json(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        sys.exit(f"{' '.join(command)}: {done.stderr[-1000:]}")
    return json.loads(lines[-1])


def spent(command):
    """Seconds of the processor, and the most bytes resident, of a command."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(command)}: {said[-1000:]}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def ours(args, work, rule, batch, more):
    options = ["--model", "autoencoder", "--per-device-train-batch-size", str(batch), "--optim", rule, "--device", "host",
               "--threads", "1", "--max-grad-norm", "0", "--learning-rate", "1e-4"] + more
    arena = last_json([args.bedplate, "plan", "--json"] + options)["arena_bytes"]
    times = []
    for steps in (args.steps, 5 * args.steps):
        out = tempfile.mkdtemp(dir=work)
        times.append(spent([args.bedplate, "train", "--data", os.path.join(work, "rows.csv"), "--max-steps", str(steps),
                            "--quiet", "--output-dir", out] + options))
    return arena, times[1][1], (times[1][0] - times[0][0]) / (4 * args.steps) * 1e3


def build_aifes(args, work):
    sources = [path for part in ("core", "basic", "cnn")
               for path in glob.glob(f"{args.aifes}/src/{part}/**/*.c", recursive=True) if "cmsis" not in path.lower()]
    program = os.path.join(work, "aifes")
    subprocess.run(["gcc", "-O3", "-march=native", "-w", f"-I{args.aifes}/src", os.path.join(HERE, "autoencoder_aifes.c")] +
                   sources + ["-lm", "-o", program], check=True)
    return program


def main():
    args = parsed()
    with tempfile.TemporaryDirectory() as work:
        with open(os.path.join(work, "rows.csv"), "w") as file:
            file.write(",".join(f"f{j}" for j in range(640)) + "\n")
            for i in range(64):
                file.write(",".join(f"{((i * 640 + j) * 7919 % 257 - 128) / 64:.6f}" for j in range(640)) + "\n")
        program = build_aifes(args, work) if args.aifes else None
        print("| rule, batch | Bedplate: arena, process, ms | released: arena, ms | AIfES: bytes, ms | "
              "ONNX Runtime: step, process, ms |\n|---|---|---|---|---|")
        for rule, batch in ROWS:
            whole = ours(args, work, rule, batch, [])
            less = ours(args, work, rule, batch, ["--gradient-release"]) if batch == 1 else None
            cells = [f"{rule}, {batch}", f"{whole[0]:,}, {whole[1]:,}, {whole[2]:.3f}",
                     f"{less[0]:,}, {less[2]:.3f}" if less else "-"]
            if program:
                found = last_json([program, str(batch), str(max(10, args.steps // batch)), "adam" if rule == "adamw" else rule])
                cells.append(f"{found['bytes']:,}, {found['ms']:.3f}")
            else:
                cells.append("-")
            if args.ort:
                make = [args.ort, os.path.join(HERE, "autoencoder_ort.py")]
                subprocess.run(make + ["make", work, rule], check=True, capture_output=True)
                found = last_json(make + ["train", work, str(batch), str(5 * args.steps)],
                                  env=dict(os.environ, OMP_NUM_THREADS="1"))
                cells.append(f"{found['bytes']:,}, {found['process']:,}, {found['ms']:.3f}")
            else:
                cells.append("-")
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
