/* SPDX-License-Identifier: MIT */
/* Command lines and configuration files. */
#include "tools/bedplate/app/options.h"

#include <stdio.h>
#include <string.h>

#include "tools/bedplate/app/commands.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/app/synonyms.h"

/* Applies a file of `name = value` lines to every option that `given` does not mark. */
static bp_status options_file(settings *set, const char *path, const bool *given);

#define FILE_BYTES_MAX 65536
#define NAME_BYTES     80

/* A name as it was typed, where the text still has it. */
typedef struct naming {
    const char *text;
    size_t length;
} naming;

typedef struct reading {
    settings *set;
    char **arguments;
    int count;
    int at;
    unsigned commands; /* whose options are taken */
    const bool *over;  /* what the command line gave already; NULL: this is the command line */
    bool given[SETTINGS_OPTIONS_MAX];
    naming named[SETTINGS_OPTIONS_MAX]; /* under which name an option was given */
} reading;

/* An option as it is asked for. */
typedef struct asked {
    const option *which; /* NULL: there is none, only the hint of `row` */
    const synonym *row;  /* NULL: our own name and values */
    naming name;
    bool no; /* --no-NAME */
    const char *origin;
} asked;

/* What messages call a name: as it was typed, with - for _. */
static void options_origin(naming name, char origin[NAME_BYTES])
{
    const int most = (int)(name.length < NAME_BYTES - 4 ? name.length : NAME_BYTES - 4);
    snprintf(origin, NAME_BYTES, "%s%.*s", name.text[0] == '-' ? "" : "--", most, name.text);
    for (char *at = origin; *at != '\0'; at++) {
        *at = *at == '_' ? '-' : *at;
    }
}

/* The option that a name means for one of `commands`. */
static bool options_ask(asked *to, const char *name, size_t length, unsigned commands)
{
    to->no = false;
    to->row = synonym_find(name, length, commands);
    to->which = option_find(name, length);
    if (to->row != NULL) {
        const char *ours = to->row->name;
        to->which = ours != NULL ? option_find(ours, strlen(ours)) : NULL;
        return true;
    }
    return to->which != NULL && (to->which->commands & commands) != 0;
}

/* A name, or --no-NAME of what may be false. */
static bool options_ask_any(asked *to, naming name, unsigned commands)
{
    to->name = name;
    if (options_ask(to, name.text, name.length, commands)) {
        return true;
    }
    const bool no = name.length > 3 && strncmp(name.text, "no", 2) == 0 &&
                    (name.text[2] == '-' || name.text[2] == '_') &&
                    options_ask(to, name.text + 3, name.length - 3, commands);
    to->no = no;
    return no && (to->which == NULL || option_is_flag(to->which) ||
                  (to->row != NULL && synonym_is_flag(to->row)));
}

/* An option under two names, of which one would silently win. */
static bp_status options_once(reading *r, const asked *a, const option *which)
{
    naming *before = &r->named[option_index(which)];
    char one[NAME_BYTES], other[NAME_BYTES];
    if (before->text != NULL && which->kind != OPTION_LIST) {
        options_origin(*before, one);
        options_origin(a->name, other);
        const bool single = which->offset == offsetof(settings, reward_model); /* not a list */
        if (single || strcmp(one, other) != 0) {
            output_print(stderr,
                         "bedplate: %s: the option is given twice: found %s and %s, expected one "
                         "of them (both are --%s)\n",
                         a->origin, one, other, which->name);
            return BP_ERR_USAGE;
        }
    }
    *before = a->name;
    return BP_OK;
}

/* Whether a value is a list as JSON, Python or YAML write it: ["q_proj", "v_proj"], [0,1],
 * {"q_proj": 8}. A regular expression may begin with a bracket as well, but has no such contents.
 */
static bool options_is_written_list(const char *value)
{
    const size_t length = strlen(value);
    const char close = value[0] == '[' ? ']' : value[0] == '(' ? ')' : '}';
    if (length < 3 || strchr("[({", value[0]) == NULL || value[length - 1] != close) {
        return false;
    }
    const size_t words = strcspn(value + 1, "[](){}|\\*+?^$");
    const char first = value[1 + strspn(value + 1, " ")];
    return words == length - 2 && strchr(value, '-') != value + 2 &&
           (first == '"' || first == '\'' || close != ')') &&
           (strpbrk(value, "\"',:") != NULL || (first >= '0' && first <= '9'));
}

/* Such a list as ours: without brackets, quotes and blanks, with = for a colon. */
static bp_status options_plain_list(const char *value, const char **ours, const char *origin)
{
    static char pool[NAME_BYTES * 64]; /* values point into it for the life of the program */
    static size_t used;
    const size_t length = strlen(value);
    if (length >= sizeof pool - used) {
        output_print(stderr, "bedplate: %s: the list is too long\n", origin);
        return BP_ERR_USAGE;
    }
    *ours = pool + used;
    for (size_t i = 1; i + 1 < length; i++) {
        const char c = value[i] == ':' && value[0] == '{' ? '=' : value[i];
        if (strchr("\"' ", c) == NULL) {
            pool[used++] = c;
        }
    }
    pool[used++] = '\0';
    return BP_OK;
}

static bool options_takes_list(const asked *a)
{
    return a->which->choices != NULL && strstr(a->which->choices, ",..") != NULL;
}

/* One value: translated, and put into the settings. */
static bp_status options_put(reading *r, const asked *a, const char *value)
{
    const option *which = a->which;
    if (a->row != NULL) {
        BP_TRY(synonym_value(a->row, value, a->origin, &which, &value));
    }
    const uint32_t index = option_index(which);
    const bool words = which->kind == OPTION_TEXT || which->kind == OPTION_TEXT_MAYBE;
    if (words && strcmp(value, "None") == 0) { /* as Python has it: no file of this name */
        output_print(stderr,
                     "bedplate: %s: no value: found \"None\", expected %s, or leave the option "
                     "out\n",
                     a->origin, which->choices != NULL ? which->choices : "a word");
        return BP_ERR_USAGE;
    }
    BP_TRY(options_once(r, a, which));
    r->set->given[index] = true;
    r->given[index] = true;
    return r->over != NULL && r->over[index] ? BP_OK : option_set(which, r->set, value, a->origin);
}

static bool options_is_modules(const asked *a)
{
    return a->row != NULL && a->row->values != NULL && strcmp(a->row->values, SYNONYM_MODULES) == 0;
}

/* A value, or each of several modules with commas between them. */
static bp_status options_put_all(reading *r, const asked *a, const char *value)
{
    char item[NAME_BYTES];
    if ((options_is_modules(a) || options_takes_list(a)) && options_is_written_list(value)) {
        BP_TRY(options_plain_list(value, &value, a->origin));
    }
    if (!options_is_modules(a)) {
        return options_put(r, a, value);
    }
    while (*value != '\0') {
        const size_t length = strcspn(value, ", ");
        snprintf(item, sizeof item, "%.*s", (int)length, value);
        BP_TRY(length > 0 ? options_put(r, a, item) : BP_OK);
        value += length + (value[length] != '\0' ? 1 : 0);
    }
    return BP_OK;
}

static bp_status options_pair_put(reading *r, const option_pair *pair, const char *where)
{
    const naming name = {pair->name, strlen(pair->name)};
    char origin[640];
    asked a;
    if (!options_ask_any(&a, name, r->commands) || a.which == NULL) {
        options_unknown_name(where, name.text, name.length, (unsigned)r->set->command);
        return BP_ERR_USAGE;
    }
    snprintf(origin, sizeof origin, "%s: %s", where, pair->name);
    a.origin = origin;
    const bool many = a.which->kind == OPTION_PATHS || a.which->kind == OPTION_LIST;
    if (many && !r->given[option_index(a.which)]) {
        ((path_list *)(void *)((char *)r->set + a.which->offset))->count = 0;
    }
    bool truth = true;
    if (a.no && option_truth(pair->value, &truth)) {
        return options_put(r, &a, truth ? "false" : "true");
    }
    return options_put_all(r, &a, pair->value);
}

bp_status options_pairs(settings *set, const option_pair *pairs, uint32_t count, const char *where)
{
    reading r = {.set = set, .commands = (unsigned)set->command};
    for (uint32_t i = 0; i < count; i++) {
        BP_TRY(options_pair_put(&r, &pairs[i], where));
    }
    return BP_OK;
}

const option *options_meaning(const char *name, unsigned commands)
{
    asked a = {.which = NULL};
    return options_ask_any(&a, (naming){name, strlen(name)}, commands) ? a.which : NULL;
}

/* Whether the next argument may be a value. */
static bool options_more(const reading *r)
{
    return r->at < r->count && strncmp(r->arguments[r->at], "--", 2) != 0;
}

static bool options_takes_words(const settings *set)
{
    const command *v;
    for (uint32_t i = 0; (v = command_at(i)) != NULL; i++) {
        if (v->bit == set->command) {
            return v->most_words > 0;
        }
    }
    return false;
}

/* `--bf16 true`, as argparse has it. A command that takes words keeps short ones for that. */
static bool options_truth_follows(const reading *r)
{
    bool truth;
    const char *next = options_more(r) ? r->arguments[r->at] : "";
    return option_truth(next, &truth) && (strlen(next) > 3 || !options_takes_words(r->set));
}

/* Whether the next argument is one of several values: no option, and no short name of one. */
static bool options_more_of_list(const reading *r)
{
    const char *next = options_more(r) ? r->arguments[r->at] : "-";
    return next[0] != '-' || (next[1] == '\0' && options_more(r)) ||
           (options_more(r) && synonym_find(next, strlen(next), r->commands) == NULL);
}

static bp_status take_paths(reading *r, const asked *a)
{
    if (!options_more(r)) {
        output_print(stderr, "bedplate: %s: the option needs at least one file\n", a->origin);
        return BP_ERR_USAGE;
    }
    do {
        BP_TRY(options_put_all(r, a, r->arguments[r->at++]));
    } while (options_more_of_list(r));
    return BP_OK;
}

/* A list with commas may have spaces instead, as argparse has it: --target-modules q_proj v_proj.
 */
static bp_status take_list(reading *r, const asked *a)
{
    static char text[FILE_BYTES_MAX]; /* values point into it for the life of the program */
    static size_t used;
    char *joined = text + used;
    const char *between = "";
    do {
        const char *item = r->arguments[r->at++];
        const size_t length = strlen(item) + 1;
        if (length + 1 > sizeof text - used) {
            output_print(stderr, "bedplate: %s: the list is too long\n", a->origin);
            return BP_ERR_USAGE;
        }
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", between, item);
        between = length > 1 && item[length - 2] == ',' ? "" : ","; /* q_proj, v_proj */
    } while (options_more_of_list(r));
    used++;
    return options_put_all(r, a, joined);
}

/* A name without a value is true; one word of truth may follow, or any of a row's values. */
static bp_status take_flag(reading *r, const asked *a)
{
    const bool words = a->row != NULL && a->row->values != NULL && a->which->kind != OPTION_FLAG;
    const bool follows =
        words ? options_more(r) && !options_takes_words(r->set) : options_truth_follows(r);
    return options_put(r, a, follows ? r->arguments[r->at++] : "true");
}

/* `value` is what stands behind =, or NULL. */
static bp_status options_take_value(reading *r, const asked *a, const char *value)
{
    const option *which = a->which;
    const bool values = a->row != NULL && a->row->values != NULL;
    if (value != NULL) {
        return options_put_all(r, a, value);
    }
    if (values ? synonym_is_flag(a->row) : which->kind == OPTION_FLAG) {
        return take_flag(r, a);
    }
    if (option_is_flag(which) && which->kind != OPTION_FLAG && !options_more(r)) {
        return options_put(r, a, "true");
    }
    const bool several = which->kind == OPTION_LIST && options_more(r);
    if (which->kind == OPTION_PATHS || (several && !options_takes_words(r->set))) {
        return take_paths(r, a);
    }
    if (!options_more(r)) {
        output_print(stderr, "bedplate: %s: the option needs a value: expected %s\n", a->origin,
                     which->choices != NULL ? which->choices : "a word");
        return BP_ERR_USAGE;
    }
    const bool list = options_is_modules(a) || options_takes_list(a);
    return list && !options_takes_words(r->set) ? take_list(r, a)
                                                : options_put(r, a, r->arguments[r->at++]);
}

/* `a` was found under the name `origin`. */
static bp_status options_take(reading *r, const asked *a, const char *value)
{
    if (a->which == NULL) {
        output_print(stderr, "bedplate: %s: not an option here: %s\n", a->origin, a->row->hint);
        return BP_ERR_USAGE;
    }
    bool truth = true;
    if (a->no && value != NULL && !option_truth(value, &truth)) {
        output_print(stderr, "bedplate: %s: no such value: found \"%s\", expected true or false\n",
                     a->origin, value);
        return BP_ERR_USAGE;
    }
    return a->no ? options_put(r, a, truth ? "false" : "true") : options_take_value(r, a, value);
}

/* A name without its two dashes, or a short one with its own. */
static bp_status take_option(reading *r, const char *text)
{
    char origin[NAME_BYTES];
    const naming name = {text, strcspn(text, "=")};
    asked a;
    if (!options_ask_any(&a, name, r->commands)) {
        options_unknown_name(NULL, text, name.length, (unsigned)r->set->command);
        return BP_ERR_USAGE;
    }
    options_origin(name, origin);
    a.origin = origin;
    return options_take(r, &a, text[name.length] == '=' ? text + name.length + 1 : NULL);
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

/* Whether a word looks like a file of options. */
static bool options_is_config(const char *text)
{
    static const char *const ends[] = {".yml", ".yaml", ".conf", ".toml"};
    const size_t length = strlen(text);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const size_t end = strlen(ends[i]);
        if (length > end && strcmp(text + length - end, ends[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* A word where the command takes none: what the option before it, or a name before a =, may have
 * meant. */
static bp_status options_word(reading *r, const char *text)
{
    settings *set = r->set;
    const size_t length = strcspn(text, "=");
    const char *before = r->at > 1 ? r->arguments[r->at - 2] : "";
    asked a;
    if (options_takes_words(set) || set->words.count > 0) {
        if (set->words.count < SETTINGS_PATHS_MAX) {
            set->words.item[set->words.count++] = text;
        }
        return BP_OK;
    }
    /* "optimizer.lr=1e-4" of torchtune and others: the name is what stands behind the last dot. */
    const char *name = text;
    for (size_t i = 0; text[length] == '=' && i < length; i++) {
        name = text[i] == '.' ? text + i + 1 : name;
    }
    const naming named = {name, (size_t)(text + length - name)};
    if (text[length] == '=' && options_ask_any(&a, named, r->commands)) {
        output_print(stderr, "bedplate: %s: an option without its dashes: expected --%s\n", text,
                     name);
        return BP_ERR_USAGE;
    }
    if (options_is_config(text) && option_find("config", 6)->commands & (unsigned)set->command) {
        output_print(stderr,
                     "bedplate: %s: a file without its option: expected --config FILE, with lines "
                     "`name = value`\n",
                     text);
        return BP_ERR_USAGE;
    }
    if (options_ask_any(&a, named, r->commands) && a.row != NULL && a.row->hint != NULL) {
        output_print(stderr, "bedplate: %s: an argument that is not expected: %s\n", text,
                     a.row->hint);
        return BP_ERR_USAGE;
    }
    if (before[0] == '-' && !(before[1] >= '0' && before[1] <= '9') &&
        strchr(before, '=') == NULL) {
        const char *bare = before + strspn(before, "-");
        const option *which;
        if (options_ask(&a, bare, strlen(bare), r->commands) && a.row != NULL &&
            a.row->values != NULL) {
            BP_TRY(synonym_value(a.row, text, before, &which, &bare));
        }
        output_print(stderr, "bedplate: %s: no such value: found \"%s\", expected true or false\n",
                     before, text);
        return BP_ERR_USAGE;
    }
    set->words.item[set->words.count++] = text;
    return BP_OK;
}

bp_status options_parse(settings *set, int count, char **arguments)
{
    reading r = {.set = set, .arguments = arguments, .count = count};
    r.commands = (unsigned)set->command | options_also(set, count, arguments);
    while (r.at < r.count) {
        const char *text = r.arguments[r.at++];
        if (strncmp(text, "--", 2) == 0) {
            BP_TRY(take_option(&r, text + 2));
        } else if (text[0] == '-' && text[1] >= 'a' && text[1] <= 'z') {
            BP_TRY(take_option(&r, strcmp(text, "-h") == 0 ? "help" : text));
        } else {
            BP_TRY(options_word(&r, text));
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
static bp_status take_line(reading *r, char *line, const char *origin)
{
    line = trimmed(line);
    if (line[0] == '\0' || line[0] == '#') {
        return BP_OK;
    }
    char *equals = strchr(line, '=');
    if (equals == NULL) {
        output_print(stderr, "bedplate: %s: no option: found \"%s\", expected `name = value`\n",
                     origin, line);
        return BP_ERR_USAGE;
    }
    *equals = '\0';
    const char *name = trimmed(line);
    char *value = trimmed(equals + 1);
    const naming named = {name, strlen(name)};
    asked a = {.origin = origin};
    const bool is = options_ask_any(&a, named, r->commands) || options_ask_any(&a, named, ~0u);
    if (!is || (a.which != NULL && a.which->offset == offsetof(settings, config))) {
        options_unknown_name(origin, name, named.length, (unsigned)r->set->command);
        return BP_ERR_USAGE;
    }
    size_t length = strlen(value);
    if (length >= 2 && value[0] == '"' && value[length - 1] == '"') {
        value[length - 1] = '\0';
        value++;
    } else if (length == 0 && a.which != NULL) {
        return BP_OK; /* as options_print writes an option without a value */
    }
    return options_take(r, &a, value);
}

static bp_status options_file(settings *set, const char *path, const bool *given)
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
        output_print(stderr, "bedplate: --config: the file cannot be read: found \"%s\"\n", path);
        return BP_ERR_USAGE;
    }
    if (length == sizeof text || memchr(text, '\0', length) != NULL) {
        output_print(stderr,
                     "bedplate: --config: %s: not a list of options of less than %d bytes\n", path,
                     FILE_BYTES_MAX);
        return BP_ERR_USAGE;
    }
    text[length] = '\0';
    reading r = {.set = set, .commands = (unsigned)set->command, .over = given};
    unsigned number = 1;
    for (char *line = text; line != NULL; number++) {
        char *end = strchr(line, '\n');
        if (end != NULL) {
            *end++ = '\0';
        }
        char origin[512];
        snprintf(origin, sizeof origin, "%s:%u", path, number);
        BP_TRY(take_line(&r, line, origin));
        line = end;
    }
    return BP_OK;
}
