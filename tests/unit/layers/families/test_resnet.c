/* SPDX-License-Identifier: MIT */
/* The layers that a ResNet's configuration stands for, and their names, with as many stages and as
 * many layers as there is room for, and more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "layers/families/resnet.h"

static void layers_of_a_configuration(void **state)
{
    (void)state;
    bp_cnn_config own = {.resnet = {.embedding_size = 8,
                                    .hidden_sizes = {8, 16, 32, 64, 128},
                                    .depths = {1, 2, 1, 2, 3}}};
    bp_resnet_expand(&own);
    assert_int_equal(own.layers, 2 + 9 + 1);
    assert_int_equal(own.layer[2].channels, 8);
    assert_int_equal(own.layer[10].channels, 128);
    assert_int_equal(own.layer[8].stride[0], 2); /* the first of a stage halves */
    assert_int_equal(own.layer[9].stride[0], 1);
    own.resnet.hidden_sizes[2] = 0;
    bp_resnet_expand(&own);
    assert_int_equal(own.layers, 2 + 3 + 1);
    own.resnet.hidden_sizes[2] = 32;
    own.resnet.depths[1] = UINT32_MAX; /* refused by bp_resnet_check, and no reason to go on */
    bp_resnet_expand(&own);
    assert_int_equal(own.layers, BP_CNN_LAYERS_MAX);
    bp_error error = {.code = BP_OK};
    assert_int_equal(bp_resnet_check(&own, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, "depths");
}

/* verifies formats-25.6dee */
static void names_of_layers(void **state)
{
    (void)state;
    static const struct {
        uint32_t layer;
        const char *name;
    } names[] = {
        {0, "resnet.embedder.embedder."},         {2, "resnet.encoder.stages.0.layers.0."},
        {3, "resnet.encoder.stages.1.layers.0."}, {4, "resnet.encoder.stages.1.layers.1."},
        {8, "resnet.encoder.stages.4.layers.0."}, {12, "resnet.encoder.stages.4.layers.4."}};
    const bp_resnet resnet = {.depths = {1, 2, 1, 2, 3}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char text[64] = "";
        *bp_resnet_prefix(text, &resnet, names[i].layer) = '\0';
        assert_string_equal(text, names[i].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_of_a_configuration),
        cmocka_unit_test(names_of_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
