/* SPDX-License-Identifier: MIT */
/* Walking a record line by line: the chain is computed again, each line is read by the grammar, and
 * must follow from those before it as docs/record.md says. */
#ifndef BP_BEDPLATE_RECORD_READ_H
#define BP_BEDPLATE_RECORD_READ_H

#include <stdio.h>

#include "core/base/error.h"
#include "core/base/sha256.h"
#include "tools/bedplate/record/record_grammar.h"

/* A state that lines told of. */
typedef struct record_told {
    uint64_t step;
    uint64_t digest;
} record_told;

typedef struct record_walk {
    FILE *file;
    const char *path;
    char *line; /* without its newline, its members by today's names; grows */
    size_t room;
    size_t length;
    size_t covered;  /* bytes of it that the chain is about */
    uint64_t number; /* of the line, from 1 on */
    uint64_t offset; /* behind it */
    bool torn;       /* the file ends with a line that was cut off */
    record_kind kind;
    uint64_t step;      /* the value of its first key */
    uint64_t last;      /* step of the last step line so far */
    bool any;           /* there was one */
    uint64_t format;    /* of the first line */
    uint64_t from;      /* steps before the first */
    record_names names; /* of the lines that may follow */
    uint32_t seen;      /* kinds of line, a bit each, since that step line */
    bool rolls;         /* its outcome asks for a way back */
    record_told *told;  /* states, that before the first step included */
    size_t told_count;
    size_t told_room;
    uint64_t verified;                    /* the last step that a state line says is; 0: none */
    unsigned char chain[BP_SHA256_BYTES]; /* after it */
} record_walk;

/* Opens a record. Uses the heap: not for the steps of a run. */
bp_status record_walk_begin(record_walk *walk, const char *path, bp_error *error) BP_MUST_CHECK;

/* The next line; *more is false at the end, where a last line that was cut off counts for nothing
 * (a run that was killed leaves one), but behind the last line of a run that has ended.
 * BP_ERR_DATA, with file, member and line: another chain, no line of the grammar, one that does not
 * follow. BP_ERR_STORE: it cannot be read. */
bp_status record_walk_next(record_walk *walk, bool *more, bp_error *error) BP_MUST_CHECK;

/* Reads on to the end of any file of lines: whether one of them begins with `head`, whatever its
 * chain says. */
bp_status record_tells(record_walk *walk, const char *head, bool *any,
                       bp_error *error) BP_MUST_CHECK;
void record_walk_end(record_walk *walk);

/* Bytes of the line that say what was computed: all that the chain is about, but for how far steps
 * were verified, which --replay-every decides. */
size_t record_computed(const record_walk *walk);

/* The value of a key of the line's outermost object: its text without quotes (escapes as they are),
 * copied to `to`. False where there is none, or it does not fit. */
bool record_value(const char *line, size_t length, const char *key, char *to, size_t room);
/* The same of a count, and of 16 hexadecimal digits. */
bool record_count(const char *line, size_t length, const char *key, uint64_t *value);
bool record_hex(const char *line, size_t length, const char *key, uint64_t *value);

/* A file that a line names. */
typedef struct record_file {
    char name[256];
    uint64_t bytes;
    char sha256[BP_SHA256_TEXT]; /* "": not known */
} record_file;

/* Calls each(user, file) for every item of a list of files; stops at the first status that is not
 * BP_OK and returns it. */
typedef bp_status (*record_file_seen)(void *user, const record_file *file);
bp_status record_files_each(const char *line, size_t length, const char *list,
                            record_file_seen each, void *user) BP_MUST_CHECK;

/* The same for the members of an object of texts, "options", or, with empty keys, a list of them.
 */
typedef bp_status (*record_member_seen)(void *user, const char *key, const char *value);
bp_status record_members_each(const char *line, size_t length, const char *object,
                              record_member_seen each, void *user) BP_MUST_CHECK;

#endif
