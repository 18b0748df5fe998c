#!/bin/bash
# SPDX-License-Identifier: MIT
# Every requirement has evidence, every id that a test cites is one and its sentence is still the same
# (tests/assurance).
cd "$(dirname "$0")/../.." || exit 1
command -v python3 >/dev/null || {
    echo "python3 is not installed"
    exit 77
}
exec python3 tests/assurance/tracing.py check
