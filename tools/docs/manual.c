/* SPDX-License-Identifier: MIT */
/* Writes the program's own tables as pages: `manual manual` the part of docs/manual.md that lists
 * commands, options and exit codes, `manual families` that of docs/families.md, `manual man`
 * docs/bedplate.1. */
#include <stdio.h>
#include <string.h>

#include "core/base/version.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/app/synonyms.h"
#include "tools/bedplate/app/commands.h"
#include "tools/docs/families.h"

/* Text of a Markdown table's cell. */
static void page_cell(const char *text)
{
    for (; *text != '\0'; text++) {
        printf(*text == '|' || *text == '*' || *text == '<' || *text == '_' ? "\\%c" : "%c", *text);
    }
}

/* Names of commands, or that it is all of them. */
static void put_commands_of(unsigned commands)
{
    bool every = true, first = true;
    const command *v;
    for (uint32_t i = 0; (v = command_at(i)) != NULL; i++) {
        every = every && (commands & (unsigned)v->bit) != 0;
    }
    for (uint32_t i = 0; !every && (v = command_at(i)) != NULL; i++) {
        if ((commands & (unsigned)v->bit) != 0) {
            printf(first ? "%s" : ", %s", v->name);
            first = false;
        }
    }
    printf(every ? "every command" : "");
}

static void put_commands(const option *which)
{
    put_commands_of(which->commands);
}

static bool has_default(const option *which)
{
    return which->fallback != NULL && which->kind != OPTION_FLAG;
}

static void page_option(const option *which)
{
    if (option_section(which) != NULL) {
        printf("\n### %s\n\n", option_section(which));
        printf("| option | value | default | of | what it does |\n|---|---|---|---|---|\n");
    }
    printf("| `--%s` | ", which->name);
    page_cell(which->kind == OPTION_FLAG ? "" : which->choices);
    printf(" | ");
    page_cell(has_default(which) ? which->fallback : "");
    printf(" | ");
    put_commands(which);
    printf(" | ");
    page_cell(which->help);
    printf(" |\n");
}

/* Values that become others, without those that stay. */
static void page_values(const char *values)
{
    const char *between = "";
    for (const char *at = values; *at != '\0';) {
        const size_t whole = strcspn(at, "|");
        const size_t theirs = strcspn(at, "=|");
        if (theirs < whole) {
            const char *ours = at + theirs + 1;
            const int length = (int)(whole - theirs - 1);
            printf(*ours == '!' ? "%s`%.*s`: %.*s" : "%s`%.*s` is `%.*s`", between, (int)theirs, at,
                   *ours == '!' ? length - 1 : length, *ours == '!' ? ours + 1 : ours);
            between = "; ";
        }
        at += whole;
        at += *at == '|' ? 1 : 0;
    }
    printf(values[0] != '@'                       ? ""
           : strcmp(values, SYNONYM_PERCENT) == 0 ? "divided by 100"
                                                  : "each module becomes `@MODULE`");
}

static void page_synonym(const synonym *row)
{
    const bool known = row->name != NULL;
    printf("| `%s%s` | ", row->other[0] == '-' ? "" : "--", row->other);
    printf(known ? "`--%s`" : "%s", known ? row->name : "");
    printf(" | ");
    if (row->commands != 0 && row->commands != ~0u) {
        put_commands_of(row->commands);
    }
    printf(" | ");
    if (row->values != NULL) {
        page_values(row->values);
    }
    printf("%s |\n", row->hint != NULL ? row->hint : "");
}

static void page_synonyms(void)
{
    const synonym *row;
    printf("\n### Names of other programs\n\n"
           "| name | option | only for | values, or what comes nearest |\n|---|---|---|---|\n");
    for (uint32_t i = 0; (row = synonym_at(i)) != NULL; i++) {
        page_synonym(row);
    }
    printf("\n");
}

static void write_page(void)
{
    printf("\n| command | what it does |\n|---|---|\n");
    const command *v;
    for (uint32_t i = 0; (v = command_at(i)) != NULL; i++) {
        printf("| `bedplate %s", v->name);
        page_cell(v->words);
        printf("` | %s |\n", v->purpose);
    }
    printf("\n| exit code | what it says |\n|---|---|\n");
    const command_exit *e;
    for (uint32_t i = 0; (e = command_exit_at(i)) != NULL; i++) {
        printf("| %d | %s |\n", e->code, e->meaning);
    }
    const option *which;
    for (uint32_t i = 0; (which = option_at(i)) != NULL; i++) {
        page_option(which);
    }
    page_synonyms();
}

/* Text of a man page: nothing at a line's beginning that troff would obey. */
static void man_text(const char *text)
{
    const char *begin = text;
    if (*text == '.' || *text == '\'') {
        printf("\\&");
    }
    for (; *text != '\0'; text++) {
        if (*text == '-') {
            printf("\\-");
        } else if (*text == '\\') {
            printf("\\e");
        } else if (*text == ' ' && text > begin && text[-1] == ';') {
            printf("\n"); /* values of a list, one a line of the source */
        } else {
            printf("%c", *text);
        }
    }
}

static void man_option(const option *which)
{
    if (option_section(which) != NULL) {
        printf(".SS ");
        man_text(option_section(which));
        printf("\n");
    }
    printf(".TP\n\\fB\\-\\-");
    man_text(which->name);
    printf("\\fR");
    if (which->kind != OPTION_FLAG) {
        printf(which->kind == OPTION_MAYBE ? " [\\fI" : " \\fI");
        man_text(which->choices);
        printf(which->kind == OPTION_MAYBE ? "\\fR]" : "\\fR");
    }
    printf("\n");
    man_text(which->help);
    if (has_default(which)) {
        printf(" [");
        man_text(which->fallback);
        printf("]");
    }
    printf("\n(");
    put_commands(which);
    printf(")\n");
}

static void man_head(void)
{
    printf(".\\\" SPDX-License-Identifier: MIT\n");
    printf(".\\\" Made by `make manual` from the program's own tables: do not edit.\n");
    printf(".TH BEDPLATE 1 \"\" \"bedplate " BP_VERSION "\" \"User Commands\"\n.ad l\n");
    printf(".SH NAME\nbedplate \\- ");
    man_text(command_program_purpose);
    printf("\n.SH SYNOPSIS\n");
    const command *v;
    for (uint32_t i = 0; (v = command_at(i)) != NULL; i++) {
        printf(i == 0 ? "" : ".br\n");
        printf(".B bedplate %s\n", v->name);
        man_text(v->words + strspn(v->words, " "));
        printf("\n");
    }
    printf(".SH DESCRIPTION\n");
    for (uint32_t i = 0; (v = command_at(i)) != NULL; i++) {
        printf(".TP\n");
        printf(".B %s\n", v->name);
        man_text(v->purpose);
        printf("\n");
    }
}

/* A line that is printed as it stands, or a name, and what it is. */
typedef struct man_pair {
    const char *name;
    const char *text;
} man_pair;

static const man_pair examples[] = {
    {"bedplate plan --model gpt2 --max-seq-length 512 --arena 2GiB",
     "Plans the training of GPT-2 in 2 GiB, and prints the memory by class."},
    {"bedplate train --model DIR --data train.jsonl --output-dir run --arena 2GiB",
     "Fine-tunes a model within that budget."},
    {"bedplate train --model DIR --data train.jsonl --output-dir run --resume auto",
     "Starts an unattended run, or continues it after an interruption."},
    {"bedplate train --model DIR --data chat.jsonl --output-dir lora --lora-r 16 --load-in-4bit",
     "Trains adapters beside a base that is quantised to 4 bits."},
    {"bedplate eval --model run --data test.jsonl --predictions -",
     "Prints the prediction for each row, and the metrics on stderr."},
    {"bedplate generate --model run --prompt 'Once upon a time' --max-new-tokens 50",
     "Continues a text."},
    {"bedplate export --model DIR --adapter lora --merge --to merged",
     "Merges adapters into the weights of their base."},
    {"bedplate export --model run --to run.gguf", "Writes a GGUF file."},
    {"bedplate train --help lora", "Shows the options that concern LoRA."},
};

static const man_pair files[] = {
    {"DIR/config.json, DIR/model.safetensors, DIR/tokenizer.json",
     "A model directory as transformers has it, which --model reads and --output-dir gets."},
    {"DIR/checkpoint-N/", "A checkpoint after step N: weights, optimizer state and position in the "
                          "data. `bedplate verify` checks it."},
    {"DIR/record.jsonl",
     "The record of a run, a chain of digests that `bedplate replay` recomputes."},
    {"DIR/events.jsonl", "What happened in a run: checkpoints, evaluations, spikes, signals."},
    {"DIR/adapter_config.json, DIR/adapter_model.safetensors", "Adapters in PEFT's form."},
    {"DIR/runs/", "TensorBoard's files, with --report-to tensorboard."},
    {"train.conf", "Options for --config, as `bedplate init` and --print-options write them."},
};

static const man_pair environment[] = {
    {"BEDPLATE_GRACE",
     "Seconds between a signal to stop and the end of the process. A warning follows if saving "
     "takes longer."},
    {"TMPDIR", "The directory of temporary files, /tmp by default."},
    {"NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID",
     "Set by systemd: where the run reports its state, and how often."},
    {"OMPI_COMM_WORLD_SIZE, PMIX_RANK, PMI_RANK, SLURM_PROCID, MASTER_ADDR",
     "Set by mpirun, srun or torchrun, with others: the number of ranks, and which one this is."},
};

static void man_pairs(const char *heading, const man_pair *pairs, size_t count)
{
    printf(".SH %s\n", heading);
    for (size_t i = 0; i < count; i++) {
        printf(".TP\n\\fB");
        man_text(pairs[i].name);
        printf("\\fR\n");
        man_text(pairs[i].text);
        printf("\n");
    }
}

static void man_exits(void)
{
    printf(".SH EXIT STATUS\n");
    const command_exit *e;
    for (uint32_t i = 0; (e = command_exit_at(i)) != NULL; i++) {
        printf(".TP\n.B %d\n", e->code);
        man_text(e->meaning);
        printf("\n");
    }
}

static void write_man(void)
{
    man_head();
    printf(
        ".SH OPTIONS\nIn names \\- and _ are alike. Sizes are bytes or 4GiB, 512MB, 2e9, in any "
        "case. "
        "A flag may have the value true or false, and \\-\\-no\\-NAME sets it to false. A file of\n"
        ".I name = value\nlines may give options, with\n.B \\-\\-config\n.\n");
    const option *which;
    for (uint32_t i = 0; (which = option_at(i)) != NULL; i++) {
        man_option(which);
    }
    printf(".SS Names of other programs\n");
    const synonym *row;
    for (uint32_t i = 0; (row = synonym_at(i)) != NULL; i++) {
        if (row->name != NULL && strcmp(row->name, row->other) != 0) {
            printf(".TP\n\\fB");
            man_text(row->other[0] == '-' ? "" : "--");
            man_text(row->other);
            printf("\\fR\n\\-\\-");
            man_text(row->name);
            printf("\n");
        }
    }
    man_exits();
    man_pairs("EXAMPLES", examples, sizeof examples / sizeof examples[0]);
    man_pairs("FILES", files, sizeof files / sizeof files[0]);
    man_pairs("ENVIRONMENT", environment, sizeof environment / sizeof environment[0]);
    printf(
        ".SH SEE ALSO\nDocumentation of bedplate, in docs/ of its source: manual.md, families.md, "
        "library.md, and the guides in how\\-to/.\n"
        "The names of most options are those of Hugging Face transformers and PEFT.\n");
}

int main(int count, char **arguments)
{
    if (count == 2 && strcmp(arguments[1], "manual") == 0) {
        write_page();
    } else if (count == 2 && strcmp(arguments[1], "families") == 0) {
        families_page();
    } else if (count == 2 && strcmp(arguments[1], "man") == 0) {
        write_man();
    } else {
        fputs("manual manual|families|man\n", stderr);
        return 2;
    }
    return ferror(stdout) != 0 || fflush(stdout) != 0;
}
