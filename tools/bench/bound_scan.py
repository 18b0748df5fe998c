#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Looks for plans that undercut the lower bound of the time which `plan --arena` estimates, and for budgets that are refused
although a plan fits: small models at many budgets, each plan held against the bound of every larger budget.

    tools/bench/bound_scan.py [PROGRAM]

Two minutes; needs nothing but the program (build/release/bedplate).
"""
import json
import subprocess
import sys

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else "build/release/bedplate"
SMALL = ["--max-seq-length", "32", "--lora-r", "8", "--target-modules", "all-linear"]
EIGHT = SMALL + ["--per-device-train-batch-size", "8", "--gradient-accumulation-steps", "1", "--loss-chunk-rows", "64"]
CASES = (("tiny-llama", SMALL, 1900000, 2300000, 120), ("tiny", SMALL, 1980000, 2300000, 120),
         ("tiny", EIGHT, 2150000, 3000000, 80),
         ("demo", ["--max-seq-length", "64", "--per-device-train-batch-size", "8"], 40000000, 64000000, 60))


def planned(model, options, budget):
    """The choice for a budget; None where nothing fits."""
    ran = subprocess.run([PROGRAM, "plan", "--model", model, *options, "--gradient-checkpointing", "auto", "--json",
                          "--arena", str(budget)], capture_output=True, text=True, check=False)
    return json.loads(ran.stdout)["choice"] if ran.returncode == 0 else None


def main():
    for model, options, low, high, count in CASES:
        found = [(low + (high - low) * i // (count - 1), None) for i in range(count)]
        found = [(budget, planned(model, options, budget)) for budget, _ in found]
        plans = [(budget, choice) for budget, choice in found if choice]
        bounds = [(budget, choice) for budget, choice in plans if "lower_bound_seconds" in choice]
        worst, under = 0.0, 0
        for budget, choice in bounds:
            best = min(c["estimated_seconds"] for _, c in plans if c["arena_bytes"] <= budget)
            excess = choice["lower_bound_seconds"] / best - 1
            under += excess > 2e-6
            worst = max(worst, excess)
        least = min(c["arena_bytes"] for _, c in plans)
        refused = [budget for budget, choice in found if not choice and budget >= least]
        print(f"{model}: {len(plans)} budgets fit, {len(bounds)} have a bound, {under} bounds undercut by at most "
              f"{100 * worst:.2f} %, largest gap {100 * max(c['gap'] for _, c in bounds):.2f} %, "
              f"{len(refused)} refused though a plan fits")


if __name__ == "__main__":
    main()
