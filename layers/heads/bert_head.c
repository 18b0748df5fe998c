/* SPDX-License-Identifier: MIT */
/* BERT's heads as ops. */
#include "layers/heads/bert_head.h"

#include "layers/nodes/activate.h"
#include "layers/heads/answer.h"
#include "layers/blocks/bert_block.h"
#include "layers/heads/classifier.h"
#include "layers/heads/loss.h"
#include "layers/nodes/norm.h"
#include "layers/nodes/publish.h"
#include "layers/heads/vector.h"

/* Places of parameters, counted from the head's first. */
enum { POOLER = 0, SCORE = 2 };
enum { TRANSFORM = 0, NORM = 2, VOCABULARY_BIAS = 4 };
/* Places of names and of rows: those that judge samples, tokens, and guess words. */
enum { TAGS = 4, GUESS = 4, NAMES = 9 };

#define ROBERTA_HEADS                                                                              \
    {                                                                                              \
        "classifier.dense.weight", "classifier.dense.bias", "classifier.out_proj.weight",          \
            "classifier.out_proj.bias", "lm_head.dense.weight", "lm_head.dense.bias",              \
            "lm_head.layer_norm.weight", "lm_head.layer_norm.bias", "lm_head.bias"                 \
    }

static const char *const bert_head_names[BP_BERT_KINDS][NAMES] = {
    [BP_BERT] = {"bert.pooler.dense.weight", "bert.pooler.dense.bias", "classifier.weight",
                 "classifier.bias", "cls.predictions.transform.dense.weight",
                 "cls.predictions.transform.dense.bias",
                 "cls.predictions.transform.LayerNorm.weight",
                 "cls.predictions.transform.LayerNorm.bias", "cls.predictions.bias"},
    [BP_ROBERTA] = ROBERTA_HEADS,
    [BP_MPNET] = ROBERTA_HEADS,
    [BP_NOMIC] = {"nomic_bert.pooler.dense.weight", "nomic_bert.pooler.dense.bias",
                  "classifier.weight", "classifier.bias"},
    [BP_DEBERTA] = {"pooler.dense.weight", "pooler.dense.bias", "classifier.weight",
                    "classifier.bias", "cls.predictions.transform.dense.weight",
                    "cls.predictions.transform.dense.bias",
                    "cls.predictions.transform.LayerNorm.weight",
                    "cls.predictions.transform.LayerNorm.bias", "cls.predictions.bias"},
    [BP_DISTILBERT] = {"pre_classifier.weight", "pre_classifier.bias", "classifier.weight",
                       "classifier.bias", "vocab_transform.weight", "vocab_transform.bias",
                       "vocab_layer_norm.weight", "vocab_layer_norm.bias", "vocab_projector.bias"},
    [BP_ELECTRA] = {"classifier.dense.weight", "classifier.dense.bias",
                    "classifier.out_proj.weight", "classifier.out_proj.bias",
                    "generator_predictions.dense.weight", "generator_predictions.dense.bias",
                    "generator_predictions.LayerNorm.weight",
                    "generator_predictions.LayerNorm.bias", "generator_lm_head.bias"}};

/* What a task's head is made of. */
typedef struct bert_head {
    uint32_t parameters;
    void (*forward)(bp_builder *builder, bp_stage_call *call, uint32_t first);
    void (*backward)(bp_builder *builder, bp_stage_call *call, uint32_t first);
} bert_head;

static const bert_head *head_of(const bp_model_config *config);

uint32_t bp_bert_head_parameters(const bp_model_config *config)
{
    return head_of(config)->parameters + bp_vector_parameters(config);
}

/* BERT's pooler belongs to the base, as PEFT has it, and so does DeBERTa's. The masked-LM layers of
 * DistilBERT and ELECTRA stay hidden layers for rules of whole matrices (Muon): another kind would
 * change the results of runs. */
static bp_head_kind head_kind(uint32_t kind, bp_task task, uint32_t row)
{
    if (task < BP_TASK_CLASSES) {
        return kind == BP_DISTILBERT || kind == BP_ELECTRA ? BP_HEAD_NONE : BP_HEAD_OUTPUT;
    }
    const bool pooler = (kind == BP_BERT || kind == BP_NOMIC || kind == BP_DEBERTA) && row < SCORE;
    return pooler && bp_task_scores_samples(task) ? BP_HEAD_OUTPUT : BP_HEAD_TASK;
}

void bp_bert_head_publish(bp_builder *builder, const bp_model_config *config)
{
    const bp_bert_config own = bp_bert_config_of(config);
    const double range = own.stack.initializer_range;
    const uint64_t w = own.stack.width, words = bp_bert_embedding_width(&own);
    const char *const *names = bert_head_names[own.kind];
    const bp_publish_row judge[] = {
        {names[POOLER], {w, w}, BP_INIT_NORMAL, range},
        {names[POOLER + 1], {w, 0}, BP_INIT_ZEROS, 0.0},
        {names[SCORE], {config->classes, w}, BP_INIT_NORMAL, range},
        {names[SCORE + 1], {config->classes, 0}, BP_INIT_ZEROS, 0.0},
        {"classifier.weight", {config->classes, w}, BP_INIT_NORMAL, range}, /* of tokens */
        {"classifier.bias", {config->classes, 0}, BP_INIT_ZEROS, 0.0}};
    const bp_publish_row find[] = {
        {"qa_outputs.weight", {config->classes, w}, BP_INIT_NORMAL, range},
        {"qa_outputs.bias", {config->classes, 0}, BP_INIT_ZEROS, 0.0}};
    const bp_publish_row guess[] = {
        {names[GUESS], {words, w}, BP_INIT_NORMAL, range},
        {names[GUESS + 1], {words, 0}, BP_INIT_ZEROS, 0.0},
        {names[GUESS + 2], {words, 0}, BP_INIT_ONES, 0.0},
        {names[GUESS + 3], {words, 0}, BP_INIT_ZEROS, 0.0},
        {names[GUESS + 4], {config->vocabulary, 0}, BP_INIT_ZEROS, 0.0}};
    const bp_task task = config->task;
    const bp_publish_row *rows = task < BP_TASK_CLASSES         ? guess
                                 : bp_task_scores_samples(task) ? judge
                                 : task == BP_TASK_TOKENS       ? judge + TAGS
                                                                : find;
    for (uint32_t i = 0; i < head_of(config)->parameters; i++) {
        bp_publish_head(builder, "", &rows[i], head_kind(own.kind, task, i));
    }
    bp_vector_publish(builder, config, w);
}

static bp_linear dense(const bp_builder *builder, uint32_t weight, uint64_t out)
{
    return (bp_linear){.weight = weight,
                       .bias = weight + 1,
                       .in = bp_transformer_of(&builder->spec->config).width,
                       .out = out,
                       .output_major = true};
}

static bp_ref bert_head_make(bp_builder *builder, uint64_t width, const char *name)
{
    return bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder), builder->rows,
                           width, name);
}

static bp_classifier describe_classifier(const bp_builder *builder, uint32_t first)
{
    const bp_model_config *config = &builder->spec->config;
    const bp_bert_config own = bp_bert_config_of(config);
    const bool own_drop = own.kind == BP_DEBERTA && config->task == BP_TASK_TOKENS;
    return (bp_classifier){.score = dense(builder, first + SCORE, config->classes),
                           .dropout = {1 + 3 * own.stack.layers, own_drop
                                                                     ? own.stack.residual_dropout
                                                                     : own.classifier_dropout}};
}

/* Of RoBERTa, ELECTRA, MPNet and DeBERTa what the first of the two dense layers reads is dropped
 * too. */
static void bert_head_drop(bp_builder *builder, uint64_t width, bp_ref x)
{
    const bp_bert_config own = bp_bert_config_of(&builder->spec->config);
    const bp_dropout dropout = {2 + 3 * own.stack.layers, own.kind == BP_DEBERTA
                                                              ? own.pooler_dropout
                                                              : own.classifier_dropout};
    if (own.kind == BP_ROBERTA || own.kind == BP_ELECTRA || own.kind == BP_MPNET ||
        own.kind == BP_DEBERTA) {
        (void)bp_sample_drop(builder, &dropout, width, x, x);
    }
}

static bp_activation pooler_activation(const bp_builder *builder)
{
    const bp_bert_config own = bp_bert_config_of(&builder->spec->config);
    return own.kind == BP_DISTILBERT                          ? BP_ACTIVATION_RELU
           : own.kind == BP_ELECTRA || own.kind == BP_DEBERTA ? BP_ACTIVATION_GELU_ERF
                                                              : BP_ACTIVATION_TANH;
}

/* What the pooler makes of the first token of each sample, and what tanh reads. */
typedef struct pooled {
    bp_ref first;  /* (batch, width) */
    bp_ref before; /* (batch, width); the same as `out` without backward */
    bp_ref out;    /* (batch, width) */
} pooled;

static pooled pool(bp_builder *builder, const bp_linear *pooler, bp_ref x, bool backward)
{
    pooled p = {.first = bp_sample_pick(builder, pooler->in, BP_SAMPLE_FIRST, x)};
    bert_head_drop(builder, pooler->in, p.first);
    bp_samples_begin(builder);
    p.before = bert_head_make(builder, pooler->out, "pooler");
    p.out = backward ? bert_head_make(builder, pooler->out, "tanh") : p.before;
    bp_linear_forward(builder, pooler, p.first, BP_ABSENT, p.before);
    bp_activate(builder, pooler_activation(builder), builder->rows * pooler->out, p.before, p.out);
    bp_samples_end(builder);
    return p;
}

static void backward_judge(bp_builder *builder, bp_stage_call *call, uint32_t first)
{
    const bp_linear pooler =
        dense(builder, first + POOLER, bp_transformer_of(&builder->spec->config).width);
    const bp_classifier classifier = describe_classifier(builder, first);
    const pooled p = pool(builder, &pooler, call->input, true);
    const bp_ref d = bp_classifier_backward(builder, &classifier, p.out);
    bp_samples_begin(builder);
    bp_activate_backward(builder, pooler_activation(builder), builder->rows * pooler.out, p.before,
                         d, d);
    bp_linear_backward_parameters(builder, &pooler, p.first, d);
    const bp_ref d_first = bert_head_make(builder, pooler.in, "d_pooler");
    bp_linear_backward_input(builder, &pooler, d, d_first);
    bert_head_drop(builder, pooler.in, d_first);
    bp_samples_end(builder);
    call->d_input = call->input_wanted
                        ? bp_sample_spread(builder, pooler.in, BP_SAMPLE_FIRST, d_first)
                        : BP_ABSENT;
}

/* The transform of the masked language model's head. */
typedef struct transform {
    bp_linear dense;
    bp_norm norm;
    bp_head head;
    bp_ref before;     /* (rows, width) what GELU reads; `active` without backward */
    bp_ref active;     /* (rows, width) what the norm reads */
    bp_ref statistics; /* (2, rows); absent without backward */
    bp_ref out;        /* (rows, width) */
} transform;

/* RoBERTa, ELECTRA and MPNet have GELU there whatever their blocks have. */
static uint32_t transform_act(const bp_bert_config *own)
{
    const bool own_act =
        own->kind == BP_BERT || own->kind == BP_DISTILBERT || own->kind == BP_DEBERTA;
    return own_act ? own->stack.activation : BP_HIDDEN_GELU;
}

static transform guess(bp_builder *builder, bp_ref x, uint32_t first, bool backward)
{
    const bp_model_config *config = &builder->spec->config;
    const bp_bert_config own = bp_bert_config_of(config);
    const uint64_t width = bp_bert_embedding_width(&own);
    transform t = {.dense = dense(builder, first + TRANSFORM, width),
                   .norm = {first + NORM, first + NORM + 1, width, own.stack.norm_epsilon, false},
                   .head = {0, first + VOCABULARY_BIAS, config->vocabulary, width, 0.0},
                   .statistics = BP_ABSENT};
    t.before = bert_head_make(builder, width, "transform");
    t.active = backward ? bert_head_make(builder, width, "gelu") : t.before;
    bp_linear_forward(builder, &t.dense, x, BP_ABSENT, t.before);
    bp_hidden_act_forward(builder, transform_act(&own), builder->rows * width, t.before, t.active);
    t.out = bert_head_make(builder, width, "norm");
    if (backward) {
        t.statistics = bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, 2, builder->rows,
                                       "norm.statistics");
    }
    bp_norm_forward(builder, &t.norm, builder->rows, t.active, t.out, t.statistics);
    return t;
}

static void backward_guess(bp_builder *builder, bp_stage_call *call, uint32_t first)
{
    const transform t = guess(builder, call->input, first, true);
    const bp_ref d = t.out;
    bp_loss_backward(builder, &t.head, t.out, d, BP_ABSENT);
    const bp_norm_backward_call norm = {t.active, t.statistics, d, BP_ABSENT, true, false};
    bp_norm_backward(builder, &t.norm, &norm);
    const bp_bert_config own = bp_bert_config_of(&builder->spec->config);
    bp_hidden_act_backward(builder, transform_act(&own), builder->rows * t.dense.out, t.before, d,
                           d);
    bp_linear_backward_parameters(builder, &t.dense, call->input, d);
    call->d_input = BP_ABSENT;
    if (call->input_wanted) {
        call->d_input = bert_head_make(builder, t.dense.in, "d_input");
        bp_linear_backward_input(builder, &t.dense, d, call->d_input);
    }
}

static void forward_judge(bp_builder *builder, bp_stage_call *call, uint32_t first)
{
    const bp_linear pooler =
        dense(builder, first + POOLER, bp_transformer_of(&builder->spec->config).width);
    const bp_classifier classifier = describe_classifier(builder, first);
    const pooled p = pool(builder, &pooler, call->input, false);
    bp_classifier_forward(builder, &classifier, p.out);
}

static void forward_guess(bp_builder *builder, bp_stage_call *call, uint32_t first)
{
    const transform t = guess(builder, call->input, first, false);
    bp_loss_forward(builder, &t.head, t.out);
}

/* Every token's class is what a language model's next token is: one of the rows of a table. */
static bp_head describe_tags(const bp_builder *builder, uint32_t first)
{
    const bp_model_config *config = &builder->spec->config;
    return (bp_head){first, first + 1, config->classes, bp_transformer_of(config).width, 0.0};
}

static void forward_tags(bp_builder *builder, bp_stage_call *call, uint32_t first)
{
    const bp_head head = describe_tags(builder, first);
    bp_loss_forward(builder, &head, call->input);
}

static void backward_tags(bp_builder *builder, bp_stage_call *call, uint32_t first)
{
    const bp_head head = describe_tags(builder, first);
    const bp_dropout dropout = describe_classifier(builder, first).dropout;
    const bool drops = bp_dropout_probability(builder, &dropout) > 0.0;
    const bp_ref d = bert_head_make(builder, head.width, "d_input");
    if (drops) {
        bp_dropout_apply(builder, &dropout, head.width, call->input, BP_ABSENT, d);
    }
    bp_loss_backward(builder, &head, drops ? d : call->input, d, BP_ABSENT);
    if (drops) {
        bp_dropout_apply(builder, &dropout, head.width, d, BP_ABSENT, d);
    }
    call->d_input = call->input_wanted ? d : BP_ABSENT;
}

static bp_answer describe_answer(const bp_builder *builder, uint32_t first)
{
    return (bp_answer){first, first + 1, bp_transformer_of(&builder->spec->config).width};
}

static void forward_answer(bp_builder *builder, bp_stage_call *call, uint32_t first)
{
    const bp_answer head = describe_answer(builder, first);
    bp_answer_forward(builder, &head, call->input);
}

static void backward_answer(bp_builder *builder, bp_stage_call *call, uint32_t first)
{
    const bp_answer head = describe_answer(builder, first);
    const bp_bert_config own = bp_bert_config_of(&builder->spec->config);
    const bp_dropout dropout = {1 + 3 * own.stack.layers,
                                own.kind == BP_DISTILBERT ? own.pooler_dropout : 0.0};
    const bool drops = bp_dropout_probability(builder, &dropout) > 0.0;
    bp_ref read = call->input;
    call->d_input = call->input_wanted ? bert_head_make(builder, head.width, "d_input") : BP_ABSENT;
    if (drops) {
        read = bert_head_make(builder, head.width, "dropped");
        bp_dropout_apply(builder, &dropout, head.width, call->input, BP_ABSENT, read);
    }
    bp_answer_backward(builder, &head, read, call->d_input);
    if (drops && call->input_wanted) {
        bp_dropout_apply(builder, &dropout, head.width, call->d_input, BP_ABSENT, call->d_input);
    }
}

static void forward_vector(bp_builder *builder, bp_stage_call *call, uint32_t first)
{
    (void)first;
    bp_vector_forward(builder, bp_transformer_of(&builder->spec->config).width, call->input);
}

static void backward_vector(bp_builder *builder, bp_stage_call *call, uint32_t first)
{
    (void)first;
    const bp_ref d =
        bp_vector_backward(builder, bp_transformer_of(&builder->spec->config).width, call->input);
    call->d_input = call->input_wanted ? d : BP_ABSENT;
}

static const bert_head *head_of(const bp_model_config *config)
{
    static const bert_head guesses = {5, forward_guess, backward_guess},
                           judges = {4, forward_judge, backward_judge},
                           tags = {2, forward_tags, backward_tags},
                           answers = {2, forward_answer, backward_answer},
                           vectors = {0, forward_vector, backward_vector};
    const bp_task task = config->task;
    return task < BP_TASK_CLASSES         ? &guesses
           : bp_task_scores_samples(task) ? &judges
           : task == BP_TASK_TOKENS       ? &tags
           : task == BP_TASK_ANSWERS      ? &answers
                                          : &vectors;
}

void bp_bert_head_forward(bp_builder *builder, bp_stage_call *call, uint32_t first)
{
    head_of(&builder->spec->config)->forward(builder, call, first);
    call->output = BP_ABSENT;
}

void bp_bert_head_backward(bp_builder *builder, bp_stage_call *call, uint32_t first)
{
    head_of(&builder->spec->config)->backward(builder, call, first);
}
