#!/bin/bash
# SPDX-License-Identifier: MIT
# Rerankers: the loss and the ranking of queries against those of the predictions, files of sentence-transformers, and
# labels that are no chances.
. "$(dirname "$0")/../lib.sh"

python3 - "$work" <<'P'
import json, random, sys
random.seed(4)
words = lambda n: " ".join(random.choice("abcdefgh") * random.randint(1, 3) for _ in range(n))
rows = []
for query in range(9):
    asked = f"{query} " + words(2)
    rows += [dict(query=asked, passage=words(random.randint(1, 5)), label=random.choice([0, 0, 1, 0.25, 0.75]))
             for _ in range((1, 4, 13)[query % 3])]
random.shuffle(rows)
with open(sys.argv[1] + "/pairs.jsonl", "w") as f:
    f.writelines(json.dumps(row) + "\n" for row in rows)
with open(sys.argv[1] + "/bare.jsonl", "w") as f:
    f.writelines(json.dumps({k: row[k] for k in ("query", "passage")}) + "\n" for row in rows)
P
cat >"$work/rank.py" <<'P'
import json, math, sys
said, path, data = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
rows = [json.loads(line) for line in open(data)]
made = [json.loads(line) for line in open(path)]
assert len(rows) == len(made) and all(m["index"] == i for i, m in enumerate(made))
logit, label = [m["logits"][0] for m in made], [r["label"] for r in rows]
raw = len(sys.argv) > 4
assert all(abs(m["prediction"] - (x if raw else 1 / (1 + math.exp(-x)))) < 1e-6 for m, x in zip(made, logit))
def precision(of):
    cuts, hits, sum = sorted({logit[i] for i in of}, reverse=True), 0, 0.0
    for cut in cuts:
        above = [i for i in of if logit[i] >= cut]
        now = [i for i in above if label[i] >= .5]
        sum += (len(now) - hits) * len(now) / len(above)
        hits = len(now)
    return sum / hits if hits else 0.0
discounts = [1 / math.log2(k + 2) for k in range(10)] + [0.0] * len(rows)
def gain(order, value=logit): # of equal scores the mean
    at = lambda i: [k for k, j in enumerate(order) if value[j] == value[i]]
    return sum(label[i] * sum(discounts[k] for k in at(i)) / len(at(i)) for i in order)
queries = {}
for i, row in enumerate(rows):
    queries.setdefault(row["query"], []).append(i)
mean = lambda f: sum(map(f, queries.values())) / len(queries)
order = lambda of: sorted(of, key=lambda i: (-logit[i], i))
want = {"loss": sum(math.log1p(math.exp(x)) - x * y for x, y in zip(logit, label)) / len(rows),
        "accuracy": sum((x > 0) == (y >= .5) for x, y in zip(logit, label)) / len(rows),
        "average_precision": precision(range(len(rows))), "map": mean(precision),
        "mrr_at_10": mean(lambda of: next((1 / (k + 1) for k, i in enumerate(order(of)[:10]) if label[i] >= .5), 0.0)),
        "ndcg_at_10": mean(lambda of: gain(order(of)) / (gain(sorted(of, key=lambda i: -label[i]), label) or 1.0))}
wrong = {k: (said.get(k), v) for k, v in want.items() if k not in said or abs(said[k] - v) > 2e-6}
print(wrong)
sys.exit(1 if wrong else 0)
P
common=(--data "$work/pairs.jsonl" --max-seq-length 32 --threads 2)
for preset in tiny-bert tiny-roberta tiny-modernbert; do
    run train --task reranking --model $preset "${common[@]}" --max-steps 12 --learning-rate 3e-3 --output-dir "$work/$preset" \
        --per-device-train-batch-size 8 --quiet --json
    check $code "$preset: trains" "$err"
    run eval --model "$work/$preset" "${common[@]}" --predictions "$work/scores.jsonl" --json
    [[ $code -eq 0 ]] && found=$(python3 "$work/rank.py" "$out" "$work/scores.jsonl" "$work/pairs.jsonl" 2>&1)
    check $? "$preset: the loss and every metric follow from the predictions" "$found$err"
done
grep -q '"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid"' "$work/tiny-bert/config.json"
check $? "config.json says what becomes of the logit" "$(cat "$work/tiny-bert/config.json")"
for batch in 1 5; do
    run eval --model "$work/tiny-modernbert" "${common[@]}" --predictions "$work/again.jsonl" --per-device-eval-batch-size $batch
    cmp -s "$work/scores.jsonl" "$work/again.jsonl"
    check $? "in batches of $batch the same scores" "$err"
done
run eval --model "$work/tiny-modernbert" --data "$work/bare.jsonl" --max-seq-length 32 --predictions "$work/bare.out"
cmp -s <(sed 's/"label".*"logits"/"logits"/' "$work/scores.jsonl") "$work/bare.out"
check $? "without labels the same scores" "$err"

# Raw logits, said in three ways.
for way in sentence_transformers older version6; do
    cp -r "$work/tiny-bert" "$work/$way"
    python3 - "$work/$way" $way <<'P'
import json, sys
path, identity = sys.argv[1] + "/config.json", "torch.nn.modules.linear.Identity"
config = json.load(open(path))
del config["sentence_transformers"]
if sys.argv[2] == "sentence_transformers":
    config["sentence_transformers"] = {"version": "5.0", "activation_fn": identity}
elif sys.argv[2] == "older":
    config["sbert_ce_default_activation_function"] = identity
else:
    config["problem_type"] = None
    json.dump({"model_type": "CrossEncoder", "activation_fn": identity, "prompts": {}},
              open(sys.argv[1] + "/config_sentence_transformers.json", "w"))
json.dump(config, open(path, "w"))
P
    run eval --model "$work/$way" "${common[@]}" --predictions "$work/scores.jsonl" --json
    [[ $code -eq 0 ]] && found=$(python3 "$work/rank.py" "$out" "$work/scores.jsonl" "$work/pairs.jsonl" raw 2>&1)
    check $? "$way: scores are logits" "$found$err"
done
run train --model "$work/version6" "${common[@]}" --max-steps 1 --output-dir "$work/kept" --quiet
[[ $code -eq 0 ]] && grep -q '"activation_fn": "torch.nn.modules.linear.Identity"' "$work/kept/config.json"
check $? "a model that is trained further keeps its scores" "$err"

expect 2 'reranking is for models that read texts' train --task reranking --model tiny-mlp --data "$work/pairs.jsonl" --max-steps 1 \
    --output-dir "$work/none"
sed '3s/"label": [0-9.]*/"label": 1.5/' "$work/pairs.jsonl" >"$work/beyond.jsonl"
expect 4 'a label of reranking .*: found 1.5, expected a number from 0 to 1' train --task reranking --model tiny-bert --quiet \
    --data "$work/beyond.jsonl" --max-steps 1 --output-dir "$work/none"
sed -i 's/linear.Identity/activation.Tanh/' "$work/older/config.json"
expect 4 'activation_fn.*Tanh' eval --model "$work/older" "${common[@]}"
expect 2 'reranking 1' train --task reranking --num-labels 2 --model tiny-bert "${common[@]}" --max-steps 1 --output-dir "$work/none"
finish
