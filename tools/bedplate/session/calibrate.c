/* SPDX-License-Identifier: MIT */
/* Two small programs, timed. */
#include "tools/bedplate/session/calibrate.h"
#include "tools/bedplate/app/clock.h"

#include <stdlib.h>
#include <string.h>

#include "arena/json_write.h"
#include "core/base/json.h"
#include "core/base/storage.h"
#include "tools/bedplate/app/device_choice.h"
#include "tools/bedplate/app/memory.h"
#include "tools/formats/family/family.h"
#include "tools/formats/files/stream_file.h"

#define ROWS_MOST  512u
#define TRIALS     8 /* the fastest counts */
#define TEXT_BYTES 1024
#define PRODUCT    0 /* numbers of the programs */
#define STREAM     1

static const char where[] = "calibrate";

/* A linked op with room for its operands. */
typedef struct call {
    uint64_t offsets[8];
    uint8_t dtypes[8];
    bp_linked_op op;
} call;

typedef struct bench {
    const bp_spec *spec;
    uint64_t rows;
    uint64_t width;
    uint64_t inner;
    bp_matmul_scalars matmul;
    bp_gelu_backward_scalars gelu;
    bp_layernorm_forward_scalars norm;
    call calls[3];
    bp_linked_op streams[2];
    uint64_t arena_bytes;
    memory_block arena;
    memory_block host;
    void *context;
    bool open;
} bench;

static uint64_t calibrate_take(bench *b, uint64_t elements)
{
    uint64_t at = b->arena_bytes;
    b->arena_bytes += bp_size_align(elements * sizeof(float), BP_ARENA_ALIGNMENT);
    return at;
}

static void set_call(call *c, bp_kernel kernel, const void *scalars, const uint64_t *offsets,
                     uint32_t count)
{
    for (uint32_t i = 0; i < 8; i++) {
        c->offsets[i] = i < count ? offsets[i] : BP_OFFSET_ABSENT;
        c->dtypes[i] = BP_F32;
    }
    c->op = (bp_linked_op){kernel, 1, c->offsets, scalars, c->dtypes, BP_OFFSET_ABSENT};
}

/* Operands in the order of kernels.def; the large ones are shared by the programs. */
static void make_calls(bench *b)
{
    const bp_spec *spec = b->spec;
    uint64_t rows = (uint64_t)spec->batch * spec->sequence;
    b->rows = rows < ROWS_MOST ? rows : ROWS_MOST;
    b->width = bp_family_count(&spec->config, BP_ROLE_WIDTH);
    b->inner = bp_family_count(&spec->config, BP_ROLE_INNER);
    b->inner = b->inner != 0 ? b->inner : 4 * b->width;
    b->matmul = (bp_matmul_scalars){.m = (int64_t)b->rows,
                                    .n = (int64_t)b->inner,
                                    .k = (int64_t)b->width,
                                    .lda = (int64_t)b->width,
                                    .ldb = (int64_t)b->inner,
                                    .ldc = (int64_t)b->inner};
    b->gelu = (bp_gelu_backward_scalars){.count = (int64_t)(b->rows * b->inner)};
    b->norm = (bp_layernorm_forward_scalars){
        .rows = (int64_t)b->rows, .width = (int64_t)b->width, .epsilon = 1e-5};
    uint64_t c = calibrate_take(b, b->rows * b->inner);
    uint64_t a = calibrate_take(b, b->rows * b->width);
    uint64_t y = calibrate_take(b, b->rows * b->width);
    uint64_t w = calibrate_take(b, b->width * b->inner);
    uint64_t d = calibrate_take(b, b->rows * b->inner);
    uint64_t x = calibrate_take(b, b->rows * b->inner);
    uint64_t mean = calibrate_take(b, b->rows);
    uint64_t rstd = calibrate_take(b, b->rows);
    uint64_t vector = calibrate_take(b, b->width);
    uint64_t work = b->arena_bytes;
    uint64_t need =
        spec->device->workspace(&spec->device_options, BP_KERNEL_matmul, &b->matmul, NULL);
    b->arena_bytes += bp_size_align(need, BP_ARENA_ALIGNMENT);
    const uint64_t none = BP_OFFSET_ABSENT;
    const uint64_t product[] = {c, none, a, w, none, none, work};
    const uint64_t gelu[] = {c, d, x};
    const uint64_t norm[] = {y, mean, rstd, a, vector, vector};
    set_call(&b->calls[0], BP_KERNEL_matmul, &b->matmul, product, 7);
    set_call(&b->calls[1], BP_KERNEL_gelu_backward, &b->gelu, gelu, 3);
    set_call(&b->calls[2], BP_KERNEL_layernorm_forward, &b->norm, norm, 6);
    b->streams[0] = b->calls[1].op;
    b->streams[1] = b->calls[2].op;
}

static bp_status link_calls(bench *b, bp_error *error)
{
    const bp_device *device = b->spec->device;
    const bp_linked_program product = {&b->calls[0].op, 1};
    const bp_linked_program stream = {b->streams, 2};
    bool supplied = device_takes_memory(b->spec);
    uint64_t context = bp_size_align(device->context_bytes, 64);
    uint64_t link = bp_size_align(device->link_bytes(2, 16, 16), 64);
    BP_TRY(memory_take(&b->host, context + 2 * link, false, "host memory", error));
    if (supplied) {
        BP_TRY(memory_take(&b->arena, b->arena_bytes, true, "arena", error));
    }
    b->context = b->host.address;
    char *memory = (char *)b->host.address + context;
    const bp_regions places = bp_regions_device(b->arena.address, b->arena_bytes);
    BP_TRY(device->open(b->context, &b->spec->device_options, &places, error));
    b->open = true;
    BP_TRY(device->link(b->context, PRODUCT, &product, memory, (size_t)link));
    BP_TRY(device->link(b->context, STREAM, &stream, memory + link, (size_t)link));
    return device->seal(b->context);
}

/* The fastest of some runs; the first of all is not counted. */
static bp_status time_program(bench *b, uint32_t program, double *seconds)
{
    const bp_device *device = b->spec->device;
    *seconds = 1e30;
    for (int i = 0; i <= TRIALS; i++) {
        double began = clock_seconds();
        BP_TRY(device->run(b->context, program));
        BP_TRY(device->wait(b->context));
        double took = clock_seconds() - began;
        *seconds = i > 0 && took < *seconds ? took : *seconds;
    }
    return BP_OK;
}

static bp_status measure(bench *b, bp_rates *rates, bp_error *error)
{
    double product;
    double stream;
    BP_TRY(link_calls(b, error));
    BP_TRY(time_program(b, PRODUCT, &product));
    BP_TRY(time_program(b, STREAM, &stream));
    double elements = (double)b->rows * (double)(3 * b->inner + 2 * b->width);
    rates->flops_per_second = 2.0 * (double)b->rows * (double)b->inner * (double)b->width / product;
    rates->bytes_per_second = elements * sizeof(float) / stream;
    return BP_OK;
}

bp_status calibrate_measure(const bp_spec *spec, bp_rates *rates, bp_error *error)
{
    static bench b;
    b = (bench){.spec = spec};
    make_calls(&b);
    bp_status status = measure(&b, rates, error);
    if (b.open) {
        spec->device->close(b.context);
    }
    memory_give_back(&b.arena);
    memory_give_back(&b.host);
    if (status != BP_OK) {
        return bp_error_set(error, status, where, "the calibration run failed", spec->device->name);
    }
    return BP_OK;
}

/* What the rates hold for: the text of members that must agree. */
static void put_circumstances(bp_text *text, const bp_spec *spec)
{
    const char *variant = spec->device_options.variant;
    bp_text_string(text, spec->device->name);
    bp_text_char(text, ' ');
    bp_text_string(text, variant != NULL ? variant : "auto");
    bp_text_string(text, ", ");
    bp_text_u64(text, spec->device_options.threads);
    bp_text_string(text, " threads, width ");
    bp_text_u64(text, bp_family_count(&spec->config, BP_ROLE_WIDTH));
    bp_text_string(text, ", rows ");
    bp_text_u64(text, (uint64_t)spec->batch * spec->sequence);
}

typedef struct found_rates {
    bp_rates rates;
    bool same;
} found_rates;

static void calibrate_take_member(found_rates *found, const char *key, const bp_json_event *value,
                                  const char *circumstances)
{
    if (strcmp(key, "flops_per_second") == 0) {
        found->rates.flops_per_second = value->real;
    } else if (strcmp(key, "bytes_per_second") == 0) {
        found->rates.bytes_per_second = value->real;
    } else if (strcmp(key, "measured_on") == 0) {
        found->same = value->kind == BP_JSON_TEXT && strcmp(value->text, circumstances) == 0;
    }
}

static bool parse(const char *text, size_t length, const char *circumstances, found_rates *found)
{
    bp_json json;
    bp_json_event event;
    char room[256];
    char key[64] = "";
    bp_json_span span = {text, length};
    const bp_json_source source = {bp_json_span_fill, &span, length};
    const bp_json_memory memory = {.text = room, .text_bytes = sizeof room, .max_depth = 2};
    bp_status status = bp_json_init(&json, &source, &memory, NULL);
    while (status == BP_OK && (status = bp_json_next(&json, &event)) == BP_OK &&
           event.kind != BP_JSON_END) {
        if (event.kind == BP_JSON_KEY) {
            strncpy(key, event.text, sizeof key - 1);
        } else {
            calibrate_take_member(found, key, &event, circumstances);
            key[0] = '\0';
        }
    }
    return status == BP_OK;
}

bool calibrate_read(bp_store *store, const char *directory, const bp_spec *spec, bp_rates *rates)
{
    char path[BP_STORE_PATH_MAX];
    char text[TEXT_BYTES];
    char circumstances[256];
    size_t length = 0;
    bool exists = false;
    found_rates found = {.same = false};
    bp_text out;
    bp_text_init(&out, NULL, NULL, circumstances, sizeof circumstances);
    put_circumstances(&out, spec);
    bool read = bp_text_flush(&out) == BP_OK &&
                bp_storage_join(path, directory, CALIBRATE_FILE, NULL) == BP_OK &&
                store->exists(store, path, &exists) == BP_OK && exists &&
                bp_storage_read_file(store, path, text, sizeof text, &length, NULL) == BP_OK;
    bool good = read && parse(text, length, circumstances, &found) && found.same &&
                found.rates.flops_per_second > 0.0 && found.rates.bytes_per_second > 0.0;
    if (good) {
        *rates = found.rates;
    }
    return good;
}

bp_status calibrate_write(bp_store *store, const char *directory, const bp_spec *spec,
                          const bp_rates *rates, bp_error *error)
{
    char path[BP_STORE_PATH_MAX];
    char text[TEXT_BYTES];
    bp_text out;
    bp_json_writer json;
    bp_text_init(&out, NULL, NULL, text, sizeof text);
    bp_json_put_begin(&json, &out, BP_JSON_SPACED);
    bp_json_put_open(&json, NULL, '{');
    bp_json_put_real(&json, "flops_per_second", rates->flops_per_second, 9);
    bp_json_put_real(&json, "bytes_per_second", rates->bytes_per_second, 9);
    bp_json_put_member(&json, "measured_on");
    bp_text_char(&out, '"');
    put_circumstances(&out, spec);
    bp_text_char(&out, '"');
    bp_json_put_close(&json);
    bp_text_char(&out, '\n');
    BP_TRY(bp_text_flush(&out));
    BP_TRY(bp_storage_join(path, directory, CALIBRATE_FILE, error));
    return bp_replace_file(store, path, text, (size_t)out.written, error);
}
