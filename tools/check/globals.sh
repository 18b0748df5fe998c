#!/bin/bash
# SPDX-License-Identifier: MIT
# No globals with state: the library's objects hold constants only. Contexts are the caller's.
# verifies house-4.d6f3
[[ -n ${LIBOBJ:-} ]] || { echo "LIBOBJ is not set: run make check"; exit 1; }
# Constant tables of pointers lie in .data.rel.ro, which is read-only once the program runs.
# shellcheck disable=SC2086
bad=$(objdump -t $LIBOBJ | awk -v build="$BUILD/" '
    / file format / { object = $1; sub(":$", "", object); sub(build, "", object) }
    {
        for (i = 2; i < NF; i++)
            if ($i ~ /^(\.t?(data|bss)(\..*)?|\*COM\*)$/ && $i !~ /^\.data\.rel\.ro/ && $NF != $i &&
                $(NF - 1) !~ /^0+$/)
                print object ": " $NF " is writable for the whole run"
    }')
[[ -z $bad ]] && exit 0
echo "$bad"
exit 1
