/* SPDX-License-Identifier: MIT */
/* A reader of the protocol buffers' encoding, for the few fields that matter here. */
#include "tools/formats/text/token_pieces.h"

#include <math.h>
#include <string.h>

#include "tools/formats/text/token_table.h"
#include "tools/formats/text/token_word.h"

/* Types of pieces. */
enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

/* A message, or the file: how much of it is left. */
typedef struct message {
    bp_load *load;
    uint64_t left;
} message;

typedef struct field {
    uint32_t number;
    uint32_t wire; /* 0 a number, 1 and 5 eight and four bytes, 2 bytes */
    uint64_t value;
} field;

static bp_status pieces_refuse(bp_load *load, const char *name, const char *text)
{
    return bp_error_set(load->error, BP_ERR_DATA, "tokenizer", text, name);
}

static bp_status take_byte(message *m, uint8_t *byte)
{
    bool there = false;
    if (m->left > 0) {
        BP_TRY(bp_load_byte(m->load, byte, &there));
    }
    m->left--;
    return there ? BP_OK : pieces_refuse(m->load, NULL, "the model is cut off");
}

static bp_status take_varint(message *m, uint64_t *value)
{
    uint8_t byte = 0x80;
    *value = 0;
    for (uint32_t shift = 0; (byte & 0x80) != 0; shift += 7) {
        BP_TRY(take_byte(m, &byte));
        if (shift > 63) {
            return pieces_refuse(m->load, NULL, "a number of the model has too many bytes");
        }
        *value |= (uint64_t)(byte & 0x7f) << shift;
    }
    return BP_OK;
}

/* The next field; of bytes its value is how many follow. */
static bp_status take_field(message *m, field *f)
{
    uint64_t tag;
    uint8_t byte;
    BP_TRY(take_varint(m, &tag));
    *f = (field){.number = (uint32_t)(tag >> 3), .wire = (uint32_t)tag & 7u};
    if (f->wire == 0) {
        return take_varint(m, &f->value);
    }
    if (f->wire == 2) {
        BP_TRY(take_varint(m, &f->value));
        return f->value <= m->left ? BP_OK : pieces_refuse(m->load, NULL, "the model is cut off");
    }
    if (f->wire != 1 && f->wire != 5) {
        return pieces_refuse(m->load, NULL, "this is no model of SentencePiece");
    }
    for (uint32_t i = 0; i < (f->wire == 1 ? 8u : 4u); i++) {
        BP_TRY(take_byte(m, &byte));
        f->value |= (uint64_t)byte << 8 * i;
    }
    return BP_OK;
}

static bp_status skip(message *m, const field *f)
{
    uint8_t byte;
    for (uint64_t i = 0; f->wire == 2 && i < f->value; i++) {
        BP_TRY(take_byte(m, &byte));
    }
    return BP_OK;
}

/* A field of bytes as a message of its own. */
static message inside(message *m, const field *f)
{
    m->left -= f->value;
    return (message){m->load, f->value};
}

typedef struct piece {
    size_t length; /* of its text, in scratch->token */
    float score;
    uint64_t type;
} piece;

static bp_status take_piece(message *m, piece *p)
{
    field f;
    char *text = m->load->scratch->token;
    *p = (piece){.type = NORMAL};
    while (m->left > 0) {
        BP_TRY(take_field(m, &f));
        if (f.number == 1 && f.wire == 2) {
            if (f.value >= BP_TOKENIZER_DECODED_MAX) {
                return pieces_refuse(m->load, "pieces", "a token is too long");
            }
            p->length = (size_t)f.value;
            for (size_t i = 0; i < p->length; i++) {
                BP_TRY(take_byte(m, (uint8_t *)&text[i]));
            }
        } else if (f.number == 2 && f.wire == 5) {
            const uint32_t bits = (uint32_t)f.value;
            memcpy(&p->score, &bits, sizeof bits);
        } else if (f.number == 3 && f.wire == 0) {
            p->type = f.value;
        } else {
            BP_TRY(skip(m, &f));
        }
    }
    if (p->length == 0 || p->type < NORMAL || p->type > BYTE || !(fabsf(p->score) < 1e30f)) {
        return pieces_refuse(m->load, "pieces",
                             "a piece needs a text, a score that is a number and a known type");
    }
    return bp_load_is_utf8(text, p->length)
               ? BP_OK
               : pieces_refuse(m->load, "pieces", "a piece is not UTF-8");
}

static const char meta[3] = {'\xe2', '\x96', '\x81'};

/* Whether U+2581 stands behind another character inside. */
static bool crosses(const char *text, size_t length)
{
    for (size_t i = 1; i + 3 <= length; i++) {
        const bool before = i >= 3 && memcmp(text + i - 3, meta, 3) == 0;
        if (memcmp(text + i, meta, 3) == 0 && !before) {
            return true;
        }
    }
    return false;
}

static int hex_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bp_status add_byte(bp_load *load, const piece *p, int64_t id)
{
    const char *text = load->scratch->token;
    const bool spelt = p->length == 6 && memcmp(text, "<0x", 3) == 0 && text[5] == '>';
    const int high = spelt ? hex_of(text[3]) : -1, low = spelt ? hex_of(text[4]) : -1;
    if (high < 0 || low < 0) {
        return pieces_refuse(load, "pieces", "a piece of the type byte is not spelt as <0xFF>");
    }
    load->tokenizer->byte_ids[high * 16 + low] = (uint32_t)id;
    return BP_OK;
}

/* Into the tables. */
static bp_status add_piece(bp_load *load, const piece *p, int64_t id)
{
    bp_tokenizer *t = load->tokenizer;
    const bool user = p->type == USER_DEFINED, found = p->type == NORMAL || user;
    BP_TRY(bp_token_add(t, load->scratch->token, p->length, (uint32_t)id, found, load->error));
    t->scores[id] = (double)p->score;
    if (found) {
        bp_token_set_score(t, (uint32_t)id, (double)p->score);
    }
    if (p->type == NORMAL) {
        load->least = p->score < load->least ? p->score : load->least;
    }
    t->lengths[id] |= user ? BP_TOKEN_USER : 0;
    if (p->type == BYTE) {
        return add_byte(load, p, id);
    }
    return p->type == CONTROL ? bp_token_add_added(t, (uint32_t)id, BP_ADDED_SPECIAL, load->error)
                              : BP_OK;
}

static bp_status count_piece(bp_load *load, const piece *p, int64_t id)
{
    const char *text = load->scratch->token;
    if (p->type == UNKNOWN) {
        load->unknowns++;
        load->rules.unknown_id = (uint32_t)id;
    }
    load->unused = load->unused || p->type == UNUSED;
    load->users = load->users || p->type == USER_DEFINED;
    if (p->type == USER_DEFINED && memchr(text, ' ', p->length) != NULL) {
        return pieces_refuse(load, "pieces", "pieces of users with a space are not implemented");
    }
    load->need->added += p->type == CONTROL ? 1 : 0;
    if (p->type != CONTROL && crosses(text, p->length)) {
        load->rules.split = BP_SPLIT_WHOLE;
    }
    return bp_load_token(load, text, p->length, id);
}

/* trainer_spec */
static bp_status take_trainer(message *m)
{
    bp_load *load = m->load;
    field f;
    while (m->left > 0) {
        BP_TRY(take_field(m, &f));
        if (f.wire != 0) {
            BP_TRY(skip(m, &f));
        } else if (f.number == 3) {
            load->model_type = f.value;
        } else if (f.number == 24 && f.value != 0) {
            return pieces_refuse(load, "treat_whitespace_as_suffix", "only false is implemented");
        } else if (f.number == 35) {
            load->rules.fallback = f.value != 0;
        }
    }
    return BP_OK;
}

/* normalizer_spec; `map`: the character map goes into the tables. */
static bp_status take_normalizer(message *m)
{
    bp_load *load = m->load;
    bp_token_rules *rules = &load->rules;
    field f;
    while (m->left > 0) {
        BP_TRY(take_field(m, &f));
        if (f.number == 2 && f.wire == 2) {
            message bytes = inside(m, &f);
            rules->charsmap = f.value > 0;
            load->need->map_bytes = (uint32_t)f.value;
            while (bytes.left > 0) {
                uint8_t byte;
                BP_TRY(take_byte(&bytes, &byte));
                if (load->pass == BP_LOAD_TOKENS &&
                    load->tokenizer->map_used < load->tokenizer->map_room) {
                    load->tokenizer->map[load->tokenizer->map_used++] = byte;
                }
            }
        } else if (f.number == 3 && f.wire == 0) {
            rules->prefix = f.value != 0 ? BP_PREFIX_PREPEND : BP_PREFIX_NEVER;
        } else if (f.number == 4 && f.wire == 0) {
            rules->strip_right = f.value != 0;
        } else if (f.number == 5 && f.wire == 0 && f.value == 0) {
            return pieces_refuse(load, "escape_whitespaces", "only true is implemented");
        } else {
            BP_TRY(skip(m, &f));
        }
    }
    return BP_OK;
}

static bp_status resolve(bp_load *load)
{
    bp_token_rules *rules = &load->rules;
    if (load->model_type != 1 && load->model_type != 2) {
        return pieces_refuse(load, "model_type", "only the types unigram and BPE are implemented");
    }
    if (load->unknowns != 1) {
        return pieces_refuse(load, "pieces", "one piece must be of the type unknown");
    }
    rules->kind = load->model_type == 1 ? BP_TOKENIZER_UNIGRAM : BP_TOKENIZER_CHAR_BPE;
    rules->strip = rules->prefix == BP_PREFIX_PREPEND ? BP_STRIP_ONE : BP_STRIP_NOTHING;
    if (load->model_type == 2 && load->unused) {
        return pieces_refuse(load, "pieces", "BPE with unused pieces is not implemented");
    }
    if (load->model_type == 1 && load->users) {
        return pieces_refuse(load, "pieces",
                             "pieces that users defined are implemented of BPE alone");
    }
    return BP_OK;
}

/* ---- XLM-R: fairseq's ids of the pieces ---- */

/* <s> <pad> </s> <unk>, every other piece one further than in its file, <mask> behind them. */
static const int64_t fairseq_ids[] = {3, 0, 2};
#define FAIRSEQ_FIRST (sizeof fairseq_ids / sizeof fairseq_ids[0])

/* The id of a piece whose text is in scratch->token. */
static bp_status piece_id(bp_load *load, const piece *p, int64_t place, int64_t *id)
{
    static const char *const names[] = {"<unk>", "<s>", "</s>"};
    const size_t first = (size_t)place;
    *id = load->fairseq ? place + 1 : place;
    if (!load->fairseq || first >= FAIRSEQ_FIRST) {
        return BP_OK;
    }
    *id = fairseq_ids[first];
    return p->type == (first == 0 ? UNKNOWN : CONTROL) && p->length == strlen(names[first]) &&
                   memcmp(load->scratch->token, names[first], p->length) == 0
               ? BP_OK
               : pieces_refuse(load, "pieces", "XLM-R's begin with <unk>, <s> and </s>");
}

static bp_status add_fairseq(bp_load *load, int64_t pieces)
{
    BP_TRY(bp_load_added(load, "<pad>", 5, 1, BP_ADDED_SPECIAL, false));
    return bp_load_added(load, "<mask>", 6, pieces + 1, BP_ADDED_SPECIAL | BP_ADDED_LSTRIP, false);
}

bp_status bp_load_pieces(bp_load *load)
{
    message file = {load, load->reader.end};
    int64_t place = 0, id;
    if (load->pass == BP_LOAD_MERGES) {
        return BP_OK;
    }
    if (load->pass == BP_LOAD_COUNT) {
        load->rules = (bp_token_rules){.split = BP_SPLIT_SPACES,
                                       .prefix = BP_PREFIX_PREPEND,
                                       .native = true,
                                       .spaces = true,
                                       .strip_right = true};
        load->model_type = 1;
        load->need->scored = true;
    } else {
        memset(load->tokenizer->byte_ids, 0xff, sizeof load->tokenizer->byte_ids);
        load->least = HUGE_VALF;
    }
    while (file.left > 0) {
        field f;
        piece p;
        BP_TRY(take_field(&file, &f));
        if (f.wire != 2 || f.number > 3) {
            BP_TRY(skip(&file, &f));
            continue;
        }
        message part = inside(&file, &f);
        if (f.number == 1) {
            BP_TRY(take_piece(&part, &p));
            BP_TRY(piece_id(load, &p, place++, &id));
            BP_TRY((load->pass == BP_LOAD_COUNT ? count_piece : add_piece)(load, &p, id));
        } else {
            BP_TRY(f.number == 2 ? take_trainer(&part) : take_normalizer(&part));
        }
    }
    if (load->fairseq) {
        BP_TRY(add_fairseq(load, place));
    }
    return load->pass == BP_LOAD_COUNT ? resolve(load) : BP_OK;
}

void bp_token_pieces_finish(bp_load *load)
{
    load->tokenizer->unknown_score = (double)(load->least - 10.0f);
}

/* ---- BPE by scores. A symbol's number is the byte where it begins. ---- */

#define FROZEN 0x80000000u /* in work->id: a piece of users, which joins nothing */

/* Sooner for a higher score. */
static uint32_t rank_of_score(double score)
{
    const float narrow = (float)score;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    const uint32_t ordered = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
    return ~ordered;
}

/* The rank of joining the symbols at i and after it, which end before `end`. */
static uint32_t pair_rank(const bp_tokenizer *t, const unsigned char *word, const bp_word_work *w,
                          uint32_t i, size_t end)
{
    const uint32_t right = w->next[i];
    const bool frozen = w->id[i] != BP_TOKEN_NONE && (w->id[i] & FROZEN) != 0;
    if (right >= end || frozen || (w->id[right] != BP_TOKEN_NONE && (w->id[right] & FROZEN) != 0) ||
        w->next[right] - i > t->token_longest) {
        return BP_TOKEN_NONE;
    }
    const uint32_t id = bp_token_find(t, word + i, w->next[right] - i);
    if (t->rules.ranked) {
        return id;
    }
    return id != BP_TOKEN_NONE ? rank_of_score(t->scores[id]) : BP_TOKEN_NONE;
}

/* Bytes of the longest piece of users that text begins with; 0 for none. */
static size_t users_piece(const bp_tokenizer *t, const unsigned char *text, size_t length)
{
    const size_t most = length < t->token_longest ? length : t->token_longest;
    uint64_t hash = bp_token_hash_begin();
    size_t longest = 0;
    for (size_t end = 1; end <= most; end++) {
        hash = bp_token_hash_add(hash, text[end - 1]);
        if (end < length && (text[end] & 0xc0) == 0x80) {
            continue;
        }
        if (!bp_token_may_begin(t, hash)) {
            break;
        }
        const uint32_t id = bp_token_lookup(t, hash, text, end);
        longest = id != BP_TOKEN_NONE && (t->lengths[id] & BP_TOKEN_USER) != 0 ? end : longest;
    }
    return longest;
}

static void make_symbols(const bp_tokenizer *t, const unsigned char *word, size_t length,
                         const bp_word_work *w)
{
    uint32_t before = BP_TOKEN_NONE;
    for (size_t at = 0; at < length; at = w->next[at]) {
        size_t step = t->rules.ranked ? 1 : users_piece(t, word + at, length - at);
        const uint32_t frozen = step > 0 && !t->rules.ranked ? FROZEN : 0;
        if (step == 0) {
            (void)bp_utf8_get(word + at, &step);
        }
        const uint32_t id = bp_token_find(t, word + at, step);
        w->id[at] = id != BP_TOKEN_NONE ? id | frozen : id;
        w->before[at] = before;
        w->next[at] = (uint32_t)(at + step);
        before = (uint32_t)at;
    }
}

static void join(const bp_tokenizer *t, const unsigned char *word, size_t length,
                 const bp_word_work *w)
{
    const uint32_t i = w->tree[1], gone = w->next[i], after = w->next[gone];
    w->id[i] = bp_token_find(t, word + i, after - i);
    w->next[i] = after;
    bp_tournament_set(w, gone, BP_TOKEN_NONE, length);
    if (after < length) {
        w->before[after] = i;
    }
    bp_tournament_set(w, i, pair_rank(t, word, w, i, length), length);
    if (i > 0) {
        const uint32_t before = w->before[i];
        bp_tournament_set(w, before, pair_rank(t, word, w, before, length), length);
    }
}

size_t bp_token_pieces_join(const bp_tokenizer *t, const unsigned char *word, size_t length,
                            const bp_word_work *w)
{
    size_t count = 0;
    bool unknown = false;
    make_symbols(t, word, length, w);
    memset(w->rank, 0xff, length * sizeof *w->rank);
    for (size_t at = 0; at < length; at = w->next[at]) {
        w->rank[at] = pair_rank(t, word, w, (uint32_t)at, length);
    }
    if (length > 1) {
        bp_tournament_begin(w, length);
        while (w->rank[w->tree[1]] != BP_TOKEN_NONE) {
            join(t, word, length, w);
        }
    }
    /* Ids are no more than bytes, and each is written behind where it is read. */
    for (size_t at = 0, next; at < length; at = next) {
        const uint32_t id = w->id[at];
        next = w->next[at];
        if (id != BP_TOKEN_NONE) {
            w->id[count++] = id & ~FROZEN;
            unknown = false;
            continue;
        }
        bool bytes = t->rules.fallback;
        for (size_t i = at; bytes && i < next; i++) {
            bytes = t->byte_ids[word[i]] != BP_TOKEN_NONE;
        }
        for (size_t i = at; bytes && i < next; i++) {
            w->id[count++] = t->byte_ids[word[i]];
        }
        if (!bytes && !unknown) {
            w->id[count++] = t->rules.unknown_id;
        }
        unknown = !bytes;
    }
    return count;
}
