/* SPDX-License-Identifier: MIT */
/* What NCCL may answer, call by call: a library written here whose n-th call fails, is in progress
 * for a while or for ever. That GPUs exchange what they should is tests/unit/device/cuda's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/fabric/nccl.h"

enum { RANKS = 3, SELF = 1, PIECE = 512, ARENA = 2 * RANKS * 256, SYSTEM = 2 };

/* What the library and the inner fabric do. */
static struct {
    int calls, fails_at, result; /* the call that fails, from 1 on, and with what */
    int progress;                /* so many looks at an end say that it is in progress */
    bool asking_fails;
    int inner, inner_fails_at; /* the same of the inner fabric */
    int first_version, first_result;
    int sends, gets;
    uint64_t sent_to;        /* bit for each peer */
    uint64_t got_from;       /* the same */
    const void *from[RANKS]; /* what goes to each peer */
    void *to[RANKS];         /* and what comes from it */
    size_t out[RANKS], in[RANKS];
    int ended; /* 1 destroyed, 2 aborted */
    bool no_comm, no_words;
    char entry[40]; /* that failed */
} fake;

static int one(const char *entry)
{
    if (++fake.calls == fake.fails_at) {
        snprintf(fake.entry, sizeof fake.entry, "%s", entry);
        return fake.result;
    }
    return fake.progress > 0 ? BP_NCCL_IN_PROGRESS : BP_NCCL_SUCCESS;
}

static int get_id(bp_nccl_id *id)
{
    memset(id, 7, sizeof *id);
    return one("ncclGetUniqueId");
}

static const char *error_string(int result)
{
    (void)result;
    return fake.no_words ? NULL : "words";
}

static const char *last_error(bp_nccl_comm comm)
{
    return comm == NULL ? NULL : fake.no_words ? "" : "more words";
}

static int init_rank(bp_nccl_comm *comm, int size, bp_nccl_id id, int rank, bp_nccl_config *config)
{
    (void)id;
    assert_true(size == RANKS && rank == SELF && config->magic == BP_NCCL_MAGIC);
    *comm = fake.no_comm ? NULL : (bp_nccl_comm)(void *)&fake;
    return one("ncclCommInitRankConfig");
}

static int async_error(bp_nccl_comm comm, int *result)
{
    (void)comm;
    *result = fake.progress > 0 ? BP_NCCL_IN_PROGRESS : BP_NCCL_SUCCESS;
    fake.progress -= fake.progress > 0 && fake.progress < 1000;
    if (fake.asking_fails) {
        return SYSTEM;
    }
    if (++fake.calls == fake.fails_at) {
        *result = fake.result;
    }
    return BP_NCCL_SUCCESS;
}

static int finalize(bp_nccl_comm comm)
{
    (void)comm;
    return one("ncclCommFinalize");
}

static int destroy(bp_nccl_comm comm)
{
    (void)comm;
    fake.ended = 1;
    return 0;
}

static int abort_comm(bp_nccl_comm comm)
{
    (void)comm;
    fake.ended = 2;
    return 0;
}

static int group_start(void)
{
    return ++fake.calls == fake.fails_at ? fake.result : 0;
}

static int group_end(void)
{
    return one("ncclGroupEnd");
}

static int moved(size_t count, int type)
{
    assert_true(count > 0 && type == BP_NCCL_UINT8);
    return ++fake.calls == fake.fails_at ? fake.result : 0;
}

static int send_to(const void *from, size_t count, int type, int peer, bp_nccl_comm comm,
                   void *stream)
{
    (void)comm;
    (void)stream;
    fake.sends++;
    fake.sent_to |= UINT64_C(1) << peer;
    fake.from[peer] = from;
    fake.out[peer] = count;
    return moved(count, type);
}

static int get_from(void *to, size_t count, int type, int peer, bp_nccl_comm comm, void *stream)
{
    (void)comm;
    (void)stream;
    fake.gets++;
    fake.got_from |= UINT64_C(1) << peer;
    fake.to[peer] = to;
    fake.in[peer] = count;
    return moved(count, type);
}

static int gather(const void *from, void *to, size_t count, int type, bp_nccl_comm comm,
                  void *stream)
{
    (void)from;
    (void)to;
    (void)comm;
    (void)stream;
    assert_true(count > 0 && type == BP_NCCL_UINT8);
    return one("ncclAllGather");
}

static int all_to_all(const void *from, void *to, size_t count, int type, bp_nccl_comm comm,
                      void *stream)
{
    (void)gather(from, to, count, type, comm, stream);
    fake.calls--;
    return one("ncclAlltoAll");
}

static int broadcast(const void *from, void *to, size_t count, int type, int root,
                     bp_nccl_comm comm, void *stream)
{
    assert_in_range(root, 0, RANKS - 1);
    (void)gather(from, to, count, type, comm, stream);
    fake.calls--;
    return one("ncclBroadcast");
}

static int window_register(bp_nccl_comm comm, void *memory, size_t bytes, bp_nccl_window *window,
                           int flags)
{
    (void)comm;
    (void)flags;
    assert_true(memory != NULL && bytes > 0);
    *window = (bp_nccl_window)(void *)&fake;
    return one("ncclCommWindowRegister");
}

static int window_deregister(bp_nccl_comm comm, bp_nccl_window window)
{
    (void)comm;
    assert_non_null(window);
    return one("ncclCommWindowDeregister");
}

static bp_nccl_library library = {.version = 22900,
                                  .ncclGetUniqueId = get_id,
                                  .ncclGetErrorString = error_string,
                                  .ncclGetLastError = last_error,
                                  .ncclCommInitRankConfig = init_rank,
                                  .ncclCommGetAsyncError = async_error,
                                  .ncclCommFinalize = finalize,
                                  .ncclCommDestroy = destroy,
                                  .ncclCommAbort = abort_comm,
                                  .ncclGroupStart = group_start,
                                  .ncclGroupEnd = group_end,
                                  .ncclSend = send_to,
                                  .ncclRecv = get_from,
                                  .ncclAllGather = gather,
                                  .ncclBroadcast = broadcast};

/* The inner fabric. */
static uint32_t inner_rank(const void *context)
{
    (void)context;
    return SELF;
}

static uint32_t inner_size(const void *context)
{
    (void)context;
    return RANKS;
}

static uint32_t inner_members(const void *context, uint32_t group)
{
    (void)context;
    return group == 0 ? RANKS : group == 1 ? 2 : 0;
}

static bp_status inner_one(bp_error *error)
{
    return ++fake.inner == fake.inner_fails_at
               ? bp_error_set(error, BP_ERR_FABRIC, "test", "a rank is lost", NULL)
               : BP_OK;
}

/* Rank 0 says what it has. */
static bp_status inner_begin(void *context, const bp_fabric_transfer *transfer, bp_error *error)
{
    struct {
        bp_nccl_id id;
        int32_t version, result;
    } first;
    (void)context;
    memset(&first, 7, sizeof first);
    first.version = fake.first_version;
    first.result = fake.first_result;
    if (transfer->bytes == sizeof first) {
        memcpy(transfer->to, &first, sizeof first);
    }
    return inner_one(error);
}

static bp_status inner_wait(void *context, uint32_t request, bp_error *error)
{
    (void)context;
    (void)request;
    return inner_one(error);
}

static bp_status inner_check(void *context, bp_error *error)
{
    (void)context;
    return inner_one(error);
}

static bp_status inner_agree(void *context, uint64_t digest, bp_error *error)
{
    (void)context;
    return digest == 5 ? BP_OK : bp_error_set(error, BP_ERR_USAGE, "test", "differ", NULL);
}

static bp_status abandoned;

static void inner_abandon(void *context, const bp_error *cause)
{
    (void)context;
    abandoned = cause->code;
}

static const bp_fabric inner = {.name = "inner",
                                .rank = inner_rank,
                                .size = inner_size,
                                .members = inner_members,
                                .agree = inner_agree,
                                .begin = inner_begin,
                                .wait = inner_wait,
                                .check = inner_check,
                                .abandon = inner_abandon};

static const uint32_t pair[2] = {SELF, 2};
static unsigned char arena[ARENA];
static void *context;
static bp_error error;

static void wrap(void)
{
    static const bp_fabric_group group = {pair, 2};
    const bp_fabric_options options = {
        .rank = SELF,
        .size = RANKS,
        .groups = &group,
        .group_count = 1,
        .patience_ms = 400}; /* far above what an honest call takes on a busy machine */
    bp_nccl_wrap(context, &library, &inner, NULL, &options, true);
    error = (bp_error){.code = BP_OK};
}

static void fresh(void)
{
    memset(&fake, 0, sizeof fake);
    fake.first_version = library.version;
    fake.result = SYSTEM;
    wrap();
}

/* With its newer entries, or as an older library. */
static void newer(bool is)
{
    library.ncclAlltoAll = is ? all_to_all : NULL;
    library.ncclCommWindowRegister = is ? window_register : NULL;
    library.ncclCommWindowDeregister = is ? window_deregister : NULL;
}

static bp_status attach(bool mapped)
{
    return bp_fabric_nccl.stream->attach(context, arena, sizeof arena, mapped, NULL, &error);
}

static bp_status enqueue(bp_fabric_call call, uint32_t group, uint32_t root)
{
    const bp_fabric_transfer transfer = {
        .call = call, .group = group, .root = root, .bytes = PIECE, .to = arena, .from = arena};
    return bp_fabric_nccl.stream->enqueue(context, &transfer, NULL, &error);
}

/* Everything that a rank does; the first failure. */
static bp_status whole_run(bool mapped)
{
    BP_TRY(attach(mapped));
    for (uint32_t group = 0; group < 2; group++) {
        for (int call = 0; call < 3; call++) {
            BP_TRY(enqueue((bp_fabric_call)call, group, 1));
        }
    }
    return bp_fabric_nccl.stream->poll(context, 0, &error);
}

/* verifies ranks-10.9048 */
static void every_call_may_fail(void **state)
{
    static const int results[] = {SYSTEM, BP_NCCL_CUDA, BP_NCCL_ARGUMENT, BP_NCCL_USAGE};
    (void)state;
    for (int form = 0; form < 8; form++) {
        bp_status status = BP_ERR_DEVICE;
        int n = 1;
        for (; status != BP_OK && n < 100; n++) {
            fresh();
            newer(form % 2 == 0);
            fake.fails_at = n;
            fake.result = results[form / 2];
            fake.progress = n % 3;
            fake.no_words = n % 2 == 0;
            status = whole_run(form % 2 == 0);
            const bool lost = fake.result == SYSTEM;
            assert_true(status == BP_OK || status == (lost ? BP_ERR_FABRIC : BP_ERR_DEVICE));
            assert_true(status == BP_OK || strstr(error.name, "from nccl") != NULL);
            assert_true(status == BP_OK ||
                        strstr(error.name, fake.no_words ? "unknown result" : "more words") !=
                            NULL);
            bp_fabric_nccl.stream->detach(context, status != BP_OK);
            assert_int_equal(fake.ended, status == BP_OK ? 1 : 2);
            fake.ended = 0;
            bp_fabric_nccl.stream->detach(context, false); /* is not attached any more */
            assert_int_equal(fake.ended, 0);
        }
        assert_in_range(n, 10, 99);
    }
}

/* verifies ranks-10.9048 */
static void every_inner_call_may_fail(void **state)
{
    bp_status status = BP_ERR_FABRIC;
    int n = 1;
    (void)state;
    newer(true);
    for (; status != BP_OK && n < 100; n++) {
        fresh();
        fake.inner_fails_at = n;
        fake.progress = 3;
        status = whole_run(true);
        assert_true(status == BP_OK || status == BP_ERR_FABRIC);
        fake.progress = 0;
        bp_fabric_nccl.stream->detach(context, false);
    }
    assert_in_range(n, 5, 99);
}

/* What is in progress for ever ends with the rank's patience. */
/* verifies ranks-10.9048 */
static void patience_ends(void **state)
{
    (void)state;
    newer(true);
    for (int fails_at = 0; fails_at < 3; fails_at++) { /* meeting inside: well, or not */
        fresh();
        assert_int_equal(attach(true), BP_OK);
        fake.progress = 1000;
        fake.inner = 0;
        const bp_status status = enqueue(BP_FABRIC_ALL_GATHER, 0, 0);
        assert_int_equal(status, BP_ERR_FABRIC);
        assert_string_equal(error.text, "the GPUs did not end an exchange in time, though all "
                                        "ranks are there");
        error = (bp_error){.code = BP_OK};
        fake.inner = 0;
        fake.inner_fails_at = fails_at;
        assert_int_equal(bp_fabric_nccl.stream->poll(context, 401, &error), BP_ERR_FABRIC);
        assert_string_equal(error.text, fails_at == 0 ? "the GPUs did not end an exchange in "
                                                        "time, though all ranks are there"
                                                      : "a rank is lost");
        fake.inner = 0;
        fake.inner_fails_at = 1;
        assert_int_equal(bp_fabric_nccl.stream->poll(context, 20000, NULL), BP_ERR_FABRIC);
        bp_fabric_nccl.stream->detach(context, true);
    }
    fresh(); /* its end may take as long, too: it is left behind */
    assert_int_equal(attach(true), BP_OK);
    fake.progress = 1000;
    bp_fabric_nccl.stream->detach(context, false);
    assert_int_equal(fake.ended, 2);
    fresh();
    assert_int_equal(attach(false), BP_OK);
    fake.asking_fails = true;
    assert_int_equal(bp_fabric_nccl.stream->poll(context, 0, &error), BP_ERR_FABRIC);
    fake.progress = 2;
    bp_fabric_nccl.stream->detach(context, false);
    assert_int_equal(fake.ended, 2);
}

/* verifies ranks-4.e03f */
static void ranks_have_to_fit_together(void **state)
{
    (void)state;
    newer(true);
    fresh();
    fake.first_version++;
    assert_int_equal(attach(true), BP_ERR_DEVICE);
    assert_string_equal(error.text, "NCCL has another version than on rank 0");
    fresh();
    fake.first_result = SYSTEM;
    assert_int_equal(attach(true), BP_ERR_DEVICE); /* nobody is attached: this rank's NCCL */
    assert_non_null(strstr(error.name, "from ncclGetUniqueId"));
    fresh();
    fake.no_comm = true;
    assert_int_equal(attach(true), BP_ERR_DEVICE);
    fresh(); /* an arena too small to try calls in */
    assert_int_equal(bp_fabric_nccl.stream->attach(context, arena, ARENA - 1, false, NULL, &error),
                     BP_OK);
    bp_fabric_nccl.stream->detach(context, false);
}

/* Who gives to whom and gets of whom, where calls are messages. */
/* verifies ranks-14.d729 */
static void messages_are_those_of_the_call(void **state)
{
    static const struct {
        bp_fabric_call call;
        uint32_t group, root;
        int sends, gets;
        uint64_t to, from;
    } rows[] = {
        {BP_FABRIC_EXCHANGE, 0, 0, 3, 3, 7, 7},   {BP_FABRIC_EXCHANGE, 1, 0, 2, 2, 6, 6},
        {BP_FABRIC_ALL_GATHER, 1, 0, 2, 2, 6, 6}, {BP_FABRIC_BROADCAST, 1, 0, 2, 1, 6, 2},
        {BP_FABRIC_BROADCAST, 1, 1, 0, 1, 0, 4},
    };
    (void)state;
    newer(false);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fresh();
        assert_int_equal(attach(false), BP_OK);
        fake.sends = fake.gets = 0;
        fake.sent_to = fake.got_from = 0;
        assert_int_equal(enqueue(rows[i].call, rows[i].group, rows[i].root), BP_OK);
        assert_int_equal(fake.sends, rows[i].sends);
        assert_int_equal(fake.gets, rows[i].gets);
        assert_int_equal(fake.sent_to, rows[i].to);
        assert_int_equal(fake.got_from, rows[i].from);
        const bp_fabric_transfer none = {.call = BP_FABRIC_EXCHANGE};
        assert_int_equal(bp_fabric_nccl.stream->enqueue(context, &none, NULL, NULL), BP_OK);
        assert_int_equal(fake.gets, rows[i].gets);
        bp_fabric_nccl.stream->detach(context, false);
    }
}

/* Pieces that differ in size, in the order of ranks from rank 2 on, are sent and received at their
 * places; of an empty one nothing is said, be it this rank's or another's. */
/* verifies ranks-14.d729 */
static void pieces_are_messages_of_one_group(void **state)
{
    static const uint64_t lengths[][RANKS] = {{30, 20, 10}, {30, 0, 10}, {0, 20, 10}};
    (void)state;
    newer(true);
    for (size_t i = 0; i < 2 * sizeof lengths / sizeof lengths[0]; i++) {
        const uint64_t *bytes = lengths[i / 2];
        const bp_fabric_piece pieces[RANKS] = {
            {bytes[2], bytes[0]}, {bytes[2] + bytes[0], bytes[1]}, {0, bytes[2]}};
        const bool gathers = i % 2 == 0;
        const bp_fabric_transfer call = {.call =
                                             gathers ? BP_FABRIC_ALL_GATHER : BP_FABRIC_EXCHANGE,
                                         .bytes = bytes[SELF],
                                         .pieces = pieces,
                                         .to = arena + PIECE,
                                         .from = arena};
        fresh();
        assert_int_equal(attach(false), BP_OK);
        memset(fake.out, 0, sizeof fake.out);
        memset(fake.in, 0, sizeof fake.in);
        assert_int_equal(bp_fabric_nccl.stream->enqueue(context, &call, NULL, &error), BP_OK);
        for (uint32_t r = 0; r < RANKS; r++) {
            const uint64_t out = gathers ? bytes[SELF] : bytes[r];
            const uint64_t in = gathers ? bytes[r] : bytes[SELF];
            assert_int_equal(fake.out[r], out);
            assert_int_equal(fake.in[r], in);
            if (out > 0) {
                assert_ptr_equal(fake.from[r], arena + (gathers ? 0 : pieces[r].first));
            }
            if (in > 0) {
                assert_ptr_equal(fake.to[r],
                                 arena + PIECE + (gathers ? pieces[r].first : r * bytes[SELF]));
            }
        }
        bp_fabric_nccl.stream->detach(context, false);
    }
}

static void the_rest_is_the_inner_fabrics(void **state)
{
    const bp_fabric_transfer call = {.request = 3};
    (void)state;
    fresh();
    assert_int_equal(bp_fabric_nccl.open(context, NULL, NULL), BP_ERR_USAGE);
    assert_int_equal(bp_fabric_nccl.rank(context), SELF);
    assert_int_equal(bp_fabric_nccl.size(context), RANKS);
    assert_int_equal(bp_fabric_nccl.members(context, 1), 2);
    assert_int_equal(bp_fabric_nccl.agree(context, 5, NULL), BP_OK);
    assert_int_equal(bp_fabric_nccl.agree(context, 6, NULL), BP_ERR_USAGE);
    fake.inner_fails_at = 3;
    assert_int_equal(bp_fabric_nccl.begin(context, &call, NULL), BP_OK);
    assert_int_equal(bp_fabric_nccl.wait(context, 3, NULL), BP_OK);
    assert_int_equal(bp_fabric_nccl.check(context, &error), BP_ERR_FABRIC);
    bp_fabric_nccl.abandon(context, &(const bp_error){.code = BP_ERR_DEVICE});
    assert_int_equal(abandoned, BP_ERR_DEVICE);
    bp_fabric_nccl.close(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_may_fail),
        cmocka_unit_test(every_inner_call_may_fail),
        cmocka_unit_test(patience_ends),
        cmocka_unit_test(ranks_have_to_fit_together),
        cmocka_unit_test(messages_are_those_of_the_call),
        cmocka_unit_test(pieces_are_messages_of_one_group),
        cmocka_unit_test(the_rest_is_the_inner_fabrics),
    };
    context = malloc(bp_fabric_nccl.context_bytes);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(context);
    return failed;
}
