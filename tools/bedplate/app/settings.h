/* SPDX-License-Identifier: MIT */
/* What a user asked for: the options of every command with their values. */
#ifndef BP_BEDPLATE_SETTINGS_H
#define BP_BEDPLATE_SETTINGS_H

#include "arena/base.h"

#define SETTINGS_PATHS_MAX   1024
#define SETTINGS_OPTIONS_MAX 320

/* A count that a search chooses. */
#define OPTION_AUTO UINT64_MAX

typedef struct path_list {
    uint32_t count;
    const char *item[SETTINGS_PATHS_MAX];
} path_list;

/* Bits of option.commands, and which command runs. */
typedef enum command_bit {
    COMMAND_PLAN = 1,
    COMMAND_TRAIN = 2,
    COMMAND_EVAL = 4,
    COMMAND_GENERATE = 8,
    COMMAND_VERIFY = 16,
    COMMAND_BENCH = 32,
    COMMAND_DEVICES = 64,
    COMMAND_ARENA = 128,
    COMMAND_EXPORT = 256,
    COMMAND_IMPORT = 512,
    COMMAND_TOKENIZE = 1024,
    COMMAND_COMPLETION = 2048,
    COMMAND_INIT = 4096,
    COMMAND_REPLAY = 8192,
    COMMAND_SELFTEST = 16384,
    COMMAND_WATCH = 65536,
    COMMAND_REPORT = 131072,
    COMMAND_EMBED = 262144,
    COMMAND_DISTILL = 524288,
    COMMAND_ROLLOUT = 1048576
} command_bit;

/* Rows that the data hold: texts that are joined to one stream, or samples that are padded. */
typedef enum settings_rows {
    SETTINGS_ROWS_UNSEEN,
    SETTINGS_ROWS_JOINED,
    SETTINGS_ROWS_PADDED
} settings_rows;

/* Filled by options_parse. Strings belong to the command line or to the configuration file's text.
 * Texts that were not given are NULL, counts that were not given have the table's default. */
typedef struct settings {
    /* model and data */
    const char *model;
    path_list data;
    path_list eval_data;
    double validation_split;
    const char *data_format;
    uint64_t unpack_limit;   /* bytes that a packed file, or a pipe, may have */
    const char *text_column; /* names of columns; NULL: the usual ones */
    const char *label_column;
    bool no_header;
    const char *label_form;    /* auto|multi-hot|classes */
    const char *chat_template; /* NULL: the model's own */
    const char *loss_on;
    const char *chat_date;
    const char *system_message;
    bool talks; /* --chat */
    uint64_t context;
    const char *tokenizer;
    const char *output_dir;
    const char *output;      /* tokenize: the token file */
    const char *predictions; /* eval: a file of JSON lines */
    const char *task;        /* TASK_WORDS */
    uint64_t num_labels;     /* 0: as the model says */
    const char *pooling;     /* of vectors: POOLING_WORDS */
    const char *normalize;   /* auto|true|false */
    const char *prompt_name; /* before texts of which vectors are made; NULL: the usual one */
    double similarity;       /* what their cosines are multiplied by in the loss */
    uint64_t negatives;      /* plan: of each row of texts */
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
    uint64_t virtual_ranks;
    uint64_t sequence_ranks;
    uint64_t virtual_sequence_ranks;
    uint64_t sequence;          /* 0: the model's longest, at most 1024 */
    uint64_t source;            /* 0: as long, where the model makes a text of another */
    const char *length_buckets; /* BUCKETS_WORDS */
    uint64_t loss_rows;
    uint64_t sequence_chunk; /* OPTION_AUTO: what --arena needs */
    uint64_t time_chunk;     /* 0: chosen */
    const char *checkpointing;
    bool calibrate;
    bool fp32;
    bool tf32;
    bool bf16;
    bool fp16;
    const char *master;
    const char *gradient_dtype;
    const char *tape_dtype;
    const char *weight_dtype;
    const char *product_dtype;
    uint64_t product_from;
    const char *gradient_release;
    const char *loss_scale;
    uint64_t lora_r; /* 0: no adapters */
    double lora_alpha;
    double lora_dropout;
    bool use_rslora;
    bool use_dora;
    const char *lora_bias; /* none|all|lora_only */
    const char *target_modules;
    const char *exclude_modules;
    const char *layers_to_transform;
    const char *trainable_token_indices;
    const char *layers_pattern;
    const char *rank_pattern;
    const char *alpha_pattern;
    double loraplus_lr_ratio; /* of B's learning rate to A's */
    const char *adapter;      /* directory */
    const char *adapters;     /* file of several; NULL: the run is one */
    bool merge;
    const char *save_quant; /* a word of --save-quant */
    const char *card;       /* a file */
    bool load_in_4bit;
    bool load_in_8bit;
    bool dequantize;
    const char *double_quant; /* "true" or "false" */
    const char *quant_type;   /* "nf4" or "fp4" */
    uint64_t quant_block;
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
    bool token_accuracy;
    const char *predicts; /* begins with t or f: evaluations of speech write it down */
    double neftune;
    uint64_t random_crop;
    double random_resized_crop; /* 0: none */
    double random_flip;
    bool packing;
    const char *packing_strategy;
    const char *long_rows; /* "cut" or "refuse" */
    const char *loss_type; /* of pairs of rows, as the rest */
    double beta;
    double pair_smoothing;
    double simpo_gamma;
    double cpo_alpha;
    double desirable;
    double undesirable;
    const char *ref_model; /* NULL: the model as it begins */
    const char *distill;   /* what a teacher says of the data; NULL: there is none */
    double distill_alpha;
    double distill_temperature;
    uint64_t distill_top_k;
    double policy_epsilon; /* 0: the loss type's, as the next */
    double policy_epsilon_high;
    double policy_delta;       /* 0: none */
    const char *scale_rewards; /* group|batch|none */
    bool mask_truncated;
    double policy_top_entropy; /* 1: every token counts */
    uint64_t num_iterations;
    path_list rewards;          /* "NAME[:ARGS]" */
    const char *reward_weights; /* "F,F,.."; NULL: 1 each */
    const char *reward_model;   /* a directory; NULL: none */
    const char *reward_command; /* for a shell; NULL: none */
    double reward_timeout;      /* seconds */
    const char *reward_on_failure;
    uint64_t reward_check;     /* 0: never */
    uint64_t reward_memory;    /* bytes; 0: no limit */
    double reward_cpu;         /* seconds; 0: no limit */
    const char *reward_log;    /* a file; NULL: stderr */
    const char *data_weights;  /* "F,F,.." */
    const char *class_weights; /* "F,F,.." or "balanced" */
    uint64_t seed;
    int64_t data_seed; /* -1: seed */
    bool group_by_length;

    /* running */
    uint64_t arena;      /* bytes; 0: what the plan needs */
    const char *offload; /* NULL: no second tier */
    const char *offload_what;
    bool offload_buffered;
    bool offload_two;           /* versions of what is trained there */
    uint64_t offload_endurance; /* bytes; 0: not said */
    const char *device;
    uint64_t threads; /* 0: every processor */
    const char *kernels;
    const char *alignment;
    const char *shard; /* SHARD_WORDS */
    uint64_t shard_ahead;
    uint64_t bucket_mb;
    const char *fabric;
    const char *mpi;                    /* "auto", or a library's file */
    uint64_t silence_limit, step_limit; /* seconds that a rank may be silent, and late */
    uint64_t fabric_seed; /* threads:N: ranks are held up, messages cut and permuted; 0: not */
    bool fabric_check;
    const char *fabric_secret; /* file; NULL: none */
    const struct ranks *ranks; /* of this rank; NULL: there is one (ranks.h) */
    bool poison;
    const char *resume_word; /* true|auto|false, from there on */
    bool resume;             /* settings_resolve: true or auto */
    bool resume_auto;
    bool newest;               /* verify --newest */
    bool overwrite;            /* --overwrite-output-dir */
    const char *resume_from;   /* a checkpoint, or a directory of some; settings_resolve */
    const char *continue_from; /* the same, for a new run */
    uint64_t stop_at_step;     /* 0: not */
    const char *eval_strategy;
    double eval_steps; /* below 1: a share of all steps, as the two others */
    double logging_steps;
    bool logging_first;
    const char *save_strategy;
    double save_steps;
    uint64_t save_total_limit; /* 0: all */
    bool load_best;
    const char *metric;
    const char *greater; /* true|auto|false, from there on */
    uint64_t patience;   /* evaluations; 0: never stop early */
    double threshold;
    const char *on_spike;
    double spike_threshold;
    uint64_t spike_budget;
    uint64_t replay_every; /* 0: never */
    bool verify_products;
    bool keep_best;

    /* a run that is left alone */
    double selftest_every; /* seconds; 0: only at the start */
    double time_limit;     /* seconds since the program began; 0: none */
    const char *stop_when;
    const char *on_usr1;        /* save|stop */
    double storage_patience;    /* seconds */
    const char *on_data_change; /* error|warn|ignore */
    const char *metrics;        /* file */
    const char *report_to;      /* none|tensorboard */
    const char *logging_dir;    /* of TensorBoard's files; NULL: runs in output_dir */
    const char *unit;           /* UNIT_WORDS; NULL: none is asked for */
    bool once;

    /* generation */
    const char *prompt;
    const char *prompt_ids;
    const char *audio;      /* a file of speech; NULL: none */
    const char *language;   /* of speech: a name or a code; NULL: none is named */
    const char *task_token; /* TASK_TOKEN_WORDS */
    const char *normalizer; /* of words whose errors are counted: none|basic */
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

    /* rollouts */
    uint64_t num_generations;
    uint64_t max_completion_length;
    const char *slots; /* a number, or auto */
    bool best_of_n;
    double reward_threshold;

    /* reports */
    bool json;
    bool yes;
    bool quiet;
    bool listing;
    bool map;
    const char *html;
    const char *emit_c;        /* plan: NULL: no trainer is made of it */
    const char *emit_as;       /* plain, or the package that it becomes */
    bool byte_images;          /* the trainer reads images in bytes; */
    bool predict;              /* it answers, */
    uint64_t generate_context; /* and generates texts of so many tokens; 0: none */
    bool frontier;
    bool max_batch;
    uint64_t sparse_update;    /* plan: bytes of an arena whose trained tensors are chosen; 0: no */
    const char *contributions; /* of tensors; NULL: an order of their own */
    bool sparse_rows;          /* tensors that do not fit are trained in part */
    uint64_t ranks_asked;      /* plan: 0: one */
    uint64_t ranks_per_host;
    const char *bandwidth;
    const char *latency;

    /* bench */
    uint64_t m;
    uint64_t n;
    uint64_t k;
    uint64_t repeat;
    uint64_t elements;

    /* replay */
    bool replay_all;
    uint64_t replay_sample; /* segments; 0: all */
    bool ask_rewards;       /* replay: of the command and the model that the record names */
    bool replay_compare;
    uint64_t replay_documents; /* a step; 0: none */

    uint64_t capacity; /* arena; bytes, 0: the least */

    /* import and export */
    const char *from;
    const char *to;
    const char *format;
    const char *dtype;

    /* the command itself */
    const char *help; /* NULL: not asked for; "true", "all", or a word to look for */
    bool print_options;
    const char *config;
    path_list words; /* arguments that are no options */
    command_bit command;
    char task_from[256];              /* where the task was found, in words; empty: it was not */
    uint32_t task_classes;            /* and how many classes it has there; 0: not counted */
    settings_rows rows;               /* what the data were seen to hold */
    bool row_pairs;                   /* of them, pairs of texts with a label */
    double began;                     /* when the program did, on clock_seconds() */
    bool given[SETTINGS_OPTIONS_MAX]; /* by option_index: said by the user, not a default */
} settings;

#endif
