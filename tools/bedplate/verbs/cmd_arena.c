/* SPDX-License-Identifier: MIT */
/* bedplate arena: gives every buffer of a CSV file an offset; the planner without any training. */
#include <inttypes.h>
#include <stdlib.h>

#include "arena/csv.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/app/commands.h"

#define FILE_BYTES_MAX ((size_t)1 << 30)

#define ARENA_LOOKS 100 /* one set is laid out here, not one of hundreds: minutes at most */

typedef struct instance {
    char *text;
    size_t length;
    bp_csv csv;
    bp_interval *buffers;
    bp_layout_report report;
} instance;

/* Reads a whole file of unknown length. */
static bp_status cmd_arena_read_text(instance *in, const char *path)
{
    FILE *file = fopen(path, "rb");
    size_t room = 65536;
    bp_status status = file != NULL ? BP_OK : BP_ERR_DATA;
    in->text = malloc(room);
    while (status == BP_OK && in->text != NULL) {
        size_t got = fread(in->text + in->length, 1, room - in->length, file);
        in->length += got;
        if (in->length < room) {
            status = ferror(file) != 0 ? BP_ERR_STORE : BP_OK;
            break;
        }
        if (room >= FILE_BYTES_MAX) {
            status = BP_ERR_DATA;
            break;
        }
        room *= 2;
        char *larger = realloc(in->text, room);
        if (larger == NULL) {
            status = BP_ERR_FIT;
            break;
        }
        in->text = larger;
    }
    if (file != NULL) {
        fclose(file);
    }
    status = in->text == NULL ? BP_ERR_FIT : status;
    if (status != BP_OK) {
        output_print(stderr, "bedplate: %s: the file cannot be read\n", path);
    }
    return status;
}

static bp_status wrong_file(const char *path, const bp_csv_error *error)
{
    output_print(stderr, "bedplate: %s:%" PRIu64 ": %s%s%s\n", path, error->line, error->column,
                 error->column[0] != '\0' ? ": " : "", error->text);
    return BP_ERR_DATA;
}

static bp_status solve(instance *in, uint64_t capacity)
{
    const bp_layout_options options = {.capacity = capacity,
                                       .node_limit = BP_LAYOUT_NODES_DEFAULT,
                                       .look_limit = ARENA_LOOKS * BP_LAYOUT_LOOKS_DEFAULT};
    size_t bytes = bp_layout_scratch(in->csv.rows);
    void *scratch = bytes != SIZE_MAX ? malloc(bytes) : NULL;
    bp_status status = BP_ERR_FIT;
    if (scratch != NULL) {
        status = bp_layout_solve(in->buffers, in->csv.rows, &options, scratch, bytes, &in->report);
    }
    free(scratch);
    if (status != BP_OK) {
        output_print(stderr, "bedplate: arena: no memory to plan in\n");
    }
    return status;
}

static bp_status cmd_arena_plan(instance *in, const settings *set)
{
    const char *path = set->words.item[0];
    bp_csv_error error = {.text = ""};
    BP_TRY(cmd_arena_read_text(in, path));
    if (bp_csv_open(&in->csv, in->text, in->length, &error) != BP_OK) {
        return wrong_file(path, &error);
    }
    in->buffers = malloc(((size_t)in->csv.rows + 1) * sizeof *in->buffers);
    if (in->buffers == NULL) {
        return BP_ERR_FIT;
    }
    if (bp_csv_read(&in->csv, in->buffers, &error) != BP_OK) {
        return wrong_file(path, &error);
    }
    BP_TRY(solve(in, set->capacity));
    output out;
    output_begin(&out, stdout);
    bp_status status = set->json ? bp_csv_json(&in->csv, in->buffers, &in->report, &out.text)
                                 : bp_csv_write(&in->csv, in->buffers, &out.text);
    output_end(&out);
    if (!in->report.fits) {
        output_print(stderr,
                     "bedplate: --capacity: no layout was found that fits: found %" PRIu64
                     ", the best needs %" PRIu64 ", none needs less than %" PRIu64 "\n",
                     set->capacity, in->report.bytes, in->report.lower_bound);
        return BP_ERR_FIT;
    }
    return status;
}

int cmd_arena(const settings *set)
{
    instance in = {.text = NULL};
    bp_status status = cmd_arena_plan(&in, set);
    free(in.buffers);
    free(in.text);
    return bp_status_exit_code(status);
}
