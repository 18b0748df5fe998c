/* SPDX-License-Identifier: MIT */
/* What a user asked for: the options of every verb with their values. */
#ifndef BP_BEDPLATE_SETTINGS_H
#define BP_BEDPLATE_SETTINGS_H

#include "arena/base.h"

#define SETTINGS_PATHS_MAX   1024
#define SETTINGS_OPTIONS_MAX 192

typedef struct path_list {
    uint32_t count;
    const char *item[SETTINGS_PATHS_MAX];
} path_list;

/* Bits of option.verbs, and which verb runs. */
typedef enum verb_bit {
    VERB_PLAN = 1,
    VERB_TRAIN = 2,
    VERB_EVAL = 4,
    VERB_GENERATE = 8,
    VERB_VERIFY = 16,
    VERB_BENCH = 32,
    VERB_DEVICES = 64,
    VERB_ARENA = 128,
    VERB_EXPORT = 256,
    VERB_IMPORT = 512,
    VERB_TOKENIZE = 1024,
    VERB_COMPLETION = 2048,
    VERB_INIT = 4096
} verb_bit;

/* Filled by options_parse. Strings belong to the command line or to the configuration file's text.
 * Texts that were not given are NULL, counts that were not given have the table's default. */
typedef struct settings {
    /* model and data */
    const char *model;
    path_list data;
    path_list eval_data;
    double validation_split;
    const char *data_format;
    const char *tokenizer;
    const char *output_dir;
    const char *output;      /* tokenize: the token file */
    const char *predictions; /* eval: a file of JSON lines */
    const char *task;        /* TASK_WORDS */
    uint64_t num_labels;     /* 0: as the model says */
    double dropout;          /* below 0: as the model says */
    bool text_pairs;         /* plan: rows are pairs of texts */
    bool label_all_tokens;   /* of words: every piece of one has its label */
    uint64_t doc_stride;     /* of questions, as the rest: tokens that two windows have in common */
    uint64_t n_best_size;
    uint64_t max_answer_length; /* tokens */
    double null_threshold;
    bool version_2; /* there may be no answer */
    bool allow_missing;
    bool allow_unexpected;
    bool ignore_mismatched;
    const char *save_dtype;

    /* shapes */
    uint64_t batch;
    uint64_t eval_batch;
    uint64_t accumulation;
    uint64_t sequence;          /* 0: the model's longest, at most 1024 */
    const char *length_buckets; /* LENGTHS_WORDS */
    uint64_t loss_rows;
    uint64_t time_chunk; /* 0: chosen */
    const char *checkpointing;
    bool calibrate;
    bool fp32;
    bool tf32;
    bool bf16;
    bool fp16;
    const char *master;
    const char *gradient_dtype;
    const char *gradient_release;
    const char *loss_scale;
    uint64_t lora_r; /* 0: no adapters */
    double lora_alpha;
    double lora_dropout;
    bool use_rslora;
    const char *target_modules;
    const char *adapter; /* directory */
    bool merge;
    bool load_in_4bit;
    bool load_in_8bit;
    const char *double_quant; /* "true" or "false" */
    double initial_scale;
    uint64_t scale_window;
    uint64_t scale_hysteresis;
    double scale_floor;
    path_list freeze; /* patterns over parameter names */
    path_list trainable;
    path_list overrides; /* "GLOB: key=value,.." */

    /* length and schedule */
    int64_t max_steps;
    double epochs;
    double learning_rate;
    const char *scheduler;
    const char *rate_numbers; /* the schedule's own */
    double warmup;            /* below 1: a share of all steps */
    double warmup_ratio;
    double minimum_rate;
    const char *optimizer;
    const char *optim_args;
    uint64_t percentile; /* 0: none */
    double weight_decay;
    bool decay_all;
    double beta1;
    double beta2;
    double epsilon;
    double max_grad_norm;
    double label_smoothing;
    const char *class_weights; /* "F,F,.." or "balanced" */
    uint64_t seed;
    int64_t data_seed; /* -1: seed */

    /* running */
    uint64_t arena; /* bytes; 0: what the plan needs */
    const char *device;
    uint64_t threads; /* 0: every processor */
    const char *kernels;
    bool poison;
    bool resume;
    const char *resume_from;   /* a snapshot, or a directory of some; settings_settle */
    const char *continue_from; /* the same, for a new run */
    uint64_t stop_at_step;     /* 0: not */
    const char *eval_strategy;
    uint64_t eval_steps;
    uint64_t logging_steps;
    bool logging_first;
    const char *save_strategy;
    uint64_t save_steps;
    uint64_t save_total_limit; /* 0: all */
    bool load_best;
    const char *metric;
    const char *greater; /* true|auto|false, from there on */
    uint64_t patience;   /* evaluations; 0: never stop early */
    double threshold;

    /* generation */
    const char *prompt;
    const char *prompt_ids;
    uint64_t max_new_tokens;
    double temperature;
    uint64_t top_k;
    double top_p;
    double min_p;
    double repetition_penalty;
    uint64_t sequences;
    path_list stops;
    bool no_stream;
    bool output_ids;
    bool ignore_eos;

    /* reports */
    bool json;
    bool quiet;
    bool listing;
    bool map;
    const char *html;
    bool frontier;
    bool max_batch;

    /* bench */
    uint64_t m;
    uint64_t n;
    uint64_t k;
    uint64_t repeat;
    uint64_t elements;

    uint64_t capacity; /* arena; bytes, 0: the least */

    /* import and export */
    const char *from;
    const char *to;
    const char *format;
    const char *dtype;

    /* the command itself */
    bool help;
    bool print_options;
    const char *config;
    path_list words; /* arguments that are no options */
    verb_bit verb;
    double began;                     /* when the program did, on clock_seconds() */
    bool given[SETTINGS_OPTIONS_MAX]; /* by option_index: said by the user, not a default */
} settings;

#endif
