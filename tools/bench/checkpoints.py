#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checkpointing in a byte budget: the planner's dynamic programme beside CP-SAT (ortools of PyPI), on random chains of stages.

CP-SAT may forward any stages again before each backward, in any order of keeping and dropping; the planner's schedules are persistent:
what a schedule holds stays until it is used. Where both agree, the planner's choice is the optimum of all schedules of the chain.

Usage: checkpoints.py PLANNER random|blocks [CHAINS] [STAGES] [SECONDS]
PLANNER: build/release/tools/bench/checkpoints; random: stages of random sizes; blocks: stages that are alike.
CHAINS chains of 3 to STAGES stages (twice as many nodes), SECONDS for CP-SAT each."""
import random
import subprocess
import sys
import time

from ortools.sat.python import cp_model

UNIT = 2000  # bytes: budgets of 20, 25, 40, 50 and 100 units are cut into 2,000 slots without rounding

def chain_of(draw, stages):
    """A budget and stages (input, d_output, gradients, variants); a variant: forward, backward, tape, forward_peak, backward_peak."""
    small = max(1, 24 // stages)
    inputs = [draw.randint(1, small) for _ in range(stages + 1)]
    rows = []
    for i in range(stages):
        forward, last = draw.randint(1, 20), i + 1 == stages
        output = 1 if last else inputs[i + 1]
        gradient = draw.choice((0, 0, draw.randint(0, 2)))
        tapes = sorted({draw.randint(1, 3 * small) for _ in range(draw.randint(1, 2))}, reverse=True)
        beside = (0 if last else inputs[i + 1]) + inputs[i] + gradient
        variants = []
        behind = tapes[0] + beside + draw.randint(0, 2)  # what a smaller tape lacks is made again in backward
        for tape in tapes:
            again = 0 if tape == tapes[0] else draw.randint(1, forward)
            variants.append((forward, 2 * forward + again, tape, output + tape + draw.randint(0, 2), behind))
        variants.append((forward, 3 * forward, 0, output + draw.randint(0, 2), behind))
        rows.append((inputs[i], 0 if last else inputs[i + 1], gradient, variants))
    return rows

def blocks_of(draw, stages):
    """Stages that are all alike but for the last, as a transformer's blocks and its loss: tapes of all, of some and of none of its sublayers."""
    held, forward = draw.randint(1, 3), draw.randint(10, 30)
    tapes = (held * draw.randint(4, 8), held * draw.randint(1, 3))
    left, again = draw.choice((0, 0, 1)), draw.randint(1, forward)
    behind = tapes[0] + 2 * held + left
    block = (held, held, left, [(forward, 2 * forward, tapes[0], held + tapes[0], behind),
                                (forward, 2 * forward + again, tapes[1], held + tapes[1], behind),
                                (forward, 3 * forward, 0, held, behind)])
    return [block] * (stages - 1) + [(held, 0, left, [(5, 15, 0, held, 3 * held + left)])]


def text_of(rows, budget):
    lines = [f"{budget * UNIT} {len(rows)}"]
    for held, gradient, left, variants in rows:
        lines.append(f"{held * UNIT} {gradient * UNIT} {left * UNIT} {len(variants)}")
        lines += [f"{f} {b} {t * UNIT} {fp * UNIT} {bp * UNIT}" for f, b, t, fp, bp in variants]
    return "\n".join(lines) + "\n"

def optimum(rows, budget, seconds):
    """CP-SAT's least time, whether it is proved, and whether there is a schedule at all."""
    n, model, cost = len(rows), cp_model.CpModel(), []
    new = model.new_bool_var
    keeps = [range(len(row[3]) - 1) for row in rows]
    # Before phase p, which ends with the backward of stage n - 1 - p: boundaries and tapes that are held.
    held = [[new("") if 0 < j <= n - 1 - p else None for j in range(n + 1)] for p in range(n + 1)]
    taped = [[[new("") for _ in keeps[i]] if i <= n - 1 - p else [] for i in range(n)] for p in range(n + 1)]
    for j in range(1, n):
        model.add(held[0][j] == 0)
    for i in range(n):
        for v in keeps[i]:
            model.add(taped[0][i][v] == 0)
    for p in range(n):
        last = n - 1 - p
        after = sum(rows[g][2] for g in range(last + 1, n))
        # Steps 0 .. last: the forward of stage i, if there is one; step last + 1: the backward.
        run = [[new("") for _ in rows[i][3]] for i in range(last + 1)]
        there = [held[p][j] for j in range(n + 1)]  # at the time before a step
        tapes = [list(taped[p][i]) for i in range(n)]
        for i in range(last + 1):
            model.add(sum(run[i]) <= 1)
            cost += [row[0] * run[i][v] for v, row in enumerate(rows[i][3])]
            if i == last:  # its boundary behind is not needed; without a tape it is not run
                model.add(run[i][-1] == 0)
            if i > 0:
                model.add(sum(run[i]) <= there[i])
            used = [rows[j][0] * there[j] for j in range(1, last + 1)]
            used += [rows[k][3][v][2] * tapes[k][v] for k in range(last + 1) for v in keeps[k]]
            beside = rows[last][1] + after
            for v, row in enumerate(rows[i][3]):
                model.add(sum(used) + row[3] + beside <= budget).only_enforce_if(run[i][v])
            # Afterwards each thing is dropped or stays.
            now = [new("") if 0 < j <= last else None for j in range(n + 1)]
            for j in range(1, last + 1):
                model.add(now[j] <= there[j] + (sum(run[i]) if j == i + 1 else 0))
            kept = [[new("") for _ in keeps[k]] if k <= last else [] for k in range(n)]
            for k in range(last + 1):
                for v in keeps[k]:
                    model.add(kept[k][v] <= tapes[k][v] + (run[i][v] if k == i else 0))
            there, tapes = now, kept
        back = [new("") for _ in rows[last][3]]
        model.add(sum(back) == 1)
        cost += [row[1] * back[v] for v, row in enumerate(rows[last][3])]
        for v in keeps[last]:
            model.add(back[v] <= tapes[last][v])
        if last > 0:
            model.add(there[last] == 1)
        others = [rows[j][0] * there[j] for j in range(1, last + 1)]
        others += [rows[k][3][v][2] * tapes[k][v] for k in range(last) for v in keeps[k]]
        for v, row in enumerate(rows[last][3]):
            model.add(sum(others) + row[4] + after <= budget).only_enforce_if(back[v])
        for j in range(1, last):
            model.add(held[p + 1][j] <= there[j])
        for k in range(last):
            for v in keeps[k]:
                model.add(taped[p + 1][k][v] <= tapes[k][v])
    model.minimize(sum(cost))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 2
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return None, True
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return round(solver.objective_value), status == cp_model.OPTIMAL
    return None, False

def main():
    planner, make = sys.argv[1], {"random": chain_of, "blocks": blocks_of}[sys.argv[2]]
    chains, most, seconds = (int(sys.argv[i]) if len(sys.argv) > i else default for i, default in ((3, 100), (4, 12), (5, 60)))
    draw, cases = random.Random(1), []
    for _ in range(chains):
        rows = make(draw, draw.randint(3, most))
        cases.append((rows, draw.choice((20, 25, 40, 50, 100))))
    done = subprocess.run([planner], input="".join(text_of(*case) for case in cases), text=True, check=True, stdout=subprocess.PIPE)
    largest = 0
    count = dict(equal=0, both_none=0, planner_slower=0, cp_sat_slower=0, not_proved=0)
    began = time.monotonic()
    for (rows, budget), answer in zip(cases, done.stdout.split()):
        best, proved = optimum(rows, budget, seconds)
        ours = None if answer == "none" else round(float(answer))
        if not proved:
            count["not_proved"] += 1
        if best == ours and best is None:
            count["both_none"] += proved
        elif best == ours:
            count["equal"] += proved
        else:
            key = "planner_slower" if ours is None or (best is not None and best < ours) else "cp_sat_slower"
            count[key] += 1
            largest = max(largest, ours / best - 1) if ours and best else largest
            print(f"{len(rows)} stages, {budget} units: planner {ours}, CP-SAT {best}{'' if proved else ' (not proved)'}")
    print(", ".join(f"{n} {word.replace('_', ' ')}" for word, n in count.items()) + f"; largest difference {100 * largest:.1f} %; CP-SAT took {time.monotonic() - began:.0f} s")

main()
