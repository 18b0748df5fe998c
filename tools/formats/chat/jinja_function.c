/* SPDX-License-Identifier: MIT */
/* Chat templates: the functions that templates may call. */
#include <string.h>

#include "tools/formats/chat/jinja_program.h"

enum { RANGE_MOST = 65536 };

/* 0: Sunday; T. Sakamoto's rule. */
static uint32_t weekday_of(const bp_jinja_time *now)
{
    static const int32_t months[] = {0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4};
    const int32_t year = now->year - (now->month < 3 ? 1 : 0);
    return (uint32_t)(year + year / 4 - year / 100 + year / 400 + months[now->month - 1] +
                      now->day) %
           7;
}

static void put_padded(bp_text *out, int32_t number, bool padded)
{
    if (padded && number < 10) {
        bp_text_char(out, '0');
    }
    bp_text_i64(out, number);
}

/* One letter behind a %; false: it is not there. */
static bool put_time(bp_text *out, const bp_jinja_time *now, char letter, bool padded)
{
    static const char *const days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                       "Thursday", "Friday", "Saturday"};
    static const char *const months[] = {"January",   "February", "March",    "April",
                                         "May",       "June",     "July",     "August",
                                         "September", "October",  "November", "December"};
    const char *month = months[now->month - 1], *day = days[weekday_of(now)];
    const int32_t numbers[] = {now->day,  now->month,  now->year,  now->year % 100,
                               now->hour, now->minute, now->second};
    static const char letters[] = "dmYyHMS";
    const char *number = letter != '\0' ? strchr(letters, letter) : NULL;
    if (number != NULL) {
        put_padded(out, numbers[number - letters], padded && letter != 'Y');
    } else if (letter == 'B' || letter == 'A') {
        bp_text_string(out, letter == 'B' ? month : day);
    } else if (letter == 'b' || letter == 'a') {
        bp_text_bytes(out, letter == 'b' ? month : day, 3);
    } else if (letter == '%') {
        bp_text_char(out, '%');
    } else {
        return false;
    }
    return true;
}

static bp_status call_time(bp_jinja_room *room, const bp_jinja_arguments *arguments,
                           const bp_jinja_time *now, bp_jinja_value *to)
{
    char text[256];
    bp_text out;
    const bp_jinja_value *form = bp_jinja_argument(arguments, 0, "format");
    if (form == NULL || form->kind != BP_JINJA_STRING) {
        return bp_jinja_refuse(room->error, "strftime_now takes a format", NULL);
    }
    bp_text_init(&out, NULL, NULL, text, sizeof text);
    for (uint32_t i = 0; i < form->count; i++) {
        if (form->is.text[i] != '%') {
            bp_text_char(&out, form->is.text[i]);
            continue;
        }
        const bool bare = i + 1 < form->count && form->is.text[i + 1] == '-';
        i += bare ? 2 : 1;
        if (!put_time(&out, now, i < form->count ? form->is.text[i] : '\0', !bare)) {
            return bp_jinja_refuse(room->error, "a letter of strftime_now that is not there", NULL);
        }
    }
    return bp_text_flush(&out) == BP_OK ? bp_jinja_copy(room, text, strlen(text), to)
                                        : bp_jinja_refuse(room->error, "a date is too long", NULL);
}

static bp_status call_range(bp_jinja_room *room, const bp_jinja_arguments *arguments,
                            bp_jinja_value *to)
{
    int64_t bounds[3] = {0, 0, 1};
    bp_jinja_value *items;
    if (arguments->count == 0 || arguments->count > 3) {
        return bp_jinja_refuse(room->error, "range takes one to three numbers", NULL);
    }
    for (uint32_t i = 0; i < arguments->count; i++) {
        if (arguments->values[i].kind != BP_JINJA_INT) {
            return bp_jinja_refuse(room->error, "range takes whole numbers", NULL);
        }
        bounds[arguments->count == 1 ? 1 : i] = arguments->values[i].is.i64;
    }
    const int64_t step = bounds[2];
    if (step == 0 || step > RANGE_MOST || step < -RANGE_MOST || bounds[0] > INT32_MAX ||
        bounds[0] < INT32_MIN || bounds[1] > INT32_MAX || bounds[1] < INT32_MIN) {
        return bp_jinja_refuse(room->error, "a range is larger than can be", NULL);
    }
    const int64_t length =
        step > 0 ? bounds[1] - bounds[0] + step - 1 : bounds[0] - bounds[1] - step - 1;
    const int64_t count = length > 0 ? length / (step > 0 ? step : -step) : 0;
    if (count > RANGE_MOST) {
        return bp_jinja_refuse(room->error, "a range is larger than can be", NULL);
    }
    BP_TRY(bp_jinja_list_new(room, (size_t)count, &items, to));
    for (int64_t i = 0; i < count; i++) {
        items[i] = bp_jinja_int(bounds[0] + i * step);
    }
    to->range = true;
    return BP_OK;
}

/* namespace(a=1), dict(a=1), each of them of a mapping, too. */
static bp_status call_mapping(bp_jinja_room *room, const bp_jinja_arguments *arguments,
                              bool changes, bp_jinja_value *to)
{
    BP_TRY(bp_jinja_dict_new(room, 8, to));
    for (uint32_t i = 0; i < arguments->count; i++) {
        const bp_jinja_value *value = &arguments->values[i];
        if (arguments->names != NULL && arguments->names[i].kind == BP_JINJA_STRING) {
            BP_TRY(bp_jinja_dict_set(room, to->is.dict, &arguments->names[i], value));
            continue;
        }
        if (value->kind != BP_JINJA_DICT) {
            return bp_jinja_refuse(room->error, "a mapping is made of names and values", NULL);
        }
        for (uint32_t k = 0; k < value->is.dict->count; k++) {
            const bp_jinja_pair *pair = &value->is.dict->pairs[k];
            BP_TRY(bp_jinja_dict_set(room, to->is.dict, &pair->key, &pair->value));
        }
    }
    to->kind = changes ? BP_JINJA_NAMESPACE : BP_JINJA_DICT;
    return BP_OK;
}

static bp_status call_raise(bp_jinja_room *room, const bp_jinja_arguments *arguments)
{
    char words[BP_ERROR_NAME_MAX] = "";
    bp_text out;
    bp_error unheard = {.code = BP_OK};
    bp_text_init(&out, NULL, NULL, words, sizeof words);
    bp_status status = arguments->count > 0
                           ? bp_jinja_write(&out, &arguments->values[0], BP_JINJA_PLAIN, &unheard)
                           : BP_OK;
    status = status == BP_OK ? bp_text_flush(&out) : status; /* what is too long is cut */
    return bp_jinja_refuse(room->error, "the chat template refuses the conversation",
                           status == BP_OK || status == BP_ERR_FIT ? words : NULL);
}

bool bp_jinja_is_function(const bp_jinja_value *name)
{
    static const char *const names[] = {"raise_exception", "namespace", "dict", "range",
                                        "strftime_now"};
    bool is = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        is = is || bp_jinja_is(name, names[i]);
    }
    return is;
}

bp_status bp_jinja_function(bp_jinja_room *room, const bp_jinja_value *name,
                            const bp_jinja_arguments *arguments, const bp_jinja_time *now,
                            bp_jinja_value *to, bool *known)
{
    *known = true;
    if (bp_jinja_is(name, "raise_exception")) {
        return call_raise(room, arguments);
    }
    if (bp_jinja_is(name, "namespace") || bp_jinja_is(name, "dict")) {
        return call_mapping(room, arguments, name->count > 4, to);
    }
    if (bp_jinja_is(name, "range")) {
        return call_range(room, arguments, to);
    }
    if (bp_jinja_is(name, "strftime_now")) {
        return call_time(room, arguments, now, to);
    }
    *known = false;
    return BP_OK;
}
