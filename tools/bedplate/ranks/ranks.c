/* SPDX-License-Identifier: MIT */
/* Which ranks there are, and how they meet between steps. */
#include "tools/bedplate/ranks/ranks.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "arena/text.h"
#include "core/base/digest.h"
#include "core/base/version.h"
#include "device/fabric/checked.h"
#include "device/fabric/launcher.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/ranks/ranks_turn.h"
#include "tools/bedplate/app/output.h"

/* In the order in which `auto` asks them. */
static const ranks_engine *const engines[] = {&ranks_mpi, &ranks_nccl, &ranks_threads};

#define ENGINES     (sizeof engines / sizeof engines[0])
#define VALUE_BYTES 4096 /* of an option as text */

uint64_t ranks_version_digest(void)
{
    return bp_digest_of(BP_VERSION, sizeof BP_VERSION, 0);
}

uint32_t ranks_size(const settings *set)
{
    return set->ranks != NULL ? set->ranks->size : 1;
}

uint32_t ranks_rank(const settings *set)
{
    return set->ranks != NULL ? set->ranks->rank : 0;
}

void ranks_group(const settings *set, ranks *own, bp_fabric_options *options)
{
    const uint32_t count = (uint32_t)set->sequence_ranks;
    if (count < 2 || count > own->size || own->size % count != 0) {
        return; /* what cannot be is refused with the plan */
    }
    for (uint32_t i = 0; i < count; i++) {
        own->together[i] = own->rank / count * count + i;
    }
    own->sequence = (bp_fabric_group){.ranks = own->together, .count = count};
    options->groups = &own->sequence;
    options->group_count = 1;
}

/* The settings of one rank, and its fabric where messages are checked. */
typedef struct ranks_place {
    settings set;
    ranks own;
} ranks_place;

static int place_run(ranks_place *place, ranks_body body)
{
    bp_error error = {.code = BP_OK};
    void *checked = NULL;
    if (place->set.fabric_check) {
        checked = malloc(bp_fabric_checked.context_bytes);
        const bp_status status = checked != NULL ? bp_checked_wrap(checked, place->own.fabric,
                                                                   place->own.context, &error)
                                                 : BP_ERR_FIT;
        if (status != BP_OK) {
            output_print(stderr, "bedplate: --fabric-check: %s\n",
                         status == BP_ERR_FIT ? "no memory for the digests" : error.text);
            free(checked);
            return bp_status_exit_code(status);
        }
        place->own.fabric = &bp_fabric_checked;
        place->own.context = checked;
    }
    const int code = body(&place->set);
    free(checked);
    return code;
}

int ranks_run_one(const settings *set, const ranks *own, ranks_body body)
{
    ranks_place *place = malloc(sizeof *place);
    if (place == NULL) {
        output_print(stderr, "bedplate: no memory for the settings of a rank\n");
        return bp_status_exit_code(BP_ERR_FIT);
    }
    *place = (ranks_place){.set = *set, .own = *own};
    place->set.ranks = &place->own;
    if (own->rank > 0) {
        place->set.quiet = true;
        place->set.json = false;
    }
    if (own->beside > 0 && place->set.threads == 0) { /* the host's processors are shared, too */
        const long processors = sysconf(_SC_NPROCESSORS_ONLN);
        const uint64_t each = processors > 0 ? (uint64_t)processors / own->beside : 1;
        place->set.threads = each > 0 ? each : 1;
    }
    const int code = place_run(place, body);
    free(place);
    return code;
}

static const ranks_engine *engine_of(const char *word, size_t length)
{
    for (size_t i = 0; i < ENGINES; i++) {
        if (strlen(engines[i]->word) == length && strncmp(engines[i]->word, word, length) == 0) {
            return engines[i];
        }
    }
    return NULL;
}

static struct {
    int stream; /* what stderr was; 0: as it is */
} hush;

void ranks_hush(void)
{
    bp_launcher launcher;
    bp_launcher_find(&launcher);
    const int nowhere = launcher.rank > 0 ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
    if (nowhere >= 0) {
        hush.stream = dup(STDERR_FILENO);
        dup2(nowhere, STDERR_FILENO);
        close(nowhere);
    }
}

static void ranks_speak(void)
{
    if (hush.stream > 0) {
        dup2(hush.stream, STDERR_FILENO);
        close(hush.stream);
        hush.stream = 0;
    }
}

void ranks_hush_end(int code)
{
    if (hush.stream > 0 && code != 0) {
        const struct timespec span = {0, 500000000}; /* launchers end all when one has ended */
        nanosleep(&span, NULL);
    }
}

int ranks_run(const settings *set, ranks_body body)
{
    ranks_speak();
    const char *word = set->fabric;
    const char *colon = strchr(word, ':');
    if (strcmp(word, "auto") == 0) {
        for (size_t i = 0; i < ENGINES; i++) {
            if (engines[i]->found != NULL && engines[i]->found()) {
                return engines[i]->run(set, NULL, body);
            }
        }
        return body(set);
    }
    if (strcmp(word, "none") == 0) {
        return body(set);
    }
    const ranks_engine *engine =
        engine_of(word, colon != NULL ? (size_t)(colon - word) : strlen(word));
    if (engine == NULL) {
        output_print(stderr,
                     "bedplate: --fabric: there is no such fabric: found %s, expected "
                     "auto, none",
                     word);
        for (size_t i = 0; i < ENGINES; i++) {
            output_print(stderr, " or %s%s", engines[i]->word,
                         engines[i] == &ranks_threads ? ":N" : "");
        }
        output_print(stderr, "\n");
        return bp_status_exit_code(BP_ERR_USAGE);
    }
    if (engine == &ranks_threads && set->fabric_secret != NULL) {
        output_print(
            stderr,
            "bedplate: --fabric-secret: threads of one process have no connection to protect: "
            "expected --fabric tcp\n");
        return bp_status_exit_code(BP_ERR_USAGE);
    }
    return engine->run(set, colon != NULL ? colon + 1 : NULL, body);
}

void ranks_leave_turn(const settings *set)
{
    if (set->ranks != NULL && set->ranks->turn != NULL) {
        ranks_turn_leave(set->ranks->turn, set->ranks->rank);
    }
}

void ranks_take_turn(const settings *set)
{
    if (set->ranks != NULL && set->ranks->turn != NULL) {
        ranks_turn_take(set->ranks->turn);
    }
}

bool ranks_may_tell(const settings *set, bp_status status)
{
    if (set->ranks == NULL) {
        return true;
    }
    if (set->ranks->turn != NULL) {
        const bool first = !set->ranks->turn->told;
        set->ranks->turn->told = true;
        return first;
    }
    return set->ranks->rank == 0 || status != BP_ERR_FABRIC;
}

uint64_t ranks_in_process(const settings *set)
{
    static const char word[] = "threads:";
    const bool threads = strncmp(set->fabric, word, sizeof word - 1) == 0;
    const long count = threads ? strtol(set->fabric + sizeof word - 1, NULL, 10) : 1;
    return count > 1 ? (uint64_t)count : 1;
}

void ranks_fail(const settings *set, const bp_error *error)
{
    if (set->ranks != NULL && set->ranks->process != NULL) {
        set->ranks->process->fail(error);
    }
}

void ranks_note(const settings *set, uint64_t step)
{
    if (set->ranks != NULL && set->ranks->process != NULL) {
        set->ranks->process->note(step);
    }
}

/* Where another rank fails while this one waits, pieces may still come in: a process ends right
 * here, before its caller gives back the memory that they are written to. */
static bp_status gather_now(const settings *set, const void *mine, uint32_t bytes, void *all,
                            bp_error *error)
{
    const ranks *r = set->ranks;
    if (r == NULL || r->size == 1) {
        memcpy(all, mine, bytes);
        return BP_OK;
    }
    const bp_fabric_transfer transfer = {
        .call = BP_FABRIC_ALL_GATHER, .bytes = bytes, .to = all, .from = mine};
    bp_status status = r->fabric->begin(r->context, &transfer, error);
    status = status == BP_OK ? r->fabric->wait(r->context, transfer.request, error) : status;
    if (status != BP_OK && error->code != BP_OK) {
        ranks_fail(set, error);
    }
    return status;
}

bp_status ranks_gather(const settings *set, const void *mine, uint32_t bytes, void *all,
                       bp_error *error)
{
    ranks_leave_turn(set);
    const bp_status status = gather_now(set, mine, bytes, all, error);
    ranks_take_turn(set);
    return status;
}

bp_status ranks_first(const settings *set, bool mine, uint32_t *first, bp_error *error)
{
    uint32_t all[RANKS_MOST];
    const uint32_t own = mine;
    BP_TRY(gather_now(set, &own, sizeof own, all, error));
    *first = 0;
    while (*first < ranks_size(set) && all[*first] == 0) {
        (*first)++;
    }
    return BP_OK;
}

static uint32_t option_digest(const option *which, const settings *set)
{
    char value[VALUE_BYTES];
    bp_text text;
    bp_text_init(&text, NULL, NULL, value, sizeof value);
    option_put(&text, which, set);
    bp_status fits = bp_text_flush(&text);
    (void)fits; /* what is cut is cut alike */
    return (uint32_t)bp_digest_of(value, strlen(value), 1);
}

/* Options that change no result, but when ranks save, evaluate, replay or stop, which they do
 * together. */
static bool option_times(const option *which)
{
    static const char *const names[] = {"save-steps",    "save-strategy", "eval-steps",
                                        "eval-strategy", "replay-every",  "stop-at-step"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(which->name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

void ranks_facts_fill(ranks_facts *facts, const settings *set, const char *data)
{
    const option *which;
    memset(facts, 0, sizeof *facts);
    facts->version = ranks_version_digest();
    facts->data = bp_digest_of(data, strlen(data), 0);
    for (uint32_t i = 0; (which = option_at(i)) != NULL; i++) {
        if ((which->result || option_times(which)) && which->kind != OPTION_PATHS) {
            facts->option[i] = option_digest(which, set);
        }
    }
}

/* The first fact in which two ranks differ, and the option that it is, if it is one; NULL: they are
 * alike. */
static const char *differing(const ranks_facts *a, const ranks_facts *b, const char **name)
{
    *name = "";
    for (uint32_t i = 0; i < SETTINGS_OPTIONS_MAX; i++) {
        if (a->option[i] != b->option[i]) {
            *name = option_at(i)->name;
            return "an option differs between the ranks";
        }
    }
    return a->version != b->version ? "the program's version differs between the ranks"
           : a->data != b->data     ? "the data differ between the ranks"
           : a->total != b->total   ? "the number of steps differs between the ranks"
           : a->from != b->from     ? "the checkpoints to resume from differ between the ranks"
                                    : NULL;
}

/* Two ranks on one GPU would each plan for all of it, and a call of one would wait for a call of
 * the other behind it. */
static bp_status ranks_apart(const ranks_facts *all, uint32_t size, bp_error *error)
{
    for (uint32_t i = 0; i < size; i++) {
        for (uint32_t j = i + 1; j < size; j++) {
            if (all[i].device == 0 || all[i].device != all[j].device) {
                continue;
            }
            char name[96];
            snprintf(name, sizeof name, "ranks %u and %u", i, j);
            bp_status status = bp_error_set(error, BP_ERR_USAGE, "ranks",
                                            "two ranks have one GPU between them", name);
            bp_error_right(error, "one rank per GPU of a host, and --device cuda");
            return status;
        }
    }
    return BP_OK;
}

bp_status ranks_compare(const settings *set, const ranks_facts *facts, bp_error *error)
{
    const uint32_t size = ranks_size(set);
    ranks_facts *all = malloc(size * sizeof *all);
    if (all == NULL) {
        return bp_error_set(error, BP_ERR_FIT, "ranks", "no memory for the facts of all ranks", "");
    }
    bp_status status = ranks_gather(set, facts, sizeof *facts, all, error);
    for (uint32_t i = 1; status == BP_OK && i < size; i++) {
        const char *option_name;
        const char *text = differing(&all[0], &all[i], &option_name);
        if (text != NULL) {
            char name[96];
            snprintf(name, sizeof name, "rank %u is not as rank 0%s%s", i,
                     *option_name != '\0' ? ": --" : "", option_name);
            status = bp_error_set(error, BP_ERR_USAGE, "ranks", text, name);
        }
    }
    status = status == BP_OK ? ranks_apart(all, size, error) : status;
    free(all);
    return status;
}

/* Options that change a plan and no result; the likeliest first. */
static const char *const plan_options[] = {"shard",
                                           "shard-ahead",
                                           "gradient-checkpointing",
                                           "threads",
                                           "arena",
                                           "device",
                                           "loss-chunk-rows",
                                           "sequence-chunk",
                                           "sequence-ranks",
                                           "per-device-eval-batch-size"};

#define PLAN_OPTIONS (sizeof plan_options / sizeof plan_options[0])

typedef struct plan_facts {
    uint64_t digest;
    uint32_t option[PLAN_OPTIONS];
} plan_facts;

bp_status ranks_compare_plans(const settings *set, uint64_t digest, bp_error *error)
{
    plan_facts all[RANKS_MOST];
    plan_facts mine = {.digest = digest};
    if (ranks_size(set) == 1) {
        return BP_OK;
    }
    for (size_t k = 0; k < PLAN_OPTIONS; k++) {
        const option *which = option_find(plan_options[k], strlen(plan_options[k]));
        mine.option[k] = which != NULL ? option_digest(which, set) : 0;
    }
    BP_TRY(ranks_gather(set, &mine, sizeof mine, all, error));
    for (uint32_t i = 1; i < ranks_size(set); i++) {
        for (size_t k = 0; k < PLAN_OPTIONS && all[i].digest != all[0].digest; k++) {
            if (all[i].option[k] != all[0].option[k]) {
                char name[96];
                snprintf(name, sizeof name, "rank %u is not as rank 0: --%s", i, plan_options[k]);
                return bp_error_set(error, BP_ERR_USAGE, "ranks",
                                    "the ranks have made different plans", name);
            }
        }
    }
    return BP_OK; /* what differs is nothing that was said: the fabric tells digests */
}
