/* SPDX-License-Identifier: MIT */
/* bedplate embed: a vector for each text. */
#include <math.h>
#include <string.h>

#include "tools/bedplate/sources/data_set.h"
#include "tools/bedplate/app/clock.h"
#include "tools/bedplate/planning/buckets_text.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/session/session.h"
#include "tools/bedplate/app/commands.h"

#define BATCH_DEFAULT 8
#define HEADER_BYTES  128 /* of an npy file */

static const char where[] = "embed";

/* The file of vectors, as it is written. */
typedef struct embed_file {
    const char *path;
    FILE *file;
    bool lines; /* JSON lines, else npy */
    bool normalize;
    uint64_t rows, width;
    output out;
} embed_file;

static bool embed_ends(const char *path, const char *ending)
{
    const size_t length = strlen(path), tail = strlen(ending);
    return length > tail && strcmp(path + length - tail, ending) == 0;
}

/* A row's factor: 1, or what makes its length 1 (F.normalize of torch). */
static double embed_factor(const embed_file *to, const float *x)
{
    double square = 0.0;
    for (uint64_t i = 0; to->normalize && i < to->width; i++) {
        square += (double)x[i] * (double)x[i];
    }
    return to->normalize ? 1.0 / fmax(sqrt(square), 1e-12) : 1.0;
}

static void embed_line(embed_file *to, const float *x, double factor)
{
    json_begin(&to->out);
    json_count(&to->out, "index", to->rows);
    json_list(&to->out, "embedding");
    for (uint64_t i = 0; i < to->width; i++) {
        json_real(&to->out, NULL, (double)(float)((double)x[i] * factor), 9);
    }
    json_list_end(&to->out);
    json_end(&to->out);
}

/* Little-endian float32, whatever this machine's order is. */
static void embed_bytes(embed_file *to, const float *x, double factor)
{
    for (uint64_t i = 0; i < to->width; i++) {
        const float value = (float)((double)x[i] * factor);
        unsigned char bytes[4];
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        for (unsigned k = 0; k < 4; k++) {
            bytes[k] = (unsigned char)(bits >> (8 * k));
        }
        (void)fwrite(bytes, 1, sizeof bytes, to->file); /* ferror is asked at the end */
    }
}

/* A bp_evaluated: groups come in the order of the data. */
static bp_status embed_take(void *user, const bp_runtime *runtime)
{
    embed_file *to = user;
    for (uint32_t i = 0; i < runtime->group.samples; i++) {
        const float *x = runtime->logits_host + (size_t)i * to->width;
        const double factor = embed_factor(to, x);
        if (to->lines) {
            embed_line(to, x, factor);
        } else {
            embed_bytes(to, x, factor);
        }
        to->rows++;
    }
    return BP_OK;
}

/* NumPy's format 1.0. */
static void embed_heading(embed_file *to, uint64_t rows)
{
    char header[HEADER_BYTES];
    memset(header, ' ', sizeof header);
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = HEADER_BYTES - 10;
    header[9] = 0;
    const int n = snprintf(header + 10, HEADER_BYTES - 10,
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (%llu, %llu), }",
                           (unsigned long long)rows, (unsigned long long)to->width);
    header[10 + n] = ' ';
    header[HEADER_BYTES - 1] = '\n';
    (void)fwrite(header, 1, sizeof header, to->file);
}

static bp_status embed_begin(embed_file *to, session *s, uint64_t rows)
{
    to->path = s->set->output;
    to->lines = !embed_ends(to->path, ".npy");
    to->normalize = s->embedder.normalize;
    to->width = s->spec.config.classes;
    to->file = fopen(to->path, "wb");
    if (to->file == NULL) {
        return bp_error_set(&s->error, BP_ERR_STORE, where, "the file cannot be made", to->path);
    }
    if (to->lines) {
        output_begin(&to->out, to->file);
    } else {
        embed_heading(to, rows);
    }
    return BP_OK;
}

static bp_status embed_end(embed_file *to, session *s)
{
    if (to->lines) {
        output_end(&to->out);
    }
    const bool failed = ferror(to->file) != 0;
    const bool closed = fclose(to->file) == 0;
    return failed || !closed ? bp_error_set(&s->error, BP_ERR_STORE, where,
                                            "the file cannot be written", to->path)
                             : BP_OK;
}

static void embed_print(const session *s, const embed_file *to, double seconds)
{
    output out;
    output_begin(&out, stdout);
    if (s->set->json) {
        json_begin(&out);
        json_count(&out, "rows", to->rows);
        json_count(&out, "dimension", to->width);
        json_flag(&out, "normalized", to->normalize);
        json_real(&out, "rows_per_second", (double)to->rows / seconds, 6);
        json_seconds(&out, s->set->began, seconds);
        buckets_json_runs(&out, &s->runtime);
        json_count(&out, "arena_bytes", s->plan.report.arena_bytes);
        json_text(&out, "path", to->path);
        json_end(&out);
    } else {
        bp_text_string(&out.text, to->path);
        bp_text_string(&out.text, ": ");
        bp_text_grouped(&out.text, to->rows);
        bp_text_string(&out.text, " vectors of ");
        bp_text_u64(&out.text, to->width);
        bp_text_string(&out.text, to->normalize ? " numbers, of length 1\n" : " numbers\n");
    }
    output_end(&out);
}

static bp_status embed_check(session *s)
{
    const char *path = s->set->output;
    if (path == NULL) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "the option is needed: where the vectors go", "--output");
    }
    if (!embed_ends(path, ".npy") && !embed_ends(path, ".jsonl")) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "vectors are written as NAME.npy or NAME.jsonl", "--output");
    }
    return BP_OK;
}

static bp_status embed_run(session *s, const bp_feed *feed)
{
    static embed_file to;
    double loss;
    uint64_t targets;
    BP_TRY(embed_begin(&to, s, feed->windows));
    const double began = clock_seconds();
    const bp_status status =
        bp_runtime_evaluate_each(&s->runtime, feed, 0, embed_take, &to, &loss, &targets);
    const double seconds = clock_seconds() - began;
    const bp_status written = embed_end(&to, s);
    BP_TRY(status);
    BP_TRY(written);
    embed_print(s, &to, seconds);
    return BP_OK;
}

static bp_status embed_all(session *s, data_set *data, const settings *set)
{
    BP_TRY(session_begin(s, set));
    BP_TRY(embed_check(s));
    s->spec.batch = set->eval_batch != 0 ? (uint32_t)set->eval_batch : BATCH_DEFAULT;
    s->spec.accumulation = 1;
    s->spec.optimizer = NULL;
    s->spec.evaluate = true;
    BP_TRY(bp_spec_check(&s->spec, &s->error));
    BP_TRY(data_set_open(data, s));
    if (data->main.tokens.head.texts != 1) {
        return bp_error_limit(&s->error, BP_ERR_DATA, where,
                              "a row has several texts: vectors are made of rows with one",
                              data->train->name, data->main.tokens.head.texts, BP_LIMIT_EXACT, 1);
    }
    const uint64_t rows = data->train->examples;
    s->spec.batch = rows < s->spec.batch ? (uint32_t)rows : s->spec.batch;
    bp_feed feed = data_set_feed(data, s, data->train);
    BP_TRY(bp_feed_init(&feed, &s->error));
    BP_TRY(lengths_fill(s, &feed, 1));
    BP_TRY(session_start(s));
    return embed_run(s, &feed);
}

int cmd_embed(const settings *set)
{
    static session s;
    static data_set data;
    static settings own;
    own = *set;
    own.task = "embedding";
    const int code = session_report(&s, embed_all(&s, &data, &own));
    data_set_close(&data);
    session_end(&s);
    return code;
}
