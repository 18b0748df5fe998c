/* SPDX-License-Identifier: MIT */
/* From matched files to a writer, and the writer of safetensors. */
#include "tools/formats/hf/weight_target.h"

#include "tools/formats/hf/bnb_write.h"
#include "tools/formats/hf/hf_counts.h"
#include "tools/formats/peft/merge.h"

#include <string.h>

#include "tools/formats/files/stream_file.h"

static const char where[] = "export";

#define CARRIED (2 * BP_HF_COUNTS) /* handles of tensors that go along begin here */
#define PASSES  ((size_t)4 << 20)  /* bytes through which values pass: more are slower */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The pieces that a file with this naming has of a parameter; false: it is one tensor. */
static bool pieces_of(const bp_weight_source *source, size_t index, const bp_tensor_naming *naming,
                      bp_tensor_pieces *pieces)
{
    const bp_wanted *wanted = &source->list[index];
    char name[BP_TENSOR_NAME_MAX];
    const bp_tensor_rule *rule = bp_tensor_name(naming, wanted->name, name);
    return rule != NULL && bp_tensor_in_pieces(rule->form) &&
           bp_tensor_pieces_of(pieces, rule, wanted->name, wanted->rank, wanted->shape);
}

uint64_t bp_weight_source_tensors(const bp_weight_source *source, size_t index,
                                  const bp_tensor_naming *naming)
{
    bp_tensor_pieces pieces;
    return pieces_of(source, index, naming, &pieces) ? bp_tensor_pieces_count(&pieces) : 1;
}

bp_status bp_weight_source_view(const bp_weight_source *source, size_t index, uint64_t piece,
                                const bp_tensor_naming *naming, char name[BP_TENSOR_NAME_MAX],
                                bp_tensor_view *view)
{
    const bp_wanted *wanted = &source->list[index];
    const bp_tensor_rule *rule = bp_tensor_name(naming, wanted->name, name);
    bp_tensor_pieces pieces;
    *view = wanted->view;
    if (view->mx.blocks.entry != NULL && rule != NULL && rule->form != BP_LAYOUT_PLAIN) {
        return bp_error_set(source->set->error, BP_ERR_USAGE, where,
                            "experts in blocks of MXFP4 go into this format from a directory that "
                            "export wrote, which has them as floats",
                            wanted->name);
    }
    if (pieces_of(source, index, naming, &pieces) && bp_tensor_pieces_name(&pieces, piece, name)) {
        bp_tensor_view_take(view, &pieces, piece);
        return BP_OK;
    }
    if (rule == NULL || bp_tensor_in_pieces(rule->form) ||
        !bp_tensor_view_transpose(view, rule->form, source->heads)) {
        return bp_error_set(source->set->error, BP_ERR_USAGE, where,
                            "the format has no name or no form for this tensor", wanted->name);
    }
    return BP_OK;
}

/* In floats, with the adapter's part, then rounded once: half of the memory reads, half holds. */
static bp_status read_merged(const bp_weight_source *source, size_t index,
                             const bp_tensor_view *view, uint64_t first, size_t count, bp_dtype to,
                             void *out, bp_staging work)
{
    size_t half = work.capacity / 2 / 8 * 8;
    bp_staging raw = {work.memory, half};
    float *values = (float *)(void *)((char *)work.memory + half);
    size_t most = half / sizeof *values, size = bp_dtype_bytes(to);
    for (size_t done = 0; done < count;) {
        size_t piece = count - done < most ? count - done : most;
        BP_TRY(bp_tensor_view_read(source->set, view, first + done, piece, BP_F32, values, raw));
        bp_merge_add(source->merge, source, index, view, first + done, piece, values);
        if (!bp_elements_convert(BP_F32, values, to, (char *)out + done * size, piece)) {
            return bp_error_set(source->set->error, BP_ERR_DATA, "merge",
                                "a merged weight is too large for its type", view->entry->name);
        }
        done += piece;
    }
    return BP_OK;
}

bp_status bp_weight_source_read(const bp_weight_source *source, size_t index,
                                const bp_tensor_view *view, uint64_t first, size_t count,
                                bp_dtype to, void *out, bp_staging work)
{
    if (source->merge == NULL || !bp_merge_changes(source->merge, index)) {
        return bp_tensor_view_read(source->set, view, first, count, to, out, work);
    }
    return read_merged(source, index, view, first, count, to, out, work);
}

bp_status bp_weight_source_stream(const bp_weight_source *source, size_t index,
                                  const bp_tensor_view *view, bp_dtype to, bp_staging work,
                                  bp_weight_sink sink, void *user)
{
    size_t third = least(work.capacity, 2 * PASSES) / 3 / 8 * 8;
    bp_staging raw = {work.memory, third};
    char *out = (char *)work.memory + third;
    size_t size = bp_dtype_bytes(to);
    size_t most = 2 * third / size;
    uint64_t elements = bp_tensor_view_elements(view);
    for (uint64_t first = 0; first < elements;) {
        uint64_t left = elements - first;
        size_t count = left < most ? (size_t)left : most;
        BP_TRY(bp_weight_source_read(source, index, view, first, count, to, out, raw));
        BP_TRY(sink(user, out, count * size));
        first += count;
    }
    return BP_OK;
}

/* One writing of a safetensors file. */
typedef struct writing {
    const bp_weight_source *source;
    const bp_tensor_naming *naming;
    bp_bnb_writing codes;
    bp_staging raw;
} writing;

/* The count of batches of a norm, whose running mean is parameter `index`. */
static bp_status give_count(const writing *w, size_t index, void *to)
{
    const bp_weight_source *source = w->source;
    char name[BP_TENSOR_NAME_MAX];
    uint32_t part = 0;
    int32_t count = 0;
    const bp_tensor_entry *entry =
        bp_hf_counts_beside(source->set, w->naming, source->list[index].name, name, &part);
    BP_TRY(bp_hf_counts_read(source->set, part, entry, &count, source->set->error));
    const int64_t wide = count;
    memcpy(to, &wide, sizeof wide);
    return BP_OK;
}

/* Number `index` of the source's tensors, counted through its files. */
static const bp_tensor_entry *tensor_of(const bp_tensor_set *set, size_t index, uint32_t *part)
{
    for (*part = 0; index >= set->parts[*part].entry_count; ++*part) {
        index -= set->parts[*part].entry_count;
    }
    return &set->parts[*part].entries[index];
}

static bp_status give_carried(const writing *w, size_t index, uint64_t offset, void *to,
                              size_t bytes)
{
    uint32_t part;
    const bp_tensor_entry *entry = tensor_of(w->source->set, index, &part);
    return bp_tensor_set_read(w->source->set, part, entry, offset, to, bytes);
}

static bp_status give(void *user, const bp_tensor_entry *entry, uint64_t offset, void *to,
                      size_t bytes)
{
    const writing *w = user;
    const bool taken = BP_PIECES_TAKEN(entry->handle);
    const size_t index = BP_BNB_INDEX(BP_PIECES_REST(entry->handle));
    size_t size = bp_dtype_bytes(entry->dtype);
    char name[BP_TENSOR_NAME_MAX];
    bp_tensor_view view;
    if (taken) {
        BP_TRY(bp_weight_source_view(w->source, index, BP_PIECES_INDEX(entry->handle), w->naming,
                                     name, &view));
        return bp_weight_source_read(w->source, index, &view, offset / size, bytes / size,
                                     entry->dtype, to, w->raw);
    }
    if (entry->handle >= CARRIED) {
        return give_carried(w, (size_t)(entry->handle - CARRIED), offset, to, bytes);
    }
    if (entry->handle >= BP_HF_COUNTS) {
        return give_count(w, (size_t)(entry->handle - BP_HF_COUNTS), to);
    }
    if (BP_BNB_PART(entry->handle) != 0) {
        return bp_bnb_give(&w->codes, entry->handle, offset, to, bytes);
    }
    BP_TRY(bp_weight_source_view(w->source, index, 0, w->naming, name, &view));
    return bp_weight_source_read(w->source, index, &view, offset / size, bytes / size, entry->dtype,
                                 to, w->raw);
}

static bp_status weight_target_no_room(const bp_weight_target *target)
{
    return bp_error_limit(
        target->error, BP_ERR_FIT, where, "the memory for writing weights is too small",
        target->path, bp_size_signed(target->work.capacity), BP_LIMIT_LEAST, BP_TARGET_WORK_MIN);
}

static const char *weight_target_keep(const char *name, bp_staging *room)
{
    const size_t length = strlen(name) + 1;
    char *kept = bp_room_take(room, length);
    if (kept != NULL) {
        memcpy(kept, name, length);
    }
    return kept;
}

/* The counts of batches that the source has, behind `entries`; with NULL how many. */
static bp_status list_counts(const writing *w, const bp_weight_target *target, bp_staging *room,
                             bp_tensor_entry *entries, size_t *count)
{
    const bp_weight_source *source = w->source;
    char ours[BP_TENSOR_NAME_MAX], theirs[BP_TENSOR_NAME_MAX];
    uint32_t part = 0;
    *count = 0;
    for (size_t i = 0; i < source->count; i++) {
        const char *name = source->list[i].name;
        if (bp_hf_counts_beside(source->set, w->naming, name, ours, &part) == NULL ||
            bp_tensor_name(w->naming, ours, theirs) == NULL) {
            continue;
        }
        if (entries != NULL) {
            const char *kept = weight_target_keep(theirs, room);
            if (kept == NULL) {
                return weight_target_no_room(target);
            }
            entries[*count] =
                (bp_tensor_entry){.name = kept, .dtype = BP_I64, .handle = BP_HF_COUNTS + i};
        }
        *count += 1;
    }
    return BP_OK;
}

const char *bp_carried_name(bp_staging *room, const char *first, const char *theirs)
{
    static const char *const bare[] = {"pooler.", "embeddings."};
    const char *dot = strchr(first, '.');
    size_t prefix = 0;
    for (size_t i = 0; i < 2 && dot != NULL; i++) {
        const size_t length = strlen(bare[i]);
        const bool lacks = strncmp(theirs, bare[i], length) == 0;
        prefix =
            lacks && strncmp(first, "embeddings.", 11) != 0 ? (size_t)(dot - first) + 1 : prefix;
    }
    const size_t bytes = strlen(theirs) + 1;
    char *name = bp_room_take(room, prefix + bytes);
    if (name != NULL) {
        memcpy(name, first, prefix);
        memcpy(name + prefix, theirs, bytes);
    }
    return name;
}

bool bp_weight_carried(const bp_tensor_naming *naming, uint64_t layers,
                       const bp_tensor_entry *entry)
{
    bool goes = bp_tensor_ignored(naming, layers, entry->name);
    if (bp_name_matches("*.num_batches_tracked", entry->name)) {
        return false;
    }
    for (size_t i = 0; i < naming->twin_count; i++) {
        goes = goes && strcmp(naming->twins[i].theirs, entry->name) != 0;
    }
    return goes && entry->handle == 0 &&
           (bp_tensor_readable(entry->dtype) || entry->dtype == BP_I64);
}

/* What the model has no use for, behind `entries`; with NULL how many. */
static bp_status list_others(const writing *w, const bp_weight_target *target, bp_staging *room,
                             const char *first, bp_tensor_entry *entries, size_t *count)
{
    const bp_tensor_set *set = w->source->set;
    const uint64_t layers = bp_tensor_layers(w->source->list, w->source->count);
    size_t all = 0;
    uint32_t part;
    *count = 0;
    for (uint32_t p = 0; w->source->carries && p < set->part_count; p++) {
        all += set->parts[p].entry_count;
    }
    for (size_t i = 0; i < all; i++) {
        const bp_tensor_entry *entry = tensor_of(set, i, &part);
        if (!bp_weight_carried(w->naming, layers, entry)) {
            continue;
        }
        if (entries != NULL) {
            const char *name = bp_carried_name(room, first, entry->name);
            if (name == NULL) {
                return weight_target_no_room(target);
            }
            entries[*count] = *entry;
            entries[*count].name = name;
            entries[*count].handle = CARRIED + i;
        }
        *count += 1;
    }
    return BP_OK;
}

/* A correction of a router's choice stays in float32, as in transformers' files. */
static bp_dtype weight_target_type(const bp_weight_target *target, const char *name,
                                   const bp_tensor_view *view)
{
    const bool corrects = bp_name_matches("*.e_score_correction_bias", name);
    return target->keep ? bp_tensor_view_dtype(view) : corrects ? BP_F32 : target->dtype;
}

/* The tensors of parameter `i` behind `entries`. */
static bp_status list_one(writing *w, const bp_weight_target *target, size_t i, bp_staging *room,
                          bp_tensor_entry *entries, size_t *count)
{
    char name[BP_TENSOR_NAME_MAX];
    bp_tensor_view view;
    if (bp_bnb_goes(&w->codes, i)) {
        if (bp_tensor_name(w->naming, w->source->list[i].name, name) == NULL) {
            return bp_error_set(target->error, BP_ERR_USAGE, where,
                                "the format has no name for this tensor", w->source->list[i].name);
        }
        return bp_bnb_list(&w->codes, i, name, room, entries, count);
    }
    const uint64_t tensors = bp_weight_source_tensors(w->source, i, w->naming);
    for (uint64_t k = 0; k < tensors; k++) {
        BP_TRY(bp_weight_source_view(w->source, i, k, w->naming, name, &view));
        const char *kept = weight_target_keep(name, room);
        if (kept == NULL) {
            return weight_target_no_room(target);
        }
        const uint64_t handle = BP_BNB_HANDLE(i, 0);
        entries[k] =
            (bp_tensor_entry){.name = kept,
                              .dtype = weight_target_type(target, name, &view),
                              .rank = view.rank,
                              .handle = tensors > 1 ? BP_PIECES_HANDLE(handle, k) : handle};
        memcpy(entries[k].shape, view.shape, sizeof view.shape);
    }
    *count = (size_t)tensors;
    return BP_OK;
}

/* Tensors of all parameters; `codes`: more, of those that are quantised. */
static size_t count_tensors(const writing *w, bool codes)
{
    size_t count = 0;
    for (size_t i = 0; i < w->source->count; i++) {
        const bool one = w->source->list[i].rank != 3;
        const size_t parts = codes ? BP_BNB_PARTS : 1;
        count += one ? parts : (size_t)bp_weight_source_tensors(w->source, i, w->naming);
    }
    return count;
}

static bp_status weight_target_write_all(writing *w, bp_weight_target *target,
                                         bp_tensor_entry *entries, size_t count, bp_staging staging)
{
    bp_safetensors_plan plan = {.entries = entries, .entry_count = count};
    bp_safetensors_writer writer;
    char name[BP_STORE_PATH_MAX];
    BP_TRY(bp_replace_name(name, target->path, target->error));
    BP_TRY(bp_safetensors_layout(&plan, target->error));
    BP_TRY(bp_safetensors_begin(&writer, target->store, name, &plan, target->error));
    bp_status status = bp_safetensors_write(&writer, staging, give, w);
    status = status == BP_OK ? bp_safetensors_end(&writer) : status;
    if (status != BP_OK) {
        bp_replace_abandon(target->store, target->path);
        return status;
    }
    target->bytes = plan.file_bytes;
    return bp_replace_end(target->store, target->path, target->error);
}

/* Tables from the front; the second half of the memory is what the source is read through. */
bp_status bp_hf_export(const bp_weight_source *source, const bp_tensor_naming *naming,
                       bp_weight_target *target)
{
    const bool codes = target->form != BP_QUANTISED_NONE;
    size_t half = target->work.capacity / 2 / 8 * 8, count = 0;
    bp_staging room = {target->work.memory, half};
    writing w = {.source = source,
                 .naming = naming,
                 .codes = {.source = source, .form = target->form},
                 .raw = {(char *)target->work.memory + half, least(half, PASSES)}};
    size_t counts, others;
    BP_TRY(list_counts(&w, target, NULL, NULL, &counts));
    BP_TRY(list_others(&w, target, NULL, NULL, NULL, &others));
    target->beside = counts + others;
    bp_tensor_entry *entries =
        bp_room_take(&room, (count_tensors(&w, codes) + target->beside) * sizeof *entries);
    w.codes.offsets = bp_room_take(&room, source->count * sizeof(float));
    w.codes.raw = w.raw;
    if (entries == NULL || w.codes.offsets == NULL || half < 2 * BP_VIEW_WORK_MIN) {
        return weight_target_no_room(target);
    }
    for (size_t i = 0; i < source->count; i++) {
        size_t more = 0;
        BP_TRY(list_one(&w, target, i, &room, entries + count, &more));
        count += more;
    }
    BP_TRY(list_counts(&w, target, &room, entries + count, &counts));
    BP_TRY(list_others(&w, target, &room, entries[0].name, entries + count + counts, &others));
    count += target->beside;
    target->beside += count_tensors(&w, false) - source->count; /* pieces of parameters */
    bp_staging staging = {room.memory, least(room.capacity / 1024 * 1024, PASSES)};
    return staging.capacity == 0 ? weight_target_no_room(target)
                                 : weight_target_write_all(&w, target, entries, count, staging);
}
