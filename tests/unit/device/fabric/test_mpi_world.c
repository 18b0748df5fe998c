/* SPDX-License-Identifier: MIT */
/* Ranks as processes of this test, joined without MPI: how a world begins and ends, and how each
 * way of losing a rank becomes known to the others. What launchers add is test_mpi.c's. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/digest.h"
#include "device/fabric/leave.h"
#include "device/fabric/mpi.h"
#include "tests/fixtures/tcp_hello.h"

enum { RANKS = 3, BYTES = 64, WAIT_MS = 30000, SAID = 512 };

static bp_mpi_world world;
static bp_tcp messages;
static void *context;
static bp_error error;
static char port_text[16];
static int told; /* a pipe: what a rank says */

static void nap(long ms)
{
    const struct timespec span = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&span, NULL); /* no wait: its callers give the reason */
}

static void say(void *user, const bp_error *cause)
{
    char line[SAID];
    (void)user;
    int length = snprintf(line, sizeof line, "%s: %s\n", cause->name, cause->text);
    assert_int_equal(write(told, line, (size_t)length), length);
}

typedef struct world_case {
    const char *name;
    void (*act)(void);
    bool speaks;
    uint64_t start_ms, silence_ms, patience_ms;
    const char *said; /* by one rank: in what it says; NULL: nobody says anything */
    int codes[RANKS]; /* exit codes; -1: killed */
} world_case;

static unsigned char from[RANKS * BYTES], to[RANKS * BYTES];

static bp_status call(bp_fabric_call kind, uint32_t request)
{
    const bp_fabric_transfer transfer = {
        .call = kind, .request = request, .bytes = BYTES, .to = to, .from = from};
    return bp_fabric_mpi.begin(context, &transfer, &error);
}

static void act_calls(void)
{
    for (uint32_t i = 0; i < 20 && error.code == BP_OK; i++) {
        memset(from, (int)(world.rank * 16 + i), sizeof from);
        if (call((bp_fabric_call)(i % 3), i) == BP_OK) {
            (void)!bp_fabric_mpi.wait(context, i, &error);
        }
        const uint32_t last = i % 3 == BP_FABRIC_BROADCAST ? 0 : RANKS - 1;
        if (error.code == BP_OK && to[last * BYTES] != last * 16 + i) {
            bp_leave(99);
        }
    }
}

static void act_dies(void)
{
    if (world.rank == 1) {
        raise(SIGKILL);
    }
    act_calls();
}

static void act_stops(void)
{
    bp_mpi_world_note(&world, 41);
    if (world.rank == 1) {
        raise(SIGSTOP);
    }
    act_calls();
}

static void act_fails(void)
{
    if (world.rank > 0) {
        bp_error own = {.code = BP_OK};
        const char *name = world.rank == 1 ? "one.bin" : "two.bin";
        if (bp_error_set(&own, BP_ERR_DATA, "test", "a file is missing", name) != BP_OK) {
            bp_mpi_world_fail(&world, &own);
        }
    }
    act_calls();
}

static void act_waits(void)
{
    if (world.rank != 1) {
        act_calls();
        return;
    }
    while (bp_fabric_mpi.check(context, &error) == BP_OK) {
        nap(20); /* no wait: between two looks */
    }
}

/* Rank 1 goes with a call under way. */
static void act_goes(void)
{
    if (world.rank == 1) {
        (void)!call(BP_FABRIC_ALL_GATHER, 0);
        return;
    }
    act_calls();
}

static void act_differs(void)
{
    (void)!bp_fabric_mpi.agree(context, world.rank == 2 ? 1 : 0, &error);
}

/* This process is a rank, to its end. */
static void rank_main(const world_case *c, uint32_t rank, uint32_t size)
{
    const bp_mpi_options options = {.tcp = &messages,
                                    .version = "1",
                                    .launcher = {.kind = BP_LAUNCHER_TORCHRUN,
                                                 .rank = rank,
                                                 .size = size,
                                                 .address = "127.0.0.1",
                                                 .port = port_text},
                                    .start_ms = c->start_ms,
                                    .silence_ms = c->silence_ms,
                                    .speak = c->speaks ? say : NULL};
    bp_status status = bp_mpi_world_open(&world, &options, &error);
    context = calloc(1, bp_fabric_mpi.context_bytes);
    const bp_fabric_options ranks = {
        .world = &world, .rank = rank, .size = size, .patience_ms = c->patience_ms};
    if (status == BP_OK && bp_fabric_mpi.open(context, &ranks, &error) == BP_OK) {
        c->act();
        bp_fabric_mpi.close(context);
    } else if (!c->speaks || world.size == 0) {
        say(NULL, &error);
    }
    const bool ended = bp_mpi_world_close(&world); /* does not return after a failure of all */
    free(context);
    bp_leave(!ended ? 98 : status == BP_OK ? 0 : bp_status_exit_code(status));
}

static const world_case cases[] = {
    {"calls", act_calls, true, WAIT_MS, 10000, WAIT_MS, NULL, {0, 0, 0}},
    {"killed", act_dies, true, WAIT_MS, 10000, WAIT_MS, "rank 1 on ", {10, -1, 10}},
    {"killed, nobody speaks", act_dies, false, WAIT_MS, 10000, WAIT_MS, NULL, {10, -1, 10}},
    {"stopped",
     act_stops,
     true,
     WAIT_MS,
     4000,
     WAIT_MS,
     "step 41: a rank is lost: it has been",
     {10, -1, 10}},
    {"errors of their own",
     act_fails,
     true,
     WAIT_MS,
     10000,
     WAIT_MS,
     ".bin: a file is missing", /* of the two that fail, the one that is first to be heard */
     {4, 4, 4}},
    {"errors, nobody speaks", act_fails, false, WAIT_MS, 10000, WAIT_MS, NULL, {4, 4, 4}},
    {"one waits", act_waits, true, WAIT_MS, 10000, 4000, "rank 1 on ", {10, 10, 10}},
    {"one goes", act_goes, true, WAIT_MS, 10000, WAIT_MS, "a rank has left", {10, 10, 10}},
    {"plans differ",
     act_differs,
     true,
     WAIT_MS,
     10000,
     WAIT_MS,
     "the ranks have made different plans",
     {2, 2, 2}},
};

/* A port that was free just now. */
static uint16_t port_free(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t bytes = sizeof address;
    int made = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(made, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(made, (struct sockaddr *)&address, &bytes), 0);
    close(made);
    return ntohs(address.sin_port) < 65000 ? ntohs(address.sin_port) : 40000;
}

/* Starts `count` ranks of `size`; what they say comes out of the pipe's end `*said`. */
static void ranks_start(const world_case *c, uint32_t count, uint32_t size, pid_t *children,
                        int *said)
{
    int ends[2];
    snprintf(port_text, sizeof port_text, "%u", port_free());
    assert_int_equal(pipe(ends), 0);
    told = ends[1];
    for (uint32_t rank = 0; rank < count; rank++) {
        children[rank] = fork();
        if (children[rank] == 0) {
            rank_main(c, rank, size);
        }
    }
    close(ends[1]);
    *said = ends[0];
}

static int code_of(pid_t child)
{
    int ended = 0;
    assert_int_equal(waitpid(child, &ended, 0), child);
    return WIFEXITED(ended) ? WEXITSTATUS(ended) : -1;
}

static void each_case(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const world_case *c = &cases[i];
        pid_t children[RANKS];
        char text[4 * SAID];
        int said, codes[RANKS];
        size_t length = 0;
        ranks_start(c, RANKS, RANKS, children, &said);
        codes[0] = code_of(children[0]);
        codes[2] = code_of(children[2]);
        kill(children[1], codes[0] == 0 ? 0 : SIGKILL); /* one that is stopped does not end */
        codes[1] = code_of(children[1]);
        for (ssize_t got; (got = read(said, text + length, sizeof text - 1 - length)) > 0;) {
            length += (size_t)got;
        }
        text[length] = '\0';
        close(said);
        const char *end = strchr(text, '\n');
        const bool right = c->said == NULL
                               ? length == 0 || !c->speaks
                               : strstr(text, c->said) != NULL && end != NULL && end[1] == '\0';
        for (int rank = 0; rank < RANKS; rank++) {
            const bool same = codes[rank] == c->codes[rank] || (rank == 1 && codes[1] == -1);
            if (!same || !right) {
                fail_msg("%s: rank %d ended with %d, %d was right; said: %s", c->name, rank,
                         codes[rank], c->codes[rank], text);
            }
        }
    }
}

/* Rank 1 is not one of ours: it joins, and then is silent, or goes. */
/* Comes as rank 1 of 2 does, with the proof of a group without a secret. */
static void say_hello(int made)
{
    const hello own = {TCP_HELLO_MAGIC, 1, 2, 9, bp_digest_of("", 0, 0), {7}};
    answer got;
    unsigned char proof[BP_SHA256_BYTES];
    assert_int_equal(write(made, &own, sizeof own), sizeof own);
    assert_int_equal(recv(made, &got, sizeof got, MSG_WAITALL), sizeof got);
    tcp_hello_prove('c', &own, &got.hello, proof);
    assert_int_equal(write(made, proof, sizeof proof), sizeof proof);
    assert_int_equal(recv(made, proof, 1, 0), 1); /* it is in */
}

/* verifies ranks-15.459a */
static void who_joins_has_to_speak(void **state)
{
    static const char *const texts[] = {"did not come in time", "its connection has ended",
                                        "did not come in time"};
    /* a hundred times what it takes to join; what nobody does at all */
    static const uint64_t starts[] = {5000, WAIT_MS, 1000};
    (void)state;
    for (int i = 0; i < 3; i++) {
        const world_case c = {.start_ms = starts[i], .silence_ms = 500, .patience_ms = 1000};
        struct sockaddr_in address = {.sin_family = AF_INET};
        pid_t child;
        char text[SAID] = "";
        int said, made = -1;
        ranks_start(&c, 1, 2, &child, &said);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons((uint16_t)atoi(port_text));
        for (int tries = 0; i < 2 && made < 0 && tries < WAIT_MS / 5; tries++) {
            made = socket(AF_INET, SOCK_STREAM, 0);
            if (connect(made, (struct sockaddr *)&address, sizeof address) != 0) {
                close(made);
                made = -1;
                nap(5); /* no wait: between two looks */
            }
        }
        if (i < 2) {
            say_hello(made);
        }
        if (i == 1) {
            close(made);
        }
        assert_int_equal(code_of(child), 10);
        assert_true(read(said, text, sizeof text - 1) > 0);
        assert_non_null(strstr(text, texts[i]));
        assert_non_null(strstr(text, "rank 1"));
        close(said);
        if (i == 0) {
            close(made);
        }
    }
}

/* A world that never was. */
static void what_is_not_open_is_closed(void **state)
{
    static bp_mpi_world none;
    const bp_error cause = {.code = BP_ERR_DATA};
    (void)state;
    assert_true(bp_mpi_world_close(&none));
    bp_mpi_world_fail(&none, &cause);
    assert_int_equal(none.failed, BP_OK);
    const bp_mpi_options options = {.library = "libno-such-mpi.so",
                                    .version = "1",
                                    .launcher = {.size = 1},
                                    .start_ms = WAIT_MS};
    bp_error why = {.code = BP_OK};
    assert_int_equal(bp_mpi_world_open(&none, &options, &why), BP_ERR_DEVICE);
    assert_int_equal(none.size, 0);
    bp_mpi_world_fail(&none, &cause); /* nobody is told */
    assert_true(bp_mpi_world_close(&none));
    assert_int_equal(bp_mpi_world_open(&none, &options, NULL), BP_ERR_DEVICE);
    assert_true(bp_mpi_world_close(&none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_case),
        cmocka_unit_test(who_joins_has_to_speak),
        cmocka_unit_test(what_is_not_open_is_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
