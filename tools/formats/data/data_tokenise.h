/* SPDX-License-Identifier: MIT */
/* Documents to a token file, once: the file is kept and used again as long as it fits.
 *
 * Its key is a digest of everything that decides its content: the bytes of the data files, their
 * format, the tokenizer's files, the id that ends a document, what labels are wanted. A file with
 * another key, or a damaged one, is made anew.
 *
 * What is written:
 *   text, JSON lines with `text`     one stream. Each document is encoded with what the tokenizer's
 *       post-processor adds; the end token follows it, unless it ends so already. After the last of
 *       several text files, and after a single one, there is none: there the text goes on.
 *   prompt and completion            an example each: the beginning token if the tokenizer adds
 *       one, the prompt, the completion, the end token. Both are encoded by themselves. The
 *       prompt's tokens are no targets. Where the one is made of the other both are encoded with
 *       what the post-processor adds, and end with the end token; the completion begins with the
 *       decoder's start token.
 *   label and text                   an example each, encoded with what the post-processor adds;
 *       what it adds behind the text is the example's tail. Of a pair both texts, each encoded by
 *       itself, with what the post-processor puts around and between them.
 *   rows of texts                    each text an example, encoded with what the post-processor
 *       adds, and its tail; the first of a row has the row's score, the bits of a float, as label.
 * A document without a token is left out and counted. Without a tokenizer the id is the byte, and a
 * document that holds the end token's byte is refused. */
#ifndef BP_FORMATS_DATA_TOKENISE_H
#define BP_FORMATS_DATA_TOKENISE_H

#include "tools/formats/data/data_documents.h"
#include "tools/formats/data/data_tokens.h"
#include "tools/formats/text/tokenizer.h"
#include "core/base/digest.h"
#include "tools/formats/files/data_reader.h"

#define BP_TOKENISE_SCRATCH 524288 /* bytes */

#define BP_TOKENISE_NOTHING UINT32_MAX /* of bp_tokenise.begins: no token */

/* All but the last five are the caller's to set. Must not move during the call. */
typedef struct bp_tokenise {
    bp_data *data;       /* the open files */
    const char *path;    /* the token file; its directory is there */
    bp_encoder *encoder; /* NULL: id = byte */
    uint32_t vocabulary; /* ids are below it: the tokenizer's, or 256 */
    int64_t end_token;   /* -1: none */
    bp_labels labels;    /* what rows are labelled with (BP_LABELS_CLASS, _BITS), or not at all */
    uint32_t classes;    /* BP_LABELS_CLASS */
    const bp_class_names *names; /* of the classes, or NULL */
    bp_data_reading reading;
    bool sources;         /* of prompt and completion each is a text of its own, with what the
                             post-processor adds and its end token; the completion begins with
                             `begins` and is what learns, of the prompt */
    uint32_t begins;      /* a decoder's start token */
    bool hears;           /* prompts are paths of files with speech, from the data file's directory
                             on: an example has the path's bytes as the tokens of its source */
    const uint32_t *lead; /* tokens behind `begins` of each text, which learn as it does */
    uint32_t lead_count;
    uint64_t longest; /* most tokens of a text that is made of a source, with `begins`; 0: any */
    /* Whether a file of speech can be read; NULL: nobody asks. */
    bp_status (*hear)(void *ear, const char *path);
    void *ear;
    const char *prompt; /* BP_LABELS_TEXTS: before each text; NULL: nothing */
    bool may_lack;      /* rows may have no labels, all of them or none */
    void *scratch;      /* BP_TOKENISE_SCRATCH, aligned to 8 */
    /* Told now and then how far it is; NULL: nobody is. */
    void (*watch)(void *user, uint64_t bytes, uint64_t of);
    void *user;
    bp_error *error;
    uint64_t bytes;     /* of all files */
    uint64_t documents; /* that are in the token file; 0 where it was there already */
    uint64_t empty;     /* that had no token */
    uint64_t cut;       /* words longer than the encoder holds (bp_encoder.cut) */
    bool built;         /* false: the file was there */
} bp_tokenise;

/* Opens the token file of the data, which it makes if it has to. BP_ERR_DATA as
 * bp_documents_read says, and: no document has a token; BP_ERR_STORE. After an error nothing is
 * left open, and an earlier file is as it was. Cost: reads the data once for the key, and once
 * (JSON lines: two to three times) more to encode. */
bp_status bp_tokenise_open(bp_tokenise *work, bp_tokens *tokens) BP_MUST_CHECK;

/* What the tokenizer's post-processor puts around a text: its beginning token or not, and how many
 * tokens behind it. */
void bp_tokenise_template(bp_encoder *encoder, bool *begins, uint32_t *tail);

/* What a file that was made from data remembers of it: a digest of everything that decides its
 * content.
 */
void bp_data_key_number(bp_digest *key, uint64_t value);

/* Begins reading a file, adds its size and all its bytes to the key, and its line feeds to *lines;
 * of a JSON array also its braces, for so many elements it may have on one line. */
bp_status bp_data_key_file(bp_data_reader *reader, bp_digest *key, uint64_t *lines) BP_MUST_CHECK;

#endif
