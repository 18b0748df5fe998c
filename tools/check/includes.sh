#!/bin/bash
# SPDX-License-Identifier: MIT
# Arrows point one way: arena <- core <- {layers, optim, device} <- tools. Read from the includes.
#
# Headers of the system: the library proper gets those that only name types, limits, memory and exact
# arithmetic, core xxHash, and tools/formats/unicode/unicode.c utf8proc, unpack.c zlib and libzstd; device/ talks to the system and gets any.
# verifies house-3.8002
bad=$(tools/check/sources.sh c | xargs awk '
    function owner(path) {
        if (path ~ /^tools\/formats\//) return "formats"
        return substr(path, 1, index(path, "/") - 1)
    }
    BEGIN {
        may["arena"] = " arena "
        may["core"] = " arena core "
        may["layers"] = " arena core layers "
        may["optim"] = " arena core optim "
        may["device"] = " arena core device "
        may["formats"] = " arena core layers formats "
        plain = " stdbool.h stddef.h stdint.h limits.h float.h string.h math.h "
    }
    /^[ \t]*#[ \t]*include[ \t]+"/ {
        split($0, part, "\"")
        from = owner(FILENAME)
        to = owner(part[2])
        if (index(part[2], "/") == 0)
            print FILENAME ":" FNR ": \"" part[2] "\": write the path from the root"
        else if (from in may && index(may[from], " " to " ") == 0)
            print FILENAME ":" FNR ": " from " may include" may[from] "and not " to
        else if (FILENAME ~ /^tools\/bedplate\// && part[2] ~ /^device\/(cuda\/|null\/|devices\.h)/)
            print FILENAME ":" FNR ": the program names no device: ask device/registry.h"
        else if (to == "tests" && from != "tests")
            print FILENAME ":" FNR ": only tests include tests"
    }
    /^[ \t]*#[ \t]*include[ \t]+</ {
        split($0, part, /[<>]/)
        from = owner(FILENAME)
        if (!(from in may) || from == "device") next
        if (FILENAME == "tools/formats/unicode/unicode.c" && part[2] == "utf8proc.h") next
        if (FILENAME == "tools/formats/files/unpack.c" && (part[2] == "zlib.h" || part[2] == "zstd.h")) next
        if (index(plain, " " part[2] " ") == 0 && !(from == "core" && part[2] == "xxhash.h"))
            print FILENAME ":" FNR ": <" part[2] "> is no header for the library; it may use" plain
    }')
[[ -z $bad ]] && exit 0
echo "$bad"
exit 1
