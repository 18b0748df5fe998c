#!/bin/bash
# SPDX-License-Identifier: MIT
# The program is one binary under 2 MB that needs libc, libm and libpthread and nothing else.
program=$BUILD/bedplate
[[ -x $program ]] || { echo "$program is not built"; exit 1; }
bad=$(readelf -d "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
    grep -vE '^lib(c|m|pthread)\.so|^ld-linux' | sed 's/$/: the program must not need it/')
stripped=$(mktemp)
strip -o "$stripped" "$program"
bytes=$(stat -c %s "$stripped")
rm -f "$stripped"
[[ $bytes -lt 2000000 ]] || bad+=$'\n'"$bytes bytes without debugging information; under 2000000"
[[ -z $bad ]] && { echo "$bytes bytes"; exit 0; }
echo "$bad"
exit 1
