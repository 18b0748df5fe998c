/* SPDX-License-Identifier: MIT */
/* The tables of a trainer, and the files around them. Rows that say the same are written once. */
#include "tools/bedplate/planning/emit_c.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/storage.h"
#include "core/ops/codec.h"
#include "core/ops/update.h"
#include "core/plan/parts.h"
#include "device/host/isa.h"
#include "device/host/trainer.h"
#include "optim/rate.h"
#include "core/base/version.h"
#include "tools/bedplate/app/path_guard.h"
#include "tools/bedplate/planning/emit_c_package.h"
#include "tools/bedplate/planning/emit_c_text.h"
#include "tools/bedplate/sources/data_tokenised.h"

static const char where[] = "plan --emit-c";

/* Numbers of one width that rows are put into; a row that is there already is used again. */
typedef struct pool {
    unsigned char *bytes;
    size_t width;
    size_t used; /* numbers */
} pool;

typedef struct emitter {
    session *s;
    FILE *file;
    pool offsets;                                    /* uint32_t */
    pool scalars;                                    /* uint64_t */
    pool dtypes;                                     /* uint8_t */
    bool used[BP_HOST_ELEMENTS][2][BP_KERNEL_COUNT]; /* [1]: the plain form of an update */
} emitter;

/* Which of the library's programs each of a trainer's is. */
static const bp_program_kind kinds[BP_TRAINER_PROGRAMS] = {
    [BP_TRAINER_INITIALIZE] = BP_PROGRAM_INITIALIZE, [BP_TRAINER_STEP] = BP_PROGRAM_STEP,
    [BP_TRAINER_FIRST] = BP_PROGRAM_MICRO_FIRST,     [BP_TRAINER_NEXT] = BP_PROGRAM_MICRO_NEXT,
    [BP_TRAINER_UPDATE] = BP_PROGRAM_UPDATE,         [BP_TRAINER_EVALUATE] = BP_PROGRAM_EVAL,
    [BP_TRAINER_PREFILL] = BP_PROGRAM_PREFILL,       [BP_TRAINER_DECODE] = BP_PROGRAM_DECODE};

static size_t pool_put(pool *p, const void *row, size_t count)
{
    for (size_t at = 0; at + count <= p->used; at++) {
        if (memcmp(p->bytes + at * p->width, row, count * p->width) == 0) {
            return at;
        }
    }
    memcpy(p->bytes + p->used * p->width, row, count * p->width);
    p->used += count;
    return p->used - count;
}

/* The name of a kernel's form behind bp_host_: those built once for each type have an ending. */
static const char *form_ending(bp_kernel kernel, bp_dtype working, bool plain)
{
    if (plain) {
        return "_plain";
    }
#define SINGLE(name)
#define TYPED(name)
#define BUILT(name)             case BP_KERNEL_##name:
#define BUILT_PORTABLE(name)    BUILT(name)
#define FORMS(name, isa, types) types(name)
    switch (kernel) {
#include "core/ops/kernels.def"
        return working == BP_BF16 ? "_bf16" : working == BP_F16 ? "_f16" : "";
    default:
        return "";
    }
}

/* Whether every tuple of an update is f32 in memory throughout (device/host/update/update_plain.c).
 */
static bool updates_plain(const bp_linked_op *op)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    const uint32_t trust = offsetof(bp_adamw_operands, trust) / sizeof(bp_ref);
    const uint32_t gradient = offsetof(bp_adamw_operands, gradient) / sizeof(bp_ref);
    bool plain = op->kernel == BP_KERNEL_sgd || op->kernel == BP_KERNEL_adam ||
                 op->kernel == BP_KERNEL_adamw;
    for (uint32_t t = 0; t < op->tuples && plain; t++) {
        const uint64_t *row = (const uint64_t *)op->scalars + (size_t)t * info->scalar_count;
        const uint8_t *dtypes = op->dtypes + (size_t)t * info->operand_count;
        const bp_update_scalars *s = (const void *)row;
        bp_adamw_scalars adam = {.fold = 0};
        if (op->kernel != BP_KERNEL_sgd) {
            memcpy(&adam, row, sizeof adam); /* adam's row is the same */
        }
        plain = s->form == BP_CODEC_F32 && s->master_form == BP_MASTER_WEIGHT && adam.fold == 0 &&
                dtypes[0] == BP_F32 && dtypes[gradient] == BP_F32 &&
                op->offsets[(size_t)t * info->operand_count + trust] == BP_OFFSET_ABSENT;
    }
    return plain;
}

static bp_status emit_refuse(session *s, const char *text)
{
    return bp_error_set(&s->error, BP_ERR_USAGE, where, text, s->set->emit_c);
}

/* Whether what the trainer is to answer can be answered by its tables. */
static bp_status emit_check_answers(session *s)
{
    const bp_spec *spec = &s->plan.spec;
    const uint32_t near =
        spec->model->near_tokens != NULL ? spec->model->near_tokens(&spec->config) : 0;
    if (near > 0 && spec->generate_context > near) {
        return bp_error_limit(&s->error, BP_ERR_USAGE, where,
                              "the model reads longer texts otherwise from their first token on, "
                              "which a trainer made from a plan does not",
                              "--generate-context", spec->generate_context, BP_LIMIT_MOST, near);
    }
    if (bp_compile_logits_rows(spec) > 0 && spec->config.task == BP_TASK_ANSWERS &&
        bp_spec_eval_batch(spec) > 1) {
        return bp_error_limit(&s->error, BP_ERR_USAGE, where,
                              "a trainer made from a plan answers one question at a time",
                              "--per-device-eval-batch-size", bp_spec_eval_batch(spec),
                              BP_LIMIT_EXACT, 1);
    }
    return BP_OK;
}

bp_status emit_c_check(session *s)
{
    if (s->spec.distill.top_k > 0) {
        return emit_refuse(s, "a trainer made from a plan has no teacher");
    }
    if (s->spec.source > 0) {
        return emit_refuse(s, "a trainer made from a plan makes no texts of texts");
    }
    if (s->spec.row_weights) {
        return emit_refuse(s, "a trainer made from a plan generates no completions");
    }
    if (s->set->random_crop > 0 || s->set->random_resized_crop > 0 || s->set->random_flip > 0) {
        return emit_refuse(s, "a trainer made from a plan crops and flips no images");
    }
    if (s->set->group_by_length) {
        return emit_refuse(s, "a trainer made from a plan has no --group-by-length");
    }
    return BP_OK;
}

static bp_status emit_check(session *s)
{
    const bp_runtime *r = &s->runtime;
    const bp_spec *spec = &r->plan->spec;
    const bool several = bp_spec_whole_group(spec) && spec->accumulation > 1;
    if (bp_spec_ranks(spec) > 1 || bp_spec_token_lanes(spec) > 1 || several ||
        (r->plan->report.host.arena_bytes > 0 && !spec->offload.fixed) ||
        r->plan->report.offload.arena_bytes > 0) {
        return emit_refuse(
            s, "a trainer made from a plan is one rank in one memory, without virtual ranks, and "
               "releases gradients of one micro-batch only");
    }
    if (r->plan->bucket_count > 0) {
        return emit_refuse(s, "a trainer made from a plan has one length: "
                              "expected --length-buckets none");
    }
    if (bp_spec_keeps_vectors(spec)) {
        return emit_refuse(s, "a trainer made from a plan compares no texts of several "
                              "micro-batches: expected --gradient-accumulation-steps 1");
    }
    if (bp_ref_present(r->plan->builder.class_weights)) {
        return emit_refuse(s, "a trainer made from a plan has no --class-weights");
    }
    BP_TRY(emit_c_check(s));
    for (uint32_t i = 0; i < r->plan->builder.parameter_count; i++) {
        if (r->plan->builder.parameters[i].quantised != BP_QUANTISED_NONE && !spec->offload.fixed) {
            return emit_refuse(s, "a trainer made from a plan has quantised weights in flash only: "
                                  "expected --offload flash:BYTES");
        }
        if (r->plan->builder.parameters[i].master_form == BP_MASTER_FP8) {
            return emit_refuse(s, "a trainer made from a plan has no weights in fp8");
        }
    }
    BP_TRY(emit_check_answers(s));
    const uint64_t bytes =
        bp_size_add(r->plan->report.arena_bytes, r->plan->report.host.arena_bytes);
    if (bytes >= BP_TRAINER_ABSENT) {
        return bp_error_limit(&s->error, BP_ERR_FIT, where,
                              "a trainer's arena and flash are below 4 GiB", s->set->emit_c,
                              bp_size_signed(bytes), BP_LIMIT_BELOW, (int64_t)BP_TRAINER_ABSENT);
    }
    return BP_OK;
}

/* A place as a trainer has it: frozen weights behind the arena's end. */
static uint32_t emit_offset(const bp_runtime *r, uint64_t place)
{
    if (place == BP_OFFSET_ABSENT) {
        return BP_TRAINER_ABSENT;
    }
    const bool fixed = bp_address_space(place) == BP_SPACE_HOST;
    return (uint32_t)(bp_address_offset(place) + (fixed ? r->plan->report.arena_bytes : 0));
}

static size_t put_offsets(emitter *e, const bp_linked_op *op, size_t count)
{
    uint32_t *row = malloc((count + 1) * sizeof *row);
    size_t at = 0;
    for (size_t i = 0; row != NULL && i < count; i++) {
        row[i] = emit_offset(&e->s->runtime, op->offsets[i]);
    }
    at = row != NULL ? pool_put(&e->offsets, row, count) : 0;
    free(row);
    return at;
}

static void put_op(emitter *e, const bp_linked_op *op)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    const bp_dtype working = bp_kernel_working(info, op->dtypes);
    const size_t operands = (size_t)op->tuples * info->operand_count;
    const size_t scalars = (size_t)op->tuples * info->scalar_count;
    const bool plain = updates_plain(op);
    e->used[working][plain][op->kernel] = true;
    fprintf(e->file, "    {&bp_host_%s%s, offsets + %zu, ", info->name,
            form_ending(op->kernel, working, plain), put_offsets(e, op, operands));
    fprintf(e->file, "scalars + %zu, ", pool_put(&e->scalars, op->scalars, scalars));
    fprintf(e->file, "dtypes + %zu, %" PRIu32 ", %" PRIu32 ", %" PRIu32 "},\n",
            pool_put(&e->dtypes, op->dtypes, operands), op->tuples, info->operand_count,
            info->scalar_count);
}

/* The ops are written to a file of their own first: what they refer to stands before them. */
static void put_ops(emitter *e)
{
    for (uint32_t p = 0; p < BP_TRAINER_PROGRAMS; p++) {
        const bp_linked_program *program = &e->s->runtime.link.programs[kinds[p]];
        for (uint32_t i = 0; i < program->count; i++) {
            put_op(e, &program->ops[i]);
        }
    }
}

static void put_declarations(emitter *e)
{
    for (uint32_t i = 0; i < 2 * BP_HOST_ELEMENTS; i++) {
        for (uint32_t k = 0; k < BP_KERNEL_COUNT; k++) {
            if (e->used[i / 2][i % 2][k]) {
                fprintf(e->file, "extern const bp_host_kernel bp_host_%s%s;\n",
                        bp_kernel_describe((bp_kernel)k)->name,
                        form_ending((bp_kernel)k, (bp_dtype)(i / 2), i % 2 != 0));
            }
        }
    }
}

static void put_pool(emitter *e, const char *type, const char *name, const pool *p)
{
    fprintf(e->file, "\nstatic const %s %s[] = {", type, name);
    for (size_t i = 0; i < p->used; i++) {
        uint64_t number = 0;
        memcpy(&number, p->bytes + i * p->width, p->width); /* a PC has the low bytes first */
        fprintf(e->file, "%s", i % 8 == 0 ? "\n    " : " ");
        fprintf(e->file, p->width == 8 ? "UINT64_C(0x%" PRIx64 ")," : "%" PRIu64 "u,", number);
    }
    fprintf(e->file, "%s\n};\n", p->used == 0 ? "0" : "");
}

static void put_range(emitter *e, const bp_buffer *buffer, const char *more, uint32_t bits)
{
    fprintf(e->file, "    {%" PRIu32 "u, %" PRIu64 "u",
            emit_offset(&e->s->runtime, bp_buffer_address(buffer)), buffer->bytes);
    fprintf(e->file, more, bits);
    fprintf(e->file, "},\n");
}

/* Weights that begin as ones, and masters that hold them whole; a remainder of 1 is 0. */
static uint32_t put_ones(emitter *e)
{
    static const uint32_t one[] = {
        [BP_F32] = 0x3f800000, [BP_BF16] = 0x3f803f80, [BP_F16] = 0x3c003c00};
    const bp_runtime *r = &e->s->runtime;
    uint32_t count = 0;
    fprintf(e->file, "\nstatic const bp_trainer_fill ones[] = {\n");
    for (uint32_t i = 0; i < r->plan->builder.parameter_count; i++) {
        const bp_parameter *p = &r->plan->builder.parameters[i];
        if (p->init == BP_INIT_ONES && !p->fixed) {
            const bp_buffer *weight = &r->plan->graph.buffers[p->weight];
            put_range(e, weight, ", 0x%" PRIx32, one[weight->dtype]);
            count++;
            if (p->master != BP_NO_BUFFER && p->master_form == BP_MASTER_FP32) {
                put_range(e, &r->plan->graph.buffers[p->master], ", 0x%" PRIx32, one[BP_F32]);
                count++;
            }
        }
    }
    fprintf(e->file, "%s};\n", count == 0 ? "    {0, 0, 0}," : "");
    return count;
}

static void put_state(emitter *e)
{
    const bp_runtime *r = &e->s->runtime;
    fprintf(e->file, "\nstatic const bp_trainer_range state[] = {\n");
    for (uint32_t i = 0; i < bp_runtime_state_count(r); i++) {
        put_range(e, bp_runtime_state(r, i), "", 0);
    }
    fprintf(e->file, "};\n\nconst bp_column plan_columns[PLAN_INPUTS] = {\n");
    for (uint32_t i = 0; i < r->group.columns; i++) {
        const bp_column *c = &r->group.column[i];
        fprintf(e->file, "    {(bp_input_from)%d, (bp_dtype)%d, %" PRIu32 ", %" PRId32 ", NULL},\n",
                (int)c->from, (int)c->dtype, c->elements, c->fill);
    }
    fprintf(e->file, "};\n\nconst bp_state_tensor plan_tensors[PLAN_TENSORS] = {\n");
    for (uint32_t i = 0; i < bp_runtime_state_count(r); i++) {
        const bp_state_tensor t = bp_runtime_state_tensor(r, i);
        fprintf(e->file,
                "    {\"%s\", (bp_dtype)%d, %" PRIu32 ", {%" PRIu64 ", %" PRIu64 ", %" PRIu64
                ", %" PRIu64 "}, %" PRIu64 ", %" PRIu32 ", %d},\n",
                t.name, (int)t.dtype, t.rank, t.shape[0], t.shape[1], t.shape[2], t.shape[3],
                t.bytes, i, t.weight);
    }
    fprintf(e->file, "};\n");
}

static uint64_t offset_of(const bp_runtime *r, bp_ref ref)
{
    return r->plan->graph.buffers[ref.buffer].offset + ref.offset;
}

/* The public name of a schedule; its own options say the rest. */
static const char *rate_name(bp_rate rate)
{
    static const struct {
        bp_rate rate;
        const char *name;
    } names[] = {{bp_rate_constant, "bp_rate_constant"},
                 {bp_rate_linear, "bp_rate_linear"},
                 {bp_rate_cosine, "bp_rate_cosine"},
                 {bp_rate_cosine_with_restarts, "bp_rate_cosine_with_restarts"},
                 {bp_rate_polynomial, "bp_rate_polynomial"},
                 {bp_rate_inverse_sqrt, "bp_rate_inverse_sqrt"},
                 {bp_rate_warmup_stable_decay, "bp_rate_warmup_stable_decay"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].rate == rate) {
            return names[i].name;
        }
    }
    return "NULL";
}

static void put_rate(emitter *e)
{
    const bp_spec *spec = &e->s->plan.spec;
    const bp_rate_options *o = &spec->rate_options;
    fprintf(e->file,
            "    .rate = %s,\n    .rate_options = {%a, %a, %" PRIu64 ", %" PRIu64 ", %" PRIu64
            ", %a, %a, %a},\n",
            rate_name(spec->rate),
            spec->rate != NULL ? o->learning_rate : spec->optimizer_options.learning_rate,
            o->minimum, o->warmup_steps, o->total_steps, o->decay_steps, o->cycles, o->power,
            o->timescale);
}

/* What a prediction and a text take from where. */
static void put_answers(emitter *e)
{
    const bp_plan *plan = e->s->runtime.plan;
    const bp_spec *spec = &plan->spec;
    const uint32_t evaluated = bp_spec_eval_batch(spec);
    if (bp_compile_logits_rows(spec) > 0) {
        fprintf(e->file, "    .outputs = {%" PRIu64 ", %" PRIu64 ", %" PRIu64 ", (bp_dtype)%d},\n",
                offset_of(&e->s->runtime, plan->builder.logits_kept),
                bp_compile_logits_rows(spec) / evaluated, bp_compile_logits_width(spec),
                (int)bp_compile_logits_type(spec));
    }
    if (spec->generate_context > 0) {
        fprintf(e->file,
                "    .decoding = {%" PRIu32 ", %" PRIu32 ", PLAN_VOCABULARY, %" PRIu64 ", %" PRIu64
                ", %d},\n",
                spec->generate_context, bp_compile_prefill_rows(spec),
                offset_of(&e->s->runtime, plan->builder.logits),
                offset_of(&e->s->runtime, plan->builder.logits_each), spec->lora.magnitudes);
    }
    if (spec->config.task == BP_TASK_EMBEDDING) {
        fprintf(e->file, "    .texts = PLAN_TEXTS,\n");
    }
}

static void put_plan(emitter *e, uint32_t ones)
{
    const bp_runtime *r = &e->s->runtime;
    uint32_t first = 0;
    fprintf(e->file, "\nconst bp_trainer_plan plan = {\n    .ops = ops,\n");
    for (uint32_t p = 0; p < BP_TRAINER_PROGRAMS; p++) {
        const uint32_t count = r->link.programs[kinds[p]].count;
        fprintf(e->file,
                "    .first[%" PRIu32 "] = %" PRIu32 ", .count[%" PRIu32 "] = %" PRIu32 ",\n", p,
                first, p, count);
        first += count;
    }
    fprintf(e->file,
            "    .arena_bytes = PLAN_ARENA_BYTES,\n    .frozen = %s,\n    .step = %" PRIu64
            ",\n    .result = %" PRIu64 ",\n    .control = %" PRIu64
            ",\n    .micros = PLAN_MICROS,\n    .batch = PLAN_BATCH,\n    .evaluated = %" PRIu32
            ",\n    .inputs = PLAN_INPUTS,\n",
            r->plan->report.host.arena_bytes > 0 ? "plan_frozen" : "NULL",
            offset_of(r, r->plan->builder.step), offset_of(r, r->plan->builder.result),
            offset_of(r, r->plan->builder.control), bp_spec_eval_batch(&r->plan->spec));
    for (uint32_t i = 0; i < r->plan->compile.input_count; i++) {
        const bp_input *input = &r->plan->compile.input[i];
        fprintf(e->file,
                "    .input[%" PRIu32 "] = {%" PRIu64 ", %" PRIu64 ", %" PRIu64
                "u, %d, %d, %d, %d, %" PRId32 "},\n",
                i, r->plan->builder.declared[i].offset,
                bp_input_elements(input) / (input->dtype == BP_U8 ? 4 : 1), input->below,
                input->negative, input->dtype == BP_F32, input->decodes, (int)input->from,
                input->fill);
    }
    put_answers(e);
    fprintf(e->file,
            "    .ones = ones,\n    .ones_count = %" PRIu32
            ",\n    .state = state,\n    .state_count = PLAN_TENSORS,\n    .scale = %a,\n"
            "    .seed = PLAN_SEED,\n",
            ones, r->plan->spec.scaling.initial);
    put_rate(e);
    fprintf(e->file, "};\n");
}

static void put_tables(emitter *e, const char *ops)
{
    fprintf(e->file, "%s#include \"plan.h\"\n\n", emit_c_head);
    put_declarations(e);
    put_pool(e, "uint32_t", "offsets", &e->offsets);
    put_pool(e, "uint64_t", "scalars", &e->scalars);
    put_pool(e, "uint8_t", "dtypes", &e->dtypes);
    fprintf(e->file, "\nstatic const bp_trainer_op ops[] = {\n%s};\n", ops);
    const uint32_t ones = put_ones(e);
    put_state(e);
    put_plan(e, ones);
}

/* Elements of all inputs of a sample. */
static uint64_t sample_elements(const bp_runtime *r)
{
    uint64_t elements = 0;
    for (uint32_t i = 0; i < r->group.columns; i++) {
        elements += r->group.column[i].elements;
    }
    return elements;
}

/* What saving the state takes on this machine; on one of 32 bits it is less. */
static uint64_t checkpoint_scratch(const bp_runtime *r)
{
    const uint32_t count = bp_runtime_state_count(r);
    uint64_t bytes = bp_checkpoint_scratch(&(bp_checkpoint){.tensor_count = 0});
    for (uint32_t i = 0; i < count; i++) {
        const bp_state_tensor t = bp_runtime_state_tensor(r, i);
        const bp_checkpoint one = {.tensors = &t, .tensor_count = 1};
        bytes += bp_checkpoint_scratch(&one) -
                 bp_checkpoint_scratch(&(bp_checkpoint){.tensor_count = 0});
    }
    return bytes;
}

static void put_header(FILE *file, const session *s)
{
    const bp_runtime *r = &s->runtime;
    const bp_spec *spec = &r->plan->spec;
    fputs(emit_c_head, file);
    fprintf(file, EMIT_C_HEADER, r->plan->report.arena_bytes, r->plan->report.state_bytes,
            r->plan->report.host.arena_bytes, bp_runtime_state_count(r), spec->batch,
            spec->accumulation, spec->sequence, spec->config.vocabulary, spec->config.classes,
            (int)bp_feed_labels(spec->config.task), spec->seed, r->plan->compile.input_count,
            sample_elements(r), checkpoint_scratch(r),
            spec->config.task == BP_TASK_EMBEDDING ? spec->texts : 1, spec->pixels.there,
            spec->evaluate,
            bp_compile_logits_rows(spec) / bp_spec_eval_batch(spec) *
                (bp_compile_logits_rows(spec) > 0 ? bp_compile_logits_width(spec) : 0),
            bp_compile_logits_rows(spec) > 0 &&
                bp_feed_labels(spec->config.task) == BP_LABELS_CLASS,
            spec->generate_context);
}

/* Opens DIR/name; NULL with the error said. */
static FILE *open_file(session *s, const char *name)
{
    char path[BP_STORE_PATH_MAX];
    const bool fits = bp_storage_join(path, s->set->emit_c, name, &s->error) == BP_OK;
    const int made = fits ? path_guard_create(path, 0666) : -1;
    FILE *file = made >= 0 ? fdopen(made, "w") : NULL;
    if (file == NULL && s->error.code == BP_OK) {
        const bp_status said =
            bp_error_set(&s->error, BP_ERR_STORE, where, "the file could not be written", path);
        (void)said;
    }
    return file;
}

/* A source of the trainer: in a package they lie in src. */
static void source_name(const session *s, const char *name, char to[64])
{
    (void)snprintf(to, 64, "%s%s", emit_c_package_of(s->set->emit_as) != NULL ? "src/" : "", name);
}

static FILE *emit_open_source(session *s, const char *name)
{
    char within[64];
    source_name(s, name, within);
    return open_file(s, within);
}

static bp_status close_file(session *s, FILE *file)
{
    const bool failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed) {
        return bp_error_set(&s->error, BP_ERR_STORE, where, "a file could not be written",
                            s->set->emit_c);
    }
    return BP_OK;
}

static void put_frozen(FILE *file, const unsigned char *bytes, uint64_t count)
{
    fprintf(file, "%s#include \"plan.h\"\n\nconst uint64_t plan_frozen[PLAN_FROZEN_BYTES / 8] = {",
            emit_c_head);
    for (uint64_t i = 0; i < count; i += sizeof(uint64_t)) {
        uint64_t number;
        memcpy(&number, bytes + i, sizeof number);
        fprintf(file, "%sUINT64_C(0x%" PRIx64 "),", i % 64 == 0 ? "\n    " : " ", number);
    }
    fputs("\n};\n", file);
}

/* Frozen weights as the open run has them: C for a program, bytes for a flash of their own. Those
 * of an older plan are taken away. */
static bp_status write_frozen(session *s)
{
    static const char *const names[] = {"frozen.c", "frozen.bin"};
    const uint64_t bytes = s->plan.report.host.arena_bytes;
    char path[BP_STORE_PATH_MAX], within[64];
    for (uint32_t i = 0; i < 2; i++) {
        source_name(s, names[i], within);
        if (bytes == 0) {
            BP_TRY(bp_storage_join(path, s->set->emit_c, within, &s->error));
            (void)remove(path);
            continue;
        }
        FILE *file = open_file(s, within);
        if (file == NULL) {
            return BP_ERR_STORE;
        }
        if (i == 0) {
            put_frozen(file, s->host_arena.address, bytes);
        } else {
            (void)fwrite(s->host_arena.address, 1, (size_t)bytes, file);
        }
        BP_TRY(close_file(s, file));
    }
    return BP_OK;
}

/* Their values are those with which a run begins: of the model's files, or drawn. */
static bp_status draw_frozen(session *s)
{
    if (!s->spec.offload.fixed) {
        return BP_OK;
    }
    memory_give_back(&s->host); /* the plan is made once more */
    return session_start(s);
}

/* A file of a package, with what is filled in. */
static void put_filled(FILE *file, const char *text, bool frozen)
{
    static const char version[] = "@VERSION@", mark[] = "@FROZEN@";
    bool inside = false;
    while (*text != '\0') {
        if (strncmp(text, version, sizeof version - 1) == 0) {
            fputs(BP_VERSION, file);
            text += sizeof version - 1;
        } else if (strncmp(text, mark, sizeof mark - 1) == 0) {
            inside = !inside;
            text += sizeof mark - 1;
        } else {
            if (!inside || frozen) {
                fputc(*text, file);
            }
            text++;
        }
    }
}

static bp_status write_package(session *s, const emit_c_package *package)
{
    for (const emit_c_package_file *f = package->files; f->name != NULL; f++) {
        FILE *file = open_file(s, f->name);
        if (file == NULL) {
            return BP_ERR_STORE;
        }
        put_filled(file, f->text, s->plan.report.host.arena_bytes > 0);
        BP_TRY(close_file(s, file));
    }
    return BP_OK;
}

/* DIR and the folders in it. */
static bp_status make_folders(session *s, const emit_c_package *package)
{
    char path[BP_STORE_PATH_MAX];
    if (s->store->make_directory(s->store, s->set->emit_c) != BP_OK) {
        return bp_storage_failed(&s->error, s->store, "mkdir", s->set->emit_c);
    }
    for (uint32_t i = 0; package != NULL && package->folders[i] != NULL; i++) {
        BP_TRY(bp_storage_join(path, s->set->emit_c, package->folders[i], &s->error));
        if (s->store->make_directory(s->store, path) != BP_OK) {
            return bp_storage_failed(&s->error, s->store, "mkdir", path);
        }
    }
    return BP_OK;
}

/* What is the same for every plan; a package has an example of its own. */
static bp_status write_texts(session *s)
{
    const emit_c_package *package = emit_c_package_of(s->set->emit_as);
    for (size_t i = 0; emit_c_texts[i].name != NULL; i++) {
        if (package != NULL && strncmp(emit_c_texts[i].name, "trainer.", 8) != 0) {
            continue;
        }
        FILE *file = emit_open_source(s, emit_c_texts[i].name);
        if (file == NULL) {
            return BP_ERR_STORE;
        }
        fputs(emit_c_texts[i].hash ? emit_c_head_hash : emit_c_head, file);
        fputs(emit_c_texts[i].text, file);
        fputs(emit_c_texts[i].more, file);
        BP_TRY(close_file(s, file));
    }
    FILE *file = emit_open_source(s, "plan.h");
    if (file == NULL) {
        return BP_ERR_STORE;
    }
    put_header(file, s);
    BP_TRY(close_file(s, file));
    return package != NULL ? write_package(s, package) : BP_OK;
}

static bp_status write_tables(emitter *e)
{
    char *ops = NULL;
    size_t bytes = 0;
    e->file = open_memstream(&ops, &bytes);
    if (e->file == NULL) {
        return bp_error_set(&e->s->error, BP_ERR_FIT, where, "no memory for the tables", NULL);
    }
    put_ops(e);
    bp_status status = close_file(e->s, e->file);
    if (status == BP_OK) {
        e->file = emit_open_source(e->s, "plan.c");
        status = e->file == NULL ? BP_ERR_STORE : BP_OK;
    }
    if (status == BP_OK) {
        put_tables(e, ops);
        status = close_file(e->s, e->file);
    }
    free(ops);
    return status;
}

bp_status emit_c_write(session *s)
{
    emitter e = {.s = s, .offsets = {.width = 4}, .scalars = {.width = 8}, .dtypes = {.width = 1}};
    BP_TRY(emit_check(s));
    BP_TRY(draw_frozen(s));
    BP_TRY(make_folders(s, emit_c_package_of(s->set->emit_as)));
    const bp_graph_limits *rows = &s->plan.graph.used;
    e.offsets.bytes = malloc(((size_t)rows->refs + 1) * 4);
    e.scalars.bytes = malloc(((size_t)rows->scalars + 1) * 8);
    e.dtypes.bytes = malloc((size_t)rows->refs + 1);
    bp_status status = BP_ERR_FIT;
    if (e.offsets.bytes != NULL && e.scalars.bytes != NULL && e.dtypes.bytes != NULL) {
        status = write_tables(&e);
    }
    if (status == BP_OK) {
        status = write_texts(s);
    }
    if (status == BP_OK) {
        status = write_frozen(s);
    }
    free(e.dtypes.bytes);
    free(e.scalars.bytes);
    free(e.offsets.bytes);
    return bp_error_set(&s->error, status, where, "no memory for the tables", NULL);
}
