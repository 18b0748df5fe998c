#!/bin/bash
# SPDX-License-Identifier: MIT
# A classifier learns short texts: with programs for several lengths, padded throughout, and in PyTorch with
# dynamic padding (each batch to its longest text). Rounds of the three take turns; each prints milliseconds
# per step.
#
#     tools/bench/length_buckets.sh DIR [--threads N] [--batch N] [--steps N] [--rounds N]
#
# DIR holds minilm (made by tools/bench/peers/models.py). Texts are of made-up words, their lengths lognormal
# (median 20 tokens, deviation 0.6 of the logarithm: about those of SST-2 and of short reviews), cut at 128.
# PYTHON: an interpreter with torch and transformers; empty: without that side.
set -u
cd "$(dirname "$0")/../.." || exit 1
program=${BUILD:-build/release}/bedplate
dir=$1
shift
threads=1 batch=16 steps=12 rounds=2
while [[ $# -gt 0 ]]; do
    declare "${1#--}=$2"
    shift 2
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
awk -v n=4000 'BEGIN { srand(7); for (i = 0; i < n; i++) {
    k = int(20 * exp(0.6 * sqrt(-2 * log(rand() + 1e-9)) * cos(6.2831853 * rand()))) - 2; k = k < 1 ? 1 : k > 126 ? 126 : k
    t = "w" (5 + int(rand() * 30000)); for (j = 1; j < k; j++) t = t " w" (5 + int(rand() * 30000))
    printf "{\"text\": \"%s\", \"label\": %d}\n", t, i % 2 } }' >"$work/texts.jsonl"

ours() { # LENGTHS: milliseconds per step
    rm -rf "$work/out"
    "$program" train --model "$dir/minilm" --task classification --data "$work/texts.jsonl" --max-seq-length 128 \
        --per-device-train-batch-size "$batch" --max-steps "$steps" --threads "$threads" --device host --max-grad-norm 1 \
        --save-steps 0 --output-dir "$work/out" --length-buckets "$1" --quiet --json 2>/dev/null | tail -1 >"$work/end"
    awk -v steps="$steps" 'match($0, /"train_seconds": [^,]*/) { split(substr($0, RSTART, RLENGTH), a, ": ")
        printf "%.0f ms per step, ", 1000 * a[2] / steps }' "$work/end"
    grep -oE '"state_digest": "[0-9a-f]*"|"arena_bytes": [0-9]*|"length_buckets": \[[^]]*\]' "$work/end" | tr '\n' ' '
    echo
}

theirs() {
    "$PYTHON" - "$dir/minilm" "$work/texts.jsonl" "$batch" "$steps" "$threads" 2>/dev/null <<'PY'
import json, random, sys, time
import torch, transformers
model, path, batch, steps, threads = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
torch.set_num_threads(threads)
texts = [json.loads(line) for line in open(path)]
net = transformers.AutoModelForSequenceClassification.from_pretrained(model, dtype=torch.float32).train()
optimizer = torch.optim.AdamW(net.parameters(), lr=5e-5, weight_decay=0.0, fused=True)
random.seed(1)
random.shuffle(texts)
seconds, lengths = [], []
for step in range(steps + 1):
    rows = [[2] + [int(w[1:]) for w in t["text"].split()][:126] + [3] for t in texts[step * batch : (step + 1) * batch]]
    longest = max(map(len, rows))
    ids = torch.tensor([r + [0] * (longest - len(r)) for r in rows])
    mask = (torch.arange(longest) < torch.tensor([[len(r)] for r in rows])).long()
    labels = torch.tensor([t["label"] for t in texts[step * batch : (step + 1) * batch]])
    start = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    torch.nn.functional.cross_entropy(net(input_ids=ids, attention_mask=mask).logits, labels).backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    seconds.append(time.perf_counter() - start)
    lengths.append(longest)
print(f"{1e3 * sum(seconds[1:]) / steps:.0f} ms per step, padded to {sum(lengths[1:]) / steps:.1f} tokens on average")
PY
}

for ((round = 0; round < rounds; round++)); do
    echo "four lengths: $(ours auto)"
    echo "padded:       $(ours none)"
    [[ -z ${PYTHON:-} ]] || echo "PyTorch:      $(theirs)"
done
