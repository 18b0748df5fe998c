#!/bin/bash
# SPDX-License-Identifier: MIT
# Proves what README.md promises on a bare machine: a fresh clone of HEAD in a minimal Debian 12 that has nothing but
# git and make, where, as root, `make demo` and `make test` install what they need and pass. Ends with
# `N passed, N failed`; without root, debootstrap or namespaces it fails, or is skipped with OPTIONAL=1.
#
#   tests/house/bare.sh [GOAL..]     these goals instead of `demo test`, one after the other
#
# build/bare keeps GOAL.log. Needs 12 GB of storage, and as long as both goals and a full build take.
cd "$(dirname "$0")/../.." || exit 1
. tests/house/minimal.sh
goals=("$@")
[[ $# -gt 0 ]] || goals=(demo test)
minimal_begin 'the bare machine' debootstrap git
minimal_system bookworm git,make,ca-certificates || { tail -20 "$keep/system.log"; echo "there is no minimal system ($keep/system.log)"; exit 1; }
git clone -q --no-hardlinks "$PWD" "$root/root/bedplate" || exit 1
for name in "${goals[@]}"; do
    inside /root/bedplate "make $name 2>&1 | tee /root/log; exit \${PIPESTATUS[0]}"
    rc=$?
    cp "$root/root/log" "$keep/$name.log"
    count_log "$keep/$name.log" $rc "bare: make $name"
done
counted
