#!/bin/bash
# SPDX-License-Identifier: MIT
# manual.sh PROGRAM [FOLDER]: writes manual.md and bedplate.1 into docs/, or into FOLDER.
set -eu
to=${2:-docs}
"$1" page >"$to/.table"
awk -v table="$to/.table" '
    /^<!-- end -->$/ { inside = 0 }
    !inside { print }
    /^<!-- made by `make manual`/ { inside = 1; while ((getline line < table) > 0) print line }
' docs/manual.md >"$to/.manual"
rm "$to/.table"
mv "$to/.manual" "$to/manual.md"
"$1" man >"$to/bedplate.1"
