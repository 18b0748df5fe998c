/* SPDX-License-Identifier: MIT */
/* The graphs of all families and options are what they were: a digest of each plan, compared with
 * tests/fixtures/plans/graphs.digests, which was made before the compiler was last changed. A line
 * there is a model with one option (or a family with all), and the digest of the digests of all its
 * combinations.
 *
 * BP_GRAPHS=rows prints the table anew; BP_GRAPHS=all prints the digest of each plan, which two
 * builds can be compared by. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/digest.h"
#include "core/run/runtime.h"
#include "tests/fixtures/plans/option_pairs.h"
#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/plans/plan_case.h"
#include "tests/fixtures/plans/spec_case.h"

#define NAMES 96
#define TABLE "tests/fixtures/plans/graphs.digests"

typedef struct row {
    char name[NAMES];
    bp_digest digest;
} row;

static bp_plan plan;
static row rows[1024];
static uint32_t row_count;
static uint32_t plans;

static void add(bp_digest *digest, const uint64_t *words, size_t count)
{
    bp_digest_add(digest, words, count * sizeof *words);
}

static void add_buffer(bp_digest *digest, const bp_graph *graph, uint32_t index)
{
    const bp_buffer *b = &graph->buffers[index];
    const uint64_t words[] = {b->class_of,   b->scope,      b->dtype,     b->space,
                              b->bytes,      b->filled,     b->taken,     b->program,
                              b->lower,      b->upper,      b->rank,      b->offset,
                              b->part.whole, b->part.first, b->part.unit, b->part.tensor};
    const char *name = bp_graph_name(graph, index);
    add(digest, words, sizeof words / sizeof words[0]);
    add(digest, b->shape, BP_RANK_MAX);
    bp_digest_add(digest, name, strlen(name) + 1);
}

/* Where the pieces of a call lie among the scalars is left out: they are taken themselves. */
static void add_scalars(bp_digest *digest, const bp_graph *graph, const bp_op *op)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    const bp_scalar *scalars = graph->scalars + op->scalar;
    if (!bp_fabric_has_pieces(op->kernel)) {
        bp_digest_add(digest, scalars, op->tuples * info->scalar_count * sizeof *scalars);
        return;
    }
    const bp_gather_pieces_begin_scalars *s = (const void *)scalars;
    bp_digest_add(digest, s, offsetof(bp_gather_pieces_begin_scalars, pieces));
    bp_digest_add(digest, bp_fabric_pieces_of(s), (size_t)s->ranks * sizeof(bp_fabric_piece));
}

static void add_op(bp_digest *digest, const bp_graph *graph, const bp_op *op)
{
    const bp_kernel_info *info = bp_kernel_describe(op->kernel);
    const uint32_t operands = op->tuples * info->operand_count;
    const uint64_t words[] = {op->tuples, op->stage, op->action, op->brings};
    bp_digest_add(digest, info->name, strlen(info->name) + 1); /* numbers move with a new row */
    add(digest, words, sizeof words / sizeof words[0]);
    for (uint32_t i = 0; i < operands; i++) {
        const bp_ref ref = graph->refs[op->operand + i];
        const uint64_t place[] = {ref.buffer, ref.dtype, ref.offset};
        add(digest, place, 3);
    }
    add_scalars(digest, graph, op);
}

/* All of a planned graph, parts that ranks have among it. */
static uint64_t digest_of(const bp_graph *graph)
{
    bp_digest digest;
    bp_digest_begin(&digest, bp_graph_digest(graph));
    for (uint32_t i = 0; i < BP_PROGRAM_COUNT; i++) {
        const uint64_t words[] = {graph->program_first[i], graph->program_count[i]};
        add(&digest, words, 2);
    }
    for (uint32_t i = 0; i < graph->used.buffers; i++) {
        add_buffer(&digest, graph, i);
    }
    for (uint32_t i = 0; i < graph->used.ops; i++) {
        add_op(&digest, graph, &graph->ops[i]);
    }
    return bp_digest_end(&digest);
}

/* Plans; where the compiler refuses the combination its words are what is compared. */
static uint64_t plan_of(const bp_spec *spec)
{
    const uint64_t bytes = plan_bytes(spec);
    void *memory = malloc((size_t)bytes);
    assert_non_null(memory);
    uint64_t digest = 0;
    if (bp_plan_make(&plan, spec, memory, bytes) == BP_OK) {
        digest = digest_of(&plan.graph);
        plans++;
    } else {
        if (plan.error.code != BP_ERR_USAGE) {
            print_error("%s %s\n", plan.error.text, plan.error.name);
        }
        digest = bp_digest_of(plan.error.text, strlen(plan.error.text), 0);
    }
    free(memory);
    return digest;
}

static void add_plan(const char *row_name, const char *name, const bp_spec *spec)
{
    const uint64_t digest = plan_of(spec);
    const char *print = getenv("BP_GRAPHS");
    if (print != NULL && strcmp(print, "all") == 0) {
        printf("%s %s %016" PRIx64 "\n", row_name, name, digest);
    }
    if (row_count == 0 || strcmp(rows[row_count - 1].name, row_name) != 0) {
        assert_true(row_count < sizeof rows / sizeof rows[0]);
        row *new = &rows[row_count++];
        (void)snprintf(new->name, NAMES, "%s", row_name);
        bp_digest_begin(&new->digest, 0);
    }
    add(&rows[row_count - 1].digest, &digest, 1);
}

static void plan_families(void)
{
    for (uint32_t i = 0; i < spec_case_count(); i++) {
        char name[SPEC_CASE_NAME], family[SPEC_CASE_NAME + 8];
        bp_spec spec;
        if (spec_case(i, &spec, name)) {
            (void)snprintf(family, sizeof family, "family %s", name);
            *strrchr(family, ' ') = '\0';
            add_plan(family, strrchr(name, ' ') + 1, &spec);
        }
    }
}

static void plan_variants(void)
{
    for (uint32_t i = 0; i < plan_case_count(); i++) {
        char name[PLAN_CASE_NAME];
        bp_spec spec;
        if (plan_case(i, &spec, name)) {
            *strchr(name, ',') = '\0';
            add_plan(name, strchr(name, '\0') + 2, &spec);
        }
    }
}

static void plan_pairs(void)
{
    for (uint32_t i = 0; i < option_pairs_count(); i++) {
        char row_name[OPTION_PAIRS_NAME], name[OPTION_PAIRS_NAME];
        bp_spec spec;
        if (option_pairs(i, &spec, row_name, name)) {
            add_plan(row_name, name, &spec);
        }
    }
}

static void graphs_are_what_they_were(void **state)
{
    (void)state;
    const char *print = getenv("BP_GRAPHS");
    plan_families();
    plan_variants();
    plan_pairs();
    FILE *table = fopen(TABLE, "r");
    assert_true(table != NULL || print != NULL);
    uint32_t other = 0;
    for (uint32_t i = 0; i < row_count; i++) {
        char line[NAMES + 32] = "", is[NAMES + 32];
        (void)snprintf(is, sizeof is, "%016" PRIx64 " %s\n", bp_digest_end(&rows[i].digest),
                       rows[i].name);
        const bool read = table != NULL && fgets(line, sizeof line, table) != NULL;
        if (print != NULL) {
            printf("%s", strcmp(print, "rows") == 0 ? is : "");
        } else if (!read || strcmp(line, is) != 0) {
            other++;
            print_error("%s  was %s", is, line);
        }
    }
    printf("%u plans in %u rows\n", plans, row_count);
    if (table != NULL) {
        (void)fclose(table);
    }
    assert_int_equal(other, 0);
}

int main(void)
{
    /* Digests are of plans for the portable kernels, which the fixtures have in the long form. */
    (void)setenv("BP_TEST_WHOLE", "1", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_are_what_they_were),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
