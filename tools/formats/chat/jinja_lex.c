/* SPDX-License-Identifier: MIT */
/* Chat templates: the words of a tag, and the instructions as they are written down. */
#include <string.h>

#include "core/base/number.h"
#include "tools/formats/chat/jinja_program.h"
#include "tools/formats/unicode/unicode.h"

static uint32_t lex_line(bp_jinja_compiler *c)
{
    for (; c->line_at < c->at && c->line_at < c->length; c->line_at++) {
        c->line += c->source[c->line_at] == '\n' ? 1 : 0;
    }
    return c->line;
}

bp_status bp_jinja_wrong(bp_jinja_compiler *c, const char *text)
{
    char name[48];
    bp_text out;
    bp_text_init(&out, NULL, NULL, name, sizeof name);
    bp_text_string(&out, "line ");
    bp_text_u64(&out, lex_line(c));
    return bp_jinja_refuse(c->room->error, text, bp_text_flush(&out) == BP_OK ? name : NULL);
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char peek(const bp_jinja_compiler *c, size_t ahead)
{
    return ahead < c->length - c->at ? c->source[c->at + ahead] : '\0';
}

/* The hexadecimal number of `digits` digits. */
static bool lex_hex(const char *at, size_t digits, uint32_t *number)
{
    *number = 0;
    for (size_t i = 0; i < digits; i++) {
        const char d = at[i];
        const int value = is_digit(d)            ? d - '0'
                          : d >= 'a' && d <= 'f' ? d - 'a' + 10
                          : d >= 'A' && d <= 'F' ? d - 'A' + 10
                                                 : -1;
        if (value < 0) {
            return false;
        }
        *number = *number * 16 + (uint32_t)value;
    }
    return true;
}

/* Behind a backslash; returns how many bytes of the source it took, and writes to `to`. */
static size_t lex_escape(const char *at, size_t left, char *to, size_t *written)
{
    static const char names[] = "ntrbfav0\\'\"", bytes[] = "\n\t\r\b\f\a\v\0\\'\"";
    const char *name = at[0] != '\0' ? strchr(names, at[0]) : NULL;
    const size_t digits = at[0] == 'x' ? 2 : at[0] == 'u' ? 4 : at[0] == 'U' ? 8 : 0;
    uint32_t character;
    *written = 1;
    if (name != NULL) {
        to[0] = bytes[name - names];
        return 1;
    }
    if (digits > 0 && left > digits && lex_hex(at + 1, digits, &character) &&
        character < 0x110000 && (character < 0xd800 || character > 0xdfff)) {
        *written = bp_utf8_put(character, (unsigned char *)to);
        return digits + 1;
    }
    *written = at[0] == '\n' ? 0 : 2;
    to[0] = '\\'; /* unknown ones stay as they are */
    to[1] = at[0];
    return 1;
}

/* A string up to its closing quote; those that follow it are joined to it. */
static bp_status lex_string(bp_jinja_compiler *c, bp_jinja_value *value)
{
    const char quote = c->source[c->at++];
    size_t length = 0;
    size_t end = c->at;
    while (end < c->length && c->source[end] != quote) {
        end += c->source[end] == '\\' ? 2 : 1;
    }
    if (end >= c->length) {
        return bp_jinja_wrong(c, "a string does not end");
    }
    char *to = bp_jinja_take(c->room, end - c->at + 1);
    if (to == NULL) {
        return BP_ERR_FIT;
    }
    while (c->at < end) {
        size_t written = 1;
        if (c->source[c->at] == '\\') {
            c->at += 1 + lex_escape(c->source + c->at + 1, end - c->at - 1, to + length, &written);
        } else {
            to[length] = c->source[c->at++];
        }
        length += written;
    }
    c->at++;
    *value = bp_jinja_string(to, length);
    return BP_OK;
}

enum { DIGITS = 48 }; /* of a number, at most */

/* Takes a character into a number; one more than can be is counted, and not kept. */
static void take_digit(bp_jinja_compiler *c, char digits[DIGITS], size_t *length)
{
    if (*length < DIGITS) {
        digits[*length] = peek(c, 0);
    }
    *length += *length <= DIGITS ? 1 : 0;
    c->at++;
}

static bp_status lex_number(bp_jinja_compiler *c, bp_jinja_value *value)
{
    bp_number number;
    char digits[DIGITS];
    size_t length = 0;
    bool point = c->at > 0 && c->source[c->at - 1] == '.'; /* a.1.0 is a[1][0] */
    while (is_digit(peek(c, 0)) || peek(c, 0) == '_' ||
           (!point && peek(c, 0) == '.' && is_digit(peek(c, 1)))) {
        point = point || peek(c, 0) == '.';
        if (peek(c, 0) == '_') {
            c->at++;
        } else {
            take_digit(c, digits, &length);
        }
    }
    const size_t sign = peek(c, 1) == '+' || peek(c, 1) == '-' ? 2 : 1;
    if ((peek(c, 0) == 'e' || peek(c, 0) == 'E') && is_digit(peek(c, sign))) {
        take_digit(c, digits, &length);
        if (sign == 2) {
            take_digit(c, digits, &length);
        }
        while (is_digit(peek(c, 0))) {
            take_digit(c, digits, &length);
        }
    }
    if (length > DIGITS || bp_number_parse(digits, length, &number) != BP_OK) {
        return bp_jinja_wrong(c, "a number that cannot be read");
    }
    *value = (bp_jinja_value){.kind = number.integer ? BP_JINJA_INT : BP_JINJA_FLOAT};
    if (number.integer) {
        value->is.i64 = number.i64;
    } else {
        value->is.real = number.real;
    }
    return BP_OK;
}

/* Whether the tag ends here, with how many characters. */
static size_t lex_end(const bp_jinja_compiler *c)
{
    const char last = c->variable ? '}' : '%';
    const size_t sign = peek(c, 0) == '-' || (peek(c, 0) == '+' && !c->variable) ? 1 : 0;
    return c->brackets == 0 && peek(c, sign) == last && peek(c, sign + 1) == '}' ? sign + 2 : 0;
}

static bp_status lex_sign(bp_jinja_compiler *c)
{
    static const char *const two[] = {"==", "!=", "<=", ">=", "//", "**"};
    const char first = peek(c, 0);
    bp_jinja_token *token = &c->token;
    if (first == '\0' || strchr("+-*/%~=<>.,:|()[]{}!", first) == NULL) {
        return bp_jinja_wrong(c, first == '\0' ? "a tag does not end"
                                               : "a character that means nothing in a tag");
    }
    token->kind = BP_JINJA_SIGN;
    token->sign = (unsigned char)first;
    for (size_t i = 0; i < sizeof two / sizeof two[0]; i++) {
        if (first == two[i][0] && peek(c, 1) == two[i][1]) {
            token->sign = BP_JINJA_TWO(two[i][0], two[i][1]);
        }
    }
    c->brackets += first == '(' || first == '[' || first == '{' ? 1 : 0;
    if ((first == ')' || first == ']' || first == '}') && c->brackets > 0) {
        c->brackets--;
    }
    c->at += token->sign > 0xff ? 2 : 1;
    return BP_OK;
}

bp_status bp_jinja_advance(bp_jinja_compiler *c)
{
    bp_jinja_token *token = &c->token;
    while (c->at < c->length && strchr(" \t\r\n\v\f", c->source[c->at]) != NULL) {
        c->at++;
    }
    token->text = c->source + c->at;
    if (lex_end(c) > 0) {
        token->kind = BP_JINJA_CLOSED;
        return BP_OK;
    }
    if (is_letter(peek(c, 0))) {
        token->kind = BP_JINJA_NAME;
        while (is_letter(peek(c, 0)) || is_digit(peek(c, 0))) {
            c->at++;
        }
        token->length = (size_t)(c->source + c->at - token->text);
        return BP_OK;
    }
    const bool quoted = peek(c, 0) == '"' || peek(c, 0) == '\'';
    if (quoted || is_digit(peek(c, 0))) {
        token->kind = BP_JINJA_VALUE;
        return quoted ? lex_string(c, &token->value) : lex_number(c, &token->value);
    }
    return lex_sign(c);
}

bool bp_jinja_sees(const bp_jinja_compiler *c, const char *name)
{
    return c->token.kind == BP_JINJA_NAME && c->token.length == strlen(name) &&
           memcmp(c->token.text, name, c->token.length) == 0;
}

bool bp_jinja_sees_sign(const bp_jinja_compiler *c, uint32_t sign)
{
    return c->token.kind == BP_JINJA_SIGN && c->token.sign == sign;
}

bp_status bp_jinja_expect(bp_jinja_compiler *c, uint32_t sign)
{
    return bp_jinja_sees_sign(c, sign) ? bp_jinja_advance(c)
                                       : bp_jinja_wrong(c, "the tag has an unexpected part");
}

bp_status bp_jinja_emit(bp_jinja_compiler *c, bp_jinja_op op, uint32_t n, int32_t a)
{
    bp_jinja_program *program = c->program;
    if (program->code_count == program->code_room) {
        return bp_jinja_wrong(c, "the template has more instructions than can be");
    }
    program->code[program->code_count++] = (bp_jinja_code){
        .op = (uint8_t)op, .n = (uint8_t)n, .m = BP_JINJA_NO_NAMES, .a = a, .line = lex_line(c)};
    return BP_OK;
}

bp_status bp_jinja_constant(bp_jinja_compiler *c, const bp_jinja_value *value, int32_t *index)
{
    bp_jinja_program *program = c->program;
    if (program->constant_count == program->constant_room) {
        return bp_jinja_wrong(c, "the template has more constants than can be");
    }
    *index = (int32_t)program->constant_count;
    program->constants[program->constant_count++] = *value;
    return BP_OK;
}

bp_status bp_jinja_name(bp_jinja_compiler *c, const char *text, size_t length, int32_t *index)
{
    bp_jinja_program *program = c->program;
    bp_jinja_value name;
    for (uint32_t i = 0; i < program->name_count; i++) {
        if (program->names[i].count == length &&
            memcmp(program->names[i].is.text, text, length) == 0) {
            *index = (int32_t)i;
            return BP_OK;
        }
    }
    if (program->name_count == BP_JINJA_NAMES) {
        return bp_jinja_wrong(c, "the template has more variables than can be");
    }
    char *copy = bp_jinja_take(c->room, length + 1); /* terminated: it goes into messages */
    if (copy == NULL) {
        return BP_ERR_FIT;
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    name = bp_jinja_string(copy, length);
    *index = (int32_t)program->name_count;
    program->names[program->name_count++] = name;
    return BP_OK;
}

void bp_jinja_land(bp_jinja_compiler *c, uint32_t from)
{
    c->program->code[from].a = (int32_t)(c->program->code_count - from);
}
