#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plans the chains of als244/dataflow by tools/bench/chains.c, has them judged by that suite's own simulator, and compares with its planner.

Usage: chains.py PLANNER CHAINS.jsonl BASELINE.csv SUITE [TURNS]
PLANNER: build/release/tools/bench/chains; SUITE: the src folder of a checkout of als244/dataflow (never part of this tree).
A line of CHAINS is a scenario; BASELINE has the columns id, status and makespan of the suite's planner."""
import copy
import csv
import json
import math
import resource
import subprocess
import sys

PICTURES = "snap" "shots"  # the suite's name for pictures of each event, which take most of its time
FINAL = {None: 0, "backing": 1, "fast": 2}


def numbers(scenario):
    """The form that chains.c reads, and the names of its objects."""
    chain, place, rows = scenario["chain"], {}, []
    final = chain["final_locations"]

    def add(name, size):
        place[name] = len(rows)
        rows.append([size, 0, 0, FINAL[final.get(name)]])

    for item in chain["initial_memory"]:
        if item["id"] not in place:
            add(item["id"], item["size"])
        rows[place[item["id"]]][1 if item["location"] == "fast" else 2] = 1
    lines = []
    for task in chain["tasks"]:
        for item in task["outputs"]:
            if item["location"] != "fast":
                sys.exit(f"{scenario['scenario_id']}: {item['id']}: found an output in {item['location']}, expected fast")
            add(item["id"], item["size"])
        written = set(task["mutates_inputs"])
        line = [task["runtime"], task["workspace_bytes"], len(task["inputs"])]
        line += [n for name in task["inputs"] for n in (place[name], int(name in written))]
        line += [len(task["outputs"])] + [place[item["id"]] for item in task["outputs"]]
        lines.append(line)
    head = [len(rows), len(lines), scenario["capacity_bytes"], chain["backing_memory_capacity"] or 1e18,
            chain["bandwidth_from_slow"], chain["bandwidth_to_slow"]]
    return "\n".join(" ".join(map(str, row)) for row in [head] + rows + lines) + "\n", list(place)


def annotated(scenario, names, answer):
    """The chain with the plan's triggers, in the suite's form."""
    chain = copy.deepcopy(scenario["chain"])
    chain["fast_memory_capacity"] = scenario["capacity_bytes"]

    def listed(letter):
        words = next(answer).split()
        assert words[0] == letter
        return [names[int(word)] for word in words[1:]]

    lies = {item["id"]: item for item in chain["initial_memory"]}
    chain["initial_memory"] += [dict(lies[name], location="fast") for name in listed("i")]
    for task in chain["tasks"]:
        task["releases_after"] = listed("r")
        task["offload_after"] = [{"id": name} for name in listed("o")]
        task["prefetch_after"] = [{"id": name} for name in listed("p")]
    return chain


def main():
    planner, chains, baseline, suite = sys.argv[1:5]
    sys.path.insert(0, suite)
    from dataflow_sim.core.schema import TaskChain
    from dataflow_sim.engine.simulator import run
    scenarios = [json.loads(line) for line in open(chains)]
    peers = {row["id"]: row for row in csv.DictReader(open(baseline))}
    inputs = [numbers(scenario) for scenario in scenarios]
    done = subprocess.run([planner] + sys.argv[5:6], input="".join(text for text, _ in inputs), text=True, check=True, stdout=subprocess.PIPE)
    answer = iter(done.stdout.splitlines())
    count = dict(better=0, equal=0, worse=0, bound=0, infeasible=0, undecided=0)
    ratios = {}
    for scenario, (_, names) in zip(scenarios, inputs):
        name, peer = scenario["scenario_id"], peers[scenario["scenario_id"]]
        verdict = next(answer).split()
        theirs = float(peer["makespan"]) if peer["status"] == "valid" else math.inf
        if verdict[0] != "plan":
            count["undecided" if verdict[0] == "none" else "infeasible"] += 1
            if theirs < math.inf:
                sys.exit(f"{name}: {' '.join(verdict)}, but the suite's planner has a plan of {theirs}")
            continue
        chain = TaskChain.from_dict(annotated(scenario, names, answer))
        took = max(interval.end for interval in run(chain, **{PICTURES: False}).task_intervals)
        if abs(took - float(verdict[1])) > 1e-6 * took:
            sys.exit(f"{name}: the suite's simulator takes {took}, the planner's {verdict[1]}")
        count["better" if took < theirs * (1 - 1e-9) else "worse" if took > theirs * (1 + 1e-9) else "equal"] += 1
        count["bound"] += took <= float(verdict[2]) * (1 + 1e-9)
        tasks = sum(task["runtime"] for task in scenario["chain"]["tasks"])
        if theirs < math.inf:
            for group in (scenario["group"], "all"):
                ratios.setdefault(group, []).append([took / tasks, theirs / tasks, took / float(verdict[2]), theirs / float(verdict[2])])
    print(", ".join(f"{n} {word}" for word, n in count.items()))
    print(f"{'':10} {'over the runtimes':>22} {'over the bound':>22}")
    print(f"{'group':10} {'Bedplate':>11} {'PressureFit':>11} {'Bedplate':>11} {'PressureFit':>11}")
    for group, rows in sorted(ratios.items()):
        means = [math.exp(sum(math.log(row[i]) for row in rows) / len(rows)) for i in range(4)]
        print(f"{group:10} " + " ".join(f"{mean:11.4f}" for mean in means))
    print(f"planned in {resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime:.0f} s of processor time")


main()
