/* SPDX-License-Identifier: MIT */
/* The fabric over MPI: how a call goes.
 *
 * Every member sends every other one a header and then its piece, both under tags of the call; all
 * receives of a call are posted as it starts, before anything of it can be unexpected. Pieces
 * larger than MPI's int counts go in several rounds. */
#include <string.h>
#include <time.h>

#include "device/fabric/groups.h"
#include "device/fabric/mpi_world.h"

static const char where[] = "mpi";

enum {
    TAG_CALLS = 64,
    TAG_SEQUENCES = 64, /* calls of one group that can be told apart */
    ROUND_BYTES = 1 << 30
};

/* What a rank tells the others before the first step. */
typedef struct mpi_agreement {
    uint64_t digest;
    uint32_t group_count, reserved;
    uint8_t members[BP_MPI_GROUPS_MAX][BP_MPI_RANKS_MAX / 8];
} mpi_agreement;

typedef struct mpi_rank {
    bp_mpi_world *world;
    uint32_t group_count; /* with the group of all */
    uint64_t patience_ms;
    bp_fabric_group groups[BP_MPI_GROUPS_MAX];
    uint32_t everybody[BP_MPI_RANKS_MAX];
    uint64_t sequence[BP_MPI_GROUPS_MAX]; /* calls of each group so far */
    mpi_agreement agreements[BP_MPI_RANKS_MAX];
    mpi_agreement own;
} mpi_rank;

static bp_status mpi_open(void *context, const bp_fabric_options *options, bp_error *error)
{
    mpi_rank *rank = context;
    bp_mpi_world *world = options->world;
    BP_TRY(bp_fabric_options_check(options, world->size, BP_MPI_GROUPS_MAX, error));
    if (options->rank != world->rank) {
        return bp_error_numbers(error, BP_ERR_USAGE, where, "MPI gave this process another rank",
                                NULL, options->rank, world->rank);
    }
    *rank = (mpi_rank){.world = world,
                       .group_count = options->group_count + 1,
                       .patience_ms = options->patience_ms};
    for (uint32_t i = 0; i < options->size; i++) {
        rank->everybody[i] = i;
    }
    rank->groups[0] = (bp_fabric_group){rank->everybody, options->size};
    for (uint32_t g = 0; g < options->group_count; g++) {
        rank->groups[g + 1] = options->groups[g];
    }
    return BP_OK;
}

static uint32_t mpi_number(const void *context)
{
    return ((const mpi_rank *)context)->world->rank;
}

static uint32_t mpi_size(const void *context)
{
    return ((const mpi_rank *)context)->world->size;
}

static uint32_t mpi_members(const void *context, uint32_t group)
{
    const mpi_rank *rank = context;
    return group < rank->group_count ? rank->groups[group].count : 0;
}

/* Leaves the lock with a status; a failure is the world's. */
static bp_status mpi_leave(bp_mpi_world *world, bp_status status, bp_error *error)
{
    if (status != BP_OK && error != NULL && error->code == BP_OK) {
        *error = world->cause;
    }
    pthread_mutex_unlock(&world->lock);
    return status;
}

static bp_status mpi_refuse(bp_mpi_world *world, const char *text)
{
    bp_error error = {.code = BP_OK};
    bp_status status = bp_error_set(&error, BP_ERR_USAGE, where, text, NULL);
    return bp_mpi_world_refuse(world, status, &error);
}

/* The call with a request; with NULL instead of one, room for another. NULL: there is none. */
static bp_mpi_collective *collective_find(bp_mpi_world *world, const uint32_t *request)
{
    for (uint32_t i = 0; i < BP_MPI_FLIGHTS_MAX; i++) {
        bp_mpi_collective *collective = &world->collectives[i];
        bool used = collective->state != BP_MPI_FREE;
        if (request != NULL ? used && collective->transfer.request == *request : !used) {
            return collective;
        }
    }
    return NULL;
}

static bp_status begin_post(mpi_rank *rank, const bp_fabric_transfer *transfer)
{
    bp_mpi_world *world = rank->world;
    if (world->failed != BP_OK) {
        return world->failed;
    }
    bp_mpi_collective *collective = collective_find(world, NULL);
    if (collective == NULL || collective_find(world, &transfer->request) != NULL ||
        transfer->group >= rank->group_count) {
        return mpi_refuse(world, "a rank began a call that it may not begin");
    }
    collective->state = BP_MPI_POSTED;
    collective->order = world->began++;
    collective->moved = 0;
    collective->missing = 0;
    collective->group = rank->groups[transfer->group];
    collective->self = bp_fabric_group_position(&collective->group, world->rank);
    collective->transfer = *transfer;
    collective->header =
        (bp_mpi_header){.sequence = rank->sequence[transfer->group]++,
                        .bytes = bp_fabric_measure(transfer, collective->group.count),
                        .group = transfer->group,
                        .call = transfer->call,
                        .root = transfer->root};
    pthread_cond_broadcast(&world->changed);
    return BP_OK;
}

static bp_status mpi_begin(void *context, const bp_fabric_transfer *transfer, bp_error *error)
{
    mpi_rank *rank = context;
    pthread_mutex_lock(&rank->world->lock);
    return mpi_leave(rank->world, begin_post(rank, transfer), error);
}

static bp_status wait_late(bp_mpi_world *world, const bp_mpi_collective *collective)
{
    uint32_t missing = collective->missing < collective->group.count ? collective->missing : 0;
    return bp_mpi_world_lose(world, collective->group.ranks[missing], &collective->transfer,
                             "a rank did not come in time");
}

static bp_status wait_collective(mpi_rank *rank, bp_mpi_collective *collective)
{
    bp_mpi_world *world = rank->world;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(rank->patience_ms / 1000);
    until.tv_nsec += (long)(rank->patience_ms % 1000) * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (world->failed == BP_OK && collective->state != BP_MPI_DONE) {
        if (pthread_cond_timedwait(&world->changed, &world->lock, &until) != 0 &&
            collective->state != BP_MPI_DONE && world->failed == BP_OK) {
            return wait_late(world, collective);
        }
    }
    if (world->failed == BP_OK) {
        collective->state = BP_MPI_FREE;
    }
    return world->failed;
}

static bp_status mpi_wait(void *context, uint32_t request, bp_error *error)
{
    mpi_rank *rank = context;
    bp_mpi_world *world = rank->world;
    pthread_mutex_lock(&world->lock);
    bp_status status = world->failed;
    bp_mpi_collective *collective = collective_find(world, &request);
    if (status == BP_OK) {
        status = collective != NULL ? wait_collective(rank, collective)
                                    : mpi_refuse(world, "a rank waits for no call of its");
    }
    return mpi_leave(world, status, error);
}

static bool agreement_has(const mpi_agreement *agreement, uint32_t group, uint32_t rank)
{
    return (agreement->members[group][rank / 8] >> (rank % 8) & 1) != 0;
}

/* Every rank looks at all groups of all ranks, so that all come to the same end. */
static bp_status agree_compare(const mpi_rank *rank, bp_error *error)
{
    const uint32_t size = rank->world->size;
    const mpi_agreement *all = rank->agreements;
    for (uint32_t i = 1; i < size; i++) {
        if (all[i].digest != all[0].digest) {
            return bp_fabric_plans_differ(i, all[i].digest, all[0].digest, error);
        }
    }
    for (uint32_t i = 0; i < size; i++) {
        for (uint32_t g = 1; g < all[i].group_count; g++) {
            for (uint32_t j = 0; j < size; j++) {
                if (agreement_has(&all[i], g, j) &&
                    (g >= all[j].group_count ||
                     memcmp(all[i].members[g], all[j].members[g], sizeof all[i].members[g]) != 0)) {
                    return bp_fabric_groups_differ(error);
                }
            }
        }
    }
    return BP_OK;
}

static bp_status mpi_agree(void *context, uint64_t digest, bp_error *error)
{
    mpi_rank *rank = context;
    bp_mpi_world *world = rank->world;
    const bp_fabric_transfer transfer = {.call = BP_FABRIC_ALL_GATHER,
                                         .request = UINT32_MAX,
                                         .bytes = sizeof rank->own,
                                         .to = rank->agreements,
                                         .from = &rank->own};
    rank->own = (mpi_agreement){.digest = digest, .group_count = rank->group_count};
    for (uint32_t g = 0; g < rank->group_count; g++) {
        for (uint32_t i = 0; i < rank->groups[g].count; i++) {
            uint32_t member = rank->groups[g].ranks[i];
            rank->own.members[g][member / 8] |= (uint8_t)(1u << (member % 8));
        }
    }
    BP_TRY(mpi_begin(rank, &transfer, error));
    BP_TRY(mpi_wait(rank, transfer.request, error));
    bp_error found = {.code = BP_OK};
    bp_status status = agree_compare(rank, &found);
    if (status == BP_OK) {
        return BP_OK;
    }
    pthread_mutex_lock(&world->lock);
    return mpi_leave(world, bp_mpi_world_refuse(world, status, &found), error);
}

static bp_status mpi_check(void *context, bp_error *error)
{
    const mpi_rank *rank = context;
    pthread_mutex_lock(&rank->world->lock);
    return mpi_leave(rank->world, rank->world->failed, error);
}

static void mpi_abandon(void *context, const bp_error *cause)
{
    const mpi_rank *rank = context;
    if (rank->world == NULL) {
        return; /* it has left */
    }
    pthread_mutex_lock(&rank->world->lock);
    (void)bp_mpi_world_refuse(rank->world, cause->code, cause); /* the first failure stays */
    pthread_mutex_unlock(&rank->world->lock);
}

static void mpi_close(void *context)
{
    mpi_rank *rank = context;
    bp_mpi_world *world = rank->world;
    if (world == NULL) {
        return;
    }
    pthread_mutex_lock(&world->lock);
    for (uint32_t i = 0; i < BP_MPI_FLIGHTS_MAX; i++) {
        if (world->failed == BP_OK && world->collectives[i].state != BP_MPI_FREE) {
            (void)bp_mpi_world_lose(world, world->rank, &world->collectives[i].transfer,
                                    "a rank has left");
        }
    }
    pthread_mutex_unlock(&world->lock);
    rank->world = NULL;
}

/* What follows is the communication thread's. */

static int collective_tag(const bp_mpi_collective *collective, uint32_t piece)
{
    uint64_t call =
        collective->header.group * TAG_SEQUENCES + collective->header.sequence % TAG_SEQUENCES;
    return (int)(TAG_CALLS + 2 * call + piece);
}

/* Bytes of a piece that go in the round at hand. */
static uint64_t collective_round(const bp_mpi_collective *collective, bp_fabric_piece piece)
{
    const uint64_t left = piece.bytes > collective->moved ? piece.bytes - collective->moved : 0;
    return left < ROUND_BYTES ? left : ROUND_BYTES;
}

/* Whether this rank has nothing more to send or to get behind the round at hand. */
static bool collective_last(const bp_mpi_collective *collective)
{
    uint64_t longest = 0;
    for (uint32_t i = 0; i < collective->group.count; i++) {
        const uint64_t goes = bp_fabric_piece_for(&collective->transfer, i).bytes;
        const uint64_t comes = bp_fabric_piece_of(&collective->transfer, i).bytes;
        longest = goes > longest ? goes : longest;
        longest = comes > longest ? comes : longest;
    }
    return longest <= collective->moved + ROUND_BYTES;
}

/* Whether member `from` has a piece for member `to`. */
static bool collective_carries(const bp_mpi_collective *collective, uint32_t from)
{
    return collective->transfer.call != BP_FABRIC_BROADCAST || from == collective->transfer.root;
}

static void poll_lose(bp_mpi_world *world, const bp_mpi_collective *collective, uint32_t member,
                      int result)
{
    char words[BP_MPI_TEXT_MAX];
    bp_mpi_words(&world->library, result, words, sizeof words);
    pthread_mutex_lock(&world->lock);
    (void)bp_mpi_world_lose(world, collective->group.ranks[member], &collective->transfer,
                            "a message cannot be moved between ranks");
    bp_error_found(&world->cause, words, strnlen(words, sizeof words));
    pthread_mutex_unlock(&world->lock);
}

static void poll_receive(bp_mpi_world *world, const bp_mpi_collective *collective, uint32_t member,
                         bp_mpi_request *request, void *to, uint64_t bytes, uint32_t piece)
{
    int result = bp_mpi_irecv(&world->library, to, (int)bytes, (int)collective->group.ranks[member],
                              collective_tag(collective, piece), &request->handle);
    request->pending = result == 0;
    if (result != 0) {
        poll_lose(world, collective, member, result);
    }
}

static void poll_send(bp_mpi_world *world, const bp_mpi_collective *collective, uint32_t member,
                      bp_mpi_request *request, const void *from, uint64_t bytes, uint32_t piece)
{
    int result =
        bp_mpi_isend(&world->library, from, (int)bytes, (int)collective->group.ranks[member],
                     collective_tag(collective, piece), &request->handle);
    request->pending = result == 0;
    if (result != 0) {
        poll_lose(world, collective, member, result);
    }
}

/* Posts a round of pieces: all receives, then all sends, each rank beginning with its successor. */
static void collective_post(bp_mpi_world *world, bp_mpi_collective *collective)
{
    const uint32_t count = collective->group.count;
    const bp_fabric_transfer *t = &collective->transfer;
    for (uint32_t k = 1; k < count; k++) {
        const uint32_t i = (collective->self + count - k) % count;
        const bp_fabric_piece piece = bp_fabric_piece_of(t, i);
        const uint64_t bytes = collective_round(collective, piece);
        if (collective_carries(collective, i) && bytes > 0) {
            poll_receive(world, collective, i, &collective->parts[i].in,
                         (unsigned char *)t->to + piece.first + collective->moved, bytes, 1);
        }
    }
    for (uint32_t k = 1; k < count; k++) {
        const uint32_t i = (collective->self + k) % count;
        const bp_fabric_piece piece = bp_fabric_piece_for(t, i);
        const uint64_t bytes = collective_round(collective, piece);
        if (collective_carries(collective, collective->self) && bytes > 0) {
            poll_send(world, collective, i, &collective->parts[i].out,
                      (const unsigned char *)t->from + piece.first + collective->moved, bytes, 1);
        }
    }
}

static void collective_start(bp_mpi_world *world, bp_mpi_collective *collective)
{
    for (uint32_t i = 0; i < collective->group.count; i++) {
        bp_mpi_part *part = &collective->parts[i];
        part->head_in.pending = part->head_out.pending = false;
        part->in.pending = part->out.pending = false;
        part->checked = false;
        if (i != collective->self) {
            poll_receive(world, collective, i, &part->head_in, &part->header, sizeof part->header,
                         0);
            poll_send(world, collective, i, &part->head_out, &collective->header,
                      sizeof collective->header, 0);
        }
    }
    collective_post(world, collective);
    if (collective_carries(collective, collective->self)) {
        const bp_fabric_transfer *t = &collective->transfer;
        const bp_fabric_piece out = bp_fabric_piece_for(t, collective->self);
        const unsigned char *from = (const unsigned char *)t->from + out.first;
        unsigned char *to = (unsigned char *)t->to + bp_fabric_piece_of(t, collective->self).first;
        if (to != from && out.bytes > 0) {
            memcpy(to, from, (size_t)out.bytes);
        }
    }
}

/* Whether a request has come to its end now. */
static bool poll_test(bp_mpi_world *world, const bp_mpi_collective *collective, uint32_t member,
                      bp_mpi_request *request)
{
    int done = 0;
    if (!request->pending) {
        return false;
    }
    int result = bp_mpi_test(&world->library, &request->handle, &done);
    request->pending = result == 0 && done == 0;
    if (result != 0) {
        poll_lose(world, collective, member, result);
    }
    return !request->pending;
}

static void poll_differ(bp_mpi_world *world)
{
    pthread_mutex_lock(&world->lock);
    (void)mpi_refuse(world, "the ranks make different calls");
    pthread_mutex_unlock(&world->lock);
}

/* Looks after one member; false while something of it is missing. */
static bool part_poll(bp_mpi_world *world, bp_mpi_collective *collective, uint32_t i, bool *moved)
{
    bp_mpi_part *part = &collective->parts[i];
    *moved = poll_test(world, collective, i, &part->head_in) || *moved;
    if (!part->head_in.pending && !part->checked) {
        part->checked = true;
        if (memcmp(&part->header, &collective->header, sizeof part->header) != 0) {
            poll_differ(world);
            part->checked = false;
            return false;
        }
    }
    *moved = poll_test(world, collective, i, &part->head_out) || *moved;
    /* A piece of another call may have another size: its header is looked at first. */
    *moved = (part->checked && poll_test(world, collective, i, &part->in)) || *moved;
    *moved = poll_test(world, collective, i, &part->out) || *moved;
    return !part->head_in.pending && !part->head_out.pending && !part->in.pending &&
           !part->out.pending;
}

/* A member of which something is still missing; what has not come counts before what has not gone.
 */
static uint32_t collective_missing(const bp_mpi_collective *collective)
{
    uint32_t missing = collective->group.count;
    bool comes = false;
    for (uint32_t i = 0; i < collective->group.count && !comes; i++) {
        const bp_mpi_part *part = &collective->parts[i];
        comes = part->head_in.pending || part->in.pending;
        missing = comes || (missing == collective->group.count &&
                            (part->head_out.pending || part->out.pending))
                      ? i
                      : missing;
    }
    return missing;
}

/* Moves one call; whether it is through. */
static bool collective_poll(bp_mpi_world *world, bp_mpi_collective *collective, bool *moved)
{
    bool through = true;
    for (uint32_t i = 0; i < collective->group.count; i++) {
        through = (i == collective->self || part_poll(world, collective, i, moved)) && through;
    }
    pthread_mutex_lock(&world->lock);
    collective->missing = collective_missing(collective);
    const bool failed = world->failed != BP_OK;
    pthread_mutex_unlock(&world->lock);
    if (failed || !through) {
        return false;
    }
    if (!collective_last(collective)) {
        collective->moved += ROUND_BYTES;
        collective_post(world, collective);
        return false;
    }
    return true;
}

/* The call that is to start next, in the order of begin: taken over from the caller. */
static bp_mpi_collective *collective_next(bp_mpi_world *world)
{
    bp_mpi_collective *next = NULL;
    pthread_mutex_lock(&world->lock);
    for (uint32_t i = 0; i < BP_MPI_FLIGHTS_MAX; i++) {
        bp_mpi_collective *collective = &world->collectives[i];
        bool posted = collective->state == BP_MPI_POSTED;
        next = posted && (next == NULL || collective->order < next->order) ? collective : next;
    }
    if (next != NULL && world->failed == BP_OK) {
        next->state = BP_MPI_MOVING;
    } else {
        next = NULL;
    }
    pthread_mutex_unlock(&world->lock);
    return next;
}

bool bp_mpi_collectives_poll(bp_mpi_world *world)
{
    bool moved = false;
    for (bp_mpi_collective *collective; (collective = collective_next(world)) != NULL;) {
        collective_start(world, collective);
        moved = true;
    }
    for (uint32_t i = 0; i < BP_MPI_FLIGHTS_MAX; i++) {
        bp_mpi_collective *collective = &world->collectives[i];
        pthread_mutex_lock(&world->lock);
        const bool moving = collective->state == BP_MPI_MOVING && world->failed == BP_OK;
        pthread_mutex_unlock(&world->lock);
        if (moving && collective_poll(world, collective, &moved)) {
            pthread_mutex_lock(&world->lock);
            collective->state = BP_MPI_DONE;
            pthread_cond_broadcast(&world->changed);
            pthread_mutex_unlock(&world->lock);
        }
    }
    return moved;
}

bool bp_mpi_collectives_miss(const bp_mpi_world *world, uint32_t rank)
{
    for (uint32_t i = 0; i < BP_MPI_FLIGHTS_MAX; i++) {
        const bp_mpi_collective *collective = &world->collectives[i];
        const uint32_t member = bp_fabric_group_position(&collective->group, rank);
        const bp_mpi_part *part = &collective->parts[member];
        if (collective->state == BP_MPI_MOVING && member < collective->group.count &&
            (part->head_in.pending || part->in.pending || part->head_out.pending ||
             part->out.pending)) {
            return true;
        }
    }
    return false;
}

const bp_fabric bp_fabric_mpi = {.name = "mpi",
                                 .context_bytes = sizeof(mpi_rank),
                                 .collectives = BP_MPI_FLIGHTS_MAX,
                                 .open = mpi_open,
                                 .agree = mpi_agree,
                                 .rank = mpi_number,
                                 .size = mpi_size,
                                 .members = mpi_members,
                                 .begin = mpi_begin,
                                 .wait = mpi_wait,
                                 .check = mpi_check,
                                 .abandon = mpi_abandon,
                                 .close = mpi_close};
