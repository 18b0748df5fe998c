#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/speech/generate.jsonl: what transformers' generate writes of the sounds of tests/golden/speech, in float64,
under what a generation_config.json says. A line each:

  config   the keys that are added to the model's generation_config.json
  options  the program's options
  ids      the ids that follow the prefix, without the end, of the first three sounds

Run from the repository root: tools/golden/speech/generate.py (needs torch, transformers, safetensors; some seconds).
"""
import json
import os
import shutil
import tempfile

import torch
import transformers
from safetensors.torch import load_file

GOLDEN = "tests/golden/speech/"


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    tok = transformers.PreTrainedTokenizerFast.from_pretrained(GOLDEN)
    name = {t: tok.convert_tokens_to_ids(f"<|{t}|>") for t in
            "endoftext startoftranscript en zh de translate transcribe notimestamps".split()}
    with open(GOLDEN + "greedy", encoding="utf-8") as file:
        likely = sorted({int(i) for line in file for i in line.split()} - {name["endoftext"]})
    languages = {"lang_to_id": {f"<|{t}|>": name[t] for t in ("en", "zh", "de")}, "is_multilingual": True,
                 "task_to_id": {t: name[t] for t in ("transcribe", "translate")}, "no_timestamps_token_id": name["notimestamps"]}
    both = {"language": "de", "task": "translate"}
    cases = [
        ({**languages, "suppress_tokens": likely}, both),
        ({**languages, "begin_suppress_tokens": [*likely, name["endoftext"]]}, both),
        ({**languages, "suppress_tokens": likely[::2], "begin_suppress_tokens": likely[1::2]}, {}),
        ({**languages, "suppress_tokens": likely[1::2]}, {"language": "zh"}),
        ({**languages, "suppress_tokens": likely}, {"task": "translate"}),
        ({**languages, "forced_decoder_ids": [[1, None], [2, name["transcribe"]]], "suppress_tokens": likely}, {}),
        ({**languages, "forced_decoder_ids": [[1, name["de"]], [2, name["translate"]], [3, name["notimestamps"]]],
          "suppress_tokens": likely[::3]}, {}),
        ({"no_timestamps_token_id": name["notimestamps"], "forced_decoder_ids": [[1, name["notimestamps"]]],
          "suppress_tokens": likely[::2]}, {}),
    ]
    features = load_file(GOLDEN + "features.safetensors")["features"].double().transpose(1, 2)
    with open(GOLDEN + "generate.jsonl", "w", encoding="utf-8") as out:
        for config, asked in cases:
            with tempfile.TemporaryDirectory() as folder:
                for file in ("config.json", "model.safetensors"):
                    shutil.copy(GOLDEN + file, folder)
                with open(GOLDEN + "generation_config.json", encoding="utf-8") as file:
                    whole = {**json.load(file), **config}
                whole.pop("_from_model_config")
                with open(os.path.join(folder, "generation_config.json"), "w", encoding="utf-8") as file:
                    json.dump(whole, file)
                model = transformers.WhisperForConditionalGeneration.from_pretrained(folder, dtype=torch.float64)
                rows = []
                for i in range(3):
                    ids = model.generate(input_features=features[i : i + 1], return_timestamps=False, do_sample=False,
                                         max_length=32, **asked)[0].tolist()
                    rows.append(ids[: ids.index(name["endoftext"])] if name["endoftext"] in ids else ids)
            options = [w for k, v in asked.items() for w in ({"language": "--language", "task": "--task-token"}[k], v)]
            print(json.dumps({"config": config, "options": options, "ids": rows}), file=out)


if __name__ == "__main__":
    main()
