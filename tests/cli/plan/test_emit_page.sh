#!/bin/bash
# SPDX-License-Identifier: MIT
# docs/how-to/learn-on-a-board.md as pasted, with the blocks that test_pages.sh leaves out, against an installed library.
. "$(dirname "$0")/../lib.sh"

page=docs/how-to/learn-on-a-board.md
mkdir -p "$work/bin" "$work/page/net" "$work/page/board"
make -s install-library PREFIX="$work/page/kit" DESTDIR= >/dev/null 2>&1
check $? "install the library"
ln -s "$(realpath "$program")" "$work/bin/bedplate"
# Blocks in order: N.file and N.sh; a file's name stands in N.name.
awk -v to="$work" '
    /^<!-- / { if (out != "") close(out); out = ""; indented = 0 }
    /^<!-- file: / { name = $3; next }
    /^<!-- not run: / { indented = 1; next }
    /^```sh/ { n++; out = to "/" n ".sh"; fenced = 1; next }
    /^```/ { fenced = 0; close(out); out = ""; next }
    fenced { print >out; next }
    /^    / && (name != "" || indented || out != "") {
        if (out == "") { n++; out = to "/" n (name != "" ? ".file" : ".sh"); if (name != "") print name >(to "/" n ".name") }
        print substr($0, 5) >out
        name = ""
        next
    }
    /^$/ && out != "" { print "" >out; next }
    { if (out != "") close(out); out = ""; if (!/^$/) indented = 0 }' "$page"
# verifies device-43.988d
ran=0
for ((n = 1; n < 20; n++)); do
    [[ ! -f $work/$n.file ]] || cp "$work/$n.file" "$work/page/$(cat "$work/$n.name")"
    if [[ $(cat "$work/$n.name" 2>/dev/null) == motion.csv ]]; then
        for _ in 1 2 3 4 5 6; do sed 1d "$work/$n.file" | sed '/^$/d'; done >>"$work/page/motion.csv"
        sed -i '/^$/d' "$work/page/motion.csv"
    fi
    [[ -f $work/$n.sh ]] || continue
    (cd "$work/page" && PATH=$work/bin:$PATH bash -e "$work/$n.sh") >"$work/said" 2>&1
    check $? "block $n" "$(cat "$work/$n.sh" "$work/said")"
    cat "$work/said" >>"$work/all"
    ran=$((ran + 1))
done
[[ $ran -eq 4 ]] && grep -q 'all four classes, after step 240' "$work/all"
check $? "the board learns, and its state is back" "$ran $(cat "$work/all")"
finish
