#!/bin/bash
# SPDX-License-Identifier: MIT
# Makes tests/golden/packed with gzip and zstd: texts.jsonl.gz of two members, texts.jsonl.zst of two frames
# (one with a checksum, one at the highest level with a long window) around a frame that is passed over. What
# is packed are the 400 lines that tests/unit/tools/formats/files/test_unpack.c makes.
set -eu
out=tests/golden/packed
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
awk 'BEGIN { for (i = 0; i < 400; i++) printf "{\"text\": \"%d bottles of %s\"}\n", i, i * i % 7 ? "ale" : "beer" }' >"$work/texts"
head -c 5000 "$work/texts" >"$work/a"
tail -c +5001 "$work/texts" >"$work/b"
{ gzip -9nc "$work/a" && gzip -1nc "$work/b"; } >"$out/texts.jsonl.gz"
{
    zstd -qc --check "$work/a"
    printf '\x53\x2a\x4d\x18\x05\x00\x00\x00hello'
    zstd -qc --ultra -22 --long=25 --check --no-content-size <"$work/b"
} >"$out/texts.jsonl.zst"
