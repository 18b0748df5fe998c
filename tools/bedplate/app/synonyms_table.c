/* SPDX-License-Identifier: MIT */
/* The table of synonyms: what users of transformers, PEFT, TRL, accelerate, Unsloth, axolotl,
 * torchtune, sentence-transformers, nanoGPT, llama.cpp, LLaMA-Factory, ms-swift, OpenRLHF,
 * Megatron, fairseq, timm, Lightning and mlx-lm type. A name that means the same is
 * taken; another is answered with what comes nearest. The first row that fits is used; a | stands
 * between names that share it. */
#include "tools/bedplate/app/synonyms.h"

#include <assert.h>
#include <string.h>

enum {
    LEARNS = COMMAND_PLAN | COMMAND_TRAIN,
    SHAPES = LEARNS | COMMAND_BENCH,
    VECTORS = COMMAND_EVAL | COMMAND_EMBED | COMMAND_DISTILL,
    WRITES = COMMAND_EMBED | COMMAND_TOKENIZE | COMMAND_REPORT | COMMAND_DISTILL,
    GENERATES = COMMAND_GENERATE,
    EXPORTS = COMMAND_EXPORT,
    RUNS = LEARNS | VECTORS | GENERATES
};

#define SAME(other, name)                                                                          \
    {                                                                                              \
        other, name, 0, NULL, NULL                                                                 \
    }
#define ONLY(commands, other, name)                                                                \
    {                                                                                              \
        other, name, commands, NULL, NULL                                                          \
    }
#define VALUES(other, name, values)                                                                \
    {                                                                                              \
        other, name, 0, values, NULL                                                               \
    }
#define ONLY_VALUES(commands, other, name, values)                                                 \
    {                                                                                              \
        other, name, commands, values, NULL                                                        \
    }
#define NEAR(other, hint)                                                                          \
    {                                                                                              \
        other, NULL, 0, NULL, hint                                                                 \
    }
#define ONLY_NEAR(commands, other, hint)                                                           \
    {                                                                                              \
        other, NULL, commands, NULL, hint                                                          \
    }

#define WANDB    "TensorBoard files can be synced: --report-to tensorboard, then `wandb sync`"
#define HUB      "Bedplate uses no network: upload the output directory with `hf upload`"
#define DOWNLOAD "Bedplate uses no network: download first with `hf download`, then give the files"
#define CONFIG   "edit the model's config.json"
#define LAUNCHED "the launcher sets it in the environment: leave it out"
#define SEQUENCES                                                                                  \
    "--sequence-ranks N shares the tokens of a sample, --shard the memory of models and "          \
    "optimizers"
#define AUGMENTS "--random-crop, --random-resized-crop and --random-horizontal-flip"
#define PICKS    "--freeze GLOB and --trainable GLOB choose parameters"
#define PACKS                                                                                      \
    "q8_0=q8_0|q6_k=q6_k|q5_k=q5_k|q5_0=q5_0|q5_1=q5_1|q4_k=q4_k|q4_0=q4_0|q4_1=q4_1|"             \
    "q4_k_m=!--save-quant q4_k packs every matrix in Q4_K|"                                        \
    "q5_k_m=!--save-quant q5_k packs every matrix in Q5_K|"                                        \
    "f16=!--dtype fp16 writes it|bf16=!--dtype bf16 writes it"
#define PRECISIONS                                                                                 \
    "bf16=--bf16|bfloat16=--bf16|bf16-true=--bf16|bf16-mixed=--bf16|torch.bfloat16=--bf16|"        \
    "fp16=--fp16|float16=--fp16|half=--fp16|f16=--fp16|16-mixed=--fp16|torch.float16=--fp16|"      \
    "fp32=--fp32|float32=--fp32|float=--fp32|f32=--fp32|32-true=--fp32|torch.float32=--fp32|"      \
    "no=--fp32|fp8=!see --weight-dtype fp8, --tape-dtype fp8 and --product-dtype fp8|"             \
    "auto=!name the precision: --bf16, --fp16 or --fp32 (the default)|"                            \
    "none=!name the precision: --bf16, --fp16 or --fp32 (the default)"
#define OPTIMIZERS                                                                                 \
    "adamw_torch=adamw|adamw_torch_fused=adamw|adamw_torch_xla=adamw|adamw_torch_npu_fused=adamw|" \
    "adamw_hf=adamw|adamw_apex_fused=adamw|adamw_fused=adamw|adamw_32bit=adamw|"                   \
    "paged_adamw=adamw|paged_adamw_32bit=adamw|adamw_bnb_8bit=adamw_8bit|"                         \
    "paged_adamw_8bit=adamw_8bit|adamw_torch_8bit=adamw_8bit|adamw8bit=adamw_8bit|"                \
    "pagedadamw8bit=adamw_8bit|adamw_torch_4bit=adamw_4bit|ademamix_32bit=ademamix|"               \
    "paged_ademamix_32bit=ademamix|paged_ademamix_8bit=ademamix_8bit|lion_32bit=lion|"             \
    "paged_lion_32bit=lion|paged_lion_8bit=lion_8bit|rmsprop_bnb=rmsprop|"                         \
    "rmsprop_bnb_32bit=rmsprop|rmsprop_bnb_8bit=rmsprop_8bit|"                                     \
    "adamw_anyprecision=!the nearest is adamw with --bf16 --master split (exact weights)|"         \
    "galore_adamw=!the nearest is apollo|galore_adamw_8bit=!the nearest is apollo_8bit|"           \
    "galore_adafactor=!the nearest is adafactor|"                                                  \
    "galore_adamw_layerwise=!the nearest is apollo with --gradient-release|"                       \
    "galore_adamw_8bit_layerwise=!the nearest is apollo_8bit with --gradient-release|"             \
    "galore_adafactor_layerwise=!the nearest is adafactor with --gradient-release|"                \
    "lomo=!the nearest is sgd with --gradient-release|grokadamw=!the nearest is adamw|"            \
    "schedule_free_radam=!the nearest is schedule_free_adamw|"                                     \
    "schedule_free_sgd=!the nearest is schedule_free_adamw|"                                       \
    "apollo_adamw=!the nearest is apollo|"                                                         \
    "apollo_adamw_layerwise=!the nearest is apollo with --gradient-release|"                       \
    "stable_adamw=!the nearest is adamw|"                                                          \
    "sophia=!the nearest is ademamix|prodigy=!the nearest is schedule_free_adamw|"                 \
    "ao_adamw_8bit=adamw_8bit|ao_adamw_4bit=adamw_4bit|adopt_adamw=adopt|optimi_adamw=adamw|"      \
    "flash_adamw=adamw|flash_adam=adam|flash_sgd=sgd|flash_lion=lion|torch.optim.adamw=adamw|"     \
    "torch.optim.sgd=sgd|torch.optim.adam=adam|bitsandbytes.optim.adamw8bit=adamw_8bit|"           \
    "bitsandbytes.optim.pagedadamw8bit=adamw_8bit|bitsandbytes.optim.pagedadamw=adamw|"            \
    "ao_adamw_fp8=!the nearest is adamw_8bit|dion=!the nearest is muon|"                           \
    "sinkgd=!the nearest is muon|came_pytorch=!the nearest is adafactor|"                          \
    "came=!the nearest is adafactor|q_galore_adamw8bit=!the nearest is apollo_8bit|"               \
    "torchao.optim.cpuoffloadoptimizer=!--offload file:PATH:BYTES --offload-what states|*"
#define SCHEDULES                                                                                  \
    "cosine_annealing=cosine|cosine_decay=cosine|wsd=warmup_stable_decay|none=constant|"           \
    "reduce_lr_on_plateau=!schedules are known beforehand: the nearest is cosine, with "           \
    "--early-stopping-patience|"                                                                   \
    "cosine_warmup_with_min_lr=!the nearest is cosine_with_min_lr, whose warm-up begins at 0|"     \
    "greedy=!schedules are known beforehand: the nearest is cosine|"                               \
    "one_cycle=!the nearest is cosine with --warmup-steps|"                                        \
    "rex=!the nearest is polynomial|*"
#define FLOATS                                                                                     \
    "true=true|false=false|auto=!name the precision: --bf16, --fp16 or --fp32 (the default)"
#define BATCHES "auto=!with --arena BYTES and without this option the largest that fits is taken|*"
#define TASKS                                                                                      \
    "text-classification=classification|sequence-classification=classification|"                   \
    "seq_cls=classification|image-classification=classification|token_cls=token-classification|"   \
    "ner=token-classification|qa=question-answering|question_ans=question-answering|"              \
    "causal_lm=causal-lm|clm=causal-lm|sft=causal-lm|text-generation=causal-lm|mlm=masked-lm|"     \
    "fill-mask=masked-lm|text-ranking=reranking|rerank=reranking|cross-encoder=reranking|"         \
    "feature_extraction=embedding|sentence-similarity=embedding|"                                  \
    "seq_2_seq_lm=causal-lm|text2text-generation=causal-lm|seq2seq=causal-lm|"                     \
    "ipo=!--task dpo with --loss-type ipo|cpo=!the nearest is --task orpo or simpo|"               \
    "reward=!reward models are not trained: --task dpo learns from preferences|"                   \
    "rm=!reward models are not trained: --task dpo learns from preferences|"                       \
    "ppo=!the nearest is --task grpo|rloo=!the nearest is --task grpo|"                            \
    "reinforce=!the nearest is --task grpo|gspo=!--task grpo with --loss-type gspo|"               \
    "dapo=!--task grpo with --loss-type dapo|"                                                     \
    "summarization=causal-lm|translation=causal-lm|*"

static const synonym table[] = {
    /* Values of our own options. */
    VALUES("optim", "optim", OPTIMIZERS),
    VALUES("lr-scheduler-type", "lr-scheduler-type", SCHEDULES),
    VALUES("task", "task", TASKS),
    VALUES("device", "device", "cpu=host|gpu=cuda|mps=!Metal is not supported: host or cuda|*"),
    VALUES("report-to", "report-to",
           "wandb=!" WANDB "|all=tensorboard|mlflow=!the nearest is tensorboard|"
           "comet_ml=!the nearest is tensorboard|clearml=!the nearest is tensorboard|"
           "swanlab=!the nearest is tensorboard|trackio=!the nearest is tensorboard|*"),
    VALUES("bf16", "bf16", FLOATS),
    VALUES("fp16", "fp16", FLOATS),
    VALUES("tf32", "tf32", "true=true|false=false|auto=!--tf32 true or false (the default)"),
    VALUES("max-grad-norm", "max-grad-norm", "none=0|null=0|*"),
    VALUES("per-device-train-batch-size", "per-device-train-batch-size", BATCHES),
    VALUES("gradient-accumulation-steps", "gradient-accumulation-steps", BATCHES),
    ONLY_VALUES(EXPORTS, "format", "format",
                "safetensors=hf|huggingface=hf|onnx=!not implemented: hf, gguf or llmc|"
                "mlx=!not implemented: hf, gguf or llmc|*"),
    VALUES("lora-bias", "lora-bias",
           "true=!this is PEFT's `bias` (none, all or lora_only); PEFT's own lora_bias, a bias on "
           "lora_B, is not implemented|false=!this is PEFT's `bias` (none, all or lora_only); "
           "leave it out: lora_B never has a bias|*"),
    VALUES("gradient-checkpointing", "gradient-checkpointing",
           "unsloth=!that offloads activations: see auto, and --offload-what checkpoints|*"),
    VALUES("resume", "resume",
           "must=true|allow=auto|never=false|last=true|latest=true|"
           "best=!a run continues from its newest checkpoint: leave the value out|*"),
    VALUES("pooling", "pooling",
           "last_token=lasttoken|last=lasttoken|mean_tokens=mean|cls_token=cls|"
           "max=!not implemented: the nearest is mean|*"),
    VALUES("scale-rewards", "scale-rewards", "true=group|false=none|*"),
    VALUES("loss-type", "loss-type",
           "nll=!that is causal-lm's loss: leave it out|"
           "chunked_nll=!that is causal-lm's loss: leave it out; see --loss-chunk-rows|"
           "sft=!that is --task causal-lm|kto=!that is --task kto|orpo=!that is --task orpo|"
           "simpo=!that is --task simpo|dpo=sigmoid|kto_pair=!the nearest is --task kto|"
           "robust=!--loss-type sigmoid with --label-smoothing F|"
           "sigmoid_norm=!the nearest is --task simpo|apo_zero=!the nearest is sigmoid|"
           "apo_down=!the nearest is sigmoid|bco_pair=!the nearest is --task kto|"
           "apo_zero_unpaired=!the nearest is --task kto|sppo_hard=!the nearest is ipo|"
           "exo_pair=!the nearest is sigmoid|nca_pair=!the nearest is sigmoid|"
           "aot=!the nearest is sigmoid|aot_unpaired=!the nearest is --task kto|"
           "aot_pair=!the nearest is sigmoid|discopop=!the nearest is sigmoid|"
           "dft=!not implemented: causal-lm has one loss|vespo=!the nearest is sapo|*"),
    ONLY_VALUES(GENERATES, "seed", "seed", "-1=!every text can be drawn again: give a number|*"),
    VALUES("data-format", "data-format", "parquet=!convert it to JSON lines first|*"),
    VALUES("save-dtype", "save-dtype",
           "bfloat16=bf16|float16=fp16|half=fp16|float32=fp32|float=fp32|auto=source|*"),
    VALUES("dtype", "dtype",
           "bfloat16=bf16|float16=fp16|half=fp16|f16=fp16|float32=fp32|float=fp32|f32=fp32|"
           "auto=source|*"),

    /* Model and tokenizer. */
    SAME("model-name-or-path|pretrained-model-name-or-path|model-name|model-path", "model"),
    SAME("model-id|model-dir|base-model|base-model-name-or-path|model-base", "model"),
    NEAR("init-from", "--model PRESET begins with random weights, --model DIR with a model's"),
    ONLY(COMMAND_DISTILL, "teacher", "model"),
    ONLY(COMMAND_DISTILL, "teacher-model", "model"),
    ONLY(COMMAND_DISTILL, "teacher-model-name-or-path", "model"),
    ONLY_NEAR(LEARNS, "teacher*",
              "first `bedplate distill --model TEACHER`, then train --distill FILE"),
    ONLY(RUNS | EXPORTS | COMMAND_TOKENIZE | COMMAND_BENCH, "-m", "model"),
    NEAR("model-type", "the model's config.json names its type"),
    NEAR("config-name", "--model takes a directory with config.json, or a preset"),
    NEAR("config-overrides", CONFIG),
    NEAR("rope-*", CONFIG),
    NEAR("hidden-size", CONFIG),
    NEAR("num-layers", CONFIG),
    NEAR("vocab-size", CONFIG),
    NEAR("model-revision", DOWNLOAD),
    NEAR("revision", DOWNLOAD),
    NEAR("model-init-kwargs", "edit the model's config.json"),
    NEAR("trust-remote-code", "no code of a model is run: leave it out"),
    NEAR("cache-dir", DOWNLOAD),
    NEAR("token", DOWNLOAD),
    NEAR("hf-token", DOWNLOAD),
    NEAR("use-auth-token", DOWNLOAD),
    NEAR("-hf*", DOWNLOAD),
    SAME("tokenizer-name|tokenizer-name-or-path|tokenizer-path|tokenizer-file", "tokenizer"),
    NEAR("tokenizer-type", "tokenizer.json names it: leave it out"),
    NEAR("use-fast-tokenizer", "there is one tokenizer: leave it out"),
    NEAR("special-tokens", "the tokenizer's files name them"),
    NEAR("eos-token", "the tokenizer's files name it"),
    NEAR("pad-token", "the tokenizer's files name it"),
    NEAR("add-tokens", "the vocabulary is the tokenizer's"),
    NEAR("resize-vocab*", "the vocabulary is the model's"),
    SAME("chat-template-path|chat-template-file", "chat-template"),
    ONLY_NEAR(GENERATES, "jinja", "the model's own chat template is used: --chat"),

    /* Data. */
    SAME("dataset|datasets|data-path|data-file|data-files|data-dir|train-file", "data"),
    SAME("dataset-path", "data"),
    SAME("train-files|train-data|train-dir|training-data|input-file", "data"),
    ONLY(COMMAND_EVAL, "test-file", "data"),
    ONLY(COMMAND_EVAL, "test-data", "data"),
    ONLY(COMMAND_EVAL, "validation-file", "data"),
    ONLY(COMMAND_EVAL, "eval-data", "data"),
    ONLY(COMMAND_EVAL, "eval-file", "data"),
    ONLY(COMMAND_EVAL | COMMAND_EMBED | COMMAND_TOKENIZE, "input", "data"),
    ONLY(COMMAND_EMBED, "texts", "data"),
    ONLY(COMMAND_EMBED, "sentences", "data"),
    SAME("validation-file", "eval-data"),
    SAME("validation-data|valid-file|val-file|val-data|eval-dataset|validation-dir", "eval-data"),
    SAME("eval-file", "eval-data"),
    ONLY(LEARNS, "test-file", "eval-data"),
    NEAR("dataset-name", DOWNLOAD " to --data"),
    NEAR("dataset-config*", DOWNLOAD " to --data"),
    NEAR("dataset-train-split", "--data takes the files that are learned"),
    NEAR("dataset-test-split", "--eval-data takes the files that are held out"),
    NEAR("dataset-streaming", "--data reads files; - is standard input"),
    NEAR("streaming", "--data reads files; - is standard input"),
    NEAR("dataset-num-proc", "tokenizing uses --threads"),
    NEAR("dataset-kwargs", "see --data-format, --text-column and --label-column"),
    NEAR("dataset-prepared-path", "`bedplate tokenize` writes a token file that --data reads"),
    NEAR("preprocessing-num-workers", "tokenizing uses --threads"),
    NEAR("response-template", "turns are found by the chat template: --loss-on assistant"),
    NEAR("overwrite-cache", "nothing is cached: leave it out"),
    SAME("val-set-size|val-split|test-size|eval-split", "validation-split"),
    VALUES("validation-split-percentage", "validation-split", SYNONYM_PERCENT),
    SAME("dataset-text-field", "text-column"),
    SAME("text-column-name|text-field|text-key", "text-column"),
    SAME("label-column-name|label-field", "label-column"),
    NEAR("label-names", "--label-column names the column of labels"),
    NEAR("remove-unused-columns", "--text-column and --label-column choose columns"),
    NEAR("max-train-samples", "--max-steps ends a run early; or shorten the file of --data"),
    NEAR("max-eval-samples", "shorten the file of --eval-data, or --validation-split F"),
    NEAR("max-samples", "--max-steps ends a run early; or shorten the file of --data"),
    NEAR("shuffle*", "the order is drawn again in each epoch: see --data-seed"),
    VALUES("train-sampling-strategy", "group-by-length",
           "group_by_length=true|random=false|"
           "sequential=!rows are drawn in random order: see --data-seed"),
    NEAR("length-column-name", "--group-by-length measures lengths itself"),
    NEAR("dataloader-num-workers", "no process loads data: see --threads"),
    NEAR("num-workers", "no process loads data: see --threads"),
    NEAR("dataloader*", "no process loads data: leave it out"),
    NEAR("pin-memory", "memory is planned: leave it out"),

    /* Lengths and packing. */
    ONLY(LEARNS | VECTORS | COMMAND_BENCH, "max-length", "max-seq-length"),
    SAME("seq-len|seq-length|max-seq-len|sequence-len|sequence-length", "max-seq-length"),
    SAME("context-length|block-size|cutoff-len|model-max-length", "max-seq-length"),
    SAME("max-sequence-length|max-target-length", "max-seq-length"),
    NEAR("max-prompt-length", "--max-seq-length is prompt and answer together"),
    SAME("sample-packing|packed|use-packing", "packing"),
    NEAR("eval-packing", "what is evaluated is not packed: leave it out"),
    NEAR("eval-sample-packing", "what is evaluated is not packed: leave it out"),
    NEAR("padding-free", "the nearest is --packing, and --length-buckets"),
    NEAR("pad-to-sequence-len", "--length-buckets none pads every row to --max-seq-length"),
    NEAR("pad-to-max-length", "--length-buckets none pads every row to --max-seq-length"),
    NEAR("pad-to-multiple-of", "see --length-buckets"),
    NEAR("truncation*", "--long-rows cut or refuse"),
    NEAR("attention-packing", "see --packing"),
    VALUES("train-on-responses-only", "loss-on", "true=assistant|false=all"),
    VALUES("assistant-only-loss", "loss-on", "true=assistant|false=all"),
    VALUES("completion-only-loss", "loss-on", "true=completion|false=all"),
    VALUES("train-on-inputs", "loss-on", "true=all|false=assistant"),
    VALUES("mask-prompt", "loss-on", "true=assistant|false=all"),

    /* Batches. */
    ONLY(SHAPES, "batch-size", "per-device-train-batch-size"),
    ONLY(VECTORS, "batch-size", "per-device-eval-batch-size"),
    ONLY(SHAPES, "batch", "per-device-train-batch-size"),
    ONLY(VECTORS, "batch", "per-device-eval-batch-size"),
    ONLY(SHAPES, "-b", "per-device-train-batch-size"),
    SAME("micro-batch-size|micro-batch|device-batch-size", "per-device-train-batch-size"),
    SAME("per-gpu-train-batch-size|per-device-batch-size", "per-device-train-batch-size"),
    NEAR("train-batch-size", "tools differ: --per-device-train-batch-size, or with "
                             "--gradient-accumulation-steps that many times"),
    NEAR("global-batch-size", "it is --per-device-train-batch-size times "
                              "--gradient-accumulation-steps times ranks"),
    NEAR("total-batch-size", "it is --per-device-train-batch-size times "
                             "--gradient-accumulation-steps times ranks"),
    NEAR("effective-batch-size", "it is --per-device-train-batch-size times "
                                 "--gradient-accumulation-steps times ranks"),
    SAME("eval-batch-size|per-gpu-eval-batch-size|val-batch-size", "per-device-eval-batch-size"),
    SAME("gradient-accumulation|grad-accum|grad-accum-steps", "gradient-accumulation-steps"),
    SAME("grad-accumulation-steps|grad-acc-steps", "gradient-accumulation-steps"),
    SAME("accumulation-steps|accumulate-grad-batches|accum-steps", "gradient-accumulation-steps"),
    NEAR("auto-find-batch-size", "`bedplate plan --max-batch --arena BYTES` finds the largest"),
    NEAR("eval-accumulation-steps", "evaluations keep no logits of earlier batches: leave it out"),
    NEAR("average-tokens-across-devices",
         "losses are means over all tokens of a step: leave it out"),

    /* Checkpointing and precision. */
    SAME("policy|activation-checkpointing", "gradient-checkpointing"),
    SAME("enable-activation-checkpointing|grad-checkpointing", "gradient-checkpointing"),
    VALUES("use-gradient-checkpointing", "gradient-checkpointing",
           "unsloth=!that offloads activations: see --gradient-checkpointing auto, and "
           "--offload-what checkpoints|*"),
    NEAR("gradient-checkpointing-kwargs",
         "--gradient-checkpointing takes a policy: full, sqrt, .."),
    NEAR("activation-checkpointing-kwargs",
         "--gradient-checkpointing takes a policy: full, sqrt, .."),
    ONLY_VALUES(RUNS | COMMAND_BENCH, "dtype", "bf16", PRECISIONS),
    ONLY_VALUES(RUNS | COMMAND_BENCH, "torch-dtype", "bf16", PRECISIONS),
    ONLY_VALUES(RUNS | COMMAND_BENCH, "precision", "bf16", PRECISIONS),
    ONLY_VALUES(RUNS | COMMAND_BENCH, "mixed-precision", "bf16", PRECISIONS),
    ONLY_VALUES(RUNS | COMMAND_BENCH, "compute-dtype", "bf16", PRECISIONS),
    SAME("bfloat16", "bf16"),
    SAME("half|float16", "fp16"),
    SAME("float32", "fp32"),
    NEAR("amp", "--bf16, or --fp16 with loss scaling"),
    NEAR("fp16-opt-level", "--fp16 keeps an fp32 master: leave it out"),
    NEAR("fp16-backend", "leave it out"),
    NEAR("half-precision-backend", "leave it out"),
    NEAR("bf16-full-eval", "evaluations run in the precision of training: --bf16"),
    NEAR("fp16-full-eval", "evaluations run in the precision of training: --fp16"),
    NEAR("fp8*", "see --weight-dtype fp8, --tape-dtype fp8 and --product-dtype fp8"),
    NEAR("use-fp8", "see --weight-dtype fp8, --tape-dtype fp8 and --product-dtype fp8"),
    SAME("allow-tf32", "tf32"),
    NEAR("optimizer-in-bwd", "--gradient-release updates weights inside backward"),
    NEAR("use-liger-kernel", "the nearest is --loss-chunk-rows: logits exist in chunks"),
    NEAR("liger*", "the nearest is --loss-chunk-rows: logits exist in chunks"),
    NEAR("torch-compile*", "nothing is compiled: see --kernels"),
    NEAR("compile*", "nothing is compiled: see --kernels"),
    NEAR("attn-implementation", "there is one attention, in tiles: leave it out"),
    NEAR("flash-att*", "there is one attention, in tiles: leave it out"),
    NEAR("use-flash-att*", "there is one attention, in tiles: leave it out"),
    NEAR("sdpa*", "there is one attention, in tiles: leave it out"),
    NEAR("xformers*", "there is one attention, in tiles: leave it out"),
    NEAR("torch-empty-cache-steps", "memory is planned: leave it out"),
    NEAR("skip-memory-metrics", "`bedplate plan` prints the memory: leave it out"),
    ONLY_NEAR(GENERATES, "use-cache", "the cache is always used: leave it out"),
    NEAR("use-cache", "training keeps no cache: leave it out"),

    /* Adapters and quantised bases. */
    SAME("r|lora-rank|lora-dim", "lora-r"),
    NEAR("rank", "--lora-r R is the rank of adapters; a launcher sets that of processes"),
    ONLY_NEAR(LEARNS, "alpha", "--lora-alpha, or --distill-alpha"),
    SAME("bias", "lora-bias"),
    SAME("rslora|peft-use-rslora", "use-rslora"),
    SAME("dora|peft-use-dora", "use-dora"),
    SAME("lora-target-modules|lora-modules|lora-target", "target-modules"),
    VALUES("lora-target-linear", "target-modules",
           "true=all-linear|false=!leave it out, or give --target-modules"),
    NEAR("lora-attn-modules", "--target-modules names layers, such as q_proj,v_proj"),
    NEAR("apply-lora-to*", "--target-modules names layers, such as gate_proj,up_proj,down_proj"),
    NEAR("target-parameters", "--target-modules takes weights of experts by their names, such as "
                              "experts.gate_up_proj"),
    NEAR("lora-target-parameters", "--target-modules takes weights of experts by their names, such "
                                   "as experts.gate_up_proj"),
    VALUES("modules-to-save", "trainable", SYNONYM_MODULES),
    VALUES("lora-modules-to-save", "trainable", SYNONYM_MODULES),
    VALUES("additional-target", "trainable", SYNONYM_MODULES),
    NEAR("unfrozen-parameters",
         "--trainable GLOB chooses parameters with * and ?, not with regular expressions"),
    NEAR("lora-layers", "--layers-to-transform 0,1,.. names layers; mlx-lm counts the last ones"),
    SAME("loraplus-ratio|lorap-lr-ratio", "loraplus-lr-ratio"),
    NEAR("loraplus-lr-embedding", "--param-override 'GLOB: lr=F' sets a rate for some parameters"),
    SAME("adapter-name-or-path|adapter-path|lora-model-dir|lora-path|peft-model", "adapter"),
    SAME("peft-model-id|lora-weights|adapter-checkpoint", "adapter"),
    ONLY_NEAR(GENERATES | VECTORS | EXPORTS, "lora|peft",
              "--adapter takes adapters in PEFT's form"),
    NEAR("use-lora", "--lora-r R trains adapters of rank R"),
    NEAR("use-peft", "--lora-r R trains adapters of rank R"),
    NEAR("lora", "--lora-r R trains adapters of rank R"),
    NEAR("qlora", "--load-in-4bit --lora-r R"),
    NEAR("use-qlora", "--load-in-4bit --lora-r R"),
    NEAR("peft-type", "--lora-r R trains adapters; LoRA is the one type"),
    NEAR("finetuning-type", "--lora-r R trains adapters; without it all weights are trained"),
    NEAR("full-finetuning", "without --lora-r all weights are trained: leave it out"),
    NEAR("fan-in-fan-out", "the model's family decides: leave it out"),
    NEAR("init-lora-weights", "adapters begin as in PEFT's default, lora_B at 0"),
    NEAR("loftq-config", "adapters begin as in PEFT's default, lora_B at 0"),
    NEAR("eva-config", "adapters begin as in PEFT's default, lora_B at 0"),
    NEAR("corda-config", "adapters begin as in PEFT's default, lora_B at 0"),
    NEAR("lora-ga-config", "adapters begin as in PEFT's default, lora_B at 0"),
    NEAR("megatron*", "see --shard for models on several ranks"),
    NEAR("layer-replication", "not implemented: the model's config.json sets its layers"),
    NEAR("alora-invocation-tokens", "not implemented: the nearest is --lora-r"),
    NEAR("use-qalora", "not implemented: the nearest is --load-in-4bit --lora-r R"),
    NEAR("qalora-group-size", "not implemented: the nearest is --bnb-4bit-blocksize"),
    NEAR("use-bdlora", "not implemented: the nearest is --lora-r"),
    NEAR("runtime-config", "PEFT's runtime settings have no use here: leave it out"),
    NEAR("arrow-config", "not implemented: the nearest is --lora-r"),
    NEAR("kasa-config", "not implemented: the nearest is --lora-r"),
    NEAR("velora-config", "not implemented: the nearest is --lora-r"),
    NEAR("monteclora-config", "not implemented: the nearest is --lora-r"),
    NEAR("ensure-weight-tying", "tied tables stay tied: leave it out"),
    NEAR("inference-mode", "eval and generate take --adapter: leave it out"),
    VALUES("task-type", "task", TASKS),
    VALUES("lora-task-type", "task", TASKS),
    SAME("load-in-4-bit|4bit|use-4bit|int4|nf4|load-in-nf4|quantize-base", "load-in-4bit"),
    SAME("load-in-8-bit|8bit|int8|use-8bit", "load-in-8bit"),
    VALUES("quantization-bit", "load-in-4bit", "4=--load-in-4bit|8=--load-in-8bit"),
    VALUES("bits", "load-in-4bit", "4=--load-in-4bit|8=--load-in-8bit"),
    ONLY_VALUES(RUNS | COMMAND_BENCH, "quantization|quantize|quant", "load-in-4bit",
                "nf4=--load-in-4bit|int8=--load-in-8bit|8bit=--load-in-8bit|4bit=--load-in-4bit|"
                "bnb.nf4=--load-in-4bit|4=--load-in-4bit|8=--load-in-8bit|int4=--load-in-4bit"),
    SAME("double-quant|use-bnb-nested-quant|use-nested-quant", "bnb-4bit-use-double-quant"),
    SAME("use-double-quant|double-quantization", "bnb-4bit-use-double-quant"),
    SAME("quant-type", "bnb-4bit-quant-type"),
    NEAR("bnb-4bit-compute-dtype", "products run in the precision of --bf16, --fp16 or --fp32"),
    NEAR("bnb-4bit-quant-storage", "codes are stored as they are: leave it out"),
    NEAR("llm-int8*", "--load-in-8bit has one scale for each row: leave it out"),
    SAME("merge-and-unload|merge-lora|merge-adapter", "merge"),
    NEAR("save-method", "`bedplate export --adapter DIR --merge` merges adapters"),
    NEAR("save-gguf", "`bedplate export --to NAME.gguf` writes GGUF"),
    ONLY_VALUES(EXPORTS, "quantization-method|quantization|quantize|quant", "save-quant", PACKS),

    /* Length of the run, rate, update rule. */
    SAME("epochs|num-epochs|n-epochs|max-epochs|train-epochs|epoch|nepochs", "num-train-epochs"),
    SAME("steps|num-steps|train-steps|max-train-steps|num-train-steps", "max-steps"),
    SAME("num-training-steps|total-steps|iters|max-iters|iterations|adam-iter", "max-steps"),
    NEAR("max-steps-per-epoch", "--max-steps is of the whole run"),
    SAME("lr|adam-alpha|actor-learning-rate", "learning-rate"),
    ONLY(SHAPES, "-lr", "learning-rate"),
    NEAR("embedding-learning-rate",
         "--param-override 'GLOB: lr=F' sets a rate for some parameters"),
    VALUES("lr-scheduler", "lr-scheduler-type", SCHEDULES),
    VALUES("scheduler", "lr-scheduler-type", SCHEDULES),
    VALUES("lr-schedule", "lr-scheduler-type", SCHEDULES),
    VALUES("schedule", "lr-scheduler-type", SCHEDULES),
    VALUES("lr-decay-style", "lr-scheduler-type", SCHEDULES),
    SAME("lr-scheduler-args", "lr-scheduler-kwargs"),
    SAME("num-warmup-steps|warmup-iters|lr-warmup-steps|lr-warmup-iters|warmup-updates",
         "warmup-steps"),
    SAME("warmup", "warmup-steps"),
    SAME("warmup-proportion|lr-warmup-fraction|learning-rate-warmup-ratio", "warmup-ratio"),
    NEAR("warmup-epochs", "--warmup-ratio F takes a share of all steps"),
    SAME("lr-min|min-learning-rate|lr-end|eta-min|learning-rate-min|adam-min-alpha", "min-lr"),
    NEAR("cosine-min-lr-ratio", "--min-lr is a rate: that share of --learning-rate"),
    NEAR("min-lr-ratio", "--min-lr is a rate: that share of --learning-rate"),
    NEAR("min-lr-rate", "--min-lr is a rate: that share of --learning-rate"),
    NEAR("decay-lr", "--lr-scheduler-type constant or cosine"),
    NEAR("lr-decay-iters", "schedules end with the run: --max-steps"),
    VALUES("optimizer", "optim", OPTIMIZERS),
    VALUES("opt", "optim", OPTIMIZERS),
    SAME("optim-kwargs|optimizer-args", "optim-args"),
    NEAR("optim-target-modules", "--param-override 'GLOB: ..' sets options for some parameters"),
    VALUES("use-8bit-adam", "optim", "true=adamw_8bit|false=adamw"),
    VALUES("adafactor", "optim", "true=adafactor|false=adamw"),
    SAME("wd|adam-decay", "weight-decay"),
    SAME("beta1|adam-beta-1", "adam-beta1"),
    SAME("beta2|adam-beta-2", "adam-beta2"),
    SAME("eps|adam-eps", "adam-epsilon"),
    NEAR("momentum", "--optim-args momentum=F"),
    NEAR("betas|adam-betas", "--adam-beta1 and --adam-beta2"),
    SAME("clip-grad-norm|grad-clip|clip-grad|gradient-clipping", "max-grad-norm"),
    SAME("gradient-clip-val|gradient-clip-norm|max-norm", "max-grad-norm"),
    SAME("neftune-alpha|noisy-embedding-alpha", "neftune-noise-alpha"),
    NEAR("ema*", "averages of weights are not implemented: the nearest is schedule_free_adamw"),
    NEAR("use-ema", "averages of weights are not implemented: the nearest is schedule_free_adamw"),
    SAME("random-state|random-seed|manual-seed", "seed"),
    ONLY_VALUES(GENERATES, "-s", "seed", "-1=!every text can be drawn again: give a number|*"),
    NEAR("full-determinism", "every run is deterministic: leave it out"),
    NEAR("deterministic", "every run is deterministic: leave it out"),
    SAME("dropout-rate", "dropout"),
    NEAR("disable-dropout", "--dropout 0"),
    NEAR("freeze-layers", "--freeze GLOB, such as --freeze '*.h.[0-5].*'"),
    NEAR("freeze-backbone", "--freeze GLOB --trainable GLOB, such as --trainable @classifier"),

    /* Preferences and distillation. */
    ONLY_VALUES(LEARNS | COMMAND_EVAL, "rl", "task", TASKS),
    SAME("ref-model-name-or-path", "ref-model"),
    SAME("reference-model|model-ref", "ref-model"),
    SAME("dpo-beta|pref-beta|orpo-alpha|rl-beta|kl-coeff|kl-coef|init-kl-coef", "beta"),
    SAME("dpo-label-smoothing", "label-smoothing"),
    NEAR("gamma", "--simpo-gamma, with --task simpo"),
    SAME("kto-desirable-weight", "desirable-weight"),
    SAME("kto-undesirable-weight", "undesirable-weight"),
    VALUES("pref-loss", "loss-type",
           "orpo=!that is --task orpo|simpo=!that is --task simpo|kto_pair=!the nearest is --task "
           "kto|*"),
    NEAR("rpo-alpha", "not implemented: the nearest is --task orpo"),
    NEAR("loss-weights", "one loss at a time: --loss-type"),
    NEAR("ld-alpha", "not implemented: the nearest is --loss-type ipo, which takes means"),
    NEAR("f-divergence-type", "not implemented: the reverse KL divergence is used"),
    NEAR("f-alpha-divergence-coef", "not implemented: the reverse KL divergence is used"),
    NEAR("use-weighting", "not implemented: see --loss-type"),
    NEAR("discopop-tau", "not implemented: see --loss-type"),
    NEAR("reference-free", "--task simpo or --task orpo needs no reference"),
    NEAR("precompute-ref*", "the reference is computed once and kept: leave it out"),
    NEAR("sync-ref-model", "the reference stays as it is: see --ref-model"),
    NEAR("ref-model-*", "the reference stays as it is: see --ref-model"),
    NEAR("router-aux-loss-coef", "the model's config.json sets it"),
    ONLY(LEARNS, "kd-alpha", "distill-alpha"),
    ONLY(LEARNS, "kd-temperature", "distill-temperature"),
    ONLY(COMMAND_DISTILL, "top-k", "distill-top-k"),

    /* Saving, evaluating, reports. */
    ONLY(LEARNS, "output", "output-dir"),
    ONLY(LEARNS, "-o", "output-dir"),
    SAME("out-dir|save-dir|results-dir|work-dir|workdir", "output-dir"),
    SAME("save-path", "output-dir"),
    SAME("output-path", "output-dir"),
    ONLY(LEARNS, "checkpoint-dir", "output-dir"),
    ONLY(WRITES, "-o", "output"),
    ONLY(WRITES, "out", "output"),
    ONLY(WRITES, "output-file", "output"),
    ONLY(EXPORTS, "-o", "to"),
    ONLY(EXPORTS, "output", "to"),
    ONLY(EXPORTS, "output-dir", "to"),
    ONLY(EXPORTS, "outfile", "to"),
    ONLY_VALUES(EXPORTS, "outtype", "dtype",
                "f32=fp32|f16=fp16|bf16=bf16|auto=source|"
                "q8_0=!--save-quant q8_0 packs the matrices"),
    NEAR("overwrite", "--overwrite-output-dir removes what an earlier run left"),
    NEAR("force", "--overwrite-output-dir removes what an earlier run left"),
    SAME("resume-from|load-checkpoint|ckpt-path", "resume-from-checkpoint"),
    ONLY_VALUES(LEARNS, "auto-resume-from-checkpoints", "resume", "true=auto|false=false"),
    ONLY_VALUES(LEARNS, "auto-resume", "resume", "true=auto|false=false"),
    SAME("evaluation-strategy", "eval-strategy"),
    SAME("eval-every|eval-interval|evaluation-steps|eval-freq", "eval-steps"),
    NEAR("val-check-interval", "Lightning counts batches: --eval-steps counts steps"),
    NEAR("evals-per-epoch", "--eval-strategy epoch, or --eval-steps N"),
    NEAR("eval-delay", "evaluations begin with the run: see --eval-steps"),
    NEAR("eval-on-start", "`bedplate eval --model DIR --data FILE` evaluates before training"),
    NEAR("eval-do-concat-batches", "nothing is kept between batches: leave it out"),
    NEAR("eval-use-gather-object", "nothing is kept between batches: leave it out"),
    NEAR("prediction-loss-only", "leave it out; the task decides what is computed"),
    NEAR("include-for-metrics", "`bedplate eval --predictions FILE` writes each row"),
    NEAR("batch-eval-metrics", "metrics are summed batch by batch: leave it out"),
    NEAR("compute-metrics", "the task decides: see --metric-for-best-model"),
    SAME("best-metric|monitor", "metric-for-best-model"),
    SAME("metric", "metric-for-best-model"),
    SAME("class-weight", "class-weights"),
    SAME("num-classes|n-classes", "num-labels"),
    SAME("patience", "early-stopping-patience"),
    ONLY_NEAR(LEARNS, "early-stopping", "--early-stopping-patience N"),
    SAME("save-every|save-interval|save-freq|checkpoint-every|checkpoint-interval", "save-steps"),
    VALUES("checkpointing-steps", "save-steps", "epoch=!--save-strategy epoch|*"),
    NEAR("saves-per-epoch", "--save-strategy epoch, or --save-steps N"),
    SAME("save-limit|keep-last|checkpoints-total-limit|max-checkpoints", "save-total-limit"),
    NEAR("save-only-model", "--save-strategy no: the model alone is written at the end"),
    NEAR("save-on-each-node", "rank 0 saves: leave it out"),
    NEAR("save-safetensors", "safetensors is the one format: leave it out"),
    NEAR("save-model", "the model is written at the end: leave it out"),
    NEAR("enable-jit-checkpoint", "signals save a checkpoint: see --on-usr1 and --time-limit"),
    NEAR("ignore-data-skip", "a resumed run continues in the data where it stopped: leave it out"),
    NEAR("restore-callback-states-from-checkpoint",
         "a checkpoint has the whole state of a run: leave it out"),
    SAME("log-every|log-every-n-steps|log-interval|log-steps|log-freq", "logging-steps"),
    SAME("print-every|steps-per-report", "logging-steps"),
    NEAR("logging-strategy", "--logging-steps N, or a share of the run: --logging-steps 0.1"),
    NEAR("logging-nan-inf-filter", "a step that is not finite ends the run with exit code 5"),
    NEAR("log-level*", "--quiet shows no progress"),
    NEAR("log-on-each-node", "rank 0 writes the log: leave it out"),
    NEAR("include-num-input-tokens-seen", "the log counts tokens: leave it out"),
    NEAR("include-tokens-per-second", "the log has tokens per second: leave it out"),
    NEAR("log-peak-memory-stats", "`bedplate plan` prints the memory"),
    VALUES("disable-tqdm", "quiet", "true=true|false=false"),
    SAME("silent", "quiet"),
    ONLY_NEAR(~0u, "verbose", "nothing is left out: see --quiet and --logging-steps"),
    ONLY_NEAR(~0u, "-v", "nothing is left out: see --quiet and --logging-steps"),
    VALUES("tensorboard", "report-to", "true=tensorboard|false=none"),
    VALUES("use-tensorboard", "report-to", "true=tensorboard|false=none"),
    VALUES("with-tracking", "report-to", "true=tensorboard|false=none"),
    SAME("log-dir|tensorboard-dir|logdir", "logging-dir"),
    NEAR("wandb*", WANDB),
    NEAR("use-wandb", WANDB),
    NEAR("swanlab*", "the nearest is --report-to tensorboard"),
    NEAR("mlflow*", "the nearest is --report-to tensorboard"),
    NEAR("trackio*", "the nearest is --report-to tensorboard"),
    NEAR("comet*", "the nearest is --report-to tensorboard"),
    NEAR("run-name", "the output directory names a run: --output-dir"),
    NEAR("project", "the output directory names a run: --output-dir"),
    NEAR("project-name", "the output directory names a run: --output-dir"),
    NEAR("experiment-name", "the output directory names a run: --output-dir"),
    NEAR("exp-name", "the output directory names a run: --output-dir"),
    NEAR("push-to-hub*", HUB),
    NEAR("push-model", HUB),
    NEAR("hub*", HUB),
    NEAR("do-train", "`bedplate train` trains: leave it out"),
    NEAR("do-eval", "--eval-data FILE, or --validation-split F"),
    NEAR("do-predict", "`bedplate eval --predictions FILE`"),
    NEAR("debug", "`bedplate selftest` checks this machine; train has --poison"),
    NEAR("profile*", "`bedplate bench step` measures a step"),
    NEAR("dry-run", "`bedplate plan` takes the same options and trains nothing"),
    NEAR("loss-watchdog*", "--on-spike and --spike-threshold"),

    /* Devices, ranks, memory. */
    VALUES("use-cpu", "device", "true=host|false=auto"),
    VALUES("no-cuda", "device", "true=host|false=auto"),
    VALUES("cpu", "device", "true=host|false=auto"),
    VALUES("cuda", "device", "true=cuda|false=host"),
    VALUES("use-cuda", "device", "true=cuda|false=host"),
    VALUES("use-gpu", "device", "true=cuda|false=host"),
    NEAR("use-mps-device", "Metal is not supported: --device host"),
    NEAR("device-map", "--device names one GPU; see --shard for several"),
    NEAR("gpu", "--device cuda:N names one GPU"),
    NEAR("gpus", "one rank for each GPU: mpirun or torchrun, see --fabric and --shard"),
    NEAR("num-gpus", "one rank for each GPU: mpirun or torchrun, see --fabric and --shard"),
    NEAR("n-gpu", "one rank for each GPU: mpirun or torchrun, see --fabric and --shard"),
    NEAR("devices", "one rank for each GPU: mpirun or torchrun, see --fabric and --shard"),
    NEAR("nproc-per-node", "one rank for each GPU: mpirun or torchrun, see --fabric and --shard"),
    NEAR("num-processes",
         "mpirun or torchrun starts ranks; threads:N in --fabric starts them here"),
    NEAR("nnodes", "mpirun, srun or torchrun starts ranks on hosts: see --fabric"),
    NEAR("num-machines", "mpirun, srun or torchrun starts ranks on hosts: see --fabric"),
    NEAR("num-nodes", "mpirun, srun or torchrun starts ranks on hosts: see --fabric"),
    NEAR("local-rank", "the launcher sets it in the environment: leave it out"),
    NEAR("master-addr", "the launcher sets it in the environment: leave it out"),
    NEAR("master-port", "the launcher sets it in the environment: leave it out"),
    NEAR("fsdp*", "see --shard (parameters is FSDP's full shard)"),
    NEAR("deepspeed*",
         "see --shard (optimizer, gradients, parameters are ZeRO 1, 2, 3) and --offload"),
    NEAR("zero-stage", "--shard optimizer, gradients or parameters (ZeRO 1, 2, 3)"),
    NEAR("accelerator-config", "see --fabric and --shard"),
    NEAR("parallelism-config", "see --shard"),
    NEAR("tensor-parallel*", "not implemented: the nearest is --shard parameters"),
    NEAR("pipeline-parallel*", "not implemented: the nearest is --shard parameters"),
    SAME("context-parallel-size|sequence-parallel-size|ring-attn-size|cp-size", "sequence-ranks"),
    NEAR("context-parallel*|sequence-parallel*|ulysses*", SEQUENCES),
    NEAR("tensor-model-parallel*|pipeline-model-parallel*|expert-model-parallel*",
         "not implemented: the nearest is --shard parameters"),
    NEAR("ddp-timeout", "--step-limit and --silence-limit"),
    NEAR("ddp-backend", "--fabric mpi or nccl"),
    NEAR("ddp*", "gradients are summed in a planned order: see --ddp-bucket-cap-mb"),
    NEAR("activation-offloading", "--offload file:PATH:BYTES --offload-what checkpoints"),
    NEAR("enable-activation-offloading", "--offload file:PATH:BYTES --offload-what checkpoints"),
    NEAR("cpu-offload", "--offload host:BYTES, beside a GPU; file:PATH:BYTES anywhere"),
    NEAR("offload-optimizer", "--offload file:PATH:BYTES --offload-what states"),
    NEAR("offload-param*", "--offload file:PATH:BYTES --offload-what weights"),
    NEAR("offload-folder", "--offload file:PATH:BYTES"),
    SAME("memory|memory-limit|max-memory|memory-budget|ram|vram|gpu-memory|budget|mem", "arena"),
    SAME("num-threads|n-threads|cpu-threads|cpus|cores|jobs", "threads"),
    ONLY(RUNS, "-t", "threads"),
    SAME("variant", "kernels"),

    /* Generation. */
    ONLY(GENERATES, "-p", "prompt"),
    ONLY(GENERATES, "text|message|query", "prompt"),
    ONLY(GENERATES, "input", "prompt"),
    ONLY_VALUES(GENERATES, "-n", "max-new-tokens",
                "-1=!a text without end has no plan: give a number of tokens|"
                "-2=!the context is no length: give a number of tokens|*"),
    ONLY_VALUES(GENERATES, "n-predict", "max-new-tokens",
                "-1=!a text without end has no plan: give a number of tokens|"
                "-2=!the context is no length: give a number of tokens|*"),
    ONLY_VALUES(GENERATES, "predict", "max-new-tokens",
                "-1=!a text without end has no plan: give a number of tokens|"
                "-2=!the context is no length: give a number of tokens|*"),
    ONLY(GENERATES, "max-tokens", "max-new-tokens"),
    ONLY(GENERATES, "num-tokens", "max-new-tokens"),
    ONLY(GENERATES, "max-gen-len", "max-new-tokens"),
    ONLY(GENERATES, "gen-length", "max-new-tokens"),
    ONLY_NEAR(GENERATES, "max-length",
              "it counts the prompt too: --max-new-tokens counts new ones"),
    ONLY_NEAR(GENERATES, "min-length", "not implemented: the nearest is --ignore-eos"),
    ONLY_NEAR(GENERATES, "min-new-tokens", "not implemented: the nearest is --ignore-eos"),
    ONLY(GENERATES, "temp", "temperature"),
    ONLY_VALUES(GENERATES, "do-sample", "temperature",
                "true=!texts are drawn unless --temperature is 0: leave it out|false=0"),
    ONLY_VALUES(GENERATES, "greedy", "temperature", "true=0"),
    ONLY(GENERATES, "repeat-penalty", "repetition-penalty"),
    ONLY(GENERATES, "rep-pen", "repetition-penalty"),
    ONLY_NEAR(GENERATES, "repeat-last-n", "--repetition-penalty looks at the whole text"),
    ONLY_NEAR(GENERATES, "presence-penalty", "the nearest is --repetition-penalty"),
    ONLY_NEAR(GENERATES, "frequency-penalty", "the nearest is --repetition-penalty"),
    ONLY_NEAR(GENERATES, "no-repeat-ngram-size", "the nearest is --repetition-penalty"),
    ONLY_NEAR(GENERATES, "num-beams",
              "there is no beam search: --temperature 0 takes the likeliest"),
    ONLY_NEAR(GENERATES, "typical*", "the nearest is --min-p"),
    ONLY_NEAR(GENERATES, "mirostat*", "the nearest is --min-p"),
    ONLY_NEAR(GENERATES, "samplers", "the order is top-k, top-p, min-p"),
    ONLY_NEAR(GENERATES, "grammar*", "not implemented: texts are not constrained"),
    ONLY(GENERATES, "num-samples", "num-return-sequences"),
    ONLY(GENERATES, "num-sequences", "num-return-sequences"),
    ONLY_NEAR(GENERATES, "n", "--max-new-tokens N, or --num-return-sequences N"),
    ONLY(GENERATES, "stop-strings", "stop"),
    ONLY(GENERATES, "stop-string", "stop"),
    ONLY(GENERATES, "stop-sequence", "stop"),
    ONLY(GENERATES, "reverse-prompt", "stop"),
    ONLY(GENERATES, "-r", "stop"),
    ONLY(GENERATES, "system-prompt", "system"),
    ONLY(GENERATES, "system-message", "system"),
    ONLY(GENERATES, "-sys", "system"),
    ONLY(GENERATES, "conversation", "chat"),
    ONLY(GENERATES, "-cnv", "chat"),
    ONLY(GENERATES, "interactive", "chat"),
    ONLY(GENERATES, "-i", "chat"),
    ONLY(GENERATES, "apply-chat-template", "chat"),
    ONLY_VALUES(GENERATES, "stream", "no-stream", "true=false|false=true"),
    ONLY_NEAR(GENERATES, "-f", "--prompt \"$(cat FILE)\""),
    ONLY_NEAR(GENERATES, "file", "--prompt \"$(cat FILE)\""),
    ONLY_NEAR(GENERATES, "prompt-file", "--prompt \"$(cat FILE)\""),
    ONLY_NEAR(GENERATES, "-ngl", "--device cuda puts every layer on the GPU"),
    ONLY_NEAR(GENERATES, "n-gpu-layers", "--device cuda puts every layer on the GPU"),
    ONLY_NEAR(GENERATES, "gpu-layers", "--device cuda puts every layer on the GPU"),
    ONLY_NEAR(GENERATES, "-fa", "there is one attention, in tiles: leave it out"),
    ONLY_NEAR(GENERATES, "mlock", "memory is planned: leave it out"),
    ONLY_NEAR(GENERATES, "no-mmap", "memory is planned: leave it out"),
    ONLY_NEAR(GENERATES, "batch-size", "the prompt is read in one piece: leave it out"),
    ONLY_NEAR(GENERATES, "-b", "the prompt is read in one piece: leave it out"),

    /* The rest. */
    ONLY(COMMAND_EMBED | COMMAND_EVAL | LEARNS, "normalize-embeddings", "normalize"),
    ONLY(COMMAND_EMBED | COMMAND_EVAL | LEARNS, "pooling-mode", "pooling"),
    ONLY_NEAR(COMMAND_EVAL, "tasks", "--data takes the rows; --task names their kind"),
    ONLY(COMMAND_EVAL, "predictions-file", "predictions"),
    ONLY_NEAR(COMMAND_EVAL, "output", "--predictions FILE writes each row"),
    ONLY(COMMAND_EVAL, "output-file", "predictions"),
    SAME("config-file", "config"),
    ONLY_NEAR(~0u, "version", "`bedplate --version`"),

    /* Names that are typed less often. Model and tokenizer. */
    NEAR("base-model-config", "--model takes a directory with config.json, or a preset"),
    NEAR("is-llama-derived-model|is-encoder-decoder",
         "the model's config.json names its type: leave it out"),
    NEAR("resize-token-embeddings*|shrink-embeddings|mean-resizing-embeddings",
         "the vocabulary is the model's"),
    NEAR("tokens|added-tokens-overrides", "the vocabulary is the tokenizer's"),
    NEAR("use-slow-tokenizer|tokenizer-use-fast|tokenizer-legacy",
         "there is one tokenizer: leave it out"),
    NEAR("vocab-file|merges-file", "--tokenizer DIR takes the directory of the tokenizer's files"),
    NEAR("embeddings-skip-upcast", "see --master, which keeps exact weights"),
    NEAR("hf-*", DOWNLOAD),
    NEAR("override-kv|max-position-embeddings|yarn-*|position-*", CONFIG),
    NEAR("attention-dropout|hidden-dropout*",
         "--dropout F is of every dropout; config.json has one for each kind"),
    NEAR("from-scratch|random-init",
         "--model PRESET, or a directory with config.json alone, begins with random weights"),
    NEAR("checkpointer|checkpoint-files", "--model takes a directory or a GGUF file"),
    NEAR("check-tensors", "tensors are checked when they are read: leave it out"),
    NEAR("image-size|img-size|patch-size|resize|image-processor-name|norm-mean|"
         "norm-std|mean|std",
         "the model's config.json and preprocessor_config.json set it"),
    NEAR("augment*|mixup|cutmix|crop",
         "--random-crop, --random-resized-crop and --random-horizontal-flip"),

    /* Data and lengths. */
    SAME("train-dataset|raw-text-file|pretraining-dataset|inputs", "data"),
    SAME("valid-data|val-dataset|dev-file|dev-data|test-datasets", "eval-data"),
    ONLY(LEARNS, "test-data", "eval-data"),
    SAME("train-val-split|test-split-size", "validation-split"),
    NEAR("split", "--data takes the files that are learned, --eval-data those that are held out"),
    NEAR("max-predict-samples", "shorten the file of --data"),
    NEAR("dataset-processes", "tokenizing uses --threads"),
    NEAR("dataset-*", "see --data, --data-format, --text-column and --label-column"),
    NEAR("columns|column-map|image-column-name|text-column-names|label-column-id|"
         "conversation-column|question-column|context-column",
         "--text-column and --label-column name columns"),
    NEAR("fraction", "--data-weights F,F,.. sets the share of each data set"),
    NEAR("text-column-delimiter", "join columns in the data: a row has one text, or a pair"),
    NEAR("label-map|id2label|label2id|labels|classes",
         "names of classes come from the data, and config.json keeps them as id2label"),
    NEAR("line-by-line", "JSON lines {\"text\": ..} make each line a text: see --data-format"),
    NEAR("keep-linebreaks|no-keep-linebreaks", "line breaks stay in the text: leave it out"),
    NEAR("mlm-probability", "15 % of the tokens are predicted, as in BERT: leave it out"),
    VALUES("do-regression", "task", "true=regression|false=classification"),
    NEAR("task-name", "--task names what is learned, --data its files"),
    NEAR("metric-name|include-inputs-for-metrics|return-entity-level-metrics|"
         "eval-causal-lm-metrics|average",
         "the task decides: see --metric-for-best-model"),
    NEAR("threshold|positive-label",
         "`bedplate eval --predictions FILE` writes scores of each row"),
    NEAR("source-prefix", "put the prefix before the texts of --data"),
    NEAR("val-max-target-length", "--max-seq-length is prompt and answer together"),
    ONLY_NEAR(LEARNS, "prompts",
              "--prompt-name NAME takes a prompt of config_sentence_transformers.json"),
    NEAR("batch-sampler|multi-dataset-batch-sampler|sampler|sortish-sampler|"
         "curriculum-sampling|multipack-real-batches",
         "rows are drawn in random order: see --data-weights and --group-by-length"),
    NEAR("group-by-modality-length", "see --group-by-length"),
    NEAR("instruction-part|response-part|instruction-template|"
         "conversation-extension",
         "turns are found by the chat template: --loss-on assistant"),
    NEAR("new-system-prompt|default-system-message", "give the rows a system message"),
    NEAR("chat-template-jinja", "--chat-template takes a name or a file"),
    NEAR("chat-template-kwargs|enable-thinking|reasoning*",
         "a template reads the conversation alone: leave it out"),
    NEAR("add-generation-prompt", "--chat asks for an answer by the chat template: leave it out"),
    VALUES("train-on-input", "loss-on", "true=all|false=assistant"),
    VALUES("excess-length-strategy", "long-rows",
           "truncate=cut|raise=refuse|drop=!rows are cut or refused, never dropped"),
    NEAR("min-sample-len", "leave short rows out of the file of --data"),
    NEAR("eval-sequence-len", "evaluations have the length of --max-seq-length"),
    NEAR("sample-packing-*|pretraining-sample-concatenation",
         "--packing-strategy chooses how documents become rows"),
    NEAR("batch-flattening", "the nearest is --packing, and --length-buckets"),
    NEAR("sample-start|sample-random-offsets|include-sample-start|"
         "fill-with-next-samples|force-reshuffle|pattern-fn-it|chunk-size",
         "--max-seq-length cuts rows, --data-seed draws their order"),
    NEAR("separate-with-*|no-separate-with-*",
         "documents end with the tokenizer's end token: leave it out"),
    SAME("max-len|maxlen|ctx-len|context-size|block|seq|target-max-len", "max-seq-length"),
    ONLY(LEARNS, "ctx-size|n-ctx|ctx", "max-seq-length"),
    ONLY_NEAR(LEARNS, "max-tokens",
              "--max-seq-length is of a row; a batch has --per-device-train-batch-size rows"),
    NEAR("stride", "--doc-stride N, with --task question-answering"),
    NEAR("truncate", "--long-rows cut or refuse"),
    NEAR("padding|padding-value|padding-side",
         "--length-buckets has the lengths to which rows are padded"),
    SAME("grad-accumulation|update-freq|accum|accumulation", "gradient-accumulation-steps"),
    ONLY_NEAR(GENERATES, "n-batch|ubatch-size|-ub",
              "the prompt is read in one piece: leave it out"),
    NEAR("mini-batch-size|n-batch|ubatch-size|-ub",
         "--per-device-train-batch-size is a micro-batch, --gradient-accumulation-steps their "
         "number"),
    NEAR("drop-last", "the last rows are trained as well: leave it out"),
    NEAR("workers|prefetch", "no process loads data: see --threads"),
    NEAR("strict", "misspelt options are always refused: leave it out"),
    NEAR("plugins", "no code is loaded: leave it out"),

    /* Precision, adapters, quantisation. */
    SAME("use-checkpointing|grad-checkpoint", "gradient-checkpointing"),
    NEAR("ac-mode|ac-option",
         "--gradient-checkpointing takes a policy: full, every:K, selective:NAMES"),
    NEAR("enable-fp8*|float8*", "see --weight-dtype fp8, --tape-dtype fp8 and --product-dtype fp8"),
    NEAR("load-in-16bit", "--bf16 or --fp16"),
    VALUES("load-in", "load-in-4bit",
           "4bit=--load-in-4bit|8bit=--load-in-8bit|4=--load-in-4bit|8=--load-in-8bit"),
    NEAR("gptq|awq|quantization-config|bnb-config-kwargs|torchao*",
         "--load-in-4bit or --load-in-8bit quantises a model's own weights"),
    NEAR("cut-cross-entropy|cast-lm-head*|num-output-chunks|unsloth*",
         "the nearest is --loss-chunk-rows: logits exist in chunks"),
    NEAR("apex|opt-level", "--bf16, or --fp16 with loss scaling"),
    NEAR("sdp-attention|s2-attention|flex-attention|eager-attention|flash-optimum|"
         "flash|use-flash|no-flash",
         "there is one attention, in tiles: leave it out"),
    NEAR("ring-attn*|heads-k-stride", SEQUENCES),
    NEAR("jit-mode-eval|use-ipex|torchdynamo|fused|lora-mlp-kernel|"
         "lora-qkv-kernel|lora-o-kernel|fast-inference",
         "nothing is compiled: see --kernels"),
    NEAR("gpu-memory-utilization|maximum-memory-usage",
         "--arena BYTES is the memory that a run may take"),
    NEAR("gc-steps|max-lora-rank|past-index|ignore-bias-buffers|lora-on-cpu|"
         "low-cpu-mem*|low-memory|mmap|numa|no-kv-offload|cache-type-*|"
         "cache-implementation|cache-config|max-cache-len",
         "memory is planned: leave it out"),
    NEAR("offload-embedding", "--offload file:PATH:BYTES --offload-what weights"),
    NEAR("finetune-*|target", "--target-modules and --layers-to-transform choose the layers"),
    SAME("peft-layers-to-transform", "layers-to-transform"),
    NEAR("lora-fan-in-fan-out|auto-mapping|peft-version",
         "the model's family decides: leave it out"),
    NEAR("peft-init*", "adapters begin as in PEFT's default, lora_B at 0"),
    NEAR("peft|peft-config|lora-a", "--lora-r R trains adapters of rank R"),
    NEAR("adapter-name|lora-name", "an output directory has one adapter, which --adapter takes; "
                                   "--adapters FILE trains several"),
    NEAR("lora-scaled|lora-weight", "--lora-alpha sets the scale of adapters"),
    SAME("rank-stabilized|rank-stabilized-lora|use-rank-stabilized-lora", "use-rslora"),
    NEAR("rank-*", "--rank-pattern KEY=R,.. sets ranks of some layers"),
    NEAR("lora-out|checkpoint-out", "--output-dir DIR gets adapters, or weights, and checkpoints"),
    NEAR("save-adapter*|save-pretrained*", "with --lora-r adapters alone are saved: leave it out"),
    NEAR("skip-peft", "without --lora-r all weights are trained"),
    NEAR("relora*|lisa*", "not implemented: the nearest is --lora-r"),

    /* Rate, update rule, losses. */
    SAME("adam-gclip|clipping|grad-norm-clip", "max-grad-norm"),
    NEAR("clip", "--max-grad-norm, or --epsilon with --task grpo"),
    NEAR("num-cycles", "--lr-scheduler-kwargs takes numbers of the schedule: num_cycles=0.5"),
    NEAR("power", "--lr-scheduler-kwargs takes numbers of the schedule: power=2"),
    NEAR("num-decay-steps|decay-steps",
         "--lr-scheduler-kwargs takes numbers of the schedule: num_decay_steps=100"),
    NEAR("pct-start|final-div-factor|final-lr-factor|lr-div-factor|lr-decay|"
         "cos-decay-*|decay-epochs|lr-quadratic-warmup|cosine-constant-lr-ratio",
         "see --lr-scheduler-type and --lr-scheduler-kwargs"),
    NEAR("decay", "--weight-decay, or --lr-scheduler-type for a rate that decays"),
    NEAR("embedding-lr*|router-mapping|learning-rate-mapping",
         "--param-override 'GLOB: lr=F' sets a rate for some parameters"),
    ONLY_NEAR(GENERATES, "no-warmup|warmup", "nothing is warmed up: leave it out"),
    NEAR("no-warmup", "--warmup-steps 0 is the default"),
    NEAR("nesterov", "--optim-args nesterov=true"),
    NEAR("swa*|lookahead",
         "averages of weights are not implemented: the nearest is schedule_free_adamw"),
    NEAR("freeze-embeddings", "--freeze GLOB, such as --freeze '*embed*'"),
    NEAR("num-trainable-layers", "--freeze GLOB, such as --freeze '*.h.[0-5].*'"),
    NEAR("train-embeddings", "--trainable GLOB, or --trainable-token-indices N,.. beside adapters"),
    SAME("unfreeze", "trainable"),
    NEAR("loss|loss-fn|loss-function|criterion",
         "--task decides the loss; --loss-type chooses among those of dpo and grpo"),
    NEAR("pos-weight", "--class-weights F,F,.."),
    NEAR("margin|mining|distance-metric|similarity-fct|matryoshka*",
         "embeddings learn by MultipleNegativesRankingLoss: see --scale"),
    ONLY(LEARNS, "kd-ratio", "distill-alpha"),
    NEAR("early-stop|adam-epsf|opt-past|opt-delta", "--early-stopping-patience N"),

    /* Preferences and rewards. */
    NEAR("dpo-use-weighting|sapo*|vespo*", "not implemented: see --loss-type"),
    NEAR("trl", "--task names the method, and its options have their own names"),
    SAME("reward-model-path|reward-model-name-or-path", "reward-model"),
    NEAR("center-rewards*", "not implemented: see --reward-model"),
    NEAR("missing-eos-penalty", "--mask-truncated-completions"),
    NEAR("generate-during-eval|generation-max-length|"
         "generation-num-beams|generation-config|eval-max-new-tokens|"
         "eval-table-size|num-generations-eval",
         "evaluations generate texts of speech alone: `bedplate generate` does"),
    NEAR("use-vllm|vllm*|use-transformers-*|transformers-*|ds3-gather*|"
         "fork-threshold*|token-budget|max-inflight*|request-timeout|queue-maxsize",
         "completions are generated in the arena: see --slots"),
    NEAR("steps-per-generation|generation-batch-size|weight-sync*|max-staleness|"
         "heartbeat*",
         "a step learns its own completions: see --num-generations and --num-iterations"),
    NEAR("generation-kwargs", "see --temperature and --max-completion-length"),
    VALUES("importance-sampling-level", "loss-type",
           "sequence=!--loss-type gspo or luspo have ratios of whole completions; see --epsilon|"
           "token=!ratios are of tokens but for --loss-type gspo and luspo: leave it out"),
    NEAR("off-policy*|use-bias-correction-kl", "not implemented: see --delta and --epsilon"),
    NEAR("entropy-*|use-adaptive-entropy",
         "not implemented: the nearest is --top-entropy-quantile"),
    NEAR("normalize-advantages", "the nearest is --scale-rewards batch"),
    NEAR("reward-clip-range", "rewards are not clipped: --reward-command may bound its own"),
    NEAR("multi-objective*", "rewards are added: see --reward-weights"),
    NEAR("max-tool-calling*", "not implemented: completions call no tools"),
    NEAR("log-completions*|log-multimodal|log-unique-prompts|"
         "num-completions-to-print",
         "`bedplate report` shows completions: leave it out"),
    NEAR("distillation-*|use-teacher-server",
         "not implemented: the nearest is --distill FILE of `bedplate distill`"),
    NEAR("use-successful*|success-reward*|dont-reprompt*|max-reprompt*|reprompt*|"
         "solution-template|feedback-template|include-environment*|"
         "environment-feedback*|remove-thinking*|diagnostics*",
         "not implemented: the nearest is --task grpo"),

    /* Saving, reports, devices. */
    ONLY(LEARNS, "out", "output-dir"),
    NEAR("ckpt|checkpoint|checkpoint-in|restore|recipe-checkpoint|enable-restart",
         "--resume-from-checkpoint continues a run; --model takes a model"),
    SAME("keep-checkpoints|keep-last-n-checkpoints", "save-total-limit"),
    NEAR("save-last-epoch-only", "--save-total-limit 1"),
    SAME("val-interval|run-val-every-n-steps|steps-per-eval", "eval-steps"),
    NEAR("mode", "--greater-is-better true or false"),
    NEAR("log-file|logfile|log-prefix",
         "standard output has the lines of the log, --output-dir has events.jsonl"),
    NEAR("name|experiment|tags|notes", "the output directory names a run: --output-dir"),
    NEAR("path", "--model, --data and --output-dir take paths"),
    NEAR("metric-logger|use-comet|clearml*|neptune*", "the nearest is --report-to tensorboard"),
    NEAR("world-size|node-rank|ray-scope|tpu*",
         "the launcher sets it in the environment: leave it out"),
    NEAR("gpu-ids|gpu-id|main-gpu", "--device cuda:N names one GPU"),
    NEAR("threads-batch", "--threads N is of prompts as well: leave it out"),
    NEAR("benchmark|cudnn-*", "every run is deterministic: leave it out"),
    NEAR("dp-shard*|data-parallel*|custom-sharded*|tensor-split|split-mode",
         "see --shard (parameters is FSDP's full shard)"),
    ONLY_NEAR(LEARNS, "gpu-layers|n-gpu-layers|-ngl", "--device cuda puts every layer on the GPU"),

    /* Generation. */
    ONLY_NEAR(GENERATES,
              "color|simple-io|no-display-prompt|verbose-prompt|special|log-disable|"
              "print-timings|multiline-input|in-prefix|in-suffix|return-dict*",
              "see --no-stream, --output-ids and --json for what is printed"),
    ONLY_NEAR(GENERATES, "interactive-first|-if|single-turn|no-conversation",
              "--chat answers a line of standard input at a time"),
    ONLY_NEAR(GENERATES, "keep|n-keep|grp-attn*|prompt-cache*",
              "--context N is of the whole conversation: leave it out"),
    ONLY_NEAR(GENERATES,
              "top-n-sigma|top-h|xtc*|dynatemp*|sampling-seq|epsilon-cutoff|eta-cutoff|"
              "temp-last|penalty-alpha|dola*",
              "not implemented: see --top-k, --top-p and --min-p"),
    ONLY_NEAR(GENERATES, "dry-*|encoder-repetition*|encoder-no-repeat*|diversity*",
              "the nearest is --repetition-penalty"),
    ONLY_NEAR(GENERATES,
              "logit-bias|json-schema|bad-words*|force-*|forced-*|constraints|"
              "suppress*|begin-suppress*|sequence-bias|renormalize*|remove-invalid*|"
              "guidance*|watermark*|token-healing",
              "not implemented: texts are not constrained"),
    ONLY_NEAR(GENERATES, "num-beam-groups|early-stopping|length-penalty|exponential-decay*",
              "there is no beam search: --temperature 0 takes the likeliest"),
    ONLY_NEAR(GENERATES,
              "draft*|model-draft|is-assistant|num-assistant*|assistant-*|"
              "prompt-lookup*|max-matching*|target-lookbehind|speculation*|use-mtp",
              "one model generates, without drafts: leave it out"),
    ONLY(GENERATES, "antiprompt|stop-token", "stop"),
    ONLY(GENERATES, "max-gen-toks", "max-new-tokens"),
    ONLY_NEAR(GENERATES, "pad-token-id|bos-token-id|eos-token-id|decoder-start*",
              "the tokenizer's files name it"),
    ONLY_NEAR(GENERATES, "max-time", "--max-new-tokens N ends a text"),
    ONLY_NEAR(GENERATES,
              "output-scores|output-logits|output-attentions|output-hidden*|n-probs|logprobs",
              "`bedplate eval --predictions FILE` writes scores"),
    ONLY_NEAR(GENERATES, "disable-compile|continuous-batching*|prefill*",
              "nothing is compiled: leave it out"),
    ONLY_NEAR(GENERATES, "escape", "escapes are the shell's: leave it out"),
    ONLY_NEAR(GENERATES, "cpu-mask|prio", "--threads N"),

    /* What configurations of axolotl, torchtune, TRL, Unsloth and llama.cpp also name. */
    NEAR("field*|message-field*|message-property*|roles|logprobs-field",
         "--text-column and --label-column name columns; docs/getting-started/models-and-data.md "
         "names the others"),
    NEAR("type|ds-type|input-format|no-input-format|prompt-format|chosen-format|rejected-format|"
         "completion-format|system-format|prompt-template|step-separator",
         "columns decide the form of rows: see --data-format and --chat-template"),
    NEAR("roles-to-train|train-on-eo*|split-thinking|template-thinking-key|masked|masking-strategy",
         "--loss-on assistant trains the answers, each with the end of its turn"),
    NEAR("drop-system-message", "leave system messages out of the rows"),
    NEAR("bos-token|unk-token|eot-tokens|additional-special-tokens|add-eos|add-bos",
         "the tokenizer's files name them"),
    NEAR("tokenizer-config|tokenizer-revision|tokenizer-save*|tokenizer-use*|fix-tokenizer|"
         "fix-untrained-tokens|reinit-weights|vocab-path|merges-path|processor-*",
         "--tokenizer DIR takes the directory of the tokenizer's files"),
    NEAR("is-mistral-derived-model|is-falcon-derived-model|is-qwen-derived-model|type-of-model|"
         "auto-model|trainer-cls|cls-model-config|is-vlm|"
         "use-exact-model-name|experts-implementation",
         "the model's config.json names its type: leave it out"),
    NEAR("overrides-of*|norm-eps|num-kv-heads|num-heads|embed-dim|intermediate-dim|attn-dropout",
         CONFIG),
    NEAR("revision-of-model|model-url|-mu|docker-repo|-dr|source", DOWNLOAD),
    NEAR("offline|-cl|-hft|cache-list", "Bedplate uses no network: leave it out"),
    NEAR("completion-bash", "`bedplate completion bash`"),
    NEAR("peft-autocast*|peft-ensure*|peft-layer-rep*|lora-embedding-kernel|loftq-bits|"
         "qlora-sharded*",
         "adapters begin as in PEFT's default: leave it out"),
    SAME("peft-layers-pattern", "layers-pattern"),
    SAME("peft-trainable-token-indices", "trainable-token-indices"),
    SAME("lora-rank-pattern", "rank-pattern"),
    SAME("lora-alpha-pattern", "alpha-pattern"),
    NEAR("load-in-fp8|qat*|qat-scheme|quantizer|groupsize|group-size|activation-dtype|"
         "weight-dtype-*|fake-quant*|quantize-embedding|quantize-moe*|model-quantization*|imatrix*",
         "--load-in-4bit or --load-in-8bit quantises a frozen base; fp8: see --weight-dtype"),
    NEAR("fp32-norms|fp32-norm-classes|fp32-norm*", "norms are computed in fp32: leave it out"),
    NEAR("model-dtype|float32-mixed-precision", "--bf16, --fp16 or --fp32 (the default)"),
    NEAR("layer-offloading", "--offload file:PATH:BYTES --offload-what weights"),
    NEAR("selective-checkpointing|recompute-layer-types",
         "--gradient-checkpointing selective:NAMES"),
    NEAR("chunked-cross-entropy*|dpo-use-liger*|use-liger-loss|tiled-mlp*",
         "the nearest is --loss-chunk-rows: logits exist in chunks"),
    NEAR("deepcompile|fullgraph|use-kernels|fused-attn*|large-head*|gc-collect-steps|use-flex",
         "nothing is compiled: see --kernels"),
    NEAR("sage-*|flex-attn*|gemma4-hybrid*|scaling-softmax*",
         "there is one attention, in tiles: leave it out"),
    NEAR("gpu-memory-limit", "--arena 20GiB is the memory that a run may take"),
    NEAR("dp-replicate*|reshard-after*|state-dict-type|final-state-dict*|sync-module*|"
         "transformer-layer-cls*|auto-wrap*|use-orig-params|cpu-ram-efficient*|mixed-precision-"
         "policy|"
         "cpu-offload-pin*|memory-efficient-fsdp*|use-distributed-state*",
         "see --shard (parameters is FSDP's full shard)"),
    NEAR("ray-*|use-ray|resources-per-worker|parallel-method",
         "one rank for each GPU: mpirun or torchrun, see --fabric and --shard"),
    NEAR("use-mlflow|use-trackio|use-otel*|otel*", "the nearest is --report-to tensorboard"),
    NEAR("gradio*", "`bedplate generate --chat` talks with the model"),
    NEAR("bench-*|do-bench*|do-causal-lm-eval|num-fewshot|log-samples|num-sample-generations",
         "evaluations are losses and metrics of --data: see --predictions"),
    ONLY_NEAR(COMMAND_EVAL, "limit|metric|metrics",
              "the task decides the metrics; shorten the file of --data, or --validation-split F"),
    ONLY_NEAR(COMMAND_EVAL, "output-path|output-dir", "--predictions FILE writes each row"),
    NEAR("generate-samples|generate-max-len|generation-*|num-generation-samples|"
         "dpo-generate-during-eval",
         "evaluations generate nothing: `bedplate generate` does"),
    NEAR("save-first-step|trigger-file-path|save-sliding*",
         "--save-steps N; a signal saves too: see --on-usr1"),
    SAME("save-every-n-steps", "save-steps"),
    SAME("base-model-path|base-model-id|pretrain", "model"),
    SAME("batch-size-val", "per-device-eval-batch-size"),
    NEAR("push-dataset-to-hub|push-gguf", HUB),
    NEAR("save-every-n-epochs", "--save-strategy epoch"),
    NEAR("skip-prepare*|dataset-prepared*|num-dataset-shards*|shards|shards-idx|preprocess-*|"
         "is-preprocess|include-tkps|total-num-tokens|total-supervised*|partition|subset",
         "--data takes whole files, and nothing is prepared: leave it out"),
    NEAR("streaming-multipack*|pretrain-multipack*|max-packed*|use-pose|pose-*",
         "--packing-strategy chooses how documents become rows"),
    NEAR("lr-groups|dion-*", "--param-override 'GLOB: lr=F' sets a rate for some parameters"),
    NEAR("adam-beta3|adam-epsilon2", "--optim ademamix --optim-args beta3=F; others have no third"),
    NEAR("jagged-*", "not implemented: the nearest is --lora-r"),
    NEAR("qgalore*", "the nearest is --optim apollo_8bit"),
    SAME("dpo-loss-type", "loss-type"),
    NEAR("dpo-loss-weights", "one loss at a time: --loss-type"),
    NEAR("dpo-norm-loss", "the nearest is --task simpo"),
    NEAR("dpo-padding-free|dpo-use-logits*", "the nearest is --packing, and --length-buckets"),
    NEAR("use-logits-to-keep", "the nearest is --loss-chunk-rows: logits exist in chunks"),
    NEAR("label-pad-token-id", "padding is never learned: leave it out"),
    NEAR("process-reward-model", "not implemented: the nearest is --reward-model"),
    VALUES("reward-funcs", "reward",
           "think_format_reward=think|accuracy_reward=!the nearest are --reward boxed and number|"
           "reasoning_accuracy_reward=!the nearest are --reward think and boxed|"
           "get_soft_overlong_punishment=!--reward overlong:LONGEST,ROOM|"
           "*"),
    NEAR("reward-functions|rollout-func|reward-num-workers",
         "--reward NAME scores completions; --reward-command runs yours"),
    SAME("grpo-samples|n-samples-per-prompt", "num-generations"),
    SAME("max-generated-tokens|response-length", "max-completion-length"),
    NEAR("advantage-estimator",
         "--loss-type grpo, rloo or reinforce_plus_plus; see --scale-rewards"),
    NEAR("whiten-rewards|use-whitening", "the nearest is --scale-rewards batch"),
    NEAR("cliprange|clip-range", "--epsilon F bounds the ratios"),
    NEAR("num-ppo-epochs|ppo-epochs", "--num-iterations N steps on the same completions"),
    NEAR("ppo*|vf-coef|value-*|cliprange-value|lam|total-episodes|kl-estimator|gae*",
         "PPO is not implemented: the nearest is --task grpo, which needs no value model"),
    NEAR("async-prefetch|replay-*|reroll-*|use-data-producer|prefetch-depth|steps-before-weight*|"
         "skip-zero-adv*|streaming-partial*|streaming-min*",
         "a step learns its own completions: see --num-generations and --num-iterations"),
    ONLY_NEAR(LEARNS, "top-p|top-k|min-p|repetition-penalty",
              "completions are drawn from the model's own distribution: see --temperature"),
    NEAR("ref-adapter-name|model-adapter-name|ref-checkpointer",
         "the reference is the model without adapters: see --ref-model"),
    NEAR("lmbda|seq-kd|kd-loss*", "see --distill-alpha and --distill-temperature"),
    NEAR("max-shard-size|safe-serialization|save-function|save-peft-format|state-dict",
         "safetensors is the one format: leave it out"),
    ONLY(EXPORTS, "save-directory", "to"),
    ONLY_NEAR(EXPORTS, "token-embedding-type|output-tensor-type", "the nearest is --save-quant"),
    ONLY_NEAR(COMMAND_EMBED | LEARNS, "truncate-dim|dim",
              "cut the vectors afterwards: they have the model's width"),
    ONLY_NEAR(COMMAND_EMBED, "convert-to-*|output-value|show-progress-bar",
              "--output FILE.npy or FILE.jsonl decides the form"),
    ONLY_NEAR(COMMAND_EMBED | LEARNS, "query-prompt|corpus-prompt|query-instruction|prefix",
              "--prompt-name NAME takes a prompt of config_sentence_transformers.json"),
    ONLY_NEAR(COMMAND_EMBED, "prompt|instruction",
              "--prompt-name NAME takes a prompt of config_sentence_transformers.json"),

    /* More of llama.cpp. Its finetune has short names of several letters. */
    ONLY(LEARNS, "-f|file", "data"),
    ONLY(LEARNS, "-c|max-model-len", "max-seq-length"),
    ONLY(LEARNS, "-lr-min", "min-lr"),
    ONLY(LEARNS, "-wd", "weight-decay"),
    ONLY(LEARNS, "-epochs", "num-train-epochs"),
    ONLY(LEARNS, "-val-split", "validation-split"),
    ONLY_VALUES(LEARNS, "-opt", "optim", OPTIMIZERS),
    ONLY_NEAR(LEARNS, "-decay-epochs", "see --lr-scheduler-type and --lr-scheduler-kwargs"),
    ONLY_NEAR(LEARNS, "-fa", "there is one attention, in tiles: leave it out"),
    ONLY_NEAR(GENERATES, "-j|json-schema-file|-jf|logit-bias|-l|backend-sampling|-bs",
              "not implemented: texts are not constrained"),
    ONLY_NEAR(GENERATES, "sampler-seq|top-nsigma|adaptive-*",
              "not implemented: see --top-k, --top-p and --min-p"),
    ONLY_NEAR(GENERATES, "-no-cnv|-st|skip-chat*",
              "--chat answers a line of standard input at a time"),
    ONLY_NEAR(GENERATES, "-e", "escapes are the shell's: leave it out"),
    ONLY_NEAR(GENERATES, "-co|-mli|in-prefix-bos|display-prompt|echo",
              "see --no-stream, --output-ids and --json for what is printed"),
    ONLY_NEAR(GENERATES, "system-prompt-file|-sysf", "--system \"$(cat FILE)\""),
    ONLY_NEAR(GENERATES, "binary-file|-bf", "--prompt \"$(cat FILE)\""),
    ONLY_NEAR(GENERATES, "context-shift|no-context-shift|swa-full",
              "--context N is of the whole conversation: leave it out"),
    ONLY_VALUES(RUNS, "-dev", "device",
                "none=host|cpu=host|cuda0=cuda:0|cuda1=cuda:1|cuda2=cuda:2|cuda3=cuda:3|*"),
    ONLY_NEAR(GENERATES, "list-devices", "`bedplate devices`"),
    ONLY_NEAR(GENERATES,
              "-mg|-sm|-ts|-ot|override-tensor|cpu-moe|n-cpu-moe|-cmoe|-ncmoe|op-offload",
              "--device names one GPU, which has the whole model"),
    ONLY_NEAR(GENERATES,
              "-ctk|-ctv|-nkvo|kv-offload|defrag-thold|direct-io|load-mode|-lm|repack|"
              "no-repack|no-host|fit|fit-*|-fit",
              "memory is planned: leave it out"),
    ONLY(GENERATES, "-c|ctx-size|n-ctx|max-model-len", "context"),
    ONLY(GENERATES, "start", "prompt"), /* nanoGPT */
    ONLY_NEAR(GENERATES,
              "host|port|api-key*|-a|alias|webui|no-webui|path-prefix|-cb|cont-batching|"
              "served-model-name|server",
              "there is no server: --prompt TEXT answers once, --chat each line of standard input"),
    ONLY_NEAR(GENERATES, "embedding|embeddings|pooling", "`bedplate embed` writes vectors"),
    ONLY_NEAR(GENERATES, "enforce-eager", "nothing is compiled: leave it out"),
    ONLY_NEAR(GENERATES, "parallel|-np|best-of", "--num-return-sequences N draws several texts"),
    ONLY_NEAR(GENERATES, "-tb|-C|-Cr|cpu-range|cpu-strict|poll", "--threads N"),
    ONLY_NEAR(GENERATES, "control-vector*", "not implemented: --adapter takes adapters"),
    ONLY_NEAR(GENERATES, "perf|no-perf|-lv|verbosity|log-colors|log-verbose|log-timestamps",
              "see --no-stream, --output-ids and --json for what is printed"),

    /* LLaMA-Factory, ms-swift, OpenRLHF. */
    ONLY_VALUES(LEARNS | COMMAND_EVAL, "stage|rlhf-type", "task",
                "pt=causal-lm|rm=!--task regression learns a score of a text|"
                "ppo=!not implemented: the nearest is --task grpo|" TASKS),
    NEAR("fine-tune-type|train-type|tuner-type",
         "--lora-r R trains adapters; without it all weights are trained"),
    NEAR("template|agent-template", "the model's own template is used; --chat-template sets it"),
    NEAR("pref-ftx", "not implemented: the nearest is --task orpo"),
    NEAR("plot-loss", "`bedplate report DIR` draws the curves"),
    SAME("val-size|split-dataset-ratio", "validation-split"),
    NEAR("create-new-adapter", "adapters are new without --adapter: leave it out"),
    NEAR("upcast-layernorm", "norms run in fp32: leave it out"),
    ONLY_VALUES(LEARNS | COMMAND_EVAL, "mask-history", "loss-on",
                "true=completion|false=assistant"),
    ONLY(LEARNS, "neat-packing", "packing"),
    NEAR("mix-strategy|interleave-probs", "--data-weights F,F,.. sets the share of each file"),
    NEAR("use-badam|badam*|use-galore|galore*|use-apollo|apollo-*|use-muon|use-adam-mini",
         "--optim names the update rule, such as apollo, muon or adam_mini"),
    NEAR("use-unsloth*|use-llama-pro|shift-attn", "not implemented: leave it out"),
    NEAR("pissa*", "adapters begin as in PEFT's default, lora_B at 0"),
    NEAR("freeze-trainable-*|freeze-vit|freeze-vision*|freeze-llm|freeze-aligner|"
         "freeze-extra-modules|freeze-language*|freeze-multi-modal*",
         PICKS),
    NEAR("image-max-pixels|image-min-pixels|max-pixels|min-pixels",
         "the model's preprocessor_config.json sets the size of images"),
    NEAR("infer-backend", "`bedplate generate` generates"),
    ONLY_NEAR(LEARNS, "export-dir", "`bedplate export --to DIR` writes a model"),
    NEAR("tokenized-path|lazy-tokenize",
         "`bedplate tokenize` writes a token file that --data reads"),
    SAME("compute-accuracy", "token-accuracy"),
    NEAR("split-special-tokens|special-tokens*", "the tokenizer's files name them: leave it out"),
    VALUES("disable-gradient-checkpointing", "gradient-checkpointing", "true=none|false=full"),
    NEAR("target-regex", "--target-modules takes a regular expression"),
    VALUES("quant-bits", "load-in-4bit", "4=--load-in-4bit|8=--load-in-8bit"),
    ONLY_NEAR(RUNS, "quant-method|quantization-method",
              "--load-in-4bit or --load-in-8bit quantises a frozen base"),
    NEAR("use-hf|model-author", DOWNLOAD),
    NEAR("attn-impl*", "there is one attention, in tiles: leave it out"),
    SAME("micro-train-batch-size", "per-device-train-batch-size"),
    NEAR("input-key|output-key|prompt-key|chosen-key|rejected-key",
         "columns are found by their usual names: see --text-column and --label-column"),
    ONLY_NEAR(LEARNS, "apply-chat-template|system",
              "rows with messages go through the model's template: see --chat-template"),
    NEAR("adam-offload|optimizer-offload|offload-optimizer*",
         "--offload file:PATH:BYTES --offload-what states"),
    NEAR("zpg", "see --shard (optimizer, gradients, parameters are ZeRO 1, 2, 3)"),
    NEAR("critic-*",
         "PPO is not implemented: the nearest is --task grpo, which needs no value model"),
    NEAR("rollout-batch-size", "--num-generations N are drawn of each prompt of a batch"),

    /* Megatron, fairseq, timm, Lightning, LitGPT, nanoGPT, mlx-lm, Keras, accelerate. */
    SAME("train-iters|max-update|max-updates", "max-steps"),
    NEAR("total-num-update", "schedules end with the run: --max-steps"),
    VALUES("recompute-granularity", "gradient-checkpointing",
           "full=full|selective=!--gradient-checkpointing selective:NAMES"),
    NEAR("recompute-*", "--gradient-checkpointing full, sqrt, every:K or selective:NAMES"),
    NEAR("use-distributed-optimizer", "--shard optimizer divides the states among the ranks"),
    SAME("smoothing", "label-smoothing-factor"),
    NEAR("aa|auto-augment|color-jitter|reprob|remode|recount|hflip|vflip|mixup-*|cutmix-*",
         AUGMENTS),
    NEAR("drop-path*", "not implemented: the nearest is --dropout F"),
    NEAR("model-ema*",
         "averages of weights are not implemented: the nearest is schedule_free_adamw"),
    NEAR("input-size", "the model's config.json and preprocessor_config.json set it"),
    VALUES("sched", "lr-scheduler-type", SCHEDULES),
    NEAR("cooldown-epochs", "see --lr-scheduler-type and --lr-scheduler-kwargs"),
    NEAR("pretrained", "--model DIR has its weights, a preset has random ones: leave it out"),
    NEAR("pin-mem*", "no process loads data: leave it out"),
    NEAR("layer-decay", "--param-override 'GLOB: lr=F' sets a rate for some parameters"),
    NEAR("clip-mode", "--max-grad-norm clips by the norm: leave it out"),
    ONLY_VALUES(RUNS, "accelerator", "device",
                "cpu=host|gpu=cuda|cuda=cuda|auto=auto|mps=!Metal is not supported: host or cuda|"
                "tpu=!TPUs are not supported: host or cuda"),
    NEAR("strategy", "one rank for each GPU: mpirun or torchrun, see --fabric and --shard"),
    NEAR("limit-train-batches|limit-val-batches|limit-test-batches|fast-dev-run|overfit-batches",
         "--max-steps ends a run early; or shorten the file of --data"),
    NEAR("eval-iters|val-batches", "an evaluation reads all of --eval-data: shorten the file"),
    NEAR("n-layer|n-layers|n-head|n-heads|n-embd|d-model|num-attention-heads|"
         "ffn-hidden-size",
         CONFIG),
    NEAR("resume-adapter-file", "--adapter DIR trains adapters further"),
    NEAR("lora-query|lora-key|lora-value|lora-projection|lora-mlp|lora-head",
         "--target-modules names layers, such as q_proj,v_proj"),
    NEAR("callbacks", "--eval-steps, --save-steps and --early-stopping-patience take their place"),
    NEAR("steps-per-epoch", "an epoch is all rows: see --max-steps"),
    NEAR("evaluator", "the task decides the metrics: leave it out"),
    NEAR("nvme-path|offload-dir", "--offload file:PATH:BYTES"),
    NEAR("main-process-*|rdzv-*", LAUNCHED),
    ONLY_NEAR(LEARNS, "gradient-checkpointing-kwargs*",
              "leave it out: there is one way to recompute"),
    NEAR("roundrobin-packing", "--packing-strategy bfd or wrapped"),

    /* Habit. */
    ONLY(SHAPES, "bs|bsz|-bs", "per-device-train-batch-size"),
    ONLY(VECTORS, "bs|bsz|-bs", "per-device-eval-batch-size"),
    ONLY(LEARNS, "-e", "num-train-epochs"),
    ONLY_VALUES(LEARNS, "tb", "report-to", "true=tensorboard|false=none"),
    NEAR("tag", "the output directory names a run: --output-dir"),
    NEAR("train-size", "--validation-split F holds out a share of the data"),
    ONLY_NEAR(LEARNS, "test", "`bedplate eval` evaluates a model"),
    ONLY(VECTORS, "test|-f", "data"),
    ONLY(LEARNS, "-d", "data"),
    ONLY_NEAR(LEARNS, "-y|yes", "nothing is asked: leave it out"),
    ONLY_NEAR(COMMAND_PLAN, "estimate*", "a plan is exact: leave it out"),
    ONLY_NEAR(GENERATES, "length", "--max-new-tokens N"),
    ONLY_NEAR(GENERATES, "user", "--prompt TEXT"),
    NEAR("adapter-scale|lora-scale", "--lora-alpha sets the scale of adapters"),
    ONLY(GENERATES, "penalty", "repetition-penalty"),
    NEAR("eos", "the tokenizer's files name it: leave it out"),
    ONLY_NEAR(VECTORS, "confusion-matrix|predict", "--predictions FILE writes each row"),
    ONLY_NEAR(VECTORS, "ppl|perplexity|ppl-stride", "`bedplate eval` prints the perplexity"),
    ONLY_NEAR(VECTORS, "model-args", "--model DIR"),
    ONLY_NEAR(COMMAND_EMBED, "embd-normalize", "--normalize makes vectors of length 1"),
    ONLY_NEAR(COMMAND_EMBED, "format", "--output FILE.npy or FILE.jsonl decides the form"),
    ONLY(EXPORTS, "out", "to"),
    ONLY_NEAR(EXPORTS, "gguf", "--to NAME.gguf writes GGUF"),
    ONLY_NEAR(EXPORTS, "fp16|bf16|fp32", "--dtype fp16, bf16 or fp32"),
    ONLY_NEAR(EXPORTS, "bigendian|split-*", "a GGUF file is whole and little-endian: leave it out"),
    ONLY(COMMAND_IMPORT, "output|out|output-dir|outfile", "to"),
    ONLY(COMMAND_IMPORT, "input|gguf|-i", "from"),
    ONLY_NEAR(COMMAND_EMBED, "-p", "--data FILE, or --data - for standard input"),
    ONLY_NEAR(COMMAND_EMBED, "embd-output-format|embd-separator",
              "--output FILE.npy or FILE.jsonl decides the form"),
    ONLY_NEAR(COMMAND_BENCH, "-p|-n|-pg|-ngl|-r|-t|-b|-ub",
              "`bench step` measures a training step; --max-seq-length and --repeat set it"),
    ONLY_NEAR(EXPORTS, "vocab-only", "a model is written with its tokenizer: leave it out"),
    ONLY(EXPORTS, "export-dir|save-path|mlx-path|-d", "to"),
    ONLY_NEAR(EXPORTS, "export-quantization-bit|export-quantization-dataset|bits|ftype|q4-k-m|q8-0",
              "--save-quant TYPE packs the matrices of a GGUF file; --load-in-4bit keeps a base in "
              "4 bits"),
    ONLY_NEAR(EXPORTS, "export-size|max-shard-size", "one file is written: leave it out"),
    ONLY_NEAR(EXPORTS, "de-quantize|dequantize", "--dtype fp32, bf16 or fp16 writes floats"),
    NEAR("ignore-pad-token-for-loss", "padding is never trained: leave it out"),
    NEAR("mlm", "--task masked-lm"),
    NEAR("gamma-beta-ratio", "--simpo-gamma F is this ratio times --beta"),
    NEAR("enable-liger*", "the nearest is --loss-chunk-rows: logits exist in chunks"),
    ONLY_VALUES(LEARNS, "train-on-prompt", "loss-on", "true=all|false=assistant"),
    NEAR("max-memory-mb", "--arena BYTES, as in --arena 8GB"),
    SAME("source-max-len", "max-source-length"),
    NEAR("kl-target|kl-horizon|adaptive-kl-ctrl", "--beta F is the weight of the divergence"),
    SAME("total-epochs", "num-train-epochs"),
    NEAR("full|full-finetune", "without --lora-r all weights are trained: leave it out"),
    ONLY_NEAR(LEARNS, "eval|evaluate|validate", "--eval-data FILE, or --validation-split F"),
    SAME("stop-after", "stop-at-step"),
    ONLY(RUNS, "weights", "model"),
    NEAR("arch|architecture", "the model's config.json names its type"),
    NEAR("library-name|framework", "there is one library: leave it out"),
    NEAR("tp|tp-size|tensor-parallel-degree", "the nearest is --shard parameters"),
    ONLY(COMMAND_PLAN, "dp|dp-size", "ranks"),
    NEAR("init-method-std|initializer-range", CONFIG),
    ONLY_NEAR(VECTORS, "chunks|all-logits|num-samples",
              "all rows of --data are read; --predictions FILE writes each"),
    NEAR("kv-cache-dtype|kv-bits", "the cache has the type of activations: --bf16 or --fp16"),
};

enum { ROWS = sizeof table / sizeof table[0], ROWS_MAX = 1920, NAMES_BYTES = 40960 };

/* The table with a row for each name, which is made once. */
static struct {
    synonym row[ROWS_MAX];
    uint32_t count;
    char names[NAMES_BYTES];
} flat;

static void synonym_flatten(void)
{
    size_t used = 0;
    for (uint32_t i = 0; i < ROWS; i++) {
        for (const char *at = table[i].other; *at != '\0'; at += *at == '|' ? 1 : 0) {
            const size_t length = strcspn(at, "|");
            assert(flat.count < ROWS_MAX && used + length < sizeof flat.names);
            synonym *row = &flat.row[flat.count++];
            *row = table[i];
            row->other = memcpy(flat.names + used, at, length); /* the byte behind it is 0 */
            used += length + 1;
            at += length;
        }
    }
}

const synonym *synonym_at(uint32_t index)
{
    if (flat.count == 0) {
        synonym_flatten();
    }
    return index < flat.count ? &flat.row[index] : NULL;
}
