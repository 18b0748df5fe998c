#!/bin/bash
# SPDX-License-Identifier: MIT
# Memory of a training step of a ResNet against its depth, by checkpoint policy, as a picture: bytes of the plan, which
# are the bytes of the run. Bottleneck ResNets over 224 x 224, 32 images, SGD without momentum, fp32.
#
#     tools/bench/resnet_depth.sh >tools/bench/results/resnet_depth.svg      BUILD=build/release
set -eu
BUILD=${BUILD:-build/release}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for depths in 1,1,1,1 2,2,2,2 3,4,6,3 3,4,14,3 3,4,23,3 3,8,36,3 3,8,43,3; do
    blocks=$((${depths//,/+}))
    echo '{"model_type": "resnet", "num_labels": 1000, "depths": ['"$depths"']}' >"$work/config.json"
    for policy in none sqrt full memory-poor; do
        bytes=$("$BUILD/bedplate" plan --model "$work" --per-device-train-batch-size 32 --optim sgd \
            --gradient-checkpointing $policy --json | grep -oE '"arena_bytes": [0-9]+' | grep -oE '[0-9]+$')
        echo "$((3 * blocks + 2)) $policy $bytes"
    done
done | awk '
function x(depth) { return 70 + depth * 3 }
function y(bytes) { return 340 - bytes / 1e9 * 30 }
{ depth[++n] = $1; policy[n] = $2; bytes[n] = $3 }
END {
    print "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 400\" font-family=\"sans-serif\" font-size=\"13\">"
    print "<title>Bytes of a step of a ResNet against its depth, by checkpoint policy</title>"
    print "<rect width=\"720\" height=\"400\" fill=\"white\"/>"
    for (g = 0; g <= 10; g += 2) {
        printf "<path d=\"M70 %d H600\" stroke=\"#ddd\"/><text x=\"62\" y=\"%d\" text-anchor=\"end\">%d GB</text>\n", y(g * 1e9), y(g * 1e9) + 4, g
    }
    for (d = 0; d <= 175; d += 25) printf "<text x=\"%d\" y=\"360\" text-anchor=\"middle\">%d</text>\n", x(d), d
    print "<text x=\"335\" y=\"385\" text-anchor=\"middle\">layers (ResNet-50 has 50); 32 images of 224 x 224</text>"
    split("none sqrt full memory-poor", names, " ")
    split("#444 #1f77b4 #2ca02c #d62728", colours, " ")
    for (p = 1; p <= 4; p++) {
        line = ""
        for (i = 1; i <= n; i++) if (policy[i] == names[p]) {
            line = line (line == "" ? "M" : "L") sprintf("%.1f %.1f ", x(depth[i]), y(bytes[i]))
            printf "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"><title>%s, %d layers: %.0f bytes</title></circle>\n", x(depth[i]), y(bytes[i]), colours[p], names[p], depth[i], bytes[i]
            last = y(bytes[i])
        }
        printf "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/><text x=\"600\" y=\"%.1f\" fill=\"%s\">%s</text>\n", line, colours[p], last + 4, colours[p], names[p]
    }
    print "</svg>"
}'
