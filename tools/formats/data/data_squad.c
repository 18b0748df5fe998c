/* SPDX-License-Identifier: MIT */
/* Questions, one after the other. */
#include "tools/formats/data/data_squad.h"

#include <string.h>

#include "core/base/digest.h"

/* What an object has told. */
enum { HAS_QUESTION = 1, HAS_CONTEXT = 2, HAS_ANSWERS = 4, HAS_BEGINS = 8, IMPOSSIBLE = 16 };

typedef struct squad_reading {
    bp_squad *squad;
    bp_records records;
    bp_data_reader again; /* a paragraph is read a second time, through a window of its own */
    bp_record_span inner;
    void *inner_scratch;
    char *context, *question, *id, *answer;
    bp_question now;
    uint32_t begins; /* of answers, so far */
    unsigned has;
    uint64_t digest; /* of the context of the question before */
    uint32_t length;
} squad_reading;

/* Reads a string into a buffer, behind what it has. */
static bp_status take_text(bp_json *json, char *text, size_t capacity, uint32_t *used)
{
    bp_json_event event;
    do {
        BP_TRY(bp_json_next(json, &event));
        if (event.kind != BP_JSON_TEXT && event.kind != BP_JSON_TEXT_PART) {
            return bp_json_refuse(json, "a question, a context, an id or an answer is no string");
        }
        if (event.length > capacity - *used) {
            return bp_json_refuse(json, "a question, a context or its answers are longer than can "
                                        "be (a context 1 MiB, the others 64 KiB)");
        }
        memcpy(text + *used, event.text, event.length);
        *used += (uint32_t)event.length;
    } while (event.kind == BP_JSON_TEXT_PART);
    return BP_OK;
}

static bp_status end_answer(squad_reading *r, bp_json *json, uint32_t end)
{
    if (r->now.answers == BP_SQUAD_ANSWERS) {
        return bp_json_refuse(json, "a question has more than 64 answers");
    }
    r->now.answer_at[++r->now.answers] = end;
    return BP_OK;
}

/* The text of an answer whose first event is taken: strings come in parts. */
static bp_status take_answer(squad_reading *r, bp_json *json, bp_json_event *event)
{
    uint32_t end = r->now.answer_at[r->now.answers];
    for (;;) {
        if (event->kind != BP_JSON_TEXT && event->kind != BP_JSON_TEXT_PART) {
            return bp_json_refuse(json, "an answer is no string");
        }
        if (event->length > BP_SQUAD_QUESTION - end) {
            return bp_json_refuse(json, "the answers are longer than can be (64 KiB)");
        }
        memcpy(r->answer + end, event->text, event->length);
        end += (uint32_t)event->length;
        if (event->kind == BP_JSON_TEXT) {
            return end_answer(r, json, end);
        }
        BP_TRY(bp_json_next(json, event));
    }
}

static bp_status take_begin(squad_reading *r, bp_json *json, const bp_json_event *event)
{
    if (event->kind != BP_JSON_NUMBER || !event->integer || event->i64 < 0) {
        return bp_json_refuse(json, "answer_start is no whole number");
    }
    if (r->begins == BP_SQUAD_ANSWERS) {
        return bp_json_refuse(json, "a question has more than 64 answers");
    }
    r->now.begins[r->begins++] = (uint64_t)event->i64;
    return BP_OK;
}

/* One value, or a list of them. */
static bp_status take_each(squad_reading *r, bp_json *json, bool text)
{
    bp_json_event event;
    BP_TRY(bp_json_next(json, &event));
    const bool list = event.kind == BP_JSON_ARRAY_BEGIN;
    if (list) {
        BP_TRY(bp_json_next(json, &event));
    }
    while (event.kind != BP_JSON_ARRAY_END) {
        BP_TRY(text ? take_answer(r, json, &event) : take_begin(r, json, &event));
        if (!list) {
            return BP_OK;
        }
        BP_TRY(bp_json_next(json, &event));
    }
    return BP_OK;
}

/* The rest of an object of answers, or of one answer. */
static bp_status take_answer_object(squad_reading *r, bp_json *json)
{
    bp_json_event event;
    BP_TRY(bp_json_next(json, &event));
    while (event.kind == BP_JSON_KEY) {
        if (strcmp(event.text, "text") == 0) {
            BP_TRY(take_each(r, json, true));
        } else if (strcmp(event.text, "answer_start") == 0) {
            BP_TRY(take_each(r, json, false));
        } else {
            BP_TRY(bp_json_skip(json));
        }
        BP_TRY(bp_json_next(json, &event));
    }
    return BP_OK;
}

static bp_status take_answers(squad_reading *r, bp_json *json)
{
    bp_json_event event;
    BP_TRY(bp_json_next(json, &event));
    if (event.kind == BP_JSON_OBJECT_BEGIN) {
        return take_answer_object(r, json);
    }
    if (event.kind == BP_JSON_NULL) {
        return BP_OK;
    }
    if (event.kind != BP_JSON_ARRAY_BEGIN) {
        return bp_json_refuse(json, "answers are an object or a list of objects");
    }
    for (;;) {
        BP_TRY(bp_json_next(json, &event));
        if (event.kind == BP_JSON_ARRAY_END) {
            return BP_OK;
        }
        if (event.kind != BP_JSON_OBJECT_BEGIN) {
            return bp_json_refuse(json, "answers are an object or a list of objects");
        }
        BP_TRY(take_answer_object(r, json));
    }
}

static void begin_question(squad_reading *r, unsigned has)
{
    r->has = has;
    r->begins = 0;
    r->now.id_length = 0;
    r->now.question_length = 0;
    r->now.answers = 0;
}

/* A key of a question, or of a flat object. */
static bp_status take_key(squad_reading *r, bp_json *json, const char *key)
{
    bp_json_event event;
    if (strcmp(key, "question") == 0) {
        r->has |= HAS_QUESTION;
        r->now.question_length = 0;
        return take_text(json, r->question, BP_SQUAD_QUESTION, &r->now.question_length);
    }
    if (strcmp(key, "answers") == 0) {
        r->has |= HAS_ANSWERS;
        return take_answers(r, json);
    }
    if (strcmp(key, "is_impossible") == 0) {
        BP_TRY(bp_json_next(json, &event));
        r->has |= event.kind == BP_JSON_TRUE ? IMPOSSIBLE : 0;
        return event.kind == BP_JSON_TRUE || event.kind == BP_JSON_FALSE
                   ? BP_OK
                   : bp_json_refuse(json, "is_impossible is neither true nor false");
    }
    if (strcmp(key, "id") == 0) {
        r->now.id_length = 0;
        return take_text(json, r->id, BP_SQUAD_QUESTION, &r->now.id_length);
    }
    return bp_json_skip(json);
}

static bp_status give_question(squad_reading *r, bp_data_reader *reader, bp_json *json)
{
    bp_squad *squad = r->squad;
    bp_question *q = &r->now;
    if ((r->has & HAS_QUESTION) == 0 || (r->has & HAS_CONTEXT) == 0) {
        return bp_json_refuse(json, "the object lacks `question` or `context`");
    }
    if (r->begins != q->answers) {
        return bp_json_refuse(json, "an answer lacks its text or its answer_start");
    }
    q->answers = (r->has & IMPOSSIBLE) != 0 ? 0 : q->answers;
    q->answered = (r->has & (HAS_ANSWERS | IMPOSSIBLE)) != 0;
    if (!q->answered && !squad->may_lack) {
        return bp_json_refuse(json, "the question has no `answers`");
    }
    if (squad->questions > 0 && squad->lacks == q->answered) {
        return bp_json_refuse(json, "what comes before is otherwise: all questions must have "
                                    "`answers`, or none of them");
    }
    const uint64_t digest = bp_digest_of(r->context, q->context_length, 0);
    q->same = squad->questions > 0 && digest == r->digest && q->context_length == r->length;
    r->digest = digest;
    r->length = q->context_length;
    squad->lacks = !q->answered;
    squad->questions++;
    squad->impossible += q->answered && q->answers == 0 ? 1 : 0;
    return squad->question(squad->user, reader, q);
}

/* The questions of a paragraph, whose context is there. */
static bp_status read_questions(squad_reading *r, bp_json *json)
{
    bp_json_event event;
    BP_TRY(bp_json_next(json, &event));
    if (event.kind != BP_JSON_ARRAY_BEGIN) {
        return bp_json_refuse(json, "`qas` is no list");
    }
    for (;;) {
        BP_TRY(bp_json_next(json, &event));
        if (event.kind == BP_JSON_ARRAY_END) {
            return BP_OK;
        }
        if (event.kind != BP_JSON_OBJECT_BEGIN) {
            return bp_json_refuse(json, "a question is no object");
        }
        begin_question(r, HAS_CONTEXT);
        BP_TRY(bp_json_next(json, &event));
        while (event.kind == BP_JSON_KEY) {
            BP_TRY(take_key(r, json, event.text));
            BP_TRY(bp_json_next(json, &event));
        }
        BP_TRY(give_question(r, &r->again, json));
    }
}

/* Reads offset .. end - 1, a paragraph, once more for its questions. */
static bp_status read_again(squad_reading *r, uint64_t offset, uint64_t end)
{
    bp_json *json = &r->inner.json;
    bp_json_event event;
    r->again.line = r->records.span.reader->line;
    BP_TRY(bp_record_span_begin(&r->inner, offset, end, r->inner_scratch));
    BP_TRY(bp_json_next(json, &event));
    BP_TRY(bp_json_next(json, &event));
    while (event.kind == BP_JSON_KEY) {
        const bool here = strcmp(event.text, "qas") == 0;
        BP_TRY(here ? read_questions(r, json) : bp_json_skip(json));
        BP_TRY(bp_json_next(json, &event));
    }
    return BP_OK;
}

/* The rest of a paragraph: its context, and then its questions, which may stand before it. */
static bp_status read_paragraph(squad_reading *r)
{
    bp_json *json = &r->records.span.json;
    bp_json_event event;
    const uint64_t begins = bp_record_span_position(&r->records.span) - 1;
    bool there = false;
    BP_TRY(bp_json_next(json, &event));
    while (event.kind == BP_JSON_KEY) {
        const bool here = strcmp(event.text, "context") == 0;
        there = there || here;
        r->now.context_length = here ? 0 : r->now.context_length;
        BP_TRY(here ? take_text(json, r->context, BP_SQUAD_CONTEXT, &r->now.context_length)
                    : bp_json_skip(json));
        BP_TRY(bp_json_next(json, &event));
    }
    return there ? read_again(r, begins, bp_record_span_position(&r->records.span))
                 : bp_json_refuse(json, "the paragraph lacks `context`");
}

static bp_status read_paragraphs(squad_reading *r)
{
    bp_json *json = &r->records.span.json;
    bp_json_event event;
    BP_TRY(bp_json_next(json, &event));
    if (event.kind != BP_JSON_ARRAY_BEGIN) {
        return bp_json_refuse(json, "`paragraphs` is no list");
    }
    for (;;) {
        BP_TRY(bp_json_next(json, &event));
        if (event.kind == BP_JSON_ARRAY_END) {
            return BP_OK;
        }
        if (event.kind != BP_JSON_OBJECT_BEGIN) {
            return bp_json_refuse(json, "a paragraph is no object");
        }
        BP_TRY(read_paragraph(r));
    }
}

/* An article, or a question with its context. */
static bp_status read_object(squad_reading *r)
{
    bp_json *json = &r->records.span.json;
    bp_json_event event;
    bool nested = false;
    begin_question(r, 0);
    BP_TRY(bp_json_next(json, &event));
    while (event.kind == BP_JSON_KEY) {
        if (strcmp(event.text, "paragraphs") == 0) {
            nested = true;
            BP_TRY(read_paragraphs(r));
        } else if (strcmp(event.text, "context") == 0) {
            r->has |= HAS_CONTEXT;
            r->now.context_length = 0;
            BP_TRY(take_text(json, r->context, BP_SQUAD_CONTEXT, &r->now.context_length));
        } else {
            BP_TRY(take_key(r, json, event.text));
        }
        BP_TRY(bp_json_next(json, &event));
    }
    return nested ? BP_OK : give_question(r, r->records.span.reader, json);
}

/* An error of the second reading is one of the file as well. */
static bp_status named(squad_reading *r, bp_status status)
{
    if (status != BP_OK && r->inner.json.status != BP_OK && status != BP_ERR_STORE &&
        r->records.span.json.status == BP_OK) {
        bp_data_name_position(&r->again);
        return BP_ERR_DATA;
    }
    return bp_records_named(&r->records, status);
}

bp_status bp_squad_read(bp_squad *squad, bp_data_reader *reader, void *scratch)
{
    char *at = (char *)scratch + 2 * BP_RECORDS_SCRATCH + BP_SQUAD_WINDOW;
    squad_reading r = {.squad = squad,
                       .again = *reader,
                       .inner_scratch = (char *)scratch + BP_RECORDS_SCRATCH,
                       .context = at,
                       .question = at + BP_SQUAD_CONTEXT,
                       .id = at + BP_SQUAD_CONTEXT + BP_SQUAD_QUESTION,
                       .answer = at + BP_SQUAD_CONTEXT + 2 * (size_t)BP_SQUAD_QUESTION};
    bool there;
    r.again.buffer = (unsigned char *)scratch + 2 * BP_RECORDS_SCRATCH;
    r.again.capacity = BP_SQUAD_WINDOW;
    r.again.held = 0;
    r.inner.reader = &r.again;
    r.now.id = r.id;
    r.now.question = r.question;
    r.now.context = r.context;
    r.now.answer = r.answer;
    BP_TRY(bp_records_begin(&r.records, reader, scratch));
    BP_TRY(bp_records_next(&r.records, &there));
    while (there) {
        BP_TRY(named(&r, read_object(&r)));
        BP_TRY(bp_records_next(&r.records, &there));
    }
    return BP_OK;
}
