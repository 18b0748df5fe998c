/* SPDX-License-Identifier: MIT */
/* PTX text into tokens. Words keep their dots: fma.rn.f32, %tid.x and .reg are one token each. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "tools/ptxvm/text/parse.h"

static bool is_word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.';
}

static void skip_space(vm_lexer *lexer)
{
    const char *at = lexer->at;
    for (;;) {
        if (*at == '\n') {
            lexer->line++;
            at++;
        } else if (isspace((unsigned char)*at)) {
            at++;
        } else if (at[0] == '/' && at[1] == '/') {
            at += strcspn(at, "\n");
        } else if (at[0] == '/' && at[1] == '*') {
            for (at += 2; *at != '\0' && !(at[0] == '*' && at[1] == '/'); at++) {
                lexer->line += *at == '\n';
            }
            at += *at != '\0' ? 2 : 0;
        } else {
            break;
        }
    }
    lexer->at = at;
}

static void lex_word(vm_lexer *lexer)
{
    const char *at = lexer->at;
    bool directive = *at == '.'; /* .reg.b32 is two words */
    for (;;) {
        if (directive && *at == '.' && at != lexer->at) {
            break;
        }
        if (is_word_char(*at)) {
            at++;
        } else if (at[0] == ':' && at[1] == ':' && is_word_char(at[2])) {
            at += 2;
        } else {
            break;
        }
    }
    lexer->token.kind = TK_WORD;
    lexer->token.length = (size_t)(at - lexer->at);
    lexer->at = at;
}

/* 0f and 0d hold the bits in hexadecimal; the rest is C's syntax with an optional U. */
static void lex_number(vm_lexer *lexer)
{
    vm_token *token = &lexer->token;
    const char *at = lexer->at;
    char *end = NULL;
    char mark = (char)tolower((unsigned char)at[1]);
    if (at[0] == '0' && (mark == 'f' || mark == 'd') && isxdigit((unsigned char)at[2])) {
        token->kind = TK_FLOAT;
        token->single = mark == 'f';
        token->bits = strtoull(at + 2, &end, 16);
    } else if (at[0] == '0' && mark == 'b') {
        token->kind = TK_INTEGER;
        token->bits = strtoull(at + 2, &end, 2);
    } else {
        size_t digits = strspn(at, "0123456789");
        bool hex = at[0] == '0' && mark == 'x';
        if (!hex && (at[digits] == '.' || at[digits] == 'e' || at[digits] == 'E')) {
            double value = strtod(at, &end);
            token->kind = TK_FLOAT;
            token->single = false;
            memcpy(&token->bits, &value, sizeof value);
        } else {
            token->kind = TK_INTEGER;
            token->bits = strtoull(at, &end, 0);
        }
    }
    if (*end == 'U') {
        end++;
    }
    token->length = (size_t)(end - at);
    lexer->at = end;
}

void vm_lexer_next(vm_lexer *lexer)
{
    skip_space(lexer);
    vm_token *token = &lexer->token;
    const char *at = lexer->at;
    token->text = at;
    token->line = lexer->line;
    token->punct = '\0';
    token->length = 1;
    if (*at == '\0') {
        token->kind = TK_END;
        token->length = 0;
    } else if (isdigit((unsigned char)*at)) {
        lex_number(lexer);
    } else if (is_word_char(*at)) {
        lex_word(lexer);
    } else if (*at == '"') {
        size_t length = strcspn(at + 1, "\"\n");
        token->kind = TK_STRING;
        token->text = at + 1;
        token->length = length;
        lexer->at = at + 1 + length + (at[1 + length] == '"' ? 1 : 0);
    } else {
        token->kind = TK_PUNCT;
        token->punct = *at;
        lexer->at = at + 1;
    }
}
