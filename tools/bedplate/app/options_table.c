/* SPDX-License-Identifier: MIT */
/* The table of options. Names and defaults are those of Hugging Face TrainingArguments where it has
 * the option. */
#include <string.h>

#include "tools/bedplate/planning/buckets_choice.h"
#include "tools/bedplate/models/model_table.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/session/policy.h"
#include "tools/bedplate/session/embedder_choice.h"
#include "tools/bedplate/planning/unit_text.h"
#include "tools/bedplate/planning/shard_plan.h"

#define AT(member) offsetof(settings, member)

enum {
    SHAPES = COMMAND_PLAN | COMMAND_TRAIN | COMMAND_BENCH,
    LEARNS = COMMAND_PLAN | COMMAND_TRAIN,
    PLANS = COMMAND_PLAN | COMMAND_TRAIN | COMMAND_EVAL | COMMAND_EMBED | COMMAND_GENERATE |
            COMMAND_BENCH | COMMAND_DISTILL,
    LOADS = COMMAND_TRAIN | COMMAND_EVAL | COMMAND_EMBED | COMMAND_GENERATE | COMMAND_DISTILL,
    READS = COMMAND_PLAN | COMMAND_TRAIN | COMMAND_EVAL,
    READS_VECTORS = READS | COMMAND_EMBED,
    READS_TEXTS = READS_VECTORS | COMMAND_DISTILL,
    PORTS = COMMAND_EXPORT | COMMAND_IMPORT,
    EVERY = 0xffffff
};

#define MOST 9e18 /* counts that need no smaller bound */

static const option table[] = {
    {"model", OPTION_TEXT, PLANS | COMMAND_EXPORT | COMMAND_TOKENIZE | COMMAND_REPLAY, AT(model), 0,
     0, NULL, "DIR|FILE.gguf|PRESET", false,
     "a directory with config.json (and model.safetensors), a GGUF file, or a preset name"},
    {"data", OPTION_PATHS, READS_TEXTS | COMMAND_TOKENIZE | COMMAND_REPLAY, AT(data), 0, 0, NULL,
     "FILE..", false,
     "text, JSON lines, tables, llm.c or nanoGPT token files, also in .gz or .zst; patterns with * "
     "are "
     "expanded; - is standard input"},
    {"data-weights", OPTION_TEXT, LEARNS | COMMAND_DISTILL, AT(data_weights), 0, 0, NULL, "F,F,..",
     true, "each argument of --data is a data set and has this share of the rows of every epoch"},
    {"eval-data", OPTION_PATHS, LEARNS | COMMAND_REPLAY, AT(eval_data), 0, 0, NULL, "FILE..", false,
     "held-out data, evaluated every --eval-steps and at the end"},
    {"validation-split", OPTION_REAL, READS | COMMAND_DISTILL, AT(validation_split), 0, 0.9, "0",
     "F", false, "hold out the last F of the data instead (eval: evaluate only that part)"},
    {"data-format", OPTION_CHOICE, READS_TEXTS | COMMAND_TOKENIZE, AT(data_format), 0, 0, "auto",
     "auto|text|jsonl|json|tsv|csv|f32|npy|cifar10|idx|imagefolder|llmc|nanogpt|bytes", false,
     "auto: by magic, then by ending; bytes: text, whatever bytes it holds"},
    {"unpack-limit", OPTION_BYTES, READS_TEXTS | COMMAND_TOKENIZE | COMMAND_REPLAY,
     AT(unpack_limit), 0, 1.8e19, "64GiB", "SIZE", false,
     "the most bytes that a packed file of --data, or what comes through a pipe, may have; never "
     "more than nine tenths of what is free"},
    {"text-column", OPTION_TEXT, READS_TEXTS | COMMAND_REPLAY, AT(text_column), 0, 0, NULL, "NAME",
     true,
     "the column, or field of JSON lines, that is the text, where it has none of the usual names; "
     "with --no-header its number, from 1 on"},
    {"label-column", OPTION_TEXT, READS_VECTORS | COMMAND_REPLAY, AT(label_column), 0, 0, NULL,
     "NAME", true, "the same for the label"},
    {"no-header", OPTION_FLAG, READS_VECTORS | COMMAND_REPLAY, AT(no_header), 0, 0, "false", NULL,
     true,
     "the first row of a table holds data: label and text, unless the columns are given by number"},
    {"label-form", OPTION_CHOICE, READS | COMMAND_REPLAY, AT(label_form), 0, 0, "auto",
     "auto|multi-hot|classes", true,
     "multi-label-classification: what a list of labels is, a 0 or 1 for each class or the classes "
     "that hold; auto: what it can only be"},
    {"chat-template", OPTION_TEXT, READS | COMMAND_DISTILL | COMMAND_GENERATE | COMMAND_REPLAY,
     AT(chat_template), 0, 0, NULL, "NAME|FILE", true,
     "how conversations (JSON lines with `messages`, `conversations` or `instruction`) become "
     "text; "
     "else the model's own template (docs/how-to/chat.md)"},
    {"loss-on", OPTION_CHOICE, READS | COMMAND_DISTILL, AT(loss_on), 0, 0, "assistant",
     "assistant|completion|all", true,
     "what of a conversation is learned: what assistants say, what the assistant says last, all"},
    {"chat-date", OPTION_TEXT, READS | COMMAND_DISTILL | COMMAND_GENERATE, AT(chat_date), 0, 0,
     "2024-07-26", "YYYY-MM-DD", true, "the day that chat templates are told it is"},
    {"tokenizer", OPTION_TEXT, READS_TEXTS | COMMAND_GENERATE | COMMAND_TOKENIZE | COMMAND_REPLAY,
     AT(tokenizer), 0, 0, NULL, "DIR", false,
     "whose tokenizer is used; else the model directory's, else a token is a byte"},
    {"output", OPTION_TEXT, COMMAND_TOKENIZE | COMMAND_REPORT | COMMAND_EMBED | COMMAND_DISTILL,
     AT(output), 0, 0, NULL, "FILE", false,
     "embed: NAME.npy (float32) or NAME.jsonl; distill: what the teacher says; tokenize: the token "
     "file, uint16 for up to 65,536 ids, else uint32; report: the page, else "
     "report.html in the first directory"},
    {"output-dir", OPTION_TEXT, LEARNS, AT(output_dir), 0, 0, NULL, "DIR", false,
     "where checkpoints and the trained model go"},
    {"predictions", OPTION_TEXT, COMMAND_EVAL, AT(predictions), 0, 0, NULL, "FILE", false,
     "write what a classification or regression makes of each row, a JSON line each: index, "
     "prediction, score, label, logits; the data may lack labels"},
    {"dropout", OPTION_REAL, SHAPES, AT(dropout), -1, 0.99, "-1", "F", false,
     "every dropout of the model; -1: as its configuration says"},
    {"task", OPTION_CHOICE, READS | COMMAND_GENERATE | COMMAND_BENCH, AT(task), 0, 0, "auto",
     TASK_WORDS, true,
     "what the model learns; auto: what its config.json names, BERT else masked-lm"},
    {"num-labels", OPTION_COUNT, READS | COMMAND_BENCH, AT(num_labels), 0, 1024, "0", "N", true,
     "classes of a classification; 0: as config.json says, else as the labels of --data name them, "
     "else 2"},
    {"pooling", OPTION_CHOICE, READS_VECTORS, AT(pooling), 0, 0, "auto", POOLING_WORDS, true,
     "embedding: how a text's vector is made of its tokens'; auto: as the model directory's "
     "1_Pooling says, else mean"},
    {"normalize", OPTION_CHOICE, READS_VECTORS, AT(normalize), 0, 0, "auto", "auto|true|false",
     false,
     "embedding: vectors of length 1; auto: where the model directory has a Normalize module"},
    {"prompt-name", OPTION_TEXT, READS_VECTORS, AT(prompt_name), 0, 0, NULL, "NAME", true,
     "embedding: the prompt of config_sentence_transformers.json that is put before each text; "
     "else its default_prompt_name"},
    {"scale", OPTION_REAL, READS, AT(similarity), 1e-6, 1e6, "20", "F", true,
     "embedding: what cosines are multiplied by before the softmax over all candidates of a batch"},
    {"negatives", OPTION_COUNT, COMMAND_PLAN, AT(negatives), 0, 6, "0", "N", false,
     "embedding: negatives of each row; train and eval find that out"},
    {"text-pairs", OPTION_FLAG, COMMAND_PLAN, AT(text_pairs), 0, 0, "false", NULL, false,
     "the data holds pairs of texts, whose tokens have types; train and eval find that out"},
    {"label-all-tokens", OPTION_FLAG, READS, AT(label_all_tokens), 0, 0, "false", NULL, true,
     "token-classification: every piece of a word has its label, the later ones I-X for B-X; else "
     "the first alone"},
    {"doc-stride", OPTION_COUNT, READS, AT(doc_stride), 0, 65535, "128", "N", true,
     "question-answering: tokens of the context that one window has in common with the next"},
    {"n-best-size", OPTION_COUNT, READS, AT(n_best_size), 1, 100, "20", "N", false,
     "question-answering: beginnings and ends of answers that are considered of each window"},
    {"max-answer-length", OPTION_COUNT, READS, AT(max_answer_length), 1, 65535, "30", "N", false,
     "question-answering: tokens of an answer at most"},
    {"version-2-with-negative", OPTION_FLAG, READS, AT(version_2), 0, 0, "false", NULL, false,
     "question-answering: there may be no answer (meant where the data has such questions)"},
    {"null-score-diff-threshold", OPTION_REAL, READS, AT(null_threshold), -1e9, 1e9, "0", "F",
     false, "the answer is empty where its score is above the best one's by more than this"},
    {"allow-missing", OPTION_FLAG, COMMAND_PLAN | LOADS, AT(allow_missing), 0, 0, "false", NULL,
     false,
     "tensors that the weight files lack begin as random ones; each is named (train: a new task's "
     "head does so in any case)"},
    {"allow-unexpected", OPTION_FLAG, COMMAND_PLAN | LOADS | PORTS, AT(allow_unexpected), 0, 0,
     "false", NULL, false, "tensors that the model does not have are left out; each is named"},
    {"ignore-mismatched-sizes", OPTION_FLAG, COMMAND_PLAN | LOADS, AT(ignore_mismatched), 0, 0,
     "false", NULL, false, "tensors of another shape than the model's are as if they were missing"},
    {"save-dtype", OPTION_CHOICE, LEARNS, AT(save_dtype), 0, 0, "fp32", "fp32|bf16|fp16|source",
     false, "element type of the trained model.safetensors; source: each tensor as --model has it"},

    {"per-device-train-batch-size", OPTION_COUNT, SHAPES, AT(batch), 1, 1 << 20, "8", "N", true,
     "sequences per micro-batch; pairs of them, where the task learns preferences"},
    {"per-device-eval-batch-size", OPTION_COUNT,
     LEARNS | COMMAND_EVAL | COMMAND_EMBED | COMMAND_DISTILL, AT(eval_batch), 0, 1 << 20, "0", "N",
     false,
     "sequences per run of the evaluation program; 0: in training those of a micro-batch, else 8"},
    {"gradient-accumulation-steps", OPTION_COUNT, SHAPES, AT(accumulation), 1, 1 << 20, "1", "N",
     true, "micro-batches per optimizer step"},
    {"virtual-ranks", OPTION_COUNT, LEARNS, AT(virtual_ranks), 1, 1024, "1", "L", true,
     "cut a step's micro-batches into so many parts, a power of two, whose gradients are added in "
     "a fixed tree: any number of ranks that divides it gives the same bits; ranks without it take "
     "as many virtual ranks as there are ranks"},
    {"max-seq-length", OPTION_COUNT, SHAPES | COMMAND_EVAL | COMMAND_EMBED | COMMAND_DISTILL,
     AT(sequence), 0, 1 << 24, "0", "N", true,
     "tokens per sequence; 0: the model's n_positions, at most 1024"},
    {"length-buckets", OPTION_TEXT, READS_VECTORS, AT(length_buckets), 0, 0, "auto", BUCKETS_WORDS,
     false,
     "length buckets (programs for shorter texts), where samples are padded: each micro-batch runs "
     "the shortest "
     "that "
     "holds it, and gives the padded run's bits; auto: four lengths chosen from the data's; N: so "
     "many"},
    {"loss-chunk-rows", OPTION_COUNT, SHAPES, AT(loss_rows), 0, 1 << 30, "0", "N", true,
     "tokens whose logits exist at one time; 0: as many as fit 60 MB"},
    {"time-chunk", OPTION_COUNT, SHAPES | COMMAND_EVAL, AT(time_chunk), 0, 1 << 24, "0", "N", true,
     "rnn: tokens of a stage, a piece of time; 0: 16, or a 64th of the sequence if that is more"},
    {"gradient-checkpointing", OPTION_POLICY, SHAPES | COMMAND_REPLAY, AT(checkpointing), 0, 0,
     "none", POLICY_WORDS, false,
     "which activations are computed again, not kept; auto: the fastest that fits --arena"},
    {"calibrate", OPTION_FLAG, SHAPES, AT(calibrate), 0, 0, "false", NULL, false,
     "measure this machine before auto chooses; kept as calibration.json in --output-dir"},
    {"fp32", OPTION_FLAG, PLANS, AT(fp32), 0, 0, "true", NULL, true,
     "single precision throughout, where neither --bf16 nor --fp16 is given"},
    {"bf16", OPTION_FLAG, PLANS, AT(bf16), 0, 0, "false", NULL, true,
     "weights and activations in bfloat16; norms, softmax, loss, sums and updates stay in fp32"},
    {"fp16", OPTION_FLAG, PLANS, AT(fp16), 0, 0, "false", NULL, true,
     "weights and activations in half precision, with loss scaling and an fp32 master"},
    {"tf32", OPTION_FLAG, PLANS, AT(tf32), 0, 0, "false", NULL, false,
     "cuda: fp32 matrix products round their operands to TF32 for tensor cores"},
    {"master", OPTION_CHOICE, SHAPES, AT(master), 0, 0, "auto", "auto|fp32|split|split8|none", true,
     "where 16-bit weights keep their exact value: fp32 4 bytes more; split 2 (exact); split8 1 "
     "(24 "
     "bits); none 0 (stochastic rounding); auto: split with --bf16, fp32 with --fp16"},
    {"weight-dtype", OPTION_CHOICE, SHAPES, AT(weight_dtype), 0, 0, "auto", "auto|fp8", true,
     "weights of the blocks' dense layers that are trained; auto: in the type of activations; fp8: "
     "as e4m3 codes with a scale for each 64, which products read, and a 16-bit remainder, exact "
     "together: 3.02 bytes a weight; with --bf16, where other weights have --master split8"},
    {"gradient-dtype", OPTION_CHOICE, SHAPES, AT(gradient_dtype), 0, 0, "auto",
     "auto|fp32|bf16|int8", true,
     "weight gradients; auto: bf16 with split, split8 and none, else fp32; int8: a stage's are as "
     "auto says, and added up in groups of 32 with a bf16 scale, rounded at random without bias: "
     "full gradients of 1.0625 bytes a parameter, and one stage's"},
    {"tape-dtype", OPTION_CHOICE, SHAPES, AT(tape_dtype), 0, 0, "auto", "auto|fp8", true,
     "what backward reads of the blocks' forward (outputs of norms, dense layers, attention): "
     "auto: "
     "in the type of activations; fp8: as e4m3 codes with a scale for each 128 of a row, about "
     "1.01 bytes a number whatever that type is; forward keeps its bits, gradients do not"},
    {"product-dtype", OPTION_CHOICE, SHAPES, AT(product_dtype), 0, 0, "auto", "auto|fp8", true,
     "products of the blocks' dense layers when training; auto: in the type of activations; fp8: "
     "of "
     "wide layers, forward and backward, with both operands as e4m3 codes, a scale for each row, "
     "summed in 32 bits after each 128 terms; --device cuda:sm_90a alone"},
    {"product-fp8-from", OPTION_COUNT, SHAPES, AT(product_from), 1, 1 << 24, "1600", "N", true,
     "inputs and outputs that a layer whose products are in fp8 has at least; fewer are for trying "
     "it on small models"},
    {"gradient-release", OPTION_MAYBE, SHAPES, AT(gradient_release), 0, 0, "none",
     "exact|previous-norm|adama|none", true,
     "update each stage inside backward, so that no full gradient exists; exact (meant when no "
     "value "
     "follows): with clipping or loss scaling backward runs twice; previous-norm: once, clipped by "
     "the norm of the step before; adama: micro-batches are folded into Adam's moments one by one"},
    {"loss-scale", OPTION_TEXT, SHAPES, AT(loss_scale), 0, 0, "auto", "auto|dynamic|none|X", true,
     "dynamic as torch.amp.GradScaler does it, or a fixed scale; auto: dynamic with --fp16"},
    {"initial-loss-scale", OPTION_REAL, SHAPES, AT(initial_scale), 1e-30, 1e30, "65536", "X", true,
     "where the dynamic scale starts"},
    {"loss-scale-window", OPTION_COUNT, SHAPES, AT(scale_window), 1, 1 << 30, "2000", "N", true,
     "applied steps in a row before the scale doubles"},
    {"loss-scale-hysteresis", OPTION_COUNT, SHAPES, AT(scale_hysteresis), 1, 1 << 30, "1", "N",
     true, "skipped steps before the scale is halved"},
    {"loss-scale-floor", OPTION_REAL, SHAPES, AT(scale_floor), 0, 1e30, "0", "X", true,
     "the scale never falls below this"},
    {"lora-r", OPTION_COUNT, SHAPES, AT(lora_r), 0, 4096, "0", "R", true,
     "train low-rank adapters of this rank, and nothing else; 0: none"},
    {"lora-alpha", OPTION_REAL, SHAPES, AT(lora_alpha), 1e-9, 1e9, "8", "F", true,
     "adapters count alpha / r times"},
    {"lora-dropout", OPTION_REAL, SHAPES, AT(lora_dropout), 0, 0.999, "0", "F", true,
     "dropout of what adapters read"},
    {"use-rslora", OPTION_FLAG, SHAPES, AT(use_rslora), 0, 0, "false", NULL, true,
     "adapters count alpha / sqrt(r) times"},
    {"use-dora", OPTION_FLAG, SHAPES, AT(use_dora), 0, 0, "false", NULL, true,
     "DoRA: adapters turn weights, and the length of each output's is trained by itself"},
    {"lora-bias", OPTION_CHOICE, SHAPES, AT(lora_bias), 0, 0, "none", "none|all|lora_only", true,
     "biases that are trained beside adapters: all, or those of the adapted layers (PEFT's bias)"},
    {"target-modules", OPTION_TEXT, SHAPES, AT(target_modules), 0, 0, NULL, "NAME,..", true,
     "layers (dense ones, convolutions, the token embedding) that get adapters, by the ends of "
     "their names, or by an "
     "expression that matches whole "
     "names as Python's re.fullmatch does; all-linear: all of the blocks'; default: "
     "c_attn (gpt2), q_proj,v_proj (llama), query,value (bert), convolution (resnet)"},
    {"exclude-modules", OPTION_TEXT, SHAPES, AT(exclude_modules), 0, 0, NULL, "NAME,..", true,
     "layers that get no adapters, in the same forms"},
    {"layers-to-transform", OPTION_TEXT, SHAPES, AT(layers_to_transform), 0, 0, NULL, "N,..", true,
     "adapters in these blocks only, from 0"},
    {"layers-pattern", OPTION_TEXT, SHAPES, AT(layers_pattern), 0, 0, NULL, "NAME,..", true,
     "with --layers-to-transform: what stands before a block's number in names (layers, h)"},
    {"rank-pattern", OPTION_TEXT, SHAPES, AT(rank_pattern), 0, 0, NULL, "KEY=R,..", true,
     "ranks of adapters whose layers' names end with KEY, a name or an expression"},
    {"alpha-pattern", OPTION_TEXT, SHAPES, AT(alpha_pattern), 0, 0, NULL, "KEY=F,..", true,
     "the same of --lora-alpha"},
    {"trainable-token-indices", OPTION_TEXT, SHAPES, AT(trainable_token_indices), 0, 0, NULL,
     "N,..", true,
     "rows of the token embedding that are trained beside adapters, by their tokens "
     "(5,32000-32003)"},
    {"loraplus-lr-ratio", OPTION_REAL, SHAPES, AT(loraplus_lr_ratio), 0, 1e6, "1", "X", true,
     "LoRA+: adapters' B, magnitudes and biases learn at this many times the rate of A (16 is "
     "usual)"},
    {"adapter", OPTION_TEXT, PLANS | COMMAND_EXPORT | COMMAND_REPLAY, AT(adapter), 0, 0, NULL,
     "DIR", false, "adapters in PEFT's form, to use, to go on training, or to merge"},
    {"load-in-4bit", OPTION_FLAG, PLANS | COMMAND_EXPORT, AT(load_in_4bit), 0, 0, "false", NULL,
     true,
     "the blocks' dense layers in 4 bits; plan, train, eval, embed, generate, bench, distill: they "
     "are frozen and trained by adapters (--lora-r)"},
    {"load-in-8bit", OPTION_FLAG, PLANS | COMMAND_EXPORT, AT(load_in_8bit), 0, 0, "false", NULL,
     true, "the same in 8 bits with one scale per row (LLM.int8)"},
    {"bnb-4bit-use-double-quant", OPTION_CHOICE, PLANS | COMMAND_EXPORT, AT(double_quant), 0, 0,
     "true", "true|false", true, "with --load-in-4bit: the scales of blocks in 8 bits as well"},
    {"bnb-4bit-quant-type", OPTION_CHOICE, PLANS | COMMAND_EXPORT, AT(quant_type), 0, 0, "nf4",
     "nf4|fp4", true, "with --load-in-4bit: which sixteen values"},
    {"bnb-4bit-blocksize", OPTION_COUNT, PLANS | COMMAND_EXPORT, AT(quant_block), 32, 4096, "64",
     "N", true, "with --load-in-4bit: elements that share a scale (32, 64, 128 .. 4096)"},
    {"merge", OPTION_FLAG, COMMAND_EXPORT, AT(merge), 0, 0, "false", NULL, false,
     "add the --adapter to the weights that are written"},
    {"freeze", OPTION_LIST, SHAPES, AT(freeze), 0, 0, NULL, "GLOB", true,
     "parameters that stay as they are, by name (* and ?); may be repeated"},
    {"trainable", OPTION_LIST, SHAPES, AT(trainable), 0, 0, NULL, "GLOB", true,
     "parameters that are trained although --freeze matches; may be repeated"},
    {"param-override", OPTION_LIST, SHAPES, AT(overrides), 0, 0, NULL,
     "'GLOB: lr=F,weight_decay=F,optim_bits=4|8|32'", true,
     "what holds for some parameters only; may be repeated, the last one wins"},

    {"max-steps", OPTION_SIGNED, LEARNS, AT(max_steps), -1, MOST, "-1", "N", false,
     "optimizer steps; -1: as many as --num-train-epochs says"},
    {"num-train-epochs", OPTION_REAL, LEARNS, AT(epochs), 0, 1e9, "3", "F", false,
     "passes over the data"},
    {"learning-rate", OPTION_REAL, SHAPES, AT(learning_rate), 0, 1000, "5e-5", "F", true,
     "the schedule's peak; dpo, orpo, simpo and kto: 1e-6 unless it is given"},
    {"lr-scheduler-type", OPTION_CHOICE, LEARNS, AT(scheduler), 0, 0, "linear",
     "constant|constant_with_warmup|linear|cosine|cosine_with_min_lr|cosine_with_restarts|"
     "polynomial|inverse_sqrt|"
     "warmup_stable_decay",
     true, "the schedule, as transformers' get_scheduler computes it"},
    {"lr-scheduler-kwargs", OPTION_TEXT, LEARNS, AT(rate_numbers), 0, 0, NULL, "KEY=VALUE,..", true,
     "the schedule's own numbers, also as JSON: cosine num_cycles (0.5), cosine_with_restarts "
     "num_cycles (1), polynomial power (1), lr_end (1e-7), inverse_sqrt timescale (the warm-up, "
     "or 10000)"},
    {"warmup-steps", OPTION_REAL, LEARNS, AT(warmup), 0, 1e15, "0", "F", true,
     "steps of linear warm-up; below 1: a share of all steps"},
    {"warmup-ratio", OPTION_REAL, LEARNS, AT(warmup_ratio), 0, 1, "0", "F", true,
     "the same as a share of all steps, rounded up; --warmup-steps goes before it"},
    {"min-lr", OPTION_REAL, LEARNS, AT(minimum_rate), 0, 1000, "0", "F", true,
     "where linear, cosine and polynomial schedules end"},
    {"optim", OPTION_TEXT, SHAPES, AT(optimizer), 0, 0, "adamw", "NAME", true,
     "the update rule: adamw, adam, sgd, lion, rmsprop, adagrad, lamb, lars, ademamix, adam_mini, "
     "muon, apollo, schedule_free_adamw, each also with "
     "_8bit; adamw_8bit_companded, adamw_4bit; adafactor, adalomo, apollo_mini; Hugging Face's "
     "names (adamw_torch, adamw_bnb_8bit)"},
    {"optim-args", OPTION_TEXT, SHAPES, AT(optim_args), 0, 0, NULL, "KEY=VALUE,..", true,
     "the rule's own numbers: sgd momentum, dampening, nesterov; rmsprop alpha, momentum; lars "
     "momentum, trust_coefficient; ademamix alpha, beta3, t_alpha, t_beta3; adafactor, "
     "adalomo clip_threshold, decay_rate, scale_parameter, eps2; muon momentum, nesterov, "
     "match_rms; "
     "apollo rank, scale, update_proj_gap"},
    {"percentile-clipping", OPTION_COUNT, SHAPES, AT(percentile), 0, 99, "0", "P", true,
     "scale gradients down to percentile P of the last 100 norms; 0: do not"},
    {"weight-decay", OPTION_REAL, SHAPES, AT(weight_decay), 0, 1000, "0", "F", true,
     "decoupled decay of matrices and embeddings"},
    {"decay-all", OPTION_FLAG, SHAPES, AT(decay_all), 0, 0, "false", NULL, true,
     "decay norms and biases as well"},
    {"adam-beta1", OPTION_REAL, SHAPES, AT(beta1), 0, 0.999999999, "0.9", "F", true,
     "decay of the first moment"},
    {"adam-beta2", OPTION_REAL, SHAPES, AT(beta2), 0, 0.999999999, "0.999", "F", true,
     "decay of the second moment"},
    {"adam-epsilon", OPTION_REAL, SHAPES, AT(epsilon), 1e-30, 1, "1e-8", "F", true,
     "added to the root of the second moment"},
    {"max-grad-norm", OPTION_REAL, SHAPES, AT(max_grad_norm), 0, 1e9, "1", "F", true,
     "gradients are scaled down to this norm; 0: never"},
    {"label-smoothing-factor", OPTION_REAL, LEARNS, AT(label_smoothing), 0, 0.999999, "0", "F",
     true,
     "share of every label that goes to all classes or tokens alike, in training and its "
     "evaluations"},
    {"neftune-noise-alpha", OPTION_REAL, LEARNS, AT(neftune), 0, 1e6, "0", "F", true,
     "training adds uniform noise of at most F / sqrt(tokens of a row * width) to the embeddings; "
     "5 "
     "is usual"},
    {"random-crop", OPTION_COUNT, LEARNS, AT(random_crop), 0, 4096, "0", "N", true,
     "images of training get N black places on each side and are cut out of that at random (4 is "
     "usual for CIFAR)"},
    {"random-resized-crop", OPTION_REAL, LEARNS, AT(random_resized_crop), 0, 1, "0", "F", true,
     "a random part of each image of training, F to all of its area, in the image's size (0.08 is "
     "usual)"},
    {"random-horizontal-flip", OPTION_REAL, LEARNS, AT(random_flip), 0, 1, "0", "F", true,
     "images of training are turned left to right with this probability (0.5 is usual)"},
    {"packing", OPTION_FLAG, LEARNS | COMMAND_DISTILL, AT(packing), 0, 0, "false", NULL, true,
     "several documents in a row of the data that is learned (docs/how-to/packing.md)"},
    {"packing-strategy", OPTION_CHOICE, LEARNS | COMMAND_DISTILL, AT(packing_strategy), 0, 0, "bfd",
     "bfd|bfd_split|wrapped", true,
     "by best fit, longer ones cut, or split; or one stream, cut wherever a row ends"},
    {"long-rows", OPTION_CHOICE, READS | COMMAND_DISTILL | COMMAND_REPLAY, AT(long_rows), 0, 0,
     "cut", "cut|refuse", false,
     "examples and packed documents that are longer than --max-seq-length: cut and counted, or "
     "refused (exit 4)"},
    {"loss-type", OPTION_CHOICE, READS, AT(loss_type), 0, 0, "sigmoid", "sigmoid|hinge|ipo", true,
     "dpo: the loss of a pair (docs/how-to/preferences.md)"},
    {"beta", OPTION_REAL, READS, AT(beta), 1e-6, 1e6, "0.1", "F", true,
     "dpo, orpo, simpo, kto: how much a difference of log-probabilities weighs"},
    {"label-smoothing", OPTION_REAL, READS, AT(pair_smoothing), 0, 0.499999, "0", "F", true,
     "dpo with the loss type sigmoid, and simpo: chance that a pair is the wrong way round"},
    {"simpo-gamma", OPTION_REAL, READS, AT(simpo_gamma), 0, 1e6, "0.5", "F", true,
     "simpo: the margin of rewards that is wanted"},
    {"cpo-alpha", OPTION_REAL, READS, AT(cpo_alpha), 0, 1e6, "0", "F", true,
     "simpo: weight of the chosen rows' mean loss, prompts included"},
    {"desirable-weight", OPTION_REAL, READS, AT(desirable), 0, 1e6, "1", "F", true,
     "kto: weight of rows whose label is true"},
    {"undesirable-weight", OPTION_REAL, READS, AT(undesirable), 0, 1e6, "1", "F", true,
     "kto: weight of rows whose label is false"},
    {"ref-model", OPTION_TEXT, READS, AT(ref_model), 0, 0, NULL, "DIR", true,
     "dpo, kto: the reference's weights; else those that training begins with "
     "(docs/how-to/preferences.md)"},
    {"distill", OPTION_TEXT, LEARNS | COMMAND_REPLAY, AT(distill), 0, 0, NULL, "FILE", false,
     "what a teacher says of the data, of `bedplate distill`: the loss is (1 - alpha) cross "
     "entropy + alpha T^2 KL(teacher || model) (docs/how-to/distillation.md)"},
    {"distill-alpha", OPTION_REAL, LEARNS, AT(distill_alpha), 0, 1, "0.5", "F", true,
     "how much of the loss is the teacher's"},
    {"distill-temperature", OPTION_REAL, LEARNS, AT(distill_temperature), 1e-3, 1e3, "1", "F", true,
     "what both sides' logits are divided by"},
    {"distill-top-k", OPTION_COUNT, COMMAND_DISTILL, AT(distill_top_k), 1, 128, "16", "N", false,
     "likeliest tokens that are kept of each place, 8 bytes each"},
    {"class-weights", OPTION_TEXT, LEARNS, AT(class_weights), 0, 0, NULL, "F,F,..|balanced", true,
     "what each class counts for in the mean loss of a classification, of rows or tokens "
     "(CrossEntropyLoss's weight); balanced: rows / (classes * rows of the class)"},
    {"seed", OPTION_COUNT, LEARNS | COMMAND_GENERATE | COMMAND_BENCH | COMMAND_REPLAY, AT(seed), 0,
     MOST, "42", "N", true, "of weights, order of the data, dropout and sampling"},
    {"data-seed", OPTION_SIGNED, LEARNS, AT(data_seed), -1, MOST, "-1", "N", true,
     "of the order of the data alone, and of what is masked; -1: as --seed"},
    {"group-by-length", OPTION_FLAG, SHAPES, AT(group_by_length), 0, 0, "false", NULL, true,
     "groups of samples of about one length, the longest first in every 50 groups: less padding"},

    {"arena", OPTION_BYTES, PLANS | COMMAND_DEVICES | COMMAND_REPLAY, AT(arena), 0, 1.8e19, "0",
     "BYTES", false,
     "the plan must fit in this (4GiB, 512MB, 2e9), and what is not given of checkpointing, batch "
     "and loss chunk is chosen to; 0: take what it needs"},
    {"offload", OPTION_TEXT, LEARNS, AT(offload), 0, 0, NULL,
     "file:PATH:BYTES|host:BYTES|flash:BYTES", false,
     "a second tier of memory: what --arena has no room for may live in this file, or, beside a "
     "GPU, in the host's memory, up to so many bytes, and is brought when it is used "
     "(docs/how-to/offload.md); without --arena, all that may; flash: frozen weights are read "
     "where a "
     "board "
     "has them (docs/how-to/appliance.md). It changes no bit of the result"},
    {"offload-what", OPTION_TEXT, LEARNS, AT(offload_what), 0, 0, "bases,states,weights", "NAMES",
     false,
     "what may live there, with commas: bases (frozen weights), states (masters and optimizer "
     "states), weights (trained ones of the blocks, whose states then do), gradients (what is "
     "added up of them, likewise), checkpoints (in a file)"},
    {"offload-endurance", OPTION_BYTES, COMMAND_PLAN, AT(offload_endurance), 0, 1.8e19, "0",
     "BYTES", false,
     "bytes that the drive may be written in its life (600TB): the plan says after how many steps "
     "and days that is"},
    {"offload-buffered", OPTION_FLAG, LEARNS, AT(offload_buffered), 0, 0, "false", NULL, false,
     "that file through the page cache, on file systems without O_DIRECT"},
    {"offload-two-versions", OPTION_FLAG, LEARNS, AT(offload_two), 0, 0, "false", NULL, false,
     "the file has two versions of what is trained there, and checkpoints leave it where it is: "
     "with "
     "--save-steps 1 a run whose power fails goes on from its last whole step "
     "(docs/how-to/offload.md)"},
    {"device", OPTION_TEXT, PLANS | COMMAND_REPLAY | COMMAND_SELFTEST, AT(device), 0, 0, "auto",
     "auto|host|cuda[:N]|cuda:sm_80|cuda:sm_90a", false,
     "what executes; auto takes the first GPU that can be used"},
    {"threads", OPTION_COUNT, PLANS | COMMAND_REPLAY, AT(threads), 0, 256, "0", "N", false,
     "workers; 0: one per processor. Results do not depend on it"},
    {"kernels", OPTION_CHOICE, PLANS | COMMAND_REPLAY, AT(kernels), 0, 0, "auto",
     "auto|portable|neon|sve|avx2|avx512|amx", false,
     "the form of the kernels; results do not depend on it, but for amx: products of bf16 by AMX "
     "tiles, with bits of their own (docs/explanation/numerics.md)"},
    {"alignment", OPTION_CHOICE, PLANS | COMMAND_REPLAY, AT(alignment), 0, 0, "256",
     "256|128|64|32", false,
     "bytes that buffers are aligned to; less is a smaller arena where they are small: 64 on the "
     "host, 32 with --kernels portable, neon or avx2, and in what --emit-c makes"},
    {"shard", OPTION_CHOICE, LEARNS, AT(shard), 0, 0, "none", SHARD_WORDS, false,
     "what ranks share out, so that each has its part alone (ZeRO 0 to 3): nothing; masters and "
     "optimizer states; the sums of gradients too; the weights too; auto: the fastest of these "
     "that "
     "fits --arena, by --bandwidth and --latency. The same bits in any form"},
    {"shard-ahead", OPTION_COUNT, LEARNS, AT(shard_ahead), 0, BP_AHEAD_MOST, "1", "N", false,
     "weights that are gathered ahead of their use, with --shard parameters; with --arena, unless "
     "given, as many of 2, 1, 0 as fit"},
    {"ddp-bucket-cap-mb", OPTION_COUNT, LEARNS, AT(bucket_mb), 0, 1 << 20, "0", "MB", false,
     "most MiB of gradients that go round as one message, of which two are under way; 0: 16, and "
     "at least 256 KiB for each rank"},
    {"fabric", OPTION_TEXT, COMMAND_TRAIN | COMMAND_BENCH, AT(fabric), 0, 0, "auto",
     "auto|none|mpi|nccl|nccl:N|threads:N", false,
     "how ranks reach each other; auto: as a launcher (mpirun, srun, torchrun) says, else there is "
     "one rank; nccl: the same, and NCCL joins their GPUs (auto takes it where all have it); "
     "threads:N, nccl:N: N ranks in this process, --threads workers each"},
    {"mpi", OPTION_TEXT, COMMAND_TRAIN | COMMAND_BENCH, AT(mpi), 0, 0, "auto", "auto|FILE", false,
     "the MPI library that is loaded; auto: the one that goes with the launcher"},
    {"silence-limit", OPTION_COUNT, SHAPES, AT(silence_limit), 1, 1 << 20, "10", "SECONDS", false,
     "a rank of which nothing is heard for so long is lost: all end with exit code 10"},
    {"step-limit", OPTION_COUNT, SHAPES, AT(step_limit), 1, 1 << 20, "600", "SECONDS", false,
     "longest wait for what another rank has to send; more than saving takes"},
    {"fabric-secret", OPTION_TEXT, COMMAND_TRAIN | COMMAND_BENCH, AT(fabric_secret), 0, 0, NULL,
     "FILE", false,
     "16 to 4096 bytes that all ranks joined by TCP have to know: who does not cannot join them"},
    {"fabric-check", OPTION_FLAG, COMMAND_TRAIN, AT(fabric_check), 0, 0, "false", NULL, false,
     "send a digest with every message between ranks: what was lost, came twice or was changed is "
     "refused (exit 10), never used"},
    {"fabric-seed", OPTION_COUNT, COMMAND_TRAIN | COMMAND_BENCH, AT(fabric_seed), 0, MOST, "0", "N",
     false,
     "threads:N: hold ranks up, cut messages and permute their order as this number says, a "
     "self-test"},
    {"poison", OPTION_FLAG, COMMAND_TRAIN | COMMAND_EVAL, AT(poison), 0, 0, "false", NULL, false,
     "fill buffers with signalling NaNs at birth and death: a self-test, slow"},
    {"resume", OPTION_MAYBE, LEARNS, AT(resume_word), 0, 0, "false", "true|auto|false", false,
     "continue from the newest valid checkpoint in --output-dir, if there is one; auto: the same "
     "for "
     "a run that is left alone: one command line begins it, goes on with it, and ends at once when "
     "it is complete"},
    {"newest", OPTION_FLAG, COMMAND_VERIFY, AT(newest), 0, 0, "false", NULL, false,
     "whether there is a valid checkpoint to go on from: damaged ones are named and passed over; "
     "else all that is there has to be whole (exit 4)"},
    {"overwrite-output-dir", OPTION_FLAG, LEARNS, AT(overwrite), 0, 0, "false", NULL, false,
     "begin anew where --output-dir holds the record or checkpoints of a run and there is none to "
     "continue: they are removed"},
    {"resume-from-checkpoint", OPTION_TEXT_MAYBE, LEARNS, AT(resume_from), 0, 0, NULL, "PATH|true",
     false,
     "continue from that checkpoint (a checkpoint-N, or the newest in a directory), with the "
     "options "
     "that it was saved with; true or no value: as --resume"},
    {"continue-from", OPTION_TEXT, LEARNS | COMMAND_REPLAY, AT(continue_from), 0, 0, NULL, "PATH",
     false,
     "begin a new run (steps from 0, a schedule of its own) with the weights, moments and loss "
     "scale of that checkpoint; with --resume: only where --output-dir holds no checkpoint yet"},
    {"stop-at-step", OPTION_COUNT, LEARNS, AT(stop_at_step), 0, MOST, "0", "N", false,
     "save after this step and end; 0: do not"},
    {"eval-strategy", OPTION_CHOICE, LEARNS, AT(eval_strategy), 0, 0, "steps", "steps|epoch|no",
     false, "when to evaluate: every --eval-steps, after each epoch, or only at the end"},
    {"eval-steps", OPTION_STEPS, LEARNS, AT(eval_steps), 0, MOST, "500", "N", false,
     "steps between evaluations; 0: only at the end"},
    {"logging-steps", OPTION_STEPS, LEARNS, AT(logging_steps), 1, MOST, "500", "N", false,
     "steps between lines of the log"},
    {"logging-first-step", OPTION_FLAG, LEARNS, AT(logging_first), 0, 0, "false", NULL, false,
     "the log has a line of the first step, too"},
    {"save-strategy", OPTION_CHOICE, LEARNS, AT(save_strategy), 0, 0, "steps",
     "steps|epoch|no|best", false,
     "when to save: every --save-steps, after each epoch, only at the end, or also whenever an "
     "evaluation is the best one"},
    {"save-steps", OPTION_STEPS, LEARNS, AT(save_steps), 0, MOST, "500", "N", false,
     "steps between checkpoints; 0: only at the end"},
    {"save-total-limit", OPTION_COUNT, LEARNS, AT(save_total_limit), 0, MOST, "0", "N", false,
     "keep only the newest N checkpoints; 0: all"},
    {"load-best-model-at-end", OPTION_FLAG, LEARNS, AT(load_best), 0, 0, "false", NULL, false,
     "the model written at the end is that of the best evaluation, whose checkpoint is kept"},
    {"keep-best", OPTION_FLAG, LEARNS, AT(keep_best), 0, 0, "false", NULL, false,
     "the best evaluation is saved at once and its checkpoint is kept beside the newest ones"},
    {"token-accuracy", OPTION_FLAG, LEARNS | COMMAND_EVAL, AT(token_accuracy), 0, 0, "false", NULL,
     false,
     "language models: evaluations also say how often the likeliest token was the label; they keep "
     "their logits for it"},
    {"metric-for-best-model", OPTION_TEXT, LEARNS, AT(metric), 0, 0, "loss", "NAME", false,
     "what best means: loss, or another number that evaluations of the task print (accuracy, "
     "accuracy_top_5, f1_macro, matthews_correlation, f1_micro, pearson, spearman, perplexity, "
     "token_accuracy), with or without eval_ before it"},
    {"greater-is-better", OPTION_MAYBE, LEARNS, AT(greater), 0, 0, "auto", "true|auto|false", false,
     "auto: false for loss, perplexity and bits_per_token, true for all other metrics"},
    {"early-stopping-patience", OPTION_COUNT, LEARNS, AT(patience), 0, MOST, "0", "N", false,
     "end after N evaluations in a row that were not better; 0: never"},
    {"early-stopping-threshold", OPTION_REAL, LEARNS, AT(threshold), 0, 1e9, "0", "F", false,
     "by more than how much the metric has to be better than the best one for that"},
    {"on-spike", OPTION_CHOICE, LEARNS, AT(on_spike), 0, 0, "none", "none|warn|clip|skip|rollback",
     true,
     "what is done about a step whose loss or norm is far above the last 128: it is computed "
     "again, "
     "then told, or its gradient scaled down to the threshold (clip), or it is not applied (skip), "
     "or the state goes back to the newest checkpoint and the batches since are passed over"},
    {"spike-threshold", OPTION_REAL, LEARNS, AT(spike_threshold), 1, 1e6, "8", "F", true,
     "how many robust standard deviations (1.4826 MAD) above the median a spike is"},
    {"spike-budget", OPTION_COUNT, LEARNS, AT(spike_budget), 0, 15, "3", "N", true,
     "steps of 100 that may be acted on so; after one more the run saves and ends (exit 9)"},
    {"replay-every", OPTION_COUNT, COMMAND_TRAIN, AT(replay_every), 0, MOST, "0", "K", false,
     "compute forward and backward of every K-th step twice and compare; 0: never"},
    {"selftest-every", OPTION_TIME, COMMAND_TRAIN, AT(selftest_every), 0, 1e9, "24h", "TIME", false,
     "with --replay-every, how often `bedplate selftest` is run beside the start; 0: never"},

    {"time-limit", OPTION_TIME, LEARNS, AT(time_limit), 0, 1e9, "0", "11h30m", false,
     "save and end in time for this, counted from the program's start; 0: none"},
    {"stop-when", OPTION_TEXT, LEARNS, AT(stop_when), 0, 0, NULL, "FILE", false,
     "save and end when this file is there"},
    {"on-usr1", OPTION_CHOICE, LEARNS, AT(on_usr1), 0, 0, "save", "save|stop", false,
     "what SIGUSR1 asks for: save and go on, or save and end"},
    {"storage-patience", OPTION_TIME, LEARNS, AT(storage_patience), 0, 1e9, "10m", "TIME", false,
     "how long training goes on when a checkpoint cannot be written, before it ends with exit code "
     "6"},
    {"on-data-change", OPTION_CHOICE, LEARNS, AT(on_data_change), 0, 0, "warn", "error|warn|ignore",
     false,
     "at each checkpoint, when a file of the data was written to since the run began: end with "
     "exit "
     "code 6 before it is saved, or tell it on stderr and in events.jsonl"},
    {"metrics", OPTION_TEXT, LEARNS, AT(metrics), 0, 0, NULL, "FILE.prom", false,
     "how the run is, for node_exporter's textfile collector; replaced every few seconds"},
    {"report-to", OPTION_CHOICE, LEARNS, AT(report_to), 0, 0, "none", "none|tensorboard", false,
     "write TensorBoard's event files at each line of the log"},
    {"logging-dir", OPTION_TEXT, LEARNS, AT(logging_dir), 0, 0, NULL, "DIR", false,
     "where they go; else runs in --output-dir"},
    {"unit", OPTION_CHOICE, COMMAND_PLAN, AT(unit), 0, 0, NULL, UNIT_WORDS, false,
     "print not the plan but the run as a service of systemd, a batch script or a Job, with the "
     "plan's numbers in it"},
    {"once", OPTION_FLAG, COMMAND_WATCH, AT(once), 0, 0, "false", NULL, false,
     "print once and end, as where the output is no terminal"},

    {"prompt", OPTION_TEXT, COMMAND_GENERATE, AT(prompt), 0, 0, NULL, "TEXT", false,
     "what to continue; of a masked-lm the text whose [MASK]s are filled"},
    {"chat", OPTION_FLAG, COMMAND_GENERATE, AT(talks), 0, 0, "false", NULL, false,
     "talk with the model, a line of standard input after the other, by its chat template; with "
     "--prompt one answer (docs/how-to/chat.md)"},
    {"system", OPTION_TEXT, COMMAND_GENERATE, AT(system_message), 0, 0, NULL, "TEXT", false,
     "--chat: the system message"},
    {"context", OPTION_COUNT, COMMAND_GENERATE, AT(context), 0, 1 << 24, "0", "N", false,
     "--chat: tokens of the whole conversation; 0: 4096, or what the model has positions for"},
    {"prompt-ids", OPTION_TEXT, COMMAND_GENERATE, AT(prompt_ids), 0, 0, NULL, "1,2,3", false,
     "the same as token ids"},
    {"max-new-tokens", OPTION_COUNT, COMMAND_GENERATE, AT(max_new_tokens), 1, 1 << 24, "20", "N",
     false, "tokens to write"},
    {"temperature", OPTION_REAL, COMMAND_GENERATE, AT(temperature), 0, 1000, "1", "F", false,
     "0: always the likeliest token"},
    {"top-k", OPTION_COUNT, COMMAND_GENERATE, AT(top_k), 0, 1 << 30, "50", "K", false,
     "choose among the K likeliest; 0: among all; of a masked-lm print so many of each mask (5)"},
    {"top-p", OPTION_REAL, COMMAND_GENERATE, AT(top_p), 0, 1, "1", "P", false,
     "choose among the likeliest tokens whose probabilities add up to P"},
    {"min-p", OPTION_REAL, COMMAND_GENERATE, AT(min_p), 0, 1, "0", "P", false,
     "leave out tokens that are less than P times as likely as the likeliest"},
    {"repetition-penalty", OPTION_REAL, COMMAND_GENERATE, AT(repetition_penalty), 1e-6, 1e6, "1",
     "F", false, "above 1 makes tokens that the prompt or the text has already less likely"},
    {"num-return-sequences", OPTION_COUNT, COMMAND_GENERATE, AT(sequences), 1, 1 << 20, "1", "N",
     false,
     "texts to write, each with random numbers of its own, after one reading of the prompt, up to "
     "16 at once as --arena has room; with --json a line each"},
    {"stop", OPTION_LIST, COMMAND_GENERATE, AT(stops), 0, 0, NULL, "STRING", false,
     "end in front of this string; may be repeated"},
    {"no-stream", OPTION_FLAG, COMMAND_GENERATE, AT(no_stream), 0, 0, "false", NULL, false,
     "print a text when it is whole, not as its tokens come"},
    {"output-ids", OPTION_FLAG, COMMAND_GENERATE, AT(output_ids), 0, 0, "false", NULL, false,
     "print token ids separated by spaces"},
    {"ignore-eos", OPTION_FLAG, COMMAND_GENERATE, AT(ignore_eos), 0, 0, "false", NULL, false,
     "go on behind the token that ends a text"},

    {"listing", OPTION_FLAG, COMMAND_PLAN, AT(listing), 0, 0, "false", NULL, false,
     "print the programs op by op"},
    {"map", OPTION_FLAG, COMMAND_PLAN, AT(map), 0, 0, "false", NULL, false,
     "print the memory map: every buffer with address, size and lifetime"},
    {"html", OPTION_TEXT, COMMAND_PLAN, AT(html), 0, 0, NULL, "FILE", false,
     "write the memory map as a page with a picture"},
    {"emit-c", OPTION_TEXT, COMMAND_PLAN, AT(emit_c), 0, 0, NULL, "DIR", false,
     "write a trainer in C for this plan alone, of the portable form on one thread: constant "
     "tables, an interface, an example and a makefile (docs/how-to/appliance.md)"},
    {"frontier", OPTION_FLAG, COMMAND_PLAN, AT(frontier), 0, 0, "false", NULL, false,
     "print the curve of estimated time against bytes, also on the page, and at ten budgets the "
     "time "
     "with classes of activations dropped (selective) beside that with any set of them kept "
     "(auto)"},
    {"max-batch", OPTION_FLAG, COMMAND_PLAN, AT(max_batch), 0, 0, "false", NULL, false,
     "plan the largest micro-batch that fits --arena"},
    {"ranks", OPTION_COUNT, COMMAND_PLAN, AT(ranks_asked), 0, 1024, "0", "N", false,
     "plan each of N ranks: its bytes and what it owns, and what a step sends; 0: one"},
    {"ranks-per-host", OPTION_COUNT, LEARNS, AT(ranks_per_host), 0, 1024, "0", "N", false,
     "ranks that share a host; 0: all of them"},
    {"bandwidth", OPTION_TEXT, LEARNS, AT(bandwidth), 0, 0, "12.5e9", "B[,B]", false,
     "bytes per second that a rank sends inside a host, and between hosts (bench fabric measures "
     "them)"},
    {"latency", OPTION_TEXT, LEARNS, AT(latency), 0, 0, "50e-6", "S[,S]", false,
     "seconds that a call takes at least, likewise"},
    {"all", OPTION_FLAG, COMMAND_REPLAY, AT(replay_all), 0, 0, "false", NULL, false,
     "every segment between two checkpoints; meant where nothing else is said"},
    {"sample", OPTION_COUNT, COMMAND_REPLAY, AT(replay_sample), 0, MOST, "0", "K", false,
     "K segments, chosen at random by --seed"},
    {"compare", OPTION_FLAG, COMMAND_REPLAY, AT(replay_compare), 0, 0, "false", NULL, false,
     "of two output directories: where their runs part"},
    {"documents", OPTION_COUNT, COMMAND_REPLAY, AT(replay_documents), 0, MOST, "0", "STEP", false,
     "list what a step saw"},
    {"m", OPTION_COUNT, COMMAND_BENCH, AT(m), 1, 1 << 20, "1024", "M", false, "gemm: rows"},
    {"n", OPTION_COUNT, COMMAND_BENCH, AT(n), 1, 1 << 20, "1024", "N", false, "gemm: columns"},
    {"k", OPTION_COUNT, COMMAND_BENCH, AT(k), 1, 1 << 20, "1024", "K", false, "gemm: terms"},
    {"elements", OPTION_COUNT, COMMAND_BENCH, AT(elements), 1, 1e12, "16777216", "N", false,
     "optim: weights that are updated"},
    {"repeat", OPTION_COUNT, COMMAND_BENCH, AT(repeat), 1, 1 << 20, "10", "N", false,
     "timed runs; the median counts"},

    {"capacity", OPTION_BYTES, COMMAND_ARENA, AT(capacity), 0, 1.8e19, "0", "BYTES", false,
     "a layout that fits this is enough; 0: the smallest that is found"},

    {"from", OPTION_TEXT, COMMAND_IMPORT | COMMAND_REPLAY, AT(from), 0, 0, NULL, "FILE|STEP", false,
     "replay: from this step on; import: a GGUF file (F32, F16, BF16; Q4_0 to Q8_0 and Q2_K to "
     "Q6_K, which become floats) or an llm.c "
     "model file"},
    {"to", OPTION_TEXT, PORTS | COMMAND_REPLAY, AT(to), 0, 0, NULL, "DIR|FILE|STEP", false,
     "replay: up to this step; import: the directory to write; export: the directory, or the file "
     "NAME.gguf or NAME.bin, to write"},
    {"format", OPTION_CHOICE, COMMAND_EXPORT, AT(format), 0, 0, "auto", "auto|hf|gguf|llmc", false,
     "what to write; auto: of NAME.gguf gguf, of NAME.bin llmc, else a Hugging Face directory"},
    {"card", OPTION_TEXT, COMMAND_EXPORT, AT(card), 0, 0, NULL, "FILE", false,
     "a CycloneDX model card of the run in --model (or --adapter), from its record; --to may be "
     "left "
     "out"},
    {"dtype", OPTION_CHOICE, PORTS, AT(dtype), 0, 0, "source", "source|fp32|bf16|fp16", false,
     "element type of what is written; source: each tensor keeps its own"},

    {"json", OPTION_FLAG, EVERY, AT(json), 0, 0, "false", NULL, false,
     "one JSON object per line on stdout"},
    {"quiet", OPTION_FLAG, READS_TEXTS, AT(quiet), 0, 0, "false", NULL, false,
     "no progress on stderr"},
    {"config", OPTION_TEXT, EVERY, AT(config), 0, 0, NULL, "FILE", false,
     "options as `name = value` lines; the command line wins"},
    {"print-options", OPTION_FLAG, EVERY, AT(print_options), 0, 0, "false", NULL, false,
     "print the resolved options, a file for --config, and end"},
    {"help", OPTION_TEXT_MAYBE, EVERY, AT(help), 0, 0, NULL, "all|WORD", false,
     "print the options that matter most, all of them, or those that have to do with a word"},
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
    {"time-limit", "Runs that are left alone"},
    {"prompt", "Generation"},
    {"listing", "Plans on paper"},
    {"all", "Replays"},
    {"m", "Measurements"},
    {"capacity", "The planner alone"},
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

const option *option_at(uint32_t index)
{
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
    for (size_t i = 0; i < OPTIONS; i++) {
        if (options_table_same_name(table[i].name, name, length)) {
            return &table[i];
        }
    }
    return NULL;
}
