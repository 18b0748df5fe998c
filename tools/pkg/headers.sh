#!/bin/bash
# SPDX-License-Identifier: MIT
# headers.sh FOLDER: makes the public headers, bedplate.h and bedplate/*.h, in FOLDER.
#
# A header of the source tree that says "Installed as part of <bedplate/NAME.h>." on a line of its own
# is a part of that header; parts stand there in the order in which they need each other. A part that
# includes what is not installed is an error, so nothing private can slip in. Headers of the system stand
# first, outside of extern "C": those of C++ have templates. Where a part reads a table (NAME.def), what the
# table makes of the definitions before it stands there, with the comments of its rows.
set -euo pipefail
to=$1
mkdir -p "$to/bedplate"
mark='^/\* Installed as part of <bedplate/([a-z]+)\.h>\. \*/$'
declare -A target
while IFS=: read -r file line; do
    [[ $line =~ $mark ]] && target[$file]=${BASH_REMATCH[1]}
done < <(grep -rE --include='*.h' "$mark" arena core layers optim device tools/formats)
parts=$(for file in "${!target[@]}"; do
    echo "$file $file"
    sed -nE 's/^#include "(.*\.h)"$/\1/p' "$file" | while read -r needs; do
        [[ -n ${target[$needs]:-} ]] ||
            { echo "$file is installed and includes $needs, which is not" >&2; exit 1; }
        echo "$needs $file"
    done || exit 1
done | LC_ALL=C sort | tsort)
version=$(sed -n 's/^#define BP_VERSION "\(.*\)"/\1/p' core/base/version.h)

# What a part says, without its guard, its place and the headers that it needs.
body() {
    awk -v expand="${CC:-cc} -E -P -C -x c -I. - | sed '1,/^\\/\\* The rules\\. \\*\\/\$/d'" '
        /^#define / || held ~ /\\\n$/ { held = held $0 "\n"; next }
        /^#include ".*\.def"$/ { print held $0 | expand; close(expand); held = ""; next }
        { printf "%s", held; held = ""; print }' "$1" |
        grep -vE "^#include |SPDX-License-Identifier|$mark|^#(ifndef|define) BP_[A-Z0-9_]+_H\$" |
        sed '$ { /^#endif$/d; }' | cat -s | sed '$ { /^$/d; }'
}

names=()
for part in $parts; do
    [[ " ${names[*]-} " == *" ${target[$part]} "* ]] || names+=("${target[$part]}")
done
for name in "${names[@]}"; do
    {
        echo '/* SPDX-License-Identifier: MIT */'
        echo "/* Bedplate $version, public interface. Made of the headers of its source tree by make install. */"
        echo "#ifndef BEDPLATE_${name^^}_H"
        echo "#define BEDPLATE_${name^^}_H"
        echo
        for part in $parts; do
            [[ ${target[$part]} == "$name" ]] || continue
            sed -nE 's/^#include "(.*\.h)"$/\1/p' "$part" | while read -r needs; do
                [[ ${target[$needs]} == "$name" ]] || echo "#include <bedplate/${target[$needs]}.h>"
            done
            grep '^#include <' "$part" || true
        done | LC_ALL=C sort -u
        printf '\n#ifdef __cplusplus\nextern "C" {\n#endif\n'
        for part in $parts; do
            [[ ${target[$part]} == "$name" ]] || continue
            echo
            body "$part"
        done
        printf '\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n'
    } | cat -s >"$to/bedplate/$name.h"
done
{
    echo '/* SPDX-License-Identifier: MIT */'
    echo "/* Bedplate $version: the whole public interface. docs/library.md describes it. */"
    echo '#ifndef BEDPLATE_H'
    echo '#define BEDPLATE_H'
    echo
    printf '#include <bedplate/%s.h>\n' "${names[@]}" | LC_ALL=C sort
    echo
    echo '#endif'
} >"$to/bedplate.h"
