#!/bin/bash
# SPDX-License-Identifier: MIT
# The soak test until every trouble was met; `make soak HOURS=h` has the long one.
# verifies alone-1.c14d alone-9.3864
SOAK_STEPS=${SOAK_STEPS:-3000} exec "$(dirname "$0")/run.sh" "${BUILD:-build/release}" 0.004 1
