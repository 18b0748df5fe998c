/* SPDX-License-Identifier: MIT */
/* Shared ground of import and export. */
#include "tools/bedplate/models/model_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/storage.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/models/tensor_faults.h"
#include "tools/formats/hf/hf_config_copy.h"
#include "tools/formats/hf/hf_files.h"
#include "tools/formats/family/family.h"
#include "tools/formats/gguf/gguf_family.h"
#include "tools/formats/files/stream_file.h"

#define TABLE_BYTES ((size_t)128 << 20) /* address space; pages come as they are used */
#define WORK_BYTES  ((size_t)32 << 20)  /* half is tables, of 90,000 tensors */

bp_status model_files_begin(model_files *m, const settings *set)
{
    memset(m, 0, sizeof *m);
    m->set = set;
    BP_TRY(bp_store_posix_init(&m->posix, ""));
    m->store = &m->posix.store;
    BP_TRY(memory_take(&m->memory, TABLE_BYTES + WORK_BYTES, false, "memory", &m->error));
    m->room = (bp_staging){m->memory.address, TABLE_BYTES};
    m->work = (bp_staging){(char *)m->memory.address + TABLE_BYTES, WORK_BYTES};
    m->config.pad_token = -1;
    m->target = (bp_weight_target){.store = m->store, .work = m->work, .error = &m->error};
    m->target.keep = strcmp(set->dtype, "source") == 0;
    m->target.dtype = strcmp(set->dtype, "bf16") == 0   ? BP_BF16
                      : strcmp(set->dtype, "fp16") == 0 ? BP_F16
                                                        : BP_F32;
    return BP_OK;
}

/* Room for tables is ample: a file that needs more is not what it says it is. */
static bp_status as_data(model_files *m, bp_status status)
{
    if (status == BP_ERR_FIT && m->error.code == BP_ERR_FIT) {
        m->error.code = BP_ERR_DATA;
        return BP_ERR_DATA;
    }
    return status;
}

bp_status model_files_match(model_files *m, const bp_tensor_naming *naming,
                            bp_weight_source *source)
{
    m->naming = naming;
    BP_TRY(
        as_data(m, bp_parameters_list(m->model, &m->config, &m->room, &m->parameters, &m->error)));
    tensor_faults faults = {.path = m->source.path};
    const uint32_t heads = bp_family_count(&m->config, BP_ROLE_HEADS);
    const uint32_t kv_heads = bp_family_count(&m->config, BP_ROLE_KV_HEADS);
    const bp_match match = {
        .set = &m->source,
        .naming = naming,
        .wanted = m->parameters.list,
        .count = m->parameters.count,
        .heads = {heads, kv_heads != 0 ? kv_heads : heads, bp_gguf_position_first(&m->config)},
        .input_major = m->model->input_major,
        .allow = m->set->allow_unexpected ? BP_ALLOW_UNEXPECTED : 0u,
        .untied = bp_family_untied(&m->config),
        .work = m->work,
        .watch = tensor_faults_print,
        .user = &faults};
    bp_status status = bp_tensor_match(&match);
    tensor_faults_end(&faults, &m->error);
    BP_TRY(status);
    *source = (bp_weight_source){.set = &m->source,
                                 .list = m->parameters.list,
                                 .count = m->parameters.count,
                                 .heads = match.heads,
                                 .input_major = m->model->input_major,
                                 .naming = &m->config.family->naming,
                                 .carries = naming == &m->config.family->naming};
    return BP_OK;
}

static const char *hf_word(bp_dtype dtype)
{
    return dtype == BP_F32 ? "float32" : dtype == BP_F16 ? "float16" : "bfloat16";
}

/* The type of the first tensor, for files whose tensors keep theirs. */
static bp_dtype kept_type(const model_files *m)
{
    bool any = m->parameters.count > 0 && m->parameters.list[0].view.entry != NULL;
    return any ? bp_tensor_view_dtype(&m->parameters.list[0].view) : BP_F32;
}

bp_status model_files_config(model_files *m, const bp_json_source *source, const char *to)
{
    char path[BP_STORE_PATH_MAX];
    bp_stream_file stream;
    bp_dtype dtype = m->target.keep ? kept_type(m) : m->target.dtype;
    const bp_config_change change = {
        .dtype = hf_word(dtype), .requantised = true, .quantised = m->target.form};
    BP_TRY(bp_storage_join(path, to, "config.json", &m->error));
    BP_TRY(bp_stream_begin(&stream, m->store, path, &m->error));
    bp_status status =
        bp_hf_config_change(source, &change, m->work.memory, bp_stream_add, &stream, &m->error);
    return bp_stream_end(&stream, status);
}

void model_files_say_other(bp_store *store, const char *directory, const char *weights)
{
    char path[BP_STORE_PATH_MAX];
    bool there = false;
    if (model_files_ends(weights, "/" BP_HF_WEIGHTS) &&
        bp_storage_join(path, directory, BP_HF_INDEX, NULL) == BP_OK &&
        store->exists(store, path, &there) == BP_OK && there) {
        output_print(stderr,
                     "bedplate: %s: " BP_HF_WEIGHTS " is read, and the shards of " BP_HF_INDEX
                     " beside it are not: one of the two may be stale\n",
                     directory);
    }
}

bool model_files_same(const char *a, const char *b)
{
    struct stat left;
    struct stat right;
    return stat(a, &left) == 0 && stat(b, &right) == 0 && left.st_dev == right.st_dev &&
           left.st_ino == right.st_ino;
}

bool model_files_ends(const char *path, const char *ending)
{
    const size_t length = strlen(path), tail = strlen(ending);
    return length > tail && strcmp(path + length - tail, ending) == 0;
}

static void print_result(const model_files *m, const char *format, const char *path)
{
    uint64_t elements = 0;
    bool packed = false;
    for (size_t i = 0; i < m->parameters.count; i++) {
        const bp_tensor_view *view = &m->parameters.list[i].view;
        elements += bp_tensor_view_elements(view);
        packed = packed || (view->entry != NULL && view->entry->packed != 0) ||
                 (view->bnb.form != BP_QUANTISED_NONE && m->target.form == BP_QUANTISED_NONE);
    }
    const char *kept = m->target.packed != NULL ? m->target.packed->name
                       : m->target.form != BP_QUANTISED_NONE
                           ? "codes of 4 or 8 bits, other types as they were"
                       : packed ? "quantised tensors as floats, other types as they were"
                                : "types as they were";
    if (!m->set->json) {
        output_print(stdout,
                     "%s: %zu tensors, %" PRIu64 " parameters, %" PRIu64 " bytes (%s, %s)\n", path,
                     m->parameters.count + m->target.beside, elements, m->target.bytes, format,
                     m->target.keep ? kept : m->set->dtype);
        return;
    }
    output out;
    output_begin(&out, stdout);
    json_begin(&out);
    json_text(&out, "path", path);
    json_text(&out, "format", format);
    json_text(&out, "dtype", m->set->dtype);
    json_count(&out, "tensors", m->parameters.count + m->target.beside);
    json_count(&out, "parameters", elements);
    json_count(&out, "bytes", m->target.bytes);
    json_end(&out);
    output_end(&out);
}

/* Tensors that the model has no use for go along into a directory alone, from names of its own.
 * Factors of rotary frequencies are in the configuration. */
static void print_left(const model_files *m, const char *format)
{
    enum { NAMED = 3 };
    const bool carried = strcmp(format, "hf") == 0 && m->naming == &m->config.family->naming;
    const uint64_t layers = bp_tensor_layers(m->parameters.list, m->parameters.count);
    const char *named[NAMED];
    size_t count = 0;
    for (uint32_t p = 0; !carried && p < m->source.part_count; p++) {
        for (size_t i = 0; i < m->source.parts[p].entry_count; i++) {
            const bp_tensor_entry *entry = &m->source.parts[p].entries[i];
            if (bp_weight_carried(m->naming, layers, entry) &&
                strncmp(entry->name, "rope_", 5) != 0) {
                if (count < NAMED) {
                    named[count] = entry->name;
                }
                count++;
            }
        }
    }
    if (count == 0) {
        return;
    }
    output_print(stderr,
                 "bedplate: %s: not written, as the model has no use for it: ", m->source.path);
    for (size_t i = 0; i < count && i < NAMED; i++) {
        output_print(stderr, "%s%s", i > 0 ? ", " : "", named[i]);
    }
    if (count > NAMED) {
        output_print(stderr, " and %zu more tensors", count - NAMED);
    }
    output_print(stderr, "\n");
}

int model_files_end(model_files *m, bp_status status, const char *format, const char *path)
{
    bp_status closed = bp_tensor_set_close(&m->source);
    status = as_data(m, status == BP_OK ? closed : status);
    if (status == BP_OK && format != NULL) {
        print_result(m, format, path);
        print_left(m, format);
    }
    int code = report_status(status, &m->error);
    memory_give_back(&m->memory);
    return code;
}
