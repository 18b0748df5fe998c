/* SPDX-License-Identifier: MIT */
/* Packed rows: the losses and gradients of each document alone, its bits in attention, and how
 * documents become rows. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layers/families/gpt2.h"
#include "layers/families/llama.h"
#include "tests/fixtures/model_fixture.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/data/data_packed.h"

enum { DOCUMENTS = 9, MOST = 24 };

static const uint32_t counts[DOCUMENTS] = {5, 24, 3, 11, 2, 9, 17, 8, 30};
static const uint32_t prompts[DOCUMENTS] = {2, 0, 1, 4, 0, 3, 0, 7, 5};
static int32_t ids[1000]; /* more than a batch, which a model_fixture asks for */

static bp_status read_ids(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    (void)source;
    memcpy(to, ids + first, n * sizeof *to);
    return BP_OK;
}

static bp_status read_document(bp_source *source, uint64_t index, bp_example *to)
{
    (void)source;
    *to = (bp_example){.count = counts[index], .prompt = prompts[index]};
    for (uint64_t i = 0; i < index; i++) {
        to->first += counts[i];
    }
    return BP_OK;
}

static bp_source documents(void)
{
    for (uint32_t i = 0; i < 1000; i++) {
        ids[i] = (int32_t)((i * 7 + i / 5) % 37);
    }
    bp_source source = {
        .name = "documents", .read = read_ids, .examples = DOCUMENTS, .example = read_document};
    for (uint32_t i = 0; i < DOCUMENTS; i++) {
        source.count += counts[i];
    }
    return source;
}

typedef struct packed {
    memory_store store;
    bp_tokens tokens;
    bp_error error;
    bp_pack pack;
} packed;

static bp_status pack(packed *p, bp_source *source, bp_packing packing)
{
    static uint64_t scratch[BP_PACKED_SCRATCH / 8 + 1];
    memory_store_init(&p->store);
    p->error = (bp_error){.code = BP_OK};
    p->pack = (bp_pack){.source = source,
                        .end_token = -1,
                        .vocabulary = 37,
                        .most = MOST,
                        .packing = packing,
                        .store = &p->store.store,
                        .path = "packed",
                        .scratch = scratch,
                        .error = &p->error};
    return bp_pack_open(&p->pack, &p->tokens);
}

static void unpack(packed *p)
{
    bp_tokens_close(&p->tokens);
    memory_store_free(&p->store);
}

static bp_spec llama(bool apart)
{
    const bp_llama_config own = {.stack = {.width = 16,
                                           .layers = 2,
                                           .heads = 4,
                                           .inner = 24,
                                           .norm_epsilon = 1e-6,
                                           .initializer_range = 0.3},
                                 .kv_heads = 2,
                                 .rope_theta = 10000.0};
    bp_spec spec = model_fixture_spec();
    spec.model = &bp_model_llama;
    spec.config = (bp_model_config){.vocabulary = 37, .positions = 32};
    bp_family_config_set(&spec.config, &own, sizeof own);
    spec.sequence = MOST - 1;
    spec.packed = apart;
    spec.evaluate = true;
    return spec;
}

static bp_spec gpt2(bool apart)
{
    const bp_transformer own = {.width = 16,
                                .layers = 2,
                                .heads = 4,
                                .inner = 24,
                                .norm_epsilon = 1e-5,
                                .initializer_range = 0.3};
    bp_spec spec = llama(apart);
    spec.model = &bp_model_gpt2;
    bp_family_config_set(&spec.config, &own, sizeof own);
    return spec;
}

static void feed(model_fixture *r, bp_source *source)
{
    r->feed.source = source;
    r->feed.group = r->feed.batch * r->plan.spec.accumulation;
    assert_int_equal(bp_feed_init(&r->feed, &r->error), BP_OK);
}

/* Loss and gradient norm of a step over all rows of a source. */
static bp_outcome step_over(bp_source *source, bp_spec spec, uint32_t rows, double *loss)
{
    model_fixture r;
    uint64_t targets;
    spec.batch = rows;
    model_fixture_open(&r, &spec, ids, 1000);
    feed(&r, source);
    assert_int_equal(bp_runtime_evaluate(&r.runtime, &r.feed, 0, loss, &targets), BP_OK);
    const bp_outcome outcome = model_fixture_step(&r);
    assert_true(targets == outcome.valid);
    model_fixture_close(&r);
    return outcome;
}

static void compare_rows(bp_spec (*make)(bool apart))
{
    static const char *const forms[] = {"portable", "avx2", "avx512"};
    bp_source source = documents();
    packed p;
    assert_int_equal(pack(&p, &source, BP_PACKING_BFD), BP_OK);
    assert_true(p.tokens.head.examples < DOCUMENTS);
    const uint32_t rows = (uint32_t)p.tokens.head.examples;
    double alone, together, window;
    for (size_t i = 0; i < 3; i++) {
        bp_spec spec = make(false), apart = make(true);
        spec.device_options.variant = apart.device_options.variant = forms[i];
        apart.device_options.threads = 2;
        const bp_outcome a = step_over(&source, spec, DOCUMENTS, &alone);
        const bp_outcome b = step_over(&p.tokens.source, apart, rows, &together);
        assert_true(a.valid == b.valid);
        assert_true(fabs(a.loss - b.loss) < 1e-6 * a.loss);
        assert_true(fabs(alone - together) < 1e-6 * alone);
        assert_true(fabs(a.norm - b.norm) < 1e-5 * a.norm);
        /* rows that see all of themselves have other losses */
        spec.batch = rows;
        const bp_outcome c = step_over(&p.tokens.source, spec, rows, &window);
        assert_true(fabs(a.loss - c.loss) > 1e-4 * a.loss);
    }
    unpack(&p);
}

/* verifies formats-21.af25 */
static void rows_have_the_losses_of_their_documents(void **state)
{
    (void)state;
    compare_rows(llama);
}

/* Learned places begin anew with each document. */
/* verifies formats-21.af25 */
static void learned_places_begin_with_each_document(void **state)
{
    (void)state;
    compare_rows(gpt2);
}

/* With dropout, whose masks go with places in rows: the table's gradient is that of the loss. */
/* verifies formats-21.af25 */
static void learned_places_have_the_gradient_of_the_loss(void **state)
{
    (void)state;
    bp_source source = documents();
    packed p;
    assert_int_equal(pack(&p, &source, BP_PACKING_BFD), BP_OK);
    bp_spec spec = gpt2(true);
    bp_transformer own = bp_transformer_of(&spec.config);
    own.embedding_dropout = 0.3;
    bp_family_config_set(&spec.config, &own, sizeof own);
    spec.batch = (uint32_t)p.tokens.head.examples;
    spec.optimizer_options.learning_rate = 0.0;
    spec.optimizer_options.weight_decay = 0.0;
    model_fixture r;
    model_fixture_open(&r, &spec, ids, 1000);
    feed(&r, &p.tokens.source);
    double difference, norm;
    const bp_parameter *table = &r.plan.builder.parameters[1];
    model_fixture_differ(&r, table, 1e-2, &difference, &norm);
    assert_true(norm > 1e-3);
    assert_true(fabs(difference - norm) < 2e-3 * norm);
    model_fixture_close(&r);
    unpack(&p);
}

/* Documents in the file begin where they are marked; each is whole, and none is twice. */
/* verifies formats-21.af25 */
static void documents_fill_rows(void **state)
{
    (void)state;
    bp_source source = documents();
    packed p;
    assert_int_equal(pack(&p, &source, BP_PACKING_BFD), BP_OK);
    /* 24; 24 of 30; 17 with 5 and 2; 11 with 9 and 3; 8 */
    static const uint64_t right[] = {24, 24, 24, 23, 8};
    assert_int_equal(p.tokens.head.examples, 5);
    assert_int_equal(p.pack.cut, 6);
    assert_int_equal(p.pack.documents, DOCUMENTS);
    for (uint64_t i = 0; i < 5; i++) {
        bp_example row;
        uint8_t marks[MOST];
        int32_t found[MOST];
        assert_int_equal(p.tokens.source.example(&p.tokens.source, i, &row), BP_OK);
        assert_int_equal(row.count, right[i]);
        assert_int_equal(
            p.tokens.source.targets(&p.tokens.source, row.first, (uint32_t)row.count, marks),
            BP_OK);
        assert_int_equal(
            p.tokens.source.read(&p.tokens.source, row.first, (uint32_t)row.count, found), BP_OK);
        assert_true((marks[0] & 2) != 0);
        if (i == 4) { /* the document of 8, whose prompt is 7 */
            assert_memory_equal(found, ids + 5 + 24 + 3 + 11 + 2 + 9 + 17, 8 * sizeof *found);
            assert_int_equal(marks[6] & 1, 0);
            assert_int_equal(marks[7] & 1, 1);
        }
    }
    unpack(&p);
    assert_int_equal(pack(&p, &source, BP_PACKING_BFD_SPLIT), BP_OK);
    assert_int_equal(p.pack.cut, 0);
    assert_int_equal(p.tokens.head.tokens, source.count);
    unpack(&p);
    assert_int_equal(pack(&p, &source, BP_PACKING_WRAPPED), BP_OK);
    assert_int_equal(p.tokens.head.examples, 0);
    assert_int_equal(p.tokens.head.tokens, source.count);
    int32_t found[200];
    assert_int_equal(p.tokens.source.read(&p.tokens.source, 0, (uint32_t)source.count, found),
                     BP_OK);
    assert_memory_equal(found, ids, source.count * sizeof *found);
    unpack(&p);
}

/* verifies formats-21.af25 */
static void streams_end_with_a_token(void **state)
{
    (void)state;
    bp_source stream = documents();
    stream.examples = 0;
    packed p;
    assert_int_equal(pack(&p, &stream, BP_PACKING_BFD), BP_ERR_DATA);
    assert_non_null(strstr(p.error.text, "cannot be separated"));
    unpack(&p);
    static uint64_t scratch[BP_PACKED_SCRATCH / 8 + 1];
    memory_store_init(&p.store);
    p.pack = (bp_pack){.source = &stream,
                       .end_token = ids[4],
                       .vocabulary = 37,
                       .most = 200,
                       .packing = BP_PACKING_BFD,
                       .store = &p.store.store,
                       .path = "packed",
                       .scratch = scratch,
                       .error = &p.error};
    assert_int_equal(bp_pack_open(&p.pack, &p.tokens), BP_OK);
    uint64_t ends = 0;
    for (uint64_t i = 0; i < stream.count; i++) {
        ends += ids[i] == ids[4] ? 1 : 0;
    }
    assert_int_equal(p.pack.documents, ends + (ids[stream.count - 1] == ids[4] ? 0 : 1));
    unpack(&p);
    stream.count = 1;
    assert_int_equal(pack(&p, &stream, BP_PACKING_WRAPPED), BP_ERR_DATA);
    unpack(&p);
}

static uint64_t fails_at; /* the token whose reading fails */

static bp_status read_or_fail(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    return first <= fails_at && fails_at < first + n ? BP_ERR_STORE
                                                     : read_ids(source, first, n, to);
}

/* Targets of every other token. */
static bp_status every_other(bp_source *source, uint64_t first, uint32_t n, uint8_t *to)
{
    (void)source;
    for (uint32_t i = 0; i < n; i++) {
        to[i] = (uint8_t)((first + i) % 2);
    }
    return fails_at == first ? BP_ERR_STORE : BP_OK;
}

/* Of a source that says which tokens are learned, these are; what it cannot read ends it. */
/* verifies formats-24.7573 */
static void sources_say_what_is_learned(void **state)
{
    (void)state;
    for (uint64_t at = 0; at <= 110; at += 11) {
        packed p;
        bp_source source = documents();
        fails_at = at == 110 ? UINT64_MAX : at;
        source.read = read_or_fail;
        const bp_status status = pack(&p, &source, BP_PACKING_BFD);
        assert_int_equal(status, fails_at < source.count - counts[8] + MOST ? BP_ERR_STORE : BP_OK);
        bp_tokens_close(&p.tokens);
        memory_store_free(&p.store);
    }
    for (uint64_t at = 0; at < 2; at++) {
        packed p;
        bp_source source = documents();
        fails_at = at == 0 ? 0 : UINT64_MAX;
        source.targets = every_other;
        assert_int_equal(pack(&p, &source, BP_PACKING_WRAPPED), at == 0 ? BP_ERR_STORE : BP_OK);
        uint8_t learned[5];
        if (at != 0) {
            assert_int_equal(p.tokens.source.targets(&p.tokens.source, 0, 5, learned), BP_OK);
            for (uint32_t i = 0; i < 5; i++) {
                assert_int_equal(learned[i], i >= prompts[0] ? i % 2 : 0);
            }
        }
        bp_tokens_close(&p.tokens);
        memory_store_free(&p.store);
    }
}

static const uint32_t odd_counts[] = {25, 19, 16, 4, 49};

static bp_status read_odd(bp_source *source, uint64_t index, bp_example *to)
{
    (void)source;
    *to = (bp_example){.count = odd_counts[index]};
    for (uint64_t i = 0; i < index; i++) {
        to->first += odd_counts[i];
    }
    return BP_OK;
}

/* A rest of one token is cut, as nothing follows from it; of two rows with room the fuller one is
 * taken; the first document that is too long is the one that is named. */
/* verifies formats-21.af25 */
static void rests_and_rooms(void **state)
{
    (void)state;
    static const uint64_t right[] = {24, 24, 24, 23, 16};
    bp_source source = documents();
    source.examples = 5;
    source.example = read_odd;
    source.count = 25 + 19 + 16 + 4 + 49;
    packed p;
    assert_int_equal(pack(&p, &source, BP_PACKING_BFD_SPLIT), BP_OK);
    assert_int_equal(p.pack.cut, 2);
    assert_int_equal(p.pack.long_number, 1);
    assert_int_equal(p.pack.long_tokens, 25);
    assert_int_equal(p.tokens.head.examples, 5);
    for (uint64_t i = 0; i < 5; i++) {
        bp_example row;
        assert_int_equal(p.tokens.source.example(&p.tokens.source, i, &row), BP_OK);
        assert_int_equal(row.count, right[i]);
    }
    unpack(&p);
}

static const uint32_t late_counts[] = {17, 13, 9, 2};

static bp_status read_late(bp_source *source, uint64_t index, bp_example *to)
{
    (void)source;
    *to = (bp_example){.count = late_counts[index]};
    for (uint64_t i = 0; i < index; i++) {
        to->first += late_counts[i];
    }
    return BP_OK;
}

/* The fuller row is taken also where it was begun later: 13 and 9 leave 2 of 24, 17 leaves 7. */
/* verifies formats-21.af25 */
static void the_fuller_row_may_be_the_later_one(void **state)
{
    (void)state;
    bp_source source = documents();
    source.examples = 4;
    source.example = read_late;
    source.count = 17 + 13 + 9 + 2;
    packed p;
    assert_int_equal(pack(&p, &source, BP_PACKING_BFD), BP_OK);
    assert_int_equal(p.tokens.head.examples, 2);
    bp_example row;
    assert_int_equal(p.tokens.source.example(&p.tokens.source, 0, &row), BP_OK);
    assert_int_equal(row.count, 17);
    assert_int_equal(p.tokens.source.example(&p.tokens.source, 1, &row), BP_OK);
    assert_int_equal(row.count, 24);
    unpack(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_have_the_losses_of_their_documents),
        cmocka_unit_test(learned_places_begin_with_each_document),
        cmocka_unit_test(learned_places_have_the_gradient_of_the_loss),
        cmocka_unit_test(documents_fill_rows),
        cmocka_unit_test(streams_end_with_a_token),
        cmocka_unit_test(sources_say_what_is_learned),
        cmocka_unit_test(rests_and_rooms),
        cmocka_unit_test(the_fuller_row_may_be_the_later_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
