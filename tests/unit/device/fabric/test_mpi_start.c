/* SPDX-License-Identifier: MIT */
/* What MPI may answer, and need not: refusals of a library that is written here, as it starts and
 * while messages go. Real libraries are test_mpi.c's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/fabric/mpi_world.h"

enum { FUNNELED = 1, BYTES = 40 };

/* What the library answers. */
static struct {
    int init, provided, rank_result, rank, size_result, size;
    int fails_at; /* the call to isend, irecv or test that fails, from 1 on */
    int calls;
    int most, pieces; /* the longest message, and how many are as long */
    int finalized, aborted;
} mpi;

static bp_mpi_world world;
static bp_error error;

static bool mpi_fails(void)
{
    return ++mpi.calls == mpi.fails_at;
}

static int fake_init(int *count, char ***words, int wanted, int *provided)
{
    assert_null(count);
    assert_null(words);
    assert_int_equal(wanted, FUNNELED);
    *provided = mpi.provided;
    return mpi.init;
}

static int fake_finalize(void)
{
    mpi.finalized++;
    return 0;
}

static int fake_rank(int comm, int *rank)
{
    assert_int_equal(comm, 5);
    *rank = mpi.rank;
    return mpi.rank_result;
}

static int fake_size(int comm, int *size)
{
    assert_int_equal(comm, 5);
    *size = mpi.size;
    return mpi.size_result;
}

static int fake_handler(int comm, int handler)
{
    return comm + handler;
}

static int fake_version(char *words, int *length)
{
    strcpy(words, "Some MPI 9\nbuilt by nobody");
    *length = 26;
    return 0;
}

static int fake_words(int result, char *words, int *length)
{
    (void)length;
    strcpy(words, result == 15 ? "the cable is out\x01" : "no such result");
    return 0;
}

static int fake_message(int bytes)
{
    mpi.pieces += bytes == mpi.most;
    mpi.pieces = bytes > mpi.most ? 1 : mpi.pieces;
    mpi.most = bytes > mpi.most ? bytes : mpi.most;
    return mpi_fails() ? 15 : 0;
}

static int fake_isend(const void *from, int bytes, int type, int peer, int tag, int comm,
                      int *request)
{
    assert_non_null(from);
    assert_true(type == 6 && comm == 5 && peer == 1 && tag >= 64);
    *request = 1;
    return fake_message(bytes);
}

/* A head comes as it has to be. */
static int fake_irecv(void *to, int bytes, int type, int peer, int tag, int comm, int *request)
{
    assert_true(type == 6 && comm == 5 && peer == 1 && tag >= 64);
    if (bytes == (int)sizeof(bp_mpi_header)) {
        memcpy(to, &world.collectives[0].header, sizeof(bp_mpi_header));
    }
    *request = 1;
    return fake_message(bytes);
}

static int fake_test(int *request, int *done, void *status)
{
    assert_int_equal(*request, 1);
    assert_null(status);
    *done = 1;
    return mpi_fails() ? 15 : 0;
}

static int fake_abort(int comm, int code)
{
    assert_int_equal(comm, 5);
    mpi.aborted = code;
    return 0;
}

#define ENTRY(name, function) [name] = (bp_mpi_entry)(function)

static int begin(void **state)
{
    (void)state;
    memset(&mpi, 0, sizeof mpi);
    memset(&world, 0, sizeof world);
    error = (bp_error){.code = BP_OK};
    mpi.provided = FUNNELED;
    mpi.size = 2;
    world.options.launcher = (bp_launcher){.kind = BP_LAUNCHER_PMI, .size = 2};
    world.library = (bp_mpi_library){
        .file = "fake",
        .numbers = true,
        .funneled = FUNNELED,
        .world.number = 5,
        .byte.number = 6,
        .entries = {ENTRY(BP_MPI_INIT_THREAD, fake_init), ENTRY(BP_MPI_FINALIZE, fake_finalize),
                    ENTRY(BP_MPI_ABORT, fake_abort), ENTRY(BP_MPI_COMM_RANK, fake_rank),
                    ENTRY(BP_MPI_COMM_SIZE, fake_size),
                    ENTRY(BP_MPI_COMM_SET_ERRHANDLER, fake_handler),
                    ENTRY(BP_MPI_GET_LIBRARY_VERSION, fake_version),
                    ENTRY(BP_MPI_ERROR_STRING, fake_words), ENTRY(BP_MPI_ISEND, fake_isend),
                    ENTRY(BP_MPI_IRECV, fake_irecv), ENTRY(BP_MPI_TEST, fake_test)}};
    assert_int_equal(pthread_mutex_init(&world.lock, NULL), 0);
    assert_int_equal(pthread_cond_init(&world.changed, NULL), 0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    pthread_mutex_destroy(&world.lock);
    pthread_cond_destroy(&world.changed);
    return 0;
}

/* verifies ranks-18.4f4a */
static void mpi_starts_only_if_it_makes_sense(void **state)
{
    static const struct {
        int init, provided, rank_result, rank, size_result, size;
        bp_status status;
        const char *text, *name;
    } rows[] = {
        {0, FUNNELED, 0, 1, 0, 2, BP_OK, NULL, NULL},
        {15, FUNNELED, 0, 1, 0, 2, BP_ERR_DEVICE, "MPI cannot start", "the cable is out"},
        {0, 0, 0, 1, 0, 2, BP_ERR_DEVICE, "no support for threads", "Some MPI 9"},
        {0, FUNNELED, 1, 1, 0, 2, BP_ERR_DEVICE, "does not report the rank", "fake"},
        {0, FUNNELED, 0, 1, 1, 2, BP_ERR_DEVICE, "does not report the rank", "fake"},
        {0, FUNNELED, 0, -1, 0, 2, BP_ERR_DEVICE, "does not report the rank", "fake"},
        {0, FUNNELED, 0, 2, 0, 2, BP_ERR_DEVICE, "does not report the rank", "fake"},
        {0, FUNNELED, 0, 1, 0, 3, BP_ERR_USAGE, "started other ranks", NULL},
        {0, FUNNELED, 0, 1, 0, 300, BP_ERR_USAGE, "too many ranks", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        begin(state);
        mpi.init = rows[i].init;
        mpi.provided = rows[i].provided;
        mpi.rank_result = rows[i].rank_result;
        mpi.rank = rows[i].rank;
        mpi.size_result = rows[i].size_result;
        mpi.size = rows[i].size;
        world.options.launcher.size = rows[i].size == 300 ? 300 : 2;
        assert_int_equal(bp_mpi_start_init(&world, &error), rows[i].status);
        if (rows[i].status == BP_OK) {
            assert_true(world.rank == 1 && world.size == 2);
            continue;
        }
        assert_non_null(strstr(error.text, rows[i].text));
        assert_true(rows[i].name == NULL || strcmp(error.name, rows[i].name) == 0);
        assert_int_equal(mpi.finalized, rows[i].init == 0); /* what has started is ended */
    }
}

/* verifies ranks-4.e03f */
static void versions_are_compared(void **state)
{
    (void)state;
    world.rank = 1;
    world.size = 3;
    world.options.version = "1.0";
    bp_mpi_start_self(&world);
    assert_true(world.self.host[0] != '\0');
    for (uint32_t i = 0; i < 3; i++) {
        world.peers[i].hello = world.self;
    }
    assert_int_equal(bp_mpi_start_compare(&world, &error), BP_OK);
    world.peers[2].hello.version[0] = '2';
    bp_mpi_control_text(world.peers[2].hello.host, BP_MPI_HOST_MAX, "");
    assert_int_equal(bp_mpi_start_compare(&world, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, "rank 2");
    world.peers[2].hello = world.self;
    world.peers[0].hello.magic++; /* then rank 1 is the first that is not as rank 0 */
    error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_mpi_start_compare(&world, &error), BP_ERR_USAGE);
    assert_memory_equal(error.name, "rank 1 on ", 10);
}

/* Rank 0 of two, in an open fabric. */
static void *open_fabric(void)
{
    const bp_fabric_options options = {.world = &world, .size = 2, .patience_ms = 50};
    void *context = calloc(1, bp_fabric_mpi.context_bytes);
    world.size = 2;
    assert_int_equal(bp_fabric_mpi.open(context, &options, &error), BP_OK);
    return context;
}

static void a_fabric_is_opened_by_its_own_rank(void **state)
{
    (void)state;
    bp_fabric_options options = {.world = &world, .rank = 1, .size = 2};
    void *context = calloc(1, bp_fabric_mpi.context_bytes);
    world.size = 2;
    assert_int_equal(bp_fabric_mpi.open(context, &options, &error), BP_ERR_USAGE);
    assert_string_equal(error.text, "MPI gave this process another rank");
    options.rank = 0;
    options.size = 3;
    assert_int_equal(bp_fabric_mpi.open(context, &options, NULL), BP_ERR_USAGE);
    bp_fabric_mpi.close(context); /* not open: nothing */
    free(context);
}

static unsigned char from[2 * BYTES], to[2 * BYTES];

static void calls_of_the_caller_are_checked(void **state)
{
    static const char *const texts[] = {"a rank began a call that it may not begin",
                                        "a rank began a call that it may not begin",
                                        "a rank waits for no call of its"};
    for (int i = 0; i < 3; i++) {
        begin(state);
        void *context = open_fabric();
        bp_fabric_transfer call = {.request = 1, .bytes = BYTES, .to = to, .from = from};
        assert_int_equal(bp_fabric_mpi.begin(context, &call, &error), BP_OK);
        call.request = i == 0 ? 1 : 2;
        call.group = i == 1 ? 1 : 0;
        assert_int_equal(i < 2 ? bp_fabric_mpi.begin(context, &call, &error)
                               : bp_fabric_mpi.wait(context, 9, &error),
                         BP_ERR_USAGE);
        assert_string_equal(error.text, texts[i]);
        assert_int_equal(bp_fabric_mpi.check(context, NULL), BP_ERR_USAGE);
        assert_int_equal(bp_fabric_mpi.begin(context, &call, NULL), BP_ERR_USAGE); /* it stays */
        assert_int_equal(bp_fabric_mpi.agree(context, 1, NULL), BP_ERR_USAGE);
        bp_fabric_mpi.close(context);
        bp_fabric_mpi.close(context);
        free(context);
    }
}

/* Every call of MPI's in turn fails; what it says stands in the error. */
/* verifies ranks-10.9048 */
static void every_message_may_fail(void **state)
{
    int n = 1, failed = 1;
    for (; failed != 0 && n < 50; n++) {
        begin(state);
        void *context = open_fabric();
        const bp_fabric_transfer call = {
            .call = BP_FABRIC_EXCHANGE, .request = 1, .bytes = BYTES, .to = to, .from = from};
        mpi.fails_at = n;
        assert_int_equal(bp_fabric_mpi.begin(context, &call, &error), BP_OK);
        assert_true(bp_mpi_collectives_poll(&world));
        failed = world.failed != BP_OK;
        assert_int_equal(bp_fabric_mpi.wait(context, 1, &error), failed ? BP_ERR_FABRIC : BP_OK);
        if (failed) {
            assert_string_equal(error.text, "a message cannot be moved between ranks");
            assert_string_equal(error.name, "rank 1, exchange of 40 bytes");
            assert_string_equal(error.word, "the cable is out");
        }
        bp_fabric_mpi.close(context);
        free(context);
    }
    assert_int_equal(n - 1, 9); /* four messages, begun and tested, and none */
}

/* MPI counts in int: 3 GB go in pieces of 1 GB. Nothing is moved here, so that no address counts.
 */
/* verifies ranks-14.d729 */
static void long_pieces_go_in_rounds(void **state)
{
    (void)state;
    void *context = open_fabric();
    const bp_fabric_transfer call = {.call = BP_FABRIC_BROADCAST,
                                     .request = 1,
                                     .bytes = UINT64_C(3) << 30,
                                     .to = to,
                                     .from = to};
    assert_int_equal(bp_fabric_mpi.begin(context, &call, &error), BP_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(world.collectives[0].state, i == 0 ? BP_MPI_POSTED : BP_MPI_MOVING);
        (void)bp_mpi_collectives_poll(&world);
    }
    assert_int_equal(mpi.most, 1 << 30);
    assert_int_equal(mpi.pieces, 3);
    assert_int_equal(bp_fabric_mpi.wait(context, 1, &error), BP_OK);
    bp_fabric_mpi.close(context);
    free(context);
}

/* Rounds are as many as the longest piece of the call takes, be it one that comes or one that goes,
 * on a rank whose own is short. */
/* verifies ranks-14.d729 */
static void uneven_pieces_go_in_rounds(void **state)
{
    static const bp_fabric_piece pieces[2] = {{0, BYTES}, {BYTES, UINT64_C(3) << 30}};
    for (int kind = 0; kind < 2; kind++) {
        begin(state);
        void *context = open_fabric();
        const bp_fabric_transfer call = {.call =
                                             kind == 0 ? BP_FABRIC_ALL_GATHER : BP_FABRIC_EXCHANGE,
                                         .request = 1,
                                         .bytes = BYTES,
                                         .pieces = pieces,
                                         .to = to,
                                         .from = from};
        assert_int_equal(bp_fabric_mpi.begin(context, &call, &error), BP_OK);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(world.collectives[0].state, i == 0 ? BP_MPI_POSTED : BP_MPI_MOVING);
            (void)bp_mpi_collectives_poll(&world);
        }
        assert_int_equal(mpi.most, 1 << 30);
        assert_int_equal(mpi.pieces, 3);
        assert_int_equal(bp_fabric_mpi.wait(context, 1, &error), BP_OK);
        bp_fabric_mpi.close(context);
        free(context);
    }
}

/* What is missing of a rank that leaves. */
/* verifies ranks-15.459a */
static void who_is_missed(void **state)
{
    (void)state;
    void *context = open_fabric();
    const bp_fabric_transfer call = {
        .call = BP_FABRIC_ALL_GATHER, .request = 1, .bytes = BYTES, .to = to, .from = from};
    assert_int_equal(bp_fabric_mpi.begin(context, &call, &error), BP_OK);
    assert_false(bp_mpi_collectives_miss(&world, 1)); /* it has not started */
    (void)bp_mpi_collectives_poll(&world);
    assert_false(bp_mpi_collectives_miss(&world, 1)); /* it is through */
    bp_mpi_collective *collective = &world.collectives[0];
    collective->state = BP_MPI_MOVING;
    assert_false(bp_mpi_collectives_miss(&world, 7)); /* no member */
    bool *const pending[] = {
        &collective->parts[1].head_in.pending, &collective->parts[1].in.pending,
        &collective->parts[1].head_out.pending, &collective->parts[1].out.pending};
    for (size_t i = 0; i < 4; i++) {
        *pending[i] = true;
        assert_true(bp_mpi_collectives_miss(&world, 1));
        *pending[i] = false;
    }
    collective->state = BP_MPI_DONE;
    assert_int_equal(bp_fabric_mpi.wait(context, 1, &error), BP_OK);
    bp_fabric_mpi.close(context);
    free(context);
}

static void calls_are_those_of_the_interface(void **state)
{
    (void)state;
    char words[12];
    assert_int_equal(bp_mpi_abort(&world.library, 10), 0);
    assert_int_equal(mpi.aborted, 10);
    bp_mpi_words(&world.library, 0, words, sizeof words);
    assert_string_equal(words, "no such res"); /* cut to fit */
    bp_tcp *tcp = calloc(1, sizeof *tcp);
    world.library.tcp = tcp;
    bp_mpi_words(&world.library, 1, words, sizeof words);
    assert_string_equal(words, "the connect");
    assert_int_equal(bp_mpi_abort(&world.library, 11), 0);
    assert_int_equal(mpi.aborted, 10); /* there is none */
    free(tcp);
}

/* verifies ranks-18.4f4a */
static void libraries_that_are_no_mpi_are_refused(void **state)
{
    static const struct {
        const char *file;
        bp_launcher_kind launcher;
        const char *text;
    } rows[] = {
        {"libm.so.6", BP_LAUNCHER_NONE, "a library is no MPI: it has no such function"},
        {"libno-such-mpi.so", BP_LAUNCHER_OPENMPI, "the MPI library cannot be loaded"},
        {"libno-such-mpi.so", BP_LAUNCHER_PMI, "the MPI library cannot be loaded"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        error = (bp_error){.code = BP_OK};
        assert_int_equal(
            bp_mpi_library_load(&world.library, rows[i].file, rows[i].launcher, &error),
            BP_ERR_DEVICE);
        assert_string_equal(error.text, rows[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(mpi_starts_only_if_it_makes_sense, begin, end),
        cmocka_unit_test_setup_teardown(versions_are_compared, begin, end),
        cmocka_unit_test_setup_teardown(a_fabric_is_opened_by_its_own_rank, begin, end),
        cmocka_unit_test_setup_teardown(calls_of_the_caller_are_checked, begin, end),
        cmocka_unit_test_setup_teardown(every_message_may_fail, begin, end),
        cmocka_unit_test_setup_teardown(long_pieces_go_in_rounds, begin, end),
        cmocka_unit_test_setup_teardown(uneven_pieces_go_in_rounds, begin, end),
        cmocka_unit_test_setup_teardown(who_is_missed, begin, end),
        cmocka_unit_test_setup_teardown(calls_are_those_of_the_interface, begin, end),
        cmocka_unit_test_setup_teardown(libraries_that_are_no_mpi_are_refused, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
