/* SPDX-License-Identifier: MIT */
/* The tables of commands and of exit codes: what help, the manual and the man page are made of. */
#include "tools/bedplate/app/commands.h"

#include <string.h>

#include "tools/bedplate/app/options.h"

const char command_program_purpose[] = "trains neural networks in a memory budget that is planned, "
                                       "to the byte, before the first step";

static const command commands[] = {
    {"plan", " --model DIR|PRESET [options]", 0, 0, COMMAND_PLAN, cmd_plan,
     "Prints the memory of a training run, to the byte, without starting it."},
    {"train", " --model DIR|PRESET --data FILE.. --output-dir DIR [options]", 0, 0, COMMAND_TRAIN,
     cmd_train, "Trains a model in one planned arena."},
    {"eval", " --model DIR --data FILE.. [options]", 0, 0, COMMAND_EVAL, cmd_eval,
     "Prints the mean loss over the data and the metrics of the task, such as perplexity, "
     "accuracy, "
     "F1 or Pearson's correlation."},
    {"embed", " --model DIR --data FILE.. --output FILE.npy|FILE.jsonl [options]", 0, 0,
     COMMAND_EMBED, cmd_embed,
     "Writes an embedding of each text, as sentence-transformers computes it."},
    {"distill", " --model DIR --data FILE.. --output FILE [options]", 0, 0, COMMAND_DISTILL,
     cmd_distill,
     "Writes a teacher's likeliest tokens at each position of the data, for train --distill."},
    {"generate", " --model DIR --prompt TEXT|--prompt-ids IDS [options]", 0, 0, COMMAND_GENERATE,
     cmd_generate, "Generates text from a prompt, or chats."},
    {"rollout", " --model DIR --data FILE.. --output FILE.jsonl [options]", 0, 0, COMMAND_ROLLOUT,
     cmd_rollout,
     "Writes several completions of each prompt, sampled from the model's own distribution, as "
     "rows that train reads."},
    {"export", " --model DIR --to DIR|FILE [options]", 0, 0, COMMAND_EXPORT, cmd_export,
     "Writes a model for other programs: as a Hugging Face directory, GGUF or llm.c."},
    {"import", " --from FILE --to DIR [options]", 0, 0, COMMAND_IMPORT, cmd_import,
     "Converts a GGUF or llm.c file to a model directory."},
    {"tokenize", " --tokenizer DIR --data FILE.. --output FILE [options]", 0, 0, COMMAND_TOKENIZE,
     cmd_tokenize, "Writes the tokens of text to a file in llm.c's format."},
    {"init", " DIR [options]", 1, 1, COMMAND_INIT, cmd_init,
     "Asks for model, data, task and memory in six questions and writes DIR/train.conf for "
     "--config. A question that an option answers is not asked."},
    {"completion", " bash|zsh|fish", 1, 1, COMMAND_COMPLETION, cmd_completion,
     "Prints a completion script for a shell. make install installs it."},
    {"verify", " DIR [options]", 1, 1, COMMAND_VERIFY, cmd_verify,
     "Checks every digest of a checkpoint, or of the newest one in an output directory and its "
     "record."},
    {"replay", " DIR [DIR] [options]", 1, 2, COMMAND_REPLAY, cmd_replay,
     "Recomputes steps of a run, with other threads, kernels or policies if given, and compares "
     "every line of its record and every state."},
    {"selftest", " [options]", 0, 0, COMMAND_SELFTEST, cmd_selftest,
     "Trains small models with known results, on every instruction set and on 1, 2 and 5 threads."},
    {"watch", " DIR [DIR..] [options]", 1, 64, COMMAND_WATCH, cmd_watch,
     "Shows the run in an output directory: loss, learning rate, time left, memory, checkpoints; "
     "of several a table."},
    {"report", " DIR [DIR..] [options]", 1, 8, COMMAND_REPORT, cmd_report,
     "Writes a page about one run or several: curves, options, memory, events."},
    {"bench", " step|gemm|optim|fabric [options]", 1, 1, COMMAND_BENCH, cmd_bench,
     "Measures a training step, a matrix product or an optimizer update against this machine's "
     "peak, or the links between ranks."},
    {"devices", " [options]", 0, 0, COMMAND_DEVICES, cmd_devices,
     "Lists the devices of this machine."},
    {"arena", " FILE.csv [options]", 1, 1, COMMAND_ARENA, cmd_arena,
     "Places the buffers of a CSV file (id, lower, upper, size) in memory, and prints their "
     "offsets."},
};

static const command_exit exits[] = {
    {0, "success"},
    {2, "wrong usage"},
    {3, "the plan does not fit"},
    {4, "the data or the model cannot be used"},
    {5, "training became non-finite (the state before that is saved), or a loss or logits are not "
        "finite"},
    {6, "storage cannot be read or written"},
    {7, "the device failed, or is not there"},
    {8, "the arithmetic or the memory of this machine is in doubt: a replay, a recomputed step or "
        "the selftest differs"},
    {9, "the budget for spikes is used up; the state is saved"},
    {10, "another rank is lost, or was too late"},
    {70, "an internal error"},
    {130, "stopped by an interrupt (SIGINT) after saving"},
    {138, "stopped by SIGUSR1 after saving (--on-usr1 stop)"},
    {143, "stopped by SIGTERM after saving"},
    {152, "stopped by SIGXCPU after saving"},
};

/* What other programs call commands, and what comes near. */
static const struct {
    const char *others; /* a | stands between them */
    const char *hint;
    const char *command; /* whose help is shown; NULL: none */
} command_words[] = {
    {"finetune|fine-tune|sft|fit|lora|qlora|pretrain|lora-finetune", "the nearest is train",
     "train"},
    {"dpo|orpo|simpo|kto|grpo|rlhf|rl", "train has --task: dpo, orpo, simpo, kto or grpo", "train"},
    {"resume|continue", "train has --resume", "train"},
    {"chat|talk|interactive|cli", "generate has --chat", "generate"},
    {"infer|inference|complete|completions|run|sample|transcribe", "the nearest is generate",
     "generate"},
    {"serve|server|api|deploy",
     "there is no server: generate --chat answers standard input line by "
     "line, and export writes GGUF for llama.cpp",
     "export"},
    {"quantize|quantise|quant", "export has --save-quant", "export"},
    {"convert|convert-hf-to-gguf|gguf|save",
     "export writes for other programs, import reads GGUF "
     "and llm.c",
     "export"},
    {"merge|merge-lora|export-lora|fuse", "export has --adapter DIR --merge", "export"},
    {"evaluate|test|validate|perplexity|ppl|score|predict|classify",
     "the nearest is eval, with --predictions FILE for each row", "eval"},
    {"embedding|embeddings|encode", "the nearest is embed", "embed"},
    {"download|pull|fetch|get|login",
     "Bedplate uses no network: `hf download` brings models and "
     "data",
     NULL},
    {"upload|push", "Bedplate uses no network: `hf upload` takes an output directory", NULL},
    {"preprocess|prepare|pack", "the nearest is tokenize", "tokenize"},
    {"distillation|teach", "the nearest is distill", "distill"},
    {"estimate|estimate-memory|memory|dry-run|fit-params", "the nearest is plan", "plan"},
    {"list|ls|models|presets", "`bedplate plan --help presets` lists them", NULL},
    {"version", "`bedplate --version` prints it", NULL},
    {"info|env|doctor|gpu", "the nearest is devices", "devices"},
    {"status|logs|monitor|tensorboard", "the nearest is watch, or report for a page", "watch"},
    {"benchmark|perf", "the nearest is bench", "bench"},
    {"config|new|create|wizard|setup|cp", "the nearest is init", "init"},
};

const char *command_hint(const char *name, const char **nearest)
{
    for (size_t i = 0; i < sizeof command_words / sizeof command_words[0]; i++) {
        for (const char *at = command_words[i].others; *at != '\0'; at += *at == '|' ? 1 : 0) {
            const size_t length = strcspn(at, "|");
            if (option_same_word(name, at, length)) {
                *nearest = command_words[i].command;
                return command_words[i].hint;
            }
            at += length;
        }
    }
    return NULL;
}

const command *command_at(uint32_t index)
{
    return index < sizeof commands / sizeof commands[0] ? &commands[index] : NULL;
}

const command_exit *command_exit_at(uint32_t index)
{
    return index < sizeof exits / sizeof exits[0] ? &exits[index] : NULL;
}
