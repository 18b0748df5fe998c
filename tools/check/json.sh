#!/bin/bash
# SPDX-License-Identifier: MIT
# JSON has one writer, arena/json_write.h: no other file of the product puts a key and its colon, or the comma before
# a key. Whole constants (bp_json_put_value) may be written out. Programs of tools/bench stand alone. Lines of records
# and events have one spelling, over whose bytes the chain goes: what reads them compares with that spelling, so that it
# takes no line that another reader refuses, and these files alone may spell a key.
readers='events|old_names|record_grammar|record_read|replay_compare|run_view|train_record'
mapfile -t files < <(tools/check/sources.sh c | grep -E '^(arena|core|layers|optim|device|tools)/' |
    grep -vE "^(arena/json_write\.c|tools/bench/|tools/bedplate/record/($readers)\.c)")
bad=$(grep -nE '\\": ?"|(^|[^\\])"[]}]*, ?\\"[A-Za-z_]|[{,] ?\\"[a-z_]+\\": ?%' "${files[@]}" /dev/null |
    sed 's/^\([^:]*:[0-9]*\):.*/\1: JSON by hand: arena\/json_write.h writes it/')
[[ -z $bad ]] && exit 0
echo "$bad"
exit 1
