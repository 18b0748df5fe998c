/* SPDX-License-Identifier: MIT */
/* --fabric threads:N: N ranks in this process, each a thread with an arena of its own. */
#include <stdio.h>
#include <stdlib.h>

#include "device/fabric/threads.h"
#include "device/host/cpu.h"
#include "tools/bedplate/ranks/ranks.h"
#include "tools/bedplate/ranks/ranks_turn.h"
#include "tools/bedplate/app/output.h"

#define PATIENCE_MS 600000 /* a thread of this process does not get lost: a step may take long */

typedef struct threads_player {
    pthread_t thread;
    ranks own;
    const settings *set;
    ranks_body body;
    bp_threads_world *world;
    bool started;
} threads_player;

void ranks_turn_take(ranks_turn *turn)
{
    pthread_mutex_lock(&turn->lock);
    while (turn->taken) {
        pthread_cond_wait(&turn->changed, &turn->lock);
    }
    turn->taken = true;
    pthread_mutex_unlock(&turn->lock);
}

static void ranks_turn_first(ranks_turn *turn, uint32_t rank)
{
    pthread_mutex_lock(&turn->lock);
    while (turn->taken || turn->begun < rank) {
        pthread_cond_wait(&turn->changed, &turn->lock);
    }
    turn->taken = true;
    pthread_mutex_unlock(&turn->lock);
}

void ranks_turn_leave(ranks_turn *turn, uint32_t rank)
{
    pthread_mutex_lock(&turn->lock);
    turn->taken = false;
    turn->begun = turn->begun > rank ? turn->begun : rank + 1;
    pthread_cond_broadcast(&turn->changed);
    pthread_mutex_unlock(&turn->lock);
}

/* The version is that of this process: the fabric wants to be agreed on once. */
static int play(threads_player *p, bp_error *error)
{
    bp_fabric_options options = {
        .world = p->world, .rank = p->own.rank, .size = p->own.size, .patience_ms = PATIENCE_MS};
    ranks_group(p->set, &p->own, &options);
    bp_status status = bp_fabric_threads.open(p->own.context, &options, error);
    if (status != BP_OK) {
        return bp_status_exit_code(status);
    }
    status = bp_fabric_threads.agree(p->own.context, ranks_version_digest(), error);
    ranks_turn_first(p->own.turn, p->own.rank);
    int code = bp_status_exit_code(status);
    if (status == BP_OK && p->own.turn->code == 0) {
        code = ranks_run_one(p->set, &p->own, p->body);
    }
    if (p->own.turn->code == 0) {
        p->own.turn->code = code;
    }
    bp_fabric_threads.close(p->own.context);
    ranks_turn_leave(p->own.turn, p->own.rank);
    return code;
}

static void *player_main(void *argument)
{
    bp_error error = {.code = BP_OK};
    (void)play(argument, &error);
    return NULL;
}

static bool players_start(threads_player *players, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++) {
        players[i].own.context = malloc(bp_fabric_threads.context_bytes);
        if (players[i].own.context == NULL ||
            pthread_create(&players[i].thread, NULL, player_main, &players[i]) != 0) {
            return false;
        }
        players[i].started = true;
    }
    return true;
}

/* Those that have begun wait for one another, so one that did not start ends the process. */
static int players_play(threads_player *players, uint32_t size, const ranks_turn *turn)
{
    if (!players_start(players, size)) {
        output_print(stderr, "bedplate: --fabric: a rank's thread could not be started\n");
        exit(bp_status_exit_code(BP_ERR_FIT));
    }
    for (uint32_t i = 0; i < size; i++) {
        pthread_join(players[i].thread, NULL);
        free(players[i].own.context);
    }
    return turn->code;
}

static int threads_run(const settings *set, const char *words, ranks_body body)
{
    static ranks_turn turn = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0, 0};
    static bp_threads_world world;
    static threads_player players[BP_THREADS_RANKS_MAX];
    char *end = NULL;
    const unsigned long size = words != NULL ? strtoul(words, &end, 10) : 0;
    if (size == 0 || size > BP_THREADS_RANKS_MAX || *end != '\0') {
        output_print(
            stderr,
            "bedplate: --fabric: the number of ranks is out of range: found threads:%s, expected "
            "threads:1 to threads:%d\n",
            words != NULL ? words : "", BP_THREADS_RANKS_MAX);
        return bp_status_exit_code(BP_ERR_USAGE);
    }
    bp_status status = bp_threads_world_open(&world, (uint32_t)size, set->fabric_seed);
    if (status != BP_OK) {
        output_print(stderr, "bedplate: --fabric: the ranks' world could not be opened\n");
        return bp_status_exit_code(status);
    }
    static settings shared; /* workers, unless they are given, are shared out as well */
    shared = *set;
    shared.threads = set->threads > 0 ? set->threads : bp_cpu_count() / size;
    shared.threads = shared.threads > 0 ? shared.threads : 1;
    for (uint32_t i = 0; i < size; i++) {
        players[i] = (threads_player){.set = &shared, .body = body, .world = &world};
        players[i].own = (ranks){.fabric = &bp_fabric_threads,
                                 .rank = i,
                                 .size = (uint32_t)size,
                                 .local = i,
                                 .turn = &turn};
    }
    const int code = players_play(players, (uint32_t)size, &turn);
    bp_threads_world_close(&world);
    return code;
}

const ranks_engine ranks_threads = {"threads", NULL, threads_run};
