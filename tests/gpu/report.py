#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The page of docs/figures out of the gpu.json of a visit: report.py GPU.JSON >docs/figures/gpu-DATE.md"""
import json
import sys


def cell(row):
    if row.get("left_out"):
        return "left out: " + row["left_out"]
    return "ok" if row["code"] == 0 else "failed (%s)" % row["code"]


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        found = json.load(file)
    if found.get("version") != 1:
        sys.exit("%s: not of a visit that this report knows: found version %s, expected 1" % (
            sys.argv[1], found.get("version")))
    print("# Figures: a GPU, %s\n" % found["date"][:10])
    if found["rehearsal"]:
        print("A rehearsal on ptxvm: nothing here was measured on a GPU.\n")
    for group, rows in found["groups"].items():
        print("## %s\n\n| what | result | seconds | figures |\n|---|---|---|---|" % group.capitalize())
        for row in rows:
            figures = ", ".join("%s %s" % item for item in row.get("figures", {}).items())
            print("| %s | %s | %.1f | %s |" % (row["name"], cell(row), row["seconds"], figures))
        print()
        for row in rows:
            if row.get("differs"):
                print("%s:\n\n%s\n" % (row["name"], "\n".join("    " + line for line in row["differs"])))
            said = row.get("said", "").strip()
            if said and (row["code"] != 0 or row["name"].startswith(("PyTorch", "gpu_kernels", "devices"))):
                print("%s:\n\n%s\n" % (row["name"], "\n".join("    " + line for line in said.split("\n"))))


if __name__ == "__main__":
    main()
