#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/families/{bert,roberta,xlm_roberta,distilbert,electra,mpnet,nomic_bert,modernbert}_*.safetensors: what transformers' classes compute in
float64, in the files of tools/golden/families.py, with their config.json in the tensor `config`.

Run from the repository root: tools/golden/encoders.py (needs what quantised.py needs; some seconds on one core).
"""
import json
import os
import sys

import numpy as np
import peft
import torch
import transformers

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import families  # noqa: E402

MASKED, CLASSES, REGRESSION, TOKENS, ANSWERS, RANKING = 1, 2, 4, 5, 6, 9
TASK_CLASS = {MASKED: "ForMaskedLM", CLASSES: "ForSequenceClassification", REGRESSION: "ForSequenceClassification",
              RANKING: "ForSequenceClassification", TOKENS: "ForTokenClassification", ANSWERS: "ForQuestionAnswering"}


def bert(v, **more):
    return dict(vocab_size=v["vocabulary"], max_position_embeddings=v["positions"], hidden_size=v["width"],
                num_hidden_layers=v["layers"], num_attention_heads=v["heads"], intermediate_size=v["inner"],
                hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, pad_token_id=v["pad"],
                attn_implementation="sdpa", **more)


def roberta(v, **more):
    return dict(vocab_size=v["vocabulary"], max_position_embeddings=v["positions"] + v["pad"] + 1, hidden_size=v["width"],
                num_hidden_layers=v["layers"], num_attention_heads=v["heads"], intermediate_size=v["inner"],
                layer_norm_eps=1e-5, type_vocab_size=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                pad_token_id=v["pad"], attn_implementation="sdpa", **more)


def distilbert(v, **more):
    return dict(vocab_size=v["vocabulary"], max_position_embeddings=v["positions"], dim=v["width"], n_layers=v["layers"],
                n_heads=v["heads"], hidden_dim=v["inner"], dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0, qa_dropout=0.0,
                pad_token_id=v["pad"], attn_implementation="sdpa", **more)


def electra(v, **more):
    return dict(vocab_size=v["vocabulary"], max_position_embeddings=v["positions"], embedding_size=v["embedding"],
                hidden_size=v["width"], num_hidden_layers=v["layers"], num_attention_heads=v["heads"],
                intermediate_size=v["inner"], layer_norm_eps=1e-12, type_vocab_size=2, hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0, pad_token_id=v["pad"], attn_implementation="sdpa", **more)


def mpnet(v, **more):
    return dict(vocab_size=v["vocabulary"], max_position_embeddings=v["positions"] + 2, hidden_size=v["width"],
                num_hidden_layers=v["layers"], num_attention_heads=v["heads"], intermediate_size=v["inner"],
                layer_norm_eps=v.get("epsilon", 1e-5), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                pad_token_id=v["pad"], attn_implementation="eager", **more)


def deberta(v, **more):
    return dict(vocab_size=v["vocabulary"], max_position_embeddings=v["positions"], hidden_size=v["width"],
                num_hidden_layers=v["layers"], num_attention_heads=v["heads"], intermediate_size=v["inner"],
                layer_norm_eps=v.get("epsilon", 1e-7), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                type_vocab_size=v.get("types", 0), pad_token_id=v["pad"], relative_attention=True, share_att_key=True,
                position_biased_input=False, pos_att_type=["p2c", "c2p"], norm_rel_ebd="layer_norm",
                position_buckets=v["buckets"], max_relative_positions=v.get("distance", -1), **more)


def nomic_bert(v, **more):
    return dict(vocab_size=v["vocabulary"], max_position_embeddings=v["positions"], hidden_size=v["width"],
                num_hidden_layers=v["layers"], num_attention_heads=v["heads"], intermediate_size=v["inner"],
                layer_norm_eps=v.get("epsilon", 1e-12), type_vocab_size=v.get("types", 2), pad_token_id=v["pad"],
                rope_parameters={"rope_type": "default", "rope_theta": v.get("rope_theta", 1000.0)}, head_dim=v.get("head_dim"),
                attn_implementation="sdpa", **more)


def nomic_names(tensors):
    """Names and layouts of nomic-embed-text's files, as transformers saves them too."""
    words = [(".layers.", ".encoder.layers."), ("embeddings.LayerNorm", "emb_ln"), ("self_attn.o_proj", "attn.out_proj"),
             ("up_proj", "fc11"), ("gate_proj", "fc12"), ("down_proj", "fc2"), ("post_attention_layernorm", "norm1"),
             ("post_mlp_layernorm", "norm2")]
    named = {}
    for own, tensor in tensors.items():
        name = own
        for ours, theirs in words:
            name = name.replace(ours, theirs)
        if "self_attn.q_proj.weight" in name:
            parts = [tensors[own.replace(".q_proj", f".{k}_proj")] for k in "qkv"]
            named[name.replace("self_attn.q_proj", "attn.Wqkv")] = np.ascontiguousarray(np.concatenate(parts))
        elif "self_attn." not in name:
            named[name] = tensor
    return named


def modernbert(v, **more):
    return dict(vocab_size=v["vocabulary"], max_position_embeddings=v["positions"], hidden_size=v["width"],
                num_hidden_layers=v["layers"], num_attention_heads=v["heads"], intermediate_size=v["inner"],
                local_attention=v["local"], pad_token_id=v["pad"], bos_token_id=1, eos_token_id=2, cls_token_id=1,
                sep_token_id=2, classifier_pooling="mean" if v.get("mean") else "cls", attn_implementation="sdpa",
                rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 1000.0},
                                 "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}, **more)


KINDS = {"bert": ("Bert", bert), "modernbert": ("ModernBert", modernbert), "roberta": ("Roberta", roberta), "xlm_roberta": ("XLMRoberta", roberta), "distilbert": ("DistilBert", distilbert),
         "electra": ("Electra", electra), "mpnet": ("MPNet", mpnet), "nomic_bert": ("NomicBert", nomic_bert), "deberta": ("DebertaV2", deberta)}


def turned(q, k, cos, sin, unsqueeze_dim=1):
    """ModernBERT's rotation, which transformers computes in float32 whatever the type."""
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    half = transformers.models.modernbert.modeling_modernbert.rotate_half
    return q * cos + half(q) * sin, k * cos + half(k) * sin


transformers.models.modernbert.modeling_modernbert.apply_rotary_pos_emb = turned


def samples(v, lengths, generator):
    """Padding is what the configuration says; no other token is it."""
    ids, mask = families.samples(v, lengths, generator, low=max(3, v["pad"] + 1))
    return torch.where(mask == 1, ids, v["pad"]), mask


def labels_of(v, ids, mask, generator):
    if v["task"] in (MASKED, TOKENS):
        there = (torch.rand(ids.shape, generator=generator) < 0.5) & (mask == 1)
        there[0, 0] = True
        own = ids if v["task"] == MASKED else torch.randint(v["classes"], ids.shape, generator=generator)
        return torch.where(there, own, -100)
    if v["task"] == CLASSES:
        return torch.randint(v["classes"], (len(ids),), generator=generator)
    if v["task"] == ANSWERS: # the first and the last token
        return torch.sort((torch.rand((len(ids), 2), generator=generator) * mask.sum(1)[:, None]).long())[0]
    if v["task"] == RANKING: # chances, against which binary cross entropy is taken
        return torch.rand((len(ids),), generator=generator)
    return torch.randn((len(ids),), generator=generator)


def case(name, kind, v, lengths, seed):
    generator = torch.Generator().manual_seed(seed)
    stem, config_of = KINDS[kind]
    more = {"num_labels": v["classes"]} if v.get("classes") else {}
    if v["task"] in families.PROBLEM:
        more["problem_type"] = families.PROBLEM[v["task"]]
    if v["task"] == RANKING:
        more.update(problem_type="multi_label_classification", sentence_transformers={"activation_fn": "torch.nn.Sigmoid"})
    if v.get("act"):
        more["activation" if kind == "distilbert" else "hidden_act"] = v["act"]
    config = getattr(transformers, stem + "Config")(**config_of(v, **more))
    config.architectures = [stem + TASK_CLASS[v["task"]]]
    model = families.draw(getattr(transformers, stem + TASK_CLASS[v["task"]])(config), generator)
    finish = families.finish
    if v.get("form"): # dense layers have the values of their codes
        import quantised # needs bitsandbytes
        quantised.FORM, finish = v["form"], quantised.finish
        quantised.take_codes(model)
    if v.get("rank"):
        every = {"distilbert": ["q_lin", "k_lin", "v_lin", "out_lin", "lin1", "lin2"], "modernbert": ["Wqkv", "Wo", "Wi"],
                 "mpnet": ["q", "k", "v", "o", "intermediate.dense", "output.dense"],
                 "nomic_bert": ["o_proj", "up_proj", "gate_proj", "down_proj"], "t5": ["q", "k", "v", "o", "wi_0", "wi_1", "wo"],
                 "deberta": ["query_proj", "key_proj", "value_proj", "intermediate.dense", "output.dense"]}.get(
            kind, ["query", "key", "value", "intermediate.dense", "output.dense"])
        model = peft.get_peft_model(model, peft.LoraConfig(r=v["rank"], lora_alpha=v["alpha"], lora_dropout=0.0,
                                                           target_modules=every, task_type="SEQ_CLS")).double()
        with torch.no_grad():
            for n, p in model.named_parameters():
                if ".lora_" in n:
                    p.copy_((torch.randn(p.shape, generator=generator, dtype=torch.float64) * 0.2).float().double())
    if kind == "modernbert" and v["task"] != RANKING: # whose own loss is in float32
        model.loss_function = lambda logits, labels, **_: torch.nn.functional.cross_entropy(
            logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))
    ids, mask = samples(v, lengths, generator)
    labels = labels_of(v, ids, mask, generator)
    inputs = dict(input_ids=ids, attention_mask=mask)
    numbers = v["task"] in (REGRESSION, RANKING)
    target = labels.double() if numbers else labels
    if v["task"] == RANKING:
        target = target[:, None]
    asks = v["task"] == ANSWERS
    found = model(**inputs)
    logits = families.single(torch.stack([found.start_logits, found.end_logits], 1) if asks else found.logits)
    written = json.loads(config.to_json_string(use_diff=False))
    if v["task"] == MASKED: # the classes of a head that is not there
        written = {k: w for k, w in written.items() if k not in ("id2label", "label2id")}
    text = json.dumps(written)
    tensors = {"tokens": ids.numpy().astype(np.int32), "lengths": np.array(lengths, np.int32),
               "labels": labels.numpy().view(np.int32) if numbers else labels.numpy().astype(np.int32),
               "logits": logits.reshape(-1, logits.shape[-1]),
               "config": np.frombuffer(text.encode(), np.uint8)}
    if kind == "nomic_bert":
        save = families.save_file
        families.save_file = lambda tensors, path, metadata: save(nomic_names(tensors), path, metadata=metadata)
    aim = {"start_positions": labels[:, 0], "end_positions": labels[:, 1]} if asks else {"labels": target}
    finish("families/" + name, model, lambda _: model(**inputs, **aim).loss, v, tensors)
    if kind == "nomic_bert":
        families.save_file = save


def main():
    """All, or those whose names begin with a word of the command line."""
    global case
    torch.set_num_threads(1)
    if sys.argv[1:]:
        every = case
        case = lambda name, *more: name.startswith(tuple(sys.argv[1:])) and every(name, *more)
    own = dict(vocabulary=41, positions=12, width=16, layers=2, heads=2, inner=24, batch=4, sequence=9, accumulation=1,
               pad=1)
    case("roberta_masked", "roberta", {**own, "task": MASKED}, [9, 4, 7, 6], 71)
    case("roberta_classes", "roberta", {**own, "task": CLASSES, "classes": 3}, [9, 4, 1, 6], 72)
    case("roberta_tokens_two_micros", "roberta", {**own, "task": TOKENS, "classes": 5, "batch": 2, "accumulation": 2},
         [9, 2, 7, 3], 73)
    case("roberta_lora", "roberta", {**own, "task": CLASSES, "classes": 2, "rank": 2, "alpha": 4, "all_linear": 1},
         [9, 4, 1, 6], 74)
    case("xlm_roberta_whole", "xlm_roberta", {**own, "task": REGRESSION, "classes": 1, "positions": 9, "heads": 4},
         [9, 9, 2, 5], 75)
    case("roberta_ranking", "roberta", {**own, "task": RANKING, "classes": 1}, [9, 4, 1, 6], 110)
    case("mpnet_masked", "mpnet", {**own, "task": MASKED}, [9, 4, 7, 6], 120)
    case("mpnet_classes", "mpnet", {**own, "task": CLASSES, "classes": 3, "heads": 4, "epsilon": 1e-12}, [9, 4, 1, 6], 121)
    case("mpnet_tokens_two_micros", "mpnet", {**own, "task": TOKENS, "classes": 5, "batch": 2, "accumulation": 2},
         [9, 2, 7, 3], 122)
    case("mpnet_lora", "mpnet", {**own, "task": CLASSES, "classes": 2, "rank": 2, "alpha": 4, "all_linear": 1},
         [9, 4, 1, 6], 123)
    case("mpnet_ranking", "mpnet", {**own, "task": RANKING, "classes": 1, "layers": 3, "act": "gelu_new"}, [9, 4, 1, 6], 124)
    case("mpnet_relu", "mpnet", {**own, "task": MASKED, "act": "relu", "heads": 1, "layers": 1}, [9, 4, 7, 6], 125)
    case("mpnet_far", "mpnet", {**own, "task": REGRESSION, "classes": 1, "positions": 160, "sequence": 150, "batch": 3},
         [150, 131, 40], 126) # distances of every bucket
    own["pad"] = 0
    case("nomic_bert_classes", "nomic_bert", {**own, "task": CLASSES, "classes": 3}, [9, 4, 1, 6], 130)
    case("nomic_bert_tokens_two_micros", "nomic_bert", {**own, "task": TOKENS, "classes": 5, "batch": 2, "accumulation": 2,
                                                        "heads": 4, "rope_theta": 500.0}, [9, 2, 7, 3], 131)
    case("nomic_bert_regression", "nomic_bert", {**own, "task": REGRESSION, "classes": 1, "heads": 1, "layers": 3,
                                                 "epsilon": 1e-5}, [9, 9, 2, 5], 132)
    case("nomic_bert_ranking", "nomic_bert", {**own, "task": RANKING, "classes": 1, "layers": 1, "types": 1}, [9, 4, 1, 6], 133)
    case("nomic_bert_heads", "nomic_bert", {**own, "task": CLASSES, "classes": 3, "head_dim": 6}, [9, 4, 1, 6], 134)
    far = {**own, "buckets": 8, "distance": 12, "positions": 40}
    case("deberta_masked", "deberta", {**far, "task": MASKED}, [9, 4, 7, 6], 150)
    case("deberta_classes", "deberta", {**far, "task": CLASSES, "classes": 3, "heads": 4, "layers": 3}, [9, 4, 1, 6], 151)
    case("deberta_tokens_two_micros", "deberta", {**far, "task": TOKENS, "classes": 5, "batch": 2, "accumulation": 2,
                                                  "types": 2}, [9, 2, 7, 3], 152)
    case("deberta_lora", "deberta", {**far, "task": CLASSES, "classes": 2, "rank": 2, "alpha": 4, "all_linear": 1},
         [9, 4, 1, 6], 153)
    case("deberta_ranking", "deberta", {**far, "task": RANKING, "classes": 1, "buckets": 4, "act": "gelu_new"}, [9, 4, 1, 6],
         154)
    case("deberta_far", "deberta", {**far, "task": REGRESSION, "classes": 1, "positions": 60, "sequence": 50, "buckets": 16,
                                    "distance": -1, "heads": 1, "inner": 16}, [50, 31, 7, 50], 155) # every bucket
    case("bert_ranking", "bert", {**own, "task": RANKING, "classes": 1, "rank": 2, "alpha": 4, "all_linear": 1}, [9, 4, 1, 6], 111)
    case("distilbert_masked", "distilbert", {**own, "task": MASKED}, [9, 4, 7, 6], 76)
    case("distilbert_classes", "distilbert", {**own, "task": CLASSES, "classes": 4, "heads": 1}, [9, 4, 1, 6], 77)
    case("distilbert_tokens", "distilbert", {**own, "task": TOKENS, "classes": 5}, [9, 2, 7, 3], 78)
    case("distilbert_lora", "distilbert", {**own, "task": CLASSES, "classes": 2, "rank": 2, "alpha": 4, "all_linear": 1},
         [9, 4, 1, 6], 91)
    case("bert_relu", "bert", {**own, "task": MASKED, "act": "relu"}, [9, 4, 7, 6], 97)
    case("bert_tanh_form", "bert", {**own, "task": MASKED, "act": "gelu_new"}, [9, 4, 7, 6], 98)
    case("bert_relu_lora", "bert", {**own, "task": CLASSES, "classes": 2, "rank": 2, "alpha": 4, "all_linear": 1, "act": "relu"},
         [9, 4, 1, 6], 99)
    case("distilbert_answers", "distilbert", {**own, "task": ANSWERS, "classes": 2}, [9, 4, 7, 6], 160)
    case("distilbert_relu", "distilbert", {**own, "task": MASKED, "act": "relu"}, [9, 4, 7, 6], 100)
    case("roberta_relu", "roberta", {**own, "pad": 1, "task": MASKED, "act": "relu"}, [9, 4, 7, 6], 101) # not in its head
    own["embedding"] = 12
    case("electra_tanh_form", "electra", {**own, "task": MASKED, "act": "gelu_pytorch_tanh"}, [9, 4, 7, 6], 102)
    case("electra_answers_two_micros", "electra", {**own, "task": ANSWERS, "classes": 2, "batch": 2, "accumulation": 2},
         [9, 4, 7, 6], 161)
    case("electra_masked", "electra", {**own, "task": MASKED}, [9, 4, 7, 6], 79)
    case("electra_classes", "electra", {**own, "task": CLASSES, "classes": 3}, [9, 4, 1, 6], 80)
    case("electra_tokens_two_micros", "electra", {**own, "task": TOKENS, "classes": 5, "batch": 2, "accumulation": 2},
         [9, 2, 7, 3], 81)
    case("electra_lora", "electra", {**own, "task": CLASSES, "classes": 2, "rank": 2, "alpha": 4, "all_linear": 1},
         [9, 4, 1, 6], 82)
    case("electra_nf4", "electra", {**own, "task": CLASSES, "classes": 2, "rank": 2, "alpha": 4, "all_linear": 1, "form": 1},
         [9, 4, 1, 6], 89)
    case("electra_same_width", "electra", {**own, "task": MASKED, "embedding": 16}, [9, 4, 7, 6], 83)
    own.update(local=4, layers=4)
    case("modernbert_masked", "modernbert", {**own, "task": MASKED}, [9, 4, 7, 6], 84)
    case("modernbert_classes", "modernbert", {**own, "task": CLASSES, "classes": 3, "local": 3}, [9, 4, 1, 6], 85)
    case("modernbert_mean", "modernbert", {**own, "task": CLASSES, "classes": 3, "mean": 1}, [9, 4, 1, 6], 90)
    case("modernbert_tokens_two_micros", "modernbert", {**own, "task": TOKENS, "classes": 5, "batch": 2, "accumulation": 2},
         [9, 2, 7, 3], 86)
    case("modernbert_lora", "modernbert", {**own, "task": CLASSES, "classes": 2, "rank": 2, "alpha": 4, "all_linear": 1},
         [9, 4, 1, 6], 87)
    case("modernbert_ranking", "modernbert", {**own, "task": RANKING, "classes": 1, "mean": 1, "layers": 2}, [9, 4, 1, 6], 112)
    case("modernbert_whole", "modernbert", {**own, "task": MASKED, "local": 128, "layers": 1, "heads": 1}, [9, 9, 2, 5], 88)


if __name__ == "__main__":
    main()
