/* SPDX-License-Identifier: MIT */
/* BERT as a chain of stages. */
#include "layers/families/bert.h"

#include "core/plan/range.h"
#include "layers/blocks/bert_block.h"
#include "layers/heads/bert_head.h"
#include "layers/nodes/embedding.h"
#include "layers/nodes/inputs.h"
#include "layers/heads/loss.h"
#include "layers/nodes/norm.h"
#include "layers/nodes/publish.h"
#include "layers/heads/vector.h"

/* Numbers of the embeddings' parameters; the norm comes behind the tables. */
enum { TOKEN_TABLE = 0, POSITION_TABLE = 1, TYPE_TABLE = 2 };

BP_FAMILY_CONFIG_FITS(bp_bert_config);

bp_bert_config bp_bert_config_of(const bp_model_config *config)
{
    bp_bert_config own;
    bp_family_config_get(config, &own, sizeof own);
    return own;
}

uint64_t bp_bert_embedding_width(const bp_bert_config *own)
{
    return own->embedding != 0 ? own->embedding : own->stack.width;
}

bool bp_bert_projects(const bp_bert_config *own)
{
    return bp_bert_embedding_width(own) != own->stack.width;
}

static uint32_t head_first(const bp_model_config *config)
{
    const bp_bert_config own = bp_bert_config_of(config);
    return bp_bert_block_first(config, own.stack.layers);
}

static uint32_t bert_stage_count(const bp_model_config *config)
{
    const bp_bert_config own = bp_bert_config_of(config);
    return own.stack.layers + 2;
}

static uint32_t bert_parameter_count(const bp_model_config *config)
{
    return head_first(config) + bp_bert_head_parameters(config);
}

static uint32_t bert_parameter_stage(const bp_model_config *config, uint32_t parameter)
{
    const bp_bert_config own = bp_bert_config_of(config);
    const uint32_t before = bp_bert_embeddings(config);
    if (parameter < before) {
        return parameter + bp_bert_distances(&own) >= before ? 1 : 0;
    }
    const uint32_t block = (parameter - before) / bp_bert_block_parameters(&own);
    return block < own.stack.layers ? 1 + block : own.stack.layers + 1;
}

static void bert_stage_name(const bp_model_config *config, uint32_t stage, char text[32])
{
    const bp_bert_config own = bp_bert_config_of(config);
    if (stage == 0) {
        bp_name_append(text, "embed");
    } else if (stage > own.stack.layers) {
        bp_name_append(text, "head");
    } else {
        bp_name_append_number(bp_name_append(text, "layer."), stage - 1);
    }
}

static uint32_t bert_variants(const bp_model_config *config, uint32_t stage)
{
    const bp_bert_config own = bp_bert_config_of(config);
    const bool is_block = stage >= 1 && stage <= own.stack.layers;
    return is_block ? BP_TAPE_VARIANTS : 1;
}

/* What the kinds call their parts: in the embeddings, and in a block the modules of weight and bias
 * in the order of bp_bert_parameter. */
typedef struct bert_names {
    const char *embeddings;
    const char *block;
    const char *module[BP_BERT_BLOCK_PARAMETERS / 2];
} bert_names;

#define BERT_MODULES                                                                               \
    {                                                                                              \
        "attention.self.query", "attention.self.key", "attention.self.value",                      \
            "attention.output.dense", "attention.output.LayerNorm", "intermediate.dense",          \
            "output.dense", "output.LayerNorm"                                                     \
    }

static const bert_names bert_names_of[BP_BERT_KINDS] = {
    [BP_BERT] = {"bert.embeddings.", "bert.encoder.layer.", BERT_MODULES},
    [BP_ROBERTA] = {"roberta.embeddings.", "roberta.encoder.layer.", BERT_MODULES},
    [BP_DISTILBERT] = {"distilbert.embeddings.",
                       "distilbert.transformer.layer.",
                       {"attention.q_lin", "attention.k_lin", "attention.v_lin",
                        "attention.out_lin", "sa_layer_norm", "ffn.lin1", "ffn.lin2",
                        "output_layer_norm"}},
    [BP_ELECTRA] = {"electra.embeddings.", "electra.encoder.layer.", BERT_MODULES},
    [BP_MPNET] = {"mpnet.embeddings.",
                  "mpnet.encoder.layer.",
                  {"attention.attn.q", "attention.attn.k", "attention.attn.v", "attention.attn.o",
                   "attention.LayerNorm", "intermediate.dense", "output.dense",
                   "output.LayerNorm"}},
    [BP_NOMIC] = {"nomic_bert.embeddings.", "nomic_bert.encoder.layers.", {NULL}},
    [BP_DEBERTA] = {"deberta.embeddings.",
                    "deberta.encoder.layer.",
                    {"attention.self.query_proj", "attention.self.key_proj",
                     "attention.self.value_proj", "attention.output.dense",
                     "attention.output.LayerNorm", "intermediate.dense", "output.dense",
                     "output.LayerNorm"}}};

static void bert_publish_block(bp_builder *builder, const bp_model_config *config, uint32_t index)
{
    const bp_bert_config own = bp_bert_config_of(config);
    const bert_names *names = &bert_names_of[own.kind];
    const uint64_t w = own.stack.width, inner = bp_transformer_inner(&own.stack);
    const uint64_t shapes[BP_BERT_BLOCK_PARAMETERS / 2][2] = {
        {w, w}, {w, w}, {w, w}, {w, w}, {w, 0}, {inner, w}, {w, inner}, {w, 0}};
    for (uint32_t i = 0; i < BP_BERT_BLOCK_PARAMETERS; i++) {
        const uint64_t *shape = shapes[i / 2];
        const bool bias = i % 2 != 0, norm = shape[1] == 0;
        const bp_publish_row row = {bias ? ".bias" : ".weight",
                                    {shape[0], bias ? 0 : shape[1]},
                                    bias   ? BP_INIT_ZEROS
                                    : norm ? BP_INIT_ONES
                                           : BP_INIT_NORMAL,
                                    bias || norm ? 0.0 : own.stack.initializer_range};
        char prefix[BP_NAME_BYTES];
        char *end = bp_name_append_number(bp_name_append(prefix, names->block), index);
        bp_name_append(bp_name_append(end, "."), names->module[i / 2]);
        bp_publish_dense(builder, prefix, &row, false, i / 2 < 2 ? w / own.stack.heads : 0);
    }
}

/* The products of a block have no biases, and one weight for queries, keys and values. */
static void nomic_publish_block(bp_builder *builder, const bp_model_config *config, uint32_t index)
{
    const bp_bert_config own = bp_bert_config_of(config);
    const double range = own.stack.initializer_range;
    const uint64_t w = own.stack.width, inner = bp_transformer_inner(&own.stack);
    const uint64_t wide = own.stack.heads * bp_bert_head_width(&own);
    const bp_publish_row rows[BP_NOMIC_BLOCK_PARAMETERS] = {
        [BP_NOMIC_QKV] = {"attn.Wqkv.weight", {3 * wide, w}, BP_INIT_NORMAL, range},
        [BP_NOMIC_O] = {"attn.out_proj.weight", {w, wide}, BP_INIT_NORMAL, range},
        [BP_NOMIC_NORM_1_WEIGHT] = {"norm1.weight", {w, 0}, BP_INIT_ONES, 0.0},
        [BP_NOMIC_NORM_1_BIAS] = {"norm1.bias", {w, 0}, BP_INIT_ZEROS, 0.0},
        [BP_NOMIC_UP] = {"mlp.fc11.weight", {inner, w}, BP_INIT_NORMAL, range},
        [BP_NOMIC_GATE] = {"mlp.fc12.weight", {inner, w}, BP_INIT_NORMAL, range},
        [BP_NOMIC_DOWN] = {"mlp.fc2.weight", {w, inner}, BP_INIT_NORMAL, range},
        [BP_NOMIC_NORM_2_WEIGHT] = {"norm2.weight", {w, 0}, BP_INIT_ONES, 0.0},
        [BP_NOMIC_NORM_2_BIAS] = {"norm2.bias", {w, 0}, BP_INIT_ZEROS, 0.0}};
    char prefix[BP_NAME_BYTES];
    char *end = bp_name_append(prefix, bert_names_of[own.kind].block);
    bp_name_append(bp_name_append_number(end, index), ".");
    for (uint32_t i = 0; i < BP_NOMIC_BLOCK_PARAMETERS; i++) {
        bp_publish_dense(builder, prefix, &rows[i], false, 0);
    }
}

static uint32_t position_rows(const bp_model_config *config)
{
    const uint32_t rows = bp_bert_config_of(config).position_rows;
    return rows != 0 ? rows : config->positions;
}

/* Positions begin behind the padding's, which padding that is written in a text has. */
static bool has_padding_position(const bp_model_config *config)
{
    const bp_bert_config own = bp_bert_config_of(config);
    return own.position_first > 0 && config->pad_token == (int64_t)own.position_first - 1;
}

/* Where there are types, the tokens of a pair's texts have their own. */
static uint32_t inputs(const bp_spec *spec, bp_input rows[BP_INPUTS_MAX])
{
    const bp_bert_config own = bp_bert_config_of(&spec->config);
    uint32_t count = own.types > 1 ? bp_inputs_pairs(spec, rows) : bp_inputs_texts(spec, rows);
    if (has_padding_position(&spec->config)) {
        rows[count++] = (bp_input){.name = "positions",
                                   .from = BP_INPUT_POSITIONS,
                                   .dtype = BP_I32,
                                   .rank = 1,
                                   .shape = {spec->sequence},
                                   .below = position_rows(&spec->config),
                                   .fill = (int32_t)own.position_first - 1};
    }
    return count;
}

/* Rows of distances, and their norm. */
static void publish_positions(bp_builder *builder, const bp_bert_config *own)
{
    const uint64_t w = own->stack.width;
    const bp_publish_row table = {"rel_embeddings.weight",
                                  {2 * (uint64_t)own->buckets, w},
                                  BP_INIT_NORMAL,
                                  own->stack.initializer_range};
    const bp_publish_row norm[] = {{"LayerNorm.weight", {w, 0}, BP_INIT_ONES, 0.0},
                                   {"LayerNorm.bias", {w, 0}, BP_INIT_ZEROS, 0.0}};
    bp_publish_table(builder, "deberta.encoder.", &table);
    bp_publish(builder, "deberta.encoder.", &norm[0]);
    bp_publish(builder, "deberta.encoder.", &norm[1]);
}

static void bert_parameters(bp_builder *builder, const bp_model_config *config)
{
    const bp_bert_config own = bp_bert_config_of(config);
    const char *prefix = bert_names_of[own.kind].embeddings;
    const uint64_t w = bp_bert_embedding_width(&own);
    const double range = own.stack.initializer_range;
    const bp_publish_row tables[] = {
        {"word_embeddings.weight", {config->vocabulary, w}, BP_INIT_NORMAL, range},
        {"position_embeddings.weight", {position_rows(config), w}, BP_INIT_NORMAL, range},
        {"token_type_embeddings.weight", {own.types, w}, BP_INIT_NORMAL, range}};
    const bool nomic = own.kind == BP_NOMIC;
    const bp_publish_row norm[] = {
        {nomic ? ".weight" : "LayerNorm.weight", {w, 0}, BP_INIT_ONES, 0.0},
        {nomic ? ".bias" : "LayerNorm.bias", {w, 0}, BP_INIT_ZEROS, 0.0}};
    for (uint32_t i = 0; i < (own.types > 0 ? 3 : 2); i++) {
        if (i != POSITION_TABLE || bp_bert_has_positions(&own)) {
            bp_publish_table(builder, prefix, &tables[i]);
        }
    }
    bp_publish(builder, nomic ? "nomic_bert.emb_ln" : prefix, &norm[0]);
    bp_publish(builder, nomic ? "nomic_bert.emb_ln" : prefix, &norm[1]);
    if (bp_bert_projects(&own)) {
        const bp_publish_row weight = {"weight", {own.stack.width, w}, BP_INIT_NORMAL, range};
        const bp_publish_row bias = {"bias", {own.stack.width, 0}, BP_INIT_ZEROS, 0.0};
        bp_publish(builder, "electra.embeddings_project.", &weight);
        bp_publish(builder, "electra.embeddings_project.", &bias);
    }
    if (own.kind == BP_DEBERTA) {
        publish_positions(builder, &own);
    } else if (own.buckets > 0) {
        const bp_publish_row distances = {"relative_attention_bias.weight",
                                          {own.buckets, own.stack.heads},
                                          BP_INIT_NORMAL,
                                          range};
        bp_publish_table(builder, "mpnet.encoder.", &distances);
    }
    for (uint32_t i = 0; i < own.stack.layers; i++) {
        if (nomic) {
            nomic_publish_block(builder, config, i);
        } else {
            bert_publish_block(builder, config, i);
        }
    }
    bp_bert_head_publish(builder, config);
}

static bp_embedding describe_embedding(const bp_builder *builder)
{
    const bp_model_config *config = &builder->spec->config;
    const bp_bert_config own = bp_bert_config_of(config);
    /* Where the loss reads padding too, transformers' table of words keeps that row as it is. */
    const int64_t padding = config->pad_token;
    const bool table = bp_bert_has_positions(&own);
    const bool reads = (config->task == BP_TASK_ANSWERS || has_padding_position(config)) &&
                       padding < (int64_t)config->vocabulary;
    return (bp_embedding){.token = TOKEN_TABLE,
                          .position = table ? POSITION_TABLE : BP_NO_PARAMETER,
                          .vocabulary = config->vocabulary,
                          .positions = position_rows(config) - own.position_first,
                          .position_first = own.position_first,
                          .width = bp_bert_embedding_width(&own),
                          .types = own.types,
                          .type = table ? TYPE_TABLE : POSITION_TABLE, /* the second table */
                          .still = reads && padding >= 0 ? (uint64_t)padding + 1 : 0};
}

static bp_norm describe_norm(const bp_builder *builder)
{
    const bp_model_config *config = &builder->spec->config;
    const bp_bert_config own = bp_bert_config_of(config);
    const uint32_t behind = (bp_bert_projects(&own) ? 2u : 0u) + bp_bert_distances(&own);
    const uint32_t last = bp_bert_embeddings(config) - 1 - behind;
    return (bp_norm){last - 1, last, bp_bert_embedding_width(&own), own.stack.norm_epsilon, false};
}

/* From the embeddings to the blocks. */
static bp_linear describe_projection(const bp_builder *builder)
{
    const bp_model_config *config = &builder->spec->config;
    const bp_bert_config own = bp_bert_config_of(config);
    const uint32_t bias = bp_bert_embeddings(config) - 1 - bp_bert_distances(&own);
    return (bp_linear){.weight = bias - 1,
                       .bias = bias,
                       .in = bp_bert_embedding_width(&own),
                       .out = own.stack.width,
                       .output_major = true};
}

/* The sum of the embeddings, and its norm into `out`. */
static bp_ref bert_embed(bp_builder *builder, bp_ref out, bp_ref statistics)
{
    const bp_embedding embedding = describe_embedding(builder);
    const bp_norm norm = describe_norm(builder);
    const bp_ref sum = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                       builder->rows, embedding.width, "sum");
    bp_embedding_forward(builder, &embedding, sum);
    bp_norm_forward(builder, &norm, builder->rows, sum, out, statistics);
    return sum;
}

static void drop(bp_builder *builder, bp_ref x)
{
    const bp_model_config *config = &builder->spec->config;
    const bp_bert_config own = bp_bert_config_of(config);
    const bp_dropout dropout = {0, own.stack.embedding_dropout};
    if (bp_dropout_probability(builder, &dropout) > 0.0) {
        bp_dropout_apply(builder, &dropout, bp_bert_embedding_width(&own), x, BP_ABSENT, x);
    }
}

static bp_ref bert_make(bp_builder *builder, uint64_t width, const char *name)
{
    return bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder), builder->rows,
                           width, name);
}

static void bert_forward(bp_builder *builder, bp_stage_call *call)
{
    const bp_model_config *config = &builder->spec->config;
    const bp_bert_config own = bp_bert_config_of(config);
    if (call->stage == 0) {
        const bp_linear projection = describe_projection(builder);
        const bool projects = bp_bert_projects(&own);
        call->output = bp_build_buffer(builder, builder->output_class, bp_build_working(builder),
                                       builder->rows, own.stack.width, "out");
        const bp_ref normal = projects ? bert_make(builder, projection.in, "normal") : call->output;
        (void)bert_embed(builder, normal, BP_ABSENT);
        drop(builder, normal);
        if (projects) {
            bp_linear_forward(builder, &projection, normal, BP_ABSENT, call->output);
        }
    } else if (call->stage > own.stack.layers) {
        bp_bert_head_forward(builder, call, head_first(config));
    } else {
        bp_block_forward(builder, call, bp_block_family_list(builder, call));
    }
}

/* The sum and its statistics are made again: a gather, little beside a block. */
static void backward_embed(bp_builder *builder, bp_stage_call *call)
{
    const bp_embedding embedding = describe_embedding(builder);
    const bp_norm norm = describe_norm(builder);
    const bp_ref statistics =
        bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, 2, builder->rows, "norm.statistics");
    const bp_ref again = bert_make(builder, norm.width, "again");
    const bp_ref sum = bert_embed(builder, again, statistics);
    bp_ref d = call->d_output;
    const bp_bert_config own = bp_bert_config_of(&builder->spec->config);
    if (bp_bert_projects(&own)) {
        const bp_linear projection = describe_projection(builder);
        drop(builder, again);
        bp_linear_backward_parameters(builder, &projection, again, d);
        const bp_ref d_normal = bert_make(builder, norm.width, "d_normal");
        bp_linear_backward_input(builder, &projection, d, d_normal);
        d = d_normal;
    }
    drop(builder, d);
    const bp_norm_backward_call norm_call = {sum, statistics, d, BP_ABSENT, true, false};
    bp_norm_backward(builder, &norm, &norm_call);
    bp_embedding_backward(builder, &embedding, d);
    call->d_input = BP_ABSENT;
}

static void bert_backward(bp_builder *builder, bp_stage_call *call)
{
    const bp_model_config *config = &builder->spec->config;
    const bp_bert_config own = bp_bert_config_of(config);
    if (call->stage == 0) {
        backward_embed(builder, call);
    } else if (call->stage > own.stack.layers) {
        bp_bert_head_backward(builder, call, head_first(config));
    } else {
        bp_block_backward(builder, call, bp_block_family_list(builder, call));
    }
}

static bp_status bert_check_ranges(const bp_spec *spec, bp_error *error)
{
    const bp_model_config *config = &spec->config;
    const bp_bert_config own = bp_bert_config_of(config);
    const bool typed = own.kind != BP_DISTILBERT && own.kind != BP_MPNET;
    const bool deberta = own.kind == BP_DEBERTA;
    const uint64_t buckets = own.kind == BP_MPNET || deberta ? 1 : 0;
    const bp_range ranges[] = {
        {"type_vocab_size", own.types, typed && !deberta ? 1 : 0, typed ? 1u << 16 : 0},
        {"max_position_embeddings", position_rows(config),
         (uint64_t)config->positions + own.position_first, UINT32_MAX},
        {deberta ? "position_buckets" : "relative_attention_num_buckets", own.buckets, 4 * buckets,
         buckets * (deberta ? 4096 : 256)},
        {"head_dim", own.head_width, 0, own.kind == BP_NOMIC ? 1u << 16 : 0}};
    const bp_real_range dropout[] = {{"classifier_dropout", own.classifier_dropout, 0.0, 1.0},
                                     {"pooler_dropout", own.pooler_dropout, 0.0, 1.0}};
    BP_TRY(bp_transformer_check(config, "bert", error));
    BP_TRY(bp_ranges_check(ranges, 4, "bert", error));
    BP_TRY(bp_vector_check(spec, own.stack.width, "bert", error));
    return bp_real_ranges_check(dropout, 2, "bert", error);
}

/* What the models say that their configuration does not. */
static bp_status bert_check_kind(const bp_spec *spec, bp_error *error)
{
    const bp_model_config *config = &spec->config;
    const bp_bert_config own = bp_bert_config_of(config);
    if (own.kind == BP_NOMIC && config->task == BP_TASK_MASKED_LM) {
        return bp_error_set(
            error, BP_ERR_USAGE, "nomic_bert",
            "masked-lm is not implemented for this family: its tasks are embedding, "
            "classification, regression, reranking and token-classification",
            "task");
    }
    if (own.kind == BP_NOMIC && own.stack.heads > 0 && bp_bert_head_width(&own) % 2 != 0) {
        return bp_error_set(error, BP_ERR_USAGE, "nomic_bert",
                            "rotary positions need heads of an even width", "num_attention_heads");
    }
    if (own.kind == BP_DEBERTA) {
        const int64_t most = own.distance > 0 ? own.distance : (int64_t)config->positions;
        const bp_range farthest = {"max_relative_positions", (uint64_t)most,
                                   (uint64_t)own.buckets / 2 + 2, INT32_MAX};
        const bp_range width = {"embedding_size", bp_bert_embedding_width(&own), own.stack.width,
                                own.stack.width};
        BP_TRY(bp_ranges_check(&farthest, 1, "deberta-v2", error));
        BP_TRY(bp_ranges_check(&width, 1, "deberta-v2", error));
    }
    if (own.kind == BP_MPNET && config->pad_token != (int64_t)own.position_first - 1) {
        return bp_error_set(error, BP_ERR_USAGE, "mpnet",
                            "the model's padding is token 1, whatever the configuration says; "
                            "pad_token_id has to be 1",
                            "pad_token_id");
    }
    return BP_OK;
}

static bp_status bert_check(const bp_spec *spec, bp_error *error)
{
    const bp_model_config *config = &spec->config;
    const bp_bert_config own = bp_bert_config_of(config);
    BP_TRY(bert_check_ranges(spec, error));
    BP_TRY(bert_check_kind(spec, error));
    if (config->task == BP_TASK_ANSWERS && own.kind != BP_BERT && own.kind != BP_DISTILBERT &&
        own.kind != BP_ELECTRA) {
        return bp_error_set(error, BP_ERR_USAGE, "bert",
                            "question-answering is implemented for bert, distilbert and electra",
                            "task");
    }
    if (own.head_width == 0 && own.stack.width % own.stack.heads != 0) {
        return bp_error_limit(error, BP_ERR_USAGE, "bert",
                              "the number of heads does not divide the width hidden_size",
                              "num_attention_heads", own.stack.heads, BP_LIMIT_DIVISOR,
                              own.stack.width);
    }
    if (config->task == BP_TASK_CAUSAL_LM || spec->generate_context > 0) {
        return bp_error_set(error, BP_ERR_USAGE, "bert",
                            "this model reads in both directions: it does not generate, and its "
                            "tasks are masked-lm, classification, regression, "
                            "token-classification, question-answering and embedding",
                            "task");
    }
    return BP_OK;
}

/* The vocabulary's table is not sliced under gradient release: its slices would form the logits
 * again with a bias that the last stage has already updated. So with several micro-batches its
 * gradient is added up in another order than without release. */
static const bp_block_family bert_self = {bp_bert_block_describe};

const bp_model bp_model_bert = {.name = "bert",
                                .scratch = sizeof(bp_block),
                                .self = &bert_self,
                                .pads = true,
                                .check = bert_check,
                                .inputs = inputs,
                                .stages = bert_stage_count,
                                .stage_name = bert_stage_name,
                                .variants = bert_variants,
                                .tapes = bp_block_family_tapes,
                                .slot_name = bp_block_family_slot_name,
                                .parameters = bert_parameters,
                                .parameter_count = bert_parameter_count,
                                .parameter_stage = bert_parameter_stage,
                                .forward = bert_forward,
                                .contrast = bp_vector_contrast,
                                .backward = bert_backward};
