/* SPDX-License-Identifier: MIT */
/* Convolutional nets against what PyTorch computed in float64 (tools/golden/images.py; of ResNets
 * transformers, resnet.py): logits, the loss, every gradient and the running statistics of a step
 * within 1e-5; of twelve steps, of ResNets 50, short groups among them, the losses and the running
 * statistics within 1e-4. */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layers/families/cnn.h"
#include "layers/families/vit.h"
#include "tests/fixtures/kernels/reference.h"
#include "tests/fixtures/share.h"
#include "tools/formats/family/images/cnn_text.h"
#include "tools/formats/family/family.h"
#include "tools/formats/peft/peft_choice.h"

#define FOLDER "tests/golden/images"

typedef struct images {
    golden file;
    bp_spec spec;
    int32_t *tokens;
    int32_t *labels;
    uint32_t token_count;
    bp_peft_choice choice; /* of adapters */
} images;

/* What tools/golden/resnet.py says of a ResNet; false: the file is none. */
static bool read_resnet(images *c, bp_cnn_config *own)
{
    size_t bytes = 0;
    if (!golden_has(&c->file, "resnet")) {
        return false;
    }
    int32_t *n = golden_tensor(&c->file, "resnet", &bytes);
    const uint32_t stages = (uint32_t)n[4];
    assert_true(stages <= BP_RESNET_STAGES && bytes == (5 + 2 * stages) * sizeof *n);
    own->resnet = (bp_resnet){.embedding_size = (uint32_t)n[0],
                              .bottleneck = (uint32_t)n[1],
                              .first_strides = n[2] != 0,
                              .early_strides = n[3] != 0};
    for (uint32_t i = 0; i < stages; i++) {
        own->resnet.hidden_sizes[i] = (uint32_t)n[5 + i];
        own->resnet.depths[i] = (uint32_t)n[5 + stages + i];
    }
    free(n);
    return true;
}

/* What tools/golden/mobilenet.py says of a MobileNetV2; false: the file is none. */
static bool read_mobilenet(images *c, bp_cnn_config *own)
{
    size_t bytes = 0;
    if (!golden_has(&c->file, "mobilenet")) {
        return false;
    }
    double *n = golden_tensor(&c->file, "mobilenet", &bytes);
    assert_true(bytes == 7 * sizeof *n || bytes == 8 * sizeof *n);
    own->mobilenet = (bp_mobilenet){.multiplier = n[0],
                                    .expansion = n[1],
                                    .divisor = (uint32_t)n[2],
                                    .least = (uint32_t)n[3],
                                    .stride = bytes == 8 * sizeof *n ? (uint32_t)n[7] : 32,
                                    .expands = n[4] > 0.0,
                                    .scaled = n[5] > 0.0,
                                    .padded_half = n[6] > 0.0};
    free(n);
    return true;
}

/* What tools/golden/vit.py says of a ViT; false: the file is none. */
static bool read_vit(images *c, const int32_t *shape)
{
    static const char *const all[] = {"all-linear"};
    size_t bytes = 0;
    if (!golden_has(&c->file, "vit")) {
        return false;
    }
    int32_t *n = golden_tensor(&c->file, "vit", &bytes);
    const size_t count = bytes / sizeof *n; /* tools/golden/vit.py gives the kind as well */
    assert_true(count >= 8 && count <= 10);
    const uint32_t act = count > 8 ? (uint32_t)n[8] : BP_HIDDEN_GELU;
    const bp_vit_config own = {.stack = {.width = (uint32_t)n[0],
                                         .layers = (uint32_t)n[1],
                                         .heads = (uint32_t)n[2],
                                         .inner = (uint32_t)n[3],
                                         .norm_epsilon = 1e-12,
                                         .initializer_range = 0.02,
                                         .activation = act},
                               .image = (uint32_t)shape[0],
                               .channels = (uint32_t)shape[2],
                               .patch = (uint32_t)n[4],
                               .unbiased = n[5] != 0,
                               .kind = count > 9 ? (uint32_t)n[9] : BP_VIT_PLAIN};
    c->spec.model = &bp_model_vit;
    bp_family_config_set(&c->spec.config, &own, sizeof own);
    if (n[6] != 0) {
        c->spec.lora =
            (bp_lora){.rank = (uint32_t)n[6], .alpha = n[7], .targets = all, .target_count = 1};
    }
    free(n);
    return true;
}

static void read_layers(images *c, bp_cnn_config *own)
{
    size_t bytes = 0;
    char *texts = golden_tensor(&c->file, "layers", &bytes), line[64];
    for (size_t at = 0, length; at < bytes; at += length + 1) {
        for (length = 0; texts[at + length] != '\n'; length++) {
            line[length] = texts[at + length];
        }
        line[length] = '\0';
        assert_true(bp_cnn_layer_read(line, &own->layer[own->layers++]));
    }
    free(texts);
}

/* A line of a tensor of lines, `at` moved behind it; NULL: there is none. */
static const char *next_line(const char *texts, size_t bytes, size_t *at, char line[128])
{
    size_t length = 0;
    if (*at >= bytes) {
        return NULL;
    }
    while (texts[*at + length] != '\n') {
        assert_true(length < 127);
        line[length] = texts[*at + length];
        length++;
    }
    line[length] = '\0';
    *at += length + 1;
    return line;
}

static void read_patterns(images *c, const char *name, bp_peft_patterns *patterns)
{
    size_t bytes = 0, at = 0;
    char line[128];
    if (!golden_has(&c->file, name)) {
        return;
    }
    char *texts = golden_tensor(&c->file, name, &bytes);
    while (next_line(texts, bytes, &at, line) != NULL) {
        const char *space = strchr(line, ' ');
        assert_non_null(space);
        const char *fault = bp_peft_add_pattern(&c->choice, patterns, line, (size_t)(space - line),
                                                strtod(space, NULL));
        assert_null(fault);
    }
    free(texts);
}

/* What tools/golden/image_adapters.py says of adapters, if anything. */
static void read_adapters(images *c)
{
    size_t bytes = 0, at = 0;
    char line[128];
    if (!golden_has(&c->file, "adapters")) {
        return;
    }
    int32_t *n = golden_tensor(&c->file, "adapters", &bytes);
    char *texts = golden_tensor(&c->file, "targets", &bytes);
    while (next_line(texts, bytes, &at, line) != NULL) {
        const bool expression = bp_peft_is_expression(line, strlen(line));
        const char *fault = (expression ? bp_peft_add_expression : bp_peft_add_name)(
            &c->choice, &c->choice.targets, line, strlen(line));
        assert_null(fault);
    }
    read_patterns(c, "ranks", &c->choice.ranks);
    read_patterns(c, "alphas", &c->choice.alphas);
    c->spec.lora = (bp_lora){.rank = (uint32_t)n[0], .alpha = n[1], .rank_stabilized = n[2] != 0};
    assert_null(bp_peft_choice_use(&c->choice, &c->spec.lora));
    if (golden_has(&c->file, "vit")) {
        c->spec.config.family = &bp_family_vit;
        bp_peft_choice_rename(&c->choice, &c->spec.config, &c->spec.lora);
    }
    free(texts);
    free(n);
}

static void images_open(images *c, const char *name)
{
    char path[320];
    size_t bytes = 0;
    snprintf(path, sizeof path, FOLDER "/%s", name);
    memset(c, 0, sizeof *c);
    golden_open(&c->file, path);
    int32_t *n = golden_tensor(&c->file, "shape", &bytes);
    assert_true(bytes == 7 * sizeof *n || bytes == 8 * sizeof *n);
    bp_cnn_config own = {.height = (uint32_t)n[0],
                         .width = (uint32_t)n[1],
                         .channels = (uint32_t)n[2],
                         .epsilon = 1e-3,
                         .momentum = 0.2,
                         .frozen = n[6] != 0};
    if (!golden_has(&c->file, "vit") && !read_resnet(c, &own) && !read_mobilenet(c, &own)) {
        read_layers(c, &own);
    }
    c->spec = model_fixture_spec();
    c->spec.model = &bp_model_cnn;
    c->spec.config =
        (bp_model_config){.positions = (uint32_t)(n[0] * n[1] * n[2]),
                          .task = bytes == 8 * sizeof *n ? BP_TASK_RECONSTRUCTION : BP_TASK_CLASSES,
                          .classes = (uint32_t)n[3]};
    if (!read_vit(c, n)) {
        bp_family_config_set(&c->spec.config, &own, sizeof own);
    }
    c->spec.sequence = c->spec.config.positions;
    c->spec.batch = (uint32_t)n[4];
    c->spec.accumulation = (uint32_t)n[5];
    c->spec.optimizer_options.epsilon = 1e-3;
    read_adapters(c);
    free(n);
    c->tokens = golden_tensor(&c->file, "tokens", &bytes);
    c->token_count = (uint32_t)(bytes / sizeof *c->tokens);
    c->labels = golden_tensor(&c->file, "labels", &bytes);
}

static void images_close(images *c)
{
    free(c->tokens);
    free(c->labels);
    golden_close(&c->file);
}

static bp_status read_tokens(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    const images *c = source->context;
    memcpy(to, c->tokens + first, n * sizeof *to);
    return BP_OK;
}

static bp_status example(bp_source *source, uint64_t index, bp_example *to)
{
    const images *c = source->context;
    *to = (bp_example){.first = index * c->spec.sequence,
                       .count = c->spec.sequence,
                       .label = (uint32_t)c->labels[index]};
    return BP_OK;
}

static void open_model_fixture(images *c, model_fixture *r)
{
    model_fixture_open(r, &c->spec, c->tokens, 1000000);
    r->source.context = c;
    r->source.read = read_tokens;
    r->source.count = c->token_count;
    r->source.examples = c->token_count / c->spec.sequence;
    r->source.example = example;
    r->feed.classes = c->spec.config.classes;
    const bool classes = c->spec.config.task == BP_TASK_CLASSES;
    r->feed.kind = classes ? BP_LABELS_CLASS : BP_LABELS_BITS;
    assert_int_equal(bp_feed_init(&r->feed, &r->error), BP_OK);
    reference_weights(&c->file, r);
}

/* The running statistics after a step, relative to the largest of each tensor. */
static void check_statistics(const images *c, model_fixture *r, const char *name, const char *when,
                             double bound)
{
    const bp_builder *builder = &r->plan.builder;
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        char tensor[160];
        size_t bytes = 0;
        if (!builder->parameters[i].statistic) {
            continue;
        }
        snprintf(tensor, sizeof tensor, "%s.%s", when, bp_build_name(builder, i));
        float *right = golden_tensor(&c->file, tensor, &bytes);
        float *found = model_fixture_read(r, builder->parameters[i].weight);
        const double largest = reference_largest(right, bytes / sizeof *right);
        for (size_t k = 0; k < bytes / sizeof *right; k++) {
            if (fabs((double)found[k] - (double)right[k]) > bound * largest) {
                fail_msg("%s: %s[%zu] is %.9g, right is %.9g", name, tensor, k, (double)found[k],
                         (double)right[k]);
            }
        }
        free(right);
        free(found);
    }
}

static uint64_t check(const char *name, const char *variant, uint32_t threads, bp_policy policy)
{
    images c;
    model_fixture r;
    size_t bytes = 0;
    images_open(&c, name);
    c.spec.device_options.variant = variant;
    c.spec.device_options.threads = threads;
    c.spec.policy = policy;
    open_model_fixture(&c, &r);
    double *losses = golden_tensor(&c.file, "loss", &bytes);
    const double norm = reference_number(&c.file, "norm", 0);
    for (size_t step = 0; step < bytes / sizeof *losses; step++) {
        const bp_outcome outcome = model_fixture_step(&r);
        const double bound = step == 0 ? 1e-6 : 1e-4;
        if (fabs(outcome.loss - losses[step]) > bound * losses[step]) {
            fail_msg("%s: step %zu: loss %.9g for %.9g", name, step, outcome.loss, losses[step]);
        }
        if (step == 0) {
            assert_true(fabs(outcome.norm - norm) <= 1e-5 * norm);
            print_message("%s: worst gradient %.1e of its scale\n", name,
                          reference_gradients(&c.file, &r, name));
            check_statistics(&c, &r, name, "first", 1e-5);
        }
    }
    check_statistics(&c, &r, name, "after", 1e-4);
    const uint64_t digest = model_fixture_digest(&r);
    free(losses);
    model_fixture_close(&r);
    images_close(&c);
    return digest;
}

/* Calls `with` with the name of every file of the folder; how many there are. */
static size_t each_file(void (*with)(const char *name))
{
    size_t count = 0;
    DIR *folder = opendir(FOLDER);
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (strstr(entry->d_name, ".safetensors") != NULL) {
            with(entry->d_name);
            count++;
        }
    }
    closedir(folder);
    return count;
}

/* Whatever is recomputed, the statistics move once for each micro-batch: the same bits. */
static void check_training(const char *name)
{
    static uint32_t turn; /* in the short form the files take turns */
    const char *first = long_form() || turn % 4 == 0 ? "portable" : NULL;
    const uint64_t digest = check(name, first, 1, (bp_policy){.kind = BP_POLICY_NONE});
    static const bp_policy others[] = {
        {.kind = BP_POLICY_FULL}, {.kind = BP_POLICY_EVERY, .every = 2}, {.kind = BP_POLICY_SQRT}};
    for (uint32_t i = 0; i < 3; i++) {
        assert_true((!long_form() && turn % 3 != i) || check(name, NULL, 2, others[i]) == digest);
    }
    turn++;
}

/* verifies layers-13.c101 layers-16.6686 layers-17.99a3 layers-31.1059 layers-32.af69
 * layers-33.4818 layers-53.afdb */
static void test_training(void **state)
{
    (void)state;
    assert_int_equal(each_file(check_training), 36);
}

/* Evaluation takes the running statistics, the last batch a short one. */
static void check_logits(const char *name)
{
    images c;
    model_fixture r;
    images_open(&c, name);
    c.spec.evaluate = true;
    c.spec.keep_logits = true;
    open_model_fixture(&c, &r);
    r.feed.group = c.spec.batch;
    assert_int_equal(bp_feed_init(&r.feed, &r.error), BP_OK);
    (void)reference_kept_logits(&c.file, &r, NULL);
    model_fixture_close(&r);
    images_close(&c);
}

/* verifies layers-13.c101 */
static void test_logits(void **state)
{
    (void)state;
    assert_int_equal(each_file(check_logits), 36);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_training),
                                       cmocka_unit_test(test_logits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
