/* SPDX-License-Identifier: MIT */
/* Completions of a step in a line of the record. */
#include "tools/bedplate/policy/policy_record.h"

#include <math.h>
#include <string.h>

#include "core/base/digest.h"
#include "core/base/sha256.h"

/* A member that is a text of digits and commas, whose opening quote is put. */
static bp_text *record_member(json_line *line, const char *key)
{
    bp_json_put_member(&line->json, key);
    bp_text_char(&line->text, '"');
    return &line->text;
}

static void record_put_counts(json_line *line, const policy_run *p)
{
    bp_text *text = record_member(line, "prompts");
    for (uint32_t g = 0; g < p->groups; g++) {
        bp_text_string(text, g > 0 ? "," : "");
        bp_text_u64(text, p->chosen[g]);
    }
    bp_text_char(text, '"');
    text = record_member(line, "tokens");
    for (uint32_t i = 0; i < p->count; i++) {
        bp_text_string(text, i > 0 ? "," : "");
        bp_text_u64(text, p->made[i].count);
    }
    bp_text_char(text, '"');
    text = record_member(line, "ended");
    for (uint32_t i = 0; i < p->count; i++) {
        bp_text_char(text, p->made[i].finish == ROLLOUT_STOP ? '1' : '0');
    }
    bp_text_char(text, '"');
}

/* Of each completion's ids, and of all of them. */
static void record_put_ids(json_line *line, const policy_run *p)
{
    bp_sha256 sha;
    unsigned char all[BP_SHA256_BYTES];
    char hexadecimal[BP_SHA256_TEXT];
    bp_text *text = record_member(line, "ids");
    bp_sha256_begin(&sha);
    for (uint32_t i = 0; i < p->count; i++) {
        const size_t bytes = p->made[i].count * sizeof *p->made[i].ids;
        bp_digest digest;
        bp_digest_begin(&digest, 0);
        bp_digest_add(&digest, p->made[i].ids, bytes);
        bp_text_hex(text, bp_digest_end(&digest), 16);
        bp_sha256_add(&sha, p->made[i].ids, bytes);
    }
    bp_text_char(text, '"');
    bp_sha256_end(&sha, all);
    bp_sha256_text(all, hexadecimal);
    line_text(line, "batch", hexadecimal);
}

void policy_record_put(json_line *line, const policy_run *p)
{
    record_put_counts(line, p);
    record_put_ids(line, p);
    bp_text *text = record_member(line, "rewards");
    for (uint32_t i = 0; i < p->count * p->rewards.count; i++) {
        uint64_t bits;
        memcpy(&bits, &p->scores[i], sizeof bits);
        bp_text_hex(text, bits, 16);
    }
    bp_text_char(text, '"');
    text = record_member(line, "advantages");
    for (uint32_t i = 0; i < p->count; i++) {
        uint32_t bits;
        memcpy(&bits, &p->advantages[i], sizeof bits);
        bp_text_hex(text, bits, 8);
    }
    bp_text_char(text, '"');
}

static bool record_digits(const char *text, uint64_t *bits)
{
    static const char hexadecimal[] = "0123456789abcdef";
    *bits = 0;
    for (int i = 0; i < 16; i++) {
        const char *digit = text[i] != '\0' ? strchr(hexadecimal, text[i]) : NULL;
        if (digit == NULL) {
            return false;
        }
        *bits = *bits << 4 | (uint64_t)(digit - hexadecimal);
    }
    return true;
}

bp_status policy_record_scores(const char *text, size_t digits, uint32_t count, uint32_t columns,
                               uint32_t first, double *scores, bp_error *error)
{
    if (digits != (size_t)16 * count * columns) {
        return bp_error_limit(error, BP_ERR_DATA, "record",
                              "the record has not the rewards of all completions; digits",
                              "rewards", (int64_t)digits, BP_LIMIT_EXACT,
                              (int64_t)16 * count * columns);
    }
    for (uint32_t i = 0; i < count * columns; i++) {
        uint64_t bits;
        if (!record_digits(text + (size_t)16 * i, &bits)) {
            return bp_error_set(error, BP_ERR_DATA, "record",
                                "a reward of the record is no number of 16 hexadecimal digits",
                                "rewards");
        }
        if (i % columns >= first) {
            memcpy(&scores[i], &bits, sizeof bits);
        }
    }
    return BP_OK;
}

enum { EVENT_TEXT = 200 };

/* The first bytes of a text, up to the end of a character. */
static void event_put_text(json_line *line, const char *key, const char *text, size_t bytes)
{
    size_t count = bytes < EVENT_TEXT ? bytes : EVENT_TEXT;
    while (count < bytes && count > 0 && ((unsigned char)text[count] & 0xc0) == 0x80) {
        count--;
    }
    bp_json_put_bytes(&line->json, key, text, count);
}

void policy_event_put(json_line *line, const policy_run *p, const metric_list *list)
{
    const uint32_t each = p->choice.generations;
    uint32_t best = 0, worst = 0;
    bool any = false;
    for (uint32_t i = 0; i < list->count; i++) {
        line_real(line, list->of[i].name, list->of[i].value);
    }
    for (uint32_t g = 0; g < p->groups && best == worst; g++) {
        uint32_t most = g * each, least;
        while (most < (g + 1) * each && isnan(p->totals[most])) {
            most++; /* a completion without a reward is neither */
        }
        least = most;
        for (uint32_t i = most; i < (g + 1) * each; i++) {
            most = p->totals[i] > p->totals[most] ? i : most;
            least = p->totals[i] < p->totals[least] ? i : least;
        }
        if (most < (g + 1) * each && (!any || most != least)) {
            any = true;
            best = most;
            worst = least;
        }
    }
    const rollout_row *row = &p->prompts.rows[p->chosen[best / each]];
    event_put_text(line, "prompt", row->text, row->text_bytes);
    event_put_text(line, "best", p->texts[best].bytes, p->texts[best].count);
    line_real(line, "best_reward", p->totals[best]);
    event_put_text(line, "worst", p->texts[worst].bytes, p->texts[worst].count);
    line_real(line, "worst_reward", p->totals[worst]);
}
