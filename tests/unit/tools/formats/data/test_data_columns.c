/* SPDX-License-Identifier: MIT */
/* Columns of text and label, and forms of labels, in tables and JSON lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/store_memory.h"
#include "tools/formats/data/data_documents.h"

typedef struct fixture {
    memory_store memory;
    bp_data_reader reader;
    bp_documents documents;
    bp_error error;
    char said[512]; /* what came: <T:text=label> */
} fixture;

static void say(fixture *d, const char *text, size_t length)
{
    const size_t used = strlen(d->said);
    assert_true(used + length < sizeof d->said);
    memcpy(d->said + used, text, length);
    d->said[used + length] = '\0';
}

static bp_status begin(void *user, bp_data_reader *reader)
{
    (void)reader;
    say(user, "<T:", 3);
    return BP_OK;
}

static bp_status piece(void *user, bp_document_part part, const char *bytes, size_t count)
{
    assert_int_equal(part, BP_PART_TEXT);
    say(user, bytes, count);
    return BP_OK;
}

static bp_status end(void *user, uint64_t label)
{
    char text[32];
    say(user, text, (size_t)snprintf(text, sizeof text, "=%llu>", (unsigned long long)label));
    return BP_OK;
}

/* What a file says, or why it is refused, with the names of columns as they are asked for. */
typedef struct reading_case {
    const char *text;
    bp_data_reading reading;
    bp_labels labels;
    uint32_t classes;
    const char *right; /* what comes, or the refusal where it does not begin with < */
} reading_case;

static void try_reading(const reading_case *c, bp_data_format format, const char *text)
{
    static uint64_t scratch[BP_DOCUMENTS_SCRATCH / 8];
    unsigned char window[16];
    fixture d = {.documents = {.user = &d,
                               .begin = begin,
                               .piece = piece,
                               .end = end,
                               .form = BP_FORM_LABELLED,
                               .labels = c->labels,
                               .classes = c->classes,
                               .reading = c->reading}};
    const bool good = c->right[0] == '<';
    memory_store_init(&d.memory);
    bp_store *store = &d.memory.store;
    memory_store_put(&d.memory, "a.file", text, strlen(text));
    d.reader = (bp_data_reader){.store = store,
                                .path = "a.file",
                                .buffer = window,
                                .capacity = sizeof window,
                                .error = &d.error};
    assert_int_equal(store->open_read(store, "a.file", &d.reader.file), BP_OK);
    assert_int_equal(bp_data_reader_begin(&d.reader), BP_OK);
    const bp_status status = bp_documents_read(&d.documents, &d.reader, format, scratch);
    if (status != (good ? BP_OK : BP_ERR_DATA) ||
        (good ? strcmp(d.said, c->right) != 0 : strstr(d.error.text, c->right) == NULL)) {
        fail_msg("%s\n%d %s: %s\n%s, not %s", text, (int)status, d.error.name, d.error.text, d.said,
                 c->right);
    }
    assert_int_equal(store->close(store, d.reader.file), BP_OK);
    memory_store_free(&d.memory);
}

/* ---- lists of labels ---- */

enum { HOT = BP_LABEL_FORM_MULTI_HOT, CLASSES = BP_LABEL_FORM_CLASSES };

static const struct {
    const char *list; /* rows of them, parted by ; */
    uint32_t classes;
    int form;
    const char *right; /* masks, parted by spaces, or the refusal */
} lists[] = {
    {"1,0,1;0,0,0;0,1,0", 3, 0, "5 0 2"},
    {"1,1,1,1", 4, 0, "15"},
    {"1.0,0.0,1.0", 3, 0, "5"},
    {"1.0,0.0", 2, 0, "1"},
    {"0.0,1.0", 2, 0, "2"},
    {"0,0;1,1", 2, 0, "0 3"},
    {"1", 1, 0, "1"},
    {"0,1", 2, 0, "could be multi-hot"},
    {"1,0", 2, 0, "could be multi-hot"},
    {"0", 1, 0, "could be multi-hot"},
    {"0,1.0", 2, 0, "could be multi-hot"},
    {"0,1;1,0;1,1", 2, HOT, "2 1 3"},
    {"0,1;0;1", 2, CLASSES, "3 1 2"},
    {"0", 1, HOT, "0"},
    {"0", 1, CLASSES, "1"},
    {"1", 1, CLASSES, "no class of the model"},
    {"0,2;2;1,2;", 3, 0, "5 4 6 0"},
    {"0,1,2", 3, 0, "7"},
    {"2,1,0", 3, 0, "7"},
    {"0,1", 3, 0, "3"},
    {"1.0,2.0", 3, 0, "6"},
    {"1,0,1", 3, CLASSES, "3"},
    {"1,1", 3, 0, "another number of 0 and 1"},
    {"1,0,1", 4, 0, "another number of 0 and 1"},
    {"1.0,0.0", 3, 0, "another number of 0 and 1"},
    {"1,0,1", 4, HOT, "a 0 or 1 for each class"},
    {"2,0,1", 3, HOT, "a 0 or 1 for each class"},
    {"1,0,1;2", 3, 0, "some labels are multi-hot"},
    {"0,2;1,0,1", 3, 0, "some labels are multi-hot"},
    {"0.3,0.7,0.0", 3, 0, "not a whole number"},
    {"0,3", 3, 0, "no class of the model"},
};

/* Forms of lists of labels: multi-hot ones, classes, and what could be both. In a table the members
 * are parted by spaces. */
/* verifies formats-70.8053 */
static void lists_are_what_they_can_only_be(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        char json[512] = "", table[512] = "label\ttext\n", right[256] = "";
        char copy[64], masks[64], *row = copy, *mask = masks;
        const bool good = lists[i].right[0] >= '0' && lists[i].right[0] <= '9';
        snprintf(copy, sizeof copy, "%s;", lists[i].list);
        snprintf(masks, sizeof masks, "%s", lists[i].right);
        for (char *end; (end = strchr(row, ';')) != NULL; row = end + 1) {
            *end = '\0';
            snprintf(json + strlen(json), 128, "{\"text\": \"t\", \"label\": [%s]}\n", row);
            for (char *at = row; *at != '\0'; at++) {
                *at = *at == ',' ? ' ' : *at;
            }
            snprintf(table + strlen(table), 128, "%s\tt\n", row);
            if (good) {
                snprintf(right + strlen(right), 64, "<T:t=%lu>", strtoul(mask, &mask, 10));
            }
        }
        reading_case c = {.reading = {.label_form = (bp_label_form)lists[i].form},
                          .labels = BP_LABELS_BITS,
                          .classes = lists[i].classes,
                          .right = good ? right : lists[i].right};
        try_reading(&c, BP_DATA_JSONL, json);
        try_reading(&c, BP_DATA_TSV, table);
    }
    /* as Python prints lists and arrays, in a table and as a text of JSON */
    const reading_case printed = {
        .labels = BP_LABELS_BITS, .classes = 3, .right = "<T:t=5><T:u=0><T:v=2>"};
    try_reading(&printed, BP_DATA_CSV,
                "text,label\nt,\"[1, 0, 1]\"\nu,[0. 0. 0.]\nv,\"[0.0,1.0,0.0]\"\n");
    try_reading(&printed, BP_DATA_JSONL,
                "{\"text\": \"t\", \"label\": \"[1, 0, 1]\"}\n{\"text\": \"u\", \"label\": "
                "\"[0 0 0]\"}\n{\"text\": \"v\", \"label\": \"0 1 0\"}\n");
    const reading_case truth = {
        .labels = BP_LABELS_BITS, .classes = 3, .right = "<T:t=5><T:u=2><T:v=0>"};
    try_reading(&truth, BP_DATA_CSV,
                "text,label\nt,\"[True, False, True]\"\nu,[False  True False]\n"
                "v,\"[false, false, false]\"\n");
    try_reading(&truth, BP_DATA_JSONL,
                "{\"text\": \"t\", \"label\": \"[true, false, true]\"}\n"
                "{\"text\": \"u\", \"label\": \"[False, True, False]\"}\n"
                "{\"text\": \"v\", \"label\": [false, false, false]}\n");
    const reading_case chosen = {.labels = BP_LABELS_BITS, .classes = 3, .right = "<T:t=5><T:u=0>"};
    try_reading(&chosen, BP_DATA_CSV, "text,label\nt,\"['0', \"\"2\"\"]\"\nu,[]\n");
    const reading_case spaces = {
        .labels = BP_LABELS_CLASS, .classes = 3, .right = "<T:t=1><T:u=2>"};
    try_reading(&spaces, BP_DATA_CSV, "text,label\nt, 1\nu,2.0 \n");
    static const char *const none[] = {"1,0,1", "0;2", "0|2", "1, 0, 1"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        const reading_case several = {
            .labels = BP_LABELS_BITS, .classes = 3, .right = "a list of labels in a table"};
        const reading_case single = {.classes = 3, .right = "a list written as one text"};
        char table[64];
        snprintf(table, sizeof table, "text,label\nt,\"%s\"\n", none[i]);
        try_reading(&several, BP_DATA_CSV, table);
        try_reading(&single, BP_DATA_CSV, table);
    }
    const reading_case truths = {.labels = BP_LABELS_BITS, .classes = 2, .right = "<T:t=2>"};
    try_reading(&truths, BP_DATA_JSONL, "{\"text\": \"t\", \"label\": [false, true]}");
}

/* ---- columns ---- */

/* Headers by every usual name in any case, in both orders and both tables, and as fields of JSON
 * lines; other names as they are asked for. */
/* verifies formats-71.e6f5 */
static void columns_have_usual_names(void **state)
{
    (void)state;
    static const char *const texts[] = {"text",    "Text",     "TEXT",      "sentence", "Review",
                                        "content", "body",     "document",  "comment",  "tweet",
                                        "message", "question", " text ",    "premise",  "passage",
                                        "query",   "article",  "Full Text", "full-text"};
    static const char *const labels[] = {
        "label", "Label",  "labels", "class",     "Class", "category", "target", "rating",
        "topic", "intent", "stars",  "sentiment", "score", "y",        "Gold",   "LABELS"};
    const reading_case plain = {.labels = BP_LABELS_CLASS, .classes = 5, .right = "<T:x=3>"};
    for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
        for (size_t l = 0; l < sizeof labels / sizeof labels[0]; l++) {
            char file[256];
            snprintf(file, sizeof file, "%s,%s\nx,3\n", texts[t], labels[l]);
            try_reading(&plain, BP_DATA_CSV, file);
            snprintf(file, sizeof file, "%s,id,\"%s\"\n3,9,x\n", labels[l], texts[t]);
            try_reading(&plain, BP_DATA_CSV, file);
            snprintf(file, sizeof file, "id\t%s\t%s\n9\tx\t3\n", texts[t], labels[l]);
            try_reading(&plain, BP_DATA_TSV, file);
            snprintf(file, sizeof file, "{\"%s\": 3, \"id\": [1], \"%s\": \"x\"}", labels[l],
                     texts[t]);
            try_reading(&plain, BP_DATA_JSONL, file);
        }
    }
}

static const char unknown[] = "names no column that is known as the label";
static const reading_case found[] = {
    /* neither known nor denied */
    {"foo,bar\nx,3\n", {NULL, NULL, false, BP_LABEL_FORM_FOUND}, BP_LABELS_CLASS, 5, unknown},
    {"foo,bar,id\nx,3,1\n", {NULL, NULL, false, BP_LABEL_FORM_FOUND}, BP_LABELS_CLASS, 5, unknown},
    {"text,foo\nx,3\n", {NULL, NULL, false, BP_LABEL_FORM_FOUND}, BP_LABELS_CLASS, 5, unknown},
    {"good,some text\n", {NULL, NULL, false, BP_LABEL_FORM_FOUND}, BP_LABELS_CLASS, 5, unknown},
    {"foo,label,id\nx,3,1\n",
     {NULL, NULL, false, BP_LABEL_FORM_FOUND},
     BP_LABELS_CLASS,
     5,
     "none named"},
    {"0,1\n3,x\n",
     {NULL, NULL, false, BP_LABEL_FORM_FOUND},
     BP_LABELS_CLASS,
     5,
     "each column of the first row"},
    /* asked for */
    {"foo,bar\nx,3\n", {"foo", "bar", false, BP_LABEL_FORM_FOUND}, BP_LABELS_CLASS, 5, "<T:x=3>"},
    {"bar,Foo\n3,x\n", {"foo", "bar", false, BP_LABEL_FORM_FOUND}, BP_LABELS_CLASS, 5, "<T:x=3>"},
    {"foo,bar\nx,3\n", {NULL, "bar", false, BP_LABEL_FORM_FOUND}, BP_LABELS_CLASS, 5, "<T:x=3>"},
    {"text,label,bar\nx,2,3\n",
     {NULL, "bar", false, BP_LABEL_FORM_FOUND},
     BP_LABELS_CLASS,
     5,
     "<T:x=3>"},
    {"text,label,foo\nx,2,y\n",
     {"foo", NULL, false, BP_LABEL_FORM_FOUND},
     BP_LABELS_CLASS,
     5,
     "<T:y=2>"},
    {"label,text\nx,2\n",
     {"label", "text", false, BP_LABEL_FORM_FOUND},
     BP_LABELS_CLASS,
     5,
     "<T:x=2>"},
    {"foo,Foo,label\nx,y,2\n",
     {"Foo", NULL, false, BP_LABEL_FORM_FOUND},
     BP_LABELS_CLASS,
     5,
     "<T:y=2>"},
    {"text,label\nx,2\n",
     {"foo", NULL, false, BP_LABEL_FORM_FOUND},
     BP_LABELS_CLASS,
     5,
     "--text-column names"},
    {"text,label\nx,2\n",
     {NULL, "bar", false, BP_LABEL_FORM_FOUND},
     BP_LABELS_CLASS,
     5,
     "--label-column names"},
    /* usual names win over others; of two that are alike nobody knows */
    {"title,text,class,label\nt,x,9,2\n",
     {NULL, NULL, false, BP_LABEL_FORM_FOUND},
     BP_LABELS_CLASS,
     5,
     "<T:x=2>"},
    {"review,text,target\nr,x,2\n",
     {NULL, NULL, false, BP_LABEL_FORM_FOUND},
     BP_LABELS_CLASS,
     5,
     "<T:x=2>"},
    {"text,class,category\nx,1,2\n",
     {NULL, NULL, false, BP_LABEL_FORM_FOUND},
     BP_LABELS_CLASS,
     5,
     "two columns"},
    {"review,body,label\nx,1,2\n",
     {NULL, NULL, false, BP_LABEL_FORM_FOUND},
     BP_LABELS_CLASS,
     5,
     "two columns"},
    {"text,Text,label\nx,1,2\n",
     {NULL, NULL, false, BP_LABEL_FORM_FOUND},
     BP_LABELS_CLASS,
     5,
     "two columns"},
    /* no header */
    {"3,x\n0,y\n", {NULL, NULL, false, BP_LABEL_FORM_FOUND}, BP_LABELS_CLASS, 5, "<T:x=3><T:y=0>"},
    {"x,3\ny,0\n", {NULL, NULL, false, BP_LABEL_FORM_FOUND}, BP_LABELS_CLASS, 5, "<T:x=3><T:y=0>"},
    {"2,1\n", {NULL, NULL, true, BP_LABEL_FORM_FOUND}, BP_LABELS_CLASS, 5, "<T:1=2>"},
    {"x,3\n", {NULL, NULL, true, BP_LABEL_FORM_FOUND}, BP_LABELS_CLASS, 5, "<T:x=3>"},
    {"label,text\n",
     {NULL, NULL, true, BP_LABEL_FORM_FOUND},
     BP_LABELS_CLASS,
     5,
     "neither a number nor"},
    {"2,1\n", {NULL, "2", true, BP_LABEL_FORM_FOUND}, BP_LABELS_CLASS, 5, "<T:2=1>"},
    {"2,1\n", {"1", NULL, true, BP_LABEL_FORM_FOUND}, BP_LABELS_CLASS, 5, "<T:2=1>"},
    {"i,2,x\n", {"3", "2", true, BP_LABEL_FORM_FOUND}, BP_LABELS_CLASS, 5, "<T:x=2>"},
    {"i,2,x\n", {"3", "4", true, BP_LABEL_FORM_FOUND}, BP_LABELS_CLASS, 5, "--label-column names"},
    {"i,2,x\n", {NULL, NULL, true, BP_LABEL_FORM_FOUND}, BP_LABELS_CLASS, 5, "has two columns"},
    /* numbers however they are written */
    {"1.0,x\n2e0,y\n-0.0,z\n",
     {NULL, NULL, false, BP_LABEL_FORM_FOUND},
     BP_LABELS_CLASS,
     5,
     "<T:x=1><T:y=2><T:z=0>"},
    {"5.0,x\n",
     {NULL, NULL, false, BP_LABEL_FORM_FOUND},
     BP_LABELS_CLASS,
     5,
     "no class of the model"},
    {"1e300,x\n",
     {NULL, NULL, false, BP_LABEL_FORM_FOUND},
     BP_LABELS_CLASS,
     5,
     "not a whole number"},
    {"1.25,x\n",
     {NULL, NULL, false, BP_LABEL_FORM_FOUND},
     BP_LABELS_CLASS,
     5,
     "not a whole number"},
    {"score,Text\n1.5,x\n",
     {NULL, NULL, false, BP_LABEL_FORM_FOUND},
     BP_LABELS_BITS,
     0,
     "<T:x=1069547520>"},
};

/* verifies formats-71.e6f5 */
static void columns_are_found_or_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof found / sizeof found[0]; i++) {
        char tabs[128];
        size_t k = 0;
        try_reading(&found[i], BP_DATA_CSV, found[i].text);
        do {
            tabs[k] = found[i].text[k] == ',' ? '\t' : found[i].text[k];
        } while (found[i].text[k++] != '\0');
        try_reading(&found[i], BP_DATA_TSV, tabs);
    }
    const reading_case fields = {"{\"foo\": \"x\", \"bar\": 3.0, \"text\": \"y\", \"label\": 1}",
                                 {"foo", "bar", false, BP_LABEL_FORM_FOUND},
                                 BP_LABELS_CLASS,
                                 5,
                                 "<T:x=3>"};
    try_reading(&fields, BP_DATA_JSONL, fields.text);
    const reading_case none = {"{\"foo\": \"x\", \"label\": 3}",
                               {NULL, NULL, false, BP_LABEL_FORM_FOUND},
                               BP_LABELS_CLASS,
                               5,
                               "lacks `text` or `label`"};
    try_reading(&none, BP_DATA_JSONL, none.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_what_they_can_only_be),
        cmocka_unit_test(columns_have_usual_names),
        cmocka_unit_test(columns_are_found_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
