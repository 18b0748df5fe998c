/* SPDX-License-Identifier: MIT */
/* CLIP and SigLIP: transformers' configuration_clip.py and configuration_siglip.py. A file has a
 * configuration of each tower inside its own. */
#include "layers/families/clip.h"
#include "tools/formats/family/family_rows.h"

#define CLASSES_MOST 65536

#define CLIP(member)   BP_FAMILY_MEMBER(bp_clip_config, member)
#define VISION(member) BP_FAMILY_MEMBER(bp_clip_config, vision.member)
#define TEXT(member)   BP_FAMILY_MEMBER(bp_clip_config, text.member)

#define ACTS "gelu|gelu_new|gelu_fast|gelu_pytorch_tanh|relu|quick_gelu"

#define ROW_ID(key, member, otherwise)                                                             \
    {                                                                                              \
        key, BP_ROW_TOKEN, BP_ROLE_NONE, 0, CLIP(member), -1, INT32_MAX, otherwise, NULL           \
    }

/* In an object of the file, `in` "text_config.", or in a file of the tower's own, "". */
#define ROWS_TEXT_TOWER(in, width_role, inner_role, heads_role, layers_role, width_, inner_,       \
                        heads_, positions_, vocabulary_, act_, epsilon_)                           \
    ROW_REAL(in "attention_dropout", TEXT(attention_dropout), 1.0, 0.0, DROPOUT),                  \
        ROW_ID(in "bos_token_id", text_bos, 49406), ROW_ID(in "eos_token_id", text_eos, 49407),    \
        ROW_CHOICE(in "hidden_act", TEXT(activation), ACTS, act_),                                 \
        ROW_COUNT(in "hidden_size", TEXT(width), WIDTH_MOST, width_, width_role),                  \
        ROW_COUNT(in "intermediate_size", TEXT(inner), INNER_MOST, inner_, inner_role),            \
        ROW_REAL(in "layer_norm_eps", TEXT(norm_epsilon), 1.0, epsilon_, NONE),                    \
        ROW_COUNT(in "max_position_embeddings", CLIP(text_positions), POSITIONS_MOST, positions_,  \
                  NONE),                                                                           \
        ROW_COUNT(in "num_attention_heads", TEXT(heads), HEADS_MOST, heads_, heads_role),          \
        ROW_COUNT(in "num_hidden_layers", TEXT(layers), LAYERS_MOST, 12, layers_role),             \
        ROW_ID(in "pad_token_id", text_pad, 1), ROW_TOKENS(in, CLIP(text_vocabulary), vocabulary_)

#define ROWS_VISION_TOWER(type, patch_, act_, epsilon_)                                            \
    ROW_REAL("vision_config.attention_dropout", VISION(stack.attention_dropout), 1.0, 0.0,         \
             DROPOUT),                                                                             \
        ROW_CHOICE("vision_config.hidden_act", VISION(stack.activation), ACTS, act_),              \
        ROW_COUNT("vision_config.hidden_size", VISION(stack.width), WIDTH_MOST, 768, WIDTH),       \
        ROW_COUNT("vision_config.image_size", VISION(image), BP_VIT_SIZE_MOST, 224, NONE),         \
        ROW_COUNT("vision_config.intermediate_size", VISION(stack.inner), INNER_MOST, 3072,        \
                  INNER),                                                                          \
        ROW_REAL("vision_config.layer_norm_eps", VISION(stack.norm_epsilon), 1.0, epsilon_, NONE), \
        ROW_FIXED("vision_config.model_type", TEXT, type, 0),                                      \
        ROW_COUNT("vision_config.num_attention_heads", VISION(stack.heads), HEADS_MOST, 12,        \
                  HEADS),                                                                          \
        ROW_COUNT("vision_config.num_channels", VISION(channels), BP_VIT_SIZE_MOST, 3, NONE),      \
        ROW_COUNT("vision_config.num_hidden_layers", VISION(stack.layers), LAYERS_MOST, 12,        \
                  LAYERS),                                                                         \
        ROW_COUNT("vision_config.patch_size", VISION(patch), BP_VIT_SIZE_MOST, patch_, NONE)

static const bp_row clip_rows[] = {
    ROW_CLASSES,
    ROW_LABELS,
    ROW_REAL("logit_scale_init_value", CLIP(logit_scale), 1e3, 2.6592, NONE),
    ROW_TYPE,
    ROW_ALIAS("num_labels", COMMON(classes), CLASSES_MOST),
    ROW_PROBLEM,
    ROW_COUNT("projection_dim", CLIP(projection), WIDTH_MOST, 512, NONE),
    ROWS_TEXT_TOWER("text_config.", NONE, NONE, NONE, NONE, 512, 2048, 8, 77, 49408, 5, 1e-5),
    ROW_FIXED("text_config.model_type", TEXT, "clip_text_model", 0),
    ROW_REAL("text_config.initializer_range", TEXT(initializer_range), 1e6, 0.02, INITIAL),
    ROWS_VISION_TOWER("clip_vision_model", 32, 5, 1e-5),
    ROW_REAL("vision_config.initializer_range", VISION(stack.initializer_range), 1e6, 0.02,
             INITIAL),
    ROWS_REFUSED,
};

static const bp_row siglip_rows[] = {
    ROW_CLASSES,
    ROW_LABELS,
    ROW_TYPE,
    ROW_ALIAS("num_labels", COMMON(classes), CLASSES_MOST),
    ROW_PROBLEM,
    ROWS_TEXT_TOWER("text_config.", NONE, NONE, NONE, NONE, 768, 3072, 12, 64, 32000, 3, 1e-6),
    ROW_FIXED("text_config.model_type", TEXT, "siglip_text_model", 0),
    ROW_COUNT_NULL("text_config.projection_size", CLIP(projection), WIDTH_MOST, 0, NONE,
                   BP_ROW_SPARSE),
    ROWS_VISION_TOWER("siglip_vision_model", 16, 3, 1e-6),
    {"vision_config.vision_use_head", BP_ROW_FLAG_NOT, BP_ROLE_NONE, 0, CLIP(headless), 0, 1, 0,
     NULL},
    ROWS_REFUSED,
};

/* The towers of texts by themselves. */
static const bp_row clip_text_rows[] = {
    ROW_CLASSES,
    ROWS_TEXT_TOWER("", WIDTH, INNER, HEADS, LAYERS, 512, 2048, 8, 77, 49408, 5, 1e-5),
    ROW_REAL("initializer_range", TEXT(initializer_range), 1e6, 0.02, INITIAL),
    ROW_TYPE,
    ROW_COUNT("projection_dim", CLIP(projection), WIDTH_MOST, 512, NONE),
    ROWS_REFUSED,
};

static const bp_row siglip_text_rows[] = {
    ROW_CLASSES,
    ROWS_TEXT_TOWER("", WIDTH, INNER, HEADS, LAYERS, 768, 3072, 12, 64, 32000, 3, 1e-6),
    ROW_TYPE,
    ROW_COUNT_NULL("projection_size", CLIP(projection), WIDTH_MOST, 0, NONE, BP_ROW_SPARSE),
    ROWS_REFUSED,
};

static const bp_tensor_rule rules[] = {
    {"*", "*", BP_LAYOUT_PLAIN},
};

/* The other tower, and what a classifier of images does not read. */
static const char *const ignored[] = {"text_model.*",        "text_projection.*",   "logit_scale",
                                      "logit_bias",          "visual_projection.*", "*position_ids",
                                      "vision_model.head.*", "classifier.*"};

/* Names in a file of the tower's own, then in one of both. */
static const bp_tensor_rule siglip_text_tensors[] = {
    {"*", "*", BP_LAYOUT_PLAIN},
    {"*", "text_model.*", BP_LAYOUT_PLAIN},
};

static const char *const text_ignored[] = {"vision_model.*", "visual_projection.*", "logit_scale",
                                           "logit_bias", "*position_ids"};

/* The words are the texts', and padding is the tokenizer's. */
static void text_resolve(bp_model_config *config, uint32_t kind)
{
    bp_clip_config own = bp_clip_config_of(config);
    own.vision.kind = kind;
    own.paired = false;
    if (kind == BP_VIT_SIGLIP) {
        own.text.initializer_range = 0.02;
    }
    config->vocabulary = own.text_vocabulary;
    config->positions = own.text_positions;
    config->bos_token = own.text_bos;
    config->eos_token = own.text_eos;
    config->pad_token = -1;
    config->classes = own.projection != 0 ? own.projection : own.text.width;
    bp_family_config_set(config, &own, sizeof own);
}

static void family_clip_text_resolve(bp_model_config *config)
{
    text_resolve(config, BP_VIT_CLIP);
}

static void family_siglip_text_resolve(bp_model_config *config)
{
    text_resolve(config, BP_VIT_SIGLIP);
}

/* The words are the texts', and a row of logits has a text's vector and its image's. */
static void pair_resolve(bp_model_config *config, uint32_t kind)
{
    text_resolve(config, kind);
    bp_clip_config own = bp_clip_config_of(config);
    own.paired = true;
    own.headless = false; /* without it a file lacks tensors */
    if (kind == BP_VIT_SIGLIP) {
        own.vision.stack.initializer_range = 0.02;
    }
    config->classes *= 2;
    bp_family_config_set(config, &own, sizeof own);
}

static void family_clip_pair_resolve(bp_model_config *config)
{
    pair_resolve(config, BP_VIT_CLIP);
}

static void family_siglip_pair_resolve(bp_model_config *config)
{
    pair_resolve(config, BP_VIT_SIGLIP);
}

/* A row has the numbers of an image. */
static void clip_resolve(bp_model_config *config, uint32_t kind)
{
    bp_clip_config own = bp_clip_config_of(config);
    const bp_vit_config *vision = &own.vision;
    const uint64_t numbers =
        bp_size_mul(bp_size_mul(vision->image, vision->image), vision->channels);
    config->positions = numbers < UINT32_MAX ? (uint32_t)numbers : 0;
    own.vision.kind = kind;
    own.paired = false;
    if (kind == BP_VIT_SIGLIP) {
        own.headless = true; /* the pooling head is not read, nor written */
        own.vision.stack.initializer_range = own.text.initializer_range = 0.02;
    }
    bp_family_config_set(config, &own, sizeof own);
}

static void family_clip_resolve(bp_model_config *config)
{
    clip_resolve(config, BP_VIT_CLIP);
}

static void family_siglip_resolve(bp_model_config *config)
{
    clip_resolve(config, BP_VIT_SIGLIP);
}

static const char all_linear[] =
    "[\"q_proj\", \"k_proj\", \"v_proj\", \"out_proj\", \"fc1\", \"fc2\"]";

#define PRESET(family_, kind_, image_, channels_, patch_, act_, epsilon_, width_, layers_, heads_, \
               inner_, text_width_, text_layers_, text_heads_, text_inner_, vocabulary_,           \
               positions_, projection_)                                                            \
    {.family = (family_),                                                                          \
     .positions = (image_) * (image_) * (channels_),                                               \
     .bos_token = -1,                                                                              \
     .eos_token = -1,                                                                              \
     .pad_token = -1,                                                                              \
     .task = BP_TASK_CLASSES,                                                                      \
     .classes = 2},                                                                                \
        OWN((const bp_clip_config){.vision = {.stack = {.width = (width_),                         \
                                                        .layers = (layers_),                       \
                                                        .heads = (heads_),                         \
                                                        .inner = (inner_),                         \
                                                        .norm_epsilon = (epsilon_),                \
                                                        .initializer_range = 0.02,                 \
                                                        .activation = (act_)},                     \
                                              .image = (image_),                                   \
                                              .channels = (channels_),                             \
                                              .patch = (patch_),                                   \
                                              .kind = (kind_)},                                    \
                                   .text = {.width = (text_width_),                                \
                                            .layers = (text_layers_),                              \
                                            .heads = (text_heads_),                                \
                                            .inner = (text_inner_),                                \
                                            .norm_epsilon = (epsilon_),                            \
                                            .initializer_range = 0.02,                             \
                                            .activation = (act_)},                                 \
                                   .text_vocabulary = (vocabulary_),                               \
                                   .text_positions = (positions_),                                 \
                                   .projection = (projection_),                                    \
                                   .headless = (kind_) == BP_VIT_SIGLIP,                           \
                                   .text_bos = (vocabulary_)-2,                                    \
                                   .text_eos = (vocabulary_)-1,                                    \
                                   .text_pad = 1,                                                  \
                                   .logit_scale = (kind_) == BP_VIT_SIGLIP ? 0.0 : 2.6592})

static const bp_preset clip_presets[] = {
    {"clip-vit-base-patch32", "CLIP ViT-B/32, images of 224 x 224",
     PRESET(&bp_family_clip, BP_VIT_CLIP, 224, 3, 32, 5, 1e-5, 768, 12, 12, 3072, 512, 12, 8, 2048,
            49408, 77, 512)},
    {"clip-vit-large-patch14", "CLIP ViT-L/14, images of 224 x 224",
     PRESET(&bp_family_clip, BP_VIT_CLIP, 224, 3, 14, 5, 1e-5, 1024, 24, 16, 4096, 768, 12, 12,
            3072, 49408, 77, 768)},
    {"tiny-clip", "a CLIP for tests: images of 16 x 16",
     PRESET(&bp_family_clip, BP_VIT_CLIP, 16, 3, 4, 5, 1e-5, 32, 2, 4, 64, 24, 2, 3, 48, 256, 16,
            16)},
};

static const bp_preset siglip_presets[] = {
    {"siglip-base-patch16-224", "SigLIP ViT-B/16, images of 224 x 224",
     PRESET(&bp_family_siglip, BP_VIT_SIGLIP, 224, 3, 16, 3, 1e-6, 768, 12, 12, 3072, 768, 12, 12,
            3072, 32000, 64, 0)},
    {"tiny-siglip", "a SigLIP for tests: images of 16 x 16",
     PRESET(&bp_family_siglip, BP_VIT_SIGLIP, 16, 3, 4, 3, 1e-6, 32, 2, 4, 64, 32, 2, 4, 64, 256,
            16, 0)},
};

const bp_family bp_family_clip = {
    .model_type = "clip",
    .model = &bp_model_vit,
    .rows = clip_rows,
    .row_count = ROWS_COUNT(clip_rows),
    .task = BP_TASK_CLASSES,
    .judge_class = "CLIPForImageClassification",
    .vectors = &bp_family_clip_text,
    .pairs = &bp_family_clip_pair,
    .resolve = family_clip_resolve,
    .naming = {rules, ROWS_COUNT(rules), ignored, ROWS_COUNT(ignored), NULL, 0},
    .adapter_targets = "q_proj,v_proj",
    .all_linear = all_linear,
    .presets = clip_presets,
    .preset_count = ROWS_COUNT(clip_presets)};

static const bp_tensor_rule pair_rules[] = {
    {"logit_scale", "logit_scale", BP_LAYOUT_NUMBER},
    {"*", "*", BP_LAYOUT_PLAIN},
};

static const char *const pair_ignored[] = {"*position_ids"};

const bp_family bp_family_clip_pair = {
    .model_type = "clip",
    .model = &bp_model_clip,
    .rows = clip_rows,
    .row_count = ROWS_COUNT(clip_rows),
    .task = BP_TASK_EMBEDDING,
    .language_class = "CLIPModel",
    .vectors = &bp_family_clip_text,
    .pairs = &bp_family_clip_pair,
    .resolve = family_clip_pair_resolve,
    .naming = {pair_rules, ROWS_COUNT(pair_rules), pair_ignored, ROWS_COUNT(pair_ignored), NULL, 0},
    .adapter_targets = "q_proj,v_proj",
    .all_linear = all_linear};

const bp_family bp_family_siglip = {
    .model_type = "siglip",
    .model = &bp_model_vit,
    .rows = siglip_rows,
    .row_count = ROWS_COUNT(siglip_rows),
    .task = BP_TASK_CLASSES,
    .judge_class = "SiglipForImageClassification",
    .vectors = &bp_family_siglip_text,
    .pairs = &bp_family_siglip_pair,
    .resolve = family_siglip_resolve,
    .naming = {rules, ROWS_COUNT(rules), ignored, ROWS_COUNT(ignored), NULL, 0},
    .adapter_targets = "q_proj,v_proj",
    .all_linear = all_linear,
    .presets = siglip_presets,
    .preset_count = ROWS_COUNT(siglip_presets)};

const bp_family bp_family_siglip_pair = {
    .model_type = "siglip",
    .model = &bp_model_clip,
    .rows = siglip_rows,
    .row_count = ROWS_COUNT(siglip_rows),
    .task = BP_TASK_EMBEDDING,
    .language_class = "SiglipModel",
    .vectors = &bp_family_siglip_text,
    .pairs = &bp_family_siglip_pair,
    .resolve = family_siglip_pair_resolve,
    .naming = {rules, ROWS_COUNT(rules), pair_ignored, ROWS_COUNT(pair_ignored), NULL, 0},
    .adapter_targets = "q_proj,v_proj",
    .all_linear = all_linear};

const bp_family bp_family_clip_text = {
    .model_type = "clip_text_model",
    .model = &bp_model_clip_text,
    .rows = clip_text_rows,
    .row_count = ROWS_COUNT(clip_text_rows),
    .task = BP_TASK_EMBEDDING,
    .language_class = "CLIPTextModelWithProjection",
    .vectors = &bp_family_clip_text,
    .resolve = family_clip_text_resolve,
    .naming = {rules, ROWS_COUNT(rules), text_ignored, ROWS_COUNT(text_ignored), NULL, 0},
    .adapter_targets = "q_proj,v_proj",
    .all_linear = all_linear};

const bp_family bp_family_siglip_text = {.model_type = "siglip_text_model",
                                         .model = &bp_model_siglip_text,
                                         .rows = siglip_text_rows,
                                         .row_count = ROWS_COUNT(siglip_text_rows),
                                         .task = BP_TASK_EMBEDDING,
                                         .language_class = "SiglipTextModel",
                                         .vectors = &bp_family_siglip_text,
                                         .resolve = family_siglip_text_resolve,
                                         .naming = {siglip_text_tensors,
                                                    ROWS_COUNT(siglip_text_tensors), text_ignored,
                                                    ROWS_COUNT(text_ignored), NULL, 0},
                                         .adapter_targets = "q_proj,v_proj",
                                         .all_linear = all_linear};
