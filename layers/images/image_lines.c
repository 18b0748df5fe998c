/* SPDX-License-Identifier: MIT */
/* Frozen layers by lines: which groups, and their ops. */
#include "layers/images/image_lines.h"

#include "layers/nodes/activate.h"

#define GROUP_MOST  8   /* layers */
#define IMAGES_MOST 16  /* of a micro-batch; each has ops of its own */
#define TURNS_MOST  256 /* of a group over an image: so have they */

/* Some lines of an image. */
typedef struct line_range {
    uint64_t first, count;
} line_range;

/* What moves a window over its input; NULL: a node whose output has the lines of its input. */
static const bp_image_window *lines_window(const bp_node *node)
{
    return node->kind == BP_NODE_CONVOLUTION ? &node->convolution.window
           : node->kind == BP_NODE_MAX_POOL || node->kind == BP_NODE_MEAN_POOL ? &node->window
                                                                               : NULL;
}

/* The lines that windows see which stand on some lines; at least one. */
static line_range lines_seen(const bp_image_window *w, line_range out)
{
    const uint64_t above = w->before[0], from = out.first * w->stride[0];
    const uint64_t last =
        (out.first + out.count - 1) * w->stride[0] + ((uint64_t)w->kernel[0] - 1) * w->dilation + 1;
    const uint64_t end = last <= above ? 1 : last - above < w->height ? last - above : w->height;
    uint64_t first = from > above ? from - above : 0;
    first = first < end ? first : end - 1;
    return (line_range){first, end - first};
}

static line_range lines_joined(line_range a, line_range b)
{
    const uint64_t a_end = a.first + a.count, b_end = b.first + b.count;
    const uint64_t first = a.first < b.first ? a.first : b.first;
    const uint64_t end = a_end > b_end ? a_end : b_end;
    return a.count == 0 ? b : b.count == 0 ? a : (line_range){first, end - first};
}

static uint32_t lines_inputs(const bp_node *node)
{
    return node->kind == BP_NODE_ADD ? 2 : 1;
}

/* The lines of every value of a block that some lines of its last one are made of. */
static void lines_need(const bp_block *block, line_range out, line_range need[BP_BLOCK_VALUES])
{
    for (uint32_t v = 0; v < block->values; v++) {
        need[v] = (line_range){0, 0};
    }
    need[block->values - 1] = out;
    for (uint32_t i = block->nodes; i-- > 0;) {
        const bp_node *node = &block->node[i];
        const bp_image_window *w = lines_window(node);
        const line_range made = need[node->out[0]];
        for (uint32_t k = 0; k < lines_inputs(node); k++) {
            line_range *to = &need[node->in[k]];
            *to = lines_joined(*to, w != NULL ? lines_seen(w, made) : made);
        }
    }
}

/* The last node that reads a value; the count of nodes: none does. */
static uint32_t lines_reader(const bp_block *block, uint32_t value, uint32_t *readers)
{
    uint32_t last = block->nodes;
    *readers = 0;
    for (uint32_t i = 0; i < block->nodes; i++) {
        for (uint32_t k = 0; k < lines_inputs(&block->node[i]); k++) {
            const bool reads = block->node[i].in[k] == value;
            last = reads ? i : last;
            *readers += reads ? 1 : 0;
        }
    }
    return last;
}

/* The value in whose place this one lies: the last of those that nodes make of it in place. */
static uint32_t lines_place(const bp_block *block, uint32_t value)
{
    uint32_t readers = 0;
    uint32_t i = lines_reader(block, value, &readers);
    while (value != 0 && readers == 1 && lines_window(&block->node[i]) == NULL &&
           block->node[i].in[0] == value) {
        value = block->node[i].out[0];
        i = lines_reader(block, value, &readers);
    }
    return value;
}

/* ---- Which groups ---- */

static uint64_t value_line(const bp_value *value)
{
    return bp_size_mul(value->shape[2], value->shape[3]);
}

/* Elements of what a convolution's windows see that are written down at a time: as
 * bp_convolution_forward cuts them. */
static uint64_t lines_written(const bp_node *node, uint64_t in_lines, uint64_t out_lines)
{
    const bp_convolution *layer = &node->convolution;
    bp_image_window w = layer->window;
    w.height = in_lines;
    w.out_height = out_lines;
    return node->kind != BP_NODE_CONVOLUTION || layer->depthwise ? 0
                                                                 : bp_image_written(&w, layer->out);
}

/* What computing some lines of a group takes. */
typedef struct lines_cost {
    uint64_t elements; /* at one time, beside what goes in and what comes out */
    double products;
} lines_cost;

/* Elements of values of a block that are there while node i runs; what goes in counts `inside` a
 * group, and so does what comes out `beneath` another layer of it. */
static uint64_t lines_live(const bp_block *block, const line_range *need, uint32_t i, bool inside,
                           bool beneath)
{
    const bp_node *node = &block->node[i];
    uint64_t elements = lines_written(node, need[node->in[0]].count, need[node->out[0]].count);
    bool counted[BP_BLOCK_VALUES] = {false};
    for (uint32_t k = 0, readers = 0; k <= i; k++) {
        const uint32_t made = block->node[k].out[0];
        const uint32_t place = lines_place(block, made);
        const bool wanted = k == i || lines_reader(block, made, &readers) >= i;
        const bool last = place + 1 == block->values;
        if (wanted && !counted[place] && (!last || beneath)) {
            counted[place] = true;
            elements += need[made].count * value_line(&block->value[made]);
        }
    }
    uint32_t readers = 0;
    if (inside && lines_reader(block, 0, &readers) >= i) {
        elements += need[0].count * value_line(&block->value[0]);
    }
    return elements;
}

static double lines_products(const bp_block *block, const line_range *need, const bp_node *node)
{
    const bp_convolution *layer = &node->convolution;
    const double each = (double)layer->window.kernel[0] * layer->window.kernel[1] *
                        (layer->depthwise ? 1.0 : (double)layer->window.channels);
    return node->kind == BP_NODE_CONVOLUTION
               ? each * (double)(need[node->out[0]].count * value_line(&block->value[node->out[0]]))
               : 0.0;
}

/* Adds what a block takes that makes `out` of a group's lines, and returns what it reads. */
static line_range lines_add(const bp_block *block, line_range out, bool inside, bool beneath,
                            lines_cost *cost)
{
    line_range need[BP_BLOCK_VALUES];
    lines_need(block, out, need);
    for (uint32_t i = 0; i < block->nodes; i++) {
        const uint64_t live = lines_live(block, need, i, inside, beneath);
        cost->elements = live > cost->elements ? live : cost->elements;
        cost->products += lines_products(block, need, &block->node[i]);
    }
    return need[0];
}

/* Groups are chosen from the first layer on: what is best up to each. */
typedef struct lines_best {
    uint64_t elements[BP_CNN_LAYERS_MAX + 1];
    double products[BP_CNN_LAYERS_MAX + 1];
    uint8_t first[BP_CNN_LAYERS_MAX + 1]; /* of the group that ends there, and its lines */
    uint16_t lines[BP_CNN_LAYERS_MAX + 1];
    uint64_t most; /* elements that a group may take; UINT64_MAX: the least is looked for */
} lines_best;

static void lines_take(lines_best *best, uint32_t first, uint32_t end, uint64_t lines,
                       uint64_t elements, double products)
{
    const uint64_t before = best->elements[first];
    const uint64_t both = elements > before ? elements : before;
    const double all = best->products[first] + products;
    const bool fits = best->most == UINT64_MAX ? both < best->elements[end]
                                               : both <= best->most && all < best->products[end];
    if (fits) {
        best->elements[end] = both;
        best->products[end] = all;
        best->first[end] = (uint8_t)first;
        best->lines[end] = (uint16_t)lines;
    }
}

/* Every group that ends behind layer end - 1 and makes so many lines at a time. In the middle of
 * an image a turn sees most. */
static void lines_try(const bp_builder *builder, const bp_cnn_config *own, uint32_t end,
                      uint64_t lines, lines_best *best)
{
    bp_block *block = bp_block_room(builder);
    uint64_t shape[3];
    bp_cnn_shape(own, end, shape);
    const uint64_t turns = bp_size_ceil_div(shape[0], lines);
    const uint64_t made = shape[0] * shape[1] * shape[2] * builder->spec->batch;
    line_range out = {turns / 2 * lines, lines};
    lines_cost cost = {0, 0.0};
    out.first = out.first + lines > shape[0] ? 0 : out.first;
    for (uint32_t first = end; first-- > 0 && end - first <= GROUP_MOST;) {
        uint64_t from[3];
        lines_cost one = cost;
        bp_cnn_shape(own, first, from);
        bp_cnn_describe(1, own, first, block);
        lines_add(block, out, first == 0 && builder->spec->pixels.there, first + 1 < end, &one);
        const uint64_t read = first > 0 ? from[0] * from[1] * from[2] * builder->spec->batch : 0;
        lines_take(best, first, end, lines, one.elements + made + read,
                   one.products * (double)turns);
        out = lines_add(block, out, true, first + 1 < end, &cost);
    }
}

static void lines_search(const bp_builder *builder, const bp_cnn_config *own, uint32_t layers,
                         lines_best *best)
{
    best->elements[0] = 0;
    best->products[0] = 0.0;
    for (uint32_t end = 1; end <= layers; end++) {
        uint64_t shape[3];
        bp_cnn_shape(own, end, shape);
        best->elements[end] = UINT64_MAX;
        best->products[end] = 1e300;
        for (uint64_t lines = shape[0];; lines = (lines + 1) / 2) {
            lines_try(builder, own, end, lines, best);
            if (lines == 1 || bp_size_ceil_div(shape[0], (lines + 1) / 2) > TURNS_MOST) {
                break;
            }
        }
    }
}

/* What a layer that is trained takes in any case: what goes into a convolution and the gradient of
 * what comes out, or, `wanted`, the gradients of both, and of what the windows see of an image; or
 * what a norm reads, and what it makes. */
static uint64_t lines_trained(const bp_builder *builder, const bp_cnn_config *own, uint32_t layer,
                              bool wanted)
{
    bp_block *block = bp_block_room(builder);
    uint64_t most = 0;
    bp_cnn_describe(builder->spec->batch, own, layer, block);
    for (uint32_t i = 0; i < block->nodes; i++) {
        const bp_node *node = &block->node[i];
        const bp_image_window *w = lines_window(node);
        const bool sees = w != NULL && node->kind == BP_NODE_CONVOLUTION &&
                          !node->convolution.depthwise && w->kernel[0] * w->kernel[1] > 1;
        const uint64_t seen =
            sees && (wanted || i > 0)
                ? w->out_height * w->out_width * w->channels * w->kernel[0] * w->kernel[1]
                : 0;
        const uint64_t elements =
            w == NULL ? 0
                      : seen + builder->spec->batch *
                                   (w->height * w->width * w->channels +
                                    w->out_height * value_line(&block->value[node->out[0]]));
        const bool norm = node->kind == BP_NODE_BATCH_NORM &&
                          bp_batch_norm_trains(builder, &node->batch_norm) &&
                          bp_batch_norm_reads(builder, &node->batch_norm);
        const bp_value *value = &block->value[node->out[0]];
        const uint64_t both = norm ? 2 * value->shape[0] * value->shape[1] * value_line(value) : 0;
        most = elements > most ? elements : most;
        most = both > most ? both : most;
    }
    return most;
}

/* Layers before the first that trains a parameter. */
static uint32_t lines_frozen(const bp_builder *builder, const bp_cnn_config *own)
{
    for (uint32_t layer = 0; layer < own->layers; layer++) {
        const uint32_t end = bp_cnn_first(own, layer + 1);
        for (uint32_t i = bp_cnn_first(own, layer); i < end; i++) {
            if (bp_build_trainable(builder, i)) {
                return layer;
            }
        }
    }
    return own->layers;
}

void bp_image_lines_choose(const bp_builder *builder, const bp_cnn_config *own,
                           bp_image_lines *lines)
{
    const bp_spec *spec = builder->spec;
    const uint32_t images = spec->evaluate && bp_spec_eval_batch(spec) > spec->batch
                                ? bp_spec_eval_batch(spec)
                                : spec->batch;
    lines_best best = {.most = UINT64_MAX};
    lines->layers = 0;
    if (builder->status != BP_OK || spec->optimizer == NULL || spec->lora.rank > 0 ||
        !bp_image_keeps_little(builder) || images > IMAGES_MOST) {
        return;
    }
    const uint32_t layers = lines_frozen(builder, own);
    lines_search(builder, own, layers, &best);
    best.most = best.elements[layers];
    for (uint32_t layer = layers; layer < own->layers; layer++) {
        const uint64_t least = lines_trained(builder, own, layer, layer > layers);
        best.most = least > best.most ? least : best.most;
    }
    lines_search(builder, own, layers, &best);
    for (uint32_t end = layers; end > 0; end = best.first[end]) {
        for (uint32_t layer = best.first[end]; layer < end; layer++) {
            lines->first[layer] = best.first[end];
            lines->end[layer] = (uint8_t)end;
            lines->lines[layer] = best.lines[end];
        }
    }
    lines->layers = layers;
}

bool bp_image_lines_there(const bp_cnn_config *own, const bp_image_lines *lines, uint32_t layer)
{
    uint64_t shape[3];
    bp_cnn_shape(own, layer + 1, shape);
    return layer < lines->layers &&
           (lines->end[layer] - lines->first[layer] > 1 || lines->lines[layer] < shape[0]);
}

/* ---- Their ops ---- */

/* Where line `line` of a value begins of which those of `have` are there. */
static bp_ref line_at(const bp_value *value, bp_ref ref, line_range have, uint64_t line)
{
    return bp_ref_at(ref, (line - have.first) * value_line(value));
}

/* A block's lines while its nodes run. */
typedef struct lines_run {
    const bp_block *block;
    line_range need[BP_BLOCK_VALUES];
    bp_ref ref[BP_BLOCK_VALUES]; /* of the first line that is there */
    bp_ref to;                   /* where its output is to lie */
} lines_run;

static void lines_give_place(bp_builder *builder, lines_run *run, uint32_t value)
{
    const uint32_t place = lines_place(run->block, value);
    const bp_value *of = &run->block->value[value];
    if (place + 1 == run->block->values) {
        run->ref[place] = run->to;
    } else if (!bp_ref_present(run->ref[place])) {
        run->ref[place] =
            bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                            run->need[value].count * of->shape[2], of->shape[3], of->name);
    }
    run->ref[value] = run->ref[place];
}

static bp_image_window lines_cut(const bp_image_window *w, line_range out)
{
    const line_range seen = lines_seen(w, out);
    bp_image_window cut = *w;
    cut.height = seen.count;
    cut.out_height = out.count;
    cut.before[0] = (uint32_t)(w->before[0] + seen.first - out.first * w->stride[0]);
    return cut;
}

static void lines_window_node(bp_builder *builder, const lines_run *run, const bp_node *node)
{
    const bp_image_window *w = lines_window(node);
    const line_range out = run->need[node->out[0]];
    const bp_image_window cut = lines_cut(w, out);
    const uint32_t in = node->in[0];
    const bp_ref y = run->ref[node->out[0]];
    const bp_ref x =
        line_at(&run->block->value[in], run->ref[in], run->need[in], lines_seen(w, out).first);
    if (node->kind == BP_NODE_MAX_POOL) {
        bp_pool_max_forward(builder, &cut, x, y, BP_ABSENT);
    } else if (node->kind == BP_NODE_MEAN_POOL) {
        bp_pool_mean_forward(builder, &cut, x, y);
    } else {
        bp_convolution layer = node->convolution;
        layer.window = cut;
        bp_convolution_forward(builder, &layer, x, y);
    }
}

static void lines_node(bp_builder *builder, const lines_run *run, const bp_node *node)
{
    const line_range out = run->need[node->out[0]];
    const bp_value *value = &run->block->value[node->out[0]];
    const uint64_t count = out.count * value_line(value);
    const bp_ref y = run->ref[node->out[0]];
    bp_ref from[2] = {BP_ABSENT, BP_ABSENT};
    for (uint32_t k = 0; k < lines_inputs(node); k++) {
        const uint32_t in = node->in[k];
        from[k] = line_at(&run->block->value[in], run->ref[in], run->need[in], out.first);
    }
    if (node->kind == BP_NODE_BATCH_NORM) {
        bp_batch_norm norm = node->batch_norm;
        norm.places = out.count * value->shape[2];
        bp_batch_norm_forward(builder, &norm, from[0], y, BP_ABSENT, false);
    } else if (node->kind == BP_NODE_ACTIVATION) {
        bp_activate(builder, node->activation, count, from[0], y);
    } else {
        const bp_dropout_scalars sum = {.count = (int64_t)count, .per_sample = (int64_t)count};
        const bp_dropout_operands parts = {
            .y = y, .x = from[0], .residual = from[1], .step = builder->step};
        bp_build_dropout(builder, &parts, &sum);
    }
}

/* `out` of a block's output, whose place is `to`, from its input's lines; x is the first of those
 * that are needed, or NULL: absent where it makes it itself. */
static void lines_block(bp_builder *builder, const bp_block *block, line_range out, bp_ref x,
                        bp_ref to)
{
    lines_run run = {.block = block, .to = to};
    lines_need(block, out, run.need);
    for (uint32_t v = 0; v < BP_BLOCK_VALUES; v++) {
        run.ref[v] = BP_ABSENT;
    }
    run.ref[0] = x;
    for (uint32_t i = 0; i < block->nodes; i++) {
        const bp_node *node = &block->node[i];
        lines_give_place(builder, &run, node->out[0]);
        if (lines_window(node) != NULL) {
            lines_window_node(builder, &run, node);
        } else {
            lines_node(builder, &run, node);
        }
    }
}

/* Some lines of what a group reads, an image of which begins at element `from` of x. */
static bp_ref lines_read(bp_builder *builder, const bp_value *value, uint32_t first, bp_ref x,
                         uint64_t from, line_range lines)
{
    const uint64_t at = from + lines.first * value_line(value);
    return first == 0 && builder->spec->pixels.there
               ? bp_image_pixels(builder, value->shape[3], at, lines.count * value_line(value))
               : bp_ref_at(x, at);
}

/* Layers of a group, from `first` to before `end`. */
typedef struct line_group {
    const bp_cnn_config *own;
    uint32_t first;
    uint32_t end;
} line_group;

/* One turn: `out` lines of an image that the group makes, in their place. */
static void lines_turn(bp_builder *builder, const line_group *group, line_range out, bp_ref x,
                       uint64_t from, bp_ref to, bp_block *block)
{
    const uint32_t first = group->first, end = group->end;
    line_range made[GROUP_MOST + 1], need[BP_BLOCK_VALUES];
    made[end - first] = out;
    for (uint32_t layer = end; layer-- > first;) {
        bp_cnn_describe(1, group->own, layer, block);
        lines_need(block, made[layer - first + 1], need);
        made[layer - first] = need[0];
    }
    for (uint32_t layer = first; layer < end; layer++) {
        const line_range lines = made[layer - first + 1];
        bp_cnn_describe(1, group->own, layer, block);
        const bp_value *value = &block->value[block->values - 1];
        if (layer == first) {
            x = lines_read(builder, &block->value[0], first, x, from, made[0]);
        }
        const bp_ref y =
            layer + 1 == end
                ? to
                : bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                  lines.count * value->shape[2], value->shape[3], value->name);
        lines_block(builder, block, lines, x, y);
        x = y;
    }
}

bp_ref bp_image_lines_forward(bp_builder *builder, const bp_cnn_config *own,
                              const bp_image_lines *lines, uint32_t layer, bp_ref x,
                              bp_block *block)
{
    const uint32_t first = lines->first[layer], end = lines->end[layer];
    const uint64_t images = builder->rows;
    uint64_t from[3], shape[3];
    bp_cnn_shape(own, first, from);
    bp_cnn_shape(own, end, shape);
    const uint64_t line = shape[1] * shape[2];
    bp_cnn_describe(1, own, layer, block);
    const bp_ref y = bp_build_buffer(builder, builder->output_class, bp_build_working(builder),
                                     images * shape[0] * shape[1], shape[2],
                                     block->value[block->values - 1].name);
    const line_group group = {own, first, end};
    builder->rows = 1;
    for (uint64_t image = 0; image < images; image++) {
        for (uint64_t at = 0; at < shape[0]; at += lines->lines[layer]) {
            const uint64_t left = shape[0] - at, most = lines->lines[layer];
            const line_range out = {at, left < most ? left : most};
            lines_turn(builder, &group, out, x, image * from[0] * from[1] * from[2],
                       bp_ref_at(y, (image * shape[0] + at) * line), block);
        }
    }
    builder->rows = images;
    return y;
}
