#!/bin/bash
# SPDX-License-Identifier: MIT
# Prints the source files that a check is about, one per line:
#   sources.sh library    C files and headers of the library, kernels.def included
#   sources.sh c          every C file and header but kernels.def, whose form is a table's
#   sources.sh code       the same with CUDA: what obeys the rules of form and length
#   sources.sh all        everything written by hand: C, shell, make, CUDA, Python
folders() {
    for f in "$@"; do [[ -d $f ]] && echo "$f"; done
}
library='arena core layers optim device tools/formats'
everything='arena core layers optim device tools tests'
# shellcheck disable=SC2046,SC2086
case $1 in
library) find $(folders $library) -name '*.[ch]' -o -name '*.def' ;;
c) find $(folders $everything) -name '*.[ch]' ;;
code) find $(folders $everything) -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' ;;
all)
    find $(folders $everything .ci) -name '*.[ch]' -o -name '*.def' -o -name '*.sh' -o -name '*.mk' \
        -o -name '*.cu' -o -name '*.cuh' -o -name '*.py' -o -path .ci/run
    echo Makefile
    ;;
esac | LC_ALL=C sort
