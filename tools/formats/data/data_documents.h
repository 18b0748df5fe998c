/* SPDX-License-Identifier: MIT */
/* Documents in data files: plain text, JSON lines or an array, tables of labels and texts.
 *
 * A reader hands each document over piece by piece; memory does not depend on the length of a line
 * or of a document. A byte-order mark at a file's beginning is left out.
 *
 * text        the whole file is one document, whatever its bytes are.
 * JSON lines  one object a line: `text`; or `prompt` and `completion`, or, where one text is made
 * of the other, names that are usual for the two; or, where labels are wanted, a text and a label:
 * a number or a name, or a list of labels; and a second text where texts come in pairs. Other keys
 * and blank lines are passed over, CR LF is accepted. Refused, with file and line: what is not JSON
 * (invalid UTF-8 and control characters included), a line without these keys, or of another form
 * than those before it. A file whose first character is [ is one array of such objects, over as
 * many lines as it likes. TSV, CSV    one row a line, CSV with fields in quotes (RFC 4180). The
 * first row is a header if it has the name of a label; the text is then the column with the name of
 * one, or, of two columns, the other one; of pairs the second text stands behind the first. Without
 * a header there are two columns, one of which is a number or the name of a class in the first row:
 * that is the label. A first row that is neither is refused, unless the header is denied: the label
 * is then the first column, or the second if only that can be one. Blank lines are passed over, CR
 * LF is accepted. Refused, with file and line: another number of fields, NUL, invalid UTF-8, a
 * label that is none.
 *
 * data_columns.h has the names. A label that is a whole number may be written with a fraction, 2.0.
 *
 * Where any of the classes may hold, a label is a list of classes (in a table they are parted by
 * spaces), or multi-hot: as many 0 and 1 as there are classes. It is multi-hot where it has as many
 * members as there are classes, all 0 or 1, and cannot be a list of classes: one would stand there
 * twice or is none of the model's, or all have a fraction (1.0) or are true and false. What could
 * be both is refused, as is a file that has both, unless bp_data_reading says which it is.
 */
#ifndef BP_FORMATS_DATA_DOCUMENTS_H
#define BP_FORMATS_DATA_DOCUMENTS_H

#include "core/base/number.h"
#include "core/run/feed.h"
#include "tools/formats/family/class_names.h"
#include "tools/formats/data/data.h"
#include "tools/formats/data/data_columns.h"
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
    /* NULL, each: what it would take does not matter. */
    bp_status (*begin)(void *user, bp_data_reader *reader);
    bp_status (*piece)(void *user, bp_document_part part, const char *bytes, size_t count);
    bp_status (*end)(void *user, uint64_t label);
    bp_document_form form; /* BP_FORM_LABELLED where labels are wanted, BP_FORM_TEXTS where rows of
                              texts are, else BP_FORM_OPEN; becomes what the documents are */
    uint32_t texts;        /* of labelled ones: texts of each, 1 or 2; of a row of texts; 0: the
                              first one decides */
    bool hears;            /* sources are paths of files, of speech or images: `audio` and `text` */
    bool sources;          /* prompts are texts of which completions are made: data_json.c has names
                              of both that are usual for them */
    const char *prompt;    /* put before each text of a row; NULL: nothing */
    bool may_lack;    /* labelled ones may have no labels, all of them or none: then end's label
                         is BP_NO_LABEL */
    bool lacks;       /* they have none; decided by the first */
    bp_labels labels; /* of labelled ones: BP_LABELS_CLASS: one of the classes; BP_LABELS_BITS:
                         any of them, as a mask; and without classes, a float */
    uint32_t classes; /* 0 ... classes - 1; 32 at most where any of them may be */
    const bp_class_names *names; /* of the classes, or NULL */
    bp_label_survey *survey;     /* takes the labels instead, whatever they are; or NULL */
    bp_data_reading reading;
    bp_label_form found;    /* of lists of labels: what those so far are */
    bool first_only;        /* reading ends behind the first document of the file */
    bp_row_columns columns; /* which columns the last file has, or its last object */
} bp_documents;

/* Reads all documents of a file of this format. scratch: BP_DOCUMENTS_SCRATCH bytes aligned to 8.
 * BP_ERR_DATA, BP_ERR_STORE, or what the taker returned. Cost: JSON lines are read two to three
 * times, from the window as long as a line fits it. */
bp_status bp_documents_read(bp_documents *documents, bp_data_reader *reader, bp_data_format format,
                            void *scratch) BP_MUST_CHECK;

/* Takes it that each labelled document has one text, or two, and a label or not; BP_ERR_DATA when
 * those before it are otherwise. */
bp_status bp_documents_texts(bp_documents *documents, bp_data_reader *reader, uint32_t texts,
                             bool label) BP_MUST_CHECK;

/* The readers of single formats, for bp_documents_read. */
bp_status bp_documents_json(bp_documents *documents, bp_data_reader *reader,
                            void *scratch) BP_MUST_CHECK;
bp_status bp_documents_table(bp_documents *documents, bp_data_reader *reader, char delimiter,
                             void *scratch) BP_MUST_CHECK;

bp_status bp_documents_spoken_table(bp_documents *documents, bp_data_reader *reader,
                                    char delimiter) BP_MUST_CHECK;

/* Whether a column or key with this name is usual for files of speech or images, or, not `audio`,
 * for their texts; `said`: the name that those have; NULL: a usual one. */
bool bp_documents_spoken(bool audio, const char *said, const char *name, size_t length);

/* The value of a number that is whole, however it is written; false: it is not. */
bool bp_documents_whole(const bp_number *number, int64_t *value);

/* Whether a text may be a list and not one label: [..], or several numbers. */
bool bp_documents_listed(const char *text, size_t length);

/* The label of a text: a number or the name of a class, or, where any of the classes may be, a list
 * separated by spaces or in brackets, none for none. What is a number is never looked up as a name,
 * and what is only a list is none unless a class has it: of bp_documents_listed all but one word in
 * brackets that begins with a letter, as [INST]. */
bp_status bp_documents_label(bp_documents *documents, bp_data_reader *reader, const char *text,
                             size_t length, uint64_t *label) BP_MUST_CHECK;

/* A list of labels, member by member: what it is is known at its end. Begins as zeros. */
typedef struct bp_label_list {
    uint32_t count;
    uint32_t fractions; /* members that are 0 or 1 and have a fraction */
    uint64_t hot;       /* bit i: member i is 1 */
    uint64_t classes;   /* bit c: a member is class c */
    bool twice;         /* one class was there already */
    bool others;        /* a member is neither 0 nor 1 */
} bp_label_list;

bp_status bp_documents_list_take(bp_documents *documents, bp_data_reader *reader, const char *text,
                                 size_t length, bp_label_list *list) BP_MUST_CHECK;
bp_status bp_documents_list_end(bp_documents *documents, bp_data_reader *reader,
                                const bp_label_list *list, uint64_t *mask) BP_MUST_CHECK;

#endif
