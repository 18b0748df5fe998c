/* SPDX-License-Identifier: MIT */
/* Several ranks write one checkpoint: the files are those of one rank, byte for byte, and whatever
 * fails on whichever rank, or ends all of them at once, leaves the old checkpoint or the new one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/run/checkpoint/checkpoint_ranks.h"
#include "tests/fixtures/checkpoint_fixture.h"

enum { RANKS_FIXTURE_MOST = 5, RANKS_FIXTURE_RUN = 16, RANKS_FIXTURE_WORD = 4096 };

struct ranks_fixture;

/* One rank: a store that can fail over the medium of all, and its own memory. */
typedef struct ranks_fixture_rank {
    struct ranks_fixture *ranks_fixture;
    uint32_t rank;
    faulty_store faulty;
    bp_error error;
    bp_checkpoint_location location;
    bp_checkpoint_ranks ranks;
    unsigned char staging[FIXTURE_STAGING];
    unsigned char word[2][RANKS_FIXTURE_WORD]; /* what it gathers, in this round or the next */
    uint64_t digest;
    bool apart;
    bp_status status;
    pthread_t thread;
} ranks_fixture_rank;

/* Ranks are threads that take turns: one goes on while the others wait in the gathering. */
typedef struct ranks_fixture {
    checkpoint_fixture *fixture;
    uint32_t size;
    ranks_fixture_rank rank[RANKS_FIXTURE_MOST];
    pthread_mutex_t turn;
    pthread_cond_t all_here;
    uint32_t here;
    uint32_t rounds;
    uint32_t lost_at; /* the gathering in which a rank is lost; 0: none */
    bool mute;        /* devices fail without a word */
} ranks_fixture;

static uint32_t ranks_fixture_owner(void *user, const bp_state_tensor *tensor, uint64_t offset,
                                    uint64_t *end)
{
    const ranks_fixture_rank *r = user;
    const uint64_t stop = offset / RANKS_FIXTURE_RUN * RANKS_FIXTURE_RUN + RANKS_FIXTURE_RUN;
    *end = stop < tensor->bytes ? stop : tensor->bytes;
    return (uint32_t)((offset / RANKS_FIXTURE_RUN + tensor->handle / 10) % r->ranks_fixture->size);
}

/* Only what is this rank's own is there. */
static bp_status ranks_fixture_read(void *user, uint64_t handle, uint64_t offset, void *to,
                                    size_t bytes)
{
    ranks_fixture_rank *r = user;
    checkpoint_fixture *fixture = r->ranks_fixture->fixture;
    for (size_t i = 0; i < bytes; i++) {
        const uint64_t at = offset + i;
        const bool own = (at / RANKS_FIXTURE_RUN + handle / 10) % r->ranks_fixture->size == r->rank;
        ((unsigned char *)to)[i] = own ? fixture->state[handle + at] : 0xee;
    }
    if (fixture->copies_left == 0 && r->ranks_fixture->mute) {
        return BP_ERR_DEVICE;
    }
    if (fixture->copies_left == 0) {
        return bp_error_set(&r->error, BP_ERR_DEVICE, "ranks_fixture", "no more copies", "");
    }
    fixture->copies_left--;
    return BP_OK;
}

static bp_status ranks_fixture_gather(void *user, const void *mine, uint64_t bytes, void *all)
{
    ranks_fixture_rank *r = user;
    ranks_fixture *c = r->ranks_fixture;
    assert_true(bytes % 8 == 0 && bytes <= RANKS_FIXTURE_WORD);
    const uint32_t round = c->rounds;
    memcpy(r->word[round % 2], mine, (size_t)bytes);
    if (++c->here == c->size) {
        c->here = 0;
        c->rounds++;
        pthread_cond_broadcast(&c->all_here);
    }
    while (c->rounds == round) {
        pthread_cond_wait(&c->all_here, &c->turn);
    }
    if (c->lost_at > 0 && c->rounds >= c->lost_at) {
        return BP_ERR_FABRIC;
    }
    for (uint32_t i = 0; i < c->size; i++) {
        memcpy((unsigned char *)all + i * bytes, c->rank[i].word[round % 2], (size_t)bytes);
    }
    return BP_OK;
}

static ranks_fixture *ranks_fixture_new(checkpoint_fixture *fixture, uint32_t size)
{
    ranks_fixture *c = calloc(1, sizeof *c);
    assert_non_null(c);
    *c = (ranks_fixture){.fixture = fixture, .size = size};
    assert_int_equal(pthread_mutex_init(&c->turn, NULL), 0);
    assert_int_equal(pthread_cond_init(&c->all_here, NULL), 0);
    const size_t scratch = (size_t)(bp_checkpoint_scratch(&fixture->checkpoint) +
                                    bp_checkpoint_ranks_scratch(FIXTURE_TENSORS, size));
    for (uint32_t i = 0; i < size; i++) {
        ranks_fixture_rank *r = &c->rank[i];
        *r = (ranks_fixture_rank){.ranks_fixture = c, .rank = i};
        faulty_store_init(&r->faulty, &fixture->memory.store);
        r->location = fixture->location;
        r->location.store = &r->faulty.store;
        r->location.scratch = malloc(scratch);
        assert_non_null(r->location.scratch);
        r->location.scratch_bytes = scratch;
        r->location.staging = (bp_staging){r->staging, sizeof r->staging};
        r->location.error = &r->error;
        r->ranks = (bp_checkpoint_ranks){
            i, size, 77, r, ranks_fixture_owner, ranks_fixture_read, ranks_fixture_gather};
    }
    return c;
}

static void ranks_fixture_free(ranks_fixture *c)
{
    for (uint32_t i = 0; i < c->size; i++) {
        free(c->rank[i].location.scratch);
    }
    pthread_mutex_destroy(&c->turn);
    pthread_cond_destroy(&c->all_here);
    free(c);
}

static void *ranks_fixture_run(void *user)
{
    ranks_fixture_rank *r = user;
    ranks_fixture *c = r->ranks_fixture;
    pthread_mutex_lock(&c->turn);
    r->status = bp_checkpoint_save_ranks(&r->location, &c->fixture->checkpoint, &r->ranks,
                                         &r->digest, &r->apart);
    pthread_mutex_unlock(&c->turn);
    return NULL;
}

/* All ranks save the step; gives rank 0's status, which is that of all. */
static bp_status ranks_fixture_save(ranks_fixture *c, uint64_t step)
{
    checkpoint_fixture_step(c->fixture, step);
    for (uint32_t i = 0; i < c->size; i++) {
        ranks_fixture_rank *r = &c->rank[i];
        r->error = (bp_error){.code = BP_OK};
        r->ranks.stamp = step * 10 + i;
        assert_int_equal(pthread_create(&r->thread, NULL, ranks_fixture_run, r), 0);
    }
    for (uint32_t i = 0; i < c->size; i++) {
        assert_int_equal(pthread_join(c->rank[i].thread, NULL), 0);
        assert_int_equal(c->rank[i].status, c->rank[0].status);
        assert_int_equal(c->rank[i].apart, c->rank[0].apart);
    }
    return c->rank[0].status;
}

/* verifies ranks-11.543e */
static void the_files_are_those_of_one_rank(void **state)
{
    (void)state;
    static const char *const files[] = {"model.safetensors", "state.safetensors", "config.json",
                                        "empty.txt"};
    for (uint32_t size = 1; size <= RANKS_FIXTURE_MOST; size++) {
        checkpoint_fixture *d = checkpoint_fixture_new();
        ranks_fixture *c = ranks_fixture_new(d, size);
        uint64_t right;
        assert_int_equal(checkpoint_fixture_save(d, 5), BP_OK);
        assert_int_equal(d->memory.store.rename(&d->memory.store, "run/checkpoint-5", "run/one"),
                         BP_OK);
        assert_int_equal(bp_checkpoint_digest(&d->location, &d->checkpoint, &right), BP_OK);
        assert_int_equal(ranks_fixture_save(c, 5), BP_OK);
        assert_false(c->rank[0].apart);
        for (size_t i = 0; i < 4; i++) {
            char one[64], several[64];
            size_t bytes = 0, others = 0;
            snprintf(one, sizeof one, "run/one/%s", files[i]);
            snprintf(several, sizeof several, "run/checkpoint-5/%s", files[i]);
            const unsigned char *a = memory_store_bytes(&d->memory, one, &bytes);
            const unsigned char *b = memory_store_bytes(&d->memory, several, &others);
            assert_true(a != NULL && b != NULL && bytes == others);
            assert_memory_equal(a, b, bytes);
        }
        for (uint32_t i = 0; i < size; i++) {
            assert_true(c->rank[i].digest == right);
            /* Everybody has written, and waited for its bytes. */
            assert_true(c->rank[i].faulty.calls[FAULT_WRITE_AT] > 0);
            assert_true(c->rank[i].faulty.calls[FAULT_SYNC] >= 2);
        }
        assert_int_equal(checkpoint_fixture_newest(d), 5);
        ranks_fixture_free(c);
        assert_true(checkpoint_fixture_free(d));
    }
}

/* Nothing is saved where a rank does not see what rank 0 has made. */
/* verifies ranks-11.543e */
static void a_rank_that_sees_another_medium(void **state)
{
    (void)state;
    for (int form = 0; form < 3; form++) {
        checkpoint_fixture *d = checkpoint_fixture_new();
        checkpoint_fixture *elsewhere = checkpoint_fixture_new();
        ranks_fixture *c = ranks_fixture_new(d, 3);
        assert_int_equal(ranks_fixture_save(c, 4), BP_OK);
        assert_int_equal(checkpoint_fixture_save(elsewhere, 6), BP_OK);
        if (form == 0) {
            c->rank[2].faulty.inner = &elsewhere->memory.store;
        } else if (form == 1) {
            c->rank[1].faulty.store.open_update = NULL;
        } else {
            faulty_store_arm(&c->rank[1].faulty, FAULT_OPEN_WRITE, 2, false);
        }
        assert_int_equal(ranks_fixture_save(c, 6), BP_OK);
        assert_true(c->rank[0].apart);
        assert_int_equal(checkpoint_fixture_newest(d), 4);
        assert_int_equal(checkpoint_fixture_save(d, 6),
                         BP_OK); /* what was begun is not in the way */
        assert_int_equal(checkpoint_fixture_newest(d), 6);
        ranks_fixture_free(c);
        assert_true(checkpoint_fixture_free(elsewhere));
        assert_true(checkpoint_fixture_free(d));
    }
}

/* A directory whose names are too long for the files of a checkpoint: on a rank it is as good as
 * another medium, on all of them nothing is begun. */
/* verifies ranks-11.543e */
static void names_that_are_too_long(void **state)
{
    (void)state;
    static char longer[BP_STORE_PATH_MAX + 1];
    memset(longer, 'd', BP_STORE_PATH_MAX);
    checkpoint_fixture *d = checkpoint_fixture_new();
    ranks_fixture *c = ranks_fixture_new(d, 2);
    assert_int_equal(ranks_fixture_save(c, 4), BP_OK);
    longer[BP_STORE_PATH_MAX - 24] = '\0'; /* the directory's name fits, those in it do not */
    c->rank[1].location.directory = longer;
    assert_int_equal(ranks_fixture_save(c, 5), BP_OK);
    assert_true(c->rank[0].apart && c->rank[1].apart);
    longer[BP_STORE_PATH_MAX - 24] = 'd';
    for (uint32_t rank = 0; rank < 2; rank++) {
        c->rank[rank].location.directory = longer;
    }
    assert_int_not_equal(ranks_fixture_save(c, 6), BP_OK);
    assert_int_equal(checkpoint_fixture_newest(d), 4);
    ranks_fixture_free(c);
    assert_true(checkpoint_fixture_free(d));
}

/* A file that cannot be closed after a device has failed: it is the device that is told of. Who has
 * no place for a reason, or was given none, tells the others the status alone. */
/* verifies ranks-11.543e */
static void what_went_wrong_first_is_reported(void **state)
{
    (void)state;
    for (int form = 0; form < 3; form++) {
        checkpoint_fixture *d = checkpoint_fixture_new();
        ranks_fixture *c = ranks_fixture_new(d, 2);
        d->copies_left = 5;
        c->mute = form == 1;
        c->rank[1].location.error = form == 2 ? NULL : c->rank[1].location.error;
        faulty_store_arm(&c->rank[1].faulty, FAULT_CLOSE, 1, true);
        assert_int_equal(ranks_fixture_save(c, 6), BP_ERR_DEVICE);
        faulty_store_arm(&c->rank[1].faulty, FAULT_KINDS, 0, false);
        const bp_error *error = &c->rank[0].error;
        const bool own = strstr(error->name, "rank 1: ") == NULL;
        if (form == 0) {
            assert_true(own || strstr(error->name, "no more copies") != NULL);
        } else if (form == 1 && !own) {
            assert_string_equal(error->name, "rank 1: ");
        }
        d->copies_left = (size_t)-1;
        ranks_fixture_free(c);
        assert_true(checkpoint_fixture_free(d));
    }
}

enum { MANY = 30, HUGE_BYTES = (16 << 20) + 4096 };

static unsigned char pattern_of(uint64_t handle, uint64_t at)
{
    return (unsigned char)(handle * 31 + at * 7 + at / 251);
}

static bp_status pattern_out(void *user, uint64_t handle, uint64_t offset, void *to, size_t bytes)
{
    (void)user;
    for (size_t i = 0; i < bytes; i++) {
        ((unsigned char *)to)[i] = pattern_of(handle, offset + i);
    }
    return BP_OK;
}

/* Whole tensors, the first ones and every third of one rank, the others in turn. */
static uint32_t pattern_owner(void *user, const bp_state_tensor *tensor, uint64_t offset,
                              uint64_t *end)
{
    const ranks_fixture_rank *r = user;
    (void)offset;
    *end = tensor->bytes;
    return tensor->handle < 20 || tensor->handle % 3 == 0
               ? 0
               : (uint32_t)tensor->handle % r->ranks_fixture->size;
}

/* More tensors than a rank writes in a round, and one that is longer than what it writes: the files
 * are those of one rank. */
/* verifies ranks-11.543e */
static void rounds_that_fill(void **state)
{
    (void)state;
    static char names[MANY][8];
    static bp_state_tensor many[MANY];
    static unsigned char staging[3][1 << 20];
    for (uint32_t size = 1; size <= 3; size++) {
        checkpoint_fixture *d = checkpoint_fixture_new();
        for (uint32_t i = 0; i < MANY; i++) {
            const uint64_t count = i == 3 ? HUGE_BYTES / 4 : 40 + i;
            snprintf(names[i], sizeof names[i], "t%02u", i);
            many[i] = (bp_state_tensor){names[i], BP_F32, 1, {count}, 4 * count, i, i % 2 == 0};
        }
        d->checkpoint.tensors = many;
        d->checkpoint.tensor_count = MANY;
        d->checkpoint.io.read = pattern_out;
        uint64_t right = 0;
        const size_t scratch = (size_t)(bp_checkpoint_scratch(&d->checkpoint) +
                                        bp_checkpoint_ranks_scratch(MANY, size));
        free(d->location.scratch);
        d->location.scratch = malloc(scratch);
        d->location.scratch_bytes = scratch;
        d->location.staging = (bp_staging){staging[0], sizeof staging[0]};
        assert_int_equal(bp_checkpoint_digest(&d->location, &d->checkpoint, &right), BP_OK);
        ranks_fixture *c = ranks_fixture_new(d, size);
        for (uint32_t i = 0; i < size; i++) {
            ranks_fixture_rank *r = &c->rank[i];
            free(r->location.scratch);
            r->location.scratch = malloc(scratch);
            r->location.scratch_bytes = scratch;
            r->location.staging = (bp_staging){staging[i], sizeof staging[i]};
            r->ranks.owner = pattern_owner;
            r->ranks.read = pattern_out;
        }
        assert_int_equal(ranks_fixture_save(c, 8), BP_OK);
        assert_false(c->rank[0].apart);
        for (uint32_t i = 0; i < size; i++) {
            assert_true(c->rank[i].digest == right);
        }
        bp_checkpoint_found found;
        assert_int_equal(bp_checkpoint_verify(&d->location, "run/checkpoint-8", &found), BP_OK);
        ranks_fixture_free(c);
        assert_true(checkpoint_fixture_free(d));
    }
}

/* A failing call of any kind on any rank: all of them return it, and rank 0 knows whose it is. */
/* verifies ranks-11.543e */
static void every_failing_call_of_every_rank(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank < 3; rank++) {
        for (int kind = 0; kind < FAULT_KINDS; kind++) {
            for (size_t n = 1;; n++) {
                checkpoint_fixture *d = checkpoint_fixture_new();
                ranks_fixture *c = ranks_fixture_new(d, 3);
                assert_int_equal(checkpoint_fixture_save(d, 5), BP_OK);
                faulty_store_arm(&c->rank[rank].faulty, (fault_kind)kind, n, false);
                const bp_status status = ranks_fixture_save(c, 6);
                const bool hit = c->rank[rank].faulty.failures > 0;
                faulty_store_arm(&c->rank[rank].faulty, FAULT_KINDS, 0, false);
                const bool joining = rank > 0 && (kind == FAULT_EXISTS || kind == FAULT_OPEN_WRITE);
                assert_int_equal(status, hit && !joining ? BP_ERR_STORE : BP_OK);
                assert_int_equal(c->rank[0].apart, hit && joining);
                if (status == BP_ERR_STORE && rank > 0) {
                    char word[16];
                    snprintf(word, sizeof word, "rank %u: ", rank);
                    assert_non_null(strstr(c->rank[0].error.name, word));
                    assert_non_null(strstr(c->rank[0].error.name, "made to fail"));
                    assert_int_equal(c->rank[0].location.store->code, 5);
                }
                const uint64_t step = checkpoint_fixture_newest(d);
                assert_true(step == 6 || (hit && step == 5));
                assert_int_equal(ranks_fixture_save(c, 7), BP_OK);
                assert_int_equal(checkpoint_fixture_newest(d), 7);
                ranks_fixture_free(c);
                assert_true(checkpoint_fixture_free(d));
                if (!hit) {
                    break;
                }
            }
        }
    }
}

/* A rank is lost while the others wait for it, in every gathering of a save. */
/* verifies ranks-11.543e */
static void a_rank_that_is_lost(void **state)
{
    (void)state;
    for (uint32_t at = 1;; at++) {
        checkpoint_fixture *d = checkpoint_fixture_new();
        ranks_fixture *c = ranks_fixture_new(d, 3);
        assert_int_equal(checkpoint_fixture_save(d, 5), BP_OK);
        c->lost_at = at;
        const bp_status status = ranks_fixture_save(c, 6);
        const uint64_t step = checkpoint_fixture_newest(d);
        assert_true(status == BP_OK ? step == 6 : status == BP_ERR_FABRIC && step >= 5);
        ranks_fixture_free(c);
        assert_true(checkpoint_fixture_free(d));
        if (status == BP_OK) {
            assert_true(at > 4);
            break;
        }
    }
}

/* verifies ranks-11.543e */
static void a_device_that_fails(void **state)
{
    (void)state;
    checkpoint_fixture *d = checkpoint_fixture_new();
    ranks_fixture *c = ranks_fixture_new(d, 2);
    d->copies_left = 5;
    assert_int_equal(ranks_fixture_save(c, 6), BP_ERR_DEVICE);
    d->copies_left = (size_t)-1;
    assert_int_equal(checkpoint_fixture_newest(d), 0);
    c->rank[0].location.scratch_bytes = c->rank[1].location.scratch_bytes = 64;
    assert_int_equal(ranks_fixture_save(c, 6), BP_ERR_FIT);
    ranks_fixture_free(c);
    assert_true(checkpoint_fixture_free(d));
}

/* The power of all ranks fails at every changing call, of a new step and of one that is there. */
/* verifies ranks-11.543e */
static void a_power_cut_at_every_call(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 12; seed++) {
        for (size_t cut = 0;; cut++) {
            checkpoint_fixture *d = checkpoint_fixture_new();
            ranks_fixture *c = ranks_fixture_new(d, 3);
            const uint64_t second = seed % 3 == 2 ? 5 : 6;
            assert_int_equal(checkpoint_fixture_save(d, 5), BP_OK);
            d->memory.changes_until = d->memory.changes_made + cut;
            const bool complete = ranks_fixture_save(c, second) == BP_OK && !c->rank[0].apart;
            memory_store_power_cut(&d->memory, seed * 1000 + (seed < 2 ? 0 : cut));
            const uint64_t step = checkpoint_fixture_newest(d);
            assert_true(complete ? step == second : step == 5 || step == second);
            assert_int_equal(ranks_fixture_save(c, 7), BP_OK);
            assert_int_equal(checkpoint_fixture_newest(d), 7);
            ranks_fixture_free(c);
            assert_true(checkpoint_fixture_free(d));
            if (complete) {
                assert_true(cut > 20);
                break;
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_files_are_those_of_one_rank),
        cmocka_unit_test(a_rank_that_sees_another_medium),
        cmocka_unit_test(names_that_are_too_long),
        cmocka_unit_test(what_went_wrong_first_is_reported),
        cmocka_unit_test(rounds_that_fill),
        cmocka_unit_test(every_failing_call_of_every_rank),
        cmocka_unit_test(a_rank_that_is_lost),
        cmocka_unit_test(a_device_that_fails),
        cmocka_unit_test(a_power_cut_at_every_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
