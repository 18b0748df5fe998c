/* SPDX-License-Identifier: MIT */
/* The process behind --reward-command. */
#define _DEFAULT_SOURCE
#include "tools/bedplate/reward/reward_command.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arena/json_write.h"
#include "core/base/json.h"
#include "tools/bedplate/app/clock.h"

enum { CASE_WAITS, CASE_ASKED, CASE_ANSWERED, CASE_FAILED };

/* One completion of a call. */
typedef struct case_state {
    uint8_t state;
    uint8_t tries;
    double until; /* the deadline, on clock_seconds() */
} case_state;

/* A call that asks. */
typedef struct asking {
    reward_command *command;
    const reward_case *cases;
    uint32_t count;
    uint32_t pitch;
    double *scores;
    case_state *at;
    uint32_t open;     /* asked and not answered */
    const char *fault; /* of the process; NULL: none. Static */
} asking;

/* In the child: nothing but calls that are safe behind a fork of a program with threads. */
static void child_begin(const reward_command *command, int in, int out)
{
    const int errors =
        command->errors != NULL ? open(command->errors, O_WRONLY | O_CREAT | O_APPEND, 0644) : -1;
    const struct rlimit memory = {command->memory_limit, command->memory_limit};
    const struct rlimit cpu = {command->cpu_limit, command->cpu_limit};
    const struct rlimit core = {0, 0};
    setsid();
    if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || (errors >= 0 && dup2(errors, 2) < 0)) {
        _exit(127);
    }
    for (int i = 3; i < 1024; i++) {
        close(i);
    }
    if ((command->memory_limit > 0 && setrlimit(RLIMIT_AS, &memory) != 0) ||
        (command->cpu_limit > 0 && setrlimit(RLIMIT_CPU, &cpu) != 0) ||
        setrlimit(RLIMIT_CORE, &core) != 0) {
        _exit(127);
    }
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    execl("/bin/sh", "sh", "-c", command->text, (char *)NULL);
    _exit(127);
}

static void close_pair(const int pair[2])
{
    close(pair[0]);
    close(pair[1]);
}

static bool command_start(reward_command *command)
{
    int in[2], out[2];
    command->used = 0;
    if (pipe(in) != 0) {
        return false;
    }
    if (pipe(out) != 0) {
        close_pair(in);
        return false;
    }
    const pid_t process = fork();
    if (process == 0) {
        child_begin(command, in[0], out[1]);
    }
    close(in[0]);
    close(out[1]);
    if (process < 0) {
        close(in[1]);
        close(out[0]);
        return false;
    }
    command->process = process;
    command->to = in[1];
    command->from = out[0];
    return fcntl(command->to, F_SETFL, O_NONBLOCK) == 0 &&
           fcntl(command->to, F_SETFD, FD_CLOEXEC) == 0 &&
           fcntl(command->from, F_SETFL, O_NONBLOCK) == 0 &&
           fcntl(command->from, F_SETFD, FD_CLOEXEC) == 0;
}

void reward_command_close(reward_command *command)
{
    if (command->process == 0) {
        return;
    }
    close(command->to);
    close(command->from);
    kill(-command->process, SIGKILL);
    kill(command->process, SIGKILL); /* it may not have its own group yet */
    while (waitpid(command->process, NULL, 0) < 0 && errno == EINTR) {
    }
    command->process = 0;
}

/* Waits until `events` of one of the descriptors; false: the time is over. */
static bool command_wait(const reward_command *command, bool writes, double until)
{
    struct pollfd at[2] = {{.fd = command->from, .events = POLLIN},
                           {.fd = command->to, .events = POLLOUT}};
    for (;;) {
        const double left = until - clock_seconds();
        if (left <= 0) {
            return false;
        }
        const int milliseconds = left > 1e6 ? 1000000000 : (int)(left * 1e3) + 1;
        const int ready = poll(at, writes ? 2 : 1, milliseconds);
        if (ready > 0) {
            return true;
        }
        if (ready < 0 && errno != EINTR) {
            return false;
        }
    }
}

/* Reads what is there behind the line's bytes; what is wrong, or NULL. */
static const char *command_read(reward_command *command)
{
    if (command->used == REWARD_LINE_MAX) {
        return "an answer of the reward command is longer than 65,536 bytes";
    }
    const ssize_t got =
        read(command->from, command->line + command->used, REWARD_LINE_MAX - command->used);
    if (got > 0) {
        command->used += (size_t)got;
        return NULL;
    }
    return got < 0 && (errno == EAGAIN || errno == EINTR) ? NULL : "the reward command ended";
}

/* The first whole line; NULL: there is none yet. */
static char *command_line(reward_command *command, size_t *length)
{
    char *end = memchr(command->line, '\n', command->used);
    *length = end != NULL ? (size_t)(end - command->line) : 0;
    return end != NULL ? command->line : NULL;
}

static void command_drop(reward_command *command, size_t length)
{
    command->used -= length + 1;
    memmove(command->line, command->line + length + 1, command->used);
}

/* What an answer or a hello says. */
typedef struct answer {
    bool has_id;
    uint64_t id;
    bool skip;
    bool names; /* it has rewards by name */
    uint32_t count;
    double values[REWARD_FUNCTIONS_MAX];
    char keys[REWARD_FUNCTIONS_MAX][REWARD_NAME_MAX];
} answer;

/* A member of the answer's top, whose key was `key`. */
static bool answer_top(answer *a, const char *key, const bp_json_event *event)
{
    if (strcmp(key, "id") == 0) {
        a->has_id = event->kind == BP_JSON_NUMBER && event->integer && event->i64 >= 0;
        a->id = a->has_id ? (uint64_t)event->i64 : 0;
        return a->has_id;
    }
    if (strcmp(key, "skip") == 0) {
        a->skip = event->kind == BP_JSON_TRUE;
        return a->skip || event->kind == BP_JSON_FALSE;
    }
    if (strcmp(key, "reward") == 0) {
        a->values[0] = event->real;
        a->count = 1;
        return event->kind == BP_JSON_NUMBER;
    }
    return event->kind != BP_JSON_OBJECT_BEGIN || strcmp(key, "rewards") == 0;
}

/* A reward by its name, or in a hello the name alone. */
static bool answer_part(answer *a, const char *key, const bp_json_event *event)
{
    const bool item = event->kind == BP_JSON_TEXT;
    const char *name = item ? event->text : key;
    if (a->count == REWARD_FUNCTIONS_MAX || strlen(name) + 1 > REWARD_NAME_MAX || name[0] == '\0' ||
        (!item && event->kind != BP_JSON_NUMBER)) {
        return false;
    }
    a->names = true;
    a->values[a->count] = event->real;
    memcpy(a->keys[a->count++], name, strlen(name) + 1);
    return true;
}

/* Reads a line of the command; false: it is not such an object. */
static bool answer_read(answer *a, const char *line, size_t length)
{
    char room[1024], key[REWARD_NAME_MAX] = "", inner[REWARD_NAME_MAX] = "";
    bp_json_span span = {line, length};
    const bp_json_source source = {bp_json_span_fill, &span, length};
    const bp_json_memory memory = {.text = room, .text_bytes = sizeof room, .max_depth = 8};
    bp_json json;
    bp_json_event event;
    bp_error unused = {.code = BP_OK};
    memset(a, 0, sizeof *a);
    bool right = bp_json_init(&json, &source, &memory, &unused) == BP_OK &&
                 bp_json_next(&json, &event) == BP_OK && event.kind == BP_JSON_OBJECT_BEGIN;
    while (right && bp_json_next(&json, &event) == BP_OK) {
        char *to = event.depth == 1 ? key : inner;
        if (event.kind == BP_JSON_END) {
            return true;
        }
        if (event.kind == BP_JSON_KEY) {
            const size_t used = event.length < REWARD_NAME_MAX ? event.length : 0;
            memcpy(to, event.text, used);
            to[used] = '\0';
        } else if (event.depth == 2 && strcmp(key, "rewards") == 0) {
            right = answer_part(a, inner, &event);
        } else if (event.depth == 1 && event.kind != BP_JSON_OBJECT_END &&
                   event.kind != BP_JSON_ARRAY_END) {
            right = answer_top(a, key, &event);
        }
    }
    return false;
}

static bp_status command_refuse(const reward_command *command, const char *what, bp_error *error)
{
    return bp_error_set(error, BP_ERR_DATA, "reward", what, command->text);
}

/* The hello line of a process that has just been started; what is wrong, or NULL. */
static const char *command_hello(reward_command *command, answer *hello)
{
    const double until = clock_seconds() + command->timeout;
    const char *line = NULL;
    size_t length = 0;
    while ((line = command_line(command, &length)) == NULL) {
        if (!command_wait(command, false, until)) {
            return "the reward command says no hello line within --reward-timeout";
        }
        const char *fault = command_read(command);
        if (fault != NULL) {
            return "the reward command ended, or said too much, before a hello line";
        }
    }
    if (length >= REWARD_HELLO_MAX || !answer_read(hello, line, length) || hello->has_id) {
        return "the first line of the reward command is no hello, an object such as "
               "{\"name\":\"grader\",\"version\":\"1\"}";
    }
    memcpy(command->hello, line, length);
    command->hello[length] = '\0';
    command_drop(command, length);
    return NULL;
}

/* Starts a process whose hello names the same rewards as the first one's. */
static const char *command_restart(reward_command *command)
{
    answer hello;
    char first[REWARD_HELLO_MAX];
    memcpy(first, command->hello, sizeof first);
    const char *fault = command_start(command) ? command_hello(command, &hello)
                                               : "the reward command cannot be started";
    if (fault == NULL && strcmp(first, command->hello) != 0) {
        fault = "the reward command says another hello line than before";
        memcpy(command->hello, first, sizeof first);
    }
    if (fault != NULL) {
        reward_command_close(command);
    }
    return fault;
}

bp_status reward_command_open(reward_command *command, bp_error *error)
{
    answer hello;
    const char *fault = command_start(command) ? command_hello(command, &hello)
                                               : "the reward command cannot be started";
    if (fault != NULL) {
        reward_command_close(command);
        return command_refuse(command, fault, error);
    }
    command->parts = hello.names ? hello.count : 1;
    memcpy(command->names, hello.keys, sizeof command->names);
    if (!hello.names) {
        memcpy(command->names[0], "command", sizeof "command");
    }
    return BP_OK;
}

/* The scores of an answer, in the order of the hello's names; false: they are not those. */
static bool answer_scores(const reward_command *command, const answer *a, double *scores)
{
    const bool named = a->names || command->parts > 1;
    for (uint32_t part = 0; part < command->parts; part++) {
        uint32_t at = 0;
        while (named && at < a->count && strcmp(a->keys[at], command->names[part]) != 0) {
            at++;
        }
        if (!a->skip && (at == a->count || !isfinite(a->values[at]) || (named && !a->names))) {
            return false;
        }
        scores[part] = a->skip ? (double)NAN : a->values[at];
    }
    return a->skip ? a->count == 0 : a->count == command->parts;
}

/* Takes a line; what is wrong with it, or NULL. */
static const char *asking_take(asking *k, const char *line, size_t length)
{
    answer a;
    uint32_t i = 0;
    if (!answer_read(&a, line, length) || !a.has_id) {
        return "a line of the reward command is no answer, an object with an id and a reward that "
               "is a number";
    }
    while (i < k->count && (k->cases[i].id != a.id || k->at[i].state == CASE_WAITS)) {
        i++;
    }
    if (i == k->count) {
        return "the reward command answers an id that it was not asked";
    }
    if (k->at[i].state != CASE_ASKED) {
        return "the reward command answers an id twice";
    }
    if (!answer_scores(k->command, &a, k->scores + (size_t)i * k->pitch)) {
        return "the reward command does not answer with the rewards of its hello line";
    }
    k->at[i].state = CASE_ANSWERED;
    k->open--;
    return NULL;
}

/* Reads and takes what is there. */
static void asking_read(asking *k)
{
    reward_command *command = k->command;
    size_t length;
    const char *line;
    k->fault = command_read(command);
    while (k->fault == NULL && (line = command_line(command, &length)) != NULL) {
        k->fault = asking_take(k, line, length);
        command_drop(command, length);
    }
}

/* Writes to the command. It may be waiting to write itself, so that is read meanwhile. */
static bp_status asking_write(void *user, const char *bytes, size_t count)
{
    asking *k = user;
    const double until = clock_seconds() + k->command->timeout;
    while (count > 0 && k->fault == NULL) {
        const ssize_t put = write(k->command->to, bytes, count);
        if (put > 0) {
            bytes += put;
            count -= (size_t)put;
        } else if (errno != EAGAIN && errno != EINTR) {
            k->fault = "the reward command ended";
        } else if (!command_wait(k->command, true, until)) {
            k->fault = "the reward command reads nothing within --reward-timeout";
        } else {
            asking_read(k);
        }
    }
    return k->fault == NULL ? BP_OK : BP_ERR_DATA;
}

static void asking_put(asking *k, const reward_case *one)
{
    char buffer[4096];
    bp_text text;
    bp_json_writer json;
    bp_text_init(&text, asking_write, k, buffer, sizeof buffer);
    bp_json_put_begin(&json, &text, BP_JSON_COMPACT);
    bp_json_put_open(&json, NULL, '{');
    bp_json_put_u64(&json, "id", one->id);
    bp_json_put_u64(&json, "step", one->step);
    bp_json_put_bytes(&json, "prompt", one->prompt, one->prompt_bytes);
    bp_json_put_bytes(&json, "completion", one->completion, one->completion_bytes);
    if (one->answer != NULL) {
        bp_json_put_bytes(&json, "answer", one->answer, one->answer_bytes);
    }
    bp_json_put_text(&json, "finish", one->truncated ? "length" : "stop");
    bp_json_put_open(&json, "ids", '[');
    for (uint32_t i = 0; i < one->id_count; i++) {
        bp_json_put_u64(&json, NULL, (uint64_t)one->ids[i]);
    }
    bp_json_put_close(&json);
    if (one->row != NULL) {
        bp_json_put_member(&json, "row");
        bp_text_bytes(&text, one->row, one->row_bytes);
    }
    bp_json_put_close(&json);
    bp_text_char(&text, '\n');
    const bp_status told = bp_text_flush(&text); /* k->fault says what is wrong */
    (void)told;
}

/* The process goes. What it was asked is asked once more, then it is a failure. */
static void asking_fail(asking *k)
{
    reward_command *command = k->command;
    reward_command_close(command);
    command->reason = k->fault;
    for (uint32_t i = 0; i < k->count; i++) {
        if (k->at[i].state == CASE_ASKED) {
            k->at[i].state = k->at[i].tries < 2 ? CASE_WAITS : CASE_FAILED;
        }
    }
    k->open = 0;
    k->fault = NULL;
}

/* Without a process nothing that waits can be answered. */
static bool asking_ready(asking *k)
{
    reward_command *command = k->command;
    if (command->process != 0) {
        return true;
    }
    const char *fault = command_restart(command);
    command->restarts++;
    command->reason = fault != NULL ? fault : command->reason;
    return fault == NULL;
}

/* Asks as many as may be open, and reads until one of them is answered or is too late. */
static void asking_round(asking *k)
{
    double until = clock_seconds() + k->command->timeout;
    for (uint32_t i = 0; i < k->count && k->fault == NULL && k->open < REWARD_AT_ONCE; i++) {
        if (k->at[i].state == CASE_WAITS) {
            k->at[i] = (case_state){CASE_ASKED, (uint8_t)(k->at[i].tries + 1),
                                    clock_seconds() + k->command->timeout};
            k->open++;
            asking_put(k, &k->cases[i]);
        }
    }
    for (uint32_t i = 0; i < k->count; i++) {
        if (k->at[i].state == CASE_ASKED && k->at[i].until < until) {
            until = k->at[i].until;
        }
    }
    if (k->fault == NULL && k->open > 0) {
        if (command_wait(k->command, false, until)) {
            asking_read(k);
        } else {
            k->fault = "the reward command gives no answer within --reward-timeout";
        }
    }
}

static uint32_t asking_left(const asking *k)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < k->count; i++) {
        left += k->at[i].state == CASE_WAITS || k->at[i].state == CASE_ASKED;
    }
    return left;
}

static void asking_all(asking *k)
{
    memset(k->at, 0, k->count * sizeof *k->at);
    k->open = 0;
    k->fault = NULL;
    while (asking_left(k) > 0) {
        if (!asking_ready(k)) {
            for (uint32_t i = 0; i < k->count; i++) {
                k->at[i].state = k->at[i].state == CASE_WAITS ? CASE_FAILED : k->at[i].state;
            }
            return;
        }
        asking_round(k);
        if (k->fault != NULL) {
            asking_fail(k);
        }
    }
}

/* Whether one of the completions is answered as before. */
static void asking_check(const asking *k, uint32_t i)
{
    double again[REWARD_FUNCTIONS_MAX];
    const double *before = k->scores + (size_t)i * k->pitch;
    case_state state;
    asking one = {.command = k->command,
                  .cases = &k->cases[i],
                  .count = 1,
                  .pitch = REWARD_FUNCTIONS_MAX,
                  .scores = again,
                  .at = &state};
    asking_all(&one);
    for (uint32_t part = 0; part < k->command->parts; part++) {
        const bool same =
            again[part] == before[part] || (isnan(again[part]) && isnan(before[part]));
        if (state.state != CASE_ANSWERED || !same) {
            k->command->differing++;
            return;
        }
    }
}

static bp_status asking_end(const asking *k, bp_error *error)
{
    reward_command *command = k->command;
    for (uint32_t i = 0; i < k->count; i++) {
        const uint64_t number = command->requests++;
        if (k->at[i].state == CASE_ANSWERED) {
            if (command->check > 0 && number % command->check == 0) {
                asking_check(k, i);
            }
            continue;
        }
        command->failures++;
        if (command->on_failure == REWARD_STOP) {
            return command_refuse(command, command->reason, error);
        }
        for (uint32_t part = 0; part < command->parts; part++) {
            k->scores[(size_t)i * k->pitch + part] =
                command->on_failure == REWARD_SKIP ? (double)NAN : command->value;
        }
    }
    return BP_OK;
}

bp_status reward_command_score(reward_command *command, const reward_case *cases, uint32_t count,
                               uint32_t pitch, double *scores, bp_error *error)
{
    struct sigaction ignore, before;
    asking k = {command, cases, count, pitch, scores, NULL, 0, NULL};
    k.at = calloc(count > 0 ? count : 1, sizeof *k.at);
    if (k.at == NULL) {
        return bp_error_set(error, BP_ERR_FIT, "reward", "no memory for the requests", "");
    }
    memset(&ignore, 0, sizeof ignore);
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, &before); /* a process that ended is told by write */
    asking_all(&k);
    const bp_status status = asking_end(&k, error);
    sigaction(SIGPIPE, &before, NULL);
    free(k.at);
    return status;
}
