/* SPDX-License-Identifier: MIT */
/* The key of a token file, and making one. */
#include "tools/formats/data/data_tokenise.h"

#include <string.h>

#include "core/base/storage.h"
#include "tools/formats/files/data_array.h"

#define RULES 6u /* goes up when the same data would give other tokens */

enum { WINDOW_BYTES = 262144, IDS = 4096 };

static const char where[] = "tokenise";

/* The scratch, cut up. */
typedef struct room {
    unsigned char *window; /* WINDOW_BYTES */
    unsigned char *buffer; /* 2 * BP_TOKENS_BUFFER */
    void *documents;       /* BP_DOCUMENTS_SCRATCH */
    uint32_t *ids;         /* IDS */
} room;

/* Documents on their way into a token file. */
typedef struct maker {
    bp_tokenise *work;
    bp_tokens_writer writer;
    bp_documents documents;
    bp_data_reader reader;
    uint32_t *ids;
    bool begins;                  /* the tokenizer puts its beginning token before a text */
    uint32_t tail;                /* and so many tokens behind it */
    uint32_t last_of_all;         /* the last id that was written */
    bp_example example;           /* of the present document */
    bp_document_part part;        /* of the present encoder run */
    char path[BP_STORE_PATH_MAX]; /* of the file of speech, as far as it is read */
    size_t path_used;
    bool running;   /* the encoder has begun a part */
    bool second;    /* of a pair: the second text has begun */
    uint64_t lines; /* of all files: the most examples there can be */
    uint64_t seen;  /* bytes of the files before this one */
    uint64_t told;  /* bytes last told to the watcher */
} maker;

static bp_data_reader reader_of(const bp_tokenise *work, uint32_t file, const room *r)
{
    const bp_data_file *row = &work->data->files[file];
    return (bp_data_reader){.store = work->data->store,
                            .file = row->file,
                            .path = row->path,
                            .buffer = r->window,
                            .capacity = WINDOW_BYTES,
                            .error = work->error};
}

/* Names decide which class a text has. */
static void add_names(bp_digest *digest, const bp_class_names *names)
{
    const uint32_t count = names != NULL ? names->count : 0;
    for (uint32_t i = 0; i < count; i++) {
        const char *name = names->text + names->start[i];
        bp_digest_add(digest, name, strlen(name) + 1);
    }
}

/* The key, and how many examples there can be at most. */
static bp_status data_tokenise_survey(bp_tokenise *work, const room *r, uint64_t *key,
                                      uint64_t *lines)
{
    bp_digest digest;
    bp_digest_begin(&digest, 0);
    bp_data_key_number(&digest, RULES);
    bp_data_key_number(&digest, work->data->format);
    bp_data_key_number(&digest, work->labels);
    bp_data_key_number(&digest, work->classes);
    bp_data_key_number(&digest, work->may_lack);
    if (work->sources) {
        bp_data_key_number(&digest, (uint64_t)work->begins + 1);
    }
    for (uint32_t i = 0; work->hears && i < work->lead_count; i++) {
        bp_data_key_number(&digest, (uint64_t)work->lead[i] + 2);
    }
    for (uint32_t i = 0; work->hears && i < work->data->file_count; i++) {
        const char *path = work->data->files[i].path; /* paths of speech begin there */
        bp_digest_add(&digest, path, strlen(path) + 1);
    }
    if (work->labels == BP_LABELS_TEXTS && work->prompt != NULL) {
        bp_digest_add(&digest, work->prompt, strlen(work->prompt));
    }
    add_names(&digest, work->names);
    bp_data_reading_key(&work->reading, &digest);
    bp_data_key_number(&digest, (uint64_t)work->end_token);
    bp_data_key_number(&digest, work->vocabulary);
    bp_data_key_number(&digest,
                       work->encoder != NULL ? bp_tokenizer_digest(work->encoder->tokenizer) : 0);
    bp_data_key_number(&digest, work->data->file_count);
    work->bytes = 0;
    *lines = 0;
    for (uint32_t i = 0; i < work->data->file_count; i++) {
        bp_data_reader reader = reader_of(work, i, r);
        BP_TRY(bp_data_key_file(&reader, &digest, lines));
        work->bytes += reader.size;
        ++*lines;
    }
    *key = bp_digest_end(&digest);
    return BP_OK;
}

static bp_status put_ids(maker *m, const uint32_t *ids, size_t count)
{
    if (count > 0) {
        m->last_of_all = ids[count - 1];
        m->example.count += count;
    }
    return bp_tokens_put(&m->writer, ids, count);
}

static bp_status encode_bytes(maker *m, const char *bytes, size_t count)
{
    while (count > 0) {
        size_t n = count < IDS ? count : IDS;
        for (size_t i = 0; i < n; i++) {
            m->ids[i] = (unsigned char)bytes[i];
            if ((int64_t)m->ids[i] == m->work->end_token) {
                return bp_data_refuse(&m->reader,
                                      "the document holds the byte that ends documents (NUL)");
            }
        }
        BP_TRY(put_ids(m, m->ids, n));
        bytes += n;
        count -= n;
    }
    return BP_OK;
}

/* A piece of the path of a file of speech. */
static bp_status take_path(maker *m, const char *bytes, size_t count)
{
    if (count >= sizeof m->path - m->path_used) {
        return bp_data_refuse(&m->reader, "the path of the file of speech is too long");
    }
    memcpy(m->path + m->path_used, bytes, count);
    m->path_used += count;
    return BP_OK;
}

/* The path's bytes become the source's tokens; it begins at the data file's directory. */
static bp_status put_path(maker *m)
{
    const char *slash = strrchr(m->reader.path, '/');
    const size_t folder =
        m->path[0] == '/' || slash == NULL ? 0 : (size_t)(slash - m->reader.path) + 1;
    if (folder + m->path_used >= sizeof m->path) {
        return bp_data_refuse(&m->reader, "the path of the file of speech is too long");
    }
    memmove(m->path + folder, m->path, m->path_used);
    memcpy(m->path, m->reader.path, folder);
    m->path_used += folder;
    m->path[m->path_used] = '\0';
    BP_TRY(m->work->hear != NULL ? m->work->hear(m->work->ear, m->path) : BP_OK);
    for (size_t i = 0; i < m->path_used; i++) {
        m->ids[i] = (unsigned char)m->path[i];
    }
    return put_ids(m, m->ids, m->path_used);
}

static bp_status encode(maker *m, const char *bytes, size_t count)
{
    if (m->work->hears && m->part == BP_PART_PROMPT) {
        return take_path(m, bytes, count);
    }
    if (m->work->encoder == NULL) {
        return encode_bytes(m, bytes, count);
    }
    while (count > 0) {
        size_t used;
        size_t written;
        bp_encoder_feed(m->work->encoder, bytes, count, m->ids, IDS, &used, &written);
        BP_TRY(put_ids(m, m->ids, written));
        bytes += used;
        count -= used;
    }
    return BP_OK;
}

/* Ends what the encoder was given. */
static bp_status end_part(maker *m)
{
    const bool path = m->work->hears && m->part == BP_PART_PROMPT;
    bool more = m->running && m->work->encoder != NULL && !path;
    BP_TRY(m->running && path ? put_path(m) : BP_OK);
    m->running = false;
    while (more) {
        size_t written;
        more = bp_encoder_end(m->work->encoder, m->ids, IDS, &written);
        BP_TRY(put_ids(m, m->ids, written));
    }
    return BP_OK;
}

/* Whether a document is a pair, whose texts become one example. */
static bool is_pair(const maker *m)
{
    return m->documents.form == BP_FORM_LABELLED && m->documents.texts == 2;
}

/* Whether a completion goes on with the text of its prompt, so that no space is put between them.
 */
static bool goes_on(const maker *m, bp_document_part part)
{
    const bp_tokenizer *t = m->work->encoder->tokenizer;
    const bool once =
        t->rules.prefix == BP_PREFIX_META_FIRST; /* a space before the first text alone */
    return part == BP_PART_COMPLETION && m->example.count > (m->begins ? 1u : 0u) &&
           (once || !bp_tokenizer_is_cut(t, m->last_of_all));
}

static void begin_part(maker *m, bp_document_part part)
{
    m->part = part;
    m->running = true;
    if (m->work->encoder != NULL) {
        const bool made = m->work->sources && !m->work->hears;
        const bool whole = (part == BP_PART_TEXT && !is_pair(m)) || made;
        bp_encoder_begin(m->work->encoder, m->work->hears     ? BP_ENCODE_PLAIN
                                           : whole            ? BP_ENCODE_TEMPLATE
                                           : goes_on(m, part) ? BP_ENCODE_GOES_ON
                                                              : BP_ENCODE_PLAIN);
    }
}

/* What the post-processor puts at a place of a pair. */
static bp_status put_around(maker *m, bp_pair_position place)
{
    const uint32_t *ids = NULL;
    const bp_encoder *encoder = m->work->encoder;
    const uint32_t count = encoder != NULL ? bp_encoder_pair_ids(encoder, place, &ids) : 0;
    return count > 0 ? put_ids(m, ids, count) : BP_OK;
}

/* The first text is over, and the second begins. */
static bp_status begin_second(maker *m)
{
    BP_TRY(end_part(m));
    BP_TRY(put_around(m, BP_PAIR_BETWEEN));
    m->second = true;
    m->example.prompt = m->example.count;
    begin_part(m, BP_PART_SECOND);
    return BP_OK;
}

static bp_status end_pair(maker *m)
{
    if (!m->second) {
        BP_TRY(begin_second(m));
    }
    BP_TRY(end_part(m));
    return put_around(m, BP_PAIR_BEHIND);
}

/* What all pairs of the file have in common. */
static void describe_pairs(maker *m)
{
    bp_tokens_head *head = &m->writer.head;
    const bp_encoder *encoder = m->work->encoder;
    const uint32_t *ids;
    head->texts = 2;
    head->types = BP_PAIR_APART;
    head->tail = 0;
    if (encoder != NULL) {
        head->types = bp_encoder_pair_types(encoder);
        head->lead = bp_encoder_pair_ids(encoder, BP_PAIR_BEFORE, &ids);
        head->join = bp_encoder_pair_ids(encoder, BP_PAIR_BETWEEN, &ids);
        head->tail = bp_encoder_pair_ids(encoder, BP_PAIR_BEHIND, &ids);
    }
}

static bp_status data_tokenise_begin(void *user, bp_data_reader *reader)
{
    maker *m = user;
    (void)reader; /* it is m->reader */
    if (!m->writer.made) {
        const uint64_t each = m->documents.form == BP_FORM_TEXTS ? m->documents.texts : 1;
        const uint64_t most = bp_size_mul(m->lines, each);
        BP_TRY(bp_tokens_begin(&m->writer, m->documents.form == BP_FORM_TEXT ? 0 : most));
    }
    m->running = false;
    m->second = false;
    m->path_used = 0;
    m->example = (bp_example){.first = m->writer.head.tokens};
    if (is_pair(m)) {
        describe_pairs(m);
        return put_around(m, BP_PAIR_BEFORE);
    }
    if (m->documents.form == BP_FORM_PROMPT && m->begins && !m->work->sources) {
        uint32_t first = (uint32_t)bp_tokenizer_special_of(m->work->encoder->tokenizer)->bos;
        return put_ids(m, &first, 1);
    }
    return BP_OK;
}

static void tell(maker *m)
{
    uint64_t at = m->seen + m->reader.base;
    if (m->work->watch != NULL && at >= m->told + WINDOW_BYTES) {
        m->told = at;
        m->work->watch(m->work->user, at, m->work->bytes);
    }
}

/* The text that is learned begins, behind its source. */
static bp_status begin_target(maker *m)
{
    const int64_t end_token = m->work->end_token;
    if (m->example.count == 0) {
        return bp_data_refuse(&m->reader, "the source is empty: it has no token");
    }
    if (m->work->hears) {
        m->example.prompt = m->example.count;
        BP_TRY(m->work->begins == BP_TOKENISE_NOTHING ? BP_OK : put_ids(m, &m->work->begins, 1));
        return put_ids(m, m->work->lead, m->work->lead_count);
    }
    if (end_token >= 0 && (int64_t)m->last_of_all != end_token) {
        const uint32_t id = (uint32_t)end_token;
        BP_TRY(put_ids(m, &id, 1));
    }
    m->example.prompt = m->example.count;
    return put_ids(m, &m->work->begins, 1);
}

static bp_status piece(void *user, bp_document_part part, const char *bytes, size_t count)
{
    maker *m = user;
    tell(m);
    if (part == BP_PART_SECOND && !m->second) {
        BP_TRY(begin_second(m));
    }
    if (m->running && part != m->part) {
        BP_TRY(end_part(m));
    }
    if (!m->running) {
        if (part == BP_PART_COMPLETION && m->work->sources) {
            BP_TRY(begin_target(m));
        } else if (part == BP_PART_COMPLETION) {
            m->example.prompt = m->example.count;
        }
        begin_part(m, part);
    }
    return encode(m, bytes, count);
}

/* The end token closes a document of a stream and a completion, never a labelled text. The document
 * has a token. */
static bp_status close_document(maker *m)
{
    int64_t end_token = m->work->end_token;
    bool closed = (int64_t)m->last_of_all == end_token;
    if (m->documents.form == BP_FORM_LABELLED || m->documents.form == BP_FORM_TEXTS ||
        end_token < 0 || closed || m->work->data->format == BP_DATA_TEXT) {
        return BP_OK;
    }
    uint32_t id = (uint32_t)end_token;
    return put_ids(m, &id, 1);
}

static bp_status end(void *user, uint64_t label)
{
    maker *m = user;
    bool nothing = !m->running;
    if (is_pair(m)) {
        BP_TRY(end_pair(m));
        nothing = false;
    }
    if (m->documents.form == BP_FORM_PROMPT && (nothing || m->part == BP_PART_PROMPT)) {
        return bp_data_refuse(&m->reader, "the completion is empty: there is nothing to learn");
    }
    if (m->documents.form >= BP_FORM_LABELLED && nothing) {
        begin_part(m, BP_PART_TEXT); /* an empty text has a label, or a vector, all the same */
        nothing = false;
    }
    BP_TRY(end_part(m));
    if (m->documents.form == BP_FORM_TEXTS && m->example.count == 0) {
        return bp_data_refuse(&m->reader, "the text is empty: it has no token");
    }
    if (nothing || m->example.count == 0) {
        m->work->empty++;
        return BP_OK;
    }
    BP_TRY(close_document(m));
    const uint64_t text = m->example.count - m->example.prompt - 1; /* learned tokens */
    if (m->work->hears && text > m->work->longest) {
        return bp_data_refuse_most(&m->reader,
                                   "the text has more tokens than the model's "
                                   "max_target_positions",
                                   bp_size_signed(text), bp_size_signed(m->work->longest));
    }
    m->work->documents++;
    if (m->documents.form == BP_FORM_TEXT) {
        return BP_OK;
    }
    m->example.label = label;
    if (m->documents.form == BP_FORM_LABELLED) {
        BP_TRY(bp_tokens_at_row(&m->writer, m->work->documents + m->work->empty - 1));
    }
    return bp_tokens_put_example(&m->writer, &m->example);
}

void bp_tokenise_template(bp_encoder *encoder, bool *begins, uint32_t *tail)
{
    enum { MOST = 8 };
    uint32_t ids[MOST];
    size_t count;
    const bp_tokenizer_special *special = bp_tokenizer_special_of(encoder->tokenizer);
    bp_encoder_text(encoder, "", 0, BP_ENCODE_TEMPLATE, ids, MOST, &count);
    uint32_t added = count < MOST ? (uint32_t)count : MOST;
    *begins = added > 0 && (int64_t)ids[0] == special->bos;
    *tail = 0;
    uint32_t most = added - (*begins ? 1 : 0);
    while (*tail < most && ((int64_t)ids[added - 1 - *tail] == special->sep ||
                            (int64_t)ids[added - 1 - *tail] == special->eos)) {
        ++*tail;
    }
}

/* Between text files the text ends; behind the last one it is the data that ends. */
static bp_status between_files(maker *m, uint32_t file)
{
    bool text = m->work->data->format == BP_DATA_TEXT;
    bool last = file + 1 == m->work->data->file_count;
    int64_t end_token = m->work->end_token;
    if (!text || last || end_token < 0 || m->writer.head.tokens == 0 ||
        (int64_t)m->last_of_all == end_token) {
        return BP_OK;
    }
    uint32_t id = (uint32_t)end_token;
    return put_ids(m, &id, 1);
}

static bp_status data_tokenise_make(maker *m, const room *r, uint64_t lines)
{
    bp_tokenise *work = m->work;
    m->lines = lines;
    for (uint32_t i = 0; i < work->data->file_count; i++) {
        m->reader = reader_of(work, i, r);
        BP_TRY(bp_data_reader_begin(&m->reader));
        BP_TRY(bp_documents_read(&m->documents, &m->reader, work->data->format, r->documents));
        BP_TRY(between_files(m, i));
        m->seen += m->reader.size;
    }
    if (work->documents == 0) {
        return bp_error_set(work->error, BP_ERR_DATA, where,
                            "the data holds no document with a token in it",
                            work->data->source.name);
    }
    m->writer.head.form = (uint32_t)m->documents.form;
    m->writer.head.unlabelled = m->documents.lacks ? 1 : 0;
    m->writer.head.documents = work->documents;
    m->writer.head.texts =
        m->documents.form == BP_FORM_TEXTS ? m->documents.texts : m->writer.head.texts;
    return bp_tokens_end(&m->writer);
}

static bp_status build(bp_tokenise *work, const room *r, uint64_t key, uint64_t lines)
{
    const bool labelled = work->labels == BP_LABELS_CLASS || work->labels == BP_LABELS_BITS;
    const bool texts = work->labels == BP_LABELS_TEXTS;
    uint64_t cut = work->encoder != NULL ? work->encoder->cut : 0;
    maker m = {.work = work, .ids = r->ids};
    if (work->encoder != NULL) {
        bp_tokenise_template(work->encoder, &m.begins, &m.tail);
    }
    m.documents = (bp_documents){.user = &m,
                                 .begin = data_tokenise_begin,
                                 .piece = piece,
                                 .end = end,
                                 .form = labelled ? BP_FORM_LABELLED
                                         : texts  ? BP_FORM_TEXTS
                                                  : BP_FORM_OPEN,
                                 .sources = work->sources,
                                 .hears = work->hears,
                                 .prompt = work->prompt,
                                 .may_lack = work->may_lack,
                                 .labels = work->labels,
                                 .classes = work->classes,
                                 .names = work->names,
                                 .reading = work->reading};
    m.writer = (bp_tokens_writer){
        .store = work->data->store, .path = work->path, .buffer = r->buffer, .error = work->error};
    m.writer.head = (bp_tokens_head){.width = bp_tokens_width(work->vocabulary),
                                     .tail = work->sources       ? 1
                                             : labelled || texts ? m.tail
                                                                 : 0,
                                     .key = key};
    bp_status status = data_tokenise_make(&m, r, lines);
    if (status != BP_OK) {
        bp_tokens_abandon(&m.writer);
    }
    work->built = true;
    work->cut = work->encoder != NULL ? work->encoder->cut - cut : 0;
    return status;
}

bp_status bp_tokenise_open(bp_tokenise *work, bp_tokens *tokens)
{
    unsigned char *at = work->scratch;
    const room r = {.ids = work->scratch,
                    .documents = at + IDS * sizeof(uint32_t),
                    .window = at + IDS * sizeof(uint32_t) + BP_DOCUMENTS_SCRATCH,
                    .buffer = at + IDS * sizeof(uint32_t) + BP_DOCUMENTS_SCRATCH + WINDOW_BYTES};
    uint64_t key;
    uint64_t lines;
    *tokens = (bp_tokens){.open = false};
    work->documents = 0;
    work->empty = 0;
    work->cut = 0;
    work->built = false;
    BP_TRY(data_tokenise_survey(work, &r, &key, &lines));
    if (bp_tokens_fits(tokens, work->data->store, work->path, key, r.buffer, work->error)) {
        return BP_OK;
    }
    BP_TRY(build(work, &r, key, lines));
    return bp_tokens_open(tokens, work->data->store, work->path, NULL, work->error);
}

/* Keys of files that are made from data. */

void bp_data_key_number(bp_digest *digest, uint64_t value)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)(value >> (8 * i));
    }
    bp_digest_add(digest, bytes, sizeof bytes);
}

static uint64_t data_key_count(const unsigned char *bytes, size_t count, int byte)
{
    uint64_t found = 0;
    const unsigned char *at = bytes;
    while ((at = memchr(at, byte, count - (size_t)(at - bytes))) != NULL) {
        at++;
        found++;
    }
    return found;
}

bp_status bp_data_key_file(bp_data_reader *reader, bp_digest *key, uint64_t *lines)
{
    const unsigned char *bytes;
    size_t count;
    uint64_t offset = 0;
    bp_data_array array;
    bool is_array;
    BP_TRY(bp_data_reader_begin(reader));
    BP_TRY(bp_data_mark(reader, &offset));
    BP_TRY(bp_data_array_begin(reader, offset, &array, &is_array));
    offset = 0;
    bp_data_key_number(key, reader->size);
    BP_TRY(bp_data_look(reader, offset, &bytes, &count));
    while (count > 0) {
        bp_digest_add(key, bytes, count);
        *lines += data_key_count(bytes, count, '\n');
        *lines += is_array ? data_key_count(bytes, count, '{') : 0;
        offset += count;
        BP_TRY(bp_data_look(reader, offset, &bytes, &count));
    }
    return BP_OK;
}
