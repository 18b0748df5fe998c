#!/bin/bash
# SPDX-License-Identifier: MIT
# manual.sh PROGRAM [FOLDER]: writes manual.md, families.md and bedplate.1 into docs/, or into FOLDER.
set -eu
to=${2:-docs}
for page in manual families; do
    "$1" "$page" >"$to/.table"
    awk -v table="$to/.table" '
        /^<!-- end -->$/ { inside = 0 }
        !inside { print }
        /^<!-- made by `make manual`/ { inside = 1; while ((getline line < table) > 0) print line }
    ' "docs/$page.md" >"$to/.page"
    rm "$to/.table"
    mv "$to/.page" "$to/$page.md"
done
"$1" man >"$to/bedplate.1"
