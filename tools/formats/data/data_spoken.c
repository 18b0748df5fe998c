/* SPDX-License-Identifier: MIT */
/* Tables of files of speech and their texts: `file_name` and `text`, or other names that are usual
 * for the two (data_json.c), in the first row; other columns are passed over. */
#include "tools/formats/data/data_documents.h"
#include "tools/formats/files/data_table.h"

#include <string.h>

enum { SPOKEN_NAME = 24, SPOKEN_COLUMNS = 256 };

typedef struct spoken {
    bp_documents *documents;
    bp_table table;
    uint32_t column[2]; /* of the file and of its text; BP_NO_COLUMN: not found yet */
    uint32_t columns;
} spoken;

/* Takes a column's name. */
static bp_status spoken_name(spoken *t, const char *name, size_t length)
{
    for (uint32_t i = 0; i < 2; i++) {
        if (!bp_documents_spoken(i == 0, t->documents->reading.text_column, name, length)) {
            continue;
        }
        if (t->column[i] != BP_NO_COLUMN) {
            return bp_data_refuse(t->table.reader,
                                  i == 0 ? "two columns may be that of the files of speech"
                                         : "two columns may be that of their texts");
        }
        t->column[i] = t->columns;
    }
    return BP_OK;
}

static bp_status spoken_names(spoken *t)
{
    bp_table_event what = BP_TABLE_PIECE;
    char name[SPOKEN_NAME];
    size_t length = 0;
    t->column[0] = t->column[1] = BP_NO_COLUMN;
    t->columns = 0;
    while (what != BP_TABLE_ROW && what != BP_TABLE_END) {
        BP_TRY(bp_table_next(&t->table, &what));
        if (what == BP_TABLE_PIECE) {
            const size_t room = sizeof name - length;
            const size_t fits = t->table.count < room ? t->table.count : room;
            memcpy(name + length, t->table.piece, fits);
            length += fits;
        } else if (what != BP_TABLE_END) {
            BP_TRY(spoken_name(t, name, length));
            length = 0;
            t->columns++;
        }
    }
    return t->column[0] != BP_NO_COLUMN && t->column[1] != BP_NO_COLUMN
               ? BP_OK
               : bp_data_refuse(t->table.reader,
                                "the first row names no column of files (file_name, audio, image, "
                                "path) or none of texts (text, caption, transcription, "
                                "transcript, sentence)");
}

/* Goes through a row and hands over one column of it. */
static bp_status spoken_column(spoken *t, uint32_t column, bp_document_part part)
{
    bp_documents *documents = t->documents;
    bp_table_event what = BP_TABLE_PIECE;
    uint32_t at = 0;
    while (what != BP_TABLE_ROW && what != BP_TABLE_END) {
        BP_TRY(bp_table_next(&t->table, &what));
        if (what == BP_TABLE_PIECE && at == column) {
            BP_TRY(documents->piece(documents->user, part, t->table.piece, t->table.count));
        }
        at += what == BP_TABLE_FIELD || what == BP_TABLE_ROW ? 1 : 0;
    }
    return at == t->columns
               ? BP_OK
               : bp_data_refuse_numbers(t->table.reader,
                                        "the row has another number of fields than the first", at,
                                        t->columns);
}

/* The file first, wherever it stands: the row is read twice. */
static bp_status spoken_row(spoken *t)
{
    bp_documents *documents = t->documents;
    const bp_table row = t->table;
    BP_TRY(documents->begin(documents->user, t->table.reader));
    BP_TRY(spoken_column(t, t->column[0], BP_PART_PROMPT));
    t->table = row;
    BP_TRY(spoken_column(t, t->column[1], BP_PART_COMPLETION));
    return documents->end(documents->user, 0);
}

bp_status bp_documents_spoken_table(bp_documents *documents, bp_data_reader *reader, char delimiter)
{
    spoken t = {.documents = documents,
                .table = {.reader = reader, .delimiter = delimiter, .quotes = delimiter == ','}};
    if (documents->form != BP_FORM_OPEN && documents->form != BP_FORM_PROMPT) {
        return bp_data_refuse(reader, "the files before this one hold other rows");
    }
    documents->form = BP_FORM_PROMPT;
    BP_TRY(bp_table_begin(&t.table));
    BP_TRY(bp_table_skip_blank(&t.table));
    BP_TRY(spoken_names(&t));
    BP_TRY(bp_table_skip_blank(&t.table));
    while (!bp_table_ended(&t.table)) {
        BP_TRY(spoken_row(&t));
        if (documents->first_only) {
            return BP_OK;
        }
        BP_TRY(bp_table_skip_blank(&t.table));
    }
    return BP_OK;
}
