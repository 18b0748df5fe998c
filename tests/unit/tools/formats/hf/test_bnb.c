/* SPDX-License-Identifier: MIT */
/* Weights that bitsandbytes quantised, into a runtime, floats and out; and files that look so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/storage.h"
#include "layers/families/gpt2.h"
#include "tests/fixtures/model_fixture.h"
#include "tests/fixtures/store_faulty.h"
#include "tests/fixtures/store_memory.h"
#include "tests/fixtures/formats/tensors_made.h"
#include "tools/formats/hf/bnb_state.h"
#include "tools/formats/hf/bnb_write.h"
#include "tools/formats/family/family.h"
#include "tools/formats/hf/hf_files.h"
#include "tools/formats/hf/hf_weights.h"
#include "tools/formats/hf/weight_target.h"

enum { SCRATCH_BYTES = 1 << 20 };

static const int32_t tokens[60] = {1, 2, 3};
static const char *const targets[] = {"all-linear"};

typedef struct fixture {
    model_fixture r;
    memory_store memory;
    made_tensors made;
    char *scratch;
    bp_error error;
    bp_hf_location place;
} fixture;

static bp_spec spec_of(bp_quantised form)
{
    bp_spec spec = model_fixture_spec();
    SET_FAMILY(&spec.config, bp_transformer, width, 18); /* blocks that end inside rows */
    spec.lora = (bp_lora){.rank = 2, .alpha = 2.0, .targets = targets, .target_count = 1};
    spec.quantised = form;
    spec.config.quantised = form;
    return spec;
}

static void fixture_of(fixture *d, const bp_spec *spec)
{
    memset(d, 0, sizeof *d);
    model_fixture_open(&d->r, spec, tokens, 60);
    memory_store_init(&d->memory);
    d->scratch = malloc(SCRATCH_BYTES);
    d->place = (bp_hf_location){.store = &d->memory.store,
                                .path = "m",
                                .scratch = {d->scratch, SCRATCH_BYTES},
                                .error = &d->error};
}

static void fixture_open(fixture *d, bp_quantised form)
{
    const bp_spec spec = spec_of(form);
    fixture_of(d, &spec);
}

static void fixture_close(fixture *d)
{
    assert_int_equal(d->memory.open_files, 0);
    made_free(&d->made);
    model_fixture_close(&d->r);
    memory_store_free(&d->memory);
    free(d->scratch);
}

static bool is_own(const fixture *d, uint32_t p)
{
    return d->r.plan.builder.parameters[p].base == BP_NO_PARAMETER;
}

static const char *name_of(const fixture *d, uint32_t p)
{
    const bp_runtime *runtime = &d->r.runtime;
    return bp_graph_name(&runtime->plan->graph, runtime->plan->builder.parameters[p].weight);
}

static bool is_dense(const char *name)
{
    return strstr(name, ".h.") != NULL && strstr(name, ".ln_") == NULL &&
           strstr(name, ".weight") != NULL;
}

static made_tensor *add_part(fixture *d, const char *name, size_t cut, const char *end,
                             bp_dtype dtype, uint32_t rank, uint64_t first, uint64_t second)
{
    char full[128];
    const uint64_t shape[2] = {first, second};
    snprintf(full, sizeof full, "%.*s%s", (int)(strlen(name) - cut), name, end);
    return made_add(&d->made, full, dtype, rank, shape);
}

/* Every kind, and blocks of 32, 128 and 4096. */
static const int forms[] = {BP_QUANTISED_NF4,
                            BP_QUANTISED_NF4_DOUBLE,
                            BP_QUANTISED_INT8,
                            BP_QUANTISED_FP4,
                            BP_QUANTISED_FP4_DOUBLE + 8,
                            57,
                            53};
enum { FORMS = sizeof forms / sizeof forms[0] };

static void fill_bytes(made_tensor *tensor, unsigned seed)
{
    for (uint64_t i = 0; i < made_elements(tensor); i++) {
        tensor->bytes[i] = (unsigned char)(seed + i * 37 + i / 11);
    }
}

static void fill_floats(made_tensor *tensor, float first)
{
    for (uint64_t i = 0; i < made_elements(tensor); i++) {
        float x = first + 0.01f * (float)(i % 19);
        memcpy(tensor->bytes + 4 * i, &x, 4);
    }
}

static void add_four(fixture *d, const char *name, uint64_t rows, uint64_t columns,
                     bp_quantised form)
{
    const bool nested = bp_quantised_nests(form), fp4 = bp_quantised_kind(form) >= BP_QUANTISED_FP4;
    const uint64_t size = bp_quantised_block(form), count = rows * columns;
    const uint64_t blocks = (count + size - 1) / size;
    char text[BP_BNB_STATE_MAX];
    const bp_bnb_state state = {rows, columns, BP_F16, fp4, nested, size, 0.25};
    const char *end = fp4 ? ".quant_state.bitsandbytes__fp4" : ".quant_state.bitsandbytes__nf4";
    const size_t length = bp_bnb_state_write(&state, text);
    fill_bytes(add_part(d, name, 0, "", BP_U8, 2, (count + 1) / 2, 1), (unsigned)rows);
    const float *book = bp_quantised_codebook(form);
    memcpy(add_part(d, name, 0, ".quant_map", BP_F32, 1, 16, 0)->bytes, book, sizeof bp_nf4);
    memcpy(add_part(d, name, 0, end, BP_U8, 1, length, 0)->bytes, text, length);
    made_tensor *absmax = add_part(d, name, 0, ".absmax", nested ? BP_U8 : BP_F32, 1, blocks, 0);
    if (!nested) {
        fill_floats(absmax, 0.125f);
        return;
    }
    fill_bytes(absmax, 3);
    fill_floats(add_part(d, name, 0, ".nested_absmax", BP_F32, 1, (blocks + 255) / 256, 0), 0.5f);
    fill_floats(add_part(d, name, 0, ".nested_quant_map", BP_F32, 1, 256, 0), -1.0f);
}

static void add_int8(fixture *d, const char *name, uint64_t rows, uint64_t columns)
{
    fill_bytes(add_part(d, name, 0, "", BP_I8, 2, rows, columns), (unsigned)rows);
    fill_floats(add_part(d, name, 6, "SCB", BP_F32, 1, rows, 0), 0.75f);
    (void)add_part(d, name, 6, "weight_format", BP_U8, 0, 0, 0);
}

/* The model_fixture's model as bitsandbytes writes it: a dense layer of GPT-2, (in, out), lies as
 * (out, in).
 */
static void add_model(fixture *d, bp_quantised form)
{
    const bp_runtime *runtime = &d->r.runtime;
    for (uint32_t p = 0; p < runtime->plan->builder.parameter_count && is_own(d, p); p++) {
        const bp_parameter *parameter = &runtime->plan->builder.parameters[p];
        const uint64_t *shape = parameter->shape;
        const char *name = name_of(d, p);
        if (form == BP_QUANTISED_NONE || !is_dense(name)) {
            made_add_values(&d->made, name, BP_F32, parameter->rank, shape, p);
        } else if (form == BP_QUANTISED_INT8) {
            add_int8(d, name, shape[1], shape[0]);
        } else {
            add_four(d, name, shape[1], shape[0], form);
        }
    }
}

static made_tensor *find(fixture *d, const char *end)
{
    for (size_t i = 0; i < d->made.count; i++) {
        size_t length = strlen(d->made.list[i].name), tail = strlen(end);
        if (length >= tail && strcmp(d->made.list[i].name + length - tail, end) == 0) {
            return &d->made.list[i];
        }
    }
    fail_msg("no tensor ends with %s", end);
    return NULL;
}

static bp_status load(fixture *d)
{
    d->error = (bp_error){.code = BP_OK};
    made_write(&d->made, 0, d->made.count, &d->memory.store, "m");
    return bp_hf_weights_load(&d->r.runtime, &d->place);
}

/* A made tensor's values by core/ops/quantised.h. */
static bp_quantised_matrix matrix_of(fixture *d, const char *name, bp_quantised form,
                                     float nested[BP_NESTED_SCALES + 1])
{
    char full[128];
    bp_quantised_matrix m = {.form = form};
    m.codes = find(d, name)->bytes;
    if (form == BP_QUANTISED_INT8) {
        m.columns = find(d, name)->shape[1];
        snprintf(full, sizeof full, "%.*sSCB", (int)(strlen(name) - 6), name);
        m.scales = find(d, full)->bytes;
        return m;
    }
    snprintf(full, sizeof full, "%s.absmax", name);
    m.scales = find(d, full)->bytes;
    if (bp_quantised_nests(form)) {
        nested[0] = 0.25f;
        snprintf(full, sizeof full, "%s.nested_quant_map", name);
        memcpy(nested + BP_NESTED_MAP, find(d, full)->bytes, 1024);
        snprintf(full, sizeof full, "%s.nested_absmax", name);
        memcpy(nested + BP_NESTED_SCALES, find(d, full)->bytes, 4); /* fewer than 257 blocks */
        m.nested = nested;
    }
    return m;
}

/* verifies formats-13.dd0a */
static void codes_go_in_bit_for_bit(void **state)
{
    (void)state;
    for (int n = 0, form = forms[0]; n < FORMS; form = forms[++n % FORMS]) {
        fixture d;
        fixture_open(&d, (bp_quantised)form);
        add_model(&d, (bp_quantised)form);
        assert_int_equal(load(&d), BP_OK);
        for (uint32_t p = 0; p < d.r.plan.builder.parameter_count && is_own(&d, p); p++) {
            float nested[BP_NESTED_SCALES + 1], values[200];
            if (!bp_build_quantised(&d.r.plan.builder, p)) {
                continue;
            }
            const bp_quantised_matrix m = matrix_of(&d, name_of(&d, p), (bp_quantised)form, nested);
            assert_int_equal(bp_runtime_dequantise(&d.r.runtime, p, 5, values, 200), BP_OK);
            for (uint64_t i = 0; i < 200; i++) {
                assert_true(values[i] == bp_quantised_value(&m, 5 + i));
            }
            assert_int_equal(bp_runtime_put_weight(&d.r.runtime, p, 0, values, 1), BP_ERR_USAGE);
            assert_int_equal(bp_runtime_get_weight(&d.r.runtime, p, 0, values, 1), BP_ERR_USAGE);
        }
        fixture_close(&d);
    }
}

/* A run without quantisation takes the values, turned back to (in, out). */
/* verifies formats-13.dd0a */
static void codes_become_floats(void **state)
{
    (void)state;
    for (int n = 0, form = forms[0]; n < FORMS; form = forms[++n % FORMS]) {
        fixture d;
        fixture_open(&d, BP_QUANTISED_NONE);
        add_model(&d, (bp_quantised)form);
        assert_int_equal(load(&d), BP_OK);
        for (uint32_t p = 0; p < d.r.plan.builder.parameter_count && is_own(&d, p); p++) {
            const bp_parameter *parameter = &d.r.plan.builder.parameters[p];
            float nested[BP_NESTED_SCALES + 1], value;
            if (!is_dense(name_of(&d, p))) {
                continue;
            }
            const bp_quantised_matrix m = matrix_of(&d, name_of(&d, p), (bp_quantised)form, nested);
            for (uint64_t i = 0; i < parameter->count; i++) {
                uint64_t in = i / parameter->shape[1], out = i % parameter->shape[1];
                assert_int_equal(bp_runtime_get_weight(&d.r.runtime, p, i, &value, 1), BP_OK);
                assert_true(value == bp_quantised_value(&m, out * parameter->shape[0] + in));
            }
        }
        fixture_close(&d);
    }
}

/* What is wrong with a tensor. */
typedef enum fault { FAULT_SIZE, FAULT_TYPE, FAULT_GONE, FAULT_NAN, FAULT_BYTE, FAULT_STATE } fault;

typedef struct bad_file {
    bp_quantised form;
    const char *tensor;
    fault fault;
    const char *state; /* FAULT_STATE: the JSON */
    const char *word;  /* that the message holds */
} bad_file;

#define NF4    BP_QUANTISED_NF4
#define DOUBLE BP_QUANTISED_NF4_DOUBLE
#define INT8   BP_QUANTISED_INT8
#define STATE  "c_attn.weight.quant_state.bitsandbytes__nf4"

static const bad_file bad_files[] = {
    {NF4, "c_attn.weight", FAULT_SIZE, NULL, "number of elements"},
    {NF4, "c_attn.weight.absmax", FAULT_SIZE, NULL, "number of elements"},
    {NF4, "c_attn.weight.absmax", FAULT_TYPE, NULL, "another type"},
    {NF4, "c_attn.weight.absmax", FAULT_GONE, NULL, "no absmax"},
    {NF4, "c_attn.weight.absmax", FAULT_NAN, NULL, "not a number"},
    {NF4, "c_attn.weight.quant_map", FAULT_GONE, NULL, "no quant_map"},
    {NF4, "c_attn.weight.quant_map", FAULT_BYTE, NULL, "not those of NF4"},
    {NF4, STATE, FAULT_GONE, NULL, "shape differs"},
    {NF4, STATE, FAULT_TYPE, NULL, "must be U8"},
    {DOUBLE, "c_attn.weight.nested_absmax", FAULT_SIZE, NULL, "number of elements"},
    {DOUBLE, "c_attn.weight.nested_absmax", FAULT_GONE, NULL, "no nested_absmax"},
    {DOUBLE, "c_attn.weight.nested_absmax", FAULT_NAN, NULL, "not a number"},
    {DOUBLE, "c_attn.weight.nested_quant_map", FAULT_SIZE, NULL, "number of elements"},
    {DOUBLE, "c_attn.weight.nested_quant_map", FAULT_GONE, NULL, "no nested_quant_map"},
    {DOUBLE, "c_attn.weight.nested_quant_map", FAULT_NAN, NULL, "not a number"},
    {INT8, "c_attn.SCB", FAULT_SIZE, NULL, "number of elements"},
    {INT8, "c_attn.SCB", FAULT_TYPE, NULL, "another type"},
    {INT8, "c_attn.SCB", FAULT_GONE, NULL, "shape differs"},
    {INT8, "c_attn.SCB", FAULT_NAN, NULL, "not a number"},
    {INT8, "c_attn.weight_format", FAULT_BYTE, NULL, "weight_format"},
    {INT8, "c_attn.weight_format", FAULT_TYPE, NULL, "another type"},
    {NF4, STATE, FAULT_STATE, "{}", "missing"},
    {NF4, STATE, FAULT_STATE,
     "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"float32\", "
     "\"shape\": [1099511627775, 1099511627775]}",
     "number of elements"},
};

static void replace(made_tensor *tensor, const char *text)
{
    free(tensor->bytes);
    tensor->bytes = (unsigned char *)calloc(strlen(text) + 1, 1);
    memcpy(tensor->bytes, text, strlen(text));
    tensor->rank = 1;
    tensor->shape[0] = strlen(text);
}

static void spoil(fixture *d, const bad_file *bad)
{
    made_tensor *tensor = find(d, bad->tensor);
    switch (bad->fault) {
    case FAULT_SIZE:
        tensor->shape[0]--;
        break;
    case FAULT_TYPE:
        tensor->dtype = tensor->dtype == BP_F32 ? BP_I32 : BP_BOOL;
        break;
    case FAULT_GONE:
        tensor->name[0] = 'x';
        break;
    case FAULT_NAN:
        memset(tensor->bytes, 0xff, 4);
        break;
    case FAULT_BYTE:
        tensor->bytes[0] ^= 1;
        break;
    default:
        replace(tensor, bad->state);
        break;
    }
}

/* verifies formats-13.dd0a */
static void bad_parts_are_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_files / sizeof bad_files[0]; i++) {
        const bad_file *bad = &bad_files[i];
        fixture d;
        fixture_open(&d, bad->form);
        add_model(&d, bad->form);
        spoil(&d, bad);
        if (bad->fault == FAULT_GONE) {
            d.place.allow = BP_ALLOW_UNEXPECTED; /* what bears another name is nobody's */
        }
        bp_status status = load(&d);
        if (status != BP_ERR_DATA || strstr(d.error.text, bad->word) == NULL) {
            fail_msg("case %zu: %d %s (%s)", i, (int)status,
                     d.error.text != NULL ? d.error.text : "", d.error.name);
        }
        assert_non_null(strstr(d.error.name, "transformer.h.0.attn.c_attn"));
        fixture_close(&d);
    }
}

/* verifies formats-13.dd0a */
static void other_forms_are_refused(void **state)
{
    (void)state;
    fixture d;
    fixture_open(&d, NF4);
    add_model(&d, DOUBLE);
    assert_true(load(&d) == BP_ERR_DATA && strstr(d.error.text, "another form") != NULL);
    fixture_close(&d);
    fixture_open(&d, NF4);
    add_model(&d, NF4);
    d.place.allow = BP_ALLOW_UNEXPECTED; /* floats beside codes */
    strcpy(find(&d, "h.0.attn.c_attn.weight")->name, "codes");
    made_add(&d.made, "transformer.h.0.attn.c_attn.weight", BP_F32, 2, (uint64_t[]){18, 54});
    assert_true(load(&d) == BP_ERR_DATA && strstr(d.error.text, "and others are") != NULL);
    fixture_close(&d);
}

/* verifies formats-30.16f4 */
static void too_large_for_eight_bits(void **state)
{
    (void)state;
    fixture d;
    fixture_open(&d, INT8);
    add_model(&d, BP_QUANTISED_NONE);
    const float large = 70000.0f;
    memcpy(find(&d, "h.0.attn.c_attn.weight")->bytes, &large, sizeof large);
    assert_int_equal(load(&d), BP_ERR_DATA);
    assert_non_null(strstr(d.error.text, "too large"));
    float values[64] = {0.0f};
    const uint32_t dense = 4; /* wte, wpe, ln_1 and its bias come before */
    assert_true(bp_build_quantised(&d.r.plan.builder, dense));
    assert_int_equal(bp_runtime_quantise(&d.r.runtime, dense, 0, 3, values, 61), BP_ERR_USAGE);
    assert_int_equal(bp_runtime_quantise(&d.r.runtime, dense, 0, 0, values, 63), BP_ERR_USAGE);
    assert_int_equal(bp_runtime_quantise(&d.r.runtime, 0, 0, 0, values, 64), BP_ERR_USAGE);
    fixture_close(&d);
}

/* An export fixture over the file "m". */
typedef struct port {
    bp_tensor_set set;
    bp_parameters parameters;
    bp_weight_source source;
    bp_weight_target target;
    bp_staging room;
    char *memory;
    char *work;
} port;

static void port_open(port *p, fixture *d, const char *path, bp_quantised form)
{
    const bp_model_config *config = &d->r.plan.spec.config;
    const bp_tensor_naming *naming = &bp_family_find("gpt2")->naming;
    *p = (port){.memory = malloc(SCRATCH_BYTES), .work = malloc(SCRATCH_BYTES)};
    p->room = (bp_staging){p->memory, SCRATCH_BYTES};
    assert_int_equal(
        bp_parameters_list(&bp_model_gpt2, config, &p->room, &p->parameters, &d->error), BP_OK);
    assert_int_equal(bp_hf_open(&p->set, d->place.store, path, &p->room, &d->error), BP_OK);
    const bp_match m = {.set = &p->set,
                        .naming = naming,
                        .wanted = p->parameters.list,
                        .count = p->parameters.count,
                        .heads = {2, 2, 0},
                        .input_major = true,
                        .work = {p->work, SCRATCH_BYTES}};
    assert_int_equal(bp_tensor_match(&m), BP_OK);
    p->source = (bp_weight_source){.set = &p->set,
                                   .list = p->parameters.list,
                                   .count = p->parameters.count,
                                   .heads = m.heads,
                                   .input_major = true};
    p->target = (bp_weight_target){.store = &d->memory.store,
                                   .path = "out",
                                   .keep = true,
                                   .form = form,
                                   .work = {p->work, SCRATCH_BYTES},
                                   .error = &d->error};
}

static bp_status port_run(port *p)
{
    return bp_hf_export(&p->source, &bp_family_find("gpt2")->naming, &p->target);
}

static void port_close(port *p)
{
    assert_int_equal(bp_tensor_set_close(&p->set), BP_OK);
    free(p->memory);
    free(p->work);
}

static unsigned char *file_of(fixture *d, const char *path, size_t *bytes)
{
    unsigned char *all = malloc(SCRATCH_BYTES);
    assert_int_equal(
        bp_storage_read_file(&d->memory.store, path, all, SCRATCH_BYTES, bytes, &d->error), BP_OK);
    return all;
}

/* A quantised file written again is the same file. */
/* verifies formats-13.dd0a */
static void what_is_quantised_stays(void **state)
{
    (void)state;
    for (int n = 0, form = forms[0]; n < FORMS; form = forms[++n % FORMS]) {
        fixture d;
        port p;
        size_t before = 0, after = 0;
        fixture_open(&d, (bp_quantised)form);
        add_model(&d, (bp_quantised)form);
        assert_int_equal(load(&d), BP_OK);
        port_open(&p, &d, "m", (bp_quantised)form);
        assert_int_equal(port_run(&p), BP_OK);
        unsigned char *old = file_of(&d, "m", &before), *new = file_of(&d, "out", &after);
        assert_int_equal(before, after);
        assert_memory_equal(old, new, before);
        free(old);
        free(new);
        port_close(&p);
        fixture_close(&d);
    }
}

/* Of the bytes of all quantised weights. */
static uint64_t codes_digest(fixture *d)
{
    const bp_graph *graph = &d->r.plan.graph;
    uint64_t digest = 1469598103934665603u;
    for (uint32_t i = 0; i < graph->used.buffers; i++) {
        const bp_buffer *buffer = &graph->buffers[i];
        if (buffer->class_of == BP_CLASS_WEIGHTS && is_dense(bp_graph_name(graph, i)) &&
            buffer->scope == BP_SCOPE_CONSTANT) {
            unsigned char *bytes = model_fixture_read(&d->r, i);
            for (uint64_t k = 0; k < buffer->bytes; k++) {
                digest = (digest ^ bytes[k]) * 1099511628211u;
            }
            free(bytes);
        }
    }
    return digest;
}

/* Quantising on the way into a file and on the way into a runtime give the same codes. */
/* verifies formats-13.dd0a */
static void floats_are_quantised_alike(void **state)
{
    (void)state;
    for (int n = 0, form = forms[0]; n < FORMS; form = forms[++n % FORMS]) {
        fixture d;
        port p;
        fixture_open(&d, (bp_quantised)form);
        add_model(&d, BP_QUANTISED_NONE);
        assert_int_equal(load(&d), BP_OK);
        const uint64_t digest = codes_digest(&d);
        port_open(&p, &d, "m", (bp_quantised)form);
        assert_int_equal(port_run(&p), BP_OK);
        port_close(&p);
        d.place.path = "out";
        assert_int_equal(bp_runtime_initialize(&d.r.runtime), BP_OK);
        assert_true(codes_digest(&d) != digest);
        assert_int_equal(bp_hf_weights_load(&d.r.runtime, &d.place), BP_OK);
        assert_true(codes_digest(&d) == digest);
        fixture_close(&d);
    }
}

/* The port's file, written in `work` bytes. */
static unsigned char *written_in(port *p, fixture *d, size_t work, size_t *bytes)
{
    p->target.work.capacity = work;
    if (port_run(p) != BP_OK) {
        fail_msg("%zu: %s: %s", work, d->error.name, d->error.text);
    }
    return file_of(d, "out", bytes);
}

/* A piece of a part holds its own bytes alone, wherever it begins and ends. */
/* verifies formats-13.dd0a */
static void pieces_hold_their_own_bytes(void **state)
{
    (void)state;
    enum { MOST = 4096, GUARD = 0x5a, INDEX = 4 }; /* the first dense layer */
    for (int n = 0, form = forms[0]; n < FORMS; form = forms[++n % FORMS]) {
        fixture d;
        port p;
        bp_tensor_entry entries[BP_BNB_PARTS];
        float offsets[64];
        size_t parts;
        fixture_open(&d, (bp_quantised)form);
        add_model(&d, BP_QUANTISED_NONE);
        made_write(&d.made, 0, d.made.count, &d.memory.store, "m");
        port_open(&p, &d, "m", (bp_quantised)form);
        bp_bnb_writing w = {.source = &p.source,
                            .form = (bp_quantised)form,
                            .raw = {p.work, SCRATCH_BYTES},
                            .offsets = offsets};
        assert_true(p.source.count <= 64 && bp_bnb_goes(&w, INDEX));
        assert_int_equal(bp_bnb_list(&w, INDEX, "t.weight", &p.room, entries, &parts), BP_OK);
        for (size_t i = 0; i < parts; i++) {
            static unsigned char all[MOST], some[MOST];
            size_t bytes = bp_dtype_bytes(entries[i].dtype);
            for (uint32_t r = 0; r < entries[i].rank; r++) {
                bytes *= entries[i].shape[r];
            }
            assert_true(bytes <= MOST);
            assert_int_equal(bp_bnb_give(&w, entries[i].handle, 0, all, bytes), BP_OK);
            for (size_t first = 0; first < bytes; first += 1 + bytes / 7) {
                const size_t count = 1 + (bytes - first) / 3;
                memset(some, GUARD, sizeof some);
                assert_int_equal(bp_bnb_give(&w, entries[i].handle, first, some + 64, count),
                                 BP_OK);
                assert_memory_equal(some + 64, all + first, count);
                for (size_t k = 0; k < sizeof some; k++) {
                    assert_true(some[k] == GUARD || (k >= 64 && k < 64 + count));
                }
            }
        }
        port_close(&p);
        fixture_close(&d);
    }
}

/* Of matrices with more scales than share one: in little memory, where a part comes in pieces, the
 * file is that of much memory. */
/* verifies formats-13.dd0a */
static void little_memory_writes_the_same_file(void **state)
{
    (void)state;
    static const int kinds[] = {NF4, BP_QUANTISED_NF4_DOUBLE, INT8};
    for (size_t n = 0; n < sizeof kinds / sizeof kinds[0]; n++) {
        fixture d;
        port p;
        size_t much = 0, little = 0;
        bp_spec spec = spec_of((bp_quantised)kinds[n]);
        SET_FAMILY(&spec.config, bp_transformer, width, 84); /* 331 scales in the least matrix */
        fixture_of(&d, &spec);
        add_model(&d, BP_QUANTISED_NONE);
        made_write(&d.made, 0, d.made.count, &d.memory.store, "m");
        port_open(&p, &d, "m", (bp_quantised)kinds[n]);
        unsigned char *one = written_in(&p, &d, SCRATCH_BYTES, &much);
        for (size_t work = 50000; work < 100000; work += 7001) {
            unsigned char *other = written_in(&p, &d, work, &little);
            assert_int_equal(little, much);
            assert_memory_equal(one, other, much);
            free(other);
        }
        free(one);
        port_close(&p);
        fixture_close(&d);
    }
}

/* A block, or a row of 8 bits, needs its room. */
/* verifies formats-30.16f4 */
static void a_block_needs_its_room(void **state)
{
    (void)state;
    fixture d;
    port p;
    fixture_open(&d, (bp_quantised)forms[FORMS - 1]);
    add_model(&d, BP_QUANTISED_NONE);
    made_write(&d.made, 0, d.made.count, &d.memory.store, "m");
    port_open(&p, &d, "m", (bp_quantised)forms[FORMS - 1]);
    p.target.work.capacity = 60000;
    assert_int_equal(port_run(&p), BP_ERR_FIT);
    assert_string_equal(d.error.text, "the memory for writing weights is too small");
    if (strstr(d.error.name, "c_attn.weight") == NULL) {
        fail_msg("%s", d.error.name);
    }
    port_close(&p);
    fixture_close(&d);
}

/* verifies formats-30.16f4 */
static void bad_floats_are_not_quantised(void **state)
{
    (void)state;
    static const uint32_t bits[] = {0x7fc00000u, 0x47800000u}; /* NaN; 65536, too large for fp16 */
    for (int i = 0; i < 2; i++) {
        fixture d;
        port p;
        fixture_open(&d, INT8);
        add_model(&d, BP_QUANTISED_NONE);
        memcpy(find(&d, "h.1.mlp.c_fc.weight")->bytes + 40, &bits[i], 4);
        assert_int_equal(load(&d), BP_ERR_DATA);
        d.error = (bp_error){.code = BP_OK};
        port_open(&p, &d, "m", INT8);
        assert_int_equal(port_run(&p), BP_ERR_DATA);
        assert_non_null(strstr(d.error.name, "h.1.mlp.c_fc.weight"));
        d.error = (bp_error){.code = BP_OK};
        p.target.work.capacity = 9000;
        assert_int_equal(port_run(&p), BP_ERR_FIT);
        port_close(&p);
        fixture_close(&d);
    }
}

/* Loading (export: writing) with the n-th read failing, for every n. */
static void fail_each_read(bp_quantised stored, bp_quantised kept, bool export)
{
    fixture d;
    faulty_store f;
    fixture_open(&d, kept);
    add_model(&d, stored);
    made_write(&d.made, 0, d.made.count, &d.memory.store, "m");
    faulty_store_init(&f, &d.memory.store);
    bp_status status = BP_ERR_STORE;
    for (size_t n = 1; status != BP_OK; n += 1 + n / 16) {
        port p = {.memory = NULL};
        d.place.store = &f.store;
        d.error = (bp_error){.code = BP_OK};
        faulty_store_arm(&f, FAULT_READ_AT, 0, false);
        if (export) {
            port_open(&p, &d, "m", kept);
        }
        faulty_store_arm(&f, FAULT_READ_AT, n, false);
        status = export ? port_run(&p) : bp_hf_weights_load(&d.r.runtime, &d.place);
        assert_true(n > 1 || status != BP_OK); /* something is read */
        assert_int_equal(status, f.failures > 0 ? BP_ERR_STORE : BP_OK);
        if (export) {
            port_close(&p);
        }
    }
    fixture_close(&d);
}

/* verifies formats-24.7573 */
static void every_failing_read_is_reported(void **state)
{
    (void)state;
    for (int n = 0, form = forms[0]; n < FORMS; form = forms[++n % FORMS]) {
        fail_each_read((bp_quantised)form, (bp_quantised)form, false);
        fail_each_read((bp_quantised)form, BP_QUANTISED_NONE, false);
        fail_each_read(BP_QUANTISED_NONE, (bp_quantised)form, false);
        fail_each_read((bp_quantised)form, (bp_quantised)form, true);
        fail_each_read(BP_QUANTISED_NONE, (bp_quantised)form, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_go_in_bit_for_bit),
        cmocka_unit_test(codes_become_floats),
        cmocka_unit_test(bad_parts_are_refused_by_name),
        cmocka_unit_test(other_forms_are_refused),
        cmocka_unit_test(too_large_for_eight_bits),
        cmocka_unit_test(what_is_quantised_stays),
        cmocka_unit_test(floats_are_quantised_alike),
        cmocka_unit_test(pieces_hold_their_own_bytes),
        cmocka_unit_test(little_memory_writes_the_same_file),
        cmocka_unit_test(a_block_needs_its_room),
        cmocka_unit_test(bad_floats_are_not_quantised),
        cmocka_unit_test(every_failing_read_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
