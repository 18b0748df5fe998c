#!/bin/bash
# SPDX-License-Identifier: MIT
# The model card of a run: what its record says, in CycloneDX's form, and nothing where the record does not hold.
# verifies record-11.0ab5
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 300; i++) print i, "bottles of", (i * i) % 7 ? "ale" : "beer" }' >"$work/text"
train=(train --model tiny --data "$work/text" --max-seq-length 32 --threads 1 --quiet --json --max-steps 4)
expect 0 '' "${train[@]}" --validation-split 0.1 --eval-steps 2 --output-dir "$work/run"
expect 0 'one.cdx.json' export --model "$work/run" --card "$work/one.cdx.json"
expect 0 '"card": ".*two.cdx.json"' export --model "$work/run/" --card "$work/two.cdx.json" --json
cmp -s "$work/one.cdx.json" "$work/two.cdx.json"
check $? "the same record, the same card"
cat >"$work/look.py" <<'P'
import hashlib, json, re, sys
card, run = json.load(open(sys.argv[1])), sys.argv[2]
lines = [json.loads(l) for l in open(run + "/record.jsonl")]
first, last, evals = lines[0], lines[-1], [l for l in lines if "eval" in l]
model = card["metadata"]["component"]
sha = lambda f: hashlib.sha256(open(f, "rb").read()).hexdigest()
assert card["bomFormat"] == "CycloneDX" and card["specVersion"] == "1.6" and card["version"] == 1
assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}", card["serialNumber"])
assert model["type"] == "machine-learning-model" and model["name"] == "run" and model["version"] == "step 4"
assert model["hashes"] == [{"alg": "SHA-256", "content": sha(run + "/model.safetensors")}]
what = model["modelCard"]["modelParameters"]
assert what["approach"]["type"] == "self-supervised" and what["task"] == "causal-lm" and what["modelArchitecture"] == "gpt2"
parts = {c["bom-ref"]: c for c in card["components"]}
for ref in what["datasets"]:
    assert parts[ref["ref"]]["type"] == "data", ref
assert parts["data-1"]["name"] == "text" and parts["data-1"]["hashes"][0]["content"] == first["data"][0]["sha256"]
exported = [c for ref, c in parts.items() if ref.startswith("files-")]
assert [(c["name"], c["hashes"][0]["content"]) for c in exported] == [(f["name"], f["sha256"]) for f in last["files"]]
metrics = model["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
assert float(metrics[0]["value"]) == evals[-1]["loss"] and metrics[0]["slice"] == "evaluation after step 4", metrics
told = {p["name"]: p["value"] for p in model["properties"]}
assert told["bedplate:record_chain"] == last["chain"] and told["bedplate:source"] == first["source"]
for key, value in first["options"].items():
    assert told["bedplate:" + key] == value, key
P
python3 "$work/look.py" "$work/one.cdx.json" "$work/run" >"$work/said" 2>&1
check $? "what the card says is what the record says" "$(tail -3 "$work/said")"

# An adapter's card is that of its own run; beside a model that is written as well.
expect 0 '' train --model "$work/run" --data "$work/text" --lora-r 2 --max-seq-length 32 --max-steps 2 --threads 1 --quiet \
    --target-modules '.*\.(c_attn|c_proj)' --output-dir "$work/tuned"
expect 0 '' export --model "$work/run" --adapter "$work/tuned" --merge --to "$work/merged" --card "$work/tuned.cdx.json"
grep -q '"version":"step 2"' "$work/tuned.cdx.json" && [[ -f $work/merged/model.safetensors ]]
check $? "an adapter's card, and the merged model" "$err"
python3 - "$work/tuned.cdx.json" >"$work/said" 2>&1 <<'P'
import json, sys
told = {p["name"]: p["value"] for p in json.load(open(sys.argv[1]))["metadata"]["component"]["properties"]}
assert told["bedplate:target-modules"] == r".*\.(c_attn|c_proj)", told["bedplate:target-modules"]
P
check $? "texts with escapes" "$(cat "$work/said")"
for python in python3 ${BP_PYTHON:-}; do
    "$python" -c 'import cyclonedx.validation.json' 2>/dev/null || continue
    "$python" - "$work/one.cdx.json" "$work/tuned.cdx.json" >"$work/said" 2>&1 <<'P'
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
for path in sys.argv[1:]:
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(path).read())
    assert wrong is None, wrong
P
    check $? "CycloneDX's own validator takes them" "$(tail -5 "$work/said")"
done

# What is refused: no record, a run that goes on, a changed record, changed weights; the old card stays.
cp "$work/one.cdx.json" "$work/old"
expect 4 'merged: the directory holds no record' export --model "$work/merged" --card "$work/one.cdx.json"
expect 0 '' "${train[@]}" --stop-at-step 2 --output-dir "$work/half"
expect 4 'half: the run has not ended' export --model "$work/half" --card "$work/one.cdx.json"
cp -r "$work/run" "$work/changed"
sed -i '2s/"samples":8/"samples":9/' "$work/changed/record.jsonl"
expect 4 'record.jsonl: .*chain' export --model "$work/changed" --card "$work/one.cdx.json"
cp -r "$work/run" "$work/other"
printf x | dd of="$work/other/model.safetensors" bs=1 seek=9000 conv=notrunc status=none
expect 4 'model.safetensors: the file is not the one that the run exported' export --model "$work/other" --card "$work/one.cdx.json"
expect 2 '--model: the option is needed' export --card "$work/one.cdx.json"
cmp -s "$work/old" "$work/one.cdx.json"
check $? "the earlier card is as it was"
expect 6 'none/card' export --model "$work/run" --card "$work/none/card"
finish
