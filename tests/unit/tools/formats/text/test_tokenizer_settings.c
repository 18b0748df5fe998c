/* SPDX-License-Identifier: MIT */
/* The settings of a tokenizer.json: what each does to a text, and what is refused. Documents are
 * written with ' for ". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/fixtures/formats/tokenizer_fixture.h"

#define META       "\xe2\x96\x81"
#define BYTE_LEVEL "{'type':'ByteLevel','add_prefix_space':false,'use_regex':false}"
#define GPT2_SPLIT                                                                                 \
    "\\u0027s|\\u0027t|\\u0027re|\\u0027ve|\\u0027m|\\u0027ll|\\u0027d| ?\\\\p{L}+| ?\\\\p{N}+| "  \
    "?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)|\\\\s+"
#define SPLIT "{'type':'Split','behavior':'Isolated','pattern':{'Regex':'" GPT2_SPLIT "'}}"

typedef struct refusal {
    const char *settings;
    const char *wanted; /* in "name: text" of the error */
} refusal;

static void put_quoted(tokenizer_fixture *d, const char *name, const char *text)
{
    static char json[JSON_MAX];
    size_t length = strlen(text);
    assert_true(length < sizeof json);
    for (size_t i = 0; i <= length; i++) {
        json[i] = (char)(text[i] == '\'' ? '"' : text[i]);
    }
    fixture_put(d, name, json);
}

/* Puts a tokenizer.json whose model is `before` and `after` around the settings of the case. */
static void each_is_refused(const char *before, const refusal *cases, size_t count,
                            const char *after)
{
    tokenizer_fixture d;
    fixture_init(&d);
    for (size_t i = 0; i < count; i++) {
        char text[4096];
        snprintf(text, sizeof text, "%s%s%s", before, cases[i].settings, after);
        put_quoted(&d, "tokenizer.json", text);
        fixture_refused(&d, cases[i].wanted);
    }
    fixture_free(&d);
}

#define EACH_IS_REFUSED(before, cases, after)                                                      \
    each_is_refused(before, cases, sizeof(cases) / sizeof(cases)[0], after)

/* verifies formats-4.b9c7 */
static void a_setting_without_a_name_is_refused(void **state)
{
    (void)state;
    static const refusal cases[] = {
        {"{'type':'ByteLevel','':1}", "pre_tokenizer ByteLevel: this setting is not implemented"},
        {"{'type':'ByteLevel','use':1}",
         "pre_tokenizer ByteLevel.use: this setting is not implemented"},
        {"{'type':'ByteLevel','regex':1}",
         "pre_tokenizer ByteLevel.regex: this setting is not implemented"},
    };
    EACH_IS_REFUSED("{'pre_tokenizer':", cases,
                    ",'model':{'type':'BPE','vocab':{'a':0},'merges':[]}}");
    /* One that is longer than the name of an error is cut. */
    char key[400];
    char whole[500];
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    snprintf(whole, sizeof whole, "{'type':'ByteLevel','%s':1}", key);
    const refusal cut = {whole, "ByteLevel.kkkkkkkkkkkkkkkk"};
    each_is_refused("{'pre_tokenizer':", &cut, 1,
                    ",'model':{'type':'BPE','vocab':{'a':0},'merges':[]}}");
}

/* verifies formats-4.b9c7 */
static void byte_splits_that_are_not_implemented_are_named(void **state)
{
    (void)state;
    static const refusal cases[] = {
        {"{'type':'Sequence','pretokenizers':[" SPLIT ",{'type':'ByteLevel','use_regex':true,"
         "'add_prefix_space':false}]}",
         "pre_tokenizer ByteLevel.use_regex: only false is implemented behind a Split"},
        {"{'type':'Sequence','pretokenizers':[" SPLIT ",{'type':'ByteLevel','use_regex':false}]}",
         "pre_tokenizer ByteLevel.add_prefix_space: only false is implemented behind a Split"},
        {"{'type':'Sequence','pretokenizers':[{'type':'Split','behavior':'Isolated','invert':3},"
         "" BYTE_LEVEL "]}",
         "pre_tokenizer Split.invert: this setting must be true or false"},
        {"{'type':'Sequence','pretokenizers':[{'type':'Split','behavior':'Isolated','invert':true},"
         "" BYTE_LEVEL "]}",
         "pre_tokenizer Split.invert: only false is implemented"},
        {"{'type':'Sequence','pretokenizers':[{'type':'Split','behavior':'Isolated','pattern':"
         "{'Regex':'x+'}}," BYTE_LEVEL "]}",
         "pre_tokenizer Split.x+: this pattern is not among the implemented"},
        {"{'type':'Sequence','pretokenizers':[{'type':'Split','behavior':'Removed'}," BYTE_LEVEL
         "]}",
         "pre_tokenizer Split.behavior: this value is not implemented"},
        {"{'type':'Sequence','pretokenizers':[" BYTE_LEVEL "," BYTE_LEVEL "]}",
         "pre_tokenizer ByteLevel: this kind of part"},
        {"{'type':'Sequence','pretokenizers':[{'type':'Digits','x':1}," BYTE_LEVEL "]}",
         "pre_tokenizer Digits.x: this setting is not implemented"},
        {"{'type':'Sequence','pretokenizers':[{'type':'Digits'}," BYTE_LEVEL "]}",
         "pre_tokenizer Digits.individual_digits: only true is implemented"},
        {"{'type':'Sequence','pretokenizers':[{'type':'Digits','individual_digits':true},"
         "" BYTE_LEVEL "]}",
         "pre_tokenizer ByteLevel.use_regex: only true is implemented"},
        {"{'type':'Sequence','pretokenizers':[{'type':'Digits','individual_digits':true},"
         "{'type':'ByteLevel'}]}",
         "pre_tokenizer ByteLevel.add_prefix_space: only false is implemented"},
        {"{'type':'Sequence','pretokenizers':[{'type':'Digits','individual_digits':true},"
         "{'type':'X'},{'type':'ByteLevel'}]}",
         "pre_tokenizer X: this kind of part"},
        {"{'type':'ByteLevel','add_prefix_space':1}",
         "pre_tokenizer ByteLevel.add_prefix_space: this setting must be true or false"},
    };
    EACH_IS_REFUSED("{'pre_tokenizer':", cases,
                    ",'model':{'type':'BPE','vocab':{'a':0},'merges':[]}}");
}

/* verifies formats-4.b9c7 */
static void metaspaces_that_are_not_implemented_are_named(void **state)
{
    (void)state;
#define SPACES "{'type':'Metaspace','replacement':'" META "'"
    static const refusal cases[] = {
        {SPACES ",'add_prefix_space':1}", "Metaspace.add_prefix_space: this setting must be"},
        {SPACES ",'split':1}", "Metaspace.split: this setting must be"},
        {SPACES ",'prepend_scheme':'often'}", "Metaspace.prepend_scheme: this value is not"},
        {SPACES ",'x':1}", "Metaspace.x: this setting is not implemented"},
        {"{'type':'Metaspace','replacement':'_'}", "Metaspace.replacement: this value is not"},
        {"{'type':'Sequence','pretokenizers':[" SPACES "}," SPACES "}]}",
         "pre_tokenizer Metaspace: this kind of part"},
        {SPACES "},'normalizer':{'type':'Prepend','prepend':'" META "'}",
         "pre_tokenizer Metaspace: Metaspace is not implemented behind a normalizer"},
        {SPACES "},'normalizer':{'type':'Replace','pattern':{'String':' '},'content':'" META "'}",
         "pre_tokenizer Metaspace: Metaspace is not implemented behind a normalizer"},
        {"null,'normalizer':{'type':'Sequence','normalizers':[{'type':'Replace','pattern':{"
         "'String':' '},'content':'" META "'},{'type':'Prepend','prepend':'" META "'}]}",
         "normalizer Prepend: this kind of part"},
        {"null,'normalizer':{'type':'Replace','pattern':{'String':'x'},'content':'" META "'}",
         "normalizer.String: this value is not implemented"},
        {"null,'normalizer':{'type':'Replace','pattern':{'Regex':' '},'content':'" META "'}",
         "normalizer.Regex: this setting is not implemented"},
        {"null,'normalizer':{'type':'Replace','pattern':{'String':' '},'content':'_'}",
         "normalizer Replace.content: this value is not implemented"},
        {"null,'normalizer':{'type':'Prepend','prepend':'x'}",
         "normalizer Prepend.prepend: this value is not implemented"},
        {"null,'normalizer':{'type':'Prepend','prepend':'x','y':1}",
         "normalizer Prepend.y: this setting is not implemented"},
        {"null,'normalizer':{'type':'NFC'}", "normalizer NFC: this kind of part"},
        {"null,'normalizer':{'type':'Sequence','normalizers':[{'type':'Lowercase'},{'type':"
         "'Replace','pattern':{'String':' '},'content':'" META "'}]}", /* SigLIP 2's */
         "normalizer Lowercase: this kind of part"},
        {"null,'normalizer':{'type':'Replace','x':1}",
         "normalizer Replace.x: this setting is not implemented"},
    };
    EACH_IS_REFUSED("{'pre_tokenizer':", cases,
                    ",'model':{'type':'BPE','byte_fallback':true,'vocab':{'a':0},'merges':[]}}");
}

/* verifies formats-4.b9c7 */
static void decoders_of_characters_that_are_not_implemented_are_named(void **state)
{
    (void)state;
    static const refusal cases[] = {
        {"{'type':'Strip','content':'x','start':1,'stop':0}", "Strip.content: this value is not"},
        {"{'type':'Strip','content':' ','start':2,'stop':0}", "decoder Strip: only start 1"},
        {"{'type':'Strip','content':' ','start':'1','stop':0}", "decoder Strip: only start 1"},
        {"{'type':'Strip','content':' ','start':1,'stop':1}", "decoder Strip: only start 1"},
        {"{'type':'Strip','content':' ','start':1,'stop':null}", "decoder Strip: only start 1"},
        {"{'type':'Strip','content':' ','start':1,'stop':0,'x':0}", "Strip.x: this setting"},
        {"{'type':'Replace','pattern':{'String':'x'},'content':' '}", "decoder.String: this value"},
        {"{'type':'Replace','pattern':{'Regex':'x'},'content':' '}", "decoder.Regex: this setting"},
        {"{'type':'Replace','pattern':{'String':'" META "'},'content':'x'}",
         "decoder Replace.content: this value"},
        {"{'type':'Replace','x':1}", "decoder Replace.x: this setting"},
        {"{'type':'Fuse','x':1}", "decoder Fuse.x: this setting"},
        {"{'type':'ByteFallback','x':1}", "decoder ByteFallback.x: this setting"},
        {"{'type':'Metaspace','replacement':'x'}", "decoder Metaspace.replacement: this value"},
        {"{'type':'Sequence','decoders':[{'type':'Fuse'},{'type':'CTC'}]}", "decoder CTC: this"},
    };
    static const refusal levels[] = {
        {"{'type':'ByteLevel','x':1}", "decoder ByteLevel.x: this setting is not implemented"},
        {"{'type':'Sequence','decoders':[{'type':'ByteLevel'},{'type':'Fuse'}]}",
         "decoder Fuse: this kind of part"},
    };
    EACH_IS_REFUSED("{'decoder':", cases,
                    ",'model':{'type':'BPE','byte_fallback':true,'vocab':{'a':0},'merges':[]}}");
    EACH_IS_REFUSED("{'decoder':", levels,
                    ",'pre_tokenizer':" BYTE_LEVEL
                    ",'model':{'type':'BPE','vocab':{'a':0},'merges':[]}}");
}

/* verifies formats-4.b9c7 */
static void models_that_are_not_implemented_are_named(void **state)
{
    (void)state;
    static const refusal cases[] = {
        {"'dropout':0.1", "model BPE.dropout: only null is implemented"},
        {"'dropout':'none'", "model BPE.dropout: only null is implemented"},
        {"'continuing_subword_prefix':'##'", "BPE.continuing_subword_prefix: this setting is not"},
        {"'end_of_word_suffix':'</w>'",
         "behind end_of_word_suffix only Split and then ByteLevel are implemented"},
        {"'fuse_unk':1", "BPE.fuse_unk: this setting must be true or false"},
        {"'byte_fallback':1", "BPE.byte_fallback: this setting must be true or false"},
        {"'ignore_merges':1", "BPE.ignore_merges: this setting must be true or false"},
        {"'ignore_merges':true", "BPE.ignore_merges: only false is implemented without a split"},
        {"'x':1", "BPE.x: this setting is not implemented"},
        {"'vocab':{}", "a key is there twice"},
        {"'merges':[],'merges':[]", "a key is there twice"},
        {"'merges':{}", "merges: the merges must be a list"},
        {"'merges':[tru]", "tokenizer.json"},
        {"'merges':[['a'", "tokenizer.json"},
        {"'merges':[['a',nul]]", "tokenizer.json"},
        {"'merges':[['a','b'x]]", "tokenizer.json"},
        {"'merges' [", "tokenizer.json"},
    };
    static const refusal kinds[] = {
        {"{'type':'WordLevel','vocab':{'a':0}}",
         "model WordLevel: this kind of model is not among the implemented (BPE, WordPiece, Uni"},
        {"{'type':'BPE'}", "model.vocab: the vocabulary is missing"},
        {"{'type':'BPE','byte_fallback':true,'vocab':[]}",
         "vocab: the vocabulary must be an object"},
        {"{'type':'BPE','vocab':3}", "vocab: the vocabulary must be an object"},
        {"[]", "model: this part must be an object"},
        {"{'type':'BPE','vocab':{'a':0}},'version':1,'version':1", "a key is there twice"},
    };
    static const refusal files[] = {
        {"{'version':'1.0'}", "model: this part is missing"},
        {"{'model':{'type':'BPE','vocab':{'a':0}}} {}", "tokenizer.json"},
        {"[]", "the file must hold one JSON object"},
        {"{'decoder'", "tokenizer.json"},
        {"{'model':{'type':'BPE','vocab':{'a':0},'merges':[]}}", "model BPE.byte_fallback: BPE is"},
    };
    EACH_IS_REFUSED("{'pre_tokenizer':" BYTE_LEVEL ",'model':{'type':'BPE','vocab':{'a':0},", cases,
                    "}}");
    EACH_IS_REFUSED("{'model':", kinds, "}");
    EACH_IS_REFUSED("", files, "");
}

/* verifies formats-29.15c2 */
static void settings_that_change_nothing_are_taken(void **state)
{
    (void)state;
    static const char *const settings[] = {
        "'dropout':null",
        "'dropout':0.0",
        "'continuing_subword_prefix':''",
        "'end_of_word_suffix':'','fuse_unk':false",
        "'end_of_word_suffix':null,'fuse_unk':true",
    };
    tokenizer_fixture d;
    fixture_init(&d);
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "{'version':'1.0','truncation':null,'padding':{'x':[]},'pre_tokenizer':{'type':"
                 "'ByteLevel'},'model':{'type':'BPE',%s,'vocab':{'a':0},'merges':[]}}",
                 settings[i]);
        put_quoted(&d, "tokenizer.json", text);
        assert_int_equal(fixture_open(&d), BP_OK);
        assert_int_equal(bp_tokenizer_tokens(&d.tokenizer), 1);
    }
    fixture_free(&d);
}

#define UNIGRAM(part) "'model':{'type':'Unigram','unk_id':0,'vocab':[['a',0]]}," part

/* verifies formats-4.b9c7 */
static void unigram_models_that_are_not_implemented_are_named(void **state)
{
    (void)state;
    static const refusal models[] = {
        {"{'type':'Unigram','unk_id':0,'vocab':{'a':0}}",
         "vocab: Unigram's vocabulary must be a list"},
        {"{'type':'Unigram','vocab':[['a',0]]}", "model Unigram.unk_id: this must be the id"},
        {"{'type':'Unigram','unk_id':null,'vocab':[['a',0]]}",
         "Unigram.unk_id: this must be the id"},
        {"{'type':'Unigram','unk_id':-1,'vocab':[['a',0]]}", "Unigram.unk_id: this must be the id"},
        {"{'type':'Unigram','unk_id':0.5,'vocab':[['a',0]]}",
         "Unigram.unk_id: this must be the id"},
        {"{'type':'Unigram','unk_id':4194304,'vocab':[['a',0]]}",
         "Unigram.unk_id: this must be the id"},
        {"{'type':'Unigram','unk_id':1,'vocab':[['a',0]]}", "unk_id: no token has the id for unk"},
        {"{'type':'Unigram','unk_id':0,'vocab':[['a',1e300]]}",
         "vocab: the score of a token is no"},
        {"{'type':'Unigram','unk_id':0,'vocab':[['a',0],['a',0]]}",
         "two tokens have the same text"},
        {"{'type':'Unigram','unk_id':0,'vocab':[['a']]}",
         "vocab: the vocabulary's list must be of"},
        {"{'type':'Unigram','unk_id':0,'vocab':[[1,0]]}",
         "vocab: the vocabulary's list must be of"},
        {"{'type':'Unigram','unk_id':0,'vocab':[['a',0,0]]}",
         "vocab: the vocabulary's list must be"},
        {"{'type':'Unigram','unk_id':0,'vocab':['a']}", "vocab: the vocabulary's list must be of"},
        {"{'type':'Unigram','unk_id':0,'x':1,'vocab':[['a',0]]}", "Unigram.x: this setting is not"},
        {"{'type':'Unigram','unk_id':0,'byte_fallback':1,'vocab':[['a',0]]}",
         "Unigram.byte_fallback: this setting must be true or false"},
    };
    EACH_IS_REFUSED("{'model':", models, "}");
}

/* verifies formats-4.b9c7 */
static void unigram_settings_that_are_not_implemented_are_named(void **state)
{
    (void)state;
    static const refusal parts[] = {
        {UNIGRAM("'normalizer':{'type':'NFKD'}"),
         "normalizer NFKD: this kind of part is not among"},
        {UNIGRAM("'normalizer':{'type':'NFKC','x':1}"), "NFKC.x: this setting is"},
        {UNIGRAM("'normalizer':{'type':'Lowercase','x':1}"), "Lowercase.x: this setting is"},
        {UNIGRAM("'normalizer':{'type':'Sequence','normalizers':[{'type':'Lowercase'},"
                 "{'type':'NFC'}]}"),
         "normalizer NFC: this kind of part is not among"},
        {UNIGRAM("'normalizer':{'type':'Sequence','normalizers':[{'type':'NFC'},"
                 "{'type':'Precompiled','precompiled_charsmap':''}]}"),
         "normalizer Precompiled: this kind of part is not among"},
        {UNIGRAM("'normalizer':{'type':'Strip','strip_left':true}"),
         "Strip.strip_left: only false"},
        {UNIGRAM("'normalizer':{'type':'Strip'}"), "Strip.strip_left: only false"},
        {UNIGRAM("'normalizer':{'type':'Precompiled','x':1}"), "Precompiled.x: this setting is"},
        {UNIGRAM("'normalizer':{'type':'Precompiled','precompiled_charsmap':''}"),
         "precompiled_charsmap: the character map is cut off"},
        {UNIGRAM("'normalizer':{'type':'Precompiled','precompiled_charsmap':'?'}"),
         "precompiled_charsmap: the character map is not base64"},
        {UNIGRAM("'normalizer':{'type':'Precompiled','precompiled_charsmap':'AAAAAAAAAAA='}"),
         "precompiled_charsmap: the character map is cut off"},
        {UNIGRAM("'normalizer':{'type':'Precompiled','precompiled_charsmap':'BAAAAAAAAAD/AA=='}"),
         "precompiled_charsmap: what the character map makes of text is not UTF-8"},
        {UNIGRAM("'normalizer':{'type':'Precompiled','precompiled_charsmap':'BAAAAAAAAABh'}"),
         "precompiled_charsmap: what the character map makes of text is not UTF-8"},
        {UNIGRAM(
             "'normalizer':{'type':'Sequence','normalizers':[{'type':'Strip','strip_left':false},"
             "{'type':'Precompiled','precompiled_charsmap':''}]}"),
         "normalizer Precompiled: this kind of part is not among"},
        {UNIGRAM("'normalizer':{'type':'Replace','pattern':{'String':' '},'content':' '}"),
         "normalizer.String: this setting is not"},
        {UNIGRAM("'normalizer':{'type':'Replace','pattern':{'Regex':' +'},'content':' '}"),
         "normalizer.Regex: this value is not"},
        {UNIGRAM("'normalizer':{'type':'Replace','pattern':{'Regex':' {2,}'},'content':'_'}"),
         "normalizer Replace.content: this value is not"},
        {UNIGRAM("'normalizer':{'type':'Sequence','normalizers':[{'type':'Replace','pattern':{"
                 "'Regex':' {2,}'},'content':' '},{'type':'Replace','pattern':{'Regex':' {2,}'},"
                 "'content':' '}]}"),
         "normalizer Replace: this kind of part is not among"},
        {UNIGRAM("'pre_tokenizer':{'type':'Sequence','pretokenizers':[{'type':'Metaspace',"
                 "'replacement':'" META "'},{'type':'WhitespaceSplit'}]}"),
         "pre_tokenizer Metaspace: this"},
        {UNIGRAM("'pre_tokenizer':{'type':'WhitespaceSplit'}"),
         "pre_tokenizer WhitespaceSplit: this"},
        {UNIGRAM(
             "'pre_tokenizer':{'type':'Sequence','pretokenizers':[{'type':'WhitespaceSplit'}]}"),
         "pre_tokenizer: this kind of part"},
        {UNIGRAM("'pre_tokenizer':{'type':'Sequence','pretokenizers':[{'type':'WhitespaceSplit'},"
                 "{'type':'Metaspace','replacement':'" META "','prepend_scheme':'never'}]}"),
         "pre_tokenizer Metaspace.prepend_scheme: behind WhitespaceSplit"},
        {UNIGRAM("'pre_tokenizer':{'type':'Sequence','pretokenizers':[{'type':'WhitespaceSplit'},"
                 "{'type':'Metaspace','replacement':'" META "','split':false}]}"),
         "pre_tokenizer Metaspace.split: behind WhitespaceSplit"},
        {UNIGRAM("'decoder':{'type':'ByteLevel'}"), "decoder ByteLevel: this kind of part"},
    };
    EACH_IS_REFUSED("{", parts, "}");
}

/* verifies formats-4.b9c7 */
static void wordpiece_settings_that_are_not_implemented_are_named(void **state)
{
    (void)state;
    static const refusal models[] = {
        {"'continuing_subword_prefix':''", "continuing_subword_prefix: this must be a text of 1"},
        {"'continuing_subword_prefix':3", "continuing_subword_prefix: this must be a text of 1"},
        {"'continuing_subword_prefix':'################'", "a text of 1 to 15 bytes"},
        {"'unk_token':''", "WordPiece.unk_token: this must be a text of 1 to 63 bytes"},
        {"'unk_token':'0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef'",
         "WordPiece.unk_token: this must be a text of 1 to 63 bytes"},
        {"'unk_token':'zz'", "zz: the vocabulary lacks the token for unknown words"},
        {"'max_input_chars_per_word':0", "max_input_chars_per_word: this must be a number from 1"},
        {"'max_input_chars_per_word':129", "max_input_chars_per_word: this must be a number"},
        {"'max_input_chars_per_word':1.5", "max_input_chars_per_word: this must be a number"},
        {"'max_input_chars_per_word':'9'", "max_input_chars_per_word: this must be a number"},
        {"'dropout':null", "model WordPiece.dropout: this setting is not implemented"},
    };
    static const refusal parts[] = {
        {"'normalizer':{'type':'NFC'}", "normalizer NFC: this kind of part"},
        {"'normalizer':{'type':'BertNormalizer','clean_text':1}",
         "BertNormalizer.clean_text: this setting must be"},
        {"'normalizer':{'type':'BertNormalizer','handle_chinese_chars':1}",
         "BertNormalizer.handle_chinese_chars: this setting must be"},
        {"'normalizer':{'type':'BertNormalizer','lowercase':1}",
         "BertNormalizer.lowercase: this setting must be"},
        {"'normalizer':{'type':'BertNormalizer','strip_accents':1}",
         "BertNormalizer.strip_accents: this setting must be"},
        {"'normalizer':{'type':'BertNormalizer','x':1}",
         "BertNormalizer.x: this setting is not implemented"},
        {"'decoder':{'type':'WordPiece','prefix':'@@'}", "WordPiece.prefix: this value is not"},
        {"'decoder':{'type':'WordPiece','prefix':'##','cleanup':1}",
         "WordPiece.cleanup: this setting must be"},
        {"'decoder':{'type':'Fuse'}", "decoder Fuse.type: this value is not implemented"},
        {"'decoder':{'type':'WordPiece','x':1}", "decoder WordPiece.x: this setting"},
    };
    static const refusal splits[] = {
        {"{'type':'Whitespace'}", "only BertPreTokenizer is implemented for WordPiece"},
        {"{'type':'BertPreTokenizer','x':1}", "BertPreTokenizer.x: this setting is not"},
    };
    EACH_IS_REFUSED("{'pre_tokenizer':{'type':'BertPreTokenizer'},'model':{'type':'WordPiece',"
                    "'vocab':{'[UNK]':0,'a':1},",
                    models, "}}");
    EACH_IS_REFUSED("{'pre_tokenizer':{'type':'BertPreTokenizer'},", parts,
                    ",'model':{'type':'WordPiece','vocab':{'[UNK]':0,'a':1}}}");
    EACH_IS_REFUSED("{'pre_tokenizer':", splits,
                    ",'model':{'type':'WordPiece','vocab':{'[UNK]':0,'a':1}}}");
}

/* verifies formats-4.b9c7 */
static void templates_that_are_not_implemented_are_named(void **state)
{
    (void)state;
#define A_THEN_B                                                                                   \
    "'pair':[{'Sequence':{'id':'A','type_id':0}},{'Sequence':{'id':'B','type_id':1}}],"            \
    "'special_tokens':{'x':{'ids':[0,0,0,0,0,0,0,0,0]},'y':{'ids':['0']},'z':{'ids':[0]},"         \
    "'v':{'ids':0}}}"
    static const char bad_form[] = "TemplateProcessing.single: the template must be";
    static const refusal singles[] = {
        {"[{'SpecialToken':{'id':'x','type_id':0}},{'Sequence':{'id':'A','type_id':0}}]", bad_form},
        {"[{'SpecialToken':{'id':'y','type_id':0}},{'Sequence':{'id':'A','type_id':0}}]", bad_form},
        {"[{'SpecialToken':{'id':'w','type_id':0}},{'Sequence':{'id':'A','type_id':0}}]", bad_form},
        {"[{'SpecialToken':{'id':'v','type_id':0}},{'Sequence':{'id':'A','type_id':0}}]", bad_form},
        {"[{'SpecialToken':{'id':'z'}},{'Sequence':{'id':'A','type_id':0}}]", bad_form},
        {"[{'Sequence':{'id':'A','type_id':256}}]", bad_form},
        {"[{'Sequence':{'id':'A','type_id':-1}}]", bad_form},
        {"[{'Sequence':{'id':'A','type_id':0.5}}]", bad_form},
        {"[{'Sequence':{'id':'B','type_id':0}}]", bad_form},
        {"[{'Sequence':{'id':'A','type_id':0}},{'Sequence':{'id':'B','type_id':0}}]", bad_form},
        {"{}", bad_form},
    };
    static const refusal others[] = {
        {"{'type':'TemplateProcessing','single':[{'Sequence':{'id':'A','type_id':0}}],'pair':[]}",
         "TemplateProcessing.pair: the template must be"},
        {"{'type':'TemplateProcessing','x':1}", "TemplateProcessing.x: this setting is not"},
        {"{'type':'ByteLevel','x':1}", "post_processor ByteLevel.x: this setting is not"},
        {"{'type':'BertProcessing','sep':['a',0],'cls':[0,'a']}", "cls and sep must be [text, id]"},
        {"{'type':'BertProcessing','sep':['a','b'],'cls':['a',0]}",
         "cls and sep must be [text, id]"},
        {"{'type':'BertProcessing','cls':['a',0]}", "cls and sep must be [text, id]"},
        {"{'type':'RobertaProcessing','x':1}", "RobertaProcessing.x: this setting is not"},
        {"{'type':'Sequence','processors':[{'type':'BertProcessing','sep':['a',0],'cls':['a',0]},"
         "{'type':'RobertaProcessing','sep':['a',0],'cls':['a',0]}]}",
         "post_processor RobertaProcessing: only one template is implemented"},
    };
    EACH_IS_REFUSED("{'post_processor':{'type':'TemplateProcessing','single':", singles,
                    "," A_THEN_B ",'pre_tokenizer':" BYTE_LEVEL
                    ",'model':{'type':'BPE','vocab':{'a':0},'merges':[]}}");
    EACH_IS_REFUSED("{'post_processor':", others,
                    ",'pre_tokenizer':" BYTE_LEVEL
                    ",'model':{'type':'BPE','vocab':{'a':0},'merges':[]}}");
}

/* verifies formats-4.b9c7 */
static void added_tokens_that_are_not_implemented_are_named(void **state)
{
    (void)state;
    static const refusal cases[] = {
        {"{'id':9,'content':'zz','special':1}", "added_tokens.special: this setting must be"},
        {"{'id':9,'content':'zz','lstrip':1}", "added_tokens.lstrip: this setting must be"},
        {"{'id':9,'content':'zz','rstrip':1}", "added_tokens.rstrip: this setting must be"},
        {"{'id':9,'content':'zz','single_word':1}", "added_tokens.single_word: this setting must"},
        {"{'id':9,'content':'zz','normalized':1}", "added_tokens.normalized: this setting must be"},
        {"{'id':'9','content':'zz'}", "added_tokens: an added token needs an id and a content"},
        {"{'id':9.5,'content':'zz'}", "added_tokens: an added token needs an id and a content"},
        {"{'id':9,'content':1}", "added_tokens: an added token needs an id and a content"},
        {"{'id':-1,'content':'zz'}", "the id of a token is out of range"},
        {"3", "added_tokens: this part must be an object"},
    };
    EACH_IS_REFUSED("{'added_tokens':[", cases,
                    "],'pre_tokenizer':" BYTE_LEVEL
                    ",'model':{'type':'BPE','vocab':{'a':0},'merges':[]}}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_setting_without_a_name_is_refused),
        cmocka_unit_test(byte_splits_that_are_not_implemented_are_named),
        cmocka_unit_test(metaspaces_that_are_not_implemented_are_named),
        cmocka_unit_test(decoders_of_characters_that_are_not_implemented_are_named),
        cmocka_unit_test(models_that_are_not_implemented_are_named),
        cmocka_unit_test(settings_that_change_nothing_are_taken),
        cmocka_unit_test(unigram_models_that_are_not_implemented_are_named),
        cmocka_unit_test(unigram_settings_that_are_not_implemented_are_named),
        cmocka_unit_test(wordpiece_settings_that_are_not_implemented_are_named),
        cmocka_unit_test(templates_that_are_not_implemented_are_named),
        cmocka_unit_test(added_tokens_that_are_not_implemented_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
