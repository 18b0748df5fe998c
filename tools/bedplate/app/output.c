/* SPDX-License-Identifier: MIT */
/* Writing reports. */
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/app/clock.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bp_status to_stream(void *user, const char *text, size_t length)
{
    FILE *stream = user;
    return fwrite(text, 1, length, stream) == length ? BP_OK : BP_ERR_STORE;
}

/* What output_print writes to, and its arguments that are left. */
typedef struct output_words {
    bp_text text;
    va_list arguments;
} output_words;

/* A text of at most the precision in `spec`, filled to its width on the left. */
static void output_word(output_words *w, const char *spec, const char *word)
{
    const char *dot = strchr(spec, '.');
    const size_t most = dot != NULL ? strtoul(dot + 1, NULL, 10) : SIZE_MAX;
    const unsigned long width = strtoul(spec + 1, NULL, 10);
    size_t length = 0;
    while (length < most && word[length] != '\0') {
        length++;
    }
    bp_text_repeat(&w->text, ' ', width > length ? width - length : 0);
    bp_text_printable(&w->text, word, length);
}

/* One number or text by `spec`, which ends with its kind; length: the letter before it. */
static void output_argument(output_words *w, const char *spec, char kind, const char *length)
{
    char number[64];
    if (kind == 's') {
        output_word(w, spec, va_arg(w->arguments, const char *));
        return;
    }
    if (strchr("fge", kind) != NULL) {
        snprintf(number, sizeof number, spec, va_arg(w->arguments, double));
    } else if (length[0] == 'z') {
        snprintf(number, sizeof number, spec, va_arg(w->arguments, size_t));
    } else if (length[0] == 'l' && length[1] == 'l') {
        snprintf(number, sizeof number, spec, va_arg(w->arguments, unsigned long long));
    } else if (length[0] == 'l') {
        snprintf(number, sizeof number, spec, va_arg(w->arguments, unsigned long));
    } else {
        snprintf(number, sizeof number, spec, va_arg(w->arguments, unsigned));
    }
    if (kind == 'c') {
        bp_text_printable(&w->text, number, strlen(number));
    } else {
        bp_text_string(&w->text, number);
    }
}

void output_print(FILE *stream, const char *format, ...)
{
    char buffer[512]; /* one write for most lines */
    output_words w;
    bp_text_init(&w.text, to_stream, stream, buffer, sizeof buffer);
    va_start(w.arguments, format);
    while (*format != '\0') {
        char spec[32] = "%";
        const char *length = spec;
        size_t used = 1;
        if (*format != '%' || format[1] == '%') {
            bp_text_char(&w.text, *format);
            format += *format == '%' ? 2 : 1;
            continue;
        }
        for (format++; strchr("-+ #.*0123456789lz", *format) != NULL; format++) {
            if (*format == '*') {
                used += (size_t)snprintf(spec + used, 12, "%d", va_arg(w.arguments, int));
                continue;
            }
            length = length == spec && (*format == 'l' || *format == 'z') ? spec + used : length;
            spec[used++] = *format;
        }
        spec[used] = *format;
        spec[used + 1] = '\0';
        output_argument(&w, spec, *format++, length);
    }
    va_end(w.arguments);
    const bp_status status = bp_text_flush(&w.text);
    (void)status; /* as with fprintf, ferror is looked at before the program ends */
}

/* How many bytes stand before the next newline or tab. */
static size_t output_words_bytes(const char *bytes, size_t count)
{
    size_t run = 0;
    while (run < count && bytes[run] != '\n' && bytes[run] != '\t') {
        run++;
    }
    return run;
}

void output_bytes(FILE *stream, const char *bytes, size_t count)
{
    char buffer[512];
    bp_text text;
    if (isatty(fileno(stream)) != 1) {
        (void)fwrite(bytes, 1, count, stream); /* ferror is looked at before the program ends */
        return;
    }
    bp_text_init(&text, to_stream, stream, buffer, sizeof buffer);
    for (size_t at = 0; at < count;) {
        const size_t run = output_words_bytes(bytes + at, count - at);
        bp_text_printable(&text, bytes + at, run);
        at += run;
        if (at < count) {
            bp_text_char(&text, bytes[at++]);
        }
    }
    const bp_status status = bp_text_flush(&text);
    (void)status; /* as above */
}

size_t output_unfinished(const char *bytes, size_t count)
{
    for (size_t back = 1; back <= 3 && back <= count; back++) {
        const unsigned byte = (unsigned char)bytes[count - back];
        if (byte >= 0xc0) {
            return (byte >= 0xf0 ? 4u : byte >= 0xe0 ? 3u : 2u) > back ? back : 0;
        }
        if (byte < 0x80) {
            return 0;
        }
    }
    return 0;
}

static bp_status output_to_terminal(void *user, const char *bytes, size_t count)
{
    output *out = user;
    char whole[sizeof out->held + sizeof out->buffer];
    memcpy(whole, out->held, out->held_count);
    memcpy(whole + out->held_count, bytes, count);
    count += out->held_count;
    out->held_count = output_unfinished(whole, count);
    memcpy(out->held, whole + count - out->held_count, out->held_count);
    output_bytes(out->stream, whole, count - out->held_count);
    return ferror(out->stream) == 0 ? BP_OK : BP_ERR_STORE;
}

void output_begin(output *out, FILE *stream)
{
    const bool terminal = isatty(fileno(stream)) == 1;
    out->stream = stream;
    out->held_count = 0;
    bp_text_init(&out->text, terminal ? output_to_terminal : to_stream,
                 terminal ? (void *)out : (void *)stream, out->buffer, sizeof out->buffer);
    bp_json_put_begin(&out->json, &out->text, BP_JSON_SPACED);
}

void output_end(output *out)
{
    bp_status status = bp_text_flush(&out->text);
    (void)status; /* ferror(stdout) is looked at before the program ends */
    output_bytes(out->stream, out->held, out->held_count);
    fflush(out->stream);
}

void json_begin(output *out)
{
    bp_json_put_open(&out->json, NULL, '{');
}

void json_end(output *out)
{
    bp_json_put_close(&out->json);
    bp_text_char(&out->text, '\n');
}

void json_count(output *out, const char *key, uint64_t value)
{
    bp_json_put_u64(&out->json, key, value);
}

void json_real(output *out, const char *key, double value, unsigned significant)
{
    bp_json_put_real(&out->json, key, value, significant);
}

void json_seconds(output *out, double began, double work)
{
    const double total = clock_seconds() - began;
    json_real(out, "load_seconds", total - work, 9);
    json_real(out, "total_seconds", total, 9);
}

void json_text(output *out, const char *key, const char *value)
{
    bp_json_put_text(&out->json, key, value);
}

void json_flag(output *out, const char *key, bool value)
{
    bp_json_put_flag(&out->json, key, value);
}

bp_status json_written(output *out, const char *key, void (*write)(FILE *stream, const void *user),
                       const void *user)
{
    char *text = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&text, &length);
    if (memory != NULL) {
        write(memory, user);
    }
    const bool whole = memory != NULL && ferror(memory) == 0;
    const bool closed = memory != NULL && fclose(memory) == 0;
    json_text(out, key, whole && closed ? text : "");
    free(text);
    return whole && closed ? BP_OK : BP_ERR_FIT;
}

void json_ids(output *out, const char *key, const int32_t *ids, uint32_t count)
{
    json_list(out, key);
    for (uint32_t i = 0; i < count; i++) {
        bp_json_put_i64(&out->json, NULL, ids[i]);
    }
    json_close(out);
}

void json_open(output *out, const char *key)
{
    bp_json_put_open(&out->json, key, '{');
}

void json_close(output *out)
{
    bp_json_put_close(&out->json);
}

void json_list(output *out, const char *key)
{
    bp_json_put_open(&out->json, key, '[');
}

void json_item(output *out)
{
    bp_json_put_open(&out->json, NULL, '{');
}

void json_list_end(output *out)
{
    bp_json_put_close(&out->json);
}

int report_error(const bp_error *error)
{
    const char *text = error->text != NULL ? error->text : bp_status_text(error->code);
    output_print(stderr, "bedplate: %s%s%s", error->name, error->name[0] != '\0' ? ": " : "", text);
    if (error->numbers && error->right[0] != '\0') {
        output_print(stderr, ": found %" PRId64 ", expected %s", error->found, error->right);
    } else if (error->numbers && error->limit == BP_LIMIT_NONE) {
        output_print(stderr, ": found %" PRId64, error->found);
    } else if (error->numbers) {
        output_print(stderr, ": found %" PRId64 ", expected %s%" PRId64, error->found,
                     bp_limit_words(error->limit), error->wanted);
    } else if (error->right[0] != '\0') {
        const char *found = error->word[0] != '\0' ? "found " : "";
        const char *comma = error->word[0] != '\0' ? ", " : "";
        output_print(stderr, ": %s%s%sexpected %s", found, error->word, comma, error->right);
    } else if (error->word[0] != '\0') {
        output_print(stderr, ": found \"%s\"", error->word);
    }
    output_print(stderr, "\n");
    return bp_status_exit_code(error->code);
}

int report_status(bp_status status, const bp_error *error)
{
    if (status == BP_OK) {
        return 0;
    }
    if (error->code != BP_OK) {
        return report_error(error);
    }
    output_print(stderr, "bedplate: %s\n", bp_status_text(status));
    return bp_status_exit_code(status);
}
