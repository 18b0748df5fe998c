/* SPDX-License-Identifier: MIT */
/* merges.txt, vocab.txt and tokenizer_config.json. */
#include <string.h>

#include "tools/formats/text/token_load.h"

static bp_status token_files_refuse(bp_load *load, const char *name, const char *text)
{
    return bp_error_set(load->error, BP_ERR_DATA, "tokenizer", text, name);
}

/* A first line of "#version: ..", then "a b" a line. */
bp_status bp_load_merges_txt(bp_load *load)
{
    for (bool first = true;; first = false) {
        size_t length;
        bool there;
        BP_TRY(bp_load_line(load, &length, &there));
        if (!there) {
            return BP_OK;
        }
        const char *line = load->scratch->text;
        bool version = first && length >= 8 && memcmp(line, "#version", 8) == 0;
        if (length == 0 || version) {
            continue;
        }
        const char *space = memchr(line, ' ', length);
        size_t left = space != NULL ? (size_t)(space - line) : 0;
        if (space == NULL || memchr(space + 1, ' ', length - left - 1) != NULL) {
            return bp_error_limit(load->error, BP_ERR_DATA, "tokenizer",
                                  "the merge of this number is not two tokens with one space "
                                  "between them",
                                  "merges", load->rank, BP_LIMIT_NONE, load->rank);
        }
        BP_TRY(bp_load_merge(load, line, left, space + 1, length - left - 1));
    }
}

/* One token a line; its id is the number of its line, from 0. */
bp_status bp_load_vocab_txt(bp_load *load)
{
    for (int64_t id = 0;; id++) {
        size_t length;
        bool there;
        BP_TRY(bp_load_line(load, &length, &there));
        if (!there) {
            return BP_OK;
        }
        BP_TRY(bp_load_token(load, load->scratch->text, length, id));
    }
}

void bp_load_config_default(bp_load_config *config)
{
    *config = (bp_load_config){.lower = true, .ideographs = true, .accents = -1};
}

static const char *const name_keys[BP_NAMES] = {"bos_token", "eos_token", "unk_token", "pad_token",
                                                "cls_token", "sep_token", "mask_token"};

/* The text of a string value that was begun; one that is too long is none. */
static bp_status take_text(bp_load *load, bp_json_event *event, char to[64])
{
    to[0] = '\0';
    bool fits = event->kind == BP_JSON_TEXT && event->length < 64;
    if (fits) {
        memcpy(to, event->text, event->length + 1);
    }
    while (event->kind == BP_JSON_TEXT_PART) {
        BP_TRY(bp_json_next(&load->json, event));
    }
    return BP_OK;
}

/* "<s>", {"content": "<s>", ..} or null. */
static bp_status take_name(bp_load *load, const char *key, char to[64])
{
    bp_json_event event;
    BP_TRY(bp_json_next(&load->json, &event));
    if (event.kind == BP_JSON_TEXT || event.kind == BP_JSON_TEXT_PART) {
        return take_text(load, &event, to);
    }
    if (event.kind != BP_JSON_OBJECT_BEGIN) {
        return event.kind == BP_JSON_NULL
                   ? BP_OK
                   : token_files_refuse(load, key,
                                        "this must be a text, an object with a content, or null");
    }
    for (;;) {
        BP_TRY(bp_json_next(&load->json, &event));
        if (event.kind == BP_JSON_OBJECT_END) {
            return BP_OK;
        }
        if (strcmp(event.text, "content") == 0) {
            BP_TRY(bp_json_next(&load->json, &event));
            if (event.kind != BP_JSON_TEXT && event.kind != BP_JSON_TEXT_PART) {
                return token_files_refuse(load, key, "the content must be a text");
            }
            BP_TRY(take_text(load, &event, to));
        } else {
            BP_TRY(bp_json_skip(&load->json));
        }
    }
}

static bp_status token_files_take_flag(bp_load *load, const char *key, bool *flag, bool *null)
{
    bp_json_event event;
    BP_TRY(bp_json_next(&load->json, &event));
    *null = event.kind == BP_JSON_NULL;
    if (event.kind != BP_JSON_TRUE && event.kind != BP_JSON_FALSE && !*null) {
        return token_files_refuse(load, key, "this must be true, false or null");
    }
    *flag = *null ? *flag : event.kind == BP_JSON_TRUE;
    return BP_OK;
}

static bp_status token_files_take_member(bp_load *load, const char *key, bp_load_config *config)
{
    bool accents = false;
    bool null;
    for (size_t i = 0; i < BP_NAMES; i++) {
        if (strcmp(key, name_keys[i]) == 0) {
            config->said[i] = true;
            return take_name(load, name_keys[i], config->names[i]);
        }
    }
    if (strcmp(key, "tokenizer_class") == 0) {
        return take_name(load, "tokenizer_class", config->class_name);
    }
    if (strcmp(key, "do_lower_case") == 0) {
        return token_files_take_flag(load, "do_lower_case", &config->lower, &null);
    }
    if (strcmp(key, "tokenize_chinese_chars") == 0) {
        return token_files_take_flag(load, "tokenize_chinese_chars", &config->ideographs, &null);
    }
    if (strcmp(key, "add_prefix_space") == 0) {
        return token_files_take_flag(load, "add_prefix_space", &config->space, &null);
    }
    if (strcmp(key, "add_bos_token") == 0) {
        config->bos_said = true;
        return token_files_take_flag(load, "add_bos_token", &config->add_bos, &null);
    }
    if (strcmp(key, "strip_accents") == 0) {
        BP_TRY(token_files_take_flag(load, "strip_accents", &accents, &null));
        config->accents = null ? -1 : accents;
        return BP_OK;
    }
    return bp_json_skip(&load->json);
}

/* The members of one object, into `config`. */
static bp_status token_files_take_members(bp_load *load, bp_load_config *config)
{
    bp_json_event event;
    BP_TRY(bp_load_json_begin(load));
    BP_TRY(bp_json_next(&load->json, &event));
    if (event.kind != BP_JSON_OBJECT_BEGIN) {
        return bp_json_refuse(&load->json, "the file must hold one JSON object");
    }
    for (;;) {
        BP_TRY(bp_json_next(&load->json, &event));
        if (event.kind == BP_JSON_OBJECT_END) {
            return bp_json_next(&load->json, &event);
        }
        BP_TRY(token_files_take_member(load, event.text, config));
    }
}

bp_status bp_load_tokenizer_config(bp_load *load)
{
    load->config.there = true;
    return token_files_take_members(load, &load->config);
}

bp_status bp_load_special_tokens_map(bp_load *load)
{
    bp_load_config map;
    bp_load_config_default(&map);
    BP_TRY(token_files_take_members(load, &map));
    for (size_t i = 0; i < BP_NAMES; i++) {
        if (map.said[i] && !load->config.said[i]) {
            load->config.said[i] = true;
            memcpy(load->config.names[i], map.names[i], sizeof map.names[i]);
        }
        load->config.there = load->config.there || map.said[i];
    }
    return BP_OK;
}
