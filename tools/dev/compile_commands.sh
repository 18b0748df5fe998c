#!/bin/bash
# SPDX-License-Identifier: MIT
# `make compile_commands`: reads what make would do (make -nB V=1) and prints a compilation database of it
# (clang.llvm.org/docs/JSONCompilationDatabase.html): an entry for each command that compiles a .c file.
awk -v folder="$PWD" '
    function quoted(text) { gsub(/\\/, "&&", text); gsub(/"/, "\\\"", text); return "\"" text "\"" }
    match($0, / -c [^ ]+\.c -o [^ ]+/) {
        split(substr($0, RSTART, RLENGTH), word, " ")
        sub(/^[ \t]+/, "")
        printf "%s  {\"directory\": %s, \"file\": %s, \"output\": %s, \"command\": %s}", count++ ? ",\n" : "[\n",
            quoted(folder), quoted(word[2]), quoted(word[4]), quoted($0)
    }
    END { print count ? "\n]" : "[]"; exit count == 0 }'
