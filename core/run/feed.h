/* SPDX-License-Identifier: MIT */
/* The feed: which tokens each step sees. Stateless: a batch is a function of (seed, step), so any
 * position can be reached at once and resuming needs no replay.
 *
 * A source of N tokens is cut into W = ceil((N - 1) / T) windows; window w gives inputs
 * t[wT .. wT+T-1] and labels t[wT+1 .. wT+T], the last one padded with label -1. An epoch visits
 * every window once in the order of bp_random_permute(seed, epoch, W, i); a group never crosses the
 * end of an epoch, so the last group of an epoch may be short and is stepped with its true divisor.
 *
 * A source of examples (a prompt with its completion, a labelled text) has rows of its own instead:
 * window w is example w, cut at its end (but for its tail, which stays: BERT's [SEP]) where it is
 * longer than a row and padded where it is shorter. Of a pair of texts that is longer than a row
 * the longer text is cut first.
 */
/* Installed as part of <bedplate/feed.h>. */
#ifndef BP_CORE_FEED_H
#define BP_CORE_FEED_H

#include "core/plan/column.h"
#include "core/base/error.h"
#include "core/ops/storage_format.h"

#define BP_NO_LABEL UINT64_MAX /* of an example that has none: it is judged, and no target */

/* One row of a source of examples. */
typedef struct bp_example {
    uint64_t first;  /* its first token */
    uint64_t count;  /* its tokens */
    uint64_t prompt; /* how many of them, from the first on, are no targets */
    uint64_t label;  /* what the row as a whole is labelled with */
    uint32_t tail;   /* how many tokens at its end stay when it is longer than a row and is cut */
    uint64_t second; /* of a pair of texts: where the second begins; 0: there is one text */
    uint32_t lead;   /* of a pair: tokens before the first text that stay, and between the two */
    uint32_t join;
    uint64_t shift; /* BP_LABELS_GIVEN: the label of token t is asked for as that of t + shift */
} bp_example;

/* What stays of two texts of *a and *b tokens where there is room for `most` in all: the longer one
 * gives way first, then both, as transformers' "longest_first" has it. */
void bp_feed_cut_pair(uint64_t most, uint64_t *a, uint64_t *b);

/* A sequence of token ids that can be read anywhere. */
typedef struct bp_source bp_source;
struct bp_source {
    void *context;
    const char *name; /* for messages: the file */
    uint64_t count;   /* tokens */
    /* Fills to[0..n-1] with tokens first .. first+n-1, all inside count. */
    bp_status (*read)(bp_source *source, uint64_t first, uint32_t n, int32_t *to);
    /* Optional (NULL: every token counts): sets counts[i] to 0 where token first + i is no target
     * (a prompt, padding), to 1 where it is; and 2 more where a document begins in a row of
     * several: that is no target. */
    bp_status (*targets)(bp_source *source, uint64_t first, uint32_t n, uint8_t *counts);
    /* BP_LABELS_GIVEN only: the labels of tokens first .. first + n - 1. */
    bp_status (*labels)(bp_source *source, uint64_t first, uint32_t n, int32_t *to);
    /* Sources of examples only: how many, and number `index` of them, whose tokens are all inside
     * count. examples = 0: one stream, cut into windows. */
    uint64_t examples;
    uint32_t together; /* of them so many stay one behind the other; 0: 1 */
    bp_status (*example)(bp_source *source, uint64_t index, bp_example *to);
};

/* What the labels of a row are. */
typedef enum bp_labels {
    BP_LABELS_NEXT_TOKEN, /* each token's successor */
    BP_LABELS_MASKED,     /* of tokens that are hidden here and now, see bp_masking */
    BP_LABELS_GIVEN,      /* each token's own, from the source; -1 where there is none. Below
                             feed->classes, or, where that is 0, below the vocabulary */
    BP_LABELS_CLASS,      /* of the row, at its first place: a class below feed->classes */
    BP_LABELS_BITS,       /* of the row, at its first place: 32 bits (a float, a mask), unchecked */
    BP_LABELS_SPAN, /* of the row: where an answer begins, and, as the ends, where it ends: the low
                       and the high 16 of the 32 lowest bits of the example's label */
    BP_LABELS_TEXTS /* none: rows are texts, of which vectors are made; the first of each
                       bp_source.together is a target */
} bp_labels;

#define BP_MASKING_SPECIAL 4

/* Which tokens a masked language model has to guess (Devlin et al., arXiv 1810.04805): each is
 * chosen with a probability, by a number that hangs on (seed, step, sample, place); of the chosen,
 * 8 of 10 become `token`, 1 of 10 any id, 1 stays as it is. */
typedef struct bp_masking {
    double probability;                  /* 0 to 1; 0.15 is usual */
    int32_t token;                       /* [MASK] */
    int32_t special[BP_MASKING_SPECIAL]; /* ids that are never chosen: [CLS], [SEP]; -1: none */
} bp_masking;

/* Samples of like lengths in a group, as transformers' group_by_length has it: the shuffled samples
 * of an epoch are cut into megabatches of BP_MEGABATCH_GROUPS groups (fewer, where the epoch has
 * not four times as many), and in each the longest come first, equal ones in their shuffled order.
 * What a step sees is still a function of (seed, step): the megabatch that is kept here only saves
 * sorting it anew. */
#define BP_MEGABATCH_GROUPS 50

typedef struct bp_megabatch_row {
    uint64_t window;
    uint32_t tokens;
    uint32_t place; /* in the shuffled order */
} bp_megabatch_row;

typedef struct bp_megabatch {
    bp_megabatch_row *rows; /* BP_MEGABATCH_GROUPS groups of them; the caller's */
    uint64_t number; /* of the megabatch that they hold, counted from the first epoch's first, + 1;
                        0: none */
} bp_megabatch;

typedef struct bp_feed bp_feed;

/* What training does to the inputs of a row at random (crops and flips of images): a function of
 * (seed, step, sample in the group). Writes as many inputs as there are; they lie apart. */
typedef struct bp_augment bp_augment;
struct bp_augment {
    void (*row)(const bp_augment *augment, uint64_t seed, uint64_t step, uint32_t sample,
                const int32_t *row, int32_t *to);
};

/* A window that was read. */
typedef struct bp_feed_tokens {
    uint64_t window;
    const int32_t *tokens;
    uint32_t inputs; /* tokens that the model reads; padding follows */
} bp_feed_tokens;

/* Fills a sample's part of a column (BP_INPUT_TOPS, then BP_INPUT_LOGPS; or BP_INPUT_WEIGHTS) with
 * what a teacher says of the inputs of a window, and zeros behind; there are none where a short
 * group has no window. The weight of a step whose tokens have weights of their own is 1.
 * When it cannot it has said why. */
typedef struct bp_teacher bp_teacher;
struct bp_teacher {
    bp_status (*row)(bp_teacher *teacher, const bp_column *column, const bp_feed_tokens *read,
                     int32_t *to);
};

/* Data sets with shares of each epoch. An epoch has as many rows as without: of data set i
 * part[i].each of them, its weight's share. Each set is gone through again and again, every row
 * once in each turn and each turn in an order of its own, from where the epoch before ended; which
 * row of an epoch is whose is shuffled. So what a step sees is a function of (seed, step). */
#define BP_MIXTURE_MOST 16

typedef struct bp_mixture_part {
    uint64_t end;     /* examples, or tokens of a stream, up to where it ends; the caller's */
    uint64_t first;   /* its first window */
    uint64_t windows; /* of it */
    uint64_t each;    /* rows that it has in an epoch */
} bp_mixture_part;

typedef struct bp_mixture {
    bp_mixture_part part[BP_MIXTURE_MOST];
    uint32_t count; /* the caller's */
} bp_mixture;

/* What a feed does where a row's text is made of another one (feed_texts.c); apart, so that who has
 * no such rows links none of it. */
typedef struct bp_feed_texts {
    /* An example becomes its second text, and *source the first. BP_ERR_DATA: it has but one. */
    bp_status (*split)(const struct bp_feed *feed, bp_example *row, bp_example *source);
    /* The source's column of so many ids. */
    bp_status (*fill)(const struct bp_feed *feed, const bp_example *source, uint32_t elements,
                      int32_t *to);
} bp_feed_texts;

extern const bp_feed_texts bp_feed_two_texts;

struct bp_feed {
    bp_source *source;
    bp_error *error;
    uint64_t seed;
    uint32_t sequence;          /* T */
    uint32_t batch;             /* sequences per micro-batch */
    uint32_t group;             /* sequences per step: batch * accumulation */
    uint32_t vocabulary;        /* ids must be below it; 0: they are any 32 bits (numbers) */
    bool shuffle;               /* false: windows in file order (evaluation) */
    bp_labels kind;             /* from BP_LABELS_GIVEN on they need a source of examples */
    bp_masking masking;         /* BP_LABELS_MASKED */
    uint32_t classes;           /* BP_LABELS_CLASS, BP_LABELS_GIVEN */
    const float *class_weights; /* the spec's; NULL: none */
    bool pairs;                 /* examples 2 i and 2 i + 1 stay together, in whole batches; the
                                   weight of a group is its pairs. Labels of examples: bits of the
                                   reference's log-probability, and 2^32 times their bp_side */
    bool prompts;               /* tokens of chosen rows' prompts are targets, too */
    /* NULL: shuffled, or as the data has them; or bp_feed_by_length, of a feed that is shuffled. */
    bp_status (*order)(const bp_feed *feed, uint64_t epoch, uint64_t position, uint64_t *window);
    bp_megabatch *megabatch;    /* bp_feed_by_length's */
    const bp_mixture *mixture;  /* bp_feed_mixed's */
    const bp_augment *augment;  /* NULL: the inputs are those of the data */
    bp_teacher *teacher;        /* NULL: no step of a spec that learns from one, and
                                   an evaluation's columns stay as they are */
    const bp_feed_texts *texts; /* of examples of two texts: &bp_feed_two_texts; else NULL */
    uint32_t source_tokens;     /* of an example's first text, which has columns of its own: at most
                                   so many, its last one among them; the row is the second text. 0:
                                   examples are rows as they are */
    int32_t padding;            /* the id behind the end of a row; no target, whatever it is */
    uint64_t windows;           /* set by bp_feed_init, as is what follows; */
    uint64_t steps_per_epoch;   /* 0: it was not called, or refused the feed */
};

/* One group staged on the host. Of each column micro-batch follows micro-batch, (micro-batches,
 * batch, elements); it has room for the whole group. */
typedef struct bp_group {
    bp_column column[BP_INPUTS_MAX]; /* the runtime's: as its model declares its inputs */
    uint32_t columns;
    uint32_t micros;   /* micro-batches that hold at least one window */
    uint32_t samples;  /* windows in the group */
    uint64_t valid;    /* targets: labels >= 0 in the first column of labels, of answers twice */
    double weight;     /* of all of them: as many, or the sum of their classes' weights */
    uint64_t tokens;   /* that the model reads and that are no padding */
    uint32_t *longest; /* (micro-batches): such tokens of each one's longest sample; NULL: nobody
                          asks */
} bp_group;

/* The group's first column of a kind; NULL where it has none. */
const bp_column *bp_group_column(const bp_group *group, bp_input_from from);

/* What a model that is trained for a task is labelled with. */
bp_labels bp_feed_labels(bp_task task);

/* Rows that an epoch over `source` has; 0 where a sequence has no token. */
uint64_t bp_feed_windows(const bp_source *source, uint32_t sequence);

/* Checks a feed and sets windows and steps_per_epoch; after a failure they are 0, and every
 * function below refuses the feed by BP_ERR_USAGE. BP_ERR_DATA when the source holds fewer than
 * batch * sequence + 1 tokens; one of examples may hold fewer than a batch. BP_ERR_USAGE: there is
 * no source; sequence, batch or group is 0, or the group is no whole batches; labels are wanted of
 * a source that has none; a probability is not from 0 to 1. Whether a feed fits a plan is what
 * bp_runtime_step and bp_runtime_evaluate check. */
bp_status bp_feed_init(bp_feed *feed, bp_error *error) BP_MUST_CHECK;

/* Tokens of window number `window` that the model reads, padding left out. BP_ERR_USAGE: there is
 * no such window. */
bp_status bp_feed_length(const bp_feed *feed, uint64_t window, uint32_t *tokens) BP_MUST_CHECK;

/* The window at a position of an epoch, in the feed's order; position < windows, else
 * BP_ERR_USAGE. */
bp_status bp_feed_window(const bp_feed *feed, uint64_t epoch, uint64_t position,
                         uint64_t *window) BP_MUST_CHECK;

/* Gives a feed that is initialised, of single rows, the order of a mixture; `weights`: one for each
 * data set, at least 0. BP_ERR_DATA: a set with a weight has no row. BP_ERR_USAGE: no weight is
 * above 0. */
bp_status bp_mixture_init(bp_mixture *mixture, bp_feed *feed, const double *weights) BP_MUST_CHECK;
bp_status bp_feed_mixed(const bp_feed *feed, uint64_t epoch, uint64_t position,
                        uint64_t *window) BP_MUST_CHECK;

/* The window at a position in the order of a megabatch. BP_ERR_USAGE: the feed has no megabatch, or
 * no such position. Cost: where another megabatch is kept, the lengths of its rows are read and
 * sorted.
 */
bp_status bp_feed_by_length(const bp_feed *feed, uint64_t epoch, uint64_t position,
                            uint64_t *window) BP_MUST_CHECK;
/* The window at a position in the order of the data or, where the feed is shuffled, shuffled;
 * UINT64_MAX where there is no such position. */
uint64_t bp_feed_shuffled(const bp_feed *feed, uint64_t epoch, uint64_t position);

/* Stages the group of a step (0-based) into the group's columns. Every id and class is checked:
 * BP_ERR_DATA naming the source, what was found and the vocabulary or the number of classes.
 * `scratch`: BP_FEED_SCRATCH(sequence) elements. */
bp_status bp_feed_stage(const bp_feed *feed, uint64_t step, bp_group *group,
                        int32_t *scratch) BP_MUST_CHECK;

/* Stages `count` windows, at most feed->group (else BP_ERR_USAGE), in the order given; masks are
 * those that they have in the first epoch of a feed that is not shuffled. Errors as above. */
bp_status bp_feed_stage_windows(const bp_feed *feed, const uint64_t *windows, uint32_t count,
                                bp_group *group, int32_t *scratch) BP_MUST_CHECK;

#endif
