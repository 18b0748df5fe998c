#!/bin/bash
# SPDX-License-Identifier: MIT
# The program is one binary, under 4.5 MB without its GPU code (of which zlib and libzstd, for packed data, are 0.2), that needs libc, libm and libpthread and nothing else.
# verifies house-5.6c4a
program=$BUILD/bedplate
[[ -x $program ]] || { echo "$program is not built"; exit 1; }
bad=$(readelf -d "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
    grep -vE '^lib(c|m|pthread)\.so|^ld-linux' | sed 's/$/: the program must not need it/')
stripped=$(mktemp)
strip -o "$stripped" "$program"
bytes=$(stat -c %s "$stripped")
rm -f "$stripped"
ptx=$(cat device/cuda/kernels/{,*/}*.ptx 2>/dev/null | wc -c)
bytes=$((bytes - ptx))
# 95,000 bytes for names and values of other programs (500 rows with their hints), and help by word.
# 35,000 bytes for runs that nobody watches: secrets of ranks, escaped words, temporary files, records that others touch.
# 52,000 bytes over what it was before use found silent damage: paths, columns, roles of tokens, restarts, verify.
# 35,000 bytes for the report: its script and style, plots with ticks, events as sentences; and watch's table of runs.
# 16,000 bytes for plans that are written and read, a budget's search that the library has, blocks in chunks of rows.
# 90,000 bytes for rewards, advantages, rollouts and their records; 20,000 for what boards need (state, packages).
# 90,000 bytes for experts on the host's forms and in files, 40,000 for encoders (a table of distances in every form).
# 60,000 bytes for decoder families by switches with GGUF, 40,000 for checked products in every form.
# 65,000 bytes for encoders of T5 and DeBERTa with Dense modules, 35,000 for packed blocks of GGUF, 25,000 for experts'
# adapters and balance, 40,000 for reward models, references and ranks in runs by rewards.
# 30,000 bytes for GLM-4.5 and what identifies the models that score.
# 40,000 bytes for gpt-oss in every form of decoding, 45,000 for names of other programs, labels, checks that plan shares.
# 230,000 bytes for hybrids (objects of the delta rule and short convolutions in every form and type: 207,000), 14,000 for
# adapters on one base, 11,000 for writers of blocks, 16,000 for products of few rows, the rest for experts in codes, slices,
# and names of other programs.
# 101,000 bytes for T5 with its decoder (attention of other rows in every form), ranks over a sequence, what transformers reads
# of config.json, filters of templates, normals in two forms.
# 100,000 bytes for Whisper (45,000), attention's backward in chunks in every form (25,000), names of other programs, trained parts
# within bytes, and what mends errors.
# 98,000 bytes for towers of CLIP and SigLIP (21,000), FLAC and what Whisper's files say of texts (12,000), streams of rows (20,000),
# frozen layers by lines and images in bytes (10,000), products of the portable form with FMA, names of other programs.
# 82,000 bytes for CLIP and SigLIP as one model (38,000), strips of queries in every form (17,000), rows trained alone, experts
# read by use, products of adapters in one launch, JSON of scripts and units.
most=5200000
# That is what gcc 12 makes of it; gcc 14 makes 1.1 % more.
readelf -p .comment "$program" | grep -q 'GCC: .* 12\.' || most=$((most * 51 / 50))
[[ $bytes -lt $most ]] || bad+=$'\n'"$bytes bytes without symbols and PTX; must be under $most"
[[ -z $bad ]] && { echo "$bytes bytes, and $ptx of PTX"; exit 0; }
echo "$bad"
exit 1
