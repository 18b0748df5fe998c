/* SPDX-License-Identifier: MIT */
/* bedplate init: six questions, and a commented file for --config that trains. Answers are options,
 * with --yes the proposals, and else lines of standard input, whoever writes them; questions go to
 * stderr. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/bedplate/models/model_files.h"
#include "tools/bedplate/models/model_table.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/runs/training.h"
#include "tools/bedplate/session/session.h"
#include "tools/bedplate/sources/data_conversations.h"
#include "tools/bedplate/sources/data_task.h"
#include "tools/bedplate/app/commands.h"
#include "tools/formats/text/byte_tokenizer.h"
#include "tools/bedplate/app/environment.h"

#define WEIGHTS_TRIED (UINT64_C(4) << 30) /* bytes of an arena into which weights are read */

enum { QUESTIONS = 6, LINE = 4096, BATCH = 8, SEQUENCE = 256, SEQUENCE_LEAST = 16 };

static const char where[] = "init";

typedef struct initing {
    bp_error error;
    const settings *set;
    char folder[BP_STORE_PATH_MAX]; /* absolute */
    char config[BP_STORE_PATH_MAX];
    char line[LINE]; /* the answer, trimmed */
    char model[LINE];
    char word[LINE]; /* of the task */
    char budget[LINE];
    char steps[LINE];
    bool sample;                   /* the data is a text that is written as well */
    char trial[BP_STORE_PATH_MAX]; /* where it lies until then; empty: nowhere */
    const char *own_task;          /* of the model by itself */
    const char *proposed;          /* of the data: a word of --task */
    const char *task;              /* the one that was chosen */
    const char *template;          /* of conversations; NULL: the model's own */
    uint32_t classes;              /* of labels that are numbers; 0: not asked for */
    bool images;                   /* the data is a folder of images */
    bool own; /* the model is a directory, with a template of its own or none */
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

static bool take_budget_of(const initing *i, settings *try)
{
    return i->budget[0] == '\0' ||
           option_set(option_find("arena", 5), try, i->budget, "the memory") == BP_OK;
}

static void init_fill(const initing *i, settings *try)
{
    options_defaults(try);
    try->command = COMMAND_TRAIN;
    try->model = i->model;
    try->task = i->task != NULL ? i->task : "auto";
    try->chat_template = i->template;
    try->num_labels = i->classes;
    try->sequence = i->sequence;
    try->batch = i->batch;
    try->quiet = true;
    try->max_steps = 1;
    try->lora_r = i->trained != NULL && strcmp(i->trained, "full") != 0 ? 8 : 0;
    try->load_in_4bit = i->trained != NULL && strcmp(i->trained, "qlora") == 0;
    try->data_format = i->images ? "imagefolder" : "auto";
    if (i->sample) {
        try->data.item[try->data.count++] = i->trial;
    }
    for (size_t k = 0; !i->sample && k < i->data.gl_pathc && k < SETTINGS_PATHS_MAX; k++) {
        try->data.item[try->data.count++] = i->data.gl_pathv[k];
    }
}

/* Reads the model; what is wrong is printed. */
static bool init_read(initing *i)
{
    static session s;
    static settings try;
    init_fill(i, &try);
    try.data.count = 0;
    const bool right = session_report(&s, session_begin(&s, &try)) == 0;
    i->pretrained = s.weights;
    i->own = right && s.directory;
    i->positions = s.spec.config.positions;
    i->numbers = s.spec.config.vocabulary == 0;
    i->own_task = model_task_word((uint32_t)s.spec.config.task);
    i->bytes = !s.directory || s.spec.config.vocabulary == BP_BYTE_VOCABULARY;
    session_end(&s);
    return right;
}

/* Opens a run as `train` does, up to its first step: the data, the plan, and, where they are not
 * many, the weights. */
static bp_status init_open(initing *i, training *t, const settings *try)
{
    session *s = &t->s;
    BP_TRY(training_read(t, try));
    BP_TRY(training_feed(t));
    BP_TRY(session_plan(s));
    BP_TRY(session_check_fit(s));
    i->arena_bytes = s->plan.report.arena_bytes;
    return s->weights && i->arena_bytes <= WEIGHTS_TRIED ? session_start(s) : BP_OK;
}

/* Whether the run that the answers so far give can be trained. Of data with few rows the batch is
 * smaller. What is wrong is printed. */
static bool init_try(initing *i)
{
    static training t;
    static settings try;
    bool right = false, again = true;
    while (again) {
        memset(&t, 0, sizeof t);
        init_fill(i, &try);
        if (!take_budget_of(i, &try)) {
            return false;
        }
        const bp_status status = init_open(i, &t, &try);
        const bp_source *source = t.data.train;
        const uint64_t rows =
            source != NULL ? bp_feed_windows(source, t.s.spec.sequence) : UINT64_MAX;
        again = status != BP_OK && i->batch > 1 && rows < t.s.spec.batch;
        right = !again && session_report(&t.s, status) == 0;
        i->batch = again ? i->batch / 2 : i->batch;
        memory_give_back(&t.lengths);
        reference_close(&t.reference);
        data_set_close(&t.data);
        session_end(&t.s);
    }
    return right;
}

/* What the data are for, by the rule that every command has. What is wrong is printed. */
static bool init_find_task(initing *i)
{
    static session s;
    static settings try;
    static data_files files;
    memset(&files, 0, sizeof files);
    i->task = option_said(i->set, "task") ? i->set->task : "auto";
    i->classes = 0;
    i->template = NULL;
    init_fill(i, &try);
    try.quiet = false;
    if (data_task_resolve(&try) != BP_OK) {
        return false;
    }
    try.quiet = true;
    i->proposed = i->task = strcmp(try.task, "auto") != 0 ? try.task : i->own_task;
    i->classes = (uint32_t)try.num_labels;
    i->images = strcmp(try.data_format, "imagefolder") == 0;
    bool conversations = false;
    bp_status status = session_begin(&s, &try);
    status = status == BP_OK ? data_files_find(&files, &s, &try.data) : status;
    if (status == BP_OK && !i->numbers) {
        status = data_conversations_are(&files, &s, &conversations);
    }
    i->template = conversations && !i->own ? "chatml" : NULL;
    data_files_close(&files);
    const bool right = session_report(&s, status) == 0;
    session_end(&s);
    return right;
}

/* ---- the answers ---- */

static bool take_model(initing *i)
{
    char path[BP_STORE_PATH_MAX];
    const bool there = access(i->line, F_OK) == 0 && init_absolute(i->line, path, sizeof path);
    snprintf(i->model, sizeof i->model, "%s", there ? path : i->line);
    return init_read(i);
}

/* Files and patterns: those of --data, or a line with spaces between them, where a file whose name
 * has spaces stands alone. */
static bool find_files(initing *i)
{
    const path_list *given = &i->set->data;
    struct stat about;
    if (i->globbed) {
        globfree(&i->data);
    }
    i->globbed = true;
    i->data = (glob_t){.gl_pathc = 0};
    for (uint32_t k = 0; k < given->count; k++) {
        if (glob(given->item[k], GLOB_NOCHECK | (k > 0 ? GLOB_APPEND : 0), NULL, &i->data) != 0) {
            return false;
        }
    }
    if (given->count > 0) {
        return true;
    }
    if (stat(i->line, &about) == 0) {
        return glob(i->line, GLOB_NOCHECK | GLOB_NOESCAPE, NULL, &i->data) == 0;
    }
    int more = 0;
    for (char *word = strtok(i->line, " \t"); word != NULL; word = strtok(NULL, " \t")) {
        if (glob(word, GLOB_ERR | more, NULL, &i->data) != 0) {
            output_print(stderr, "bedplate: %s: there is no such file\n", word);
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

static void put_sample(const initing *i, FILE *file)
{
    (void)i;
    for (int k = 0; k < 40; k++) {
        fprintf(file, "%d. %s", k + 1, sample_text);
    }
}

/* The sample text for trying it. */
static bool write_trial(initing *i)
{
    snprintf(i->trial, sizeof i->trial, "%s/bedplate-sample-XXXXXX", environment_temporary());
    const int handle = mkstemp(i->trial);
    FILE *file = handle >= 0 ? fdopen(handle, "w") : NULL;
    if (file != NULL) {
        put_sample(i, file);
    }
    if (file != NULL && fclose(file) == 0) {
        return true;
    }
    output_print(stderr, "bedplate: %s: the file cannot be written\n", i->trial);
    return false;
}

static bool take_data(initing *i)
{
    i->sample = i->line[0] == '\0';
    i->proposed = i->task = "auto";
    i->classes = 0;
    i->template = NULL;
    i->images = false;
    i->trained = NULL;
    i->data_bytes = 40 * (sizeof sample_text - 1);
    if (i->sample && i->numbers) {
        output_print(stderr,
                     "bedplate: this model takes rows of numbers: name a CSV or .f32 file\n");
        return false;
    }
    if (!i->sample && !find_files(i)) {
        return false;
    }
    for (size_t k = 0; !i->sample && k < i->data.gl_pathc; k++) {
        const char *path = i->data.gl_pathv[k];
        struct stat about;
        const bool there = stat(path, &about) == 0;
        i->images = there && S_ISDIR(about.st_mode) && i->numbers && i->data.gl_pathc == 1;
        if (strpbrk(path, "\n\r") != NULL) {
            output_print(stderr,
                         "bedplate: %s: a configuration file cannot hold a name with a line end\n",
                         path);
            return false;
        }
        if (!there || (!S_ISREG(about.st_mode) && !i->images) || access(path, R_OK) != 0) {
            output_print(stderr, "bedplate: %s: this is no file that can be read\n", path);
            return false;
        }
        i->data_bytes = (k == 0 ? 0 : i->data_bytes) + (uint64_t)about.st_size;
    }
    choose_shapes(i);
    if (i->sample && i->trial[0] == '\0' && !write_trial(i)) {
        return false;
    }
    return init_find_task(i) && init_try(i);
}

/* Another task than the proposed one has to be one that the data are for. */
static bool take_task(initing *i)
{
    static settings try;
    const char *const before = i->task;
    const bool same = strcmp(i->line, i->proposed) == 0;
    options_defaults(&try);
    if (option_set(option_find("task", 4), &try, i->line, "the task") != BP_OK) {
        return false;
    }
    snprintf(i->word, sizeof i->word, "%s", i->line);
    const uint32_t classes = i->classes;
    i->task = same ? i->proposed : i->word;
    i->classes = same ? classes : 0;
    init_fill(i, &try);
    if (data_task_resolve(&try) == BP_OK && init_try(i)) {
        return true;
    }
    i->task = before;
    i->classes = classes;
    return false;
}

static bool take_trained(initing *i)
{
    static const char *const words[] = {"full", "lora", "qlora"};
    i->trained = NULL;
    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++) {
        i->trained = strcmp(i->line, words[k]) == 0 ? words[k] : i->trained;
    }
    if (i->trained == NULL) {
        output_print(stderr,
                     "bedplate: the answer is none of the three: found \"%s\", expected "
                     "full, lora or qlora\n",
                     i->line);
        return false;
    }
    return init_try(i);
}

static bool take_steps(initing *i)
{
    static settings try;
    options_defaults(&try);
    if (option_set(option_find("max-steps", 9), &try, i->line, "the steps") != BP_OK) {
        return false;
    }
    if (try.max_steps < 1) {
        output_print(stderr,
                     "bedplate: the steps: the value is out of range: found %s, expected "
                     "1 or more\n",
                     i->line);
        return false;
    }
    snprintf(i->steps, sizeof i->steps, "%s", i->line);
    return true;
}

static bool take_budget(initing *i)
{
    snprintf(i->budget, sizeof i->budget, "%s", i->line);
    return init_try(i);
}

static const struct {
    const char *subject;
    const char *question;
    const char *fallback;     /* NULL: the task that the data are for */
    bool (*take)(initing *i); /* false: it has said what is wrong */
} questions[QUESTIONS] = {
    {"model", "Which model? A directory, a GGUF file, or a preset such as demo, gpt2, llama-3.2-1b",
     "demo", take_model},
    {"data", "Which data? Files or patterns, separated by spaces; empty: a sample text", "",
     take_data},
    {"task", "Which task? Proposed from the data", NULL, take_task},
    {"what is trained",
     "What is trained? full: all weights; lora: adapters; qlora: adapters of a base in 4 bits",
     "full", take_trained},
    {"steps", "How many steps?", "200", take_steps},
    {"memory", "How much memory may it use? Such as 4GiB; empty: what it needs", "", take_budget},
};

/* The next line, without its end and the spaces around it; the fallback for an empty one. False at
 * the end of the input. */
static bool init_ask(initing *i, int number)
{
    const char *usual = questions[number].fallback;
    const char *fallback = usual != NULL ? usual : i->proposed;
    output_print(stderr, "%d/%d %s", number + 1, QUESTIONS, questions[number].question);
    output_print(stderr, fallback[0] != '\0' ? " [%s]: " : ": ", fallback);
    if (fgets(i->line, sizeof i->line, stdin) == NULL) {
        output_print(stderr, "\n");
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
        output_print(stderr, "%s\n", i->line); /* which a terminal shows by itself */
    }
    return true;
}

/* Answers a question by its option, or with --yes by what is proposed. False: it has to be asked.
 */
static bool init_is_answered(initing *i, int number)
{
    const settings *set = i->set;
    const char *usual = questions[number].fallback;
    const char *const options[QUESTIONS] = {"model", "data", "task", NULL, "max-steps", "arena"};
    const bool given = options[number] != NULL && option_said(set, options[number]);
    if (!given && !set->yes) {
        return false;
    }
    if (!given) {
        snprintf(i->line, sizeof i->line, "%s", usual != NULL ? usual : i->proposed);
    } else if (number == 4) {
        snprintf(i->line, sizeof i->line, "%lld", (long long)set->max_steps);
    } else if (number == 5) {
        snprintf(i->line, sizeof i->line, "%llu", (unsigned long long)set->arena);
    } else {
        snprintf(i->line, sizeof i->line, "%s",
                 number == 0   ? set->model
                 : number == 1 ? set->data.item[0]
                               : set->task);
    }
    output_print(stderr, "%d/%d %s: %s\n", number + 1, QUESTIONS, questions[number].subject,
                 i->line[0] != '\0' ? i->line
                 : number == 1      ? "a sample text"
                                    : "what it needs");
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
    fprintf(file, "# Text, JSON lines, token files: one line per file.\n");
    put_data(i, file);
    fprintf(file,
            "# To hold out the last tenth and evaluate it every 50 steps:\n"
            "# validation-split = 0.1\n# eval-steps = 50\n%s%s%s",
            strcmp(i->task, "auto") != 0 ? "task = " : "",
            strcmp(i->task, "auto") != 0 ? i->task : "", strcmp(i->task, "auto") != 0 ? "\n" : "");
    if (i->classes > 0) {
        fprintf(file, "num-labels = %u\n", i->classes);
    }
    if (i->template != NULL) {
        fprintf(file, "chat-template = %s\n", i->template);
    }
    fprintf(file, "%s\n", i->images ? "data-format = imagefolder\n" : "");
    fprintf(file,
            "# Checkpoints and the trained model go here. `--resume` continues from the newest.\n"
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
        fprintf(file, "# With `arena = 4GiB`, settings that fit are chosen.\n");
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
        if (init_is_answered(i, number)) {
            BP_TRY(questions[number].take(i)
                       ? BP_OK
                       : bp_error_set(&i->error, BP_ERR_USAGE, where,
                                      "the answer cannot be used, and nothing is written",
                                      questions[number].subject));
            continue;
        }
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
        bp_text_string(&out.text, " bytes. Start it with\n    bedplate train --config ");
        bp_text_string(&out.text, i->config);
        bp_text_char(&out.text, '\n');
    }
    output_end(&out);
}

int cmd_init(const settings *set)
{
    static initing i;
    i.set = set;
    const bp_status status = init_run(&i, set);
    if (i.globbed) {
        globfree(&i.data);
    }
    if (i.trial[0] != '\0') {
        (void)unlink(i.trial);
    }
    if (status == BP_OK) {
        init_report(&i, set->json);
    }
    return report_status(status, &i.error);
}
