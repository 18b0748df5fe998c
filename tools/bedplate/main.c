/* SPDX-License-Identifier: MIT */
/* bedplate: trains neural networks inside one arena whose size is known before the first step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bedplate/optimizer_choice.h"
#include "tools/bedplate/options.h"
#include "tools/bedplate/verbs.h"

#define VERSION "0.1.0"

typedef struct verb {
    const char *name;
    const char *words; /* arguments that are no options */
    uint32_t least_words;
    uint32_t most_words;
    verb_bit bit;
    int (*run)(const settings *set);
    const char *purpose;
} verb;

static const verb verbs[] = {
    {"plan", " --model DIR|PRESET [options]", 0, 0, VERB_PLAN, cmd_plan,
     "Prints how much memory a training run needs, to the byte, before it exists."},
    {"train", " --model DIR|PRESET --data FILE.. --output-dir DIR [options]", 0, 0, VERB_TRAIN,
     cmd_train, "Trains a model inside one planned arena."},
    {"eval", " --model DIR --data FILE.. [options]", 0, 0, VERB_EVAL, cmd_eval,
     "Prints the mean loss over the data, in nats per token."},
    {"generate", " --model DIR --prompt TEXT|--prompt-ids IDS [options]", 0, 0, VERB_GENERATE,
     cmd_generate, "Continues a prompt."},
    {"export", " --model DIR --to DIR|FILE [--format hf|gguf|llmc] [options]", 0, 0, VERB_EXPORT,
     cmd_export, "Writes a model for other programs: Hugging Face directory, GGUF, llm.c."},
    {"import", " --from FILE --to DIR [options]", 0, 0, VERB_IMPORT, cmd_import,
     "Makes a model directory of a GGUF or llm.c file."},
    {"tokenize", " --tokenizer DIR --data FILE.. --output FILE [options]", 0, 0, VERB_TOKENIZE,
     cmd_tokenize, "Turns text into a token file in llm.c's format."},
    {"verify", " DIR [options]", 1, 1, VERB_VERIFY, cmd_verify,
     "Checks every digest of a snapshot, or of the newest one in an output directory."},
    {"bench", " step|gemm|optim [options]", 1, 1, VERB_BENCH, cmd_bench,
     "Measures a training step, or a matrix product, against this machine's peak."},
    {"devices", " [options]", 0, 0, VERB_DEVICES, cmd_devices, "Lists what can execute."},
    {"arena", " FILE.csv [options]", 1, 1, VERB_ARENA, cmd_arena,
     "Gives each buffer of a CSV file (id, lower, upper, size) an offset, lifetimes apart."},
};

enum { VERBS = sizeof verbs / sizeof verbs[0] };

static char stdout_buffer[65536]; /* so that no step's report makes stdio ask for memory */

static int print_help(void)
{
    printf("bedplate: trains neural networks inside one block of memory whose size is known, to "
           "the\nbyte, before the first step.\n\n");
    for (size_t i = 0; i < VERBS; i++) {
        printf("  bedplate %s%s\n        %s\n", verbs[i].name, verbs[i].words, verbs[i].purpose);
    }
    printf("\nbedplate VERB --help lists a verb's options. Exit codes: 0 done, 2 usage, 3 the plan "
           "does\nnot fit, 4 input data or model, 5 training became non-finite, 6 storage, 7 "
           "device,\n130 and 143 stopped by a signal after saving.\n");
    return 0;
}

static const verb *find_verb(const char *name)
{
    for (size_t i = 0; i < VERBS; i++) {
        if (strcmp(verbs[i].name, name) == 0) {
            return &verbs[i];
        }
    }
    return NULL;
}

static int unknown_verb(const char *name)
{
    const char *names[VERBS];
    for (uint32_t i = 0; i < VERBS; i++) {
        names[i] = verbs[i].name;
    }
    options_unknown("verb", name, names, VERBS);
    return 2;
}

static int run_verb(const verb *v, int count, char **arguments)
{
    static settings set; /* large: lists of files */
    options_defaults(&set);
    set.verb = v->bit;
    if (options_parse(&set, count, arguments) != BP_OK) {
        return 2;
    }
    if (set.help) {
        options_help(v->name, v->words, v->purpose, v->bit);
        return 0;
    }
    if (optimizer_settle(&set) != BP_OK) {
        return 2;
    }
    if (set.print_options) {
        options_print(&set);
        return 0;
    }
    if (set.words.count > v->most_words) {
        fprintf(stderr, "bedplate: %s: an argument that is not expected (right would be%s)\n",
                set.words.item[v->most_words], v->words);
        return 2;
    }
    if (set.words.count < v->least_words) {
        fprintf(stderr, "bedplate: %s: an argument is missing (right would be%s)\n", v->name,
                v->words);
        return 2;
    }
    return v->run(&set);
}

int main(int count, char **arguments)
{
    setvbuf(stdout, stdout_buffer, _IOFBF, sizeof stdout_buffer);
    if (count < 2) {
        print_help();
        return 2;
    }
    const char *first = arguments[1];
    int code;
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0 || strcmp(first, "help") == 0) {
        code = print_help();
    } else if (strcmp(first, "--version") == 0) {
        printf("bedplate %s\n", VERSION);
        code = 0;
    } else {
        const verb *v = find_verb(first);
        code = v != NULL ? run_verb(v, count - 2, arguments + 2) : unknown_verb(first);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fputs("bedplate: stdout: the output could not be written\n", stderr);
        code = code == 0 ? 6 : code;
    }
    return code;
}
