#!/bin/bash
# SPDX-License-Identifier: MIT
# report.sh BUILD: what the example takes: code and data by part, stack.
set -eu
build=$1
size -A "$build/tools/embed/embed" | awk '{ bytes[$1] = $2 } END {
    printf "code %d bytes, constants %d bytes, initialised data %d bytes, static arrays %d bytes\n",
        bytes[".text"], bytes[".rodata"] + bytes[".data.rel.ro"], bytes[".data"], bytes[".bss"] }'
nm -S --size-sort -t d "$build/tools/embed/embed" | awk '$3 ~ /^[tTrR]$/ { print $2 + 0, $4 }' | sort -rn |
    awk 'NR <= 8 { printf "  %7d  %s\n", $1, $2 }'
"$build/tools/embed/stack" | tail -1
echo "largest frames of functions that the example links:"
nm "$build/tools/embed/embed" | awk '$2 ~ /^[tT]$/ { print $3 }' | sort -u >"$build/linked"
find "$build" -name '*.su' -exec cat {} + | awk -F'\t' '{ n = split($1, part, ":"); print part[n], $2 }' | sort |
    join - "$build/linked" | sort -k2,2nr | awk 'NR <= 8 { printf "  %7d  %s\n", $2, $1 }'
