/* SPDX-License-Identifier: MIT */
/* Keys of GGUF files, key by key: the families shaped like Llama and back, what a reader would get
 * wrong and is not written, and files whose keys do not fit together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "layers/families/gpt2.h"
#include "layers/families/llama.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/family/family.h"
#include "tools/formats/gguf/gguf_llama.h"
#include "tools/formats/gguf/gguf_model.h"
#include "tools/formats/gguf/gguf_tokenizer.h"
#include "tools/formats/files/stream_file.h"

static memory_store memory;
static bp_error error;
static bp_gguf_writer writer;
static bp_gguf_file file;
static uint64_t tables[1 << 13];

static int begin(void **state)
{
    (void)state;
    memory_store_init(&memory);
    error = (bp_error){.code = BP_OK};
    assert_int_equal(memory.store.make_directory(&memory.store, "e"), BP_OK);
    assert_int_equal(bp_gguf_begin(&writer, &memory.store, "g", &error), BP_OK);
    return 0;
}

static int end(void **state)
{
    (void)state;
    assert_int_equal(memory.open_files, 0);
    memory_store_free(&memory);
    return 0;
}

static void string(const char *key, const char *value)
{
    bp_gguf_put_string(&writer, key, value, strlen(value));
}

static void open_written(void)
{
    bp_staging room = {tables, sizeof tables};
    assert_int_equal(bp_gguf_data(&writer), BP_OK);
    assert_int_equal(bp_gguf_end(&writer), BP_OK);
    assert_int_equal(bp_gguf_open(&file, &memory.store, "g", &room, &error), BP_OK);
}

/* ---- families ---- */

static bp_model_config config_of(const char *type)
{
    bp_model_config config = bp_family_defaults(bp_family_find(type));
    bp_llama_config own = bp_llama_config_of(&config);
    config.vocabulary = 19;
    config.positions = 32;
    own.stack.width = 16;
    own.stack.layers = 4;
    own.stack.heads = 2;
    own.stack.inner = 24;
    own.stack.untied = false; /* there are no tensors in these files */
    own.kv_heads = 1;
    own.head_width = 12;
    own.rope_theta = 20000.0;
    own.window = 0;
    bp_family_config_set(&config, &own, sizeof own);
    return config;
}

static void same_shape(const bp_model_config *a, const bp_model_config *b)
{
    const bp_llama_config x = bp_llama_config_of(a), y = bp_llama_config_of(b);
    assert_int_equal(a->positions, b->positions);
    assert_int_equal(x.stack.width, y.stack.width);
    assert_int_equal(x.stack.layers, y.stack.layers);
    assert_int_equal(x.stack.heads, y.stack.heads);
    assert_int_equal(x.stack.inner, y.stack.inner);
    assert_int_equal(x.kv_heads, y.kv_heads);
    assert_int_equal(x.head_width, y.head_width);
    assert_true(fabs(x.rope_theta - y.rope_theta) < 1e-3);
    assert_true(fabs(x.attention_scale - y.attention_scale) < 1e-6);
    assert_true(fabs(x.embedding_scale - y.embedding_scale) < 1e-6);
    assert_true(fabs(x.residual_scale - y.residual_scale) < 1e-6);
    assert_true(fabs(x.logit_divisor - y.logit_divisor) < 1e-6);
    assert_int_equal(x.window, y.window);
    assert_memory_equal(x.near.bits, y.near.bits, sizeof x.near.bits);
    assert_true(x.attention_cap == y.attention_cap && x.logit_cap == y.logit_cap);
    assert_true(x.near_theta == y.near_theta && x.rotary_share == y.rotary_share);
    assert_int_equal(x.norms, y.norms);
    assert_true(x.norm_offset == y.norm_offset && x.fused == y.fused);
    assert_int_equal(x.rope_scaling.kind, y.rope_scaling.kind);
    assert_true(x.rope_scaling.factor == y.rope_scaling.factor);
    assert_int_equal(x.rope_scaling.original, y.rope_scaling.original);
    assert_true(fabs(x.rope_scaling.magnitude - y.rope_scaling.magnitude) < 1e-6);
}

/* Writes a config of its family and reads it back. */
static bp_model_config there_and_back(void **state, const bp_model_config *config)
{
    const bp_gguf_family *family = config->family->gguf;
    begin(state);
    family->put(&writer, family->architecture, config);
    const char *name = "";
    float factors[BP_ROPE_PAIRS_MAX];
    uint64_t count;
    for (uint32_t k = 0;
         family->factors != NULL && (count = family->factors(config, k, &name, factors, 64)) > 0;
         k++) {
        bp_gguf_put_tensor(&writer, name, 1, &count, BP_F32);
    }
    assert_int_equal(bp_gguf_data(&writer), BP_OK);
    for (uint32_t k = 0;
         family->factors != NULL && (count = family->factors(config, k, &name, factors, 64)) > 0;
         k++) {
        assert_int_equal(bp_gguf_data_add(&writer, factors, count * sizeof(float)), BP_OK);
        assert_int_equal(bp_gguf_data_pad(&writer), BP_OK);
    }
    bp_staging room = {tables, sizeof tables};
    assert_int_equal(bp_gguf_end(&writer), BP_OK);
    assert_int_equal(bp_gguf_open(&file, &memory.store, "g", &room, &error), BP_OK);
    bp_model_config back = bp_family_defaults(config->family);
    assert_int_equal(family->take(&file, family->architecture, &back), BP_OK);
    assert_int_equal(bp_gguf_close(&file), BP_OK);
    end(state);
    return back;
}

static bp_model_config resolved_of(const char *type)
{
    bp_model_config config = config_of(type);
    SET_FAMILY(&config, bp_llama_config, window, 7);
    SET_FAMILY(&config, bp_llama_config, query_scalar, 12.0);
    config.family->resolve(&config);
    return config;
}

static void windows_caps_and_partial_heads_come_back(void **state)
{
    static const char *const types[] = {"gemma2", "gemma3_text", "phi3", "gemma"};
    for (size_t i = 0; i < 4; i++) {
        bp_model_config config = resolved_of(types[i]);
        if (i >= 2) {
            SET_FAMILY(&config, bp_llama_config, window, 0);
        }
        if (i == 2) {
            SET_FAMILY(&config, bp_llama_config, head_width, 0);
            SET_FAMILY(&config, bp_llama_config, rotary_share, 0.75);
            SET_FAMILY(&config, bp_llama_config, rope_scaling.original, 16);
        }
        assert_int_equal(config.family->gguf->exports(&config, &error), BP_OK);
        const bp_model_config back = there_and_back(state, &config);
        same_shape(&config, &back);
    }
}

/* How many experts there are, how many are chosen, and how wide they are. */
/* verifies formats-7.5b71 */
static void experts_come_back(void **state)
{
    static const char *const types[] = {"qwen3_moe", "olmoe", "qwen2_moe", "glm4_moe"};
    for (size_t i = 0; i < 4; i++) {
        bp_model_config config = resolved_of(types[i]);
        SET_FAMILY(&config, bp_llama_config, window, 0);
        SET_FAMILY(&config, bp_llama_config, experts, 21);
        SET_FAMILY(&config, bp_llama_config, experts_chosen, 3);
        SET_FAMILY(&config, bp_llama_config, renormalise, i == 0);
        SET_FAMILY(&config, bp_llama_config, stack.untied, true);
        error = (bp_error){.code = BP_OK};
        assert_int_equal(config.family->gguf->exports(&config, &error), BP_OK);
        const bp_model_config back = there_and_back(state, &config);
        same_shape(&config, &back);
        const bp_llama_config own = bp_llama_config_of(&config), read = bp_llama_config_of(&back);
        assert_int_equal(own.experts, read.experts);
        assert_int_equal(own.experts_chosen, read.experts_chosen);
        assert_int_equal(own.expert_inner, read.expert_inner);
        assert_int_equal(own.renormalise, read.renormalise);
        assert_int_equal(own.shared_inner, read.shared_inner);
        assert_int_equal(own.qkv_bias, read.qkv_bias);
    }
}

/* A router of sigmoids, groups, and layers before the first with experts. */
/* verifies formats-7.5b71 */
static void routers_of_sigmoids_come_back(void **state)
{
    bp_model_config config = resolved_of("glm4_moe");
    SET_FAMILY(&config, bp_llama_config, window, 0);
    SET_FAMILY(&config, bp_llama_config, experts, 24);
    SET_FAMILY(&config, bp_llama_config, groups, 4);
    SET_FAMILY(&config, bp_llama_config, groups_chosen, 3);
    SET_FAMILY(&config, bp_llama_config, routed_scale, 2.5);
    SET_FAMILY(&config, bp_llama_config, renormalise, false);
    SET_FAMILY(&config, bp_llama_config, perceptrons, 3);
    SET_FAMILY(&config, bp_llama_config, shared_count, 2);
    config.family->resolve(&config);
    const bp_model_config back = there_and_back(state, &config);
    same_shape(&config, &back);
    const bp_llama_config own = bp_llama_config_of(&config), read = bp_llama_config_of(&back);
    assert_true(read.scored);
    assert_int_equal(read.groups, 4);
    assert_int_equal(read.groups_chosen, 3);
    assert_true(read.routed_scale == 2.5 && !read.renormalise);
    assert_int_equal(read.perceptrons, 3);
    assert_int_equal(read.shared_count, 2);
    assert_int_equal(read.shared_inner, 2 * own.expert_inner);
    assert_true(read.rotary_share == own.rotary_share);
}

/* Decoders of 2025; windows of three layers of four, and heads that turn in part or by a base that
 * is stretched. */
/* verifies formats-7.5b71 */
static void decoders_come_back(void **state)
{
    static const char *const types[] = {"glm",        "glm4",   "olmo3",
                                        "exaone4",    "cohere", "cohere2",
                                        "starcoder2", "arcee",  "hunyuan_v1_dense"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        bp_model_config config = resolved_of(types[i]);
        const bool windows = strcmp(types[i], "olmo3") == 0 || strcmp(types[i], "cohere2") == 0;
        if (!windows) {
            SET_FAMILY(&config, bp_llama_config, window, 0);
            SET_FAMILY(&config, bp_llama_config, near, ((bp_layer_set){.listed = 0}));
            config.family->resolve(&config);
        }
        if (windows) {
            SET_FAMILY(&config, bp_llama_config, near, ((bp_layer_set){.listed = 0}));
            SET_FAMILY(&config, bp_llama_config, turn_every, 4);
            SET_FAMILY(&config, bp_llama_config, near_theta, 0.0); /* as the others */
            config.family->resolve(&config);
        }
        SET_FAMILY(&config, bp_llama_config, head_width, 0);
        SET_FAMILY(&config, bp_llama_config, stack.untied, strncmp(types[i], "cohere", 6) != 0);
        if (i < 2) {
            SET_FAMILY(&config, bp_llama_config, rotary_share, 0.5);
        }
        if (strcmp(types[i], "starcoder2") == 0) {
            SET_FAMILY(&config, bp_llama_config, qkv_bias, true);
            SET_FAMILY(&config, bp_llama_config, output_bias, true);
            SET_FAMILY(&config, bp_llama_config, mlp_bias, true);
        }
        error = (bp_error){.code = BP_OK};
        if (config.family->gguf->exports(&config, &error) != BP_OK) {
            fail_msg("%s: %s: %s", types[i], error.name, error.text);
        }
        const bp_model_config back = there_and_back(state, &config);
        same_shape(&config, &back);
        const bp_llama_config own = bp_llama_config_of(&config), read = bp_llama_config_of(&back);
        assert_int_equal(own.window, read.window);
        assert_memory_equal(own.near.bits, read.near.bits, sizeof own.near.bits);
        assert_memory_equal(own.still.bits, read.still.bits, sizeof own.still.bits);
    }
}

static void scalings_come_back(void **state)
{
    static const bp_rope_scaling scalings[] = {
        {.factor = 4.0, .kind = BP_ROPE_LINEAR, .original = 32},
        {.factor = 4.0, .kind = BP_ROPE_YARN, .original = 8, .low = 1.0, .high = 32.0},
        {.factor = 2.5,
         .kind = BP_ROPE_YARN,
         .original = 8,
         .low = 2.0,
         .high = 9.0,
         .magnitude = 1.25}};
    for (size_t i = 0; i < 3; i++) {
        bp_model_config config = config_of("qwen2");
        SET_FAMILY(&config, bp_llama_config, rope_scaling, scalings[i]);
        assert_int_equal(bp_gguf_qwen2.exports(&config, &error), BP_OK);
        bp_model_config back = there_and_back(state, &config);
        same_shape(&config, &back);
        assert_true(bp_llama_config_of(&back).rope_scaling.high == scalings[i].high);
    }
    bp_model_config config = resolved_of("phi3");
    bp_llama_long both;
    bp_family_config_get(&config, &both, sizeof both);
    both.llama.window = 0;
    both.llama.head_width = 0;
    both.llama.rope_scaling = (bp_rope_scaling){.factor = 4.0, .kind = BP_ROPE_LONG, .original = 8};
    both.llama.rope_pairs = 4;
    for (size_t k = 0; k < 4; k++) {
        both.near[k] = 1.0f + (float)k;
        both.far[k] = 2.0f + (float)k;
    }
    bp_family_config_set(&config, &both, sizeof both);
    assert_int_equal(config.family->gguf->exports(&config, &error), BP_OK);
    bp_model_config back = there_and_back(state, &config);
    same_shape(&config, &back);
    bp_llama_long again;
    bp_family_config_get(&back, &again, sizeof again);
    assert_int_equal(again.llama.rope_pairs, 4);
    assert_memory_equal(again.near, both.near, sizeof(float[4]));
    assert_memory_equal(again.far, both.far, sizeof(float[4]));
}

static void refused(const bp_model_config *config, const char *name)
{
    error = (bp_error){.code = BP_OK};
    assert_int_equal(config->family->gguf->exports(config, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, name);
}

#define REFUSED(type, member, value, name)                                                         \
    do {                                                                                           \
        bp_model_config config_ = resolved_of(type);                                               \
        SET_FAMILY(&config_, bp_llama_config, member, value);                                      \
        refused(&config_, name);                                                                   \
    } while (0)

/* verifies formats-50.b7a1 */
/* What llama.cpp has no key for and computes by a rule of its own. */
static void what_readers_of_gemma_and_phi_get_wrong_is_not_written(void **state)
{
    (void)state;
    REFUSED("gemma2", attention_scale, 0.3, "query_pre_attn_scalar");
    REFUSED("gemma2", attention_cap, 0.0, "attn_logit_softcapping");
    REFUSED("gemma2", logit_cap, 0.0, "final_logit_softcapping");
    REFUSED("gemma2", window, 0, "sliding_window");
    REFUSED("gemma2", near.bits[0], 2, "layer_types");
    REFUSED("gemma2", stack.untied, true, "tie_word_embeddings");
    REFUSED("gemma2", qkv_bias, true, "attention_bias");
    REFUSED("gemma2", rope_scaling, ((bp_rope_scaling){.factor = 2.0, .kind = BP_ROPE_LINEAR}),
            "rope_scaling");
    REFUSED("gemma3_text", rope_scaling, ((bp_rope_scaling){.factor = 2.0, .kind = BP_ROPE_YARN}),
            "rope_scaling");
    REFUSED("gemma3_text", near.bits[0], 7, "layer_types");
    REFUSED("phi3", window, 31, "sliding_window");
    REFUSED("ernie4_5", mlp_bias, true, "mlp_bias");
    REFUSED("ernie4_5", output_bias, true, "use_bias");
    REFUSED("exaone4", window, 8, "sliding_window");
    REFUSED("cohere", qkv_bias, true, "attention_bias");
    REFUSED("cohere", stack.untied, true, "tie_word_embeddings");
    REFUSED("cohere2", near.bits[0], 1, "layer_types");
    REFUSED("starcoder2", qkv_bias, false, "use_bias");
    REFUSED("olmo3", near_theta, 77.0, "head_dim"); /* which is what they look at first */
    REFUSED("hunyuan_v1_dense", qkv_bias, true, "attention_bias");
    REFUSED("arcee", mlp_bias, true, "mlp_bias");
    REFUSED("qwen3_moe", renormalise, false, "norm_topk_prob");
    REFUSED("qwen3_moe", experts_every, 2, "mlp_only_layers, decoder_sparse_step");
    REFUSED("qwen2_moe", renormalise, true, "norm_topk_prob");
    REFUSED("qwen2_moe", qkv_bias, false, "qkv_bias");
    REFUSED("olmoe", stack.untied, false, "tie_word_embeddings");
    REFUSED("glm4_moe", shared_count, 0, "n_shared_experts");
    bp_model_config olmoe = resolved_of("olmoe");
    SET_FAMILY(&olmoe, bp_llama_config, stack.untied, true);
    SET_FAMILY(&olmoe, bp_llama_config, renormalise, true);
    refused(&olmoe, "norm_topk_prob");
    bp_model_config config = resolved_of("phi3");
    SET_FAMILY(&config, bp_llama_config, window, 0);
    SET_FAMILY(&config, bp_llama_config, rope_scaling.factor, 2.0);
    refused(&config, "rope_scaling"); /* llama3's */
    config = config_of("seed_oss");
    SET_FAMILY(&config, bp_llama_config, output_bias, true);
    refused(&config, "attention_out_bias");
    config = config_of("qwen2"); /* of Llama and Granite alone readers look for rope_freqs */
    SET_FAMILY(&config, bp_llama_config, rope_scaling, (bp_rope_scaling){.factor = 2.0});
    refused(&config, "rope_scaling");
    SET_FAMILY(&config, bp_llama_config, rope_scaling,
               (bp_rope_scaling){.factor = 2.0, .kind = BP_ROPE_YARN, .even = true});
    refused(&config, "rope_scaling.truncate");
    config = bp_family_defaults(bp_family_find("gpt_neox"));
    SET_FAMILY(&config, bp_llama_config, stack.untied, false);
    refused(&config, "tie_word_embeddings");
    SET_FAMILY(&config, bp_llama_config, stack.untied, true);
    SET_FAMILY(&config, bp_llama_config, qkv_bias, false);
    refused(&config, "attention_bias");
    SET_FAMILY(&config, bp_llama_config, qkv_bias, true);
    assert_int_equal(config.family->gguf->exports(&config, NULL), BP_OK);
}

/* verifies formats-7.5b71 */
static void families_come_back(void **state)
{
    static const char *const types[] = {"llama",   "qwen2", "mistral",  "smollm3",
                                        "granite", "olmo2", "ernie4_5", "seed_oss"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const bp_gguf_family *family = bp_gguf_family_find(types[i]);
        bp_model_config config = config_of(types[i]);
        if (strcmp(types[i], "granite") == 0) {
            SET_FAMILY(&config, bp_llama_config, attention_scale, 0.25);
            SET_FAMILY(&config, bp_llama_config, embedding_scale, 12.0);
            SET_FAMILY(&config, bp_llama_config, residual_scale, 0.22);
            SET_FAMILY(&config, bp_llama_config, logit_divisor, 8.0);
        }
        assert_non_null(family);
        if (config.family->resolve != NULL) {
            config.family->resolve(&config);
        }
        begin(state);
        family->put(&writer, family->architecture, &config);
        open_written();
        bp_model_config back = bp_family_defaults(bp_family_find(types[i]));
        assert_int_equal(family->take(&file, family->architecture, &back), BP_OK);
        same_shape(&config, &back);
        assert_int_equal(bp_gguf_close(&file), BP_OK);
        end(state);
    }
}

/* Granite's numbers have to be there; of the others the usual ones hold. */
/* verifies formats-10.4a5c */
static void keys_that_are_missing_are_named(void **state)
{
    static const char *const keys[] = {"granite.attention.scale", "granite.embedding_scale",
                                       "granite.residual_scale", "granite.logit_scale"};
    const bp_model_config config = config_of("granite");
    for (size_t missing = 0; missing <= 4; missing++) {
        begin(state);
        bp_gguf_llama_put(&writer, "granite", &config);
        for (size_t i = 0; i < 4; i++) {
            if (i != missing) {
                bp_gguf_put_f32(&writer, keys[i], 1.0f);
            }
        }
        open_written();
        bp_model_config back = bp_family_defaults(bp_family_find("granite"));
        assert_int_equal(bp_gguf_granite.take(&file, "granite", &back),
                         missing < 4 ? BP_ERR_DATA : BP_OK);
        assert_true(missing == 4 || strstr(error.name, keys[missing]) != NULL);
        assert_int_equal(bp_gguf_close(&file), BP_OK);
        end(state);
    }
}

/* verifies formats-50.b7a1 */
static void what_readers_get_wrong_is_not_written(void **state)
{
    (void)state;
    bp_model_config config = config_of("llama");
    error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_gguf_llama.exports(&config, &error), BP_OK);
    SET_FAMILY(&config, bp_llama_config, window, 32); /* all positions */
    assert_int_equal(bp_gguf_llama.exports(&config, &error), BP_OK);
    SET_FAMILY(&config, bp_llama_config, window, 31);
    assert_int_equal(bp_gguf_llama.exports(&config, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, "sliding_window");
    SET_FAMILY(&config, bp_llama_config, window, 0);
    SET_FAMILY(&config, bp_llama_config, rope_scaling, (bp_rope_scaling){.factor = 2.0});
    assert_int_equal(bp_gguf_llama.exports(&config, NULL), BP_OK);
    SET_FAMILY(&config, bp_llama_config, rope_scaling.kind, BP_ROPE_DYNAMIC);
    error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_gguf_llama.exports(&config, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, "rope_scaling");
    assert_int_equal(bp_gguf_llama_frequencies(&config, NULL, 0), 0); /* Llama 3's alone are */

    config = config_of("olmo2");
    error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_gguf_olmo2.exports(&config, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, "tie_word_embeddings");
    SET_FAMILY(&config, bp_llama_config, stack.untied, true);
    assert_int_equal(bp_gguf_olmo2.exports(&config, NULL), BP_OK);

    config = config_of("smollm3");
    error = (bp_error){.code = BP_OK};
    SET_FAMILY(&config, bp_llama_config, still, (bp_layer_set){.bits = {0}, .listed = 4});
    assert_int_equal(bp_gguf_smollm3.exports(&config, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, "no_rope_layers");
    SET_FAMILY(&config, bp_llama_config, still,
               (bp_layer_set){.bits = {8}, .listed = 4}); /* the fourth */
    assert_int_equal(bp_gguf_smollm3.exports(&config, NULL), BP_OK);
}

/* verifies formats-50.b7a1 */
static void what_readers_of_gpt2_get_wrong_is_not_written(void **state)
{
    (void)state;
    static const uint32_t wrong[] = {BP_GPT2_GELU_ERF, BP_GPT2_RELU};
    bp_model_config config = config_of("gpt2");
    for (uint32_t i = 0; i <= BP_GPT2_RELU; i++) {
        SET_FAMILY(&config, bp_transformer, activation, i);
        if (i == wrong[0] || i == wrong[1]) {
            refused(&config, "activation_function");
        } else {
            assert_int_equal(bp_gguf_gpt2.exports(&config, NULL), BP_OK);
        }
    }
    config = config_of("gpt2");
    SET_FAMILY(&config, bp_transformer, scale_by_layer, true);
    refused(&config, "scale_attn_by_inverse_layer_idx");
}

/* ---- a whole model ---- */

typedef struct ends_row {
    int64_t eos, eot, eom; /* -1: no such key */
    int64_t end;
    uint32_t more;
    int64_t first;
} ends_row;

static void put_id(const char *key, int64_t id)
{
    if (id >= 0) {
        bp_gguf_put_u32(&writer, key, (uint32_t)id);
    }
}

/* Writes a llama of which nothing but its keys and its embedding is there. */
static void put_model(const char *architecture, uint32_t rank, const uint64_t *shape)
{
    const bp_model_config config = config_of("llama");
    string("general.architecture", architecture);
    bp_gguf_llama.put(&writer, "llama", &config);
    if (rank > 0) {
        bp_gguf_put_tensor(&writer, "token_embd.weight", rank, shape, BP_F32);
    }
}

static void close_model(uint64_t elements)
{
    static const float zeros[19 * 16];
    bp_staging room = {tables, sizeof tables};
    assert_int_equal(bp_gguf_data(&writer), BP_OK);
    for (uint64_t done = 0; done < elements; done += 16) {
        assert_int_equal(bp_gguf_data_add(&writer, zeros, 16 * sizeof(float)), BP_OK);
    }
    assert_int_equal(bp_gguf_data_pad(&writer), BP_OK);
    assert_int_equal(bp_gguf_end(&writer), BP_OK);
    assert_int_equal(bp_gguf_open(&file, &memory.store, "g", &room, &error), BP_OK);
}

static void all_ends_of_texts_are_found(void **state)
{
    static const ends_row rows[] = {
        {-1, -1, -1, -1, 0, 0}, {2, -1, -1, 2, 0, 0}, {2, 2, 2, 2, 0, 0},  {2, 5, -1, 2, 1, 5},
        {2, 5, 5, 2, 1, 5},     {2, 5, 6, 2, 2, 5},   {-1, 5, 6, 5, 1, 6}, {-1, -1, 6, 6, 0, 0},
    };
    static const uint64_t shape[] = {19, 16};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const bp_gguf_family *family = NULL;
        bp_model_config config;
        begin(state);
        put_id("tokenizer.ggml.eos_token_id", rows[i].eos);
        put_id("tokenizer.ggml.eot_token_id", rows[i].eot);
        put_id("tokenizer.ggml.eom_token_id", rows[i].eom);
        put_model("llama", 2, shape);
        close_model(19 * 16);
        assert_int_equal(bp_gguf_describe(&file, &family, &config, &error), BP_OK);
        assert_string_equal(family->architecture, "llama");
        assert_int_equal(config.vocabulary, 19);
        assert_int_equal(config.bos_token, -1);
        assert_int_equal(config.eos_token, rows[i].end);
        assert_int_equal(config.more_eos_count, rows[i].more);
        assert_true(rows[i].more == 0 || config.more_eos[0] == rows[i].first);
        assert_int_equal(bp_gguf_close(&file), BP_OK);
        bp_tensor_set set = {.store = NULL};
        bp_staging room = {tables, sizeof tables};
        assert_int_equal(bp_gguf_open_set(&set, &memory.store, "g", &room, &error), BP_OK);
        assert_int_equal(bp_tensor_set_close(&set), BP_OK);
        room = (bp_staging){tables, 8};
        assert_int_equal(bp_gguf_open_set(&set, &memory.store, "g", &room, NULL), BP_ERR_FIT);
        room = (bp_staging){tables, sizeof tables};
        assert_int_equal(bp_gguf_open_set(&set, &memory.store, "none", &room, NULL), BP_ERR_STORE);
        end(state);
    }
}

/* verifies formats-10.4a5c */
static void models_that_are_none_are_refused(void **state)
{
    static const struct {
        const char *architecture, *token;
        uint32_t rank;
        const char *text;
    } rows[] = {
        {"llama", NULL, 0, "the token embedding is missing"},
        {"llama", NULL, 1, "the token embedding is missing, no matrix"},
        {"mamba", NULL, 2, "architecture"},
        {"llama", "tokenizer.ggml.bos_token_id", 2, ""},
        {"llama", "tokenizer.ggml.eos_token_id", 2, ""},
        {"llama", "tokenizer.ggml.eom_token_id", 2, ""},
    };
    static const uint64_t shapes[][2] = {{16, 16}, {16, 16}, {19, 16}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const bp_gguf_family *family;
        bp_model_config config;
        begin(state);
        if (rows[i].token != NULL) {
            bp_gguf_put_u32(&writer, rows[i].token, UINT32_MAX);
        }
        put_model(rows[i].architecture, rows[i].rank, shapes[rows[i].rank]);
        close_model(rows[i].rank == 2 ? 19 * 16 : rows[i].rank * 16);
        assert_int_equal(bp_gguf_describe(&file, &family, &config, &error), BP_ERR_DATA);
        assert_non_null(strstr(error.text, rows[i].text));
        assert_true(rows[i].token == NULL || strstr(error.name, rows[i].token) != NULL);
        assert_int_equal(bp_gguf_close(&file), BP_OK);
        end(state);
    }
}

/* ---- tokenizers of pieces ---- */

enum { PIECES = 6 };

typedef struct pieces_row {
    const char *tokens[PIECES]; /* up to the first NULL */
    float scores[PIECES];
    uint32_t score_count, type_count; /* UINT32_MAX: no such key */
    int64_t bos, unknown;
    bp_status status;
    const char *says; /* in what is written, or why it is not */
} pieces_row;

#define ALL  3, 3
#define NONE UINT32_MAX

static const pieces_row pieces_rows[] = {
    {{"a", "b", "ab"}, {-1, -2, -3}, ALL, 0, 1, BP_OK, "\"unk_token\": \"b\""},
    {{"a", "b", "ab"}, {-1, -2, -3}, ALL, 0, 1, BP_OK, "TemplateProcessing"},
    {{"a", "b", "ab"}, {-1, -2, -3}, ALL, 0, 1, BP_OK, "[\"a\", \"b\"]"},
    {{"a", "b", "ab"}, {-1, -2, -3}, 3, NONE, 0, 1, BP_OK, "[\"a\", \"b\"]"},
    {{"a", "b", "ab"}, {-1, -2, -3}, ALL, -1, -1, BP_OK, "\"post_processor\": null"},
    {{"a", "b", "ab"}, {-1, -2, -3}, ALL, 3, 3, BP_OK, "\"unk_token\": null"},
    {{"a", "a", "aa"}, {-1, -2, -3}, ALL, 0, 1, BP_OK, "[\"a\", \"a\"]"}, /* one twice */
    {{"a", "\xc3\xa9", "a\xc3\xa9"}, {1, 2, 3}, ALL, -1, -1, BP_OK, "[\"a\", \"\xc3\xa9\"]"},
    {{"a", "b", "ab"}, {-1, NAN, -3}, ALL, 0, 1, BP_ERR_DATA, "a score is not a finite number"},
    {{"a", "b", "ab"}, {-1, INFINITY, 0}, ALL, 0, 1, BP_ERR_DATA, "a score is not a finite number"},
    {{"a", "b", "ab"}, {-1}, 1, 3, 0, 1, BP_ERR_DATA, "tokens and their scores differ in number"},
    {{"a", "b", "ab"}, {-1, -2, -3}, 3, 2, 0, 1, BP_ERR_DATA, "differ in number"},
    {{"a", "b", "ab"}, {-1}, NONE, 3, 0, 1, BP_ERR_DATA, ""},
    {{NULL}, {-1}, 3, 3, 0, 1, BP_ERR_DATA, ""},
};

static void put_pieces(const pieces_row *row)
{
    uint64_t tokens = 0;
    while (tokens < PIECES && row->tokens[tokens] != NULL) {
        tokens++;
    }
    string("tokenizer.ggml.model", "llama");
    if (tokens > 0) {
        bp_gguf_put_array(&writer, "tokenizer.ggml.tokens", BP_GGUF_STRING, tokens);
    }
    for (uint64_t i = 0; i < tokens; i++) {
        bp_gguf_item_string(&writer, row->tokens[i], strlen(row->tokens[i]));
    }
    if (row->score_count != NONE) {
        bp_gguf_put_array(&writer, "tokenizer.ggml.scores", BP_GGUF_F32, row->score_count);
    }
    for (uint64_t i = 0; row->score_count != NONE && i < row->score_count; i++) {
        bp_gguf_item_f32(&writer, row->scores[i]);
    }
    if (row->type_count != NONE) {
        bp_gguf_put_array(&writer, "tokenizer.ggml.token_type", BP_GGUF_I32, row->type_count);
    }
    for (uint64_t i = 0; row->type_count != NONE && i < row->type_count; i++) {
        bp_gguf_item_i32(&writer, BP_GGUF_TOKEN_NORMAL);
    }
    put_id("tokenizer.ggml.bos_token_id", row->bos);
    put_id("tokenizer.ggml.unknown_token_id", row->unknown);
}

static bool contains(const char *bytes, size_t size, const char *word)
{
    const size_t length = strlen(word);
    for (size_t i = 0; i + length <= size; i++) {
        if (memcmp(bytes + i, word, length) == 0) {
            return true;
        }
    }
    return false;
}

static void pieces_are_read_or_refused(void **state)
{
    for (size_t i = 0; i < sizeof pieces_rows / sizeof pieces_rows[0]; i++) {
        const pieces_row *row = &pieces_rows[i];
        bp_stream_file stream;
        size_t size;
        begin(state);
        put_pieces(row);
        open_written();
        const uint64_t bytes = bp_gguf_tokenizer_scratch(&file);
        uint64_t *scratch = malloc(bytes != BP_SIZE_INVALID ? (size_t)bytes : 1 << 20);
        assert_non_null(scratch);
        assert_int_equal(bp_stream_begin(&stream, &memory.store, "e/t", &error), BP_OK);
        const bp_status status =
            bp_gguf_tokenizer_json(&file, scratch, bp_stream_add, &stream, &error);
        assert_int_equal(bp_stream_end(&stream, status), status);
        if (status != row->status) {
            print_error("row %zu: %d %s: %s\n", i, status, error.name, error.text);
        }
        assert_int_equal(status, row->status);
        if (status == BP_OK) {
            const char *json = (const char *)memory_store_bytes(&memory, "e/t", &size);
            assert_true(contains(json, size, row->says));
        } else {
            assert_non_null(strstr(error.text, row->says));
        }
        free(scratch);
        assert_int_equal(bp_gguf_close(&file), BP_OK);
        end(state);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_come_back),
        cmocka_unit_test(keys_that_are_missing_are_named),
        cmocka_unit_test(windows_caps_and_partial_heads_come_back),
        cmocka_unit_test(decoders_come_back),
        cmocka_unit_test(experts_come_back),
        cmocka_unit_test(routers_of_sigmoids_come_back),
        cmocka_unit_test(scalings_come_back),
        cmocka_unit_test(what_readers_get_wrong_is_not_written),
        cmocka_unit_test(what_readers_of_gemma_and_phi_get_wrong_is_not_written),
        cmocka_unit_test(what_readers_of_gpt2_get_wrong_is_not_written),
        cmocka_unit_test(all_ends_of_texts_are_found),
        cmocka_unit_test(models_that_are_none_are_refused),
        cmocka_unit_test(pieces_are_read_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
