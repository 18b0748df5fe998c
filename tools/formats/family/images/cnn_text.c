/* SPDX-License-Identifier: MIT */
/* Layers of convolutional nets as texts. */
#include "tools/formats/family/images/cnn_text.h"

#include <string.h>

#include "layers/images/image.h"

#define CHANNELS_MOST (1u << 14)
#define WINDOW_MOST   253u /* a byte, below the words of a padding */

/* What stands behind a kind's name. */
typedef struct cnn_form {
    const char *name;
    bool channels;
    bool kernel;
    bool pool;
    bool whole; /* dense: its window is the image */
    bool may_plain;
} cnn_form;

static const cnn_form forms[BP_CNN_KIND_COUNT] = {
    [BP_CNN_CONV] = {"conv", true, true, false, false, true},
    [BP_CNN_DEPTHWISE] = {"depthwise", false, true, false, false, true},
    [BP_CNN_SEPARABLE] = {"separable", true, true, false, false, false},
    [BP_CNN_DENSE] = {"dense", true, false, false, true, true},
    [BP_CNN_BASIC] = {"basic", true, false, false, false, false},
    [BP_CNN_BOTTLENECK] = {"bottleneck", true, false, false, false, false},
    [BP_CNN_MAX_POOL] = {"max-pool", false, true, true, false, false},
    [BP_CNN_MEAN_POOL] = {"mean-pool", false, true, true, false, false}};

/* Takes `word` at the walk's place, with the spaces behind it. */
static bool take_word(const char **at, const char *word)
{
    const size_t length = strlen(word);
    if (strncmp(*at, word, length) != 0 || ((*at)[length] != ' ' && (*at)[length] != '\0')) {
        return false;
    }
    *at += length;
    *at += strspn(*at, " ");
    return true;
}

/* A whole number from 1 (or 0) to `most`, which ends at a space, at `x` or at the text's end. */
static bool take_number(const char **at, uint32_t least, uint32_t most, uint32_t *number)
{
    const size_t digits = strspn(*at, "0123456789");
    uint32_t value = 0;
    if (digits == 0 || digits > 5) {
        return false;
    }
    for (size_t i = 0; i < digits; i++) {
        value = value * 10 + (uint32_t)((*at)[i] - '0');
    }
    *at += digits;
    *number = value;
    const bool ends = **at == ' ' || **at == '\0' || **at == 'x';
    *at += **at == ' ' ? strspn(*at, " ") : 0;
    return ends && value >= least && value <= most;
}

/* N, or HEIGHTxWIDTH. */
static bool take_pair(const char **at, uint8_t pair[2])
{
    uint32_t first, second;
    if (!take_number(at, 1, WINDOW_MOST, &first)) {
        return false;
    }
    second = first;
    if (**at == 'x') {
        ++*at;
        if (!take_number(at, 1, WINDOW_MOST, &second) || **at == 'x') {
            return false;
        }
    }
    pair[0] = (uint8_t)first;
    pair[1] = (uint8_t)second;
    return true;
}

static bool take_padding(const char **at, uint8_t *padding)
{
    uint32_t number;
    if (take_word(at, "same")) {
        *padding = BP_PADDING_SAME;
        return true;
    }
    if (take_word(at, "half")) {
        *padding = BP_PADDING_HALF;
        return true;
    }
    const bool good = take_number(at, 0, WINDOW_MOST, &number) && **at != 'x';
    *padding = good ? (uint8_t)number : 0;
    return good;
}

/* What may stand behind the sizes; `given` has a bit for each that was there. */
static bool take_more(const char **at, const cnn_form *form, bp_cnn_layer *layer, uint32_t *given)
{
    uint32_t bit = 0;
    bool good = false;
    if (!form->whole && take_word(at, "stride")) {
        bit = 1;
        good = take_pair(at, layer->stride);
    } else if (!form->whole && take_word(at, "padding")) {
        bit = 2;
        good = take_padding(at, &layer->padding);
    } else if (form->may_plain && take_word(at, "plain")) {
        bit = 4;
        layer->plain = 1;
        good = true;
    } else if (form->may_plain && take_word(at, "linear")) {
        bit = 8;
        layer->linear = 1;
        good = true;
    }
    const bool twice = (*given & bit) != 0;
    *given |= bit;
    return good && !twice;
}

bool bp_cnn_layer_read(const char *text, bp_cnn_layer *layer)
{
    uint32_t kind = 0, given = 0;
    const char *at = text;
    *layer = (bp_cnn_layer){.stride = {1, 1}};
    while (kind < BP_CNN_KIND_COUNT &&
           (forms[kind].name == NULL || !take_word(&at, forms[kind].name))) {
        kind++;
    }
    if (kind == BP_CNN_KIND_COUNT) {
        return false;
    }
    const cnn_form *form = &forms[kind];
    layer->kind = (uint8_t)kind;
    layer->padding = form->pool || form->whole ? 0 : BP_PADDING_HALF;
    if (form->channels && (!take_number(&at, 1, CHANNELS_MOST, &layer->channels) || *at == 'x')) {
        return false;
    }
    const bool all = form->pool && take_word(&at, "all");
    if (form->kernel && !all && !take_pair(&at, layer->kernel)) {
        return false;
    }
    while (*at != '\0') {
        if (!take_more(&at, form, layer, &given)) {
            return false;
        }
    }
    return true;
}

static void put_pair(bp_text *text, const uint8_t pair[2])
{
    bp_text_u64(text, pair[0]);
    if (pair[1] != pair[0]) {
        bp_text_char(text, 'x');
        bp_text_u64(text, pair[1]);
    }
}

static void put_padding(bp_text *text, uint32_t padding)
{
    if (padding == BP_PADDING_SAME || padding == BP_PADDING_HALF) {
        bp_text_string(text, padding == BP_PADDING_SAME ? "same" : "half");
    } else {
        bp_text_u64(text, padding);
    }
}

void bp_cnn_layer_put(bp_text *text, const bp_cnn_layer *layer)
{
    const cnn_form *form = &forms[layer->kind < BP_CNN_KIND_COUNT ? layer->kind : 0];
    bp_text_string(text, form->name);
    if (form->channels) {
        bp_text_char(text, ' ');
        bp_text_u64(text, layer->channels);
    }
    if (form->kernel) {
        bp_text_char(text, ' ');
        if (layer->kernel[0] == 0) {
            bp_text_string(text, "all");
        } else {
            put_pair(text, layer->kernel);
        }
    }
    if (layer->stride[0] > 1 || layer->stride[1] > 1) {
        bp_text_string(text, " stride ");
        put_pair(text, layer->stride);
    }
    if (layer->padding != (form->pool || form->whole ? 0 : BP_PADDING_HALF)) {
        bp_text_string(text, " padding ");
        put_padding(text, layer->padding);
    }
    bp_text_string(text, layer->plain != 0 ? " plain" : "");
    bp_text_string(text, layer->linear != 0 ? " linear" : "");
}

void bp_cnn_layers_put(bp_json_writer *json, const char *key, const bp_model_config *config)
{
    const bp_cnn_config own = bp_cnn_config_of(config);
    bp_json_put_open(json, key, '[');
    for (uint32_t i = 0; i < own.layers && i < BP_CNN_LAYERS_MAX; i++) {
        bp_json_put_member(json, NULL);
        bp_text_char(json->text, '"');
        bp_cnn_layer_put(json->text, &own.layer[i]);
        bp_text_char(json->text, '"');
    }
    bp_json_put_close(json);
}

bool bp_cnn_same(const bp_model_config *a, const bp_model_config *b)
{
    const bp_cnn_config first = bp_cnn_config_of(a), second = bp_cnn_config_of(b);
    bool same = first.layers == second.layers;
    for (uint32_t i = 0; same && i < first.layers && i < BP_CNN_LAYERS_MAX; i++) {
        same = memcmp(&first.layer[i], &second.layer[i], sizeof first.layer[i]) == 0;
    }
    return same;
}
