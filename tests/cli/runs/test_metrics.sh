#!/bin/bash
# SPDX-License-Identifier: MIT
# Every number of an evaluation, task by task, in every place that shows it: the log, its JSON, the summary, TensorBoard's
# files, the metrics file, events, watch, report and `eval`. The numbers of a task are named here; together they are those
# of the program's table (tools/bedplate/runs/metric.c).
. "$(dirname "$0")/../lib.sh"
# verifies face-62.6c0e

for ((i = 0; i < 12; i++)); do
    echo "some text $i,c$((i % 6))"
    echo "$((i % 2)),$i" >>"$work/rows.csv"
    echo "{\"text\": \"some text $i\", \"label\": $((i * i)).5}" >>"$work/numbers.jsonl"
    echo "{\"text\": \"some text $i\", \"label\": [\"red\"$([[ $((i % 3)) -eq 0 ]] && echo ', "blue"')]}" >>"$work/lists.jsonl"
    echo "{\"tokens\": [\"a\", \"b$i\"], \"ner_tags\": [\"O\", \"B-x\"]}" >>"$work/words.jsonl"
    echo "{\"sentence1\": \"a $i\", \"sentence2\": \"b $i\", \"score\": 0.$((i + 10))}" >>"$work/scores.jsonl"
    echo "{\"anchor\": \"a $i\", \"positive\": \"b $i\"}" >>"$work/two.jsonl"
    echo "{\"prompt\": \"q $i\", \"chosen\": \"a\", \"rejected\": \"b\"}" >>"$work/pairs.jsonl"
    echo "{\"prompt\": \"q $i\", \"completion\": \"a\", \"label\": $([[ $((i % 2)) -eq 0 ]] && echo true || echo false)}" >>"$work/kto.jsonl"
    answer='"text": ["words"], "answer_start": [5]'
    [[ $((i % 3)) -ne 0 ]] || answer='"text": [], "answer_start": []'
    echo "{\"question\": \"what\", \"context\": \"some words $i\", \"answers\": {$answer}}" >>"$work/asks.jsonl"
    echo "$i bottles of ale on the wall, and $i more of beer" >>"$work/text.txt"
done >"$work/classes"
{ echo text,label && cat "$work/classes"; } >"$work/classes.csv"
mkdir -p "$work/answers" "$work/pets/cat" "$work/pets/dog" "$work/net" "$work/same"
cp tests/golden/answers/config.json tests/golden/tokenizers/bert_uncased/tokenizer.json "$work/answers"
for i in 0 1 2 3; do
    for class in cat dog; do cp tests/golden/pictures/colour.ppm "$work/pets/$class/$i.ppm"; done
done
echo '{"model_type": "cnn", "image_height": 8, "image_width": 10, "num_channels": 3, "layers": ["conv 4 3", "mean-pool all"]}' >"$work/net/config.json"
echo '{"model_type": "mlp", "input_size": 2, "hidden_sizes": [3]}' >"$work/same/config.json"
run train --model tiny --data "$work/text.txt" --max-seq-length 16 --max-steps 1 --quiet --output-dir "$work/teacher"
run distill --model "$work/teacher" --data "$work/text.txt" --max-seq-length 16 --output "$work/said"
check $code "a teacher" "$err"

cat >"$work/look.py" <<'P'
"""look.py WORK SOURCE TASK NAME..: the numbers of a task in every place; prints what is missing."""
import json, re, struct, sys
work, source, task, wanted = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
table = dict(re.findall(r'"([\w/]+)",\s+(?:"([^"]+)"|NULL),\s+metric_\w+,\s+(?:LESS|MORE)\}', open(source).read()))
read = lambda name: open(f"{work}/{name}", errors="replace").read()
lines = [json.loads(line) for line in read("json").splitlines() if line.startswith("{")]
evaluation = [line for line in lines if "eval_tokens" in line][-1]
found = {k[5:]: v for k, v in evaluation.items() if k.startswith("eval_") and k[5:] in table}
bad = []
if sorted(found) != sorted(wanted):
    bad.append(f"the evaluation's line has {sorted(found)}")
raw = open(f"{work}/board", "rb").read()
after = lambda text, pattern: [float(x) for x in re.findall(pattern, text)]
near = lambda a, b, by: a is not None and b is not None and abs(a - b) <= by * max(1, abs(b))
log, prom, watch, report, said, judged = map(read, ("log", "prom", "watch", "report", "events", "eval.txt"))
events = [json.loads(line) for line in said.splitlines() if '"event":"eval"' in line]
told = json.loads(read("eval.json").splitlines()[-1])
last = [line for line in log.splitlines() if line.startswith("eval loss ")][-1]
for name in wanted:
    value = found.get(name)
    words = re.escape(table[name] or "loss")
    number = r" (-?[\d.]+)(?:,|$| per)"
    at = raw.rfind(b"eval/" + name.encode() + b"\x15")
    tag = struct.unpack("<f", raw[at + 6 + len(name):at + 10 + len(name)])[0] if at >= 0 else None
    gauge = after(prom, r'bedplate_eval_metric\{run="[^"]*",metric="%s"\} (\S+)' % re.escape(name))
    places = {
        "the log": near((after(last, r"(?:^|[ ])" + words + number) or [None])[0], value, 1e-3),
        "the summary": near(lines[-1].get("eval_" + name), value, 1e-8),
        "the event file": near(tag, value, 1e-6),
        "the metrics file": bool(gauge) and near(gauge[-1], value, 1e-8),
        "events.jsonl": bool(events) and near(events[-1].get(name), value, 1e-6),
        "watch": name == "loss" and " eval " in watch or f"{name} {value:.4f}" in watch,
        "report": (f"Evaluation: {name}" if name != "loss" else "evaluation loss") in report,
        "eval --json": near(told.get(name), value, 1e-5) or task == "distill",
        "eval": re.search(words + " -?[0-9]", judged) is not None,
    }
    bad += [f"{name} ({value}) is not in {place}" for place, there in places.items() if not there]
print("\n".join(bad))
sys.exit(1 if bad else 0)
P

# every TASK MODEL DATA NAME.. [-- OPTION..]: a training whose evaluations have these numbers.
all=()
every() {
    local task=$1 model=$2 data=$3 names=() common
    shift 3
    while [[ $# -gt 0 && $1 != -- ]]; do
        names+=("$1")
        shift
    done
    shift
    all+=("${names[@]}")
    common=(train --model "$model" --data "$work/$data" --eval-data "$work/$data" --max-steps 2 --eval-steps 1
        --per-device-train-batch-size 2 --per-device-eval-batch-size 2 --threads 1 "$@")
    rm -rf "$work/run" "$work/other"
    run "${common[@]}" --output-dir "$work/other" --report-to none
    cp "$work/.err" "$work/log"
    check $code "$task: trains" "$err"
    run "${common[@]}" --output-dir "$work/run" --metrics "$work/prom" --report-to tensorboard --json
    cp "$work/.out" "$work/json"
    cat "$work"/run/runs/*/events.out* "$work"/run/runs/events.out* "$work"/run/events.out* >"$work/board" 2>"$work/none"
    cp "$work/run/events.jsonl" "$work/events"
    run watch "$work/run"
    cp "$work/.out" "$work/watch"
    run report "$work/run"
    cp "$work/run/report.html" "$work/report"
    [[ $task != dpo && $task != kto ]] || judge+=(--ref-model "$work/teacher")
    while [[ $# -gt 0 ]]; do # `eval` has no option of a teacher
        case $1 in
        --distill) shift ;;
        *) judge+=("$1") ;;
        esac
        shift
    done
    run eval --model "$work/run" --data "$work/$data" --per-device-eval-batch-size 2 "${judge[@]}"
    cp "$work/.out" "$work/eval.txt"
    run eval --model "$work/run" --data "$work/$data" --per-device-eval-batch-size 2 "${judge[@]}" --json
    cp "$work/.out" "$work/eval.json"
    judge=()
    check $code "$task: evaluates" "$err"
    found=$(python3 "$work/look.py" "$work" tools/bedplate/runs/metric.c "$task" "${names[@]}" 2>&1)
    check $? "$task: every number in every place" "$found"
}
judge=()
short=(-- --max-seq-length 16)
words=(perplexity bits_per_token)
every causal-lm tiny text.txt loss "${words[@]}" token_accuracy "${short[@]}" --token-accuracy
ln -s "$PWD/tests/golden/speech/sounds" "$work/sounds"
cp tests/golden/speech/rows.jsonl "$work/speech.jsonl"
every speech tests/golden/speech speech.jsonl loss "${words[@]}" wer "${short[@]}"
every masked-lm tiny-bert text.txt loss "${words[@]}" token_accuracy "${short[@]}" --task masked-lm --token-accuracy
every distill tiny text.txt loss "${words[@]}" "${short[@]}" --distill "$work/said"
every classification tiny-bert classes.csv loss accuracy accuracy_top_5 f1_macro matthews_correlation "${short[@]}"
every multi-label tiny-bert lists.jsonl loss accuracy f1_micro "${short[@]}"
every regression tiny-bert numbers.jsonl loss pearson spearman "${short[@]}" --task regression
every reranking tiny-bert scores.jsonl loss accuracy average_precision map mrr_at_10 ndcg_at_10 "${short[@]}" --task reranking
every token-classification tiny-bert words.jsonl loss accuracy precision recall f1 "${short[@]}"
every question-answering "$work/answers" asks.jsonl loss exact_match f1 HasAns_exact HasAns_f1 NoAns_exact NoAns_f1 -- \
    --max-seq-length 24 --doc-stride 8 --task question-answering --version-2-with-negative
every embedding tiny-bert scores.jsonl loss spearman_cosine pearson_cosine "${short[@]}" --task embedding
every retrieval tiny-bert two.jsonl loss recall_at_1 recall_at_3 recall_at_5 recall_at_10 mrr_at_10 "${short[@]}" --task embedding
ln -s "$PWD/tests/golden/image_text/pictures" "$work/pictures"
cp tests/golden/image_text/metadata.jsonl "$work/metadata.jsonl"
every image-text tests/golden/image_text metadata.jsonl loss recall_at_1 recall_at_3 recall_at_5 recall_at_10 mrr_at_10 \
    image_recall_at_1 image_recall_at_5 image_recall_at_10 --
pair=(loss rewards/margins rewards/chosen rewards/rejected logps/chosen logps/rejected)
every dpo "$work/teacher" pairs.jsonl "${pair[@]}" rewards/accuracies -- --max-seq-length 16 --task dpo
every orpo tiny pairs.jsonl "${pair[@]}" rewards/accuracies nll_loss -- --max-seq-length 16 --task orpo
every kto "$work/teacher" kto.jsonl "${pair[@]}" kl -- --max-seq-length 16 --task kto
every images "$work/net" pets loss accuracy f1_macro matthews_correlation --
every reconstruction "$work/same" rows.csv loss -- --task reconstruction

# aux_loss is that of mixtures of experts: models/test_experts.sh.
all+=(aux_loss)
python3 - tools/bedplate/runs/metric.c "${all[@]}" >"$work/table" 2>&1 <<'P'
import re, sys
rows = re.findall(r'\{METRIC_[^{}]*?"([\w/]+)",\s+(?:"[^"]+"|NULL),\s+metric_\w+,\s+(?:LESS|MORE)\}', open(sys.argv[1]).read())
missing, unknown = set(rows) - set(sys.argv[2:]), set(sys.argv[2:]) - set(rows)
print(len(rows), "rows; in no task here:", missing, "not in the table:", unknown)
sys.exit(1 if missing or unknown or len(rows) < 30 else 0)
P
check $? "the table has these numbers and no others" "$(cat "$work/table")"
finish
