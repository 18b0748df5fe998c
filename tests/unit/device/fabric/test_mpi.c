/* SPDX-License-Identifier: MIT */
/* Ranks as processes under mpirun of Open MPI and of MPICH, and of the shell, by TCP: the rows of
 * tests/fixtures/fabric_case.h, and what happens to processes: killed, stopped, of other versions.
 * This program starts itself under each; a launcher that is not installed is skipped by name. */
/* A program of its own (tests/suite.sh). */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "device/fabric/leave.h"
#include "device/fabric/mpi.h"
#include "device/fabric/tcp.h"
#include "tests/fixtures/fabric_case.h"

#define LONG_WAIT 600000 /* ms: no case ends by it */

static const char *self; /* this program */

/* One rank: a process of its own. */
static bp_mpi_world world;
static bp_tcp messages;
static fabric_case rank = {.fabric = &bp_fabric_mpi};
static bp_fabric_group groups[2];
static uint32_t group_count;

static void begin(bp_fabric_call call, uint32_t group, uint32_t root, uint32_t request)
{
    fabric_case_begin(&rank, call, group, root, request);
}

static void wait_for(uint32_t request)
{
    fabric_case_wait(&rank, request);
}

static void agree(uint64_t digest)
{
    rank.digest = digest;
    fabric_case_agree(&rank);
}

static void case_host(void)
{
    agree(17);
    rank.wrong += bp_mpi_world_host(&world, 0)[0] == '\0';
}

static void case_calls(void)
{
    fabric_row_named("calls")->act(&rank);
}

static void case_many(void)
{
    fabric_row_named("many")->act(&rank);
}

static void case_digests(void)
{
    agree(world.rank == 2 ? 0xabcdef : 17);
}

static void case_other_groups(void)
{
    agree(17);
}

/* Rank 1 begins and closes without waiting. */
static void case_leaves_early(void)
{
    agree(17);
    begin(BP_FABRIC_EXCHANGE, 0, 0, 5);
    if (world.rank != 1) {
        wait_for(5);
        begin(BP_FABRIC_EXCHANGE, 0, 0, 6);
        wait_for(6);
    }
}

/* Rank 1 goes in order, and too early. */
static void case_leaves(void)
{
    agree(17);
    if (world.rank != 1) {
        begin(BP_FABRIC_EXCHANGE, 0, 0, 5);
        wait_for(5);
    }
}

static void nap(unsigned ms)
{
    const struct timespec span = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&span, NULL); /* no wait: its callers give the reason */
}

/* Whether a process has been stopped; one that is gone is no case of it. */
static bool stands_still(pid_t process)
{
    char name[64], state[512] = "";
    snprintf(name, sizeof name, "/proc/%ld/stat", (long)process);
    FILE *file = fopen(name, "r");
    const size_t got = file != NULL ? fread(state, 1, sizeof state - 1, file) : 0;
    state[got] = '\0';
    if (file != NULL) {
        fclose(file);
    }
    const char *end = strrchr(state, ')'); /* of its name */
    return got == 0 || (end != NULL && end[1] != '\0' && end[2] == 'T');
}

/* Rank 1 is stopped for a while and goes on: nobody is lost. */
static void case_pauses(void)
{
    agree(17);
    if (world.rank == 1) {
        pid_t me = getpid();
        if (fork() == 0) {
            while (!stands_still(me)) {
                nap(1); /* no wait: between two looks */
            }
            nap(1200); /* no wait: how long it stands still, less than silence_ms */
            kill(me, SIGCONT);
            _exit(0);
        }
        raise(SIGSTOP);
    }
    begin(BP_FABRIC_EXCHANGE, 0, 0, 5);
    wait_for(5);
}

static void case_stops(void)
{
    bp_mpi_world_note(&world, 41);
    agree(17);
    if (world.rank == 1) {
        raise(SIGSTOP);
    }
    begin(BP_FABRIC_EXCHANGE, 0, 0, 5);
    wait_for(5);
}

static void case_killed(void)
{
    agree(17);
    if (world.rank == 1) {
        raise(SIGKILL);
    }
    begin(BP_FABRIC_EXCHANGE, 0, 0, 5);
    wait_for(5);
}

/* Rank 1 works for ever, and its communication thread beats. */
static void case_hangs(void)
{
    bp_mpi_world_note(&world, 7);
    agree(17);
    while (world.rank == 1) {
        nap(1000); /* no wait: for ever */
    }
    begin(BP_FABRIC_ALL_GATHER, 0, 0, 5);
    wait_for(5);
}

/* Rank 1 waits, on another thread than the one that gives up for it. */
static void *abandon_main(void *unused)
{
    const bp_error cause = {
        .code = BP_ERR_DEVICE, .where = "test", .text = "a device failed", .name = "gpu 1"};
    (void)unused;
    bp_fabric_mpi.abandon(rank.context, &cause);
    return NULL;
}

static void case_abandons(void)
{
    pthread_t other;
    agree(17);
    while (world.rank == 2 && bp_fabric_mpi.check(rank.context, NULL) == BP_OK) {
        nap(10); /* no wait: between two looks */
    }
    begin(BP_FABRIC_EXCHANGE, 0, 0, 5);
    const bool abandons = world.rank == 1 && pthread_create(&other, NULL, abandon_main, NULL) == 0;
    wait_for(5);
    if (abandons) {
        pthread_join(other, NULL);
    }
}

static void case_different(void)
{
    agree(17);
    begin(world.rank == 1 ? BP_FABRIC_ALL_GATHER : BP_FABRIC_EXCHANGE, 0, 0, 5);
    wait_for(5);
}

/* Rank 0 waits for none of its calls; the others make the same ones, so that nothing else is wrong
 * however slowly it begins them, and wait for the one that it may not begin. */
static void case_too_many(void)
{
    agree(17);
    for (uint32_t i = 0; i <= bp_fabric_mpi.collectives; i++) {
        begin(BP_FABRIC_ALL_GATHER, 0, 0, i);
        if (world.rank != 0) {
            wait_for(i);
        }
    }
}

/* Ranks 1 and 2 have errors of their own: one says its, the least one of those that had theirs
 * before they heard of the other's. */
static void case_own_error(void)
{
    if (world.rank != 0) {
        bp_error own = {.code = BP_OK};
        bp_mpi_world_fail(&world,
                          bp_error_set(&own, BP_ERR_DATA, "test", "a file is missing",
                                       world.rank == 1 ? "one.bin" : "two.bin") == BP_ERR_DATA
                              ? &own
                              : NULL);
    }
    agree(17);
}

typedef struct mpi_case {
    const char *name;
    void (*act)(void);
    bool speaks; /* the process ends with the failure */
    uint64_t silence_ms;
    uint64_t patience_ms;
} mpi_case;

static const mpi_case cases[] = {
    {"host", case_host, false, 10000, LONG_WAIT},
    {"digests", case_digests, true, 10000, LONG_WAIT},
    {"other_groups", case_other_groups, true, 10000, LONG_WAIT},
    {"leaves_early", case_leaves_early, true, 10000, LONG_WAIT},
    {"leaves", case_leaves, true, 10000, LONG_WAIT},
    {"pauses", case_pauses, false, 10000, LONG_WAIT},
    {"stops", case_stops, true, 4000, LONG_WAIT},
    {"killed", case_killed, true, 10000, LONG_WAIT},
    {"hangs", case_hangs, true, 10000, 4000},
    {"abandons", case_abandons, true, 10000, LONG_WAIT},
    {"different", case_different, true, 10000, LONG_WAIT},
    {"too_many", case_too_many, true, 10000, LONG_WAIT},
    {"own_error", case_own_error, true, 10000, LONG_WAIT},
    {"versions", case_calls, true, 10000, LONG_WAIT},
    {"endless", case_many, true, 10000, LONG_WAIT},
    {"sizes", case_calls, false, 10000, LONG_WAIT},
};

/* What a rank says goes into a file: launchers drop now and then what they have not yet passed on
 * when they end the ranks. */
static void say(void *user, const bp_error *error)
{
    FILE *file = fopen(getenv("BP_TEST_SAID"), "a");
    (void)user;
    if (file != NULL) {
        fprintf(file, "SAID %s: %s\n", error->name, error->text);
        fclose(file);
    }
}

static void give_groups(const mpi_case *c)
{
    const fabric_row *row = fabric_row_named(c->name);
    const bool grouped = row != NULL ? row->grouped : strcmp(c->name, "other_groups") == 0;
    fabric_case_groups(world.rank, world.size, groups);
    group_count = grouped ? 2 : 0;
    if (strcmp(c->name, "other_groups") == 0 && world.rank == 3) {
        group_count = 1;
    }
}

static const fabric_row *shared; /* the row that this process is to do */

static void case_shared(void)
{
    shared->act(&rank);
}

/* This process is a rank. 0: all went as it should. */
static int play(const mpi_case *c)
{
    bp_mpi_options options = {.version = "1",
                              .start_ms = LONG_WAIT,
                              .silence_ms = c->silence_ms,
                              .speak = c->speaks ? say : NULL};
    options.library = getenv("BP_TEST_MPI");
    bp_launcher_find(&options.launcher);
    options.tcp = bp_tcp_takes(&options.launcher) ? &messages : NULL;
    if (strcmp(c->name, "versions") == 0 && options.launcher.rank == 2) {
        options.version = "2";
    }
    if (strcmp(c->name, "sizes") == 0) {
        options.launcher.size++;
    }
    rank.status = bp_mpi_world_open(&world, &options, &rank.error);
    if (rank.status != BP_OK) {
        printf("OPEN %s\n", rank.error.text);
        return bp_status_exit_code(rank.status);
    }
    rank.rank = world.rank;
    rank.size = world.size;
    rank.digest = FABRIC_DIGEST;
    give_groups(c);
    const bp_fabric_options ranks = {&world, world.rank,  world.size,
                                     groups, group_count, c->patience_ms};
    rank.context = malloc(bp_fabric_mpi.context_bytes);
    fabric_case_note(&rank, bp_fabric_mpi.open(rank.context, &ranks, &rank.error));
    if (rank.status == BP_OK) {
        c->act();
        bp_fabric_mpi.close(rank.context);
    }
    const bool well = rank.status == BP_OK && rank.wrong == 0;
    if (!c->speaks) {
        printf(well ? "WELL\n" : "BAD %s, %s\n", rank.error.name, rank.error.text);
    }
    fflush(stdout);
    const int code = well ? 0 : 1;
    if (!bp_mpi_world_close(&world)) {
        bp_leave(code);
    }
    free(rank.context);
    return code;
}

/* From here on: the test, which starts the ranks. */

typedef struct launcher_row {
    const char *name;
    const char *command;
} launcher_row;

static const launcher_row launchers[] = {
    {"mpirun.openmpi", "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
                       "mpirun.openmpi --oversubscribe"},
    {"mpirun.mpich", "mpirun.mpich"},
};

/* No launcher: the shell starts ranks with the variables of torchrun, and messages go by TCP. */
static const launcher_row by_tcp = {"tcp", NULL};

static char output[65536];
static char said[64]; /* the file that ranks say their failures into */

static size_t output_read(FILE *file, size_t before)
{
    size_t got = before + fread(output + before, 1, sizeof output - 1 - before, file);
    output[got] = '\0';
    return got;
}

/* Runs a case; the exit code. What the ranks said is in `output`. */
static int launch(const launcher_row *launcher, unsigned ranks, const char *name)
{
    static unsigned port;
    char command[768];
    fclose(fopen(said, "w"));
    if (launcher->command != NULL) {
        snprintf(command, sizeof command, "%s -n %u timeout -s KILL 900 %s %s 2>&1",
                 launcher->command, ranks, self, name);
    } else {
        port = port == 0 ? 12000 + (unsigned)getpid() % 500 * BP_TCP_PORTS : port + 1;
        snprintf(command, sizeof command,
                 "{ all=; code=0; for i in $(seq 0 %u); do MASTER_ADDR=127.0.0.1 MASTER_PORT=%u "
                 "TORCHELASTIC_RUN_ID=%ld RANK=$i LOCAL_RANK=$i WORLD_SIZE=%u "
                 "timeout -s KILL 900 %s %s & all=\"$all $!\"; "
                 "done; for p in $all; do wait $p || code=$?; done; exit $code; } 2>&1",
                 ranks - 1, port, (long)getpid(), ranks, self, name);
    }
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t got = output_read(pipe, 0);
    int code = pclose(pipe);
    FILE *file = fopen(said, "r");
    assert_non_null(file);
    (void)output_read(file, got);
    fclose(file);
    return WIFEXITED(code) ? WEXITSTATUS(code) : 1000 + code;
}

static unsigned count_of(const char *word)
{
    unsigned count = 0;
    for (const char *at = output; (at = strstr(at, word)) != NULL; at++) {
        count++;
    }
    return count;
}

static const launcher_row *next_launcher(size_t *i)
{
    while (*i < sizeof launchers / sizeof launchers[0]) {
        char command[128];
        const launcher_row *launcher = &launchers[(*i)++];
        snprintf(command, sizeof command, "command -v %s >/dev/null", launcher->name);
        if (system(command) == 0) {
            return launcher;
        }
        print_message("skipped: %s is not installed\n", launcher->name);
    }
    return NULL;
}

static void assert_well(const launcher_row *launcher, unsigned ranks, const char *name)
{
    int code = launch(launcher, ranks, name);
    if (code != 0 || count_of("WELL") != ranks) {
        print_error("%s -n %u %s: %d\n%s\n", launcher->name, ranks, name, code, output);
    }
    assert_int_equal(code, 0);
    assert_int_equal(count_of("WELL"), ranks);
}

/* The rows of every fabric: on one rank, few and some. */
static void rows_are_well(const launcher_row *launcher)
{
    const fabric_row *row;
    for (uint32_t r = 0; (row = fabric_row_at(r)) != NULL; r++) {
        assert_well(launcher, 4, row->name);
    }
    assert_well(launcher, 1, "calls");
    assert_well(launcher, 3, "calls");
}

/* verifies ranks-14.d729 */
static void messages_by_tcp_are_the_same(void **state)
{
    (void)state;
    rows_are_well(&by_tcp);
}

/* verifies ranks-14.d729 */
static void calls_are_plain_loops(void **state)
{
    (void)state;
    size_t i = 0;
    for (const launcher_row *l; (l = next_launcher(&i)) != NULL;) {
        rows_are_well(l);
        assert_well(l, 3, "host");
        assert_well(l, 2, "pauses");
    }
}

typedef struct ending {
    const char *name;
    unsigned ranks;
    int code;
    const char *said; /* by one rank, once */
} ending;

static const ending endings[] = {
    {"digests", 4, 2,
     "SAID rank 2 has digest 0000000000abcdef, rank 0 has 0000000000000011: the ranks have made "
     "different plans"},
    {"other_groups", 4, 2, "the ranks do not agree on the members of a group"},
    {"leaves_early", 3, 10, "a rank has left"},
    {"leaves", 3, 10, "exchange of 1000 bytes: a rank has left"},
    {"stops", 3, 10,
     "exchange of 1000 bytes, step 41: a rank is lost: it has been silent for too long"},
    {"hangs", 3, 10, "all_gather of 1000 bytes, step 7: a rank did not come in time"},
    {"abandons", 3, 7, "gpu 1: a device failed"},
    {"different", 2, 2, "the ranks make different calls"},
    {"too_many", 2, 2, "a rank began a call that it may not begin"},
    {"own_error", 3, 4, ".bin: a file is missing"},
    {"versions", 3, 2, "the ranks run different versions of the program"},
};

/* Whatever it is: one rank says it, the launcher returns the exit code, and nobody is left. */
/* verifies ranks-10.9048 */
static void failures_end_all_ranks(void **state)
{
    (void)state;
    size_t i = 0;
    for (const launcher_row *l; (l = next_launcher(&i)) != NULL;) {
        for (size_t e = 0; e < sizeof endings / sizeof endings[0]; e++) {
            const ending *ends = &endings[e];
            int code = launch(l, ends->ranks, ends->name);
            if (code != ends->code || count_of("SAID") != 1 || count_of(ends->said) != 1) {
                print_error("%s -n %u %s: %d\n%s\n", l->name, ends->ranks, ends->name, code,
                            output);
            }
            assert_int_equal(code, ends->code);
            assert_int_equal(count_of("SAID"), 1);
            assert_int_equal(count_of(ends->said), 1);
        }
    }
}

/* The launcher itself ends the others then, with a code of its own. */
/* verifies ranks-5.1fd2 */
static void a_rank_that_is_killed_ends_the_others(void **state)
{
    (void)state;
    size_t i = 0;
    for (const launcher_row *l; (l = next_launcher(&i)) != NULL;) {
        int code = launch(l, 3, "killed");
        assert_int_not_equal(code, 0);
        assert_int_equal(count_of("WELL"), 0);
        assert_true(count_of("SAID") <= 1);
    }
}

/* As when a launcher is not of the same MPI as the library: processes that are alone. */
/* verifies ranks-18.4f4a */
static void other_numbers_of_ranks_are_refused(void **state)
{
    (void)state;
    size_t i = 0;
    for (const launcher_row *l; (l = next_launcher(&i)) != NULL;) {
        /* 2, unless a launcher that ends the other one first returns that signal's code */
        assert_int_not_equal(launch(l, 2, "sizes"), 0);
        assert_true(count_of("OPEN the launcher started other ranks than this MPI finds") >= 1);
    }
}

/* verifies ranks-18.4f4a */
static void a_missing_library_is_named(void **state)
{
    bp_mpi_options options = {.library = "libno-such-mpi.so.1", .version = "1"};
    bp_error error = {.code = BP_OK};
    (void)state;
    bp_launcher_find(&options.launcher);
    assert_int_equal(bp_mpi_world_open(&world, &options, &error), BP_ERR_DEVICE);
    assert_string_equal(error.text, "the MPI library cannot be loaded");
    assert_non_null(strstr(error.name, "libno-such-mpi.so.1"));
    assert_true(bp_mpi_world_close(&world));
    options.library = "libm.so.6";
    error.code = BP_OK;
    assert_int_equal(bp_mpi_world_open(&world, &options, &error), BP_ERR_DEVICE);
    assert_string_equal(error.text, "a library is no MPI: it has no such function");
    assert_string_equal(error.name, "MPI_Init_thread");
    assert_true(bp_mpi_world_close(&world));
}

/* The third interface, in terms of MPICH (tests/fixtures/mpi/abi.c): it works like the others; one
 * without threads is refused; and a message that MPI refuses ends all ranks. */
/* verifies ranks-18.4f4a */
static void the_standard_interface_is_understood(void **state)
{
    static const launcher_row plain = {"mpirun.mpich",
                                       "BP_TEST_MPI=$TMPDIR/libmpi_abi.so.1 mpirun.mpich"};
    static const launcher_row bare = {
        "mpirun.mpich", "BP_ABI_THREADS=no BP_TEST_MPI=$TMPDIR/libmpi_abi.so.1 mpirun.mpich"};
    static const launcher_row failing = {
        "mpirun.mpich", "BP_ABI_FAILS=30 BP_TEST_MPI=$TMPDIR/libmpi_abi.so.1 mpirun.mpich"};
    (void)state;
    setenv("TMPDIR", "/tmp", 0);
    if (system("command -v mpirun.mpich cc >/dev/null") != 0 ||
        system("cc -shared -fPIC -O1 -D_POSIX_C_SOURCE=200809L -o $TMPDIR/libmpi_abi.so.1 "
               "tests/fixtures/mpi/abi.c -ldl") != 0) {
        print_message("skipped: no standard interface: mpirun.mpich or cc is not installed\n");
        return;
    }
    assert_well(&plain, 3, "calls");
    assert_well(&plain, 2, "many");
    assert_int_equal(launch(&bare, 2, "calls"), 7);
    assert_true(count_of("OPEN this MPI has no support for threads") >= 1);
    assert_int_equal(launch(&failing, 2, "endless"), 10);
    assert_int_equal(count_of("SAID rank "), 1);
}

int main(int count, char **arguments)
{
    for (size_t i = 0; count > 1 && i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(arguments[1], cases[i].name) == 0) {
            return play(&cases[i]);
        }
    }
    shared = count > 1 ? fabric_row_named(arguments[1]) : NULL;
    if (shared != NULL) {
        const mpi_case row = {shared->name, case_shared, false, 10000, LONG_WAIT};
        return play(&row);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_plain_loops),
        cmocka_unit_test(messages_by_tcp_are_the_same),
        cmocka_unit_test(failures_end_all_ranks),
        cmocka_unit_test(a_rank_that_is_killed_ends_the_others),
        cmocka_unit_test(other_numbers_of_ranks_are_refused),
        cmocka_unit_test(a_missing_library_is_named),
        cmocka_unit_test(the_standard_interface_is_understood),
    };
    self = arguments[0];
    const char *folder = getenv("TMPDIR");
    snprintf(said, sizeof said, "%s/test_mpi.XXXXXX", folder != NULL ? folder : "/tmp");
    const int file = mkstemp(said);
    if (file < 0) {
        return 1;
    }
    close(file);
    setenv("BP_TEST_SAID", said, 1);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(said);
    return failed;
}
