/* SPDX-License-Identifier: MIT */
/* Whatever a block keeps, what it computes is the same: for each family, kept sets against
 * keep-all, with every buffer poisoned at birth and death, under options that change the stages.
 * And the sets that the engine finds worth keeping, against brute force on random lists of nodes.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "layers/families/gpt2.h"
#include "layers/blocks/gpt2_block.h"
#include "layers/families/mlp_model.h"
#include "layers/nodes/node_kinds.h"
#include "layers/families/transformer.h"
#include "tests/fixtures/model_fixture.h"
#include "tests/fixtures/plans/spec_case.h"

#define TOKENS   300
#define EXAMPLES 20
#define STAGES   16
#define SAMPLED  24 /* kept sets of a case */

static int32_t tokens[TOKENS];

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void make_tokens(void)
{
    uint32_t state = 5;
    for (uint32_t i = 0; i < TOKENS; i++) {
        tokens[i] = (int32_t)(next_random(&state) % 37);
    }
}

static bp_status read_numbers(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    (void)source;
    for (uint32_t i = 0; i < n; i++) {
        const float number = (float)tokens[first + i] / 16.0f - 1.0f;
        memcpy(&to[i], &number, sizeof number);
    }
    return BP_OK;
}

static bp_status example(bp_source *source, uint64_t index, bp_example *to)
{
    const uint64_t length = source->count / EXAMPLES;
    *to = (bp_example){.first = index * length, .count = length, .label = index % 3};
    return BP_OK;
}

/* With the data that the model is for: tokens, hidden tokens, rows of numbers, classes. */
static void open_case(model_fixture *r, const bp_spec *spec)
{
    model_fixture_open(r, spec, tokens, TOKENS);
    if (spec->config.task == BP_TASK_CAUSAL_LM) {
        return;
    }
    r->source.count = spec->sequence * EXAMPLES;
    r->source.examples = EXAMPLES;
    r->source.example = example;
    r->source.read = spec->model == &bp_model_mlp ? read_numbers : r->source.read;
    r->feed.classes = spec->config.classes;
    r->feed.kind = spec->config.task == BP_TASK_MASKED_LM ? BP_LABELS_MASKED : BP_LABELS_CLASS;
    r->feed.masking = (bp_masking){0.4, 36, {-1, -1, -1, -1}};
    assert_int_equal(bp_feed_init(&r->feed, &r->error), BP_OK);
}

/* The digest of the state after two steps; *first: the lowest stage that is trained. */
static uint64_t digest_of(const bp_spec *spec, uint32_t *first)
{
    static model_fixture r;
    open_case(&r, spec);
    for (int i = 0; i < 2; i++) {
        const bp_outcome outcome = model_fixture_step(&r);
        assert_true(outcome.loss > 0.0 && !outcome.nonfinite);
    }
    const uint64_t digest = model_fixture_digest(&r);
    *first = r.plan.compile.first;
    model_fixture_close(&r);
    return digest;
}

/* The same where every stage with a tape keeps what `kept` says of it. */
static uint64_t digest_keeping(const bp_spec *spec, uint32_t first, const uint32_t *kept)
{
    bp_action actions[2 * STAGES];
    bp_spec other = *spec;
    const uint32_t count = spec->model->stages(&spec->config) - first;
    uint32_t used = 0;
    for (uint32_t a = 0; a + 1 < 2 * count; a++) {
        const bool forward = a + 1 < count;
        const uint32_t s = forward ? a : 2 * count - 2 - a;
        const uint32_t variants = spec->model->variants(&spec->config, first + s);
        actions[used++] = (bp_action){.kind = forward ? BP_ACTION_FORWARD : BP_ACTION_BACKWARD,
                                      .stage = s,
                                      .variant = variants > 1 ? BP_TAPE_SET | kept[first + s] : 0};
    }
    other.policy = (bp_policy){.kind = BP_POLICY_ACTIONS, .actions = actions, .action_count = used};
    return digest_of(&other, &first);
}

static bp_spec case_named(const char *wanted)
{
    bp_spec spec;
    char name[SPEC_CASE_NAME];
    for (uint32_t i = 0; i < spec_case_count(); i++) {
        if (spec_case(i, &spec, name) && strcmp(name, wanted) == 0) {
            spec.poison = true;
            return spec;
        }
    }
    fail_msg("there is no case %s", wanted);
    return spec;
}

static void sample_sets(const char *name, uint32_t seed)
{
    const bp_spec spec = case_named(name);
    uint32_t kept[STAGES], first = 0;
    const uint64_t expected = digest_of(&spec, &first);
    for (uint32_t k = 0; k < SAMPLED; k++) {
        for (uint32_t s = 0; s < STAGES; s++) {
            kept[s] = next_random(&seed) & (value_bit(BP_BLOCK_VALUES) - 1);
        }
        if (digest_keeping(&spec, first, kept) != expected) {
            fail_msg("%s: keeping 0x%x, 0x%x gives another state", name, kept[1], kept[2]);
        }
    }
}

/* verifies layers-5.febc */
static void test_families_under_options(void **state)
{
    (void)state;
    static const char *const names[] = {
        "gpt2 plain",    "gpt2 dropout",        "gpt2 grouped",    "gpt2 released-clipped",
        "gpt2 bf16",     "gpt2 lora",           "gpt2 lora-nf4",   "gpt2 frozen",
        "gpt2 classes",  "llama plain",         "llama dropout",   "llama biased",
        "llama grouped", "llama lora",          "llama lora-int8", "llama released-clipped",
        "llama frozen",  "llama bf16",          "qwen2 plain",     "qwen2 lora-released",
        "bert plain",    "bert dropout",        "bert lora",       "bert released-clipped",
        "bert frozen",   "bert grouped",        "mlp plain",       "mlp dropout",
        "mlp grouped",   "mlp released-clipped"};
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        sample_sets(names[i], 100 + i);
    }
}

/* Every subset of what a block of GPT-2 can keep. */
/* verifies layers-5.febc */
static void test_all_subsets(void **state)
{
    (void)state;
    bp_spec spec = case_named("gpt2 plain");
    uint32_t kept[STAGES], first = 0, tried = 0;
    SET_FAMILY(&spec.config, bp_transformer, layers, 1);
    const uint64_t expected = digest_of(&spec, &first);
    for (uint32_t mask = 0; mask < 1u << 11; mask += 2) {
        for (uint32_t s = 0; s < STAGES; s++) {
            kept[s] = mask;
        }
        if (digest_keeping(&spec, first, kept) != expected) {
            fail_msg("keeping 0x%x gives another state", mask);
        }
        tried++;
    }
    assert_int_equal(tried, 1024);
}

/* A block whose stream is read twice: out = h + c_proj(tanh(h)), h = GELU(c_fc(ln_2(x))); GPT-2's
 * parameters, as wide inside as outside. */
static void describe_forked(const bp_builder *builder, const bp_stage_call *call, bp_block *block)
{
    enum { INPUT, NORM, STATISTICS, BEFORE, H, ACTIVE, OUTPUT, VALUES };
    const uint32_t first = bp_gpt2_block_first(call->stage - 1);
    const uint64_t rows = builder->rows, w = bp_transformer_of(&builder->spec->config).width;
    const bp_linear up = {first + BP_GPT2_C_FC_WEIGHT, first + BP_GPT2_C_FC_BIAS, w, w, false, 0};
    const bp_linear down = {
        first + BP_GPT2_MLP_C_PROJ_WEIGHT, first + BP_GPT2_MLP_C_PROJ_BIAS, w, w, false, 0};
    *block = (bp_block){
        .value = {[INPUT] = {"input", "d_input", {rows, w}, false},
                  [NORM] = {"norm", "d_norm", {rows, w}, false},
                  [STATISTICS] = {"statistics", NULL, {2, rows}, true},
                  [BEFORE] = {"before", "d_before", {rows, w}, false},
                  [H] = {"h", "d_h", {rows, w}, false},
                  [ACTIVE] = {"active", "d_active", {rows, w}, false},
                  [OUTPUT] = {"out", NULL, {rows, w}, false}},
        .values = VALUES,
        .node = {{.kind = BP_NODE_NORM,
                  .in = {INPUT},
                  .out = {NORM, STATISTICS},
                  .norm = {.weight = first + BP_GPT2_LN_2_WEIGHT,
                           .bias = first + BP_GPT2_LN_2_BIAS,
                           .width = w,
                           .epsilon = 1e-5}},
                 {.kind = BP_NODE_DENSE, .in = {NORM}, .out = {BEFORE}, .parts = 1, .part = {up}},
                 {.kind = BP_NODE_GELU, .in = {BEFORE}, .out = {H}},
                 {.kind = BP_NODE_ACTIVATION,
                  .in = {H},
                  .out = {ACTIVE},
                  .activation = BP_ACTIVATION_TANH},
                 {.kind = BP_NODE_RESIDUAL,
                  .in = {ACTIVE, H},
                  .out = {OUTPUT},
                  .residual = {down, {0, 0.0}}}},
        .nodes = 5};
}

static void forward_forked(bp_builder *builder, bp_stage_call *call)
{
    bp_block block;
    if (call->stage != 1) {
        bp_model_gpt2.forward(builder, call);
        return;
    }
    describe_forked(builder, call, &block);
    bp_block_forward(builder, call, &block);
}

static void backward_forked(bp_builder *builder, bp_stage_call *call)
{
    bp_block block;
    if (call->stage != 1) {
        bp_model_gpt2.backward(builder, call);
        return;
    }
    describe_forked(builder, call, &block);
    bp_block_backward(builder, call, &block);
}

/* What two nodes read has the sum of both gradients, whatever is kept. */
/* verifies layers-5.febc */
static void test_gradients_of_a_fork(void **state)
{
    (void)state;
    static const uint32_t parameters[] = {BP_GPT2_LN_2_WEIGHT, BP_GPT2_C_FC_WEIGHT,
                                          BP_GPT2_C_FC_BIAS, BP_GPT2_MLP_C_PROJ_WEIGHT};
    bp_model model = bp_model_gpt2;
    bp_spec spec = case_named("gpt2 plain");
    SET_FAMILY(&spec.config, bp_transformer, inner, bp_transformer_of(&spec.config).width);
    SET_FAMILY(&spec.config, bp_transformer, layers, 1);
    model.forward = forward_forked;
    model.backward = backward_forked;
    spec.poison = false; /* gradients are read after the step */
    spec.model = &model;
    spec.optimizer_options.learning_rate = 0.0;
    spec.optimizer_options.weight_decay = 0.0;
    for (uint32_t kind = BP_POLICY_NONE; kind <= BP_POLICY_FULL; kind++) {
        spec.policy.kind = (bp_policy_kind)kind;
        for (size_t i = 0; i < sizeof parameters / sizeof parameters[0]; i++) {
            static model_fixture r;
            double difference = 0.0, norm = 0.0;
            model_fixture_open(&r, &spec, tokens, TOKENS);
            model_fixture_differ(&r,
                                 &r.plan.builder.parameters[bp_gpt2_block_first(0) + parameters[i]],
                                 3e-2, &difference, &norm);
            model_fixture_close(&r);
            if (!(norm > 1e-4) || fabs(difference - norm) > 0.02 * norm) {
                fail_msg("parameter %zu: difference %g, norm %g", i, difference, norm);
            }
        }
    }
}

#define LISTS 300

/* A random list of nodes over values of one shape, with costs and reads by chance. */
typedef struct random_list {
    bp_block block;
    block_costs costs;
    uint32_t closed; /* values that an op changes in their place: read by nobody else */
    uint32_t seed;
} random_list;

static uint32_t below(random_list *l, uint32_t limit)
{
    return next_random(&l->seed) % limit;
}

static uint32_t add_value(random_list *l, bool statistics)
{
    bp_value *value = &l->block.value[l->block.values];
    *value = (bp_value){"value", "gradient", {statistics ? 2 : 4, statistics ? 4 : 8}, statistics};
    return l->block.values++;
}

/* A value that an earlier node made and that may be read; the block's input in any case. */
static uint32_t choose_input(random_list *l, bool step)
{
    for (int tries = 0; tries < 20; tries++) {
        const uint32_t v = below(l, l->block.values);
        bool read = false;
        for (uint32_t i = 0; i < l->block.nodes; i++) {
            const bp_node *node = &l->block.node[i];
            for (uint32_t k = 0; k < node_row_of(node)->inputs; k++) {
                read = read || node->in[k] == v;
            }
        }
        const bool closed = (l->closed & value_bit(v)) != 0;
        if (!closed && !l->block.value[v].statistics && !(step && (read || v == 0))) {
            return v;
        }
    }
    return 0;
}

static void add_node(random_list *l, bool last)
{
    static const bp_node_kind kinds[] = {BP_NODE_NORM,       BP_NODE_DENSE,  BP_NODE_GELU,
                                         BP_NODE_ACTIVATION, BP_NODE_SWIGLU, BP_NODE_RESIDUAL,
                                         BP_NODE_DROPOUT};
    bp_node node = {.kind = kinds[below(l, last ? 1 : 7)]};
    const bp_linear product = {.in = 8, .out = 8};
    node.kind = last ? BP_NODE_RESIDUAL : node.kind;
    const bp_node *before = l->block.nodes > 0 ? &l->block.node[l->block.nodes - 1] : NULL;
    const bool fusable = before != NULL && before->kind == BP_NODE_DENSE && before->parts == 1;
    node.kind = fusable && !last && below(l, 2) == 0 ? BP_NODE_GELU : node.kind;
    node.in[0] = choose_input(l, node.kind == BP_NODE_DROPOUT);
    if (node.kind == BP_NODE_GELU && fusable) {
        node.in[0] = l->block.values - 1; /* often alone in reading it: one op makes both */
    }
    node.in[1] = choose_input(l, false);
    if (node.kind == BP_NODE_DROPOUT && node.in[0] == 0) {
        node.kind = BP_NODE_ACTIVATION;
    }
    l->closed |= node.kind == BP_NODE_DROPOUT ? value_bit(node.in[0]) : 0;
    if (node.kind != BP_NODE_DROPOUT && node.in[1] == node.in[0]) {
        node.in[1] = 0;
    }
    node.again = below(l, 4) == 0;
    node.once = !node.again && below(l, 12) == 0;
    node.norm = (bp_norm){.weight = 0, .bias = 1, .width = 8};
    node.parts = below(l, 2) == 0 ? 1 : 1 + below(l, 3);
    node.residual.projection = product;
    const uint32_t outputs = node_outputs(&node);
    for (uint32_t k = 0; k < outputs; k++) {
        node.part[k] = product;
        node.out[k] = add_value(l, node.kind == BP_NODE_NORM && k == 1);
    }
    l->block.node[l->block.nodes++] = node;
}

static void make_list(random_list *l, uint32_t seed)
{
    *l = (random_list){.seed = seed};
    (void)add_value(l, false);
    while (l->block.values < 9) {
        add_node(l, false);
    }
    add_node(l, true);
    block_costs *c = &l->costs;
    block_masks_of(&l->block, &c->masks);
    for (uint32_t i = 0; i < l->block.nodes; i++) {
        const bp_node *node = &l->block.node[i];
        c->once |= node->once ? c->masks.outs[i] & c->masks.keepable : 0;
        c->reads[i] = (c->masks.ins[i] | c->masks.outs[i]) & next_random(&l->seed) &
                      ~c->masks.steps & ~value_bit(l->block.values - 1);
        c->parts[i] = node->kind == BP_NODE_DENSE ? node->parts : 0;
        for (uint32_t k = 0; k < BP_NODE_OUTPUTS; k++) {
            c->part_out[i][k] = node->out[k];
            c->seconds[i][k] = 1 + below(l, 20);
        }
        c->fused[i] = 1 + below(l, 30);
    }
    for (uint32_t v = 1; v < l->block.values; v++) {
        c->bytes[v] = 64 * (1 + below(l, 12));
    }
}

/* What has to run so that a value is there: marks nodes and values, in recursion. */
static void require(const random_list *l, uint32_t v, const bool *have, bool *runs, bool *wanted)
{
    if (have[v] || wanted[v]) {
        return;
    }
    wanted[v] = true;
    for (uint32_t i = 0; i < l->block.nodes; i++) {
        const bp_node *node = &l->block.node[i];
        for (uint32_t k = 0; k < node_outputs(node); k++) {
            if (node->out[k] == v) {
                runs[i] = true;
                for (uint32_t n = 0; n < node_row_of(node)->inputs; n++) {
                    require(l, node->in[n], have, runs, wanted);
                }
            }
        }
    }
}

static bool read_by_one(const random_list *l, uint32_t v)
{
    uint32_t readers = 0;
    for (uint32_t i = 0; i < l->block.nodes; i++) {
        for (uint32_t k = 0; k < node_row_of(&l->block.node[i])->inputs; k++) {
            readers += l->block.node[i].in[k] == v ? 1 : 0;
        }
    }
    return readers == 1;
}

/* The product that one op makes together with a GELU that runs; the number of nodes: none. */
static uint32_t fused_with(const random_list *l, uint32_t gelu, const bool *runs)
{
    const bp_node *node = &l->block.node[gelu];
    for (uint32_t i = 0; i < l->block.nodes && node->kind == BP_NODE_GELU && runs[gelu]; i++) {
        const bp_node *product = &l->block.node[i];
        if (product->kind == BP_NODE_DENSE && product->parts == 1 && runs[i] &&
            product->out[0] == node->in[0] && read_by_one(l, node->in[0])) {
            return i;
        }
    }
    return l->block.nodes;
}

static double slow_pass(const random_list *l, const bool *runs, const bool *wanted)
{
    double seconds = 0.0;
    bool carried[BP_BLOCK_NODES] = {false};
    for (uint32_t i = 0; i < l->block.nodes; i++) {
        const uint32_t product = fused_with(l, i, runs);
        if (product < l->block.nodes) {
            carried[i] = carried[product] = true;
            seconds += l->costs.fused[i];
        }
    }
    for (uint32_t i = 0; i < l->block.nodes; i++) {
        const bp_node *node = &l->block.node[i];
        const bool dense = node->kind == BP_NODE_DENSE;
        for (uint32_t k = 0; runs[i] && !carried[i] && k < (dense ? node->parts : 1); k++) {
            seconds += !dense || wanted[node->out[k]] ? l->costs.seconds[i][k] : 0.0;
        }
    }
    return seconds;
}

/* Backward with nothing but arrays of values that are there. */
static double slow_again(const random_list *l, uint32_t kept)
{
    bool have[BP_BLOCK_VALUES] = {true};
    double seconds = 0.0;
    for (uint32_t v = 1; v < l->block.values; v++) {
        have[v] = (kept & value_bit(v)) != 0;
    }
    for (uint32_t i = l->block.nodes; i-- > 0;) {
        bool runs[BP_BLOCK_NODES] = {false}, wanted[BP_BLOCK_VALUES] = {false};
        for (uint32_t v = 0; v < l->block.values; v++) {
            if ((l->costs.reads[i] & value_bit(v)) != 0) {
                require(l, v, have, runs, wanted);
            }
        }
        seconds += slow_pass(l, runs, wanted);
        for (uint32_t k = 0; k < l->block.nodes; k++) {
            const bp_node *node = &l->block.node[k];
            bool asked = false;
            for (uint32_t n = 0; n < node_outputs(node); n++) {
                asked = asked || (l->costs.reads[i] & value_bit(node->out[n])) != 0;
            }
            for (uint32_t n = 0; runs[k] && (asked || !node->again) && n < node_outputs(node);
                 n++) {
                const uint32_t v = node->out[n];
                const bool made = node->kind != BP_NODE_DENSE || wanted[v];
                have[v] = have[v] || (made && (l->closed & value_bit(v)) == 0);
            }
        }
    }
    return seconds;
}

static uint64_t bytes_of(const random_list *l, uint32_t kept)
{
    uint64_t bytes = 0;
    for (uint32_t v = 0; v < l->block.values; v++) {
        bytes += (kept & value_bit(v)) != 0 ? l->costs.bytes[v] : 0;
    }
    return bytes;
}

/* Every pair of bytes and seconds that no kept set beats is in the frontier, and nothing else. */
static void compare_frontiers(const random_list *l)
{
    block_kept sets[BLOCK_SETS_MOST];
    const uint32_t count = block_frontier(&l->costs, sets, BLOCK_SETS_MOST);
    const uint32_t keepable = l->costs.masks.keepable;
    bool met[BLOCK_SETS_MOST] = {false};
    for (uint32_t i = 0; i < count; i++) {
        assert_true(sets[i].bytes == bytes_of(l, sets[i].kept));
        assert_true(sets[i].seconds == slow_again(l, sets[i].kept));
        assert_true((sets[i].kept & ~keepable) == 0 &&
                    (sets[i].kept & l->costs.once) == l->costs.once);
    }
    for (uint32_t mask = 0; mask <= keepable; mask += 2) {
        if ((mask & ~keepable) != 0 || (mask & l->costs.once) != l->costs.once) {
            continue;
        }
        const uint64_t bytes = bytes_of(l, mask);
        const double seconds = slow_again(l, mask);
        bool beaten = false;
        for (uint32_t i = 0; i < count; i++) {
            const bool same = sets[i].bytes == bytes && sets[i].seconds == seconds;
            met[i] = met[i] || same;
            beaten = beaten || same || (sets[i].bytes <= bytes && sets[i].seconds <= seconds);
            assert_true(same || sets[i].bytes < bytes || sets[i].seconds < seconds);
        }
        assert_true(beaten);
    }
    for (uint32_t i = 0; i < count; i++) {
        assert_true(met[i]);
        assert_true(i == 0 ||
                    (sets[i].bytes > sets[i - 1].bytes && sets[i].seconds < sets[i - 1].seconds));
    }
}

/* verifies layers-50.eba0 */
static void test_frontier_against_brute_force(void **state)
{
    (void)state;
    uint32_t fused = 0, steps = 0, once = 0;
    for (uint32_t seed = 1; seed <= LISTS; seed++) {
        static random_list l;
        bp_error error = {0};
        make_list(&l, seed * 7919);
        if (bp_block_check(&l.block, &error) != BP_OK) {
            fail_msg("list %u: %s", seed, error.text);
        }
        compare_frontiers(&l);
        steps += l.closed != 0 ? 1 : 0;
        once += l.costs.once != 0 ? 1 : 0;
        for (uint32_t i = 0; i < l.block.nodes; i++) {
            fused += l.costs.masks.fuses[i] < l.block.nodes ? 1 : 0;
        }
    }
    assert_true(fused > 10 && steps > 30 && once > 30);
}

/* Fewer sets are wanted: the ends stay. */
/* verifies layers-50.eba0 */
static void test_a_thinned_frontier(void **state)
{
    (void)state;
    static random_list l;
    block_kept all[BLOCK_SETS_MOST], few[5];
    make_list(&l, 3 * 7919);
    const uint32_t count = block_frontier(&l.costs, all, BLOCK_SETS_MOST);
    assert_true(count > 5);
    assert_int_equal(block_frontier(&l.costs, few, 5), 5);
    assert_int_equal(few[0].kept, all[0].kept);
    assert_int_equal(few[4].kept, all[count - 1].kept);
}

int main(void)
{
    make_tokens();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families_under_options),
        cmocka_unit_test(test_all_subsets),
        cmocka_unit_test(test_gradients_of_a_fork),
        cmocka_unit_test(test_frontier_against_brute_force),
        cmocka_unit_test(test_a_thinned_frontier),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
