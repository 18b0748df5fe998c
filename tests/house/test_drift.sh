#!/bin/bash
# SPDX-License-Identifier: MIT
# The short form of the drift measurement: narrow states and masters, and the norm of the step before,
# train a small GPT on a made-up text as fp32 AdamW does, within the bounds of tools/bench/drift.sh.
# verifies optim-7.92a4
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for ((i = 1; i <= 900; i++)); do
    echo "line $i: the quick brown fox jumps over $((i * i % 97)) dogs, and $((i % 13)) of them bark."
done >"$work/text"
passed=0
failed=0
recipes=(adamw bf16_split8 adamw_8bit adamw_8bit_companded previous_norm)
if DRIFT_OUT=$work/out DRIFT_RECIPES="${recipes[*]}" tools/bench/drift.sh "$work/text" 150 1 >"$work/table"; then
    passed=$((passed + 1))
else
    failed=$((failed + 1))
fi
# Every recipe was run, and learned: an untrained model of bytes is at ln 256 = 5.5.
if [[ $(grep -c ' ok$' "$work/table") -eq ${#recipes[@]} ]] &&
    awk 'NR > 1 && !($2 < 3.0) { exit 1 }' "$work/table"; then
    passed=$((passed + 1))
else
    failed=$((failed + 1))
fi
[[ $failed -eq 0 ]] || cat "$work/table"
echo "$passed passed, $failed failed"
exit $((failed != 0))
