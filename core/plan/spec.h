/* SPDX-License-Identifier: MIT */
/* What the caller wants: model, shapes, optimizer, schedule, device. A plain struct; the plan is a
 * function of it and of nothing else. */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_CORE_SPEC_H
#define BP_CORE_SPEC_H

#include "arena/base.h"
#include "core/plan/config.h"
#include "core/base/error.h"
#include "core/base/dtype.h"
#include "core/ops/storage_format.h"
#include "core/ir/device_options.h"

typedef struct bp_model bp_model;
typedef struct bp_optimizer bp_optimizer;

/* Numbers of the update rule and of clipping; an optimizer ignores what it has no use for. */
typedef struct bp_optimizer_options {
    double learning_rate; /* where bp_spec.rate is NULL; with a schedule that of bp_rate_options is
                             used, and this one is what a rule's is compared with. A 0 in the one
                             that is used is refused, unless the other is 0 as well */
    double beta1;
    double beta2;
    double epsilon;
    double weight_decay;
    bool decay_all;           /* decay norms and biases as well */
    double max_grad_norm;     /* 0: no clipping */
    uint32_t percentile;      /* percentile clipping, 1 to 99; 0: none */
    double momentum;          /* sgd, rmsprop, lars */
    double dampening;         /* sgd */
    bool nesterov;            /* sgd */
    double smoothing;         /* rmsprop's alpha */
    double trust_coefficient; /* lars */
    double beta3;             /* ademamix, and the rest: decay of the slow moment */
    double mix;               /* alpha: its weight */
    double mix_steps;         /* T_alpha: steps until it has it; 0: from the start */
    double beta3_steps;       /* T_beta3 */
    double clip_threshold;    /* adafactor: of the update's root mean square */
    double decay_rate;        /* adafactor: beta2 is 1 - step^-decay_rate */
    double scale_floor;       /* adafactor's eps2: least root mean square of weights, */
    bool scale_parameter;     /* which the rate is in proportion to */
    bool match_rms;           /* muon: steps as large as adamw's, by 0.2 sqrt(larger side) */
    double rank;              /* apollo: of the projected gradient */
    double interval;          /* apollo: applied steps that a projection lasts */
    double projection_scale;  /* apollo: of the update */
} bp_optimizer_options;

/* What one module's adapter is; rank 0: it has none. */
typedef struct bp_lora_part {
    uint32_t rank;
    double alpha;
} bp_lora_part;

/* Which biases are trained beside adapters: as PEFT has it all whose name says so, or those of the
 * modules that have an adapter. */
typedef enum bp_lora_bias {
    BP_LORA_BIAS_NONE,
    BP_LORA_BIAS_ALL,
    BP_LORA_BIAS_ADAPTED,
    BP_LORA_BIASES
} bp_lora_bias;

/* Low-rank adapters (core/plan/adapter.h). */
typedef struct bp_lora bp_lora;
struct bp_lora {
    uint32_t rank; /* 0: none */
    double alpha;
    double dropout;       /* of what A reads */
    bool rank_stabilized; /* alpha / sqrt(rank) instead of alpha / rank */
    bp_lora_bias bias;
    bool magnitudes; /* DoRA: of each output the length of its weights is a parameter of its own */
    bool usual;      /* nobody named the targets: what can have no adapter is passed over */
    const char *const *targets; /* ends of modules' names, or "all-linear"; the caller's */
    uint32_t target_count;
    const uint32_t *tokens; /* whose rows of the token embedding are trained; the caller's */
    uint32_t token_count;
    /* NULL: what the targets name, with the rank and alpha above. Else asked in their place for
     * each dense layer of the blocks, by its module's name of `length` bytes. Which weights of
     * experts have adapters the targets say in any case: it is asked for the rank and alpha of each
     * by the weight's whole name. */
    bp_lora_part (*choose)(const bp_lora *lora, const char *module, size_t length);
    const void *context; /* choose's */
};

/* A loss over pairs of rows, of a model that guesses the next token: DPO, ORPO, SimPO, KTO.
 */
typedef struct bp_preference {
    bp_preference_kind kind;
    double beta;      /* above 0 */
    double smoothing; /* chance that a pair is the wrong way round: 0 to below 0.5 */
    double gamma;     /* SimPO: the margin of rewards that is wanted */
    double nll;       /* weight of the chosen rows' mean loss, prompts and all */
    double desirable; /* KTO: weights of rows */
    double undesirable;
} bp_preference;

/* Distillation of a model that guesses the next token, from what a teacher says of its `top_k`
 * likeliest tokens at each place. */
typedef struct bp_distill {
    uint32_t top_k;  /* 0: none */
    bool is_teacher; /* this model is the teacher: the eval program leaves top_logits' tokens, and
                     behind those of a sample their log-probabilities, to be read */
    double alpha;    /* of the teacher's part of the loss: 0 to 1 */
    double temperature; /* above 0 */
} bp_distill;

/* Loss scaling, as torch.amp.GradScaler does it. */
typedef enum bp_scaling_kind {
    BP_SCALING_OFF,
    BP_SCALING_STATIC,
    BP_SCALING_DYNAMIC
} bp_scaling_kind;

typedef struct bp_scaling {
    bp_scaling_kind kind;
    double initial;      /* the scale, or where it starts; 65536 is usual */
    double growth;       /* 2 */
    double backoff;      /* 0.5 */
    uint32_t interval;   /* applied steps in a row before the scale grows; 2000 */
    uint32_t hysteresis; /* skipped steps before it shrinks; 1 */
    double floor;        /* it never shrinks below this; 0 in GradScaler */
} bp_scaling;

/* Gradient release: each stage is updated inside backward, and no full gradient ever exists.
 *   EXACT          what the ordinary form computes. Several micro-batches go stage by stage, so
 *                  that a table which a masked language model's head shares (no sliced_tables in
 *                  core/plan/model.h) is added up in another order;
 *                  clipping and loss scaling run backward twice, the first time for the norm.
 *   PREVIOUS_NORM  the same with one backward: the clip factor is min(1, max_norm / (|g'| + 1e-6)),
 *                  g' the whole gradient of the applied step before. The first step has none and is
 *                  not clipped. |g'| is part of the state.
 *   ADAMA          AdamA (Zhang et al., arXiv 2305.19982): the gradient g_i of each micro-batch is
 *                  folded into the moments at once, so that one goes forward and backward after the
 *                  other: m becomes beta1 m + (1 - beta1) sum g_i, and v becomes
 *                  beta2 v + (1 - beta2) sum g_i^2, where Adam has (sum g_i)^2. With a single
 *                  micro-batch it is Adam.
 * Both approximations decide on each stage with what is known by then, so an overflow is found
 * after the stages above it have moved: they stop training there, as without loss scaling, and
 * cannot go with a dynamic scale. */
typedef enum bp_release {
    BP_RELEASE_NONE,
    BP_RELEASE_EXACT,
    BP_RELEASE_PREVIOUS_NORM,
    BP_RELEASE_ADAMA
} bp_release;

/* What a rule for parameters does; TRAIN wins over FREEZE. */
typedef enum bp_parameter_rule_kind {
    BP_RULE_FREEZE,
    BP_RULE_TRAIN,
    BP_RULE_OVERRIDE
} bp_parameter_rule_kind;

/* The form, one of GGUF's blocks (core/ops/blocks.h), in which a file holds a parameter. */
typedef struct bp_stored_weight {
    const char *name;
    bp_quantised form;
} bp_stored_weight;

/* A rule for the parameters whose name matches `glob` (* any run of characters, ? any one); what is
 * not set in it stays. The last rule that sets a thing wins. */
typedef struct bp_parameter_rule {
    const char *glob;
    bp_parameter_rule_kind kind;
    bool may_match_none; /* else a pattern without a parameter is refused */
    bool sets_rate, sets_decay, sets_bits;
    double learning_rate; /* replaces the peak: the schedule is scaled by it */
    double weight_decay;
    uint32_t optim_bits; /* 32, 8 or 4 */
    uint64_t
        row_first; /* of BP_RULE_TRAIN: the first row that is trained, and how many; a row is */
    uint64_t
        row_count; /* one of the first dimension: an output of a matrix or a convolution. 0: all */
} bp_parameter_rule;

/* A learning-rate schedule: a pure function of the attempted step. Implementations in optim/. */
typedef struct bp_rate_options {
    double learning_rate; /* the peak, used in the place of bp_optimizer_options.learning_rate */
    double minimum;       /* where decaying schedules end */
    uint64_t warmup_steps;
    uint64_t total_steps;
    uint64_t decay_steps; /* warmup-stable-decay: length of the last phase; 0 means a tenth */
    double cycles;    /* waves of a cosine, 0 means half of one; restarts, 0 means one descent */
    double power;     /* polynomial: of what is left of the way; 0 means 1 */
    double timescale; /* inverse_sqrt, in steps; 0 means the warm-up's, without one 10,000 */
} bp_rate_options;

typedef double (*bp_rate)(const bp_rate_options *options, uint64_t step);

/* Which intermediate results are kept between forward and backward (core/plan/schedule.h). */
typedef enum bp_policy_kind {
    BP_POLICY_NONE,        /* keep everything */
    BP_POLICY_FULL,        /* keep each stage's input */
    BP_POLICY_MEMORY_POOR, /* keep the model's input only */
    BP_POLICY_EVERY,       /* keep the input of every k-th stage */
    BP_POLICY_SQRT,      /* the same with k = ceil(sqrt(stages)) (Chen et al., arXiv 1604.06174) */
    BP_POLICY_LIST,      /* keep the inputs of the stages listed */
    BP_POLICY_SELECTIVE, /* keep everything but what `recompute` names */
    BP_POLICY_ACTIONS    /* a schedule given action by action (core/plan/search/fit.h makes them) */
} bp_policy_kind;

/* Cheap results inside a stage that its backward can compute again: the bits of `recompute`, and of
 * the numbers of tape variants (bp_model.variants). */
#define BP_RECOMPUTE_NORM       1u
#define BP_RECOMPUTE_ACTIVATION 2u /* gelu, swiglu */
#define BP_RECOMPUTE_ATTENTION  4u
#define BP_RECOMPUTE_ALL        7u

struct bp_action;

typedef struct bp_policy {
    bp_policy_kind kind;
    uint32_t every;       /* BP_POLICY_EVERY: k >= 1 */
    uint32_t recompute;   /* BP_POLICY_SELECTIVE: BP_RECOMPUTE_ bits */
    const uint32_t *list; /* BP_POLICY_LIST: stages; the caller's */
    uint32_t list_count;
    const struct bp_action *actions; /* BP_POLICY_ACTIONS; the caller's */
    uint32_t action_count;
} bp_policy;

/* How ranks share out the state: of what each has only its shards (core/plan/passes/shards.h).
 * Every form has those of the one before as well (ZeRO stages 0 to 3, Rajbhandari et al., arXiv
 * 1910.02054), and all give the same bits. */
typedef enum bp_sharing {
    BP_SHARING_NONE,
    BP_SHARING_OPTIMIZER,  /* masters and the optimizer's states */
    BP_SHARING_GRADIENTS,  /* the sums of gradients */
    BP_SHARING_PARAMETERS, /* the weights, frozen and quantised ones included */
    BP_SHARINGS
} bp_sharing;

/* What is offloaded, in storage (BP_SPACE_OFFLOAD) or, beside a GPU, in the host's memory
 * (BP_SPACE_HOST), and is brought when it is used. Shares are parts of BP_OFFLOAD_ALL of what may
 * live there, spread evenly over the order of publication, so that they are asked for evenly over a
 * step. They change no bit of a result. */
#define BP_OFFLOAD_ALL     64
#define BP_OFFLOAD_PARTS   16
#define BP_OFFLOAD_STREAMS (BP_OFFLOAD_ALL + 1)
typedef enum bp_offload_kind {
    BP_OFFLOAD_BASES,
    BP_OFFLOAD_STATES,
    BP_OFFLOAD_WEIGHTS,
    BP_OFFLOAD_GRADIENTS,
    BP_OFFLOAD_KINDS
} bp_offload_kind;

/* Of parameters with so many elements, `chosen` of `of` in a row, spread evenly. */
typedef struct bp_offload_part {
    uint64_t elements;
    uint32_t of;
    uint32_t chosen;
} bp_offload_part;

typedef struct bp_offload {
    uint32_t bases;     /* frozen weights of blocks, quantised or not, beside adapters: read only */
    uint32_t states;    /* masters and optimizer states: read and written once a step */
    uint32_t weights;   /* of blocks, that are trained, where their states live there too: read as
                           frozen ones are, and read and written once more by the update */
    uint32_t gradients; /* what is added up of them until the update, where states live there too:
                           read and written for each micro-batch, read twice by the update */
    uint32_t checkpoints; /* not 0: what a stage reads again in backward, once it was read in
                             forward; in a file, of programs of one length. BP_OFFLOAD_STREAMS: and
                             all else that has the rows of a micro-batch, but for one key-value head
                             of one layer (layers/blocks/block_streams.h) */
    uint32_t ahead; /* how much of what will be used is on its way, in sizes of the largest of them;
                       0: each is asked for when it is used */
    uint64_t room;  /* 0: what is brought stays no longer than it is used, matrices in slices where
                       this saves bytes. Otherwise whole, and from one use to the next too where all
                       that lives then has so many bytes (core/plan/passes/resident.h) */
    uint32_t part_count; /* 0: shares say all. Otherwise the share of part_kind is not 0 and means
                            these: none of what has another number of elements */
    bp_offload_kind part_kind;
    bp_offload_part part[BP_OFFLOAD_PARTS];
    bool host;  /* in the host arena; tables, whose rows are read one by one, then stay */
    bool fixed; /* nothing of the above: every frozen weight lies in the host arena, which ops read
                   in place and none writes, as the read-only memory of a board is. The host
                   device's only */
} bp_offload;

#define BP_OFFLOAD_AHEAD_MOST 16

#define BP_PRODUCTS_FROM 1600 /* below, operands take longer to become codes than is gained */

#define BP_VIRTUAL_RANKS_MAX  1024
#define BP_AHEAD_MOST         4
#define BP_LENGTH_BUCKETS_MAX 7 /* most length buckets beside the one for `sequence` */

/* An image's numbers lie in the arena as bytes, height, width and channels (at most 4) behind each
 * other. Of each an op makes ((float)(byte * factor) - mean) / std of its channel, in float. */
typedef struct bp_pixel_bytes {
    bool there; /* false: they are floats */
    double factor;
    double mean[4];
    double std[4]; /* not 0 */
} bp_pixel_bytes;

/* Each member states its unit, its range, and what 0 (NULL, false) means, which is the default.
 * bp_spec_check refuses what is outside. A spec of zeros with a model, a device, batch, sequence,
 * accumulation and device_options.threads evaluates nothing and trains nothing, but is sound. */
typedef struct bp_spec {
    /* The model. */

    /* The family; no range; NULL is refused. */
    const bp_model *model;
    /* Its sizes and its task; ranges, and what 0 means, are the family's (bp_model.check). */
    bp_model_config config;
    /* Adapters; rank 1 to 4096; rank 0: none. */
    bp_lora lora;
    /* Form of the blocks' dense layers, which are frozen then; 0, BP_QUANTISED_NONE: as they are.
     */
    bp_quantised quantised;
    /* Form of experts' matrices, GGUF's blocks as well, which are frozen then; 0: as they are. */
    bp_quantised experts;
    /* Frozen matrices that are kept as a file stores them, by parameters' names in strcmp's order:
     * of those named, dense layers of the blocks, and a language model's output head, that are not
     * trained; the caller's; NULL: none. */
    const bp_stored_weight *stored;
    /* How many are named; 0: none, as it is where `quantised` is set. */
    uint32_t stored_count;
    /* What parameters' names match, the last that says something wins; the caller's; NULL: none. */
    const bp_parameter_rule *rules;
    /* Rules; 0: every parameter is trained, but for the base of adapters. */
    uint32_t rule_count;
    /* Draws weights, order and dropout; all of 64 bits; 0 is a seed as any other. */
    uint64_t seed;

    /* The batch. */

    /* Sequences per micro-batch; 1 to 2^20; 0 is refused. */
    uint32_t batch;
    /* Tokens per sequence; 1 to config.positions; 0 is refused. */
    uint32_t sequence;
    /* Tokens of the text that a model with an encoder makes a sequence of; 1 to 2^20 for such a
     * model, of which `sequence` is the other text; 0: the model reads one text. */
    uint32_t source;
    /* Tokens of shorter sequences that have programs of their own, rising, below `sequence`
     * (core/plan/buckets.h); they change no bit of a result; 0 behind the last. */
    uint32_t lengths[BP_LENGTH_BUCKETS_MAX];
    /* How many of these; 0 to BP_LENGTH_BUCKETS_MAX; 0: all sequences are padded to `sequence`. */
    uint32_t length_count;
    /* Micro-batches per optimizer step; 1 to 2^20; 0 is refused. */
    uint32_t accumulation;
    /* Tokens per chunk of the loss; up to a micro-batch's; 0: bp_spec_loss_rows chooses. */
    uint32_t loss_rows;

    /* The loss. */

    /* Over pairs of rows, so that batches are even; kind 0: over tokens or samples. */
    bp_preference preference;
    /* From a teacher; top_k 0: none. */
    bp_distill distill;
    /* BP_TASK_EMBEDDING: samples of an example, one behind the other: an anchor, its positive,
     * negatives; a divisor of batch; 0 or 1: vectors alone, of which nothing is learned. */
    uint32_t texts;
    /* What cosines of vectors are multiplied by; 1e-6 to below 1e6; 0 is refused where texts are
     * compared. */
    double similarity;
    /* Share of a label that all classes get evenly; 0 to below 1; 0: none. */
    double smoothing;
    /* The model is a policy whose tokens are sampled at this temperature; 0 to 1e3; its losses are
     * over the logits that decode leaves, in fp32, divided by it; 0: it is none. */
    double policy_temperature;
    /* NEFTune: alpha over the root of a padded sequence's tokens; the embeddings of training get
     * uniform noise of at most this over the root of their width; 0 to below 1e9; 0: none. */
    double noise;
    /* Of samples or tokens: (classes), at least 0, the caller's: the loss is a mean weighted with
     * them; NULL: all 1. */
    const float *class_weights;
    /* The loss is the sum of the losses of tokens, each multiplied with a number of its own, of any
     * sign, that the feed's teacher gives; false: it is their mean. */
    bool row_weights;
    /* Rows may be pairs of texts: where the model has token types, those of the second text have
     * type 1; false: they are single texts. */
    bool pairs;
    /* Rows may hold several documents, which do not see each other; false: each holds one. */
    bool packed;

    /* Precision. */

    /* Element type of weights and activations; f32, bf16, f16; 0: f32. */
    bp_dtype working;
    /* How what backward reads is kept; 0, BP_TAPE_WORKING: in the working type. */
    bp_tape_storage tape;
    /* Element type of weight gradients; f32, bf16, or the working type; 0: f32. */
    bp_dtype gradient;
    /* A stage's gradients, of that type, are added up in 8 bits per element, with a scale for each
     * 32, which the update reads; false: in their type. */
    bool gradient_int8;
    /* What completes a 16-bit weight; 0, BP_MASTER_WEIGHT: nothing, as f32 asks for. */
    bp_master master;
    /* Storage of trained dense layers; FP8 goes with bf16, and SPLIT or SPLIT8 for the others; 0:
     * the working type. */
    bp_weight_storage weights;
    /* Operands of products of dense layers; 0: the working type. */
    bp_product_type products;
    /* Inputs and outputs that a layer with products in fp8 has at least; 0: BP_PRODUCTS_FROM. */
    uint32_t products_from;
    /* Loss scaling; f16 that trains needs it; kind 0: off. */
    bp_scaling scaling;

    /* The optimizer. */

    /* The update rule; NULL: no training programs, evaluation and generation only. */
    const bp_optimizer *optimizer;
    /* Its numbers; ranges, and what 0 means, are the rule's (bp_optimizer.check). */
    bp_optimizer_options optimizer_options;
    /* The schedule of the rate; NULL: optimizer_options.learning_rate throughout. */
    bp_rate rate;
    /* Its numbers; 0s where there is none. */
    bp_rate_options rate_options;

    /* Checkpointing. */

    /* Which activations stay until backward; kind 0: all of them. */
    bp_policy policy;
    /* Tokens of a micro-batch that all of a block but attention computes at a time
     * (layers/blocks/block_chunks.h), forward and, from their input again, backward; no bit of a
     * result changes on the host; 0, or at least a micro-batch's: all of them. */
    uint32_t sequence_chunk;
    /* Whether stages are updated inside backward; 0: full gradients, one update at the end. */
    bp_release gradient_release;

    /* Sharding. */

    /* Subtrees of a group's sum (core/plan/passes/virtual_ranks.h), which shape the result; a power
     * of two up to BP_VIRTUAL_RANKS_MAX that divides accumulation; 0: 1. */
    uint32_t virtual_ranks;
    /* Processes that train together; a divisor of the virtual ranks, which they share; of one
     * virtual rank each computes all, and only the state is shared; 0: 1. */
    uint32_t ranks;
    /* Which of them this is; below ranks; 0: the first. */
    uint32_t rank;
    /* Parts of a sample's tokens whose sums are leaves of that tree as well, which shape the result
     * (core/plan/passes/token_lanes.h); a power of two that divides sequence; 0: 1. */
    uint32_t token_lanes;
    /* Ranks that share the tokens of one sample; a divisor of token_lanes and of ranks, which are
     * as many of these for each virtual rank; 0: 1. */
    uint32_t sequence_ranks;
    /* What of the state each has a share of; 0: nothing. */
    bp_sharing sharing;
    /* Weights that are gathered ahead of their use, where they are shared out; 0 to BP_AHEAD_MOST;
     * 0: each is gathered when it is used. */
    uint32_t gather_ahead;
    /* Most bytes of a message of gradients, all ranks' pieces together; 0: BP_BUCKET_BYTES, and no
     * piece below BP_BUCKET_PIECE. */
    uint64_t bucket_bytes;

    /* What lives outside the arena; 0s: nothing. */
    bp_offload offload;

    /* The device and the plan. */

    /* What executes; NULL is refused by bp_plan_count. */
    const bp_device *device;
    /* core/ir/device_options.h has their ranges; threads of 0 are refused. */
    bp_device_options device_options;
    /* Steps of exact search when greedy layouts miss the bound; 0: none, and much less memory of
     * the plan. */
    uint64_t plan_nodes;
    /* Host only: fill buffers with signalling NaNs at birth and death; false: no. */
    bool poison;

    /* Evaluation and generation. */

    /* Have the eval program; false: no. */
    bool evaluate;
    /* Sequences per run of it; 0: batch. */
    uint32_t eval_batch;
    /* Images are bytes; there false: floats. Of convolutional nets that do not give images back. No
     * feed fills them: for trainers that are made from a plan (plan --emit-c). */
    bp_pixel_bytes pixels;
    /* It leaves its logits to be read (bp_runtime_evaluate_each); false: the loss alone. */
    bool keep_logits;
    /* Tokens that the decode programs can hold; up to config.positions; 0: there are none. */
    uint32_t generate_context;
    /* Prompt tokens per run of prefill; 0: 32. */
    uint32_t prefill_rows;
    /* Sequences that decode goes on with at once, from one prompt, each with caches of its own; up
     * to 4096; 0: 1. */
    uint32_t generate_sequences;
    /* Prompts that are held at once, of up to generate_prompt tokens each, so that sequences are of
     * several, each at a position of its own (bp_runtime_decode_slots); up to 4096; 0: they begin
     * alike, and go on together. */
    uint32_t generate_regions;
    /* Tokens of the longest of these prompts, below generate_context, the rest of which a sequence
     * has for itself; 0: without generate_regions. */
    uint32_t generate_prompt;
    /* Bytes of the arena that are the caller's between two runs of programs
     * (bp_runtime_between), which they overwrite; up to 2^62; 0: none. */
    uint64_t between_bytes;
    /* Runs of one frozen base share an arena: the base lies at its bottom, behind it what each run
     * keeps from step to step, one after the other, and above them what programs work in, which is
     * nobody's between steps. false: the arena is this run's. */
    bool shares_base;
    /* Bytes that other runs keep below what this one keeps, multiples of the alignment; up to 2^61;
     * 0: it is the first, or shares none. */
    uint64_t beside_below;
    /* The same above it; 0: it is the last, or shares none. */
    uint64_t beside_above;
} bp_spec;

/* Whether the norm over all gradients has to be known before the first update: there is clipping or
 * loss scaling, and no approximation that does without. */
bool bp_spec_needs_norm(const bp_spec *spec);

/* Virtual ranks, and the ranks that share them, at least 1. */
uint32_t bp_spec_virtual_ranks(const bp_spec *spec);

uint32_t bp_spec_ranks(const bp_spec *spec);

/* Whether one program holds all of a group's micro-batches that are this rank's: with gradient
 * release, and where there are several virtual ranks. */
bool bp_spec_whole_group(const bp_spec *spec);

/* Whether samples of one micro-batch are compared with those of others: all vectors of a group come
 * first, then their gradients, with which each micro-batch goes forward once more and back. */
bool bp_spec_keeps_vectors(const bp_spec *spec);

/* Sequences per run of the eval program. */
uint32_t bp_spec_eval_batch(const bp_spec *spec);

/* Sequences per run of decode, a token each. */
uint32_t bp_spec_decode_rows(const bp_spec *spec);

/* The chunk used when loss_rows is 0: a function of the shapes only. As few chunks as keep the
 * logits within 60 MB, or have 64 rows, and the rows shared out evenly. */
uint32_t bp_spec_loss_rows(const bp_spec *spec);

/* Checks every field against its range and the model's own rules; BP_ERR_USAGE with the field's
 * option name, what was found and what would be right. */
bp_status bp_spec_check(const bp_spec *spec, bp_error *error) BP_MUST_CHECK;

#endif
