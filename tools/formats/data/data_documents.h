/* SPDX-License-Identifier: MIT */
/* Documents in data files: plain text, JSON lines or an array, tables of labels and texts.
 *
 * A reader hands each document over piece by piece; memory does not depend on the length of a line
 * or of a document. A byte-order mark at a file's beginning is left out.
 *
 * text        the whole file is one document, whatever its bytes are.
 * JSON lines  one object a line: `text`; or `prompt` and `completion`; or, where labels are wanted,
 *             `text` and `label`: a number or a name, or a list of the classes that hold; and
 *             `text_pair` where texts come in pairs. Other keys and blank lines are passed over, CR
 *             LF is accepted. Refused, with file and line: what is not JSON (invalid UTF-8 and
 *             control characters included), a line without these keys, or of another form than
 *             those before it. A file whose first character is [ is one array of such objects,
 *             over as many lines as it likes.
 * TSV, CSV    one row a line, CSV with fields in quotes (RFC 4180). The first row names the columns
 *             if one of its fields is `label` (or `labels`): the text is then `text`, or, of two
 *             columns, the other one; of pairs the second text is `text_pair`, in a column behind
 *             the first text's. Without names the first of exactly two columns is the label, or the
 *             second if only that can be one in the first row. Blank lines are passed over, CR LF
 * is accepted. Refused, with file and line: another number of fields, NUL, invalid UTF-8, a label
 * that is none.
 *
 * Where labels are wanted, `text` may also be called `sentence1`, `premise` or `question1`, and
 * `text_pair` `sentence2`, `hypothesis` or `question2`, as the tasks of GLUE do; where none of
 * these is there a single text also `sentence` or `content`, and a pair `question` and `sentence`.
 */
#ifndef BP_FORMATS_DATA_DOCUMENTS_H
#define BP_FORMATS_DATA_DOCUMENTS_H

#include "core/run/feed.h"
#include "tools/formats/family/class_names.h"
#include "tools/formats/data/data.h"
#include "tools/formats/files/data_reader.h"
#include "tools/formats/data/label_survey.h"

/* Bytes that reading needs beside the reader's window. */
#define BP_DOCUMENTS_SCRATCH 65536

#define BP_DOCUMENTS_LABEL 64 /* most bytes of a table's label */

typedef enum bp_document_form {
    BP_FORM_OPEN, /* not known yet: the first document decides */
    BP_FORM_TEXT,
    BP_FORM_PROMPT, /* prompt and completion */
    BP_FORM_LABELLED,
    BP_FORM_NUMBERS, /* rows of numbers (data_numbers.h) */
    BP_FORM_TAGGED,  /* words with tags (data_tags.h) */
    BP_FORM_ANSWERS, /* questions about texts (data_answers.h) */
    BP_FORM_CHAT,    /* conversations (data_chat.h) */
    BP_FORM_TEXTS,   /* rows of texts, each of which is a document (data_texts.h) */
    BP_FORM_PAIRS,   /* rows of preferences, two examples each (data_chat.h) */
    BP_FORM_PACKED   /* rows of several documents (data_packed.h) */
} bp_document_form;

typedef enum bp_document_part {
    BP_PART_TEXT, /* or the text that has a label */
    BP_PART_PROMPT,
    BP_PART_COMPLETION,
    BP_PART_SECOND /* the second text of a pair, that has a label */
} bp_document_part;

/* Who takes the documents, and what they must be. */
typedef struct bp_documents {
    void *user;
    /* A document begins; pieces of its parts, in their order, in as many calls as it takes, none
     * for what is empty; it ends, with its label: a class, or the bits of a float. What fails may
     * be recorded with bp_data_refuse. */
    bp_status (*begin)(void *user, bp_data_reader *reader);
    bp_status (*piece)(void *user, bp_document_part part, const char *bytes, size_t count);
    bp_status (*end)(void *user, uint64_t label);
    bp_document_form form; /* BP_FORM_LABELLED where labels are wanted, BP_FORM_TEXTS where rows of
                              texts are, else BP_FORM_OPEN; becomes what the documents are */
    uint32_t texts;        /* of labelled ones: texts of each, 1 or 2; of a row of texts; 0: the
                              first one decides */
    const char *prompt;    /* put before each text of a row; NULL: nothing */
    bool may_lack;    /* labelled ones may have no labels, all of them or none: then end's label
                         is BP_NO_LABEL */
    bool lacks;       /* they have none; decided by the first */
    bp_labels labels; /* of labelled ones: BP_LABELS_CLASS: one of the classes; BP_LABELS_BITS:
                         any of them, as a mask; and without classes, a float */
    uint32_t classes; /* 0 ... classes - 1; 32 at most where any of them may be */
    const bp_class_names *names; /* of the classes, or NULL */
    bp_label_survey *survey;     /* takes the labels instead, whatever they are; or NULL */
} bp_documents;

/* Reads all documents of a file of this format. scratch: BP_DOCUMENTS_SCRATCH bytes aligned to 8.
 * BP_ERR_DATA, BP_ERR_STORE, or what the taker returned. Cost: JSON lines are read two to three
 * times, from the window as long as a line fits it. */
bp_status bp_documents_read(bp_documents *documents, bp_data_reader *reader, bp_data_format format,
                            void *scratch) BP_MUST_CHECK;

/* Names that the fields of labelled texts go by, the last of them NULL. */
extern const char *const bp_documents_first_names[];
extern const char *const bp_documents_second_names[];

/* Whether these bytes are one of a list of names. */
bool bp_documents_named(const char *const *list, const char *name, size_t length);

/* Takes it that each labelled document has one text, or two, and a label or not; BP_ERR_DATA when
 * those before it are otherwise. */
bp_status bp_documents_texts(bp_documents *documents, bp_data_reader *reader, uint32_t texts,
                             bool label) BP_MUST_CHECK;

/* The readers of single formats, for bp_documents_read. */
bp_status bp_documents_json(bp_documents *documents, bp_data_reader *reader,
                            void *scratch) BP_MUST_CHECK;
bp_status bp_documents_table(bp_documents *documents, bp_data_reader *reader, char delimiter,
                             void *scratch) BP_MUST_CHECK;

/* The label of a text: a number or the name of a class, or, where any of the classes may be, theirs
 * separated by spaces, none for none. What is a number is never looked up as a name. */
bp_status bp_documents_label(const bp_documents *documents, bp_data_reader *reader,
                             const char *text, size_t length, uint64_t *label) BP_MUST_CHECK;

/* Whether a text can be such a label. */
bool bp_documents_is_label(const bp_documents *documents, bp_data_reader *reader, const char *text,
                           size_t length);

/* Joins one class, by its number or name, to a mask of them. */
bp_status bp_documents_class(const bp_documents *documents, bp_data_reader *reader,
                             const char *text, size_t length, uint64_t *mask) BP_MUST_CHECK;

#endif
