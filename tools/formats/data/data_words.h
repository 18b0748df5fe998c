/* SPDX-License-Identifier: MIT */
/* Sentences whose words have tags (named entities, parts of speech), as they stand in files.
 *
 * JSON     objects (data_records.h) with a list of strings, `tokens` or `words`, and a list of as
 *          many numbers or names, `ner_tags`, `tags` or `labels`; in this order they are looked
 * for. columns  as CoNLL has them: a line is a word, its first field the word, its last the tag;
 * fields are parted by tabs, or else by spaces; a blank line ends a sentence, and a line that
 *          begins with -DOCSTART- is none. A single field is a word without a tag. A first line of
 *          names (`word` .. `tag`, `token` .. `ner_tag`) is a header, unless that is denied.
 *          Comments before a sentence are passed over. Of CoNLL-U, ten columns with a number first,
 *          the word is FORM and the tag UPOS; ranges (1-2) and empty nodes (1.1) are no words.
 *
 * A sentence is in memory as a whole. Refused, with file and line: one that is longer than
 * BP_WORDS_TEXT bytes or BP_WORDS_MAX words, lists of two lengths, tags for some sentences only. */
#ifndef BP_FORMATS_DATA_WORDS_H
#define BP_FORMATS_DATA_WORDS_H

#include "tools/formats/data/data.h"
#include "tools/formats/data/data_columns.h"
#include "tools/formats/files/data_records.h"

#define BP_WORDS_MAX     16384
#define BP_WORDS_TEXT    262144 /* of all words of a sentence, and of all its tags */
#define BP_WORDS_SCRATCH (BP_RECORDS_SCRATCH + 2 * (BP_WORDS_TEXT + 4 * (BP_WORDS_MAX + 2)))

/* Texts one behind the other: number i lies from at[i] to at[i + 1]. */
typedef struct bp_word_list {
    char *text;
    uint32_t *at;
    uint32_t count;
} bp_word_list;

typedef struct bp_sentence {
    bp_word_list words;
    bp_word_list tags; /* as many, or none */
} bp_sentence;

/* All but the last three are the caller's to set. */
typedef struct bp_words {
    void *user;
    /* Called for each sentence of at least one word; it is gone afterwards. */
    bp_status (*sentence)(void *user, bp_data_reader *reader, const bp_sentence *sentence);
    bp_data_reading reading; /* of JSON: which lists the words and tags are */
    bool may_lack;           /* sentences may have no tags, all of them or none */
    uint64_t sentences;
    uint64_t rows; /* of all files so far: sentences, and objects without a word */
    bool lacks;    /* they have none; decided by the first */
} bp_words;

/* Whether a line that may begin a sentence of columns is a comment: "# name=", "#name = ", or #
 * newdoc, newpar, and no tab. "# O" and "#=x O" are words. Of CoNLL-U each such line with # is one.
 */
bool bp_words_is_comment(const char *line, size_t length);

/* Whether a file that begins so is CoNLL-U, behind lines with # and no tab. */
bool bp_words_is_universal(const char *text, size_t length);

/* Reads all sentences of a file: JSON where the format is BP_DATA_JSONL, else columns. scratch:
 * BP_WORDS_SCRATCH bytes aligned to 8. Cost: reads the file once. */
bp_status bp_words_read(bp_words *words, bp_data_reader *reader, bp_data_format format,
                        void *scratch) BP_MUST_CHECK;

#endif
