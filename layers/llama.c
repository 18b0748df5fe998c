/* SPDX-License-Identifier: MIT */
/* Llama as a chain of stages. */
#include "layers/llama.h"

#include "layers/classifier.h"
#include "layers/embedding.h"
#include "layers/llama_block.h"
#include "layers/loss.h"
#include "layers/publish.h"
#include "layers/rmsnorm.h"

/* Numbers of the parameters that are not a block's. */
enum { TOKEN_TABLE = 0 };

static bool classifies(const bp_model_config *config)
{
    return config->task >= BP_TASK_CLASSES;
}

static uint32_t last_norm(const bp_model_config *config)
{
    return 1 + config->layers * bp_llama_block_parameters(config);
}

/* A head with weights of its own follows the last norm. */
static bool has_head(const bp_model_config *config)
{
    return classifies(config) || config->untied;
}

static uint32_t stage_count(const bp_model_config *config)
{
    return config->layers + 2;
}

static uint32_t parameter_count(const bp_model_config *config)
{
    return last_norm(config) + 1 + (has_head(config) ? 1 : 0);
}

static uint32_t parameter_stage(const bp_model_config *config, uint32_t parameter)
{
    if (parameter == TOKEN_TABLE) {
        return 0;
    }
    const uint32_t block = (parameter - 1) / bp_llama_block_parameters(config);
    return block < config->layers ? 1 + block : config->layers + 1;
}

static bool is_head(const bp_emit *emit, uint32_t stage)
{
    return stage == emit->spec->config.layers + 1;
}

static void stage_name(const bp_model_config *config, uint32_t stage, char text[32])
{
    if (stage == 0) {
        bp_name_append(text, "embed");
    } else if (stage > config->layers) {
        bp_name_append(text, "head");
    } else {
        bp_name_append_number(bp_name_append(text, "layers."), stage - 1);
    }
}

static uint32_t variants(const bp_model_config *config, uint32_t stage)
{
    const bool is_block = stage >= 1 && stage <= config->layers;
    return is_block ? BP_LLAMA_BLOCK_VARIANTS : 1;
}

static void publish_block(bp_emit *emit, const bp_model_config *config, uint32_t index)
{
    const bp_llama_shape s = bp_llama_shape_of(config);
    const double range = config->initializer_range;
    const uint64_t queries = s.heads * s.head_width, keys = s.kv_heads * s.head_width;
    const bp_publish_row rows[BP_LLAMA_BLOCK_PARAMETERS] = {
        [BP_LLAMA_NORM_1] = {"input_layernorm.weight", {s.width, 0}, BP_INIT_ONES, 0.0},
        [BP_LLAMA_Q_WEIGHT] = {"self_attn.q_proj.weight",
                               {queries, s.width},
                               BP_INIT_NORMAL,
                               range},
        [BP_LLAMA_Q_BIAS] = {"self_attn.q_proj.bias", {queries, 0}, BP_INIT_ZEROS, 0.0},
        [BP_LLAMA_K_WEIGHT] = {"self_attn.k_proj.weight", {keys, s.width}, BP_INIT_NORMAL, range},
        [BP_LLAMA_K_BIAS] = {"self_attn.k_proj.bias", {keys, 0}, BP_INIT_ZEROS, 0.0},
        [BP_LLAMA_V_WEIGHT] = {"self_attn.v_proj.weight", {keys, s.width}, BP_INIT_NORMAL, range},
        [BP_LLAMA_V_BIAS] = {"self_attn.v_proj.bias", {keys, 0}, BP_INIT_ZEROS, 0.0},
        [BP_LLAMA_O_WEIGHT] = {"self_attn.o_proj.weight",
                               {s.width, queries},
                               BP_INIT_NORMAL,
                               range},
        [BP_LLAMA_O_BIAS] = {"self_attn.o_proj.bias", {s.width, 0}, BP_INIT_ZEROS, 0.0},
        [BP_LLAMA_NORM_2] = {"post_attention_layernorm.weight", {s.width, 0}, BP_INIT_ONES, 0.0},
        [BP_LLAMA_GATE_WEIGHT] = {"mlp.gate_proj.weight",
                                  {s.inner, s.width},
                                  BP_INIT_NORMAL,
                                  range},
        [BP_LLAMA_GATE_BIAS] = {"mlp.gate_proj.bias", {s.inner, 0}, BP_INIT_ZEROS, 0.0},
        [BP_LLAMA_UP_WEIGHT] = {"mlp.up_proj.weight", {s.inner, s.width}, BP_INIT_NORMAL, range},
        [BP_LLAMA_UP_BIAS] = {"mlp.up_proj.bias", {s.inner, 0}, BP_INIT_ZEROS, 0.0},
        [BP_LLAMA_DOWN_WEIGHT] = {"mlp.down_proj.weight",
                                  {s.width, s.inner},
                                  BP_INIT_NORMAL,
                                  range},
        [BP_LLAMA_DOWN_BIAS] = {"mlp.down_proj.bias", {s.width, 0}, BP_INIT_ZEROS, 0.0}};
    char prefix[BP_NAME_BYTES];
    bp_name_append(bp_name_append_number(bp_name_append(prefix, "model.layers."), index), ".");
    for (uint32_t i = 0; i < BP_LLAMA_BLOCK_PARAMETERS; i++) {
        if (bp_llama_has(config, (bp_llama_parameter)i)) {
            bp_publish(emit, prefix, &rows[i]);
        }
    }
}

static void parameters(bp_emit *emit, const bp_model_config *config)
{
    const double range = config->initializer_range;
    const uint64_t width = config->width;
    const uint64_t outputs = classifies(config) ? config->classes : config->vocabulary;
    const bp_publish_row token = {
        "model.embed_tokens.weight", {config->vocabulary, width}, BP_INIT_NORMAL, range};
    const bp_publish_row norm = {"model.norm.weight", {width, 0}, BP_INIT_ONES, 0.0};
    const bp_publish_row head = {classifies(config) ? "score.weight" : "lm_head.weight",
                                 {outputs, width},
                                 BP_INIT_NORMAL,
                                 range};
    bp_publish_table(emit, "", &token);
    for (uint32_t i = 0; i < config->layers; i++) {
        publish_block(emit, config, i);
    }
    bp_publish(emit, "", &norm);
    if (has_head(config)) {
        bp_publish(emit, "", &head);
    }
}

static bp_embedding describe_embedding(const bp_emit *emit)
{
    const bp_model_config *config = &emit->spec->config;
    return (bp_embedding){.token = TOKEN_TABLE,
                          .position = BP_NO_PARAMETER,
                          .vocabulary = config->vocabulary,
                          .positions = config->positions,
                          .width = config->width};
}

static bp_rmsnorm describe_norm(const bp_emit *emit)
{
    const bp_model_config *config = &emit->spec->config;
    return (bp_rmsnorm){last_norm(config), config->width, config->norm_epsilon};
}

static bp_head describe_head(const bp_emit *emit)
{
    const bp_model_config *config = &emit->spec->config;
    return (bp_head){.table = config->untied ? last_norm(config) + 1 : TOKEN_TABLE,
                     .bias = BP_NO_PARAMETER,
                     .vocabulary = config->vocabulary,
                     .width = config->width};
}

static bp_classifier describe_classifier(const bp_emit *emit)
{
    const bp_model_config *config = &emit->spec->config;
    return (bp_classifier){.score = {.weight = last_norm(config) + 1,
                                     .bias = BP_NO_PARAMETER,
                                     .in = config->width,
                                     .out = config->classes,
                                     .output_major = true}};
}

/* The last norm's output for `rows` rows of x. */
static bp_ref normalise(bp_emit *emit, uint64_t rows, bp_ref x, bp_ref rstd)
{
    const bp_rmsnorm norm = describe_norm(emit);
    const bp_ref y =
        bp_emit_buffer(emit, BP_CLASS_WORKSPACE, bp_emit_working(emit), rows, norm.width, "norm");
    bp_rmsnorm_forward(emit, &norm, rows, x, y, rstd);
    return y;
}

static void embed(bp_emit *emit, bp_stage_call *call)
{
    const bp_embedding embedding = describe_embedding(emit);
    call->output = bp_emit_buffer(emit, emit->output_class, bp_emit_working(emit), emit->rows,
                                  embedding.width, "out");
    bp_embedding_forward(emit, &embedding, call->output);
}

static void forward_head(bp_emit *emit, bp_stage_call *call)
{
    const bp_ref y = normalise(emit, emit->rows, call->input, BP_ABSENT);
    if (classifies(&emit->spec->config)) {
        const bp_classifier classifier = describe_classifier(emit);
        bp_classify_last_forward(emit, &classifier, y);
    } else {
        const bp_head head = describe_head(emit);
        bp_loss_forward(emit, &head, y);
    }
    call->output = BP_ABSENT;
}

static void forward(bp_emit *emit, bp_stage_call *call)
{
    if (call->stage == 0) {
        embed(emit, call);
    } else if (is_head(emit, call->stage)) {
        forward_head(emit, call);
    } else {
        bp_llama_block_forward(emit, call);
    }
}

/* The gradient of the last norm's output y: in its place, or anew where few rows of it count or
 * the table's gradient is formed later. */
static bp_ref backward_loss(bp_emit *emit, bp_stage_call *call, bp_ref y)
{
    if (!classifies(&emit->spec->config)) {
        const bp_head head = describe_head(emit);
        const bp_ref d_y = bp_loss_keep(emit, head.width, y, call->table_deferred, call->kept);
        bp_loss_backward(emit, &head, y, d_y, call->kept[1]);
        return d_y;
    }
    const bp_classifier classifier = describe_classifier(emit);
    return bp_classify_last_backward(emit, &classifier, y);
}

static void backward_head(bp_emit *emit, bp_stage_call *call)
{
    const bp_rmsnorm norm = describe_norm(emit);
    const bp_ref rstd =
        bp_emit_buffer(emit, BP_CLASS_WORKSPACE, BP_F32, 1, emit->rows, "norm.rstd");
    const bp_ref y = normalise(emit, emit->rows, call->input, rstd);
    const bp_ref d_y = backward_loss(emit, call, y);
    const bp_rmsnorm_backward_call norm_call = {call->input, rstd, d_y, BP_ABSENT,
                                                call->input_wanted};
    bp_rmsnorm_backward(emit, &norm, &norm_call);
    call->d_input = call->input_wanted ? d_y : BP_ABSENT;
}

static void backward(bp_emit *emit, bp_stage_call *call)
{
    if (call->stage == 0) {
        const bp_embedding embedding = describe_embedding(emit);
        if (!call->table_deferred) {
            bp_embedding_backward(emit, &embedding, call->d_output);
        }
        call->d_input = BP_ABSENT;
    } else if (is_head(emit, call->stage)) {
        backward_head(emit, call);
    } else {
        bp_llama_block_backward(emit, call);
    }
}

static uint32_t sliced_table(const bp_model_config *config)
{
    return has_head(config) ? UINT32_MAX : TOKEN_TABLE;
}

/* The head's part of the table's gradient, then the embedding's, as backward adds them. */
static void slice(bp_emit *emit, bp_slice_call *call)
{
    const bp_head head = describe_head(emit);
    const bp_embedding embedding = describe_embedding(emit);
    bp_loss_slice_of(emit, &head, call);
    bp_embedding_backward_slice(emit, &embedding, call->d_embedded, call->first, call->rows,
                                call->gradient, 1);
}

static void decode_head(bp_emit *emit, bp_stage_call *call)
{
    const bp_head head = describe_head(emit);
    const bp_pick_row_scalars scalars = {.rows = (int64_t)emit->rows, .width = (int64_t)head.width};
    const bp_pick_row_operands operands = {
        .y = bp_emit_buffer(emit, BP_CLASS_WORKSPACE, bp_emit_working(emit), 1, head.width, "row"),
        .x = call->input,
        .step = emit->step};
    bp_emit_pick_row(emit, &operands, &scalars);
    bp_head_logits(emit, &head, normalise(emit, 1, operands.y, BP_ABSENT));
    call->output = BP_ABSENT;
}

static void decode(bp_emit *emit, bp_stage_call *call)
{
    if (call->stage == 0) {
        embed(emit, call);
    } else if (is_head(emit, call->stage)) {
        decode_head(emit, call);
    } else {
        bp_llama_block_decode(emit, call);
    }
}

static bp_graph_limits limits(const bp_spec *spec, uint32_t stage, bool backward)
{
    if (stage >= 1 && stage <= spec->config.layers) {
        return bp_llama_block_limits(backward);
    }
    if (stage == 0) {
        return (bp_graph_limits){
            .buffers = 4, .ops = 3, .refs = 16, .scalars = 24, .name_bytes = 4 * BP_NAME_BYTES};
    }
    return bp_head_limits(spec);
}

static bp_status refuse(bp_error *error, const char *text, const char *field, uint64_t found,
                        uint64_t wanted)
{
    return bp_error_numbers(error, BP_ERR_USAGE, "llama", text, field, (int64_t)found,
                            (int64_t)wanted);
}

/* Ranges are bp_spec_check's. */
static bp_status check(const bp_spec *spec, bp_error *error)
{
    const bp_model_config *config = &spec->config;
    const bp_llama_shape shape = bp_llama_shape_of(config);
    if (config->head_width == 0 && config->width % config->heads != 0) {
        return refuse(error, "the number of heads does not divide the width hidden_size",
                      "num_attention_heads", config->heads, config->width);
    }
    if (shape.kv_heads > shape.heads || shape.heads % shape.kv_heads != 0) {
        return refuse(error, "the key-value heads do not divide the heads", "num_key_value_heads",
                      shape.kv_heads, shape.heads);
    }
    if (shape.head_width % 2 != 0) {
        return refuse(error, "rotary positions need heads of an even width", "head_dim",
                      shape.head_width, shape.head_width + 1);
    }
    if (config->task == BP_TASK_MASKED_LM) {
        return refuse(error, "this model reads from left to right; masked-lm needs bert", "task",
                      config->task, BP_TASK_CAUSAL_LM);
    }
    if (classifies(config) && spec->generate_context > 0) {
        return refuse(error, "a classifier does not generate", "generate-context",
                      spec->generate_context, 0);
    }
    return BP_OK;
}

const bp_model bp_model_llama = {.name = "llama",
                                 .check = check,
                                 .stages = stage_count,
                                 .stage_name = stage_name,
                                 .variants = variants,
                                 .parameters = parameters,
                                 .parameter_count = parameter_count,
                                 .parameter_stage = parameter_stage,
                                 .forward = forward,
                                 .backward = backward,
                                 .decode = decode,
                                 .sliced_table = sliced_table,
                                 .slice = slice,
                                 .slice_limits = bp_head_limits,
                                 .limits = limits};
