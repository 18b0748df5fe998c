#!/bin/bash
# SPDX-License-Identifier: MIT
# Everything compiles without a warning under clang too (under gcc it had to, to be built). Clang warns of what it
# reads: nothing is compiled for it.
# verifies house-6.ce86
command -v clang >/dev/null || { echo "clang is not installed"; exit 77; }
log=$(env -u BUILD make -s -k -j2 VARIANT=syntax objects 2>&1) && exit 0
grep -E 'error|warning' <<<"$log" | sort -u | head -40
exit 1
