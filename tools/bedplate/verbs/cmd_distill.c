/* SPDX-License-Identifier: MIT */
/* bedplate distill: what a teacher says of a data set, for train --distill. */
#include <string.h>

#include "core/base/storage.h"
#include "tools/bedplate/app/clock.h"
#include "tools/bedplate/runs/distill.h"
#include "tools/bedplate/models/model_files.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/sources/packing.h"
#include "tools/bedplate/app/commands.h"
#include "tools/formats/files/stream_file.h"

#define BATCH_DEFAULT 8

static const char where[] = "distill";

static void distill_print(const session *s, const distill *d, double seconds)
{
    const bp_teacher_head *head = &d->file.head;
    const uint64_t places = head->rows * head->sequence, bytes = bp_teacher_file_bytes(head);
    char teacher[BP_DIGEST_TEXT];
    output out;
    bp_digest_text(head->teacher, teacher);
    output_begin(&out, stdout);
    if (s->set->json) {
        json_begin(&out);
        json_count(&out, "rows", head->rows);
        json_count(&out, "top_k", head->top_k);
        json_real(&out, "loss", d->loss, 12);
        json_count(&out, "bytes", bytes);
        json_real(&out, "bytes_per_token", (double)bytes / (double)places, 6);
        json_seconds(&out, s->set->began, seconds);
        json_text(&out, "teacher_digest", teacher);
        json_count(&out, "arena_bytes", s->plan.report.arena_bytes);
        json_text(&out, "path", d->file.path);
        json_end(&out);
    } else {
        bp_text_string(&out.text, d->file.path);
        bp_text_string(&out.text, ": ");
        bp_text_grouped(&out.text, head->rows);
        bp_text_string(&out.text, " rows of ");
        bp_text_u64(&out.text, head->sequence);
        bp_text_string(&out.text, " places, ");
        bp_text_u64(&out.text, head->top_k);
        bp_text_string(&out.text, " tokens each, in ");
        bp_text_grouped(&out.text, bytes);
        bp_text_string(&out.text, " bytes\n");
    }
    output_end(&out);
}

/* Large, and it must not move. */
typedef struct teaching {
    session s;
    data_set data;
    bp_tokens packed;
    distill words;
    char identity[DISTILL_IDENTITY];
} teaching;

static bp_status distill_all(teaching *t, const settings *set)
{
    session *s = &t->s;
    BP_TRY(session_begin(s, set));
    if (set->output == NULL) {
        return bp_error_set(&s->error, BP_ERR_USAGE, where,
                            "the option is needed: the file that the command writes", "--output");
    }
    s->spec.batch = set->eval_batch != 0 ? (uint32_t)set->eval_batch : BATCH_DEFAULT;
    s->spec.accumulation = 1;
    s->spec.optimizer = NULL;
    s->spec.evaluate = true;
    BP_TRY(bp_spec_check(&s->spec, &s->error));
    BP_TRY(packing_check(s));
    BP_TRY(data_set_open(&t->data, s));
    BP_TRY(packing_open(&t->packed, s, &t->data));
    bp_feed feed = data_set_feed(&t->data, s, t->data.train);
    BP_TRY(bp_feed_init(&feed, &s->error));
    if (feed.windows < s->spec.batch) {
        s->spec.batch = (uint32_t)feed.windows;
        feed = data_set_feed(&t->data, s, t->data.train);
        BP_TRY(bp_feed_init(&feed, &s->error));
    }
    bp_feed mixed = feed; /* what is said of a row hangs on no order */
    BP_TRY(data_set_mix(&t->data, s, &mixed));
    BP_TRY(data_set_identity(s, t->data.train, t->identity, sizeof t->identity));
    BP_TRY(session_start(s));
    const double began = clock_seconds();
    BP_TRY(distill_write(&t->words, s, &feed, t->identity));
    distill_print(s, &t->words, clock_seconds() - began);
    return BP_OK;
}

int cmd_distill(const settings *set)
{
    static teaching t;
    const int code = session_report(&t.s, distill_all(&t, set));
    distill_close(&t.words);
    data_set_close(&t.data);
    bp_tokens_close(&t.packed);
    session_end(&t.s);
    return code;
}
