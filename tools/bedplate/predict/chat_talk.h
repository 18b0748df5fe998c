/* SPDX-License-Identifier: MIT */
/* Talking with a model. */
#ifndef BP_BEDPLATE_CHAT_TALK_H
#define BP_BEDPLATE_CHAT_TALK_H

#include "tools/bedplate/session/session.h"

/* Reads what a user says from standard input, a line each (or answers --prompt and ends), renders
 * the conversation by the model's chat template, and writes answers as their tokens come. What was
 * read before is not read again as long as the template only adds to it. /reset begins a new
 * conversation, /exit and the end of the input end. BP_ERR_DATA: no tokenizer or template;
 * BP_ERR_USAGE: the conversation outgrows --context. */
bp_status chat_talk(session *s) BP_MUST_CHECK;

#endif
