#!/bin/bash
# SPDX-License-Identifier: MIT
# make derivatives sees a formula that is no derivative, a row whose words have changed, and a gradient without a case.
cd "$(dirname "$0")/../.." || exit 1
passed=0
failed=0
check() {
    if [[ $2 == "$3" ]]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$1: found $2, expected $3"
    fi
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tests/assurance" "$work/core"
cp -r tests/assurance/derivatives "$work/tests/assurance"
cp -r core/ops "$work/core"
prover=$work/tests/assurance/derivatives/derivatives.py
# A folder before all others that has no sympy, only a module of its name that cannot be imported.
mkdir "$work/none" && echo 'raise ImportError' >"$work/none/sympy.py"
out=$(PYTHONPATH=$work/none python3 "$prover")
check 'without sympy it fails' "$? $(grep -c python3-sympy <<<"$out") $(tail -1 <<<"$out")" '1 1 0 passed, 1 failed'
out=$(PYTHONPATH=$work/none OPTIONAL=1 python3 "$prover")
check 'OPTIONAL=1 skips it' "$? $(tail -1 <<<"$out")" '0 0 passed, 0 failed'
# Where nothing can be proved, names are looked at: a new row's gradient is missed before the night.
missing=$(sed -nE 's/^KERNEL\(([a-z0-9_]*backward[a-z0-9_]*)\).*/\1/p' core/ops/*.def | while read -r row; do
    grep -qF "\"$row\"" tests/assurance/derivatives/{formulas,derivatives}.py || echo "$row"
done)
check 'rows named backward without a case' "$missing" ''
if ! python3 -c 'import sympy' 2>/dev/null; then
    echo 'skipped: python3-sympy is not installed'
    echo "$passed passed, $failed failed"
    exit $((failed > 0))
fi
out=$(python3 "$prover" lstm)
check 'a derivative is proved' "$? $(tail -1 <<<"$out")" '0 1 passed, 0 failed'
sed -i 's/e \* f})/e * g})/' "$work/tests/assurance/derivatives/formulas.py"
out=$(python3 "$prover" lstm)
check 'another formula is not' "$? $(grep -c 'd_p.* is not the derivative' <<<"$out")" '1 1'
sed -i 's/d_c becomes e f/d_c becomes e g/' "$work/core/ops/recurrent.def"
out=$(python3 "$prover" lstm)
check 'a row that states another is seen' "$? $(grep -c 'its words are not there' <<<"$out")" '1 1'
printf '/* d_x = 2 x d_y. */\nKERNEL(square_backward)\nEND(square_backward)\n' >>"$work/core/ops/rows.def"
out=$(python3 "$prover" square)
check 'a gradient without a case is named' "$? $(grep -c 'square_backward: no case' <<<"$out")" '1 1'
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
