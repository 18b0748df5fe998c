#!/bin/bash
# SPDX-License-Identifier: MIT
# No recursion in the library: gcc writes down who calls whom, and the graph must have no cycle.
# verifies house-2.1181
build=build/unoptimised
command -v gcc >/dev/null || { echo "gcc is not installed"; exit 77; }
# What remembers the answers of a compiler leaves out its call graph: an object without one is made anew.
export CCACHE_DISABLE=1
find $build -name '*.o' 2>/dev/null | while read -r object; do
    source=${object#"$build"/}
    [[ -f ${object%.o}.ci || $source == tests/* || ! -f ${source%.o}.c ]] || rm -f "$object"
done
log=$(env -u BUILD make -s -j2 VARIANT=unoptimised library 2>&1) ||
    { echo "$log"; exit 1; }
# Only of sources that are still there. Static functions are named FILE:FUNCTION, others FUNCTION.
graphs=$(find $build -name '*.ci' | while read -r ci; do
    source=${ci#"$build"/}
    [[ -f ${source%.ci}.c ]] && echo "$ci"
done)
# shellcheck disable=SC2086
edges=$(sed -n 's/^edge: { sourcename: "\([^"]*\)" targetname: "\([^"]*\)".*/\1 \2/p' $graphs)
bad=$(awk 'NF == 2 && $1 == $2 { print $1 " calls itself" }' <<<"$edges" | sort -u
    awk '$1 != $2' <<<"$edges" | tsort 2>&1 >/dev/null | sed 's/^tsort: -: //; s/^tsort: /    /')
[[ -z $bad ]] && exit 0
echo "$bad"
exit 1
