/* SPDX-License-Identifier: MIT */
/* bedplate init: five questions, and a commented file for --config that trains. Answers are lines
 * of standard input, whoever writes them; questions go to stderr. */
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/bedplate/models/model_files.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/session/session.h"
#include "tools/bedplate/app/verbs.h"
#include "tools/formats/text/byte_tokenizer.h"

enum { QUESTIONS = 5, LINE = 4096, BATCH = 8, SEQUENCE = 256, SEQUENCE_LEAST = 16 };

static const char where[] = "init";

typedef struct initing {
    bp_error error;
    char folder[BP_STORE_PATH_MAX]; /* absolute */
    char config[BP_STORE_PATH_MAX];
    char line[LINE]; /* the answer, trimmed */
    char model[LINE];
    char budget[LINE];
    char steps[LINE];
    bool sample; /* the data is a text that is written as well */
    bool labelled;
    bool pretrained;
    bool numbers;        /* the model takes rows of numbers, not tokens */
    bool bytes;          /* and a token is a byte */
    const char *trained; /* full, lora or qlora */
    glob_t data;
    bool globbed;
    uint64_t data_bytes;
    uint32_t positions;
    uint64_t batch;
    uint64_t sequence;
    uint64_t arena_bytes;
} initing;

static const char sample_text[] =
    "The bed of a machine is one piece of iron. Everything that turns is fixed to it once, and\n"
    "measured from it ever after. What holds still need not be looked for again.\n";

/* The path from the root, so that the file may be used from anywhere. False: it is too long. */
static bool init_absolute(const char *path, char *to, size_t room)
{
    char here[BP_STORE_PATH_MAX] = "";
    const bool absolute = path[0] == '/';
    const bool found = absolute || getcwd(here, sizeof here) != NULL;
    const int length = snprintf(to, room, "%s%s%s", here, absolute ? "" : "/", path);
    return found && length > 0 && (size_t)length < room;
}

/* ---- trying what was answered ---- */

static void init_fill(const initing *i, settings *try)
{
    options_defaults(try);
    try->verb = VERB_TRAIN;
    try->model = i->model;
    try->task = i->labelled ? "classification" : "auto";
    try->sequence = i->sequence;
    try->batch = i->batch;
    try->lora_r = i->trained != NULL && strcmp(i->trained, "full") != 0 ? 8 : 0;
    try->load_in_4bit = i->trained != NULL && strcmp(i->trained, "qlora") == 0;
}

/* Reads the model, and with `plan` plans the run; what is wrong is printed. */
static bool init_try(initing *i, bool plan)
{
    static session s;
    static settings try;
    init_fill(i, &try);
    bool right = i->budget[0] == '\0' ||
                 option_set(option_find("arena", 5), &try, i->budget, "the memory") == BP_OK;
    if (!right) {
        return false;
    }
    bp_status status = session_begin(&s, &try);
    if (plan) {
        status = status == BP_OK ? session_choose(&s) : status;
        status = status == BP_OK ? session_plan(&s) : status;
        status = status == BP_OK ? session_check_fit(&s) : status;
        i->arena_bytes = s.runtime.report.arena_bytes;
    }
    right = session_report(&s, status) == 0;
    i->pretrained = s.weights;
    i->positions = s.spec.config.positions;
    i->numbers = s.spec.config.vocabulary == 0;
    i->bytes = !s.directory || s.spec.config.vocabulary == BP_BYTE_VOCABULARY;
    session_end(&s);
    return right;
}

/* ---- the answers ---- */

static bool take_model(initing *i)
{
    char path[BP_STORE_PATH_MAX];
    const bool there = access(i->line, F_OK) == 0 && init_absolute(i->line, path, sizeof path);
    snprintf(i->model, sizeof i->model, "%s", there ? path : i->line);
    return init_try(i, false);
}

/* Files and patterns, with spaces between them; a file whose name has spaces stands alone. */
static bool find_files(initing *i)
{
    struct stat about;
    if (i->globbed) {
        globfree(&i->data);
    }
    i->globbed = true;
    i->data = (glob_t){.gl_pathc = 0};
    if (stat(i->line, &about) == 0) {
        return glob(i->line, GLOB_NOCHECK | GLOB_NOESCAPE, NULL, &i->data) == 0;
    }
    int more = 0;
    for (char *word = strtok(i->line, " \t"); word != NULL; word = strtok(NULL, " \t")) {
        if (glob(word, GLOB_ERR | more, NULL, &i->data) != 0) {
            fprintf(stderr, "bedplate: %s: there is no such file\n", word);
            return false;
        }
        more = GLOB_APPEND;
    }
    return true;
}

/* A window and a batch that the data has enough tokens for: about four bytes make one. */
static void choose_shapes(initing *i)
{
    const uint64_t tokens = i->bytes ? i->data_bytes : i->data_bytes / 4;
    i->batch = BATCH;
    i->sequence = i->positions < SEQUENCE ? i->positions : SEQUENCE;
    while (i->sequence > SEQUENCE_LEAST && 2 * i->batch * i->sequence > tokens) {
        i->sequence /= 2;
    }
    while (i->batch > 1 && i->batch * i->sequence >= tokens) {
        i->batch /= 2;
    }
    i->sequence = i->numbers ? 0 : i->sequence;
}

static bool take_data(initing *i)
{
    i->sample = i->line[0] == '\0';
    i->labelled = false;
    i->data_bytes = 40 * (sizeof sample_text - 1);
    if (i->sample && i->numbers) {
        fprintf(stderr, "bedplate: this model takes rows of numbers: name a CSV or .f32 file\n");
        return false;
    }
    if (!i->sample && !find_files(i)) {
        return false;
    }
    for (size_t k = 0; !i->sample && k < i->data.gl_pathc; k++) {
        const char *path = i->data.gl_pathv[k];
        struct stat about;
        if (stat(path, &about) != 0 || !S_ISREG(about.st_mode) || access(path, R_OK) != 0) {
            fprintf(stderr, "bedplate: %s: this is no file that can be read\n", path);
            return false;
        }
        i->data_bytes = (k == 0 ? 0 : i->data_bytes) + (uint64_t)about.st_size;
        i->labelled =
            !i->numbers && (model_files_ends(path, ".tsv") || model_files_ends(path, ".csv"));
    }
    choose_shapes(i);
    return true;
}

static bool take_trained(initing *i)
{
    static const char *const words[] = {"full", "lora", "qlora"};
    i->trained = NULL;
    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++) {
        i->trained = strcmp(i->line, words[k]) == 0 ? words[k] : i->trained;
    }
    if (i->trained == NULL) {
        fprintf(stderr,
                "bedplate: the answer is none of the three (found \"%s\", right would be "
                "full, lora or qlora)\n",
                i->line);
        return false;
    }
    return init_try(i, true);
}

static bool take_steps(initing *i)
{
    static settings try;
    options_defaults(&try);
    if (option_set(option_find("max-steps", 9), &try, i->line, "the steps") != BP_OK) {
        return false;
    }
    if (try.max_steps < 1) {
        fprintf(stderr,
                "bedplate: the steps: the value is out of range (found %s, right would be "
                "1 or more)\n",
                i->line);
        return false;
    }
    snprintf(i->steps, sizeof i->steps, "%s", i->line);
    return true;
}

static bool take_budget(initing *i)
{
    snprintf(i->budget, sizeof i->budget, "%s", i->line);
    return init_try(i, true);
}

static const struct {
    const char *subject;
    const char *question;
    const char *fallback;
    bool (*take)(initing *i); /* false: it has said what is wrong */
} questions[QUESTIONS] = {
    {"model", "Which model? A directory, a GGUF file, or a preset such as demo, gpt2, llama-3.2-1b",
     "demo", take_model},
    {"data", "Which data? Files or patterns, with spaces between them; nothing: a sample text", "",
     take_data},
    {"what is trained",
     "What is trained? full: all weights; lora: adapters; qlora: adapters of a base in 4 bits",
     "full", take_trained},
    {"steps", "How many steps?", "200", take_steps},
    {"memory", "How much memory may it take? 4GiB, 512MB; nothing: what it needs", "", take_budget},
};

/* The next line, without its end and the spaces around it; the fallback for an empty one. False at
 * the end of the input. */
static bool init_ask(initing *i, int number)
{
    const char *fallback = questions[number].fallback;
    fprintf(stderr, "%d/%d %s", number + 1, QUESTIONS, questions[number].question);
    fprintf(stderr, fallback[0] != '\0' ? " [%s]: " : ": ", fallback);
    if (fgets(i->line, sizeof i->line, stdin) == NULL) {
        fputs("\n", stderr);
        return false;
    }
    if (strchr(i->line, '\n') == NULL && !feof(stdin)) {
        for (int c = getchar(); c != EOF && c != '\n';) {
            c = getchar(); /* the rest of a line that no answer has */
        }
    }
    size_t length = strlen(i->line);
    while (length > 0 && strchr(" \t\r\n", i->line[length - 1]) != NULL) {
        length--;
    }
    i->line[length] = '\0';
    memmove(i->line, i->line + strspn(i->line, " \t"), length + 1 - strspn(i->line, " \t"));
    if (i->line[0] == '\0') {
        snprintf(i->line, sizeof i->line, "%s", fallback);
    }
    if (isatty(STDIN_FILENO) == 0) {
        fprintf(stderr, "%s\n", i->line); /* which a terminal shows by itself */
    }
    return true;
}

/* ---- the file ---- */

static void put_data(const initing *i, FILE *file)
{
    if (i->sample) {
        fprintf(file, "data = %s/sample.txt\n", i->folder);
        return;
    }
    for (size_t k = 0; k < i->data.gl_pathc; k++) {
        char path[BP_STORE_PATH_MAX];
        const bool fits = init_absolute(i->data.gl_pathv[k], path, sizeof path);
        fprintf(file, "data = %s\n", fits ? path : i->data.gl_pathv[k]);
    }
}

static void put_model(const initing *i, FILE *file)
{
    fprintf(file,
            "# Written by `bedplate init`. Lines are `option = value`; the command line wins over "
            "them.\n"
            "#   bedplate plan  --config %s      how much memory, to the byte\n"
            "#   bedplate train --config %s\n\n",
            i->config, i->config);
    fprintf(file,
            "# A directory, a GGUF file, or a preset (which begins with random weights).\n"
            "model = %s\n\n",
            i->model);
    fprintf(file, "# Text, JSON lines, token files; a line for each file.\n");
    put_data(i, file);
    fprintf(file,
            "# Hold the last tenth of it out, and evaluate that every 50 steps:\n"
            "# validation-split = 0.1\n# eval-steps = 50\n%s\n",
            i->labelled ? "task = classification\n" : "");
    fprintf(file,
            "# Snapshots and the trained model go here. `--resume` goes on from the newest.\n"
            "output-dir = %s/out\nsave-steps = 100\nsave-total-limit = 2\n\n",
            i->folder);
}

static void put_run(const initing *i, FILE *file)
{
    const bool adapters = strcmp(i->trained, "full") != 0;
    if (i->sequence > 0) {
        fprintf(file, "# Tokens per sequence.\nmax-seq-length = %llu\n",
                (unsigned long long)i->sequence);
    }
    if (i->budget[0] != '\0') {
        fprintf(file,
                "# The run fits this; micro-batch and checkpointing are chosen to.\n"
                "arena = %s\n",
                i->budget);
    } else {
        fprintf(file, "# Give `arena = 4GiB`, and what fits is chosen.\n");
    }
    if (i->batch != BATCH || i->budget[0] == '\0') {
        fprintf(file, "per-device-train-batch-size = %llu\n", (unsigned long long)i->batch);
    }
    if (adapters) {
        fprintf(file,
                "\n# Adapters: alpha / r is how much they count.\nlora-r = 8\n"
                "lora-alpha = 16\n%s",
                strcmp(i->trained, "qlora") == 0 ? "load-in-4bit = true\n" : "");
    }
    fprintf(file,
            "\n# The optimizer.\nmax-steps = %s\nlearning-rate = %s\n"
            "lr-scheduler-type = cosine\nwarmup-steps = 0.05\nlogging-steps = 10\n",
            i->steps,
            adapters        ? "2e-4"
            : i->pretrained ? "5e-5"
                            : "1e-3");
}

/* Writes a file from its beginning to its end, or says that it could not. */
static bp_status init_write(initing *i, const char *path, void (*put)(const initing *, FILE *))
{
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        return bp_error_set(&i->error, BP_ERR_STORE, where, "the file cannot be made", path);
    }
    put(i, file);
    const bool failed = ferror(file) != 0;
    return fclose(file) == 0 && !failed
               ? BP_OK
               : bp_error_set(&i->error, BP_ERR_STORE, where, "the file cannot be written", path);
}

static void put_sample(const initing *i, FILE *file)
{
    (void)i;
    for (int k = 0; k < 40; k++) {
        fprintf(file, "%d. %s", k + 1, sample_text);
    }
}

static void put_config(const initing *i, FILE *file)
{
    put_model(i, file);
    put_run(i, file);
}

/* DIR as an absolute path, and the file in it, which must not be there. */
static bp_status find_place(initing *i, const char *folder)
{
    if (!init_absolute(folder, i->folder, sizeof i->folder - 16)) {
        return bp_error_set(&i->error, BP_ERR_USAGE, where, "the directory's path is too long",
                            folder);
    }
    snprintf(i->config, sizeof i->config, "%.*s/train.conf", (int)sizeof i->config - 16, i->folder);
    if (access(i->config, F_OK) == 0) {
        return bp_error_set(&i->error, BP_ERR_USAGE, where,
                            "the file is there already, and is left as it is", i->config);
    }
    return BP_OK;
}

static bp_status init_run(initing *i, const settings *set)
{
    char sample[BP_STORE_PATH_MAX + 16];
    BP_TRY(find_place(i, set->words.item[0]));
    for (int number = 0; number < QUESTIONS; number++) {
        do {
            if (!init_ask(i, number)) {
                return bp_error_set(&i->error, BP_ERR_USAGE, where,
                                    "the answers end before this question, and nothing is written",
                                    questions[number].subject);
            }
        } while (!questions[number].take(i));
    }
    if (mkdir(i->folder, 0777) != 0 && access(i->folder, W_OK | X_OK) != 0) {
        return bp_error_set(&i->error, BP_ERR_STORE, where, "the directory cannot be made",
                            i->folder);
    }
    snprintf(sample, sizeof sample, "%s/sample.txt", i->folder);
    BP_TRY(i->sample ? init_write(i, sample, put_sample) : BP_OK);
    return init_write(i, i->config, put_config);
}

static void init_report(const initing *i, bool json)
{
    output out;
    output_begin(&out, stdout);
    if (json) {
        json_begin(&out);
        json_text(&out, "config", i->config);
        json_count(&out, "arena_bytes", i->arena_bytes);
        json_end(&out);
    } else {
        bp_text_string(&out.text, i->config);
        bp_text_string(&out.text, " is written; the run takes an arena of ");
        bp_text_grouped(&out.text, i->arena_bytes);
        bp_text_string(&out.text, " bytes. It starts with\n    bedplate train --config ");
        bp_text_string(&out.text, i->config);
        bp_text_char(&out.text, '\n');
    }
    output_end(&out);
}

int cmd_init(const settings *set)
{
    static initing i;
    const bp_status status = init_run(&i, set);
    if (i.globbed) {
        globfree(&i.data);
    }
    if (status == BP_OK) {
        init_report(&i, set->json);
    }
    return report_status(status, &i.error);
}
