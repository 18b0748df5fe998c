/* SPDX-License-Identifier: MIT */
/* libFuzzer target: the files of a tokenizer, and text through one. The first byte says what the
 * rest is: j  a tokenizer.json s  members of a tokenizer.json, to which a model over bytes and
 * characters is added g  vocab.json, the byte 01, merges.txt b  vocab.txt, the byte 01,
 * tokenizer_config.json p  a tokenizer.model x  XLM-R's t  a tekken.json 0 1 2 3 4 5  text for a
 * tokenizer that splits as GPT-2, as Llama 3, not at all, as BERT, and for Unigram with and without
 * a character map. A tokenizer that opens must give the same ids for every way of feeding a text,
 * and ids that decode.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/formats/text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { TOKEN_FILES = 6, TOKEN_TABLES = 1 << 22, TOKEN_TEXT = 1 << 16, TOKEN_WORD = 512 };

/* A directory in memory. */
typedef struct token_store {
    bp_store store;
    const char *names[TOKEN_FILES];
    const uint8_t *bytes[TOKEN_FILES];
    size_t sizes[TOKEN_FILES];
    size_t count;
} token_store;

static void token_put(token_store *s, const char *name, const void *bytes, size_t size)
{
    s->names[s->count] = name;
    s->bytes[s->count] = bytes;
    s->sizes[s->count++] = size;
}

static bp_status token_open(bp_store *store, const char *path, bp_file *file)
{
    const token_store *s = store->context;
    for (size_t i = 0; i < s->count; i++) {
        if (strcmp(s->names[i], path) == 0) {
            file->handle = i + 1;
            return BP_OK;
        }
    }
    return BP_ERR_STORE;
}

static bp_status token_exists(bp_store *store, const char *path, bool *there)
{
    bp_file file;
    *there = token_open(store, path, &file) == BP_OK;
    return BP_OK;
}

static bp_status token_size(bp_store *store, bp_file file, uint64_t *bytes)
{
    *bytes = ((token_store *)store->context)->sizes[file.handle - 1];
    return BP_OK;
}

static bp_status token_read(bp_store *store, bp_file file, uint64_t offset, void *to, size_t bytes)
{
    const token_store *s = store->context;
    size_t size = s->sizes[file.handle - 1];
    if (offset > size || bytes > size - offset) {
        abort(); /* a read outside the file */
    }
    memcpy(to, s->bytes[file.handle - 1] + offset, bytes);
    return BP_OK;
}

static bp_status token_close(bp_store *store, bp_file file)
{
    (void)store;
    (void)file;
    return BP_OK;
}

static void token_store_init(token_store *s)
{
    memset(s, 0, sizeof *s);
    s->store = (bp_store){.context = s,
                          .open_read = token_open,
                          .file_size = token_size,
                          .read_at = token_read,
                          .close = token_close,
                          .exists = token_exists};
}

/* What a tokenizer makes of a text, as a number. */
static uint64_t token_encode(bp_encoder *e, const uint8_t *text, size_t size, size_t piece,
                             size_t room, uint64_t *count)
{
    static char bytes[BP_TOKENIZER_DECODED_MAX];
    uint32_t ids[64];
    uint64_t sum = 0;
    size_t used;
    size_t written;
    bool more = true;
    bp_decoder decoder = {.begun = false};
    *count = 0;
    bp_encoder_begin(e, BP_ENCODE_TEMPLATE);
    for (size_t at = 0; at < size || more;) {
        if (at < size) {
            size_t left = size - at;
            bp_encoder_feed(e, text + at, left < piece ? left : piece, ids, room, &used, &written);
            at += used;
        } else {
            more = bp_encoder_end(e, ids, room, &written);
        }
        for (size_t i = 0; i < written; i++) {
            size_t length;
            if (bp_decoder_next(&decoder, e->tokenizer, ids[i], bytes, &length) != BP_OK ||
                length > sizeof bytes) {
                abort(); /* an id that no token has */
            }
            sum = (sum ^ ids[i]) * 0x9e3779b97f4a7c15u + 1;
        }
        *count += written;
    }
    return sum;
}

/* Two texts, fed in three ways. */
static void token_use(bp_tokenizer *t, const uint8_t *text, size_t size)
{
    static uint64_t memory[(1u << 21) / 8];
    static const uint8_t sample[] = "It's <s> a\t \xc3\x89t\xc3\xa9, 123  \n\n x<|e|>\xff<|e|>";
    bp_encoder e;
    if (bp_encoder_bytes(TOKEN_WORD) > sizeof memory ||
        bp_encoder_init(&e, t, TOKEN_WORD, memory) != BP_OK) {
        abort();
    }
    for (int i = 0; i < 2; i++) {
        const uint8_t *bytes = i == 0 ? sample : text;
        size_t count = i == 0 ? sizeof sample : size < 2000 ? size : 2000;
        uint64_t counts[3];
        uint64_t whole = token_encode(&e, bytes, count, count, 64, &counts[0]);
        if (token_encode(&e, bytes, count, 1, 1, &counts[1]) != whole ||
            token_encode(&e, bytes, count, 7, 3, &counts[2]) != whole || counts[0] != counts[1] ||
            counts[0] != counts[2]) {
            abort();
        }
    }
}

/* Opens what is in the store; true when it is a tokenizer. */
static bool token_load(bp_tokenizer *t, token_store *s)
{
    static uint64_t scratch[BP_TOKENIZER_SCRATCH / 8];
    static uint64_t tables[TOKEN_TABLES / 8];
    bp_tokenizer_need need;
    bp_error error = {.code = BP_OK};
    bp_status status = bp_tokenizer_measure(&s->store, "", scratch, &need, &error);
    if (status == BP_OK && need.files != BP_TOKENIZER_NONE && need.bytes <= sizeof tables) {
        status = bp_tokenizer_open(t, &s->store, "", &need, tables, scratch, &error);
        if (status == BP_OK) {
            return true;
        }
    }
    if (status != error.code || (status != BP_OK && status != BP_ERR_DATA)) {
        abort();
    }
    return false;
}

/* A model whose vocabulary has every byte, as a character and as <0x00>, and some merges. */
static size_t token_model(char *to, size_t room, bool meta)
{
    size_t at = (size_t)snprintf(to, room,
                                 "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":{");
    unsigned next = 256;
    for (unsigned byte = 0; byte < 256; byte++) {
        bool prints = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
        unsigned c = prints ? byte : next++;
        const char *escape = c == '"' || c == '\\' ? "\\" : "";
        char utf8[3] = {(char)c, 0, 0};
        if (c >= 0x80) {
            utf8[0] = (char)(0xc0 | c >> 6);
            utf8[1] = (char)(0x80 | (c & 0x3f));
        }
        at += (size_t)snprintf(to + at, room - at, "\"%s%s\":%u,\"<0x%02X>\":%u,", escape, utf8,
                               byte, byte, 256 + byte);
    }
    const char *space = meta ? "\xe2\x96\x81" : "\xc4\xa0"; /* what merges with an x */
    at += (size_t)snprintf(to + at, room - at,
                           "\"<s>\":512,\"it\":513,\"ita\":514,\"\xe2\x96\x81\":515,\"%sx\":516},"
                           "\"merges\":[\"i t\",[\"it\",\"a\"],\"%s x\"]}}",
                           space, space);
    return at;
}

/* Settings for the texts of kind 0, 1 and 2. */
static const char *const token_settings[] = {
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\"}",
    "\"added_tokens\":[{\"id\":512,\"content\":\"<s>\",\"special\":true,\"lstrip\":true,"
    "\"normalized\":false},{\"id\":517,\"content\":\"<s>a\",\"rstrip\":true,\"normalized\":false},"
    "{\"id\":518,\"content\":\"  \",\"normalized\":false}],"
    "\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":"
    "[{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":"
    "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}|"
    " ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"}},"
    "{\"type\":\"ByteLevel\",\"use_regex\":false,\"add_prefix_space\":false}]}",
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"
    "\"\xe2\x96\x81\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":"
    "\"\xe2\x96\x81\"}]}"};

/* SentencePiece's own map of A, a with an accent, U+00A0, U+FB01, U+200B and U+000D. */
static const char token_map[] =
    "AAQAAAAwAAANDQAAAQAAgAMAAIDMAAIAgQ0AAAgAAICgFQAAgCgCAIsNAAAAAACAgRkAAKwYAgAFAACADwAAAA4A"
    "AAARAAAAEAAAABMAAAASAAAAFQAAABQAAAAXAAAAFgAAABkAAAAYAAAAGwAAABoAAAAdAAAAHAAAAB8AAAAeAAAA"
    "IQAAACAAAAAjAAAAIgAAACUAAAAkAAAAJwAAACYAAAApAAAAKAAAACsAAAAqAAAALQAAACwAAAAvAAAALgAAADEA"
    "AAAwAAAAMwAAADIAAAA1AAAANAAAADcAAAA2AAAAOQAAADgAAAA7AAAAOgAAAD0AAAA8AAAAPwAAAD4AAABBAAAA"
    "QAAAAEMAAABCAAAARQAAAEQAAABHAAAARgAAAEkAAABIAAAASwAAAEoAAABNAAAAQTkBAE8AAABOAAAAUQAAAFAA"
    "AABTAAAAUgAAAFUAAABUAAAAVwAAAFYAAABZAAAAWAAAAFsAAABaAAAAXQAAAFwAAABfAAAAXgAAAGEAAABgAAAA"
    "YwAAAGIAAABlAAAAZAAAAGcAAABmAAAAaQAAAGgAAABrAAAAagAAAG0AAABhlAIAbwAAAG4AAABxAAAAcAAAAHMA"
    "AAByAAAAdQAAAHQAAAB3AAAAdgAAAHkAAAB4AAAAewAAAHoAAAB9AAAAfAAAAH8AAAB+AAAAgQAAAIAAAACDAAAA"
    "ggAAAIUAAACEAAAAhwAAAIYAAACJAAAAiAAAAIsAAACKAAAAjQAAAIwAAACPAAAAjgAAAJEAAACQAAAAkwAAAJIA"
    "AACVAAAAlAAAAJcAAACWAAAAmQAAAJgAAACbAAAAmgAAAJ0AAACcAAAAnwAAAJ4AAAChAAAAoAAAAKMAAACiAAAA"
    "pQAAAKQAAACnAAAApgAAAKkAAACoAAAAqwAAAKoAAACtAAAArAAAAK8AAACuAAAAsQAAALAAAACzAAAAsgAAALUA"
    "AAC0AAAAtwAAALYAAAC5AAAAuAAAALsAAAC6AAAAvQAAALwAAAC/AAAAvgAAAMEAAADAAAAAwwAAAMIAAADFAAAA"
    "xAAAAMcAAADGAAAAyQAAAMgAAADLAAAAygAAAM0AAADMAAAAwqQBAM4AAADRAAAA0AAAANMAAADSAAAA1QAAANQA"
    "AADXAAAA1gAAANkAAADYAAAA2wAAANoAAADdAAAA3AAAAN8AAADeAAAA4QAAAOAAAADjAAAA7wwBAOUAAADkAAAA"
    "5wAAAOYAAADpAAAA6AAAAOsAAADqAAAA7QAAAOwAAADimAEA7gAAAPEAAADwAAAA8wAAAPIAAAD1AAAA9AAAAPcA"
    "AAD2AAAA+QAAAPgAAAD7AAAA+gAAAP0AAAD8AAAA/wAAAP4AAAAAIABhAGZpAMOhAA==";

/* Unigram: bytes of what is unknown, in two settings. */
static const char token_pieces[] =
    "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"byte_fallback\":true,\"vocab\":[[\"<unk>\",0],"
    "[\"<s>\",0],[\"\xe2\x96\x81\",-2],[\"a\",-3],[\"it\",-2.5],[\"i\",-3],[\"t\",-3.5],"
    "[\"\xe2\x96\x81it\",-2],[\"ta\",-2.5],[\"\xc3\xa9\",-4],[\"1\",-4],[\"12\",-5],"
    "[\"\xe2\x96\x81\xe2\x96\x81\",-4],[\"<0xFF>\",-9],[\"<0xC3>\",-9]]},";
static const char token_words[] =
    "\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"%s\"},"
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"WhitespaceSplit\"},"
    "{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\"}]}}";
static const char token_strip[] =
    "\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"special\":true,\"lstrip\":true,"
    "\"normalized\":false}],\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":"
    "\"Strip\",\"strip_left\":false,\"strip_right\":true},{\"type\":\"Replace\",\"pattern\":"
    "{\"Regex\":\" {2,}\"},\"content\":\" \"}]},\"pre_tokenizer\":{\"type\":\"Metaspace\","
    "\"replacement\":\"\xe2\x96\x81\",\"prepend_scheme\":\"first\"}}";

static const char token_bert[] = "[UNK]\n[CLS]\n[SEP]\na\n##a\nit\n##s\n'\n\xe4\xb8\x80\n";

static void token_text(uint8_t kind, const uint8_t *text, size_t size)
{
    static char json[TOKEN_TEXT];
    token_store s;
    bp_tokenizer t;
    token_store_init(&s);
    if (kind >= '4') {
        int at = snprintf(json, sizeof json, "{%s", token_pieces);
        at += kind == '4' ? snprintf(json + at, sizeof json - (size_t)at, token_words, token_map)
                          : snprintf(json + at, sizeof json - (size_t)at, "%s", token_strip);
        token_put(&s, "tokenizer.json", json, (size_t)at);
    } else if (kind == '3') {
        token_put(&s, "vocab.txt", token_bert, sizeof token_bert - 1);
    } else {
        size_t at = (size_t)snprintf(json, sizeof json, "{%s,", token_settings[kind - '0']);
        at += token_model(json + at, sizeof json - at, kind == '2');
        token_put(&s, "tokenizer.json", json, at);
    }
    if (!token_load(&t, &s)) {
        abort(); /* these are right */
    }
    token_use(&t, text, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static char json[TOKEN_TEXT];
    if (size == 0 || size > TOKEN_TEXT / 2) {
        return 0;
    }
    uint8_t kind = *bytes++;
    size--;
    if (kind >= '0' && kind <= '5') {
        token_text(kind, bytes, size);
        return 0;
    }
    token_store s;
    bp_tokenizer t;
    token_store_init(&s);
    const uint8_t *cut = memchr(bytes, 1, size);
    size_t first = cut != NULL ? (size_t)(cut - bytes) : size;
    size_t rest = cut != NULL ? size - first - 1 : 0;
    if (kind == 's') {
        json[0] = '{';
        memcpy(json + 1, bytes, size);
        json[1 + size] = ',';
        token_put(&s, "tokenizer.json", json,
                  2 + size + token_model(json + 2 + size, sizeof json - 2 - size, false));
    } else if (kind == 'g') {
        token_put(&s, "vocab.json", bytes, first);
        token_put(&s, "merges.txt", bytes + size - rest, rest);
    } else if (kind == 'b') {
        token_put(&s, "vocab.txt", bytes, first);
        token_put(&s, "tokenizer_config.json", bytes + size - rest, rest);
        s.count -= cut == NULL ? 1 : 0;
    } else if (kind == 'p') {
        token_put(&s, "tokenizer.model", bytes, size);
    } else if (kind == 'x') {
        token_put(&s, "sentencepiece.bpe.model", bytes, size);
    } else if (kind == 't') {
        token_put(&s, "tekken.json", bytes, size);
    } else {
        token_put(&s, "tokenizer.json", bytes, size);
    }
    if (token_load(&t, &s)) {
        token_use(&t, bytes, size);
    }
    return 0;
}
