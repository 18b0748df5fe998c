/* SPDX-License-Identifier: MIT */
/* Command lines and configuration files. */
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/app/output.h"

#include <stdio.h>
#include <string.h>

#define FILE_BYTES_MAX 65536
#define WORD_MAX       64

/* Levenshtein distance of two words of fewer than WORD_MAX characters, - and _ alike. */
static unsigned distance(const char *a, size_t a_length, const char *b)
{
    unsigned row[WORD_MAX + 1];
    size_t b_length = strlen(b);
    for (size_t j = 0; j <= b_length; j++) {
        row[j] = (unsigned)j;
    }
    for (size_t i = 0; i < a_length; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i + 1;
        char c = a[i] == '_' ? '-' : a[i];
        for (size_t j = 0; j < b_length; j++) {
            unsigned change = diagonal + (c == b[j] ? 0 : 1);
            unsigned least = row[j] < row[j + 1] ? row[j] + 1 : row[j + 1] + 1;
            diagonal = row[j + 1];
            row[j + 1] = change < least ? change : least;
        }
    }
    return row[b_length];
}

/* How many letters of a word may be wrong: one, and one more for every five of the shorter word.
 * Beyond that it is another word, and a suggestion would only confuse. */
static unsigned near_enough(size_t a, size_t b)
{
    return 1 + (unsigned)((a < b ? a : b) / 5);
}

/* What an option of version 0.1 is called now; NULL: it was none. `below` begins several names. */
static const char *former_name(const char *found, size_t length, char to[64])
{
    static const char *const names[][2] = {{"below", "offload"}, {"lanes", "virtual-ranks"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const size_t old = strlen(names[i][0]);
        if (length >= old && strncmp(found, names[i][0], old) == 0 &&
            (length == old || found[old] == '-')) {
            (void)snprintf(to, 64, "%s%.*s", names[i][1], (int)(length - old), found + old);
            return to;
        }
    }
    return NULL;
}

void options_unknown(const char *what, const char *found, const char *const *candidates,
                     uint32_t count)
{
    size_t length = strcspn(found, "=");
    const char *nearest = NULL;
    unsigned best = WORD_MAX;
    for (uint32_t i = 0; i < count && length < WORD_MAX; i++) {
        unsigned d = distance(found, length, candidates[i]);
        if (d < best) {
            best = d;
            nearest = candidates[i];
        }
    }
    const char *dashes = strcmp(what, "option") == 0 ? "--" : "";
    char room[64];
    const char *former = dashes[0] != '\0' ? former_name(found, length, room) : NULL;
    if (former != NULL) {
        nearest = former;
        best = 0;
    }
    output_print(stderr, "bedplate: %s%.*s: unknown %s", dashes, (int)length, found, what);
    if (nearest != NULL && best <= near_enough(length, strlen(nearest))) {
        output_print(stderr, " (the nearest is %s%s)", dashes, nearest);
    } else if (dashes[0] == '\0') {
        for (uint32_t i = 0; i < count; i++) {
            output_print(stderr, "%s%s", i == 0 ? " (right would be " : ", ", candidates[i]);
        }
        output_print(stderr, ")");
    }
    output_print(stderr, "\n");
}

static void unknown_option(const char *found, unsigned commands)
{
    const char *names[SETTINGS_OPTIONS_MAX];
    uint32_t count = 0;
    const option *which;
    for (uint32_t i = 0; (which = option_at(i)) != NULL; i++) {
        if ((which->commands & commands) != 0) {
            names[count++] = which->name;
        }
    }
    options_unknown("option", found, names, count);
}

typedef struct reading {
    settings *set;
    char **arguments;
    int count;
    int at;
    bool given[SETTINGS_OPTIONS_MAX];
    uint32_t also; /* commands whose options are taken as well */
} reading;

static bp_status take_paths(reading *r, const option *which, const char *origin)
{
    if (r->at == r->count || strncmp(r->arguments[r->at], "--", 2) == 0) {
        output_print(stderr, "bedplate: %s: the option needs at least one file\n", origin);
        return BP_ERR_USAGE;
    }
    while (r->at < r->count && strncmp(r->arguments[r->at], "--", 2) != 0) {
        BP_TRY(option_set(which, r->set, r->arguments[r->at++], origin));
    }
    return BP_OK;
}

/* `value` is what stands behind =, or NULL. */
static bp_status options_take_value(reading *r, const option *which, const char *value,
                                    const char *origin)
{
    if (value != NULL) {
        return option_set(which, r->set, value, origin);
    }
    if (which->kind == OPTION_FLAG) {
        return option_set(which, r->set, "true", origin);
    }
    bool ends = r->at == r->count || strncmp(r->arguments[r->at], "--", 2) == 0;
    if ((which->kind == OPTION_MAYBE || which->kind == OPTION_TEXT_MAYBE) && ends) {
        return option_set(which, r->set, "true", origin);
    }
    if (which->kind == OPTION_PATHS) {
        return take_paths(r, which, origin);
    }
    if (ends) {
        output_print(stderr, "bedplate: %s: the option needs a value (%s)\n", origin,
                     which->choices);
        return BP_ERR_USAGE;
    }
    return option_set(which, r->set, r->arguments[r->at++], origin);
}

static bp_status take_option(reading *r, const char *text)
{
    size_t length = strcspn(text, "=");
    const option *which = option_find(text, length);
    if (which == NULL) {
        unknown_option(text, r->set->command);
        return BP_ERR_USAGE;
    }
    char origin[WORD_MAX];
    snprintf(origin, sizeof origin, "--%s", which->name);
    if ((which->commands & (r->set->command | r->also)) == 0) {
        output_print(stderr, "bedplate: %s: this command does not take the option\n", origin);
        return BP_ERR_USAGE;
    }
    r->given[option_index(which)] = true;
    r->set->given[option_index(which)] = true;
    return options_take_value(r, which, text[length] == '=' ? text + length + 1 : NULL, origin);
}

/* plan --unit prints a run: it takes what a run takes, wherever it stands. */
static uint32_t options_also(const settings *set, int count, char **arguments)
{
    bool unit = false;
    for (int i = 0; i < count; i++) {
        unit =
            unit || strcmp(arguments[i], "--unit") == 0 || strncmp(arguments[i], "--unit=", 7) == 0;
    }
    return unit && set->command == COMMAND_PLAN ? COMMAND_TRAIN : 0;
}

bp_status options_parse(settings *set, int count, char **arguments)
{
    reading r = {.set = set, .arguments = arguments, .count = count};
    r.also = options_also(set, count, arguments);
    while (r.at < r.count) {
        const char *text = r.arguments[r.at++];
        if (strcmp(text, "-h") == 0) {
            set->help = true;
        } else if (strncmp(text, "--", 2) == 0) {
            BP_TRY(take_option(&r, text + 2));
        } else if (set->words.count < SETTINGS_PATHS_MAX) {
            set->words.item[set->words.count++] = text;
        }
    }
    return set->config != NULL ? options_file(set, set->config, r.given) : BP_OK;
}

static char *trimmed(char *text)
{
    text += strspn(text, " \t\r");
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\r", text[length - 1]) != NULL) {
        length--;
    }
    text[length] = '\0';
    return text;
}

/* One line: nothing, a comment, or `name = value`. A value may be put in double quotes. */
static bp_status take_line(settings *set, char *line, const char *origin, const bool *given)
{
    line = trimmed(line);
    if (line[0] == '\0' || line[0] == '#') {
        return BP_OK;
    }
    char *equals = strchr(line, '=');
    if (equals == NULL) {
        output_print(stderr, "bedplate: %s: the line is not `name = value` (found \"%s\")\n",
                     origin, line);
        return BP_ERR_USAGE;
    }
    *equals = '\0';
    const char *name = trimmed(line);
    char *value = trimmed(equals + 1);
    const option *which = option_find(name, strlen(name));
    if (which == NULL || which->offset == offsetof(settings, config)) {
        output_print(stderr, "bedplate: in %s:\n", origin);
        unknown_option(name, 255);
        return BP_ERR_USAGE;
    }
    size_t length = strlen(value);
    if (length >= 2 && value[0] == '"' && value[length - 1] == '"') {
        value[length - 1] = '\0';
        value++;
    } else if (length == 0) {
        return BP_OK; /* as options_print writes an option without a value */
    }
    set->given[option_index(which)] = true;
    return given[option_index(which)] ? BP_OK : option_set(which, set, value, origin);
}

bp_status options_file(settings *set, const char *path, const bool *given)
{
    static char text[FILE_BYTES_MAX]; /* values point into it for the life of the program */
    FILE *file = fopen(path, "r");
    size_t length = 0;
    bool whole = false;
    if (file != NULL) {
        length = fread(text, 1, sizeof text, file);
        whole = ferror(file) == 0;
        fclose(file);
    }
    if (!whole) {
        output_print(stderr, "bedplate: --config: the file cannot be read (found \"%s\")\n", path);
        return BP_ERR_USAGE;
    }
    if (length == sizeof text || memchr(text, '\0', length) != NULL) {
        output_print(stderr,
                     "bedplate: %s: the file is not a list of options of less than %d bytes\n",
                     path, FILE_BYTES_MAX);
        return BP_ERR_USAGE;
    }
    text[length] = '\0';
    unsigned number = 1;
    for (char *line = text; line != NULL; number++) {
        char *end = strchr(line, '\n');
        if (end != NULL) {
            *end++ = '\0';
        }
        char origin[512];
        snprintf(origin, sizeof origin, "%s:%u", path, number);
        BP_TRY(take_line(set, line, origin, given));
        line = end;
    }
    return BP_OK;
}
