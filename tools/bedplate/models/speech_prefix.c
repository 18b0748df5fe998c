/* SPDX-License-Identifier: MIT */
/* What texts of speech begin with. */
#include "tools/bedplate/models/speech_prefix.h"

#include <stdio.h>
#include <string.h>

static const char where[] = "speech";

/* The languages of Whisper, by their English names and by the codes that its tokens have. */
static const struct {
    const char *name;
    const char *code;
} languages[] = {{"afrikaans", "af"},      {"amharic", "am"},     {"arabic", "ar"},
                 {"assamese", "as"},       {"azerbaijani", "az"}, {"bashkir", "ba"},
                 {"belarusian", "be"},     {"bulgarian", "bg"},   {"bengali", "bn"},
                 {"tibetan", "bo"},        {"breton", "br"},      {"bosnian", "bs"},
                 {"catalan", "ca"},        {"valencian", "ca"},   {"czech", "cs"},
                 {"welsh", "cy"},          {"danish", "da"},      {"german", "de"},
                 {"greek", "el"},          {"english", "en"},     {"castilian", "es"},
                 {"spanish", "es"},        {"estonian", "et"},    {"basque", "eu"},
                 {"persian", "fa"},        {"finnish", "fi"},     {"faroese", "fo"},
                 {"french", "fr"},         {"galician", "gl"},    {"gujarati", "gu"},
                 {"hausa", "ha"},          {"hawaiian", "haw"},   {"hebrew", "he"},
                 {"hindi", "hi"},          {"croatian", "hr"},    {"haitian", "ht"},
                 {"haitian creole", "ht"}, {"hungarian", "hu"},   {"armenian", "hy"},
                 {"indonesian", "id"},     {"icelandic", "is"},   {"italian", "it"},
                 {"japanese", "ja"},       {"javanese", "jw"},    {"georgian", "ka"},
                 {"kazakh", "kk"},         {"khmer", "km"},       {"kannada", "kn"},
                 {"korean", "ko"},         {"latin", "la"},       {"letzeburgesch", "lb"},
                 {"luxembourgish", "lb"},  {"lingala", "ln"},     {"lao", "lo"},
                 {"lithuanian", "lt"},     {"latvian", "lv"},     {"malagasy", "mg"},
                 {"maori", "mi"},          {"macedonian", "mk"},  {"malayalam", "ml"},
                 {"mongolian", "mn"},      {"marathi", "mr"},     {"malay", "ms"},
                 {"maltese", "mt"},        {"burmese", "my"},     {"myanmar", "my"},
                 {"nepali", "ne"},         {"dutch", "nl"},       {"flemish", "nl"},
                 {"nynorsk", "nn"},        {"norwegian", "no"},   {"occitan", "oc"},
                 {"panjabi", "pa"},        {"punjabi", "pa"},     {"polish", "pl"},
                 {"pashto", "ps"},         {"pushto", "ps"},      {"portuguese", "pt"},
                 {"moldavian", "ro"},      {"moldovan", "ro"},    {"romanian", "ro"},
                 {"russian", "ru"},        {"sanskrit", "sa"},    {"sindhi", "sd"},
                 {"sinhala", "si"},        {"sinhalese", "si"},   {"slovak", "sk"},
                 {"slovenian", "sl"},      {"shona", "sn"},       {"somali", "so"},
                 {"albanian", "sq"},       {"serbian", "sr"},     {"sundanese", "su"},
                 {"swedish", "sv"},        {"swahili", "sw"},     {"tamil", "ta"},
                 {"telugu", "te"},         {"tajik", "tg"},       {"thai", "th"},
                 {"turkmen", "tk"},        {"tagalog", "tl"},     {"turkish", "tr"},
                 {"tatar", "tt"},          {"ukrainian", "uk"},   {"urdu", "ur"},
                 {"uzbek", "uz"},          {"vietnamese", "vi"},  {"yiddish", "yi"},
                 {"yoruba", "yo"},         {"cantonese", "yue"},  {"chinese", "zh"},
                 {"mandarin", "zh"}};

/* Whether the word is a name, in letters of any case. */
static bool speech_names(const char *name, const char *word)
{
    while (*name != '\0' && *word != '\0') {
        const char letter = *word >= 'A' && *word <= 'Z' ? (char)(*word - 'A' + 'a') : *word;
        if (letter != *name) {
            return false;
        }
        name++;
        word++;
    }
    return *name == *word;
}

/* The code of a language, or NULL. */
static const char *speech_code(const char *word)
{
    for (size_t i = 0; i < sizeof languages / sizeof languages[0]; i++) {
        if (speech_names(languages[i].name, word) || speech_names(languages[i].code, word)) {
            return languages[i].code;
        }
    }
    return NULL;
}

/* Adds the token "<|word|>". */
static bp_status speech_add(speech_prefix *prefix, const bp_tokenizer *tokenizer, const char *word,
                            const char *option, bp_error *error)
{
    char token[32];
    const int length = snprintf(token, sizeof token, "<|%s|>", word);
    const int64_t id = bp_tokenizer_find(tokenizer, token, (size_t)length);
    if (id < 0) {
        const bp_status status =
            bp_error_set(error, BP_ERR_DATA, where,
                         "the tokenizer has no such token, which texts begin with", option);
        bp_error_found(error, token, (size_t)length);
        return status;
    }
    prefix->id[prefix->count++] = (uint32_t)id;
    return BP_OK;
}

bp_status speech_prefix_find(speech_prefix *prefix, const settings *set,
                             const bp_tokenizer *tokenizer, bp_error *error)
{
    const char *code = set->language != NULL ? speech_code(set->language) : NULL;
    prefix->count = 0;
    if (set->language != NULL && code == NULL) {
        const bp_status status =
            bp_error_set(error, BP_ERR_USAGE, where, "no language of Whisper has this name or code",
                         "--language");
        bp_error_found(error, set->language, strlen(set->language));
        return status;
    }
    if (code != NULL) {
        BP_TRY(speech_add(prefix, tokenizer, code, "--language", error));
    }
    if (strcmp(set->task_token, "none") != 0) {
        BP_TRY(speech_add(prefix, tokenizer, set->task_token, "--task-token", error));
    }
    return speech_add(prefix, tokenizer, "notimestamps", "notimestamps", error);
}
