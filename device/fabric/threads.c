/* SPDX-License-Identifier: MIT */
/* Ranks as threads: how they come together, and how a call goes. */
#include "device/fabric/threads.h"

#include <sched.h>
#include <string.h>
#include <time.h>

#include "arena/text.h"
#include "core/base/random.h"
#include "device/fabric/groups.h"

static const char where[] = "fabric";

/* A call of this rank between begin and wait. */
typedef struct threads_collective {
    bool used;
    uint32_t request;
    uint32_t meeting;
    uint32_t self; /* this rank's number among the members */
} threads_collective;

typedef struct threads_rank {
    bp_threads_world *world;
    uint32_t rank;
    uint32_t group_count; /* with the group of all */
    uint64_t patience_ms;
    uint64_t dice;               /* numbers drawn so far */
    uint64_t messages;           /* taken from others */
    const unsigned char *before; /* where the one before went */
    uint64_t before_bytes;
    bp_fabric_group groups[BP_THREADS_GROUPS_MAX];
    uint32_t everybody[BP_THREADS_RANKS_MAX];
    uint64_t sequence[BP_THREADS_GROUPS_MAX]; /* calls of each group so far */
    threads_collective collectives[BP_THREADS_FLIGHTS_MAX];
} threads_rank;

bp_status bp_threads_world_open(bp_threads_world *world, uint32_t size, uint64_t seed)
{
    pthread_condattr_t clock;
    if (size == 0 || size > BP_THREADS_RANKS_MAX) {
        return BP_ERR_USAGE;
    }
    *world = (bp_threads_world){.size = size, .seed = seed};
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&world->lock, NULL);
    pthread_cond_init(&world->changed, &clock);
    pthread_condattr_destroy(&clock);
    return BP_OK;
}

void bp_threads_world_close(bp_threads_world *world)
{
    pthread_cond_destroy(&world->changed);
    pthread_mutex_destroy(&world->lock);
}

/* A number below `count`, 0 without a seed. Touches the rank only. */
static uint64_t threads_draw(threads_rank *rank, uint64_t count)
{
    const bp_threads_world *world = rank->world;
    if (world->seed == 0) {
        return 0;
    }
    double u = bp_random_uniform(world->seed, rank->rank, rank->dice++);
    uint64_t drawn = (uint64_t)(u * (double)count);
    return drawn < count ? drawn : count - 1;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* the clock is there: waits depend on it */
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Lets others go first for a while, as the seed says: so often, or as long as that takes where
 * nobody else is at work. Where others keep the processors, once takes milliseconds. Without the
 * lock. */
static void threads_dally(threads_rank *rank)
{
    enum { TURN_NS = 1000 };
    const uint64_t turns = threads_draw(rank, 40);
    const uint64_t end = turns == 0 ? 0 : now_ns() + turns * TURN_NS;
    for (uint64_t i = 0; i < turns && (i == 0 || now_ns() < end); i++) {
        sched_yield();
    }
}

/* Ends all that is under way; every rank is told the first cause. With the lock, as what follows.
 */
static bp_status world_refuse(threads_rank *rank, bp_status status, const bp_error *cause)
{
    bp_threads_world *world = rank->world;
    if (world->failed == BP_OK) {
        world->failed = status;
        world->cause = *cause;
        pthread_cond_broadcast(&world->changed);
    }
    return world->failed;
}

static bp_status world_fail(threads_rank *rank, bp_status status, const char *text,
                            const char *name)
{
    bp_error cause = {.code = BP_OK};
    return world_refuse(rank, bp_error_set(&cause, status, where, text, name), &cause);
}

static bp_status world_lose(threads_rank *rank, uint32_t lost, const char *text)
{
    char name[32];
    bp_text out;
    bp_text_init(&out, NULL, NULL, name, sizeof name);
    bp_text_string(&out, "rank ");
    bp_text_u64(&out, lost);
    bp_status written = bp_text_flush(&out);
    return world_fail(rank, BP_ERR_FABRIC, text, written == BP_OK ? name : NULL);
}

/* Leaves the lock with a status; a failure is the world's. */
static bp_status world_leave(threads_rank *rank, bp_status status, bp_error *error)
{
    bp_threads_world *world = rank->world;
    if (status != BP_OK && error != NULL && error->code == BP_OK) {
        *error = world->cause;
    }
    pthread_mutex_unlock(&world->lock);
    return status;
}

static struct timespec threads_deadline(const threads_rank *rank)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += (time_t)(rank->patience_ms / 1000);
    at.tv_nsec += (long)(rank->patience_ms % 1000) * 1000000;
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    return at;
}

/* Waits for a change; false when there was none before the deadline. */
static bool world_wait(threads_rank *rank, const struct timespec *deadline)
{
    bp_threads_world *world = rank->world;
    return pthread_cond_timedwait(&world->changed, &world->lock, deadline) == 0;
}

static bp_status threads_open(void *context, const bp_fabric_options *options, bp_error *error)
{
    threads_rank *rank = context;
    bp_threads_world *world = options->world;
    BP_TRY(bp_fabric_options_check(options, world->size, BP_THREADS_GROUPS_MAX, error));
    *rank = (threads_rank){.world = world,
                           .rank = options->rank,
                           .group_count = options->group_count + 1,
                           .patience_ms = options->patience_ms};
    for (uint32_t i = 0; i < options->size; i++) {
        rank->everybody[i] = i;
    }
    rank->groups[0] = (bp_fabric_group){rank->everybody, options->size};
    for (uint32_t g = 0; g < options->group_count; g++) {
        rank->groups[g + 1] = options->groups[g];
    }
    pthread_mutex_lock(&world->lock);
    bp_threads_member *member = &world->members[options->rank];
    bool twice = member->present || member->gone;
    if (!twice) {
        *member = (bp_threads_member){
            .present = true, .groups = options->groups, .group_count = options->group_count};
        pthread_cond_broadcast(&world->changed);
    }
    pthread_mutex_unlock(&world->lock);
    return twice ? bp_error_numbers(error, BP_ERR_USAGE, where, "a rank is there a second time",
                                    NULL, options->rank, world->size)
                 : BP_OK;
}

/* Which rank is still missing of those that agree; the world's size: none. */
static uint32_t agree_missing(const bp_threads_world *world, uint64_t round)
{
    uint32_t i = 0;
    while (i < world->size && world->members[i].rounds >= round) {
        i++;
    }
    return i;
}

static bp_status agree_wait(threads_rank *rank, uint64_t round)
{
    bp_threads_world *world = rank->world;
    const struct timespec deadline = threads_deadline(rank);
    uint32_t missing;
    while (world->failed == BP_OK && (missing = agree_missing(world, round)) < world->size) {
        if (world->members[missing].gone) {
            return world_lose(rank, missing, "a rank has left");
        }
        if (!world_wait(rank, &deadline)) {
            missing = agree_missing(world, round);
            return missing == world->size
                       ? world->failed
                       : world_lose(rank, missing, "a rank did not come in time");
        }
    }
    return world->failed;
}

/* Whether every member of a group has the same one under the same number. */
static bool group_shared(const bp_threads_world *world, const bp_fabric_group *group,
                         uint32_t number)
{
    for (uint32_t i = 0; i < group->count; i++) {
        const bp_threads_member *member = &world->members[group->ranks[i]];
        if (number > member->group_count) {
            return false;
        }
        const bp_fabric_group *theirs = &member->groups[number - 1];
        if (theirs->count != group->count ||
            memcmp(theirs->ranks, group->ranks, group->count * sizeof *group->ranks) != 0) {
            return false;
        }
    }
    return true;
}

static bp_status agree_compare(threads_rank *rank, uint64_t round)
{
    const bp_threads_world *world = rank->world;
    bp_error error = {.code = BP_OK};
    for (uint32_t i = 1; i < world->size; i++) {
        const uint64_t theirs = world->members[i].digest[round % 2];
        const uint64_t first = world->members[0].digest[round % 2];
        if (theirs != first) {
            return world_refuse(rank, bp_fabric_plans_differ(i, theirs, first, &error), &error);
        }
    }
    for (uint32_t i = 0; i < world->size; i++) {
        const bp_threads_member *member = &world->members[i];
        for (uint32_t g = 1; g <= member->group_count; g++) {
            if (!group_shared(world, &member->groups[g - 1], g)) {
                return world_refuse(rank, bp_fabric_groups_differ(&error), &error);
            }
        }
    }
    return BP_OK;
}

static bp_status threads_agree(void *context, uint64_t digest, bp_error *error)
{
    threads_rank *rank = context;
    bp_threads_world *world = rank->world;
    bp_threads_member *member = &world->members[rank->rank];
    threads_dally(rank);
    pthread_mutex_lock(&world->lock);
    const uint64_t round = ++member->rounds;
    member->digest[round % 2] = digest;
    pthread_cond_broadcast(&world->changed);
    bp_status status = agree_wait(rank, round);
    if (status == BP_OK) {
        status = agree_compare(rank, round);
    }
    return world_leave(rank, status, error);
}

static uint32_t threads_number(const void *context)
{
    return ((const threads_rank *)context)->rank;
}

static uint32_t threads_size(const void *context)
{
    return ((const threads_rank *)context)->world->size;
}

static uint32_t threads_members(const void *context, uint32_t group)
{
    const threads_rank *rank = context;
    return group < rank->group_count ? rank->groups[group].count : 0;
}

/* The meeting of a call, begun by whoever comes first; BP_THREADS_MEETINGS_MAX: no room. */
static uint32_t meeting_find(bp_threads_world *world, const bp_threads_meeting *wanted)
{
    uint32_t room = BP_THREADS_MEETINGS_MAX;
    for (uint32_t i = 0; i < BP_THREADS_MEETINGS_MAX; i++) {
        const bp_threads_meeting *m = &world->meetings[i];
        if (m->used && m->group == wanted->group && m->leader == wanted->leader &&
            m->sequence == wanted->sequence) {
            return i;
        }
        room = !m->used && room == BP_THREADS_MEETINGS_MAX ? i : room;
    }
    if (room < BP_THREADS_MEETINGS_MAX) {
        world->meetings[room] = *wanted;
    }
    return room;
}

static bool meeting_fits(const bp_threads_meeting *m, const bp_fabric_transfer *transfer)
{
    const uint64_t measure = bp_fabric_measure(transfer, m->count);
    for (uint32_t i = 0; i < m->count; i++) {
        const bp_fabric_transfer *other = &m->post[i];
        if (m->has_posted[i] &&
            (other->call != transfer->call || bp_fabric_measure(other, m->count) != measure ||
             other->root != transfer->root)) {
            return false;
        }
    }
    return true;
}

/* Room for another call of this rank; NULL when there is none, or the request is in use. */
static threads_collective *collective_room(threads_rank *rank, uint32_t request)
{
    threads_collective *room = NULL;
    for (uint32_t i = 0; i < BP_THREADS_FLIGHTS_MAX; i++) {
        threads_collective *collective = &rank->collectives[i];
        if (collective->used && collective->request == request) {
            return NULL;
        }
        room = !collective->used && room == NULL ? collective : room;
    }
    return room;
}

/* Posts this rank's part of a call. */
static bp_status begin_post(threads_rank *rank, const bp_fabric_transfer *transfer)
{
    bp_threads_world *world = rank->world;
    if (world->failed != BP_OK) {
        return world->failed;
    }
    threads_collective *collective = collective_room(rank, transfer->request);
    if (collective == NULL || transfer->group >= rank->group_count) {
        return world_fail(rank, BP_ERR_USAGE, "a rank began a call that it may not begin", NULL);
    }
    const bp_fabric_group *group = &rank->groups[transfer->group];
    const bp_threads_meeting wanted = {.used = true,
                                       .group = transfer->group,
                                       .leader = group->ranks[0],
                                       .sequence = rank->sequence[transfer->group]++,
                                       .count = group->count};
    uint32_t at = meeting_find(world, &wanted);
    bp_threads_meeting *m = &world->meetings[at < BP_THREADS_MEETINGS_MAX ? at : 0];
    if (at == BP_THREADS_MEETINGS_MAX || !meeting_fits(m, transfer)) {
        return world_fail(rank, BP_ERR_USAGE, "the ranks make different calls", NULL);
    }
    *collective = (threads_collective){true, transfer->request, at,
                                       bp_fabric_group_position(group, rank->rank)};
    m->post[collective->self] = *transfer;
    m->has_posted[collective->self] = true;
    pthread_cond_broadcast(&world->changed);
    return BP_OK;
}

static bp_status threads_begin(void *context, const bp_fabric_transfer *transfer, bp_error *error)
{
    threads_rank *rank = context;
    threads_dally(rank);
    pthread_mutex_lock(&rank->world->lock);
    return world_leave(rank, begin_post(rank, transfer), error);
}

/* Whether a member has done its part: posted, or copied what it was to get. */
static bool meeting_did(const bp_threads_meeting *m, uint32_t member, bool copied)
{
    return copied ? m->has_copied[member] : m->has_posted[member];
}

/* Waits until all members have posted, or copied. A member that has posted and left before this
 * rank has copied took its bytes with it. */
static bp_status meeting_wait(threads_rank *rank, const bp_threads_meeting *m, bool copied,
                              const struct timespec *deadline)
{
    const bp_threads_world *world = rank->world;
    const bp_fabric_group *group = &rank->groups[m->group];
    bool in_time = true;
    for (uint32_t i = 0; i < m->count;) {
        if (world->failed != BP_OK) {
            return world->failed;
        }
        bool gone = world->members[group->ranks[i]].gone;
        if (meeting_did(m, i, copied) && (copied || !gone)) {
            i++;
            continue;
        }
        if (gone) {
            return world_lose(rank, group->ranks[i], "a rank has left");
        }
        if (!in_time) {
            return world_lose(rank, group->ranks[i], "a rank did not come in time");
        }
        in_time = world_wait(rank, deadline);
    }
    return BP_OK;
}

/* Moves bytes, in pieces where there is a seed. */
static void copy_pieces(threads_rank *rank, void *to, const void *from, uint64_t bytes)
{
    uint64_t done = 0;
    while (done < bytes && to != from) {
        uint64_t left = bytes - done;
        uint64_t piece = rank->world->seed == 0 ? left : 1 + threads_draw(rank, left);
        memcpy((char *)to + done, (const char *)from + done, (size_t)piece);
        done += piece;
        threads_dally(rank);
    }
}

/* One message, as whole as the world's fault leaves it; of its own a rank gets each whole. Pieces
 * of no bytes are no messages: nobody would send them, and to lose one harms nobody. */
static void copy_message(threads_rank *rank, unsigned char *to, const unsigned char *from,
                         uint64_t bytes, bool own)
{
    const bp_threads_world *world = rank->world;
    if (bytes == 0) {
        return;
    }
    const bool struck = world->fault != BP_THREADS_WHOLE && !own &&
                        world->fault_rank == rank->rank && rank->messages++ == world->fault_at;
    if (struck && world->fault == BP_THREADS_DUPLICATED && rank->before_bytes >= bytes) {
        from = rank->before;
    }
    if (!struck || world->fault != BP_THREADS_DROPPED) {
        copy_pieces(rank, to, from, bytes);
    }
    if (struck && world->fault == BP_THREADS_CORRUPTED) {
        to[bytes / 2] ^= 0x10;
    }
    rank->before = own ? rank->before : to;
    rank->before_bytes = own ? rank->before_bytes : bytes;
}

/* Takes what is for this rank of what a member has posted. */
static void copy_from(threads_rank *rank, const bp_threads_meeting *m, uint32_t self,
                      uint32_t member)
{
    const bp_fabric_transfer *mine = &m->post[self];
    const bp_fabric_transfer *theirs = &m->post[member];
    const bp_fabric_piece to = bp_fabric_piece_of(mine, member);
    const bp_fabric_piece from = bp_fabric_piece_for(theirs, self);
    if (mine->call != BP_FABRIC_BROADCAST || member == mine->root) {
        copy_message(rank, (unsigned char *)mine->to + to.first,
                     (const unsigned char *)theirs->from + from.first, to.bytes, member == self);
    }
}

/* All have posted. The others' memory is looked at without the lock; `copying` keeps it there. */
static void meeting_copy(threads_rank *rank, bp_threads_meeting *m, uint32_t self)
{
    bp_threads_world *world = rank->world;
    world->copying++;
    pthread_mutex_unlock(&world->lock);
    uint32_t start = (uint32_t)threads_draw(rank, m->count);
    for (uint32_t i = 0; i < m->count; i++) {
        copy_from(rank, m, self, (start + i) % m->count);
    }
    pthread_mutex_lock(&world->lock);
    world->copying--;
    m->has_copied[self] = true;
    pthread_cond_broadcast(&world->changed);
}

static bp_status wait_collective(threads_rank *rank, threads_collective *collective)
{
    bp_threads_world *world = rank->world;
    bp_threads_meeting *m = &world->meetings[collective->meeting];
    const struct timespec deadline = threads_deadline(rank);
    collective->used = false;
    BP_TRY(meeting_wait(rank, m, false, &deadline));
    meeting_copy(rank, m, collective->self);
    BP_TRY(meeting_wait(rank, m, true, &deadline));
    m->left++;
    m->used = m->left < m->count;
    return BP_OK;
}

static bp_status threads_wait(void *context, uint32_t request, bp_error *error)
{
    threads_rank *rank = context;
    threads_collective *collective = NULL;
    for (uint32_t i = 0; i < BP_THREADS_FLIGHTS_MAX; i++) {
        bool mine = rank->collectives[i].used && rank->collectives[i].request == request;
        collective = mine ? &rank->collectives[i] : collective;
    }
    pthread_mutex_lock(&rank->world->lock);
    bp_status status = rank->world->failed;
    if (status == BP_OK) {
        status = collective != NULL
                     ? wait_collective(rank, collective)
                     : world_fail(rank, BP_ERR_USAGE, "a rank waits for no call of its", NULL);
    }
    return world_leave(rank, status, error);
}

static bp_status threads_check(void *context, bp_error *error)
{
    threads_rank *rank = context;
    bp_threads_world *world = rank->world;
    pthread_mutex_lock(&world->lock);
    bp_status status = world->failed;
    for (uint32_t i = 0; i < world->size && status == BP_OK; i++) {
        status = world->members[i].gone ? world_lose(rank, i, "a rank has left") : BP_OK;
    }
    return world_leave(rank, status, error);
}

static void threads_abandon(void *context, const bp_error *cause)
{
    threads_rank *rank = context;
    if (rank->world == NULL) {
        return; /* it has left */
    }
    pthread_mutex_lock(&rank->world->lock);
    (void)world_refuse(rank, cause->code, cause); /* the first failure stays */
    pthread_mutex_unlock(&rank->world->lock);
}

static void threads_close(void *context)
{
    threads_rank *rank = context;
    bp_threads_world *world = rank->world;
    if (world == NULL) {
        return;
    }
    pthread_mutex_lock(&world->lock);
    bp_threads_member *member = &world->members[rank->rank];
    member->present = false;
    member->gone = true;
    pthread_cond_broadcast(&world->changed);
    while (world->copying > 0) {
        pthread_cond_wait(&world->changed, &world->lock);
    }
    pthread_mutex_unlock(&world->lock);
    rank->world = NULL;
}

const bp_fabric bp_fabric_threads = {.name = "threads",
                                     .context_bytes = sizeof(threads_rank),
                                     .collectives = BP_THREADS_FLIGHTS_MAX,
                                     .open = threads_open,
                                     .agree = threads_agree,
                                     .rank = threads_number,
                                     .size = threads_size,
                                     .members = threads_members,
                                     .begin = threads_begin,
                                     .wait = threads_wait,
                                     .check = threads_check,
                                     .abandon = threads_abandon,
                                     .close = threads_close};
