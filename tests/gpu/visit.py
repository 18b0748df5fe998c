#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the folder of `make gpu-bundle` is for: everything worth knowing of a GPU, in order of worth, in the
seconds that there are.

    python3 visit.py [--seconds N] [--out FOLDER] [--groups NAME,..] [--rehearse]

Each group is processes of their own with a limit. After each, gpu.json and gpu.txt are written anew into the
folder ($OUT, else here): what came before a fault or the end of the time is there. Nothing is compiled, and
needs no network. PyTorch, ncu and nvidia-smi are asked where they are. --rehearse: on ptxvm, in small.
report.py makes the page of docs/figures out of gpu.json.
"""
import argparse
import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "bedplate")
SUITE = os.path.join(HERE, "tests/unit/device/cuda/suite")
KEPT = 4000 # characters of what a command said


class Visit:
    """The time there is, and what was found."""

    def __init__(self, options):
        self.rehearse = options.rehearse
        self.out = options.out
        self.end = time.monotonic() + options.seconds
        self.began = time.monotonic()
        self.group = None
        self.found = {"version": 1, "date": datetime.datetime.now(datetime.timezone.utc).isoformat(),
                      "rehearsal": options.rehearse, "seconds": options.seconds, "groups": {}}
        self.work = tempfile.mkdtemp()
        self.environment = dict(os.environ, CUDA_CACHE_PATH=os.path.join(self.work, "jit"),
                                CUDA_CACHE_MAXSIZE="2147483648")
        libraries = [os.path.join(HERE, "lib")]
        if options.rehearse:
            libraries.append(os.path.join(HERE, "ptxvm"))
            self.environment["PTXVM_DEVICE"] = "sm_90"
        old = [self.environment["LD_LIBRARY_PATH"]] if self.environment.get("LD_LIBRARY_PATH") else []
        self.environment["LD_LIBRARY_PATH"] = ":".join(libraries + old)

    def left(self):
        return self.end - time.monotonic()

    def run(self, name, limit, command, **more):
        """A command, for at most so many seconds: its row, with code None where it was ended, or was
        left out. One that does not end is killed with all that it started."""
        row = {"name": name, "code": None, "seconds": 0.0}
        self.found["groups"][self.group].append(row)
        limit = min(limit, self.left() - 1)
        if limit < 2:
            row["left_out"] = "no time"
            return row
        began = time.monotonic()
        try:
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  cwd=self.work, env=dict(self.environment, **more),
                                  start_new_session=True) as process:
                try:
                    said, _ = process.communicate(timeout=limit)
                    row["code"] = process.returncode
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    said, _ = process.communicate()
                    row["left_out"] = "took longer than %.0f s" % limit
        except OSError as error:
            row["left_out"] = str(error)
            return row
        row["seconds"] = round(time.monotonic() - began, 2)
        row["all"] = said.decode("utf-8", "replace")
        row["said"] = row["all"][-KEPT:]
        return row

    def write(self):
        """Both files, each whole at any time."""
        for name, text in (("gpu.json", json.dumps(self.found, indent=1)), ("gpu.txt", self.text())):
            path = os.path.join(self.out, name)
            with open(path + ".part", "w", encoding="utf-8") as file:
                file.write(text + "\n")
            os.replace(path + ".part", path)

    def text(self):
        lines = ["%(date)s%%s" % self.found % (", rehearsal" if self.rehearse else "")]
        for group, rows in self.found["groups"].items():
            lines.append("== " + group)
            for row in rows:
                state = row.get("left_out") or ("ok" if row["code"] == 0 else "FAILED, %s" % row["code"])
                figures = ", ".join("%s %s" % item for item in row.get("figures", {}).items())
                lines.append("%s: %s, %.1f s%s" % (row["name"], state, row["seconds"],
                                                    "; " + figures if figures else ""))
                lines += ["    " + line for line in row.get("differs", [])]
                if row["code"] not in (0, None):
                    lines += ["    " + line for line in row.get("said", "").split("\n")[-12:] if line]
        return "\n".join(lines)


def figures(row, pattern, names):
    """Numbers of what a command said become the row's figures."""
    found = re.search(pattern, row.get("all", ""), re.S)
    if found:
        row["figures"] = dict(zip(names, (float(n) if re.match(r"[\d.e+-]+$", n) else n
                                          for n in found.groups())))


def lines_of_json(row, keep):
    """Members of the last object that has one of them."""
    for line in row.get("all", "").split("\n"):
        if line.startswith("{"):
            try:
                known = json.loads(line)
            except ValueError:
                continue
            some = {key: known[key] for key in keep if key in known}
            if some:
                row.setdefault("figures", {}).update(some)


def environment(visit):
    if shutil.which("nvidia-smi"):
        row = visit.run("nvidia-smi", 20, [
            "nvidia-smi", "--format=csv,noheader",
            "--query-gpu=name,driver_version,memory.total,clocks.sm,clocks.max.sm,power.limit,mig.mode.current"])
        row["figures"] = {"gpu": row.get("said", "").strip()}
    row = visit.run("devices", 60, [PROGRAM, "devices"]) # compiles every text
    figures(row, r"([\d.]+) s", ("jit seconds",))


def tests(visit, names, limit):
    keep = os.path.join(HERE, "lib/keep_context.so")
    for name in names:
        more = {"BP_TEST_GPU": "1"}
        if os.path.exists(keep) and not visit.rehearse:
            more["LD_PRELOAD"] = keep
        if visit.rehearse: # a test finds the instrument beside it
            more = {"BP_TEST_SHORT": "1"}
            more["LD_LIBRARY_PATH"] = os.path.join(HERE, "lib")
        row = visit.run(name, limit, [SUITE, name], **more)
        row["differs"] = re.findall(r"^differs: .*$", row.get("all", ""), re.M)[:40]
        row["figures"] = {"failed": len(set(re.findall(r"^\[  FAILED  \] \w+$", row.get("all", ""), re.M))),
                          "passed": len(re.findall(r"^\[       OK \]", row.get("all", ""), re.M))}


def first_tests(visit):
    tests(visit, ["test_driver"] if visit.rehearse else
          ["test_driver", "test_hopper", "test_fp8", "test_record"], 90)


def last_tests(visit):
    tests(visit, ["test_launch"] if visit.rehearse else
          ["test_device", "test_kernels16", "test_kernels", "test_tf32", "test_update", "test_families",
           "test_device_training", "test_ranks", "test_flip", "test_random_pending", "test_nccl"], 120)


class Memory:
    """The most bytes of the GPU that are in use while something runs, less those before; where nvidia-smi is."""

    def __init__(self):
        self.most = self.before = self.used()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch)

    @staticmethod
    def used():
        try:
            said = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=10, check=True).stdout
            return int(said.split()[0]) << 20
        except (OSError, ValueError, IndexError, subprocess.SubprocessError):
            return None

    def watch(self):
        while self.most is not None and not self.over.wait(0.2):
            now = self.used()
            self.most = max(self.most, now) if now is not None else self.most

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *unused):
        self.over.set()
        self.thread.join()


def step(visit, name, device, words):
    with Memory() as memory:
        row = bench_step(visit, name, device, words)
    if memory.most is not None and "figures" in row:
        row["figures"]["gpu_bytes_measured"] = memory.most - memory.before


def bench_step(visit, name, device, words):
    bits = ", 4 bits" if "--load-in-4bit" in words else ""
    row = visit.run("%s, %s%s" % (name, device, bits), 100, [PROGRAM, "bench", "step", "--model", name, "--bf16", "--dropout",
                                                            "0", "--json", "--device", device] + words)
    lines_of_json(row, ("tokens_per_second", "ms_per_step", "gflops", "arena_bytes", "kernels"))
    return row


def batch(rows, length, *more):
    return ["--per-device-train-batch-size", str(rows), "--max-seq-length", str(length)] + list(more)


def steps(visit):
    if visit.rehearse:
        step(visit, "tiny", "cuda", batch(1, 8))
        return
    chunk = ("--loss-chunk-rows", "4096")
    for device in ("cuda:sm_90a", "cuda:sm_80"):
        step(visit, "gpt2", device, batch(16, 1024, *chunk))
    step(visit, "gpt2", "cuda", batch(16, 1024))
    step(visit, "gpt2", "cuda", batch(64, 1024, *chunk))


def large_steps(visit):
    if visit.rehearse:
        return
    chunk = ("--loss-chunk-rows", "4096")
    step(visit, "gpt2-xl", "cuda", batch(16, 1024, *chunk))
    step(visit, "llama-3.2-1b", "cuda", batch(8, 2048, *chunk))
    step(visit, "llama-3-8b", "cuda", batch(1, 2048, "--gradient-checkpointing", "full", *chunk))
    step(visit, "llama-3.2-1b", "cuda", batch(4, 2048, "--gradient-checkpointing", "full", "--load-in-4bit",
                                              "--lora-r", "16", "--target-modules", "all-linear", *chunk))


def digests(visit):
    """Two trainings whose states must be the same; a third is ended and resumed."""
    data = os.path.join(visit.work, "text")
    with open(data, "w", encoding="ascii") as file:
        file.writelines("%d bottles of %s\n" % (i, "ale" if i * i % 7 else "beer") for i in range(20000))
    model = ["tiny"] + batch(1, 8) if visit.rehearse else ["gpt2"] + batch(16, 1024)
    train = [PROGRAM, "train", "--model"] + model + [
        "--bf16", "--dropout", "0", "--data", data, "--device", "cuda", "--json", "--max-steps", "4"]
    seen = []
    for name, folder, more in (("one", "1", []), ("the same", "2", []),
                               ("ended after two steps", "3", ["--stop-at-step", "2"]),
                               ("resumed", "3", ["--resume"])):
        row = visit.run("training, " + name, 90, train + more + [
            "--output-dir", os.path.join(visit.work, "run" + folder)])
        digest = re.findall(r'"state_digest": ?"([0-9a-f]+)"', row.get("all", ""))
        row["figures"] = {"digest": digest[-1] if digest else "none"}
        seen.append(row["figures"]["digest"])
    visit.found["groups"][visit.group].append({
        "name": "digests of two runs, and of one that was resumed", "seconds": 0.0,
        "code": 0 if seen[0] == seen[1] == seen[3] != "none" else 1, "said": " ".join(seen)})


def kernels(visit):
    side = ["16", "1"] if visit.rehearse else ["4096", "10"]
    for section in ("shapes", "modules", "attention", "memory", "tiles", "products"):
        visit.run("gpu_kernels " + section, 40, [os.path.join(HERE, "tools/bench/gpu_kernels")] + side + [section])


TORCH = """
import time, torch
from torch.nn import functional as F
def best(f, n=20):
    for _ in range(3): f()
    torch.cuda.synchronize(); b = time.time()
    for _ in range(n): f()
    torch.cuda.synchronize(); return (time.time() - b) / n
r = lambda *s: torch.randn(*s, device='cuda', dtype=torch.bfloat16)
x = r(2**30); y = r(2**30); print('copy GB/s %.0f' % (4e-9 * 2**30 / best(lambda: y.copy_(x))), flush=True)
del x, y
for m, n, k in ((4096,)*3, (8192,)*3, (16384, 2304, 768), (16384, 768, 768), (16384, 3072, 768), (16384, 768, 3072),
                (16384, 50304, 768), (8192, 4096, 4096), (8192, 14336, 4096), (8192, 4096, 14336)):
    a = r(m, k); w = r(n, k); s = best(lambda: a @ w.T)
    print('product %d %d %d: %.1f us, %.0f TFLOP/s' % (m, n, k, 1e6 * s, 2e-12 * m * n * k / s), flush=True)
for b, h, t, d in ((16, 12, 1024, 64), (4, 32, 2048, 128), (1, 32, 8192, 128)):
    q = r(b, h, t, d).requires_grad_(); f = lambda: F.scaled_dot_product_attention(q, q, q, is_causal=True)
    s = best(f); o = f(); g = torch.randn_like(o)
    w = best(lambda: torch.autograd.grad(f(), q, g))
    print('attention %d %d %d %d: forward %.1f us, both %.1f us' % (b, h, t, d, 1e6 * s, 1e6 * w), flush=True)
"""


def torch_beside(visit):
    if visit.rehearse:
        return
    visit.run("PyTorch: products, attention, copy", 90, [sys.executable, "-c", TORCH])
    visit.run("PyTorch: steps", 120, [sys.executable, "-u", os.path.join(HERE, "tools/bench/torch_gpu.py"),
                                      "--batch", "16"])


def profile(visit):
    if visit.rehearse or not shutil.which("ncu"):
        return
    words = ["ncu", "--clock-control", "none", "--csv", "--page", "details"]
    for section in ("SpeedOfLight", "WarpStateStats", "Occupancy", "LaunchStats"):
        words += ["--section", section]
    for which in (["-s", "72", "-c", "9"], ["-k", "regex:backward|update", "-c", "9"]):
        row = visit.run("ncu " + " ".join(which), 60, words + which + [
            PROGRAM, "bench", "step", "--model", "gpt2", "--bf16", "--dropout", "0", "--device", "cuda",
            "--repeat", "1"] + batch(16, 1024, "--loss-chunk-rows", "4096"))
        path = os.path.join(visit.out, "ncu%d.csv" % len(visit.found["groups"][visit.group]))
        with open(path, "w", encoding="utf-8") as file:
            file.write(row.get("all", ""))


GROUPS = (("environment", environment), ("tests", first_tests), ("steps", steps), ("digests", digests),
          ("beside PyTorch", torch_beside), ("kernels", kernels), ("large steps", large_steps),
          ("profile", profile), ("more tests", last_tests))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=450)
    parser.add_argument("--out", default=os.environ.get("OUT", "."))
    parser.add_argument("--groups", default="")
    parser.add_argument("--rehearse", action="store_true")
    options = parser.parse_args()
    wanted = options.groups.split(",") if options.groups else [name for name, _ in GROUPS]
    for name in wanted:
        if name not in dict(GROUPS):
            parser.error("no such group: found %s, expected some of %s" % (name, ", ".join(dict(GROUPS))))
    visit = Visit(options)
    for name, make in GROUPS:
        if name not in wanted:
            continue
        visit.group = name
        rows = visit.found["groups"].setdefault(name, [])
        began = len(visit.text())
        try:
            make(visit)
        except Exception as error: # a fault of one group must not take the others' time
            rows.append({"name": name, "code": 1, "seconds": 0.0, "said": repr(error)})
        for row in rows:
            row.pop("all", None)
        visit.write()
        print(visit.text()[began:].strip(), flush=True)
    shutil.rmtree(visit.work, ignore_errors=True)
    rows = [row for group in visit.found["groups"].values() for row in group]
    return 1 if any(row["code"] not in (0, None) for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
