#!/bin/bash
# SPDX-License-Identifier: MIT
# core/ knows no family: neither a key of config.json that only some families have, nor a member of a
# family's own struct. Both are read from the rows of the families in tools/formats/family.
rows=(tools/formats/family/family_*.[ch] tools/formats/family/images/family_*.[ch])
[[ -e ${rows[0]} ]] || exit 0
# Quoted keys of rows that lie in a family's own struct, or in none; what every row file has is common.
keys=$(grep -vE 'COMMON\(|ROW_TOKEN|model_type|architectures|id2label|problem_type|quantization_config' "${rows[@]}" |
    grep -oE '"[a-z][a-z0-9_]+_[a-z0-9_]+"' | tr -d '"' | sort -u)
members=$(grep -ohE '\b(BP_FAMILY_MEMBER\([a-z_]+, |STACK\(|[A-Z0-9]+\()[a-z_]+(\.[a-z_]+)?\)' "${rows[@]}" |
    grep -v '^COMMON' | sed -E 's/^[^(]*\(//; s/^[a-z_]+, //; s/\)$//; s/^.*\.//' | sort -u)
bad=$(grep -rnwE -- "($(paste -sd'|' <<<"$keys"))" core
    grep -rnE -- "config(\.|->)($(paste -sd'|' <<<"$members"))\b" core
    grep -rnE -- 'bp_family_([abd-z]|c[a-np-z])|->family\b|\.family\b' core)
[[ -z $bad ]] && exit 0
echo "$bad"
echo "a family's own keys and members belong to its layers and to tools/formats/family/family_NAME.c"
exit 1
