/* SPDX-License-Identifier: MIT */
/* The proof of the verifier: faults planted into programs of every family and option. A mutant that
 * reads bytes that are not its buffer's own contents, or writes bytes that are not its own, has to
 * be refused; the rest is executed in poison mode and computes something else, or the same bits.
 * Judges of memory are two that share no code with the verifier: a walk over kernels.def's
 * extents byte by byte (shadow.h), and the kernels themselves, executed twice among different bytes
 * (watch.h). A share of all mutants, chosen by a seed; all of them with BP_TEST_LONG=1. */
#define _DEFAULT_SOURCE 1 /* MAP_ANONYMOUS */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/ir/verify/verify.h"
#include "tests/fixtures/plans/mutant.h"
#include "tests/fixtures/plans/mutant_case.h"
#include "tests/fixtures/plans/mutant_run.h"
#include "tests/fixtures/extent_oracle.h"
#include "tests/fixtures/execution_oracle.h"
#include "tests/fixtures/share.h"

enum { SHARE = 2503, PLANS = 1000, SECONDS_EACH = 60 };

typedef enum verdict {
    VERDICT_NONE,
    VERDICT_REFUSED,
    VERDICT_VALUES,   /* clean, and other values */
    VERDICT_BITS,     /* clean, and values that golden tests take for the same */
    VERDICT_HARMLESS, /* clean, and the same bits */
    VERDICT_ESCAPED,  /* bad memory that the verifier let pass */
    VERDICTS
} verdict;

typedef struct finding {
    uint8_t verdict;
    char fault[247];
} finding;

typedef struct job {
    mutant_case is;
    model_fixture r;
    mutant_room room;
    shadow walk;
    bp_graph copy;
    bp_error error;
    mutant *mutants;
    uint32_t count;
    finding *findings;  /* shared with the processes that fill it */
    uint32_t *at;       /* shared: the mutant in work */
    mutant_trace sound; /* of the program without faults */
    mutant_trace trace; /* of the mutant at hand */
} job;

static watch_choice choice_of(const mutant *m, const bp_graph *original)
{
    const uint32_t op = m->op - original->program_first[m->program];
    return (watch_choice){.program = m->program, .op = {op, op + 1}, .count = 2};
}

static void judge(job *j, const mutant *m, finding *f)
{
    bp_report report;
    char fault[256] = "";
    mutant_plant(&j->r.plan.graph, m, &j->copy);
    if (mutant_verify(&j->room, &j->r, &j->copy, &report) != BP_OK) {
        f->verdict = VERDICT_REFUSED;
        return;
    }
    f->verdict = VERDICT_ESCAPED;
    if (!extent_oracle_walk(&j->walk, &j->copy, report.arena_bytes)) {
        snprintf(f->fault, sizeof f->fault, "%.240s", j->walk.fault);
        return;
    }
    const watch_choice choice = choice_of(m, &j->r.plan.graph);
    watch_choose(&choice, fault);
    const bp_status status = mutant_execute(&j->room, &j->r, &j->copy, &report, &j->trace);
    watch_choose(NULL, NULL);
    if (fault[0] != '\0') {
        snprintf(f->fault, sizeof f->fault, "%.240s", fault);
        return;
    }
    f->verdict = status != BP_OK || !mutant_trace_close(&j->sound, &j->trace) ? VERDICT_VALUES
                 : mutant_trace_same(&j->sound, &j->trace)                    ? VERDICT_HARMLESS
                                                                              : VERDICT_BITS;
}

/* One of how many mutants is looked at. */
static uint64_t share(void)
{
    const char *text = getenv("BP_TEST_SHARE");
    const bool few = getenv("BP_TEST_SHORT") != NULL;
    const uint64_t usual = few ? 6 * SHARE : getenv("BP_TEST_LONG") != NULL ? SHARE : 3 * SHARE;
    return text != NULL ? strtoull(text, NULL, 10) : usual;
}

static bool taken(uint32_t index, uint32_t number)
{
    uint64_t mixed = (index * 1000003u + number + 1) * 0x9e3779b97f4a7c15u;
    mixed ^= mixed >> 29;
    mixed *= 0xbf58476d1ce4e5b9u;
    return getenv("BP_TEST_LONG") != NULL || (mixed >> 33) % share() < (index < PLANS ? 1 : 12);
}

/* Judges mutants in a process of its own, so that one that crashes is only one. */
static void judge_from(job *j, uint32_t index, uint32_t first)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const int ends[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM};
        for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
            (void)signal(ends[i], SIG_DFL); /* cmocka has handlers of its own */
        }
        for (uint32_t i = first; i < j->count; i++) {
            *j->at = i;
            if (taken(index, i)) {
                alarm(SECONDS_EACH); /* limit: a thousand times what one takes; against one without
                                        end */
                judge(j, &j->mutants[i], &j->findings[i]);
            }
        }
        *j->at = j->count;
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        finding *f = &j->findings[*j->at];
        f->verdict = VERDICT_ESCAPED;
        snprintf(f->fault, sizeof f->fault, "ends the process (status %d)", status);
    }
}

static void *shared(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

static void job_open(job *j)
{
    bp_report report;
    mutant_case_open(&j->is, &j->r);
    const bp_graph *graph = &j->r.plan.graph;
    mutant_room_open(&j->room, &j->r);
    extent_oracle_open(&j->walk, &j->r.plan.builder, &j->r.plan.spec,
                       2 * j->r.plan.report.arena_bytes);
    mutant_copy(graph, &j->copy, &j->error);
    j->mutants = mutant_list(graph, &j->count);
    j->findings = shared(j->count * sizeof *j->findings);
    j->at = shared(sizeof *j->at);
    /* The program without a fault: dropping an op that is not there changes nothing. */
    char fault[256] = "";
    const watch_choice all = {.count = 0};
    mutant none = j->mutants[0];
    none.way = MUTANT_WAYS;
    mutant_plant(graph, &none, &j->copy);
    assert_int_equal(mutant_verify(&j->room, &j->r, &j->copy, &report), BP_OK);
    if (!extent_oracle_walk(&j->walk, &j->copy, report.arena_bytes)) {
        fail_msg("%s, %s: without a fault: %s", j->is.family, j->is.option, j->walk.fault);
    }
    watch_choose(&all, fault);
    assert_int_equal(mutant_execute(&j->room, &j->r, &j->copy, &report, &j->sound), BP_OK);
    watch_choose(NULL, NULL);
    assert_string_equal(fault, "");
}

static void job_close(job *j)
{
    munmap(j->findings, j->count * sizeof *j->findings);
    munmap(j->at, sizeof *j->at);
    free(j->mutants);
    mutant_trace_free(&j->sound);
    mutant_trace_free(&j->trace);
    mutant_free(&j->copy);
    extent_oracle_close(&j->walk);
    mutant_room_close(&j->room);
    model_fixture_close(&j->r);
}

/* How many mutants of a family, by way and verdict. */
typedef struct tally {
    uint32_t count[MUTANT_WAYS][VERDICTS];
} tally;

static void name_mutant(const job *j, uint32_t i, const char *what)
{
    char text[160];
    mutant_describe(&j->r.plan.graph, &j->mutants[i], text, sizeof text);
    print_message("%s: %s, %s: %s %s\n", what, j->is.family, j->is.option, text,
                  j->findings[i].fault);
}

static void count_job(const job *j, tally *t)
{
    for (uint32_t i = 0; i < j->count; i++) {
        const verdict v = (verdict)j->findings[i].verdict;
        t->count[j->mutants[i].way][v]++;
        if (v == VERDICT_BITS || v == VERDICT_ESCAPED) {
            name_mutant(j, i, v == VERDICT_BITS ? "in bits only" : "ESCAPED");
        }
    }
}

static void print_tally(const char *family, const tally *t)
{
    print_message("%s\n", family);
    for (int way = 0; way < MUTANT_WAYS; way++) {
        const uint32_t *c = t->count[way];
        print_message("    %-14s %7u refused %6u by values %4u in bits %6u harmless %u escaped\n",
                      mutant_way_name((mutant_way)way), c[VERDICT_REFUSED], c[VERDICT_VALUES],
                      c[VERDICT_BITS], c[VERDICT_HARMLESS], c[VERDICT_ESCAPED]);
    }
}

static void run_job(uint32_t index, const mutant_case *is, tally *t)
{
    static job j;
    memset(&j, 0, sizeof j);
    j.is = *is;
    job_open(&j);
    for (uint32_t first = 0; first < j.count; first = *j.at + 1) {
        judge_from(&j, index, first);
    }
    count_job(&j, t);
    job_close(&j);
}

static uint32_t tally_sum(const tally *t, verdict v)
{
    uint32_t sum = 0;
    for (int way = 0; way < MUTANT_WAYS; way++) {
        sum += t->count[way][v];
    }
    return sum;
}

/* All options of the families whose "family, option" holds BP_TEST_MUTANTS. Nothing escapes; there
 * is no list of exceptions. What golden values cannot tell from the sound program, only its bits
 * can, stays rare: ends of sums and parts that are nearly zero. */
/* verifies program-5.4d64 */
static void test_mutants(void **state)
{
    (void)state;
    tally all = {{{0}}};
    const char *only = getenv("BP_TEST_MUTANTS");
    for (uint32_t family = 0; family < mutant_family_count(); family++) {
        tally t = {{{0}}};
        const char *shown = NULL;
        for (uint32_t option = 0; option < mutant_option_count(); option++) {
            mutant_case is;
            char name[80];
            const uint32_t index = family * mutant_option_count() + option;
            if (!mutant_case_get(family, option, watch_device(), &is) ||
                (!long_form() && (family + option) % 3 != 0)) {
                continue; /* the short form has every third option of a family */
            }
            snprintf(name, sizeof name, "%s, %s", is.family, is.option);
            if (only == NULL || strstr(name, only) != NULL) {
                run_job(index, &is, &t);
                shown = is.family;
            }
        }
        if (shown != NULL) {
            print_tally(shown, &t);
        }
        for (int i = 0; i < (int)MUTANT_WAYS * (int)VERDICTS; i++) {
            all.count[i / VERDICTS][i % VERDICTS] += t.count[i / VERDICTS][i % VERDICTS];
        }
    }
    print_tally("all", &all);
    assert_true(tally_sum(&all, VERDICT_REFUSED) > 0);
    assert_int_equal(tally_sum(&all, VERDICT_ESCAPED), 0);
    assert_true(tally_sum(&all, VERDICT_BITS) * 20 <= tally_sum(&all, VERDICT_VALUES) + 100);
}

/* A plan with one buffer out of place: moved by the least step, onto its neighbour's place, or
 * planned anew as if it lived a tick less at either end. */
enum misplacing { PLACE_UP, PLACE_DOWN, PLACE_ONTO, LIVES_LATER, LIVES_IN_BUCKET, MISPLACINGS };

static bp_status misplace(job *j, uint32_t buffer, enum misplacing how, bp_report *report)
{
    const bp_spec *spec = &j->r.plan.spec;
    mutant none = j->mutants[0];
    none.way = MUTANT_WAYS;
    mutant_plant(&j->r.plan.graph, &none, &j->copy);
    bp_graph_lifetimes(&j->copy);
    bp_buffer *b = &j->copy.buffers[buffer];
    b->lower += how == LIVES_LATER;
    b->upper -= how == LIVES_IN_BUCKET && b->upper > b->lower;
    BP_TRY(bp_report_plan(&j->copy, 0, j->room.scratch, j->room.scratch_bytes, report));
    b->offset += how == PLACE_UP ? BP_ARENA_ALIGNMENT : 0;
    b->offset -= how == PLACE_DOWN ? BP_ARENA_ALIGNMENT : 0;
    b->offset = how == PLACE_ONTO ? j->copy.buffers[buffer - 1].offset : b->offset;
    BP_TRY(bp_verify(&j->copy, spec->device, &spec->device_options, j->room.scratch,
                     j->room.scratch_bytes));
    return bp_verify_plan(&j->copy, report->arena_bytes, j->room.scratch, j->room.scratch_bytes);
}

/* Counts plans that are refused, that pass and are sound, and that pass and are not. */
static void misplace_all(job *j, uint32_t family, uint32_t counts[3])
{
    for (uint32_t i = 1; i < j->copy.used.buffers; i++) {
        for (int how = 0; how < MISPLACINGS; how++) {
            bp_report report;
            if (!taken(PLANS + family, i * MISPLACINGS + (uint32_t)how)) {
                continue;
            }
            if (misplace(j, i, (enum misplacing)how, &report) != BP_OK) {
                counts[0]++;
            } else if (extent_oracle_walk(&j->walk, &j->copy, report.arena_bytes)) {
                counts[1]++;
            } else {
                counts[2]++;
                print_message("ESCAPED: %s, %s: %s out of place in way %d: %s\n", j->is.family,
                              j->is.option, bp_graph_name(&j->copy, i), how, j->walk.fault);
            }
        }
    }
}

/* verifies program-5.4d64 */
static void test_plans(void **state)
{
    (void)state;
    uint32_t counts[3] = {0, 0, 0};
    for (uint32_t family = 0; family < mutant_family_count(); family++) {
        for (uint32_t option = 1; option < 4; option++) {
            static job j;
            memset(&j, 0, sizeof j);
            assert_true(mutant_case_get(family, option, watch_device(), &j.is));
            job_open(&j);
            misplace_all(&j, family, counts);
            job_close(&j);
        }
    }
    print_message("plans: %u refused %u sound %u escaped\n", counts[0], counts[1], counts[2]);
    assert_true(counts[0] > 0 && counts[2] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mutants),
                                       cmocka_unit_test(test_plans)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
