/* SPDX-License-Identifier: MIT */
/* bedplate generate: continues a prompt with a planned cache of keys and values, or fills the masks
 * of one (fill_mask.h). */
#include <stdlib.h>
#include <string.h>

#include "tools/bedplate/fill_mask.h"
#include "tools/bedplate/output.h"
#include "tools/bedplate/progress.h"
#include "tools/bedplate/sample.h"
#include "tools/bedplate/session.h"
#include "tools/bedplate/text_out.h"
#include "tools/bedplate/verbs.h"
#include "tools/formats/byte_tokenizer.h"
#include "tools/formats/data_tokenise.h"
#include "tools/formats/family.h"
#include "tools/formats/tensor_view.h"

static const char where[] = "generate";

typedef struct generation {
    session s;
    int32_t *ids; /* the prompt, then what is written */
    uint32_t prompt;
    uint32_t count;
    uint32_t room;
    uint32_t *order; /* for sampling */
    double seconds;
    text_out text;
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
    BP_TRY(room_for(g, strlen(text)));
    for (; *text != '\0'; text++) {
        g->ids[g->count++] = (unsigned char)*text;
    }
    return BP_OK;
}

/* The beginning token, if the tokenizer adds one, and the text; nothing that would end it. */
static bp_status encoded_prompt(generation *g)
{
    const char *text = g->s.set->prompt;
    bp_encoder *encoder = &g->s.coder.encoder;
    bool begins;
    uint32_t tail;
    size_t count;
    bp_tokenise_template(encoder, &begins, &tail);
    bp_encoder_text(encoder, text, strlen(text), BP_ENCODE_PLAIN, NULL, 0, &count);
    BP_TRY(room_for(g, count + (begins ? 1 : 0)));
    if (begins) {
        g->ids[g->count++] = (int32_t)bp_tokenizer_special_of(encoder->tokenizer)->bos;
    }
    /* Ids are below 2^31, so the sign is no matter. */
    uint32_t *ids = (uint32_t *)(g->ids + g->count);
    bp_encoder_text(encoder, text, strlen(text), BP_ENCODE_PLAIN, ids, count, &count);
    g->count += (uint32_t)count;
    return BP_OK;
}

static bp_status text_prompt(generation *g)
{
    session *s = &g->s;
    BP_TRY(session_find_coder(s));
    if (s->coder.kind == CODER_NONE) {
        return bp_error_numbers(&s->error, BP_ERR_DATA, where,
                                "a text prompt needs a tokenizer, and the model directory has "
                                "none; give --tokenizer or --prompt-ids",
                                "--prompt", s->spec.config.vocabulary, BP_BYTE_VOCABULARY);
    }
    BP_TRY(session_open_coder(s));
    return s->coder.kind == CODER_BYTES ? bytes_prompt(g) : encoded_prompt(g);
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
    BP_TRY(set->prompt != NULL ? text_prompt(g) : ids_prompt(g));
    g->prompt = g->count;
    if (set->prompt == NULL && g->s.spec.config.vocabulary == BP_BYTE_VOCABULARY) {
        BP_TRY(session_find_coder(&g->s)); /* its ids are text without any tokenizer */
    }
    text_out_begin(&g->text, &g->s.coder);
    for (uint32_t i = 0; i < g->count; i++) {
        text_out_pass(&g->text, g->ids[i]);
    }
    return BP_OK;
}

static void cmd_generate_put_token(generation *g, bp_text *text, int32_t id, bool first)
{
    const settings *set = g->s.set;
    if (set->output_ids || set->prompt_ids != NULL) {
        if (!first) {
            bp_text_char(text, ' ');
        }
        bp_text_i64(text, id);
    } else if (!coder_ends(&g->s.coder, &g->s.spec.config, (uint32_t)id)) {
        size_t count;
        const char *bytes = text_out_next(&g->text, id, &count);
        bp_text_bytes(text, bytes, count);
    }
}

static void put_rest(generation *g, bp_text *text)
{
    size_t count;
    const char *bytes = text_out_end(&g->text, &count);
    bp_text_bytes(text, bytes, count);
}

/* Writes tokens as they come: someone may be reading. */
static bp_status write_tokens(generation *g, output *out)
{
    const settings *set = g->s.set;
    const sampling how = {set->temperature, set->top_k, set->seed};
    bool streams = !set->json;
    BP_TRY(bp_runtime_restart(&g->s.runtime));
    BP_TRY(bp_runtime_accept(&g->s.runtime, g->ids, g->count));
    for (uint64_t i = 0; i < set->max_new_tokens; i++) {
        if (!bp_elements_finite(BP_F32, g->s.runtime.logits_host, g->s.spec.config.vocabulary)) {
            return bp_error_set(&g->s.error, BP_ERR_NONFINITE, "generate",
                                "the logits are not finite: with these weights values grow beyond "
                                "what they are held in",
                                set->model);
        }
        uint32_t id =
            sample_token(&how, g->s.runtime.logits_host, g->s.spec.config.vocabulary, i, g->order);
        g->ids[g->count++] = (int32_t)id;
        if (streams) {
            cmd_generate_put_token(g, &out->text, (int32_t)id, i == 0);
            BP_TRY(bp_text_flush(&out->text));
            fflush(out->stream);
        }
        bool ends = !set->ignore_eos && coder_ends(&g->s.coder, &g->s.spec.config, id);
        bool last = i + 1 == set->max_new_tokens || ends;
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

/* The text as one string; of a long one what fits. */
static void put_json_text(generation *g, output *out)
{
    enum { MOST = 1 << 20 };
    static char text[MOST];
    size_t used = 0;
    for (uint32_t i = g->prompt; i < g->count; i++) {
        size_t count = 0;
        const char *bytes = "";
        if (!coder_ends(&g->s.coder, &g->s.spec.config, (uint32_t)g->ids[i])) {
            bytes = text_out_next(&g->text, g->ids[i], &count);
        }
        size_t fits = count < MOST - used ? count : MOST - used;
        memcpy(text + used, bytes, fits);
        used += fits;
    }
    size_t count;
    const char *bytes = text_out_end(&g->text, &count);
    size_t fits = count < MOST - used ? count : MOST - used;
    memcpy(text + used, bytes, fits);
    bp_text_string(&out->text, ", \"text\": ");
    bp_text_json_bytes(&out->text, text, used + fits);
}

static void put_json(generation *g, output *out)
{
    uint32_t made = g->count - g->prompt;
    json_begin(out);
    json_count(out, "tokens", made);
    json_real(out, "tokens_per_second", (double)made / g->seconds, 6);
    json_count(out, "arena_bytes", g->s.runtime.report.arena_bytes);
    put_ids(out, g->ids + g->prompt, made);
    if (g->s.coder.kind != CODER_NONE) {
        put_json_text(g, out);
    }
    json_end(out);
}

static bp_status generate(generation *g, const settings *set)
{
    output out;
    session *s = &g->s;
    BP_TRY(session_begin(s, set));
    if (s->spec.config.vocabulary == 0) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "this model judges rows of numbers; it does not generate", "--model");
    }
    if (s->spec.config.task == BP_TASK_MASKED_LM) {
        return fill_mask(s);
    }
    s->spec.optimizer = NULL;
    s->spec.batch = 1;
    s->spec.accumulation = 1;
    s->spec.sequence = 1;
    bp_family_set_pieces(&s->spec.config, 1);
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
        put_rest(g, &out.text);
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
