/* SPDX-License-Identifier: MIT */
/* The communication thread: it starts and ends MPI, meets the other ranks, hears and says that they
 * are there, and ends the process when one is not. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "device/fabric/leave.h"
#include "device/fabric/mpi_world.h"

static const char where[] = "mpi";

enum {
    TAG_CONTROL = 1,
    END_S = 3,   /* longest wait for MPI to end */
    ABORT_S = 5, /* and for its abort */
    BEAT_MS = 500,
    BYE_MS = 1000,    /* longest wait for the last word of those that leave */
    LEAVE_MS = 3000,  /* pieces of a rank that has left are still on their way for so long */
    SPOKEN_MS = 1000, /* so that the launcher has passed on what was said */
    ABORT_MS = 5000,  /* for the abort of the rank that spoke: several at once confuse launchers */
    IDLE_US = 5000,   /* between looks where nothing is under way */
    BUSY_US = 20,     /* and where something is */
    EAGER_LOOKS = 40, /* looks without a pause after something came */
};

/* BYE: this rank has heard from all that they leave, and so need not tell anybody again. */
typedef enum control_kind {
    KIND_HELLO,
    KIND_BEAT,
    KIND_FAIL,
    KIND_LEAVE,
    KIND_BYE,
    KIND_COUNT
} control_kind;

static uint64_t world_now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000 + (uint64_t)at.tv_nsec / 1000000;
}

static void world_nap(uint64_t us)
{
    const struct timespec span = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
    nanosleep(&span, NULL);
}

/* Kinds of control that every rank still has to be told. */
static void world_tell(bp_mpi_world *world, control_kind kind)
{
    for (uint32_t i = 0; i < world->size; i++) {
        world->peers[i].saying |= 1u << kind;
    }
}

bp_status bp_mpi_world_refuse(bp_mpi_world *world, bp_status status, const bp_error *error)
{
    if (world->failed == BP_OK) {
        world->failed = status;
        world->cause = *error;
        world->origin = world->rank;
        pthread_cond_broadcast(&world->changed);
    }
    return world->failed;
}

bp_status bp_mpi_world_lose(bp_mpi_world *world, uint32_t rank, const bp_fabric_transfer *transfer,
                            const char *text)
{
    static const char *const calls[] = {"all_gather", "exchange", "broadcast"};
    char name[BP_ERROR_NAME_MAX];
    bp_text out;
    bp_error error = {.code = BP_OK};
    bp_text_init(&out, NULL, NULL, name, sizeof name);
    bp_mpi_rank_name(&out, rank, bp_mpi_world_host(world, rank));
    if (transfer != NULL) {
        bp_text_string(&out, ", ");
        bp_text_string(&out, calls[transfer->call]);
        bp_text_string(&out, " of ");
        bp_text_u64(&out, transfer->bytes);
        bp_text_string(&out, " bytes");
    }
    if (world->step > 0) {
        bp_text_string(&out, ", step ");
        bp_text_u64(&out, world->step);
    }
    bp_status written = bp_text_flush(&out);
    bp_status status =
        bp_error_set(&error, BP_ERR_FABRIC, where, text, written == BP_OK ? name : NULL);
    return bp_mpi_world_refuse(world, status, &error);
}

const char *bp_mpi_world_host(const bp_mpi_world *world, uint32_t rank)
{
    return rank == world->rank ? world->self.host : world->peers[rank].hello.host;
}

/* The call that this rank waits in, the oldest; NULL: none. With the lock. */
static const bp_fabric_transfer *world_waits(const bp_mpi_world *world)
{
    const bp_mpi_collective *oldest = NULL;
    for (uint32_t i = 0; i < BP_MPI_FLIGHTS_MAX; i++) {
        const bp_mpi_collective *collective = &world->collectives[i];
        bool under_way = collective->state == BP_MPI_POSTED || collective->state == BP_MPI_MOVING;
        oldest = under_way && (oldest == NULL || collective->order < oldest->order) ? collective
                                                                                    : oldest;
    }
    return oldest != NULL ? &oldest->transfer : NULL;
}

static void world_lose_now(bp_mpi_world *world, uint32_t rank, const char *text)
{
    world->peers[rank].lost = true;
    pthread_mutex_lock(&world->lock);
    (void)bp_mpi_world_lose(world, rank, world_waits(world), text);
    pthread_mutex_unlock(&world->lock);
}

static bool request_test(bp_mpi_world *world, bp_mpi_request *request, int *result)
{
    int done = 0;
    *result = bp_mpi_test(&world->library, &request->handle, &done);
    request->pending = *result == 0 && done == 0;
    return done != 0 || *result != 0;
}

static void control_receive(bp_mpi_world *world, uint32_t rank)
{
    bp_mpi_peer *peer = &world->peers[rank];
    int result = bp_mpi_irecv(&world->library, &peer->from, sizeof peer->from, (int)rank,
                              TAG_CONTROL, &peer->in.handle);
    peer->in.pending = result == 0;
    if (result != 0) {
        world_lose_now(world, rank, "no message can be received from a rank");
    }
}

/* A rank has found, or heard of, a failure. */
static void control_failed(bp_mpi_world *world, bp_mpi_peer *peer)
{
    const bp_mpi_control *told = &peer->from;
    peer->told = true;
    pthread_mutex_lock(&world->lock);
    if (world->failed == BP_OK) {
        bp_mpi_control_text(world->cause_text, sizeof world->cause_text, told->text);
        world->cause = (bp_error){.code = BP_OK};
        world->failed = bp_error_set(&world->cause, (bp_status)told->status, where,
                                     world->cause_text, told->name);
        world->origin = told->origin;
        pthread_cond_broadcast(&world->changed);
    }
    world->origin = told->origin < world->origin ? told->origin : world->origin;
    pthread_mutex_unlock(&world->lock);
}

static void control_heard(bp_mpi_world *world, uint32_t rank, uint64_t now)
{
    bp_mpi_peer *peer = &world->peers[rank];
    peer->heard_ms = now;
    switch ((control_kind)peer->from.kind) {
    case KIND_HELLO:
        pthread_mutex_lock(&world->lock);
        peer->hello = peer->from;
        pthread_mutex_unlock(&world->lock);
        peer->met = true;
        break;
    case KIND_FAIL:
        control_failed(world, peer);
        break;
    case KIND_LEAVE:
        peer->left = true;
        peer->left_ms = now;
        break;
    case KIND_BYE:
        peer->gone = true;
        break;
    case KIND_BEAT:
    case KIND_COUNT:
        break;
    }
}

static void control_send(bp_mpi_world *world, uint32_t rank)
{
    /* A failure goes before everything, leaving after it. */
    static const control_kind order[] = {KIND_HELLO, KIND_FAIL, KIND_BEAT, KIND_LEAVE, KIND_BYE};
    bp_mpi_peer *peer = &world->peers[rank];
    size_t i = 0;
    while ((peer->saying & 1u << order[i]) == 0) {
        i++;
    }
    peer->saying &= ~(1u << order[i]);
    pthread_mutex_lock(&world->lock);
    peer->to = world->self;
    peer->to.kind = order[i];
    peer->to.step = world->step;
    if (order[i] == KIND_FAIL) {
        peer->to.status = (int32_t)world->failed;
        peer->to.origin = world->origin;
        bp_mpi_control_text(peer->to.text, sizeof peer->to.text,
                            world->cause.text != NULL ? world->cause.text : "");
        bp_mpi_control_text(peer->to.name, sizeof peer->to.name, world->cause.name);
    }
    pthread_mutex_unlock(&world->lock);
    int result = bp_mpi_isend(&world->library, &peer->to, sizeof peer->to, (int)rank, TAG_CONTROL,
                              &peer->out.handle);
    peer->out.pending = result == 0;
    if (result != 0) {
        world_lose_now(world, rank, "no message can be sent to a rank");
    }
}

/* Hears and says what there is; whether something came. */
static bool control_poll(bp_mpi_world *world, uint64_t now)
{
    bool came = false;
    for (uint32_t i = 0; i < world->size; i++) {
        bp_mpi_peer *peer = &world->peers[i];
        int result = 0;
        if (i == world->rank || peer->lost) {
            continue;
        }
        if (peer->in.pending && request_test(world, &peer->in, &result)) {
            came = true;
            if (result == 0) {
                control_heard(world, i, now);
            } else {
                world_lose_now(world, i, "a rank is lost: its connection has ended");
            }
            if (!peer->gone && !peer->lost) {
                control_receive(world, i);
            }
        }
        if (peer->out.pending && request_test(world, &peer->out, &result) && result != 0) {
            world_lose_now(world, i, "a rank is lost: its connection has ended");
        }
        if (!peer->out.pending && peer->saying != 0 && !peer->lost) {
            control_send(world, i);
        }
    }
    return came;
}

/* A process of this kernel that is no more. Nobody need wait for its silence. */
static bool peer_dead(const bp_mpi_world *world, const bp_mpi_peer *peer)
{
    const bp_mpi_control *from = &peer->hello;
    return peer->met && from->processes != 0 && from->processes == world->self.processes &&
           memcmp(from->boot, world->self.boot, sizeof from->boot) == 0 &&
           kill((pid_t)from->process, 0) != 0 && errno == ESRCH;
}

/* Beats, and looks whether the others do. */
static void world_watch(bp_mpi_world *world, uint64_t now)
{
    const uint64_t gap = now - world->polled_ms;
    world->polled_ms = now;
    world->mute = world->mute || gap > world->options.silence_ms;
    for (uint32_t i = 0; i < world->size; i++) {
        bp_mpi_peer *peer = &world->peers[i];
        /* Who was stopped himself has not listened. */
        const uint64_t deaf = gap > 2 * BEAT_MS ? gap : 0;
        peer->heard_ms = peer->heard_ms + deaf < now ? peer->heard_ms + deaf : now;
        peer->left_ms = peer->left_ms + deaf < now ? peer->left_ms + deaf : now;
        if (i == world->rank || peer->lost || !peer->met) {
            continue;
        }
        if (peer->left) {
            pthread_mutex_lock(&world->lock);
            bool missed = now - peer->left_ms > LEAVE_MS && bp_mpi_collectives_miss(world, i);
            pthread_mutex_unlock(&world->lock);
            if (missed) {
                world_lose_now(world, i, "a rank has left");
            }
        } else if (now - peer->heard_ms > world->options.silence_ms) {
            world_lose_now(world, i, "a rank is lost: it has been silent for too long");
        } else if (now - world->said_ms >= BEAT_MS && peer_dead(world, peer)) {
            world_lose_now(world, i, "a rank is lost: its process has ended");
        }
    }
    if (now - world->said_ms >= BEAT_MS) {
        world->said_ms = now;
        if (world->leaving || world->failed_ms != 0) {
            return; /* nothing is told after that but BYE */
        }
        world_tell(world, KIND_BEAT);
    }
}

/* Whether everybody who can has heard of the failure, and said so: only then does one rank alone
 * speak. Who is silent for too long is lost, so this ends. */
static bool failure_known(const bp_mpi_world *world, uint64_t now)
{
    bool known = true;
    for (uint32_t i = 0; i < world->size; i++) {
        const bp_mpi_peer *peer = &world->peers[i];
        bool deaf = i == world->rank || peer->lost || peer->left || !peer->met;
        known = known && (deaf || (peer->told && peer->saying == 0 && !peer->out.pending));
    }
    return known || now - world->failed_ms > world->options.silence_ms;
}

/* MPI's abort may hang, too: the process ends all the same, with the same code. */
static void *world_late(void *argument)
{
    const bp_mpi_world *world = argument;
    world_nap((uint64_t)ABORT_S * 1000000);
    bp_leave(bp_status_exit_code(world->failed));
    return NULL;
}

/* The process ends with MPI's abort, so that the launcher ends the others, too, wherever they are
 * stuck. */
static void world_abort(bp_mpi_world *world)
{
    pthread_t late;
    if (pthread_create(&late, NULL, world_late, world) != 0) {
        (void)alarm(ABORT_S); /* by the signal, then */
    }
    bp_leave_counters(); /* the abort may not return */
    (void)bp_mpi_abort(&world->library, bp_status_exit_code(world->failed));
    bp_leave(bp_status_exit_code(world->failed));
}

/* All know of the failure: one rank says it and aborts, and the others wait for that, with an eye
 * on MPI: it may not hold a message to have been sent before its receiver has looked again. */
static void world_end(bp_mpi_world *world, uint64_t now)
{
    const bool speaks = world->origin == world->rank;
    if (world->known_ms == 0) {
        world->known_ms = now;
        bp_leave_counters(); /* another rank's abort ends this process, too */
        if (world->options.speak != NULL && speaks && !world->mute) {
            world->options.speak(world->options.user, &world->cause);
        }
    }
    if (now - world->known_ms > (speaks ? SPOKEN_MS : ABORT_MS)) {
        world_abort(world);
    }
}

/* Whether all others have left (or are gone, too), and have been told what they had to be told. */
static bool world_heard(const bp_mpi_world *world, bool gone)
{
    bool told = true;
    for (uint32_t i = 0; i < world->size; i++) {
        const bp_mpi_peer *peer = &world->peers[i];
        bool done = (gone ? peer->gone : peer->left) && peer->saying == 0 && !peer->out.pending;
        told = told && (i == world->rank || done);
    }
    return told;
}

/* Looks after a failure and the end; false when the thread is to end. */
static bool world_go_on(bp_mpi_world *world, uint64_t now)
{
    pthread_mutex_lock(&world->lock);
    const bool failed = world->failed != BP_OK;
    const bp_mpi_phase phase = world->phase;
    pthread_mutex_unlock(&world->lock);
    if (failed && world->failed_ms == 0) {
        world->failed_ms = now;
        world_tell(world, KIND_FAIL);
        return true;
    }
    if (failed) {
        if ((world->options.speak != NULL || phase == BP_MPI_CLOSING) &&
            (world->known_ms != 0 || failure_known(world, now))) {
            world_end(world, now);
        }
        return true;
    }
    if (world->bye_ms == 0 && phase == BP_MPI_CLOSING && world_heard(world, false)) {
        world->bye_ms = now;
        world_tell(world, KIND_BYE);
        return true;
    }
    return world->bye_ms == 0 || !(world_heard(world, true) || now - world->bye_ms > BYE_MS);
}

static void world_loop(bp_mpi_world *world)
{
    uint32_t looks = 0;
    for (;;) {
        const uint64_t now = world_now();
        bool came = control_poll(world, now);
        came = bp_mpi_collectives_poll(world) || came;
        world_watch(world, now);
        pthread_mutex_lock(&world->lock);
        const bool busy = world_waits(world) != NULL;
        const bool leave = world->phase == BP_MPI_CLOSING && world->failed == BP_OK;
        pthread_mutex_unlock(&world->lock);
        if (leave && !world->leaving) {
            world->leaving = true;
            world_tell(world, KIND_LEAVE);
        }
        if (!world_go_on(world, now)) {
            return;
        }
        looks = came ? 0 : looks + 1;
        if (!busy) {
            struct timespec until;
            clock_gettime(CLOCK_MONOTONIC, &until);
            until.tv_nsec += IDLE_US * 1000;
            until.tv_sec += until.tv_nsec / 1000000000;
            until.tv_nsec %= 1000000000;
            pthread_mutex_lock(&world->lock);
            if (world_waits(world) == NULL) {
                (void)pthread_cond_timedwait(&world->changed, &world->lock, &until);
            }
            pthread_mutex_unlock(&world->lock);
        } else if (looks > EAGER_LOOKS) {
            world_nap(BUSY_US);
        }
    }
}

/* Which of the others has not come, or runs something else. `size`: none. */
static uint32_t meet_missing(const bp_mpi_world *world)
{
    uint32_t i = 0;
    while (i < world->size && (i == world->rank || world->peers[i].met)) {
        i++;
    }
    return i;
}

/* All ranks say who they are, and hear it of the others. */
static bp_status start_meet(bp_mpi_world *world, bp_error *error)
{
    const uint64_t began = world_now();
    bp_mpi_start_self(world);
    world_tell(world, KIND_HELLO);
    for (uint32_t i = 0; i < world->size; i++) {
        if (i != world->rank) {
            control_receive(world, i);
        }
    }
    while (world->failed == BP_OK && meet_missing(world) < world->size) {
        uint64_t now = world_now();
        if (now - began > world->options.start_ms) {
            world_lose_now(world, meet_missing(world), "a rank did not come in time");
        }
        if (!control_poll(world, now)) {
            world_nap(200);
        }
    }
    world->polled_ms = world_now();
    if (world->failed != BP_OK) {
        *error = world->cause;
        return world->failed;
    }
    return bp_mpi_start_compare(world, error);
}

static void world_phase(bp_mpi_world *world, bp_mpi_phase phase)
{
    pthread_mutex_lock(&world->lock);
    world->phase = phase;
    pthread_cond_broadcast(&world->changed);
    pthread_mutex_unlock(&world->lock);
}

static void *world_main(void *argument)
{
    bp_mpi_world *world = argument;
    bp_error error = {.code = BP_OK};
    const bp_mpi_options *options = &world->options;
    bp_status status = BP_OK;
    if (options->tcp != NULL) {
        world->library = (bp_mpi_library){.file = "tcp", .tcp = options->tcp};
    } else {
        status =
            bp_mpi_library_load(&world->library, options->library, options->launcher.kind, &error);
    }
    if (status == BP_OK) {
        status = bp_mpi_start_init(world, &error);
    }
    if (status != BP_OK) { /* alone: nobody can be told */
        pthread_mutex_lock(&world->lock);
        world->size = 0;
        world->phase = BP_MPI_ENDED;
        (void)bp_mpi_world_refuse(world, status, &error);
        pthread_mutex_unlock(&world->lock);
        return NULL;
    }
    status = start_meet(world, &error);
    if (status != BP_OK) {
        pthread_mutex_lock(&world->lock);
        (void)bp_mpi_world_refuse(world, status, &error);
        pthread_mutex_unlock(&world->lock);
    } else {
        world_phase(world, BP_MPI_RUNNING);
    }
    world_loop(world);
    world_phase(world, BP_MPI_ENDING);
    (void)bp_mpi_finalize(&world->library);
    world_phase(world, BP_MPI_ENDED);
    return NULL;
}

bp_status bp_mpi_world_open(bp_mpi_world *world, const bp_mpi_options *options, bp_error *error)
{
    pthread_condattr_t clock;
    sigset_t all;
    sigset_t before;
    *world = (bp_mpi_world){
        .options = *options, .rank = options->launcher.rank, .size = options->launcher.size};
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&world->lock, NULL);
    pthread_cond_init(&world->changed, &clock);
    pthread_condattr_destroy(&clock);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    world->running = pthread_create(&world->thread, NULL, world_main, world) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!world->running) {
        return bp_error_set(error, BP_ERR_DEVICE, where, "a thread cannot be started", NULL);
    }
    pthread_mutex_lock(&world->lock);
    struct timespec until;
    bool in_time = true;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(options->start_ms / 1000) + 1;
    while (world->phase == BP_MPI_STARTING && world->failed == BP_OK && in_time) {
        in_time = pthread_cond_timedwait(&world->changed, &world->lock, &until) == 0;
    }
    if (!in_time && world->failed == BP_OK && world->phase == BP_MPI_STARTING) {
        pthread_mutex_unlock(&world->lock);
        return bp_error_set(error, BP_ERR_FABRIC, where,
                            "MPI does not start: a rank did not come in time", world->library.file);
    }
    bp_status status = world->failed;
    if (status != BP_OK && error != NULL && error->code == BP_OK) {
        *error = world->cause;
    }
    const bool alone = world->phase == BP_MPI_ENDED;
    pthread_mutex_unlock(&world->lock);
    if (status != BP_OK && !alone && options->speak != NULL) {
        pthread_join(world->thread, NULL); /* it ends the process */
    }
    return status;
}

bool bp_mpi_world_close(bp_mpi_world *world)
{
    if (!world->running) {
        return true;
    }
    pthread_mutex_lock(&world->lock);
    if (world->phase != BP_MPI_ENDED) {
        world->phase = BP_MPI_CLOSING;
        pthread_cond_broadcast(&world->changed);
    }
    bool in_time = true;
    while (world->phase == BP_MPI_CLOSING) {
        pthread_cond_wait(&world->changed, &world->lock);
    }
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += END_S;
    while (world->phase == BP_MPI_ENDING && in_time) {
        in_time = pthread_cond_timedwait(&world->changed, &world->lock, &until) == 0;
    }
    const bool ended = world->phase == BP_MPI_ENDED;
    pthread_mutex_unlock(&world->lock);
    if (!ended) {
        return false;
    }
    pthread_join(world->thread, NULL);
    world->running = false;
    pthread_cond_destroy(&world->changed);
    pthread_mutex_destroy(&world->lock);
    return true;
}

void bp_mpi_world_fail(bp_mpi_world *world, const bp_error *error)
{
    if (!world->running) {
        return;
    }
    pthread_mutex_lock(&world->lock);
    (void)bp_mpi_world_refuse(world, error->code, error);
    const bool ended = world->phase == BP_MPI_ENDED;
    pthread_mutex_unlock(&world->lock);
    if (world->options.speak != NULL && !ended) {
        pthread_join(world->thread, NULL); /* it ends the process */
    }
}

void bp_mpi_world_note(bp_mpi_world *world, uint64_t step)
{
    pthread_mutex_lock(&world->lock);
    world->step = step;
    pthread_mutex_unlock(&world->lock);
}
