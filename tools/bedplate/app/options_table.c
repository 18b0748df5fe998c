/* SPDX-License-Identifier: MIT */
/* The table of options. Names and defaults are those of Hugging Face TrainingArguments where it has
 * the option. */
#include <string.h>

#include "device/registry.h"
#include "tools/bedplate/planning/buckets_text.h"
#include "tools/bedplate/models/model_table.h"
#include "tools/bedplate/models/speech_prefix.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/session/policy.h"
#include "tools/bedplate/session/embedder_choice.h"
#include "tools/bedplate/planning/unit_text.h"
#include "tools/bedplate/policy/policy_loss.h"
#include "tools/bedplate/planning/shard_plan.h"

#define AT(member) offsetof(settings, member)

enum {
    SHAPES = COMMAND_PLAN | COMMAND_TRAIN | COMMAND_BENCH,
    LEARNS = COMMAND_PLAN | COMMAND_TRAIN,
    PLANS = COMMAND_PLAN | COMMAND_TRAIN | COMMAND_EVAL | COMMAND_EMBED | COMMAND_GENERATE |
            COMMAND_BENCH | COMMAND_DISTILL | COMMAND_ROLLOUT,
    LOADS = COMMAND_TRAIN | COMMAND_EVAL | COMMAND_EMBED | COMMAND_GENERATE | COMMAND_DISTILL |
            COMMAND_ROLLOUT,
    READS = COMMAND_PLAN | COMMAND_TRAIN | COMMAND_EVAL,
    READS_VECTORS = READS | COMMAND_EMBED,
    READS_TEXTS = READS_VECTORS | COMMAND_DISTILL | COMMAND_ROLLOUT,
    PORTS = COMMAND_EXPORT | COMMAND_IMPORT,
    REWARDS = LEARNS | COMMAND_ROLLOUT,
    EVERY = 0xffffff
};

#define MOST 9e18 /* counts that need no smaller bound */

static char device_choices[96]; /* choices_write: words of the registry's devices */

static const option table[] = {
    {"model", OPTION_TEXT, PLANS | PORTS | COMMAND_TOKENIZE | COMMAND_REPLAY | COMMAND_INIT,
     AT(model), 0, 0, NULL, "DIR|FILE.gguf|PRESET", false,
     "the model: a directory with config.json (and model.safetensors), a GGUF file, or the name of "
     "a preset, which --help presets lists"},
    {"data", OPTION_PATHS, READS_TEXTS | COMMAND_TOKENIZE | COMMAND_REPLAY | COMMAND_INIT, AT(data),
     0, 0, NULL, "FILE..", false,
     "the data: text, JSON lines, tables, llm.c or nanoGPT token files, also in .gz or .zst. "
     "Patterns with * are expanded; - is standard input"},
    {"data-weights", OPTION_TEXT, LEARNS | COMMAND_DISTILL, AT(data_weights), 0, 0, NULL, "F,F,..",
     true,
     "treats each argument of --data as a data set with this share of the rows of every epoch"},
    {"eval-data", OPTION_PATHS, LEARNS | COMMAND_REPLAY, AT(eval_data), 0, 0, NULL, "FILE..", false,
     "held-out data, evaluated every --eval-steps and at the end"},
    {"validation-split", OPTION_REAL, READS | COMMAND_DISTILL, AT(validation_split), 0, 0.9, "0",
     "F", false, "holds out the last F of the data instead (eval: evaluates only that part)"},
    {"data-format", OPTION_CHOICE, READS_TEXTS | COMMAND_TOKENIZE, AT(data_format), 0, 0, "auto",
     "auto|text|jsonl|json|tsv|csv|f32|npy|cifar10|idx|imagefolder|llmc|nanogpt|bytes", false,
     "the format of the data; auto: by magic number, then by file name; bytes: text of any bytes"},
    {"unpack-limit", OPTION_BYTES, READS_TEXTS | COMMAND_TOKENIZE | COMMAND_REPLAY,
     AT(unpack_limit), 0, 1.8e19, "64GiB", "SIZE", false,
     "the largest size of an unpacked file of --data, or of input from a pipe. Nine tenths of the "
     "free space is the limit in any case"},
    {"text-column", OPTION_TEXT, READS_TEXTS | COMMAND_REPLAY, AT(text_column), 0, 0, NULL, "NAME",
     true,
     "the column, or the field of JSON lines, with the text, where it has none of the usual names. "
     "With --no-header: its number, from 1"},
    {"label-column", OPTION_TEXT, READS_VECTORS | COMMAND_REPLAY, AT(label_column), 0, 0, NULL,
     "NAME", true, "the same for the label"},
    {"no-header", OPTION_FLAG, READS_VECTORS | COMMAND_REPLAY, AT(no_header), 0, 0, "false", NULL,
     true,
     "the first row of a table is data: a label and a text, unless columns are given by number"},
    {"label-form", OPTION_CHOICE, READS | COMMAND_REPLAY, AT(label_form), 0, 0, "auto",
     "auto|multi-hot|classes", true,
     "multi-label-classification: what a list of labels is, a 0 or 1 for each class or the classes "
     "that apply; auto: the only possible one"},
    {"chat-template", OPTION_TEXT,
     READS | COMMAND_DISTILL | COMMAND_GENERATE | COMMAND_ROLLOUT | COMMAND_REPLAY,
     AT(chat_template), 0, 0, NULL, "NAME|FILE", true,
     "the template that turns conversations (JSON lines with `messages`, `conversations` or "
     "`instruction`) into text; by default the model's own (docs/how-to/chat.md)"},
    {"loss-on", OPTION_CHOICE, READS | COMMAND_DISTILL, AT(loss_on), 0, 0, "assistant",
     "assistant|completion|all", true,
     "the part of a conversation that the loss covers: all turns of the assistant, its last turn, "
     "or everything"},
    {"chat-date", OPTION_TEXT, READS | COMMAND_DISTILL | COMMAND_GENERATE | COMMAND_ROLLOUT,
     AT(chat_date), 0, 0, "2024-07-26", "YYYY-MM-DD", true,
     "the current date for chat templates that print one"},
    {"tokenizer", OPTION_TEXT, READS_TEXTS | COMMAND_GENERATE | COMMAND_TOKENIZE | COMMAND_REPLAY,
     AT(tokenizer), 0, 0, NULL, "DIR", false,
     "the directory of the tokenizer; by default the model directory, and without a tokenizer a "
     "token is a byte"},
    {"output", OPTION_TEXT,
     COMMAND_TOKENIZE | COMMAND_REPORT | COMMAND_EMBED | COMMAND_DISTILL | COMMAND_ROLLOUT,
     AT(output), 0, 0, NULL, "FILE", false,
     "the file to write; embed: NAME.npy (float32) or NAME.jsonl; distill: the teacher's logits; "
     "rollout: JSON lines; tokenize: the token file, uint16 for up to 65,536 ids, else uint32; "
     "report: the page, by default "
     "report.html in the first directory"},
    {"output-dir", OPTION_TEXT, LEARNS, AT(output_dir), 0, 0, NULL, "DIR", false,
     "the directory for checkpoints and the trained model"},
    {"predictions", OPTION_TEXT, COMMAND_EVAL, AT(predictions), 0, 0, NULL, "FILE", false,
     "writes a JSON line for each row of a classification, regression or reranking: index, "
     "prediction, score, "
     "label, logits. - is standard output. The data needs no labels"},
    {"dropout", OPTION_REAL, SHAPES, AT(dropout), -1, 0.99, "-1", "F", false,
     "the probability of every dropout of the model; -1: as in its configuration"},
    {"task", OPTION_CHOICE, READS | COMMAND_GENERATE | COMMAND_BENCH | COMMAND_INIT, AT(task), 0, 0,
     "auto", TASK_WORDS, true,
     "what the model learns; auto: found from --data, else what config.json names"},
    {"num-labels", OPTION_COUNT, READS | COMMAND_BENCH, AT(num_labels), 0, 1024, "0", "N", true,
     "the number of classes; 0: as in config.json, else as in the labels of --data, else 2"},
    {"pooling", OPTION_CHOICE, READS_VECTORS, AT(pooling), 0, 0, "auto", POOLING_WORDS, true,
     "embedding: how the vectors of the tokens become one; auto: as in the model directory's "
     "1_Pooling, else mean"},
    {"normalize", OPTION_CHOICE, READS_VECTORS, AT(normalize), 0, 0, "auto", "auto|true|false",
     false,
     "embedding: scales vectors to length 1; auto: if the model directory has a Normalize module"},
    {"prompt-name", OPTION_TEXT, READS_VECTORS, AT(prompt_name), 0, 0, NULL, "NAME", true,
     "embedding: the prompt of config_sentence_transformers.json to put before each text; by "
     "default its default_prompt_name"},
    {"scale", OPTION_REAL, READS, AT(similarity), 1e-6, 1e6, "20", "F", true,
     "embedding: the factor of cosine similarities before the softmax over all candidates of a "
     "batch"},
    {"negatives", OPTION_COUNT, COMMAND_PLAN, AT(negatives), 0, 6, "0", "N", false,
     "embedding: the number of negatives of each row; train and eval find it in the data"},
    {"text-pairs", OPTION_FLAG, COMMAND_PLAN, AT(text_pairs), 0, 0, "false", NULL, false,
     "plans for pairs of texts, whose tokens have types; train and eval find this in the data"},
    {"label-all-tokens", OPTION_FLAG, READS, AT(label_all_tokens), 0, 0, "false", NULL, true,
     "token-classification: labels every token of a word, the later ones I-X for B-X. By default "
     "only the first"},
    {"doc-stride", OPTION_COUNT, READS, AT(doc_stride), 0, 65535, "128", "N", true,
     "question-answering: the overlap of windows of the context, in tokens"},
    {"n-best-size", OPTION_COUNT, READS, AT(n_best_size), 1, 100, "20", "N", false,
     "question-answering: the number of starts and ends of answers to consider in each window"},
    {"max-answer-length", OPTION_COUNT, READS, AT(max_answer_length), 1, 65535, "30", "N", false,
     "question-answering: the longest answer, in tokens"},
    {"version-2-with-negative", OPTION_FLAG, READS, AT(version_2), 0, 0, "false", NULL, false,
     "question-answering: allows empty answers (the default where the data has such questions)"},
    {"null-score-diff-threshold", OPTION_REAL, READS, AT(null_threshold), -1e9, 1e9, "0", "F",
     false,
     "question-answering: the answer is empty where its score exceeds that of the best one by more "
     "than this"},
    {"allow-missing", OPTION_FLAG, COMMAND_PLAN | LOADS, AT(allow_missing), 0, 0, "false", NULL,
     false,
     "initialises tensors that the weight files lack at random and names each (train: the head of "
     "a new task is initialised in any case)"},
    {"allow-unexpected", OPTION_FLAG, COMMAND_PLAN | LOADS | PORTS, AT(allow_unexpected), 0, 0,
     "false", NULL, false, "ignores tensors that the model does not have, and names each"},
    {"ignore-mismatched-sizes", OPTION_FLAG, COMMAND_PLAN | LOADS, AT(ignore_mismatched), 0, 0,
     "false", NULL, false, "treats tensors of another shape as missing"},
    {"save-dtype", OPTION_CHOICE, LEARNS, AT(save_dtype), 0, 0, "fp32", "fp32|bf16|fp16|source",
     false, "the element type of the trained model.safetensors; source: each tensor as in --model"},

    {"per-device-train-batch-size", OPTION_COUNT, SHAPES, AT(batch), 1, 1 << 20, "8", "N", true,
     "the number of sequences in a micro-batch; of pairs, if the task learns preferences"},
    {"per-device-eval-batch-size", OPTION_COUNT,
     LEARNS | COMMAND_EVAL | COMMAND_EMBED | COMMAND_DISTILL, AT(eval_batch), 0, 1 << 20, "0", "N",
     false,
     "the number of sequences in an evaluation batch; 0: in training that of a micro-batch, else "
     "8"},
    {"gradient-accumulation-steps", OPTION_COUNT, SHAPES, AT(accumulation), 1, 1 << 20, "1", "N",
     true, "the number of micro-batches in an optimizer step"},
    {"virtual-ranks", OPTION_COUNT, LEARNS, AT(virtual_ranks), 1, 1024, "1", "L", true,
     "splits the micro-batches of a step into L parts, a power of two, and adds their gradients in "
     "a fixed tree. Any number of ranks that divides L gives the same bits. By default L is the "
     "number of ranks"},
    {"sequence-ranks", OPTION_COUNT, LEARNS, AT(sequence_ranks), 1, 1024, "1", "N", false,
     "the number of ranks that share the tokens of one sample. Each computes an Nth of them, and "
     "in attention all tokens for an Nth of the key-value heads. Results do not depend on it"},
    {"virtual-sequence-ranks", OPTION_COUNT, LEARNS, AT(virtual_sequence_ranks), 1, 1024, "1", "L",
     true,
     "adds up gradients over L equal parts of a sample's tokens, a power of two, in the tree of "
     "--virtual-ranks. Any --sequence-ranks that divides L gives the same bits. By default L is "
     "--sequence-ranks"},
    {"max-seq-length", OPTION_COUNT, SHAPES | COMMAND_EVAL | COMMAND_EMBED | COMMAND_DISTILL,
     AT(sequence), 0, 1 << 24, "0", "N", true,
     "the length of a sequence in tokens; 0: the model's n_positions, at most 1024"},
    {"max-source-length", OPTION_COUNT, SHAPES | COMMAND_EVAL, AT(source), 0, 1 << 20, "0", "N",
     true,
     "the length in tokens of the text of which a model with an encoder and a decoder makes "
     "another, "
     "whose length --max-seq-length is; 0: as long"},
    {"length-buckets", OPTION_TEXT, READS_VECTORS, AT(length_buckets), 0, 0, "auto", BUCKETS_WORDS,
     false,
     "the lengths for which programs are planned, if samples are padded. Each micro-batch runs the "
     "shortest one that fits, with the same bits; auto: four lengths chosen from the data; N: N "
     "lengths"},
    {"loss-chunk-rows", OPTION_COUNT, SHAPES, AT(loss_rows), 0, 1 << 30, "0", "N", true,
     "the number of tokens whose logits exist at a time; 0: as many as fit 60 MB"},
    {"sequence-chunk", OPTION_COUNT, SHAPES | COMMAND_EVAL | COMMAND_REPLAY, AT(sequence_chunk), 0,
     1 << 30, "0", "N|auto", false,
     "runs each block but its attention over N tokens at a time, so that its activations "
     "take the bytes of N tokens; 0: over all; auto: the fastest choice that fits --arena. Results "
     "do not depend on it"},
    {"time-chunk", OPTION_COUNT, SHAPES | COMMAND_EVAL, AT(time_chunk), 0, 1 << 24, "0", "N", true,
     "rnn: the number of tokens in a stage; 0: 16, or a 64th of the sequence if that is more"},
    {"gradient-checkpointing", OPTION_POLICY, SHAPES | COMMAND_REPLAY, AT(checkpointing), 0, 0,
     "none", POLICY_WORDS, false,
     "which activations are recomputed instead of kept; auto: the fastest choice that fits "
     "--arena"},
    {"calibrate", OPTION_FLAG, SHAPES, AT(calibrate), 0, 0, "false", NULL, false,
     "measures this machine before auto chooses, and keeps the result as calibration.json in "
     "--output-dir"},
    {"fp32", OPTION_FLAG, PLANS, AT(fp32), 0, 0, "true", NULL, true,
     "computes in single precision (the default)"},
    {"bf16", OPTION_FLAG, PLANS, AT(bf16), 0, 0, "false", NULL, true,
     "weights and activations in bfloat16; norms, softmax, loss, sums and updates stay in fp32"},
    {"fp16", OPTION_FLAG, PLANS, AT(fp16), 0, 0, "false", NULL, true,
     "weights and activations in half precision, with loss scaling and fp32 master weights"},
    {"tf32", OPTION_FLAG, PLANS, AT(tf32), 0, 0, "false", NULL, false,
     "cuda: rounds the operands of fp32 matrix products to TF32, for tensor cores"},
    {"master", OPTION_CHOICE, SHAPES, AT(master), 0, 0, "auto", "auto|fp32|split|split8|none", true,
     "how 16-bit weights keep their exact value: fp32 takes 4 bytes more, split 2 (exact), split8 "
     "1 (24 bits), none 0 (stochastic rounding); auto: split with --bf16, fp32 with --fp16"},
    {"weight-dtype", OPTION_CHOICE, SHAPES, AT(weight_dtype), 0, 0, "auto", "auto|fp8", true,
     "the type of trained dense weights of the blocks; auto: that of activations; fp8: e4m3 codes "
     "with a scale for each 64, plus a 16-bit remainder, together exact; fp8 takes 3.02 bytes a "
     "weight and needs --bf16 --master split8"},
    {"gradient-dtype", OPTION_CHOICE, SHAPES, AT(gradient_dtype), 0, 0, "auto",
     "auto|fp32|bf16|int8", true,
     "the type of weight gradients; auto: bf16 with split, split8 and none, else fp32; int8: "
     "accumulated in groups of 32 with a bf16 scale and unbiased stochastic rounding, 1.0625 bytes "
     "a parameter"},
    {"tape-dtype", OPTION_CHOICE, SHAPES, AT(tape_dtype), 0, 0, "auto", "auto|fp8", true,
     "the type of activations that backward reads (outputs of norms, dense layers, attention); "
     "auto: that of activations; fp8: e4m3 codes with a scale for each 128, about 1.01 bytes a "
     "number; forward keeps its bits, gradients change"},
    {"product-dtype", OPTION_CHOICE, SHAPES, AT(product_dtype), 0, 0, "auto", "auto|fp8", true,
     "the type of products of dense layers in training; auto: that of activations; fp8: e4m3 "
     "operands with a scale for each row, in wide layers, summed in 32 bits after each 128 terms. "
     "Needs --device cuda:sm_90a"},
    {"product-fp8-from", OPTION_COUNT, SHAPES, AT(product_from), 1, 1 << 24, "1600", "N", true,
     "the least number of inputs and of outputs of a layer with products in fp8. Use fewer to "
     "try it on small models"},
    {"gradient-release", OPTION_MAYBE, SHAPES, AT(gradient_release), 0, 0, "none",
     "exact|previous-norm|adama|none", true,
     "updates each stage inside backward, so that no full gradient exists; exact (without a "
     "value): backward runs twice with clipping or loss scaling; previous-norm: once, clipped by "
     "the norm of the previous step; adama: adds micro-batches into Adam's moments one by one"},
    {"loss-scale", OPTION_TEXT, SHAPES, AT(loss_scale), 0, 0, "auto", "auto|dynamic|none|X", true,
     "dynamic, as in torch.amp.GradScaler, or a fixed loss scale; auto: dynamic with --fp16"},
    {"initial-loss-scale", OPTION_REAL, SHAPES, AT(initial_scale), 1e-30, 1e30, "65536", "X", true,
     "the dynamic loss scale at the start"},
    {"loss-scale-window", OPTION_COUNT, SHAPES, AT(scale_window), 1, 1 << 30, "2000", "N", true,
     "the number of applied steps in a row before the scale doubles"},
    {"loss-scale-hysteresis", OPTION_COUNT, SHAPES, AT(scale_hysteresis), 1, 1 << 30, "1", "N",
     true, "the number of skipped steps before the scale is halved"},
    {"loss-scale-floor", OPTION_REAL, SHAPES, AT(scale_floor), 0, 1e30, "0", "X", true,
     "the least loss scale"},
    {"lora-r", OPTION_COUNT, SHAPES, AT(lora_r), 0, 4096, "0", "R", true,
     "trains only LoRA adapters, of this rank; 0: all weights"},
    {"lora-alpha", OPTION_REAL, SHAPES, AT(lora_alpha), 1e-9, 1e9, "8", "F", true,
     "the scale of adapters is alpha / r"},
    {"lora-dropout", OPTION_REAL, SHAPES, AT(lora_dropout), 0, 0.999, "0", "F", true,
     "the dropout of the inputs of adapters"},
    {"use-rslora", OPTION_FLAG, SHAPES, AT(use_rslora), 0, 0, "false", NULL, true,
     "the scale of adapters is alpha / sqrt(r)"},
    {"use-dora", OPTION_FLAG, SHAPES, AT(use_dora), 0, 0, "false", NULL, true,
     "DoRA: adapters change the direction of weights, and the magnitude of each output is trained "
     "separately"},
    {"lora-bias", OPTION_CHOICE, SHAPES, AT(lora_bias), 0, 0, "none", "none|all|lora_only", true,
     "PEFT's bias: the biases to train beside adapters, all or those of the adapted layers. PEFT's "
     "own lora_bias is another option, and not implemented"},
    {"target-modules", OPTION_TEXT, SHAPES, AT(target_modules), 0, 0, NULL, "NAME,..", true,
     "the layers with adapters (dense, convolutions, token embedding, experts.gate_up_proj and "
     "experts.down_proj): ends of names, or a regular expression for whole names as in "
     "re.fullmatch; all-linear: all of the blocks. Default: "
     "c_attn (gpt2), q_proj,v_proj (llama), query,value (bert), convolution (resnet)"},
    {"exclude-modules", OPTION_TEXT, SHAPES, AT(exclude_modules), 0, 0, NULL, "NAME,..", true,
     "the layers without adapters, in the same forms"},
    {"layers-to-transform", OPTION_TEXT, SHAPES, AT(layers_to_transform), 0, 0, NULL, "N,..", true,
     "the blocks with adapters, from 0"},
    {"layers-pattern", OPTION_TEXT, SHAPES, AT(layers_pattern), 0, 0, NULL, "NAME,..", true,
     "with --layers-to-transform: the part of names before a block's number (layers, h)"},
    {"rank-pattern", OPTION_TEXT, SHAPES, AT(rank_pattern), 0, 0, NULL, "KEY=R,..", true,
     "the ranks of adapters whose layers' names end with KEY, a name or an expression"},
    {"alpha-pattern", OPTION_TEXT, SHAPES, AT(alpha_pattern), 0, 0, NULL, "KEY=F,..", true,
     "the same for --lora-alpha"},
    {"trainable-token-indices", OPTION_TEXT, SHAPES, AT(trainable_token_indices), 0, 0, NULL,
     "N,..", true,
     "the rows of the token embedding to train beside adapters, by token (5,32000-32003)"},
    {"loraplus-lr-ratio", OPTION_REAL, SHAPES, AT(loraplus_lr_ratio), 0, 1e6, "1", "X", true,
     "LoRA+: the learning rate of B, magnitudes and biases as a multiple of that of A (usually "
     "16)"},
    {"adapter", OPTION_TEXT, PLANS | COMMAND_EXPORT | COMMAND_REPLAY, AT(adapter), 0, 0, NULL,
     "DIR", false,
     "the directory of adapters in PEFT's form, to use, to train further, or to merge"},
    {"adapters", OPTION_TEXT, LEARNS, AT(adapters), 0, 0, NULL, "FILE", false,
     "trains several adapters on one base, each to the bits of its run alone: a JSON object for "
     "each with name, data, and options that are its own"},
    {"load-in-4bit", OPTION_FLAG, PLANS | COMMAND_EXPORT, AT(load_in_4bit), 0, 0, "false", NULL,
     true,
     "quantises the blocks' dense layers and experts to 4 bits. In training they are frozen, and "
     "--lora-r trains adapters"},
    {"load-in-8bit", OPTION_FLAG, PLANS | COMMAND_EXPORT, AT(load_in_8bit), 0, 0, "false", NULL,
     true, "the same in 8 bits with a scale for each row (LLM.int8)"},
    {"dequantize", OPTION_FLAG, PLANS, AT(dequantize), 0, 0, "false", NULL, true,
     "keeps the weights of a GGUF file, and experts in blocks of MXFP4, as floats where they would "
     "stay frozen in the types of the file"},
    {"bnb-4bit-use-double-quant", OPTION_CHOICE, PLANS | COMMAND_EXPORT, AT(double_quant), 0, 0,
     "true", "true|false", true, "with --load-in-4bit: quantises the scales too, to 8 bits"},
    {"bnb-4bit-quant-type", OPTION_CHOICE, PLANS | COMMAND_EXPORT, AT(quant_type), 0, 0, "nf4",
     "nf4|fp4", true, "with --load-in-4bit: the sixteen values"},
    {"bnb-4bit-blocksize", OPTION_COUNT, PLANS | COMMAND_EXPORT, AT(quant_block), 32, 4096, "64",
     "N", true,
     "with --load-in-4bit: the number of elements with a common scale (32, 64, 128 .. 4096)"},
    {"merge", OPTION_FLAG, COMMAND_EXPORT, AT(merge), 0, 0, "false", NULL, false,
     "adds the --adapter to the weights that are written"},
    {"freeze", OPTION_LIST, SHAPES, AT(freeze), 0, 0, NULL, "GLOB", true,
     "freezes parameters by name (*, ?, or @MODULE); may be repeated"},
    {"trainable", OPTION_LIST, SHAPES, AT(trainable), 0, 0, NULL, "GLOB[:FIRST-LAST]", true,
     "trains parameters although --freeze or --lora-r freezes them (*, ?, or @MODULE). With "
     ":FIRST-LAST only these rows of their first dimension are trained. May be repeated"},
    {"param-override", OPTION_LIST, SHAPES, AT(overrides), 0, 0, NULL,
     "'GLOB: lr=F,weight_decay=F,optim_bits=4|8|32'", true,
     "sets options for some parameters; may be repeated, and the last one wins"},

    {"max-steps", OPTION_SIGNED, LEARNS | COMMAND_INIT, AT(max_steps), -1, MOST, "-1", "N", false,
     "the number of optimizer steps; -1: as in --num-train-epochs"},
    {"num-train-epochs", OPTION_REAL, LEARNS, AT(epochs), 0, 1e9, "3", "F", false,
     "the number of epochs"},
    {"learning-rate", OPTION_REAL, SHAPES, AT(learning_rate), 0, 1000, "5e-5", "F", true,
     "the peak of the schedule. The default of dpo, orpo, simpo and kto is 1e-6"},
    {"lr-scheduler-type", OPTION_CHOICE, LEARNS, AT(scheduler), 0, 0, "linear",
     "constant|constant_with_warmup|linear|cosine|cosine_with_min_lr|cosine_with_restarts|"
     "polynomial|inverse_sqrt|"
     "warmup_stable_decay",
     true, "the learning rate schedule, as in transformers' get_scheduler"},
    {"lr-scheduler-kwargs", OPTION_TEXT, LEARNS, AT(rate_numbers), 0, 0, NULL, "KEY=VALUE,..", true,
     "the schedule's own numbers, also as JSON: cosine num_cycles (0.5), min_lr, min_lr_rate, "
     "cosine_with_restarts num_cycles (1), polynomial power (1), lr_end (1e-7), inverse_sqrt "
     "timescale (the warm-up, or 10000)"},
    {"warmup-steps", OPTION_REAL, LEARNS, AT(warmup), 0, 1e15, "0", "F", true,
     "the number of linear warm-up steps; below 1: a share of all steps"},
    {"warmup-ratio", OPTION_REAL, LEARNS, AT(warmup_ratio), 0, 1, "0", "F", true,
     "the same as a share of all steps, rounded up. --warmup-steps has precedence"},
    {"min-lr", OPTION_REAL, LEARNS, AT(minimum_rate), 0, 1000, "0", "F", true,
     "the learning rate at the end of linear, cosine and polynomial schedules"},
    {"optim", OPTION_TEXT, SHAPES, AT(optimizer), 0, 0, "adamw", "NAME", true,
     "the optimizer:"
#define NAME_F32(name) " " name
#define NAME_BLOCK8(name)
#define NAME_COMPANDED8(name)
#define NAME_BLOCK4(name)
#define OPTIMIZER(kind, rule, optimizer, codec, defaults) NAME_##codec(#optimizer)
#include "core/ops/rules.def"
     "; with states of 8 bits each with _8bit, except adafactor, adalomo and apollo_mini; "
     "adamw_8bit_companded; adamw_4bit. Hugging Face's names are accepted"},
    {"optim-args", OPTION_TEXT, SHAPES, AT(optim_args), 0, 0, NULL, "KEY=VALUE,..", true,
     "the optimizer's own numbers"
#define KEYS(name)                     "; " #name ":"
#define NUMBER(x, kind, member, range) " " #x
#define KEY(x, member, range)          " " #x
#include "core/ops/rules.def"
    },
    {"percentile-clipping", OPTION_COUNT, SHAPES, AT(percentile), 0, 99, "0", "P", true,
     "clips gradients to percentile P of the last 100 norms; 0: no clipping"},
    {"weight-decay", OPTION_REAL, SHAPES, AT(weight_decay), 0, 1000, "0", "F", true,
     "the decoupled weight decay of matrices and embeddings"},
    {"decay-all", OPTION_FLAG, SHAPES, AT(decay_all), 0, 0, "false", NULL, true,
     "decays norms and biases as well"},
    {"adam-beta1", OPTION_REAL, SHAPES, AT(beta1), 0, 0.999999999, "0.9", "F", true,
     "the decay of the first moment"},
    {"adam-beta2", OPTION_REAL, SHAPES, AT(beta2), 0, 0.999999999, "0.999", "F", true,
     "the decay of the second moment"},
    {"adam-epsilon", OPTION_REAL, SHAPES, AT(epsilon), 1e-30, 1, "1e-8", "F", true,
     "the number added to the root of the second moment"},
    {"max-grad-norm", OPTION_REAL, SHAPES, AT(max_grad_norm), 0, 1e9, "1", "F", true,
     "clips the gradient norm to this; 0: no clipping"},
    {"label-smoothing-factor", OPTION_REAL, LEARNS, AT(label_smoothing), 0, 0.999999, "0", "F",
     true,
     "the share of every label that is spread over all classes or tokens, in training and its "
     "evaluations"},
    {"neftune-noise-alpha", OPTION_REAL, LEARNS, AT(neftune), 0, 1e6, "0", "F", true,
     "NEFTune: adds uniform noise of at most F / sqrt(tokens of a row * width) to the embeddings "
     "in training (usually 5)"},
    {"random-crop", OPTION_COUNT, LEARNS, AT(random_crop), 0, 4096, "0", "N", true,
     "pads training images by N black pixels on each side and crops them at random (usually 4 for "
     "CIFAR)"},
    {"random-resized-crop", OPTION_REAL, LEARNS, AT(random_resized_crop), 0, 1, "0", "F", true,
     "crops a random part of each training image, F to all of its area, and resizes it (usually "
     "0.08)"},
    {"random-horizontal-flip", OPTION_REAL, LEARNS, AT(random_flip), 0, 1, "0", "F", true,
     "flips training images left to right with this probability (usually 0.5)"},
    {"packing", OPTION_FLAG, LEARNS | COMMAND_DISTILL, AT(packing), 0, 0, "false", NULL, true,
     "packs several documents into a row of the training data (docs/how-to/packing.md)"},
    {"packing-strategy", OPTION_CHOICE, LEARNS | COMMAND_DISTILL, AT(packing_strategy), 0, 0, "bfd",
     "bfd|bfd_split|wrapped", true,
     "bfd: best fit, longer documents are truncated; bfd_split: best fit, longer documents are "
     "split; wrapped: one stream, cut at the end of each row"},
    {"long-rows", OPTION_CHOICE, READS | COMMAND_DISTILL | COMMAND_REPLAY, AT(long_rows), 0, 0,
     "cut", "cut|refuse", false,
     "what to do with examples and packed documents longer than --max-seq-length: truncate and "
     "count them, or refuse them (exit 4)"},
    {"loss-type", OPTION_CHOICE, READS, AT(loss_type), 0, 0, "sigmoid",
     "sigmoid|hinge|ipo|" LOSS_TYPE_WORDS, true,
     "dpo: the loss of a pair, sigmoid, hinge or ipo (docs/how-to/preferences.md); grpo: the loss "
     "of "
     "completions, dapo by default (docs/how-to/grpo.md)"},
    {"beta", OPTION_REAL, READS, AT(beta), 0, 1e6, "0.1", "F", true,
     "dpo, orpo, simpo, kto: the weight of a difference of log-probabilities; grpo: of the "
     "divergence from the model without adapters (0)"},
    {"epsilon", OPTION_REAL, LEARNS, AT(policy_epsilon), 0, 1, "0", "F", true,
     "grpo: ratios of probabilities count down to 1 - F; 0: as the loss type has it (0.2)"},
    {"epsilon-high", OPTION_REAL, LEARNS, AT(policy_epsilon_high), 0, 1e3, "0", "F", true,
     "grpo: and up to 1 + F; 0: as the loss type has it, else --epsilon"},
    {"delta", OPTION_REAL, LEARNS, AT(policy_delta), 0, 1e3, "0", "F", true,
     "grpo: the largest ratio where the advantage is negative (two-sided clipping); 0: no bound"},
    {"scale-rewards", OPTION_CHOICE, LEARNS, AT(scale_rewards), 0, 0, "group", "group|batch|none",
     true,
     "grpo: what advantages are divided by: the standard deviation of the rewards of the "
     "group, or of the step, or nothing"},
    {"num-iterations", OPTION_COUNT, LEARNS, AT(num_iterations), 1, 1000, "1", "N", true,
     "grpo: the number of steps on the same completions; ratios beyond the bounds are clipped"},
    {"mask-truncated-completions", OPTION_FLAG, LEARNS, AT(mask_truncated), 0, 0, "false", NULL,
     true, "grpo: nothing is learned from completions without an end token; their rewards count"},
    {"top-entropy-quantile", OPTION_REAL, LEARNS, AT(policy_top_entropy), 0, 1, "1", "F", true,
     "grpo: only tokens whose entropy lies in the highest share F of those of the step count for "
     "the loss; 1: all"},
    {"label-smoothing", OPTION_REAL, READS, AT(pair_smoothing), 0, 0.499999, "0", "F", true,
     "dpo with the loss type sigmoid, and simpo: the probability that a pair is swapped"},
    {"simpo-gamma", OPTION_REAL, READS, AT(simpo_gamma), 0, 1e6, "0.5", "F", true,
     "simpo: the target margin of rewards"},
    {"cpo-alpha", OPTION_REAL, READS, AT(cpo_alpha), 0, 1e6, "0", "F", true,
     "simpo: the weight of the mean loss of chosen rows, prompts included"},
    {"desirable-weight", OPTION_REAL, READS, AT(desirable), 0, 1e6, "1", "F", true,
     "kto: the weight of rows whose label is true"},
    {"undesirable-weight", OPTION_REAL, READS, AT(undesirable), 0, 1e6, "1", "F", true,
     "kto: the weight of rows whose label is false"},
    {"ref-model", OPTION_TEXT, READS, AT(ref_model), 0, 0, NULL, "DIR", true,
     "dpo, kto: the weights of the reference model; by default those at the start of training "
     "(docs/how-to/preferences.md)"},
    {"reward", OPTION_LIST, REWARDS, AT(rewards), 0, 0, NULL, "NAME[:ARGS]", true,
     "a reward of completions: exact contains places number marker boxed regex json think overlong "
     "cosine repetition (docs/how-to/rewards.md); may be repeated"},
    {"reward-weights", OPTION_TEXT, REWARDS, AT(reward_weights), 0, 0, NULL, "F,F,..", true,
     "the weight of each --reward, then of --reward-model, then of each reward of the command; by "
     "default 1"},
    {"reward-model", OPTION_TEXT, REWARDS, AT(reward_model), 0, 0, NULL, "DIR", true,
     "a model whose only output is a reward of completions: a directory with a head of one label, "
     "in bytes that generating and training leave free"},
    {"reward-command", OPTION_TEXT, REWARDS, AT(reward_command), 0, 0, NULL, "COMMAND", true,
     "a command that gives rewards by JSON lines: started once with /bin/sh, asked for each "
     "completion"},
    {"reward-timeout", OPTION_TIME, REWARDS | COMMAND_REPLAY, AT(reward_timeout), 0.001, 1e6, "10",
     "TIME", false,
     "how long the reward command may take to start and to answer; then it is killed and started "
     "again"},
    {"reward-on-failure", OPTION_TEXT, REWARDS, AT(reward_on_failure), 0, 0, "stop",
     "stop|skip|VALUE", true,
     "what follows when the reward command fails twice at a completion: the run saves and ends, "
     "the completion does not count, or it has this reward"},
    {"reward-check", OPTION_COUNT, REWARDS, AT(reward_check), 0, MOST, "0", "K", false,
     "asks the reward command for every K-th completion twice and counts different answers; 0: "
     "never"},
    {"reward-memory-limit", OPTION_BYTES, REWARDS | COMMAND_REPLAY, AT(reward_memory), 0, 1.8e19,
     "0", "SIZE", false, "the address space of the reward command; 0: no limit"},
    {"reward-cpu-limit", OPTION_TIME, REWARDS | COMMAND_REPLAY, AT(reward_cpu), 0, 1e9, "0", "TIME",
     false, "the processor time of the reward command; 0: no limit"},
    {"reward-log", OPTION_TEXT, REWARDS, AT(reward_log), 0, 0, NULL, "FILE", false,
     "the file for what the reward command writes to standard error"},
    {"distill", OPTION_TEXT, LEARNS | COMMAND_REPLAY, AT(distill), 0, 0, NULL, "FILE", false,
     "knowledge distillation from the teacher's logits, a file of `bedplate distill`. The loss is "
     "(1 - alpha) cross entropy + alpha T^2 KL(teacher || model) (docs/how-to/distillation.md)"},
    {"distill-alpha", OPTION_REAL, LEARNS, AT(distill_alpha), 0, 1, "0.5", "F", true,
     "the weight of the teacher in the loss"},
    {"distill-temperature", OPTION_REAL, LEARNS, AT(distill_temperature), 1e-3, 1e3, "1", "F", true,
     "the temperature of both sides' logits"},
    {"distill-top-k", OPTION_COUNT, COMMAND_DISTILL, AT(distill_top_k), 1, 128, "16", "N", false,
     "the number of likeliest tokens to keep at each position, 8 bytes each"},
    {"class-weights", OPTION_TEXT, LEARNS, AT(class_weights), 0, 0, NULL, "F,F,..|balanced", true,
     "the weight of each class in the mean loss of a classification (CrossEntropyLoss's weight); "
     "balanced: rows / (classes * rows of the class)"},
    {"seed", OPTION_COUNT,
     LEARNS | COMMAND_GENERATE | COMMAND_ROLLOUT | COMMAND_BENCH | COMMAND_REPLAY, AT(seed), 0,
     MOST, "42", "N", true, "the seed of weights, data order, dropout and sampling"},
    {"data-seed", OPTION_SIGNED, LEARNS, AT(data_seed), -1, MOST, "-1", "N", true,
     "the seed of data order and masking alone; -1: as --seed"},
    {"group-by-length", OPTION_FLAG, SHAPES, AT(group_by_length), 0, 0, "false", NULL, true,
     "groups samples of similar length, the longest first in every 50 groups: less padding"},

    {"arena", OPTION_BYTES, PLANS | COMMAND_DEVICES | COMMAND_REPLAY | COMMAND_INIT, AT(arena), 0,
     1.8e19, "0", "BYTES", false,
     "the memory budget: the plan must fit it (4GiB, 512MB, 2e9). Checkpointing, batch and loss "
     "chunk are chosen to fit unless given; 0: as much as the plan needs"},
    {"offload", OPTION_TEXT, LEARNS, AT(offload), 0, 0, NULL,
     "file:PATH:BYTES|host:BYTES|flash:BYTES", false,
     "offloads what does not fit --arena; without --arena, all that may be offloaded; file: to a "
     "file (docs/how-to/offload.md); host: to the host's memory, with a GPU; flash: reads frozen "
     "weights in a board's flash (docs/how-to/appliance.md); the result has the same bits"},
    {"offload-what", OPTION_TEXT, LEARNS, AT(offload_what), 0, 0, "bases,states,weights", "NAMES",
     false,
     "what may be offloaded, comma-separated; bases: frozen weights; states: masters and optimizer "
     "states; weights: trained weights of the blocks, with their states; gradients: accumulated "
     "ones; checkpoints: activation checkpoints, to a file; streams: checkpoints and, with "
     "--sequence-chunk, all else that has the tokens of a micro-batch, except one key-value head"},
    {"offload-endurance", OPTION_BYTES, COMMAND_PLAN, AT(offload_endurance), 0, 1.8e19, "0",
     "BYTES", false,
     "the total bytes that the drive may be written (600TB): the plan shows the steps and days "
     "until then"},
    {"offload-buffered", OPTION_FLAG, LEARNS, AT(offload_buffered), 0, 0, "false", NULL, false,
     "uses the page cache for the offload file, on file systems without O_DIRECT"},
    {"offload-two-versions", OPTION_FLAG, LEARNS, AT(offload_two), 0, 0, "false", NULL, false,
     "keeps two versions of trained tensors in the offload file, and checkpoints leave them there. "
     "With --save-steps 1 a run continues from its last whole step after a power failure "
     "(docs/how-to/offload.md)"},
    {"device", OPTION_TEXT, PLANS | COMMAND_REPLAY | COMMAND_SELFTEST, AT(device), 0, 0, "auto",
     device_choices, false, "the device; auto: the first usable GPU, else the host"},
    {"threads", OPTION_COUNT, PLANS | COMMAND_REPLAY, AT(threads), 0, 256, "0", "N", false,
     "the number of threads; 0: one for each processor. The result does not depend on it"},
    {"kernels", OPTION_CHOICE, PLANS | COMMAND_REPLAY, AT(kernels), 0, 0, "auto",
     "auto|portable|neon|sve|avx2|avx512|amx", false,
     "the instruction set of the kernels; the result does not depend on it, except with amx: AMX "
     "tiles give bf16 products other bits (docs/explanation/numerics.md)"},
    {"alignment", OPTION_CHOICE, PLANS | COMMAND_REPLAY, AT(alignment), 0, 0, "256",
     "256|128|64|32", false,
     "the alignment of buffers in bytes. Less means a smaller arena where buffers are small: 64 on "
     "the host, 32 with --kernels portable, neon or avx2, and for --emit-c"},
    {"shard", OPTION_CHOICE, LEARNS, AT(shard), 0, 0, "none", SHARD_WORDS, false,
     "what is sharded across ranks (ZeRO 1 to 3): nothing, masters and optimizer states, also "
     "gradient sums, also weights; auto: the fastest form that fits --arena, by --bandwidth and "
     "--latency. All give the same bits"},
    {"shard-ahead", OPTION_COUNT, LEARNS, AT(shard_ahead), 0, BP_AHEAD_MOST, "1", "N", false,
     "with --shard parameters: the number of weights gathered ahead of use. With --arena and no "
     "value given: as many of 2, 1, 0 as fit"},
    {"ddp-bucket-cap-mb", OPTION_COUNT, LEARNS, AT(bucket_mb), 0, 1 << 20, "0", "MB", false,
     "the most MiB of gradients in a message, of which two are under way; 0: 16, and at least 256 "
     "KiB for each rank"},
    {"fabric", OPTION_TEXT, LEARNS | COMMAND_BENCH, AT(fabric), 0, 0, "auto",
     "auto|none|mpi|nccl|nccl:N|threads:N", false,
     "how ranks communicate; auto: by the launcher's environment (mpirun, srun, torchrun), else "
     "one rank; nccl: the same, with NCCL between GPUs (auto uses it if every rank has it); "
     "threads:N, nccl:N: N ranks in this process, with --threads threads each. plan takes "
     "threads:N"},
    {"mpi", OPTION_TEXT, COMMAND_TRAIN | COMMAND_BENCH, AT(mpi), 0, 0, "auto", "auto|FILE", false,
     "the MPI library to load; auto: that of the launcher"},
    {"silence-limit", OPTION_COUNT, SHAPES, AT(silence_limit), 1, 1 << 20, "10", "SECONDS", false,
     "the silence after which a rank counts as lost, and all end with exit code 10"},
    {"step-limit", OPTION_COUNT, SHAPES, AT(step_limit), 1, 1 << 20, "600", "SECONDS", false,
     "the longest wait for another rank's data, which must exceed the time of saving"},
    {"fabric-secret", OPTION_TEXT, COMMAND_TRAIN | COMMAND_BENCH, AT(fabric_secret), 0, 0, NULL,
     "FILE", false,
     "a secret of 16 to 4096 bytes, without which no process can join ranks over TCP"},
    {"fabric-check", OPTION_FLAG, COMMAND_TRAIN, AT(fabric_check), 0, 0, "false", NULL, false,
     "sends a digest with every message between ranks, so that lost, repeated or changed messages "
     "are refused (exit 10)"},
    {"fabric-seed", OPTION_COUNT, COMMAND_TRAIN | COMMAND_BENCH, AT(fabric_seed), 0, MOST, "0", "N",
     false,
     "threads:N: a self-test that delays ranks, splits messages and permutes their order by this "
     "seed"},
    {"poison", OPTION_FLAG, COMMAND_TRAIN | COMMAND_EVAL, AT(poison), 0, 0, "false", NULL, false,
     "a slow self-test: fills buffers with signalling NaNs when their lifetimes begin and end"},
    {"resume", OPTION_MAYBE, LEARNS, AT(resume_word), 0, 0, "false", "true|auto|false", false,
     "continues from the newest valid checkpoint in --output-dir, if there is one; auto: for "
     "unattended runs; one command line starts a run, continues it, and ends at once when it is "
     "complete"},
    {"newest", OPTION_FLAG, COMMAND_VERIFY, AT(newest), 0, 0, "false", NULL, false,
     "checks that there is a valid checkpoint to continue from, and names damaged ones. By default "
     "everything must be valid (exit 4)"},
    {"overwrite-output-dir", OPTION_FLAG, LEARNS, AT(overwrite), 0, 0, "false", NULL, false,
     "starts a new run although --output-dir has the record or checkpoints of a run, and removes "
     "them, "
     "unless there is one to continue"},
    {"resume-from-checkpoint", OPTION_TEXT_MAYBE, LEARNS, AT(resume_from), 0, 0, NULL, "PATH|true",
     false,
     "continues from that checkpoint (a checkpoint-N, or the newest in a directory), with its "
     "options; true or no value: as --resume"},
    {"continue-from", OPTION_TEXT, LEARNS | COMMAND_REPLAY, AT(continue_from), 0, 0, NULL, "PATH",
     false,
     "starts a new run (steps from 0, its own schedule) with the weights, moments and loss scale "
     "of that checkpoint. With --resume: only if --output-dir has no checkpoint"},
    {"stop-at-step", OPTION_COUNT, LEARNS, AT(stop_at_step), 0, MOST, "0", "N", false,
     "saves after this step and ends; 0: off"},
    {"eval-strategy", OPTION_CHOICE, LEARNS, AT(eval_strategy), 0, 0, "steps", "steps|epoch|no",
     false, "when to evaluate: every --eval-steps, after each epoch, or only at the end"},
    {"eval-steps", OPTION_STEPS, LEARNS, AT(eval_steps), 0, MOST, "500", "N", false,
     "the number of steps between evaluations, or below 1 a share of all steps; 0: only at the "
     "end"},
    {"logging-steps", OPTION_STEPS, LEARNS, AT(logging_steps), 1, MOST, "500", "N", false,
     "the number of steps between lines of the log, or below 1 a share of all steps"},
    {"logging-first-step", OPTION_FLAG, LEARNS, AT(logging_first), 0, 0, "false", NULL, false,
     "logs the first step too"},
    {"save-strategy", OPTION_CHOICE, LEARNS, AT(save_strategy), 0, 0, "steps",
     "steps|epoch|no|best", false,
     "when to save: every --save-steps, after each epoch, only at the end, or also at each best "
     "evaluation"},
    {"save-steps", OPTION_STEPS, LEARNS, AT(save_steps), 0, MOST, "500", "N", false,
     "the number of steps between checkpoints, or below 1 a share of all steps; 0: only at the "
     "end"},
    {"save-total-limit", OPTION_COUNT, LEARNS, AT(save_total_limit), 0, MOST, "0", "N", false,
     "keeps only the newest N checkpoints; 0: all"},
    {"load-best-model-at-end", OPTION_FLAG, LEARNS, AT(load_best), 0, 0, "false", NULL, false,
     "writes the model of the best evaluation at the end, and keeps its checkpoint"},
    {"keep-best", OPTION_FLAG, LEARNS, AT(keep_best), 0, 0, "false", NULL, false,
     "saves at each best evaluation, and keeps that checkpoint beside the newest ones"},
    {"token-accuracy", OPTION_FLAG, LEARNS | COMMAND_EVAL, AT(token_accuracy), 0, 0, "false", NULL,
     false,
     "language models: evaluations also report how often the likeliest token is the label. They "
     "keep the logits for it"},
    {"predict-with-generate", OPTION_MAYBE, LEARNS | COMMAND_PLAN, AT(predicts), 0, 0, "true",
     "true|false", false,
     "models that hear: evaluations during training also write down each file and report the word "
     "error rate; the arena holds caches for it"},
    {"metric-for-best-model", OPTION_TEXT, LEARNS, AT(metric), 0, 0, "loss", "NAME", false,
     "the metric of the best evaluation: loss, or another metric of the task (accuracy, "
     "accuracy_top_5, f1_macro, matthews_correlation, f1_micro, pearson, spearman, perplexity, "
     "token_accuracy, wer), with or without eval_"},
    {"greater-is-better", OPTION_MAYBE, LEARNS, AT(greater), 0, 0, "auto", "true|auto|false", false,
     "whether a greater metric is better; auto: false for loss, nll_loss, perplexity, "
     "bits_per_token, wer and kl, else true"},
    {"early-stopping-patience", OPTION_COUNT, LEARNS, AT(patience), 0, MOST, "0", "N", false,
     "ends after N evaluations in a row without an improvement; 0: never"},
    {"early-stopping-threshold", OPTION_REAL, LEARNS, AT(threshold), 0, 1e9, "0", "F", false,
     "the least improvement of the metric that counts"},
    {"on-spike", OPTION_CHOICE, LEARNS, AT(on_spike), 0, 0, "none", "none|warn|clip|skip|rollback",
     true,
     "what to do about a step whose loss or gradient norm is far above the last 128. The step is "
     "recomputed, then reported (warn), clipped to the threshold, skipped, or the run returns to "
     "the newest checkpoint and skips those batches (rollback)"},
    {"spike-threshold", OPTION_REAL, LEARNS, AT(spike_threshold), 1, 1e6, "8", "F", true,
     "the number of robust standard deviations (1.4826 MAD) above the median that make a spike"},
    {"spike-budget", OPTION_COUNT, LEARNS, AT(spike_budget), 0, 15, "3", "N", true,
     "the number of spikes in 100 steps handled this way. One more saves and ends the run (exit "
     "9)"},
    {"replay-every", OPTION_COUNT, COMMAND_TRAIN, AT(replay_every), 0, MOST, "0", "K", false,
     "computes forward and backward of every K-th step twice and compares them; 0: never"},
    {"verify-products", OPTION_FLAG, LEARNS, AT(verify_products), 0, 0, "false", NULL, false,
     "checks matrix products and attention while they run, and computes again what looks wrong; on "
     "the host"},
    {"selftest-every", OPTION_TIME, COMMAND_TRAIN, AT(selftest_every), 0, 1e9, "24h", "TIME", false,
     "with --replay-every: how often `bedplate selftest` runs, besides at the start; 0: never"},

    {"time-limit", OPTION_TIME, LEARNS, AT(time_limit), 0, 1e9, "0", "11h30m", false,
     "saves and ends before this time, counted from the program's start; 0: no limit"},
    {"stop-when", OPTION_TEXT, LEARNS, AT(stop_when), 0, 0, NULL, "FILE", false,
     "saves and ends when this file exists"},
    {"on-usr1", OPTION_CHOICE, LEARNS, AT(on_usr1), 0, 0, "save", "save|stop", false,
     "what SIGUSR1 does: save and continue, or save and end"},
    {"storage-patience", OPTION_TIME, LEARNS, AT(storage_patience), 0, 1e9, "10m", "TIME", false,
     "how long training continues when a checkpoint cannot be written, before it ends with exit "
     "code 6"},
    {"on-data-change", OPTION_CHOICE, LEARNS, AT(on_data_change), 0, 0, "warn", "error|warn|ignore",
     false,
     "what happens at a checkpoint if a file of the data has changed since the start; error: the "
     "run ends with exit code 6 before saving; warn: a warning on stderr and in events.jsonl"},
    {"metrics", OPTION_TEXT, LEARNS, AT(metrics), 0, 0, NULL, "FILE.prom", false,
     "writes the state of the run for node_exporter's textfile collector, every few seconds"},
    {"report-to", OPTION_CHOICE, LEARNS, AT(report_to), 0, 0, "none", "none|tensorboard", false,
     "writes TensorBoard event files with each line of the log"},
    {"logging-dir", OPTION_TEXT, LEARNS, AT(logging_dir), 0, 0, NULL, "DIR", false,
     "the directory of TensorBoard's files; by default runs in --output-dir"},
    {"unit", OPTION_CHOICE, COMMAND_PLAN, AT(unit), 0, 0, NULL, UNIT_WORDS, false,
     "prints the run as a systemd service, a batch script or a Kubernetes Job, with the plan's "
     "numbers, instead of the plan"},
    {"once", OPTION_FLAG, COMMAND_WATCH, AT(once), 0, 0, "false", NULL, false,
     "prints once and ends, as it does when the output is no terminal"},

    {"prompt", OPTION_TEXT, COMMAND_GENERATE, AT(prompt), 0, 0, NULL, "TEXT", false,
     "the text to continue; for a masked-lm a text with [MASK] tokens to fill"},
    {"audio", OPTION_TEXT, COMMAND_GENERATE, AT(audio), 0, 0, NULL, "FILE.wav", false,
     "a WAV or FLAC file to write down, instead of --prompt, by a model that hears (Whisper). "
     "--temperature is 0 unless it is given, --max-new-tokens what the model holds"},
    {"language", OPTION_TEXT, READS | COMMAND_GENERATE | COMMAND_TOKENIZE, AT(language), 0, 0, NULL,
     "NAME", true,
     "of a model that hears: the language of the texts, by its English name or code. Its token "
     "begins every text"},
    {"task-token", OPTION_CHOICE, READS | COMMAND_GENERATE | COMMAND_TOKENIZE, AT(task_token), 0, 0,
     "none", TASK_TOKEN_WORDS, true,
     "of a model that hears: the token of the task, behind that of the language"},
    {"normalizer", OPTION_CHOICE, LEARNS | COMMAND_EVAL, AT(normalizer), 0, 0, "none", "none|basic",
     false,
     "of a model that hears: how words are compared for the word error rate. none: as they are, "
     "separated by white space; basic: in small letters, without punctuation"},
    {"chat", OPTION_FLAG, COMMAND_GENERATE, AT(talks), 0, 0, "false", NULL, false,
     "chats with the model by its chat template, a line of standard input at a time. With "
     "--prompt: one answer (docs/how-to/chat.md)"},
    {"system", OPTION_TEXT, COMMAND_GENERATE, AT(system_message), 0, 0, NULL, "TEXT", false,
     "with --chat: the system message"},
    {"context", OPTION_COUNT, COMMAND_GENERATE, AT(context), 0, 1 << 24, "0", "N", false,
     "with --chat: the number of tokens of the whole conversation; 0: 4096, or as many as the "
     "model has positions for"},
    {"prompt-ids", OPTION_TEXT, COMMAND_GENERATE, AT(prompt_ids), 0, 0, NULL, "1,2,3", false,
     "the prompt as token ids"},
    {"max-new-tokens", OPTION_COUNT, COMMAND_GENERATE, AT(max_new_tokens), 1, 1 << 24, "20", "N",
     false, "the number of tokens to generate"},
    {"temperature", OPTION_REAL, COMMAND_GENERATE | COMMAND_ROLLOUT | LEARNS, AT(temperature), 0,
     1000, "1", "F", true, "the temperature of sampling; 0: always the likeliest token"},
    {"top-k", OPTION_COUNT, COMMAND_GENERATE, AT(top_k), 0, 1 << 30, "50", "K", false,
     "samples from the K likeliest tokens; 0: from all. For a masked-lm the number of candidates "
     "to print for each mask (5)"},
    {"top-p", OPTION_REAL, COMMAND_GENERATE, AT(top_p), 0, 1, "1", "P", false,
     "samples from the likeliest tokens whose probabilities add up to P"},
    {"min-p", OPTION_REAL, COMMAND_GENERATE, AT(min_p), 0, 1, "0", "P", false,
     "leaves out tokens less than P times as likely as the likeliest"},
    {"repetition-penalty", OPTION_REAL, COMMAND_GENERATE, AT(repetition_penalty), 1e-6, 1e6, "1",
     "F", false, "above 1: makes tokens less likely that the prompt or the text already has"},
    {"num-return-sequences", OPTION_COUNT, COMMAND_GENERATE, AT(sequences), 1, 1 << 20, "1", "N",
     false,
     "the number of texts to generate, each with its own random numbers, up to 16 at once as "
     "--arena has room. With --json: a line each"},
    {"stop", OPTION_LIST, COMMAND_GENERATE, AT(stops), 0, 0, NULL, "STRING", false,
     "ends before this string; may be repeated"},
    {"no-stream", OPTION_FLAG, COMMAND_GENERATE, AT(no_stream), 0, 0, "false", NULL, false,
     "prints a text when it is complete, not token by token"},
    {"output-ids", OPTION_FLAG, COMMAND_GENERATE | COMMAND_ROLLOUT, AT(output_ids), 0, 0, "false",
     NULL, false,
     "prints token ids with spaces between them; rollout: writes the ids of prompts and "
     "completions and the log-probability of each"},
    {"ignore-eos", OPTION_FLAG, COMMAND_GENERATE, AT(ignore_eos), 0, 0, "false", NULL, false,
     "continues after an end-of-text token"},
    {"num-generations", OPTION_COUNT, COMMAND_ROLLOUT | LEARNS, AT(num_generations), 1, 1 << 16,
     "8", "N", true, "the number of completions of each prompt"},
    {"max-completion-length", OPTION_COUNT, COMMAND_ROLLOUT | LEARNS, AT(max_completion_length), 1,
     1 << 24, "512", "N", true, "the largest number of tokens of a completion"},
    {"slots", OPTION_TEXT, COMMAND_ROLLOUT | LEARNS, AT(slots), 0, 0, "auto", "N|auto", false,
     "the number of sequences that are generated at once; the result does not depend on it. auto: "
     "up to 16, as --arena has room"},
    {"best-of-n", OPTION_FLAG, COMMAND_ROLLOUT, AT(best_of_n), 0, 0, "false", NULL, false,
     "writes of each prompt the completion with the highest reward alone, the first of equals"},
    {"reward-threshold", OPTION_REAL, COMMAND_ROLLOUT, AT(reward_threshold), -1e300, 1e300, NULL,
     "F", false, "writes completions with at least this reward alone"},

    {"listing", OPTION_FLAG, COMMAND_PLAN, AT(listing), 0, 0, "false", NULL, false,
     "prints the programs op by op"},
    {"map", OPTION_FLAG, COMMAND_PLAN, AT(map), 0, 0, "false", NULL, false,
     "prints the memory map: the address, size and lifetime of every buffer"},
    {"html", OPTION_TEXT, COMMAND_PLAN, AT(html), 0, 0, NULL, "FILE", false,
     "writes the memory map as a page with a picture"},
    {"emit-c", OPTION_TEXT, COMMAND_PLAN, AT(emit_c), 0, 0, NULL, "DIR", false,
     "writes a trainer in C for this plan, portable and on one thread: constant tables, an "
     "interface, an example and a makefile (docs/how-to/appliance.md)"},
    {"as", OPTION_CHOICE, COMMAND_PLAN, AT(emit_as), 0, 0, "plain",
     "plain|arduino|zephyr|cmsis-pack|esp-idf", false,
     "with --emit-c: the form of the folder: sources alone, or a package of that system "
     "(docs/how-to/appliance.md)"},
    {"byte-images", OPTION_FLAG, COMMAND_PLAN, AT(byte_images), 0, 0, "false", NULL, false,
     "with --emit-c: the trainer of a convolutional net reads images as bytes, a quarter of their "
     "memory, and scales them by preprocessor_config.json, else by 1/255"},
    {"predict", OPTION_FLAG, COMMAND_PLAN, AT(predict), 0, 0, "false", NULL, false,
     "plans for answers as well, a sample at a time or as many as --per-device-eval-batch-size: "
     "with --emit-c the trainer predicts classes, numbers or vectors"},
    {"generate-context", OPTION_COUNT, COMMAND_PLAN, AT(generate_context), 0, 1 << 24, "0", "N",
     false,
     "plans for texts of up to N tokens as well: with --emit-c the trainer of a causal model "
     "generates; 0: it does not"},
    {"frontier", OPTION_FLAG, COMMAND_PLAN, AT(frontier), 0, 0, "false", NULL, false,
     "prints estimated time against bytes, also on the page. At ten budgets it compares dropping "
     "whole classes of activations (selective) with any set (auto)"},
    {"sparse-update-bytes", OPTION_BYTES, COMMAND_PLAN, AT(sparse_update), 0, 1.8e19, "0", "BYTES",
     false,
     "chooses the tensors that are trained in an arena of BYTES, by their contribution; 0: all "
     "are"},
    {"contributions", OPTION_TEXT, COMMAND_PLAN, AT(contributions), 0, 0, NULL, "FILE|DIR", false,
     "with --sparse-update-bytes: lines of a tensor's name and what training it contributes, or a "
     "checkpoint of a run with adamw, whose second moments give it. Without it: biases, then "
     "weights, the last of the model first"},
    {"sparse-update-rows", OPTION_FLAG, COMMAND_PLAN, AT(sparse_rows), 0, 0, "false", NULL, false,
     "with --sparse-update-bytes: of a tensor that does not fit, trains half, a quarter or an "
     "eighth of its rows"},
    {"max-batch", OPTION_FLAG, COMMAND_PLAN, AT(max_batch), 0, 0, "false", NULL, false,
     "plans the largest micro-batch that fits --arena"},
    {"ranks", OPTION_COUNT, COMMAND_PLAN, AT(ranks_asked), 0, 1024, "0", "N", false,
     "plans each of N ranks: its bytes, its share, and what a step sends; 0: one rank"},
    {"ranks-per-host", OPTION_COUNT, LEARNS, AT(ranks_per_host), 0, 1024, "0", "N", false,
     "the number of ranks on a host; 0: all of them"},
    {"bandwidth", OPTION_TEXT, LEARNS, AT(bandwidth), 0, 0, "12.5e9", "B[,B]", false,
     "the bandwidth of a rank in bytes per second, inside a host and between hosts (measured by "
     "bench fabric)"},
    {"latency", OPTION_TEXT, LEARNS, AT(latency), 0, 0, "50e-6", "S[,S]", false,
     "the least seconds of a call, likewise"},
    {"all", OPTION_FLAG, COMMAND_REPLAY, AT(replay_all), 0, 0, "false", NULL, false,
     "replays every segment between two checkpoints (the default)"},
    {"ask-rewards", OPTION_FLAG, COMMAND_REPLAY, AT(ask_rewards), 0, 0, "false", NULL, false,
     "of a run by --task grpo: runs the recorded reward command, and scores with the reward model, "
     "again, instead of taking their rewards from the record"},
    {"sample", OPTION_COUNT, COMMAND_REPLAY, AT(replay_sample), 0, MOST, "0", "K", false,
     "replays K segments, chosen at random by --seed"},
    {"compare", OPTION_FLAG, COMMAND_REPLAY, AT(replay_compare), 0, 0, "false", NULL, false,
     "compares two output directories and finds where their runs part"},
    {"documents", OPTION_COUNT, COMMAND_REPLAY, AT(replay_documents), 0, MOST, "0", "STEP", false,
     "lists the documents that a step read"},
    {"m", OPTION_COUNT, COMMAND_BENCH, AT(m), 1, 1 << 20, "1024", "M", false,
     "gemm: the number of rows"},
    {"n", OPTION_COUNT, COMMAND_BENCH, AT(n), 1, 1 << 20, "1024", "N", false,
     "gemm: the number of columns"},
    {"k", OPTION_COUNT, COMMAND_BENCH, AT(k), 1, 1 << 20, "1024", "K", false,
     "gemm: the number of terms"},
    {"elements", OPTION_COUNT, COMMAND_BENCH, AT(elements), 1, 1e12, "16777216", "N", false,
     "optim: the number of weights to update"},
    {"repeat", OPTION_COUNT, COMMAND_BENCH, AT(repeat), 1, 1 << 20, "10", "N", false,
     "the number of timed runs, whose median counts"},

    {"capacity", OPTION_BYTES, COMMAND_ARENA, AT(capacity), 0, 1.8e19, "0", "BYTES", false,
     "accepts a layout that fits this; 0: looks for the smallest"},

    {"from", OPTION_TEXT, COMMAND_IMPORT | COMMAND_REPLAY, AT(from), 0, 0, NULL, "FILE|STEP", false,
     "replay: the first step; import: a GGUF file (F32, F16, BF16; Q4_0 to Q8_0, Q2_K to Q6_K, "
     "IQ4_NL and MXFP4 "
     "become floats), an llm.c model file, or the state that a board has kept (with --model: the "
     "directory of its config.json)"},
    {"to", OPTION_TEXT, PORTS | COMMAND_REPLAY, AT(to), 0, 0, NULL, "DIR|FILE|STEP", false,
     "replay: the last step; import: the directory to write; export: the directory, or the file "
     "NAME.gguf or NAME.bin, to write"},
    {"format", OPTION_CHOICE, COMMAND_EXPORT, AT(format), 0, 0, "auto", "auto|hf|gguf|llmc|state",
     false,
     "the format to write; auto: gguf for NAME.gguf, llmc for NAME.bin, else a Hugging Face "
     "directory; state: of a directory checkpoint-N, what a trainer on a board takes up"},
    {"card", OPTION_TEXT, COMMAND_EXPORT, AT(card), 0, 0, NULL, "FILE", false,
     "writes a CycloneDX model card of the run in --model (or --adapter), from its record. --to "
     "may be left out"},
    {"dtype", OPTION_CHOICE, PORTS, AT(dtype), 0, 0, "source", "source|fp32|bf16|fp16", false,
     "the element type to write; source: each tensor keeps its own"},
    {"save-quant", OPTION_CHOICE, COMMAND_EXPORT, AT(save_quant), 0, 0, "none",
     "none|q8_0|q6_k|q5_k|q5_0|q5_1|q4_k|q4_0|q4_1", false,
     "GGUF: packs the matrices in blocks of this type, with llama.cpp's bytes"},

    {"json", OPTION_FLAG, EVERY, AT(json), 0, 0, "false", NULL, false,
     "prints one JSON object per line on stdout"},
    {"yes", OPTION_FLAG, COMMAND_INIT, AT(yes), 0, 0, "false", NULL, false,
     "takes the proposed answer to every question that no option answers, and asks nothing"},
    {"quiet", OPTION_FLAG, READS_TEXTS, AT(quiet), 0, 0, "false", NULL, false,
     "shows no progress on stderr"},
    {"config", OPTION_TEXT, EVERY, AT(config), 0, 0, NULL, "FILE", false,
     "a file of options as `name = value` lines. The command line has precedence"},
    {"print-options", OPTION_FLAG, EVERY, AT(print_options), 0, 0, "false", NULL, false,
     "prints the resolved options, a file for --config, and ends"},
    {"help", OPTION_TEXT_MAYBE, EVERY, AT(help), 0, 0, NULL, "all|WORD", false,
     "shows the options that matter most, all of them, or those that concern a word"},
};

enum { OPTIONS = sizeof table / sizeof table[0] };

/* The table fits settings.given. */
typedef char bounded_table[OPTIONS <= SETTINGS_OPTIONS_MAX ? 1 : -1];

/* Headings of help and manual: each stands before the option of that name. */
static const struct {
    const char *first;
    const char *heading;
} sections[] = {
    {"model", "Model and data"},
    {"per-device-train-batch-size", "Shapes and checkpointing"},
    {"fp32", "Precision"},
    {"lora-r", "Adapters and quantised bases"},
    {"freeze", "What is trained"},
    {"max-steps", "Optimization"},
    {"arena", "Memory and device"},
    {"resume", "Saving, evaluating, stopping"},
    {"time-limit", "Unattended runs"},
    {"prompt", "Generation"},
    {"listing", "Plans for ranks"},
    {"all", "Replays"},
    {"m", "Measurements"},
    {"capacity", "Arena planner"},
    {"from", "Files of other programs"},
    {"json", "Output and help"},
};

const char *option_section(const option *which)
{
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        if (strcmp(sections[i].first, which->name) == 0) {
            return sections[i].heading;
        }
    }
    return NULL;
}

static void choices_write(void)
{
    const bp_device_entry *entry;
    bp_text text;
    if (device_choices[0] != '\0') {
        return;
    }
    bp_text_init(&text, NULL, NULL, device_choices, sizeof device_choices);
    bp_text_string(&text, "auto");
    for (uint32_t i = 0; (entry = bp_device_at(i)) != NULL; i++) {
        bp_text_char(&text, '|');
        bp_text_string(&text, entry->choices);
    }
    const bp_status fits = bp_text_flush(&text); /* cut, more are not shown */
    (void)fits;
}

const option *option_at(uint32_t index)
{
    if (index == 0) {
        choices_write();
    }
    return index < OPTIONS ? &table[index] : NULL;
}

uint32_t option_index(const option *which)
{
    return (uint32_t)(which - table);
}

bool option_given(const settings *set, const char *name)
{
    return set->given[option_index(option_find(name, strlen(name)))];
}

static bool options_table_same_name(const char *name, const char *given, size_t length)
{
    if (strlen(name) != length) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        char c = given[i] == '_' ? '-' : given[i];
        if (c != name[i]) {
            return false;
        }
    }
    return true;
}

const option *option_find(const char *name, size_t length)
{
    choices_write();
    for (size_t i = 0; i < OPTIONS; i++) {
        if (options_table_same_name(table[i].name, name, length)) {
            return &table[i];
        }
    }
    return NULL;
}
