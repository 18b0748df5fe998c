/* SPDX-License-Identifier: MIT */
/* Options on paper: help, and the resolved set. */
#include <stdio.h>
#include <string.h>

#include "tools/bedplate/app/options.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/app/commands.h"
#include "tools/bedplate/app/synonyms.h"
#include "tools/formats/family/preset.h"

static bool is_meta(const option *which)
{
    return which->offset == offsetof(settings, help) ||
           which->offset == offsetof(settings, config) ||
           which->offset == offsetof(settings, print_options);
}

static bool show_fits(const settings *set)
{
    return set->arena != 0;
}

/* The data may name a task with a rate of its own. */
static bool show_task_open(const settings *set)
{
    return strcmp(set->task, "auto") == 0 && set->data.count > 0;
}

static bool show_hears(const settings *set)
{
    return set->audio != NULL;
}

/* Options that nobody gave and whose default is not what the run takes then: it chooses, asks the
 * data, or recalls a checkpoint's. A default on paper would be a choice of the user's. */
static const struct {
    size_t offset;
    bool (*open)(const settings *set); /* whether the run chooses; NULL: always */
} left_open[] = {
    {offsetof(settings, fp32), NULL},
    {offsetof(settings, checkpointing), show_fits},
    {offsetof(settings, batch), show_fits},
    {offsetof(settings, accumulation), show_fits},
    {offsetof(settings, loss_rows), show_fits},
    {offsetof(settings, learning_rate), show_task_open},
    {offsetof(settings, minimum_rate), NULL},
    {offsetof(settings, lora_dropout), NULL},
    {offsetof(settings, virtual_ranks), NULL},
    {offsetof(settings, virtual_sequence_ranks), NULL},
    {offsetof(settings, shard_ahead), NULL},
    {offsetof(settings, save_total_limit), NULL},
    {offsetof(settings, time_limit), NULL},
    {offsetof(settings, stop_when), NULL},
    {offsetof(settings, on_usr1), NULL},
    {offsetof(settings, storage_patience), NULL},
    {offsetof(settings, reward_threshold), NULL},
    {offsetof(settings, top_k), NULL},
    {offsetof(settings, max_new_tokens), show_hears},
    {offsetof(settings, temperature), show_hears},
};

static bool is_left_open(const option *which, const settings *set)
{
    for (size_t i = 0; i < sizeof left_open / sizeof left_open[0]; i++) {
        if (which->offset == left_open[i].offset) {
            return !set->given[option_index(which)] &&
                   (left_open[i].open == NULL || left_open[i].open(set));
        }
    }
    return false;
}

/* A word as a shell takes it. */
static void show_word(bp_text *text, const char *word)
{
    const bool plain = word[0] != '\0' && strpbrk(word, " \t\n\"'`$&|;<>(){}[]*?!#~\\") == NULL;
    bp_text_string(text, plain ? " " : " '");
    for (; *word != '\0'; word++) {
        bp_text_string(text, *word == '\'' ? "'\\'" : "");
        bp_text_char(text, *word);
    }
    bp_text_string(text, plain ? "" : "'");
}

/* Whether an option is among "--name value --other ..", or is --fp32 and --bf16 is. */
static bool show_is_among(const option *which, const char *options)
{
    const size_t length = strlen(which->name);
    for (const char *at = options; (at = strstr(at, "--")) != NULL; at += 2) {
        const bool ended =
            which->offset == offsetof(settings, fp32) && strncmp(at, "--bf16", 6) == 0;
        if (ended || (strncmp(at + 2, which->name, length) == 0 &&
                      (at[2 + length] == ' ' || at[2 + length] == '\0'))) {
            return true;
        }
    }
    return false;
}

void options_command_put(bp_text *text, const settings *set, const char *instead)
{
    const option *which;
    bp_text_string(text, "bedplate ");
    bp_text_string(text, command_name((unsigned)set->command));
    for (uint32_t i = 0; (which = option_at(i)) != NULL; i++) {
        const bool listed = which->kind == OPTION_PATHS || which->kind == OPTION_LIST;
        const path_list *list = (const void *)((const char *)set + which->offset);
        char value[4096], name[80];
        bp_text one;
        bp_text_init(&one, NULL, NULL, value, sizeof value);
        if (!set->given[i] || which->offset == offsetof(settings, config) ||
            show_is_among(which, instead)) {
            continue;
        }
        if (!listed) {
            option_put(&one, which, set);
        }
        const bool whole = bp_text_flush(&one) == BP_OK;
        const bool flag = which->kind == OPTION_FLAG;
        snprintf(name, sizeof name, "--%s%s", which->name, flag && value[0] == 'f' ? "=false" : "");
        for (uint32_t p = 0; p < (listed ? list->count : 1); p++) {
            if (p == 0 || which->kind == OPTION_LIST) {
                show_word(text, name);
            }
            if (!flag) {
                show_word(text, listed ? list->item[p] : whole ? value : "..");
            }
        }
    }
    bp_text_char(text, ' ');
    bp_text_string(text, instead);
}

static void print_one(bp_text *out, const option *which, const char *value)
{
    bp_text_string(out, which->name);
    bp_text_string(out, " = ");
    bp_text_string(out, value);
    bp_text_char(out, '\n');
}

void options_print(const settings *set)
{
    output out;
    output_begin(&out, stdout);
    const option *which;
    for (uint32_t i = 0; (which = option_at(i)) != NULL; i++) {
        if ((which->commands & set->command) == 0 || is_meta(which) || is_left_open(which, set)) {
            continue;
        }
        if (which->kind == OPTION_PATHS || which->kind == OPTION_LIST) {
            const path_list *list = (const void *)((const char *)set + which->offset);
            for (uint32_t p = 0; p < list->count; p++) {
                print_one(&out.text, which, list->item[p]);
            }
            continue;
        }
        bp_text_string(&out.text, which->name);
        bp_text_string(&out.text, " = ");
        option_put(&out.text, which, set);
        bp_text_char(&out.text, '\n');
    }
    output_end(&out);
}

static const command *show_verb(const char *name, size_t length)
{
    const command *v = NULL;
    for (uint32_t i = 0; (v = command_at(i)) != NULL; i++) {
        if (strlen(v->name) == length && memcmp(v->name, name, length) == 0) {
            break;
        }
    }
    return v;
}

/* The bytes of `import, export: ` in front of a part of a help text, whose commands they are; 0:
 * there are none. */
static size_t show_commands(const char *part, unsigned *commands)
{
    const char *at = part;
    *commands = 0;
    for (;;) {
        const size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz-");
        const command *v = show_verb(at, length);
        if (v == NULL || (at[length] != ':' && at[length] != ',') || at[length + 1] != ' ') {
            return 0;
        }
        *commands |= (unsigned)v->bit;
        at += length + 2;
        if (at[-2] == ':') {
            return (size_t)(at - part);
        }
    }
}

/* A help text without what is about other commands: its parts are divided by semicolons, and one
 * that begins with names of commands, and those behind it, are theirs. */
static void show_help(const char *help, const command *v)
{
    bool theirs = false, first = true;
    while (*help != '\0') {
        unsigned commands;
        const size_t skip = show_commands(help, &commands);
        const char *text = help + skip, *end = strstr(text, "; ");
        const size_t length = end != NULL ? (size_t)(end - text) : strlen(text);
        theirs = skip > 0 ? (commands & (unsigned)v->bit) == 0 : theirs;
        if (!theirs) {
            printf("%s%.*s", first ? "" : "; ", (int)length, text);
            first = false;
        }
        help = text + length + (end != NULL ? 2 : 0);
    }
}

/* STEP is what replay takes, the other words are of the other commands. */
static void show_value(const option *which, const command *v)
{
    const char *step = strstr(which->choices, "|STEP");
    const int length = (int)(step != NULL ? step - which->choices : (long)strlen(which->choices));
    const bool maybe = which->kind == OPTION_MAYBE || which->kind == OPTION_TEXT_MAYBE ||
                       which->kind == OPTION_POLICY;
    if (step != NULL && v->bit == COMMAND_REPLAY) {
        printf(" STEP");
    } else {
        printf(maybe ? " [%.*s]" : " %.*s", length, which->choices);
    }
}

static void show_option(const option *which, const command *v)
{
    printf("  --%s", which->name);
    if (which->kind != OPTION_FLAG) {
        show_value(which, v);
    }
    printf("\n        ");
    show_help(which->help, v);
    bool shown = which->fallback != NULL && which->kind != OPTION_FLAG;
    printf(shown ? " [%s]\n" : "\n", which->fallback);
}

/* What short help shows of a command with many options, by what a reader wants to do. */
static const struct {
    const char *job;
    const char *names;
} jobs[] = {
    {"Model and data", "model data eval-data validation-split task output output-dir predictions"},
    {"Adapters", "lora-r adapter load-in-4bit merge"},
    {"Training", "num-train-epochs max-steps learning-rate per-device-train-batch-size "
                 "gradient-accumulation-steps max-seq-length optim"},
    {"Memory", "arena gradient-checkpointing bf16 device"},
    {"Reports and checkpoints", "eval-steps save-steps resume"},
    {"Plans", "max-batch html"},
    {"Generation", "prompt chat max-new-tokens temperature top-p stop"},
    {"Replays", "from to all"},
    {"Other", "seed config json help"},
};

/* A heading stands once, before the first of what follows. */
static void show_heading(const char **heading)
{
    if (*heading != NULL) {
        printf("\n%s\n", *heading);
        *heading = NULL;
    }
}

enum { FEW_OPTIONS = 24 };

/* Prints the options of a job, or none. */
static void show_job(size_t job, const command *v)
{
    const char *heading = jobs[job].job;
    for (const char *at = jobs[job].names; *at != '\0';) {
        const size_t length = strcspn(at, " ");
        const option *which = option_find(at, length);
        if (which != NULL && (which->commands & v->bit) != 0) {
            show_heading(&heading);
            show_option(which, v);
        }
        at += length + (at[length] == ' ' ? 1 : 0);
    }
}

/* Whether a text has a word in it, capitals aside, - and _ alike. */
static bool show_has(const char *text, const char *word)
{
    char part[64];
    const size_t length = strlen(word);
    for (; length < sizeof part && strlen(text) >= length; text++) {
        memcpy(part, text, length);
        part[length] = '\0';
        if (option_same_word(part, word, length)) {
            return true;
        }
    }
    return false;
}

/* Whether an option has to do with a word: by its name, text or section, or by another name. */
static bool show_concerns(const option *which, const char *heading, const char *word)
{
    const synonym *row;
    bool is = show_has(which->name, word) || show_has(which->help, word) ||
              (heading != NULL && show_has(heading, word));
    for (uint32_t i = 0; !is && (row = synonym_at(i)) != NULL; i++) {
        is = row->name != NULL && strcmp(row->name, which->name) == 0 && show_has(row->other, word);
    }
    return is;
}

/* Every option of a command by section, or those that have to do with a word; how many. */
static uint32_t show_sections(const command *v, const char *word)
{
    const option *which;
    const char *heading = NULL, *section = NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; (which = option_at(i)) != NULL; i++) {
        const char *begins = option_section(which);
        section = begins != NULL ? begins : section;
        heading = begins != NULL ? begins : heading;
        if ((which->commands & v->bit) == 0 ||
            (word != NULL && !show_concerns(which, section, word))) {
            continue;
        }
        show_heading(&heading);
        show_option(which, v);
        count++;
    }
    return count;
}

/* Names of other programs that have to do with a word; those that are only answered where `all`. */
static uint32_t show_synonyms(const command *v, const char *word, bool all)
{
    const synonym *row;
    const char *heading = "Names of other programs";
    uint32_t count = 0;
    for (uint32_t i = 0; (row = synonym_at(i)) != NULL; i++) {
        const bool own = row->name != NULL && strcmp(row->name, row->other) == 0;
        if (own || (row->name == NULL && !all) || !synonym_applies(row, v->bit) ||
            !show_has(row->other, word)) {
            continue;
        }
        show_heading(&heading);
        printf("  %s%s: %s%s\n", row->other[0] == '-' ? "" : "--", row->other,
               row->name != NULL ? "--" : "", row->name != NULL ? row->name : row->hint);
        count++;
    }
    return count;
}

/* The models known by name, where a command takes them and the word asks for them; how many. */
static uint32_t show_presets(const command *v, const char *word)
{
    const bp_preset *preset;
    const char *heading = "Presets, for --model";
    const option *model = option_find("model", strlen("model"));
    const bool asked = option_same_word(word, "preset", 6) || option_same_word(word, "presets", 7);
    uint32_t count = 0;
    while (asked && (model->commands & v->bit) != 0 && (preset = bp_preset_at(count)) != NULL) {
        show_heading(&heading);
        printf("  %-24s %s\n", preset->name, preset->note);
        count++;
    }
    return count;
}

static uint32_t show_count(const command *v)
{
    const option *which;
    uint32_t count = 0;
    for (uint32_t i = 0; (which = option_at(i)) != NULL; i++) {
        count += (which->commands & v->bit) != 0 ? 1 : 0;
    }
    return count;
}

int options_help(const command *v, const char *topic)
{
    const uint32_t count = show_count(v);
    const bool brief = option_same_word(topic, "true", 4);
    printf("bedplate %s%s\n%s\n", v->name, v->words, v->purpose);
    if (option_same_word(topic, "all", 3) || (brief && count <= FEW_OPTIONS)) {
        (void)show_sections(v, NULL);
        return 0;
    }
    if (!brief) {
        uint32_t found = show_sections(v, topic);
        found += show_presets(v, topic);
        found += show_synonyms(v, topic, found == 0);
        if (found == 0) {
            output_print(stderr,
                         "bedplate: --help: no option of %s has this word: found \"%s\"\n"
                         "try: bedplate %s --help all\n",
                         v->name, topic, v->name);
        }
        return found > 0 ? 0 : 2;
    }
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        show_job(i, v);
    }
    printf("\nbedplate %s --help all    shows all %u options\n"
           "bedplate %s --help WORD   shows those that have to do with a word, such as memory\n",
           v->name, count, v->name);
    return 0;
}
