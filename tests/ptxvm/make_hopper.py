#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the programs of tests/ptxvm/programs that are about Hopper's instructions (tensor_*,
bulk_*, stmatrix_*, stored_*, wgmma_*, cluster_* and their faults): one text each, and damaged ones made from it. Answers
come from the definitions in the PTX manual, computed here and never by ptxvm.

    python3 tests/ptxvm/make_hopper.py tests/ptxvm/programs
"""
import sys

import hopper_cluster
import hopper_stmatrix
import hopper_stored
import hopper_tensor
import hopper_wgmma


def main():
    folder = sys.argv[1]
    hopper_tensor.tensor_loads(folder)
    hopper_tensor.tensor_stores(folder)
    hopper_stmatrix.stores(folder)
    hopper_stored.stores(folder)
    hopper_wgmma.products(folder)
    hopper_cluster.registers(folder)
    hopper_cluster.clusters(folder)


if __name__ == "__main__":
    main()
