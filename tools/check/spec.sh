#!/bin/bash
# SPDX-License-Identifier: MIT
# The contract of bp_spec: above each member a comment that states what 0 (NULL, false) means.
header=core/plan/spec.h
[[ -f $header ]] || exit 0
bad=$(awk '
    /^typedef struct bp_spec \{/ { inside = 1; next }
    /^} bp_spec;/ { inside = 0 }
    !inside { next }
    /^ *\/\*/ { comment = "" }
    /^ *(\/\*| \*)/ { comment = comment $0; next }
    /;$/ {
        if (comment !~ /(^|[^0-9.^e-])0s?([^0-9.]|$)|NULL|false/)
            print FILENAME ":" FNR ":" $0 " (state above it what 0 means)"
    }
    { comment = "" }' "$header")
[[ -z $bad ]] && exit 0
echo "$bad"
exit 1
