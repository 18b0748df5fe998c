#!/bin/bash
# SPDX-License-Identifier: MIT
# Figures of the layout (docs/figures/house.md), as rows of a table: lines and files of the product, functions, circles of
# calls, files of a new update rule, lines of tools/bedplate that plan; and plans beside those of another build.
#     tools/bench/house.sh [OTHER_PROGRAM]
# OTHER_PROGRAM: plans of both in turn, whether they differ in bytes, and the processor time of five each.
build=${BUILD:-build/release}
other=$1
rule=fdf649c9 # the commit that added adopt, the latest rule
row() { printf '| %s | %s |\n' "$1" "$2"; }
product() { git ls-files arena core device layers optim tools | grep -E '\.(c|h|def|cu|py|sh)$'; }

printf '| figure | %s, %s |\n|---|---|\n' "$(git log -1 --format=%h)" "$(git log -1 --format=%cd --date=short)"
row "product lines (C, CUDA, tables, Python, shell)" "$(product | xargs -d '\n' cat | wc -l)"
row "product files" "$(product | wc -l)"
row "lines of a function, p50, p90, most" "$(product | grep -E '\.[ch]$' | xargs -d '\n' awk '
    /^{/ { first = FNR } /^}/ && first { print FNR - first - 1; first = 0 }' | sort -n |
    awk '{ n[NR] = $1 } END { print n[int(NR / 2)] ", " n[int(NR * 0.9)] ", " n[NR] " of " NR }')"
row "objects of the library in the largest circle of calls" "$(tests/house/test_circles.sh --largest)"
row "files of a new rule" "$(git show --stat=200 --format= $rule | awk '/\|/ { printf "%s%s", s, $1; s = ", " }')"
planning=$(git ls-files tools/bedplate/planning | grep -E '\.[ch]$')
row "lines of tools/bedplate/planning" "$(xargs cat <<<"$planning" | wc -l)"
row "of these not words or trainers in C" \
    "$(grep -vE 'emit_c|_text\.|listing\.|/choice\.|host_arena\.' <<<"$planning" | xargs cat | wc -l)"
row "graphs of plans that equal the digests" "$(grep -vc '^#' tests/fixtures/plans/graphs.digests), $(
    "$build/tests/unit/core/plan/suite" test_graphs_same >/dev/null 2>&1 && echo all || echo "some differ")"
[[ -n $other ]] || exit 0

seconds() { # PROGRAM OPTION..: processor time of five plans
    { TIMEFORMAT='%U'; time for _ in 1 2 3 4 5; do "$@" >/dev/null 2>&1; done; } 2>&1
}
lines() { "$@" 2>&1 | grep -vE '^(host|planning|bedplate: planning)'; }
while read -r options; do
    read -ra words <<<"$options"
    same=$([[ $(lines "$other" plan "${words[@]}") == "$(lines "$build/bedplate" plan "${words[@]}")" ]] && echo the same ||
        echo differs)
    row "\`plan $options\`" "$same; s of five plans: $(seconds "$other" plan "${words[@]}"), $(
        seconds "$build/bedplate" plan "${words[@]}")"
done <<'PLANS'
--model gpt2 --per-device-train-batch-size 4 --max-seq-length 256
--model gpt2 --arena 2GB --max-seq-length 256
--model pythia-70m --gradient-release
--model bert-base --task classification --gradient-checkpointing sqrt
--model qwen3-0.6b --lora-r 8 --load-in-4bit --arena 1GB --max-seq-length 512
--model gpt2 --ranks 4 --shard parameters --gradient-accumulation-steps 4
PLANS
