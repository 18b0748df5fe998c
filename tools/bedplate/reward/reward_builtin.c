/* SPDX-License-Identifier: MIT */
/* Built-in rewards. Those of format, length and repetition are TRL's, with its names of numbers. */
#include "tools/bedplate/reward/reward_builtin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/math.h"
#include "core/base/number.h"
#include "core/base/sort.h"

/* A piece of somebody's text. */
typedef struct piece {
    const char *at;
    size_t bytes;
} piece;

typedef bp_status (*reward_score_call)(const reward_builtin *reward, const reward_case *one,
                                       double *score, bp_error *error);

/* A row of the table of rewards. */
typedef struct reward_kind {
    const char *name;
    const char *arguments; /* how they are written, for messages; NULL: none */
    bool required;         /* they are */
    bool answers;          /* the row's answer is read, unless there is a text */
    uint8_t numbers;       /* the arguments are numbers: as many at most */
    double fallback[2];    /* of numbers; not a number: required */
    reward_score_call score;
} reward_kind;

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static piece piece_trimmed(piece text)
{
    while (text.bytes > 0 && is_blank(text.at[0])) {
        text.at++;
        text.bytes--;
    }
    while (text.bytes > 0 && is_blank(text.at[text.bytes - 1])) {
        text.bytes--;
    }
    return text;
}

static bool same_piece(piece a, piece b)
{
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.at, b.at, a.bytes) == 0);
}

/* Where `word` stands in `text` for the last time; text.bytes: nowhere. */
static size_t find_last(piece text, piece word)
{
    for (size_t i = text.bytes + 1; i-- > 0;) {
        if (word.bytes <= text.bytes - i && memcmp(text.at + i, word.at, word.bytes) == 0) {
            return i;
        }
    }
    return text.bytes;
}

static piece behind(piece text, size_t place)
{
    return (piece){text.at + place, text.bytes - place};
}

static piece completion_of(const reward_case *one)
{
    return (piece){one->completion != NULL ? one->completion : "", one->completion_bytes};
}

/* What is right: the argument, or the row's answer. */
static piece wanted_by(const reward_builtin *reward, const reward_case *one)
{
    const bool given = reward->kind->numbers == 0 && reward->text[0] != '\0';
    return given ? (piece){reward->text, strlen(reward->text)}
                 : (piece){one->answer != NULL ? one->answer : "", one->answer_bytes};
}

static bp_status reward_exact(const reward_builtin *reward, const reward_case *one, double *score,
                              bp_error *error)
{
    (void)error;
    *score = same_piece(piece_trimmed(completion_of(one)), piece_trimmed(wanted_by(reward, one)));
    return BP_OK;
}

/* Every text contains an empty one, so it is none to look for. */
static bp_status reward_contains(const reward_builtin *reward, const reward_case *one,
                                 double *score, bp_error *error)
{
    const piece text = completion_of(one), wanted = piece_trimmed(wanted_by(reward, one));
    (void)error;
    *score = wanted.bytes == 0 ? (double)NAN : (double)(find_last(text, wanted) < text.bytes);
    return BP_OK;
}

/* The share of the answer's bytes that stand at their places; what is longer counts as wrong. */
static bp_status reward_places(const reward_builtin *reward, const reward_case *one, double *score,
                               bp_error *error)
{
    const piece text = completion_of(one), wanted = wanted_by(reward, one);
    const size_t most = text.bytes > wanted.bytes ? text.bytes : wanted.bytes;
    size_t right = 0;
    (void)error;
    for (size_t i = 0; i < text.bytes && i < wanted.bytes; i++) {
        right += text.at[i] == wanted.at[i];
    }
    *score = wanted.bytes == 0 ? (double)NAN : (double)right / (double)most;
    return BP_OK;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The end of the number that begins at `place`: digits, with commas between them, a fraction. */
static size_t number_end(piece text, size_t place)
{
    size_t end = place;
    while (end < text.bytes &&
           (is_digit(text.at[end]) ||
            (text.at[end] == ',' && end + 1 < text.bytes && is_digit(text.at[end + 1])))) {
        end++;
    }
    if (end + 1 < text.bytes && text.at[end] == '.' && is_digit(text.at[end + 1])) {
        for (end++; end < text.bytes && is_digit(text.at[end]);) {
            end++;
        }
    }
    return end;
}

/* Its value, as JSON would have it: without commas and leading zeros. */
static bool number_value(piece text, bool negative, double *value)
{
    char plain[64];
    size_t used = 0;
    bp_number number;
    for (size_t i = 0; i < text.bytes && used < sizeof plain; i++) {
        const bool zero =
            used == 0 && text.at[i] == '0' && i + 1 < text.bytes && text.at[i + 1] != '.';
        if (text.at[i] != ',' && !zero) {
            plain[used++] = text.at[i];
        }
    }
    if (bp_number_parse(plain, used, &number) != BP_OK) {
        return false;
    }
    *value = negative ? -number.real : number.real;
    return true;
}

static bool last_number(piece text, double *value)
{
    bool found = false;
    for (size_t i = 0; i < text.bytes;) {
        if (!is_digit(text.at[i])) {
            i++;
            continue;
        }
        const size_t end = number_end(text, i);
        const bool minus = i > 0 && text.at[i - 1] == '-' &&
                           (i < 2 || !(is_digit(text.at[i - 2]) || text.at[i - 2] == ')'));
        found = number_value((piece){text.at + i, end - i}, minus, value) || found;
        i = end;
    }
    return found;
}

static bp_status reward_number(const reward_builtin *reward, const reward_case *one, double *score,
                               bp_error *error)
{
    double said = 0.0, right = 0.0;
    (void)error;
    if (!last_number(wanted_by(reward, one), &right)) {
        *score = (double)NAN;
        return BP_OK;
    }
    const double size = fabs(right) > 1.0 ? fabs(right) : 1.0;
    *score =
        last_number(completion_of(one), &said) && fabs(said - right) <= reward->numbers[0] * size;
    return BP_OK;
}

/* What stands behind the last marker, up to the end of its line; false: it is nowhere. */
static bool behind_marker(piece text, piece marker, piece *found)
{
    const size_t place = find_last(text, marker);
    if (place == text.bytes) {
        return false;
    }
    *found = behind(text, place + marker.bytes);
    const char *line = found->bytes > 0 ? memchr(found->at, '\n', found->bytes) : NULL;
    found->bytes = line != NULL ? (size_t)(line - found->at) : found->bytes;
    *found = piece_trimmed(*found);
    return true;
}

/* What the last \boxed{..} holds, with the braces inside it; false: there is none that ends. */
static bool inside_box(piece text, piece marker, piece *found)
{
    const size_t place = find_last(text, marker);
    uint32_t open = 1;
    if (place == text.bytes) {
        return false;
    }
    *found = behind(text, place + marker.bytes);
    for (size_t i = 0; i < found->bytes; i++) {
        open += found->at[i] == '{' ? 1u : 0u;
        open -= found->at[i] == '}' ? 1u : 0u;
        if (open == 0) {
            *found = piece_trimmed((piece){found->at, i});
            return true;
        }
    }
    return false;
}

/* The row's answer may have the marker too, as those of GSM8K do, or be the bare answer. */
static bp_status score_found(bool (*find)(piece, piece, piece *), piece marker,
                             const reward_case *one, double *score)
{
    const piece answer = {one->answer != NULL ? one->answer : "", one->answer_bytes};
    piece right = piece_trimmed(answer), said;
    if (find(answer, marker, &said)) {
        right = said;
    }
    *score = find(completion_of(one), marker, &said) && same_piece(said, right);
    return BP_OK;
}

static bp_status reward_marker(const reward_builtin *reward, const reward_case *one, double *score,
                               bp_error *error)
{
    (void)error;
    return score_found(behind_marker, (piece){reward->text, strlen(reward->text)}, one, score);
}

static bp_status reward_boxed(const reward_builtin *reward, const reward_case *one, double *score,
                              bp_error *error)
{
    static const char box[] = "\\boxed{";
    (void)reward;
    (void)error;
    return score_found(inside_box, (piece){box, sizeof box - 1}, one, score);
}

static bp_status reward_regex(const reward_builtin *reward, const reward_case *one, double *score,
                              bp_error *error)
{
    const piece text = completion_of(one);
    (void)error;
    *score = pattern_search(&reward->pattern, text.at, text.bytes);
    return BP_OK;
}

/* The bit of a key among those of a list "KEY,KEY"; 0: it is none of them. */
static uint32_t key_bit(const char *list, const char *key, size_t length)
{
    uint32_t bit = 1;
    for (const char *at = list; *at != '\0'; bit <<= 1) {
        const size_t end = strcspn(at, ",");
        if (end == length && memcmp(at, key, length) == 0) {
            return bit;
        }
        at += end + (at[end] == ',');
    }
    return 0;
}

static uint32_t keys_all(const char *list)
{
    uint32_t all = 0;
    for (const char *at = list; *at != '\0';) {
        const size_t end = strcspn(at, ",");
        all |= key_bit(list, at, end);
        at += end + (at[end] == ',');
    }
    return all;
}

/* 1 where the whole completion is one JSON value, which has all keys at its top. */
static bp_status reward_json(const reward_builtin *reward, const reward_case *one, double *score,
                             bp_error *error)
{
    char room[1024];
    const piece text = completion_of(one);
    bp_json_span span = {text.at, text.bytes};
    const bp_json_source source = {bp_json_span_fill, &span, text.bytes};
    const bp_json_memory memory = {
        .text = room, .text_bytes = sizeof room, .max_depth = BP_JSON_DEPTH_MAX};
    uint32_t found = 0;
    bp_json json;
    bp_json_event event = {.kind = BP_JSON_NULL};
    bp_error unused = {.code = BP_OK};
    (void)error;
    bp_status status = bp_json_init(&json, &source, &memory, &unused);
    while (status == BP_OK && event.kind != BP_JSON_END) {
        status = bp_json_next(&json, &event);
        if (status == BP_OK && event.kind == BP_JSON_KEY && event.depth == 1) {
            found |= key_bit(reward->text, event.text, event.length);
        }
    }
    *score = status == BP_OK && found == keys_all(reward->text);
    return BP_OK;
}

/* TRL's think_format_reward: <think> first and once, </think> behind it. */
static bp_status reward_think(const reward_builtin *reward, const reward_case *one, double *score,
                              bp_error *error)
{
    static const piece begin = {"<think>", 7}, end = {"</think>", 8};
    const piece text = completion_of(one);
    (void)reward;
    (void)error;
    *score = text.bytes >= begin.bytes && find_last(text, begin) == 0 &&
             find_last(text, end) < text.bytes;
    return BP_OK;
}

/* DAPO (arXiv 2503.14476), equation 13; numbers: the longest, and the room before it. */
static bp_status reward_overlong(const reward_builtin *reward, const reward_case *one,
                                 double *score, bp_error *error)
{
    const double most = reward->numbers[0], room = reward->numbers[1];
    const double length = one->id_count;
    (void)error;
    *score = length <= most - room ? 0.0 : length <= most ? (most - room - length) / room : -1.0;
    return BP_OK;
}

/* n-grams of tokens are compared by their places. */
typedef struct gram {
    const int32_t *ids;
    uint32_t n;
} gram;

static int gram_compare(const void *a, const void *b)
{
    const gram *x = a, *y = b;
    for (uint32_t i = 0; i < x->n; i++) {
        if (x->ids[i] != y->ids[i]) {
            return x->ids[i] < y->ids[i] ? -1 : 1;
        }
    }
    return 0;
}

/* (1 - different n-grams / all of them) x penalty, of tokens. */
static bp_status reward_repetition(const reward_builtin *reward, const reward_case *one,
                                   double *score, bp_error *error)
{
    const uint32_t n = (uint32_t)reward->numbers[0];
    *score = 0.0;
    if (one->id_count < n) {
        return BP_OK;
    }
    const uint32_t count = one->id_count - n + 1;
    gram *grams = malloc(count * sizeof *grams);
    if (grams == NULL) {
        return bp_error_set(error, BP_ERR_FIT, "reward", "no memory for the n-grams", "");
    }
    for (uint32_t i = 0; i < count; i++) {
        grams[i] = (gram){one->ids + i, n};
    }
    bp_heap_sort(grams, count, sizeof *grams, gram_compare);
    uint32_t different = 1;
    for (uint32_t i = 1; i < count; i++) {
        different += gram_compare(&grams[i - 1], &grams[i]) != 0;
    }
    free(grams);
    const double scale = 1.0 - (double)different / (double)count;
    *score = scale > 0.0 ? scale * reward->numbers[1] : 0.0;
    return BP_OK;
}

/* Open-R1's: right ones 1 down to 0.5 with their length, wrong ones -1 up to -0.5. What is longer
 * than the longest is as that. Right is whose last number is that of the answer, or, where it has
 * none, whose text ends with the answer's. */
static bp_status reward_cosine(const reward_builtin *reward, const reward_case *one, double *score,
                               bp_error *error)
{
    const piece text = piece_trimmed(completion_of(one));
    const piece wanted = piece_trimmed((piece){one->answer != NULL ? one->answer : "", //
                                               one->answer_bytes});
    double right, said;
    bool good;
    (void)error;
    if (last_number(wanted, &right)) {
        good = last_number(text, &said) && said == right;
    } else if (wanted.bytes == 0) {
        *score = (double)NAN;
        return BP_OK;
    } else {
        good = text.bytes >= wanted.bytes &&
               same_piece(behind(text, text.bytes - wanted.bytes), wanted);
    }
    const double share = one->id_count / reward->numbers[0];
    const double turn = bp_cos(3.14159265358979323846 * (share < 1.0 ? share : 1.0));
    const double first = good ? 1.0 : -1.0, last = good ? 0.5 : -0.5;
    *score = last + 0.5 * (first - last) * (1.0 + turn);
    return BP_OK;
}

static const reward_kind kinds[] = {
    {"exact", "TEXT", false, true, 0, {0}, reward_exact},
    {"contains", "TEXT", false, true, 0, {0}, reward_contains},
    {"places", "TEXT", false, true, 0, {0}, reward_places},
    {"number", "TOLERANCE", false, true, 1, {1e-6}, reward_number},
    {"marker", "TEXT", true, true, 0, {0}, reward_marker},
    {"boxed", NULL, false, true, 0, {0}, reward_boxed},
    {"regex", "PATTERN", true, false, 0, {0}, reward_regex},
    {"json", "KEY,KEY,..", false, false, 0, {0}, reward_json},
    {"think", NULL, false, false, 0, {0}, reward_think},
    {"overlong", "LONGEST,ROOM", true, false, 2, {(double)NAN, (double)NAN}, reward_overlong},
    {"cosine", "LONGEST", true, true, 1, {(double)NAN}, reward_cosine},
    {"repetition", "N,PENALTY", false, false, 2, {3, -1}, reward_repetition},
};
#define KINDS (sizeof kinds / sizeof kinds[0])

static bp_status reward_refuse(const char *text, const reward_kind *kind, bp_error *error)
{
    char right[128];
    bp_text words;
    const bp_status status = bp_error_set(error, BP_ERR_USAGE, "reward",
                                          "the arguments of a reward are wrong", "--reward");
    bp_text_init(&words, NULL, NULL, right, sizeof right);
    bp_text_string(&words, kind->name);
    if (kind->arguments != NULL) {
        bp_text_string(&words, ":");
        bp_text_string(&words, kind->arguments);
    }
    const bp_status fits = bp_text_flush(&words);
    (void)fits;
    bp_error_found(error, text, strlen(text));
    bp_error_right(error, right);
    return status;
}

static bp_status reward_unknown(const char *text, bp_error *error)
{
    char right[256];
    bp_text words;
    const bp_status status =
        bp_error_set(error, BP_ERR_USAGE, "reward", "there is no reward of this name", "--reward");
    bp_text_init(&words, NULL, NULL, right, sizeof right);
    for (size_t i = 0; i < KINDS; i++) {
        bp_text_string(&words, i > 0 ? " " : "one of ");
        bp_text_string(&words, kinds[i].name);
    }
    const bp_status fits = bp_text_flush(&words);
    (void)fits;
    bp_error_found(error, text, strcspn(text, ":"));
    bp_error_right(error, right);
    return status;
}

/* "F,F" over the fallbacks. */
static bool reward_numbers(reward_builtin *reward)
{
    const char *at = reward->text;
    for (uint32_t i = 0; i < reward->kind->numbers; i++) {
        bp_number number = {.real = reward->kind->fallback[i]};
        const size_t length = strcspn(at, ",");
        if (length > 0 && bp_number_parse(at, length, &number) != BP_OK) {
            return false;
        }
        reward->numbers[i] = number.real;
        at += length + (at[length] == ',' && i + 1 < reward->kind->numbers);
        if (isnan(reward->numbers[i])) {
            return false;
        }
    }
    return *at == '\0';
}

static bool numbers_right(const reward_builtin *reward)
{
    const double *of = reward->numbers;
    const reward_score_call score = reward->kind->score;
    return score == reward_number     ? of[0] >= 0.0
           : score == reward_overlong ? of[0] >= 1.0 && of[1] >= 0.0 && of[1] <= of[0]
           : score == reward_cosine   ? of[0] >= 1.0
           : score == reward_repetition
               ? of[0] >= 1.0 && of[0] <= 1024.0 && of[0] == (double)(uint32_t)of[0] && of[1] <= 0.0
               : true;
}

static uint32_t keys_count(const char *list)
{
    uint32_t count = list[0] != '\0' ? 1 : 0;
    for (; *list != '\0'; list++) {
        count += *list == ',';
    }
    return count;
}

bp_status reward_builtin_read(reward_builtin *reward, const char *text, bp_error *error)
{
    const size_t length = strcspn(text, ":");
    const reward_kind *kind = NULL;
    for (size_t i = 0; i < KINDS; i++) {
        if (strlen(kinds[i].name) == length && memcmp(kinds[i].name, text, length) == 0) {
            kind = &kinds[i];
        }
    }
    if (kind == NULL) {
        return reward_unknown(text, error);
    }
    reward->kind = kind;
    reward->text = text[length] == ':' ? text + length + 1 : "";
    const bool given = text[length] == ':';
    if ((given && (kind->arguments == NULL || reward->text[0] == '\0')) ||
        (kind->required && !given) ||
        (kind->numbers > 0 && !(reward_numbers(reward) && numbers_right(reward))) ||
        (kind->score == reward_json && keys_count(reward->text) > REWARD_KEYS_MAX)) {
        return reward_refuse(text, kind, error);
    }
    return kind->score == reward_regex ? pattern_compile(&reward->pattern, reward->text, error)
                                       : BP_OK;
}

bp_status reward_builtin_score(const reward_builtin *reward, const reward_case *one, double *score,
                               bp_error *error)
{
    const reward_kind *kind = reward->kind;
    const bool given = kind->numbers == 0 && !kind->required && reward->text[0] != '\0';
    if (kind->answers && !given && one->answer == NULL) {
        *score = (double)NAN;
        return BP_OK;
    }
    return kind->score(reward, one, score, error);
}

const char *reward_builtin_name(const reward_builtin *reward)
{
    return reward->kind->name;
}
