/* SPDX-License-Identifier: MIT */
/* Sentences of tagged words (data_words.h) to a token file whose tokens have labels: the form
 * BP_FORM_TAGGED, where behind the ids of each example as many labels follow, each plus one, 0 for
 * none.
 *
 * As transformers' run_ner.py does it: each word is encoded by itself, between what the
 * post-processor puts around a text. The first piece of a word has its label, the others none; or,
 * with `all`, its label too, which there is that of I-X for B-X where the classes have an I-X. */
#ifndef BP_FORMATS_DATA_TAGS_H
#define BP_FORMATS_DATA_TAGS_H

#include "tools/formats/family/class_names.h"
#include "tools/formats/data/data_tokens.h"
#include "tools/formats/data/data_words.h"
#include "tools/formats/text/tokenizer.h"

#define BP_TAGS_PIECES BP_WORDS_TEXT /* tokens of a sentence at most */
#define BP_TAGS_IDS    4096          /* tokens of a word at most */
#define BP_TAGS_WINDOW 262144
#define BP_TAGS_SCRATCH                                                                            \
    (BP_WORDS_SCRATCH + BP_TAGS_WINDOW + 2 * BP_TOKENS_BUFFER +                                    \
     4 * (BP_TAGS_PIECES + (size_t)BP_TAGS_IDS))

/* All but the last four are the caller's to set. */
typedef struct bp_tags {
    bp_data *data;       /* the open files */
    const char *path;    /* the token file; its directory is there */
    bp_encoder *encoder; /* NULL: id = byte */
    uint32_t vocabulary; /* ids are below it */
    uint32_t classes;
    const bp_class_names *names; /* of the classes, or NULL: tags are numbers */
    bp_data_reading reading;
    bool all;      /* every piece of a word has a label */
    bool may_lack; /* words may have no tags: then each first piece has the label 0 */
    void *scratch; /* BP_TAGS_SCRATCH, aligned to 8 */
    bp_error *error;
    uint64_t bytes;     /* of all files */
    uint64_t sentences; /* 0 where the token file was there already */
    uint64_t empty;     /* that had no token */
    bool built;
} bp_tags;

/* Opens the token file of the data, which it makes if it has to. BP_ERR_DATA as bp_words_read says,
 * and: a tag is no class. After an error nothing is left open, and an earlier file is as it was.
 * Cost: reads the data once for the key, once to count, once to encode. */
bp_status bp_tags_open(bp_tags *work, bp_tokens *tokens) BP_MUST_CHECK;

/* The names of the tags that the data has, in the order of their bytes, as run_ner.py makes a list
 * of them; count 0 where all are numbers, and *classes is then the largest and one. Reads all
 * files. Of the record only data, scratch and error are used. BP_ERR_DATA: more names than
 * BP_CLASS_NAMES_MAX. */
bp_status bp_tags_names(const bp_tags *work, bp_class_names *names,
                        uint32_t *classes) BP_MUST_CHECK;

/* Which classes later pieces of words have: of the class of B-X that of I-X, if there is one. */
uint32_t bp_tags_inside(const bp_class_names *names, uint32_t class_number);

/* The tokens of a word alone. *count may be more than `room`: then the first of them were written.
 */
void bp_tags_word(bp_encoder *encoder, const char *text, size_t length, uint32_t *ids, size_t room,
                  size_t *count);

/* Hands the sentences of all files that have a token to words->sentence, in the order of the token
 * file's examples. Of the record data, encoder, scratch and error are used. */
bp_status bp_tags_read(const bp_tags *work, bp_words *words) BP_MUST_CHECK;

#endif
