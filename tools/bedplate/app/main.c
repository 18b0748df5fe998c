/* SPDX-License-Identifier: MIT */
/* bedplate: trains neural networks inside one arena whose size is known before the first step. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/version.h"
#include "tools/bedplate/app/clock.h"
#include "tools/bedplate/models/model_table.h"
#include "tools/bedplate/adapters/adapters_run.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/session/resolve.h"
#include "tools/bedplate/sources/data_stored.h"
#include "tools/bedplate/app/process_memory.h"
#include "tools/bedplate/ranks/ranks.h"
#include "tools/bedplate/app/commands.h"
#include "tools/bedplate/app/output.h"

enum { COMMANDS_MOST = 32 }; /* names that a message lists */

static char stdout_buffer[65536]; /* so that no step's report makes stdio ask for memory */

static int print_help(void)
{
    printf("bedplate: %s.\n\n", command_program_purpose);
    const command *v;
    for (uint32_t i = 0; (v = command_at(i)) != NULL; i++) {
        printf("  bedplate %s%s\n        %s\n", v->name, v->words, v->purpose);
    }
    printf("\nbedplate COMMAND --help shows the options that matter most, --help all every one,\n"
           "--help WORD those that have to do with a word.\n\nExit codes\n");
    const command_exit *e;
    for (uint32_t i = 0; (e = command_exit_at(i)) != NULL; i++) {
        printf("  %3d   %s\n", e->code, e->meaning);
    }
    return 0;
}

static const command *find_command(const char *name)
{
    const command *v;
    for (uint32_t i = 0; (v = command_at(i)) != NULL; i++) {
        if (strcmp(v->name, name) == 0) {
            return v;
        }
    }
    return NULL;
}

static int unknown_command(const char *name)
{
    const char *names[COMMANDS_MOST];
    uint32_t count = 0;
    const char *nearest;
    const char *hint = command_hint(name, &nearest);
    if (hint != NULL) {
        output_print(stderr, "bedplate: %s: unknown command: %s\n", name, hint);
        if (nearest != NULL) {
            output_print(stderr, "try: bedplate %s --help\n", nearest);
        }
        return 2;
    }
    for (const command *v; count < COMMANDS_MOST && (v = command_at(count)) != NULL; count++) {
        names[count] = v->name;
    }
    options_unknown(NULL, "command", name, names, count);
    return 2;
}

/* bedplate help [COMMAND [all|WORD]] */
static int print_help_of(int count, char **arguments)
{
    if (count < 1) {
        return print_help();
    }
    const command *v = find_command(arguments[0]);
    return v != NULL ? options_help(v, count > 1 ? arguments[1] : "true")
                     : unknown_command(arguments[0]);
}

/* *kept: what the command is for does not lie in its output. */
static int run_command(const command *v, int count, char **arguments, bool *kept)
{
    static settings set; /* large: lists of files */
    options_defaults(&set);
    set.command = v->bit;
    set.began = clock_seconds();
    if (options_parse(&set, count, arguments) != BP_OK) {
        return 2;
    }
    if (set.help != NULL) {
        return options_help(v, set.help);
    }
    if (set.words.count > v->most_words) {
        output_print(stderr, "bedplate: %s: an argument that is not expected: expected%s\n",
                     set.words.item[v->most_words], v->words);
        return 2;
    }
    if (resolve_options(&set) != BP_OK) {
        return 2;
    }
    if (set.print_options) {
        options_print(&set);
        model_print(&set);
        return 0;
    }
    if (set.words.count < v->least_words) {
        output_print(stderr, "bedplate: %s: an argument is missing: expected%s\n", v->name,
                     v->words);
        return 2;
    }
    /* What a run is for lies in its directory: whoever read its log may be gone. */
    *kept = v->bit == COMMAND_TRAIN;
    const bp_status found = set.adapters != NULL ? BP_OK : resolve_data(&set);
    const int code = found != BP_OK         ? bp_status_exit_code(found)
                     : set.adapters != NULL ? adapters_run(&set)
                                            : v->run(&set);
    data_stored_end();
    return code;
}

/* Whoever starts a program may have closed its standard streams. The next file opened would take
 * such a number, and lines of the log would go into it. Each stream is opened the wrong way round,
 * so that using it fails as on a closed one. */
static bool main_streams_open(void)
{
    static const int modes[] = {O_WRONLY, O_RDONLY, O_RDONLY};
    for (int i = 0; i < 3; i++) {
        if (fcntl(i, F_GETFD) == -1 && open("/dev/null", modes[i]) != i &&
            open("/", O_RDONLY) != i) {
            return false;
        }
    }
    return true;
}

int main(int count, char **arguments)
{
    if (!main_streams_open()) {
        return 6; /* and nothing can be said */
    }
    process_plain_pages(true);
    setvbuf(stdout, stdout_buffer, _IOFBF, sizeof stdout_buffer);
    if (count < 2) {
        print_help();
        return 2;
    }
    const char *first = arguments[1];
    bool kept = false;
    int code;
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0 || strcmp(first, "help") == 0) {
        code = print_help_of(count - 2, arguments + 2);
    } else if (strcmp(first, "--version") == 0) {
        printf("bedplate %s\n", BP_VERSION);
        code = 0;
    } else {
        const command *v = find_command(first);
        if (v != NULL && v->bit == COMMAND_TRAIN) {
            ranks_hush();
        }
        code = v != NULL ? run_command(v, count - 2, arguments + 2, &kept) : unknown_command(first);
        ranks_hush_end(code);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        output_print(stderr, "bedplate: stdout: the output could not be written\n");
        code = code == 0 && !kept ? 6 : code;
    }
    return code;
}
