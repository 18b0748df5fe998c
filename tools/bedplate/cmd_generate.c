/* SPDX-License-Identifier: MIT */
/* bedplate generate: continues a prompt with a planned cache of keys and values. */
#include <stdlib.h>
#include <string.h>

#include "tools/bedplate/output.h"
#include "tools/bedplate/progress.h"
#include "tools/bedplate/sample.h"
#include "tools/bedplate/session.h"
#include "tools/bedplate/verbs.h"
#include "tools/formats/byte_tokenizer.h"

static const char where[] = "generate";

typedef struct generation {
    session s;
    int32_t *ids; /* the prompt, then what is written */
    uint32_t prompt;
    uint32_t count;
    uint32_t room;
    uint32_t *order; /* for sampling */
    double seconds;
} generation;

static bp_status room_for(generation *g, size_t prompt)
{
    uint64_t positions = g->s.spec.config.positions;
    uint64_t most = g->s.set->max_new_tokens;
    if (prompt == 0) {
        return bp_error_set(&g->s.error, BP_ERR_USAGE, where, "the prompt is empty", "--prompt");
    }
    if (prompt + most > positions) {
        return bp_error_numbers(&g->s.error, BP_ERR_USAGE, where,
                                "the prompt and the new tokens are longer than the model's "
                                "n_positions",
                                "--max-new-tokens", (int64_t)(prompt + most), (int64_t)positions);
    }
    g->room = (uint32_t)(prompt + most);
    g->ids = malloc(g->room * sizeof *g->ids);
    g->order = malloc((size_t)g->s.spec.config.vocabulary * sizeof *g->order);
    if (g->ids == NULL || g->order == NULL) {
        return bp_error_set(&g->s.error, BP_ERR_FIT, where, "no memory for the tokens", "");
    }
    return BP_OK;
}

static bp_status bytes_prompt(generation *g)
{
    const char *text = g->s.set->prompt;
    if (g->s.spec.config.vocabulary != BP_BYTE_VOCABULARY) {
        return bp_error_numbers(&g->s.error, BP_ERR_DATA, where,
                                "a text prompt needs a model over bytes; give --prompt-ids",
                                "--prompt", g->s.spec.config.vocabulary, BP_BYTE_VOCABULARY);
    }
    BP_TRY(room_for(g, strlen(text)));
    for (; *text != '\0'; text++) {
        g->ids[g->count++] = (unsigned char)*text;
    }
    return BP_OK;
}

static bp_status wrong_ids(generation *g)
{
    return bp_error_set(&g->s.error, BP_ERR_USAGE, where,
                        "the value is not a list of token ids such as 1,2,3", "--prompt-ids");
}

static bp_status check_id(generation *g, long id)
{
    if (id < 0 || id >= (long)g->s.spec.config.vocabulary) {
        return bp_error_numbers(&g->s.error, BP_ERR_DATA, where,
                                "a token id is not below the model's vocabulary", "--prompt-ids",
                                id, (int64_t)g->s.spec.config.vocabulary - 1);
    }
    return BP_OK;
}

static bp_status ids_prompt(generation *g)
{
    const char *text = g->s.set->prompt_ids;
    size_t numbers = 1;
    for (const char *c = text; *c != '\0'; c++) {
        numbers += strchr(", ", *c) != NULL ? 1 : 0;
    }
    BP_TRY(room_for(g, numbers));
    while (*text != '\0') {
        char *end;
        long id = strtol(text, &end, 10);
        if (end == text || (*end != '\0' && strchr(", ", *end) == NULL)) {
            return wrong_ids(g);
        }
        BP_TRY(check_id(g, id));
        g->ids[g->count++] = (int32_t)id;
        text = end + strspn(end, ", ");
    }
    return g->count > 0 ? BP_OK : wrong_ids(g);
}

static bp_status read_prompt(generation *g)
{
    const settings *set = g->s.set;
    if ((set->prompt == NULL) == (set->prompt_ids == NULL)) {
        return bp_error_set(&g->s.error, BP_ERR_USAGE, where,
                            "give one of --prompt and --prompt-ids", "--prompt");
    }
    BP_TRY(set->prompt != NULL ? bytes_prompt(g) : ids_prompt(g));
    g->prompt = g->count;
    return BP_OK;
}

static void put_token(const settings *set, bp_text *text, int32_t id, bool first)
{
    if (set->output_ids || set->prompt_ids != NULL) {
        if (!first) {
            bp_text_char(text, ' ');
        }
        bp_text_i64(text, id);
    } else {
        bp_text_char(text, (char)id);
    }
}

/* Writes tokens as they come: someone may be reading. */
static bp_status write_tokens(generation *g, output *out)
{
    const settings *set = g->s.set;
    const sampling how = {set->temperature, set->top_k, set->seed};
    int64_t end_token = g->s.spec.config.eos_token;
    bool streams = !set->json;
    BP_TRY(bp_runtime_restart(&g->s.runtime));
    BP_TRY(bp_runtime_accept(&g->s.runtime, g->ids, g->count));
    for (uint64_t i = 0; i < set->max_new_tokens; i++) {
        uint32_t id =
            sample_token(&how, g->s.runtime.logits_host, g->s.spec.config.vocabulary, i, g->order);
        g->ids[g->count++] = (int32_t)id;
        if (streams) {
            put_token(set, &out->text, (int32_t)id, i == 0);
            BP_TRY(bp_text_flush(&out->text));
            fflush(out->stream);
        }
        bool last = i + 1 == set->max_new_tokens || (int64_t)id == end_token;
        if (last) {
            return BP_OK;
        }
        BP_TRY(bp_runtime_accept(&g->s.runtime, &g->ids[g->count - 1], 1));
    }
    return BP_OK;
}

static void put_ids(output *out, const int32_t *ids, uint32_t count)
{
    char text[16];
    bp_text_string(&out->text, ", \"ids\": [");
    for (uint32_t i = 0; i < count; i++) {
        snprintf(text, sizeof text, i == 0 ? "%d" : ", %d", (int)ids[i]);
        bp_text_string(&out->text, text);
    }
    bp_text_string(&out->text, "]");
}

static void put_json(generation *g, output *out)
{
    uint32_t made = g->count - g->prompt;
    json_begin(out);
    json_count(out, "tokens", made);
    json_real(out, "tokens_per_second", (double)made / g->seconds, 6);
    json_count(out, "arena_bytes", g->s.runtime.report.arena_bytes);
    put_ids(out, g->ids + g->prompt, made);
    if (g->s.spec.config.vocabulary == BP_BYTE_VOCABULARY) {
        char *bytes = (char *)g->order; /* four times as long as the text at least */
        uint32_t fits = made < 4 * BP_BYTE_VOCABULARY ? made : 4 * BP_BYTE_VOCABULARY;
        for (uint32_t i = 0; i < fits; i++) {
            bytes[i] = (char)g->ids[g->prompt + i];
        }
        bp_text_string(&out->text, ", \"text\": ");
        bp_text_json_bytes(&out->text, bytes, fits);
    }
    json_end(out);
}

static bp_status generate(generation *g, const settings *set)
{
    output out;
    session *s = &g->s;
    BP_TRY(session_begin(s, set));
    s->spec.optimizer = NULL;
    s->spec.batch = 1;
    s->spec.accumulation = 1;
    s->spec.sequence = 1;
    BP_TRY(read_prompt(g));
    s->spec.generate_context = g->room;
    BP_TRY(session_start(s));
    double began = clock_seconds();
    output_begin(&out, stdout);
    bp_status status = write_tokens(g, &out);
    g->seconds = clock_seconds() - began;
    if (status == BP_OK && set->json) {
        put_json(g, &out);
    } else {
        bp_text_char(&out.text, '\n');
    }
    output_end(&out);
    return status;
}

int cmd_generate(const settings *set)
{
    static generation g;
    int code = session_report(&g.s, generate(&g, set));
    free(g.order);
    free(g.ids);
    session_end(&g.s);
    return code;
}
