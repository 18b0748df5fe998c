#!/bin/bash
# SPDX-License-Identifier: MIT
# The committed PTX is up to date, has nothing that shipped PTX must not have, and assembles for every
# GPU (tools/ptx/check.py).
# verifies device-14.1cf2
ls device/cuda/kernels/*.ptx >/dev/null 2>&1 || exit 0
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
exec python3 tools/ptx/check.py
