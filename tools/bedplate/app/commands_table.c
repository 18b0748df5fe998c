/* SPDX-License-Identifier: MIT */
/* The tables of commands and of exit codes: what help, the manual and the man page are made of. */
#include "tools/bedplate/app/commands.h"

const char command_program_purpose[] =
    "trains neural networks inside one block of memory whose size "
    "is known, to the byte, before the "
    "first step";

static const command commands[] = {
    {"plan", " --model DIR|PRESET [options]", 0, 0, COMMAND_PLAN, cmd_plan,
     "Prints how much memory a training run needs, to the byte, before it exists."},
    {"train", " --model DIR|PRESET --data FILE.. --output-dir DIR [options]", 0, 0, COMMAND_TRAIN,
     cmd_train, "Trains a model inside one planned arena."},
    {"eval", " --model DIR --data FILE.. [options]", 0, 0, COMMAND_EVAL, cmd_eval,
     "Prints the mean loss over the data, and what its task is judged by: perplexity, or accuracy "
     "and F1, or Pearson's correlation."},
    {"embed", " --model DIR --data FILE.. --output FILE.npy|FILE.jsonl [options]", 0, 0,
     COMMAND_EMBED, cmd_embed,
     "Writes a vector for each text, as sentence-transformers makes them."},
    {"distill", " --model DIR --data FILE.. --output FILE [options]", 0, 0, COMMAND_DISTILL,
     cmd_distill,
     "Writes what a teacher holds likely at each place of a data set, for train --distill."},
    {"generate", " --model DIR --prompt TEXT|--prompt-ids IDS [options]", 0, 0, COMMAND_GENERATE,
     cmd_generate, "Continues a prompt."},
    {"export", " --model DIR --to DIR|FILE [options]", 0, 0, COMMAND_EXPORT, cmd_export,
     "Writes a model for other programs: Hugging Face directory, GGUF, llm.c."},
    {"import", " --from FILE --to DIR [options]", 0, 0, COMMAND_IMPORT, cmd_import,
     "Makes a model directory of a GGUF or llm.c file."},
    {"tokenize", " --tokenizer DIR --data FILE.. --output FILE [options]", 0, 0, COMMAND_TOKENIZE,
     cmd_tokenize, "Turns text into a token file in llm.c's format."},
    {"init", " DIR", 1, 1, COMMAND_INIT, cmd_init,
     "Asks for model, data and memory in five questions and writes DIR/train.conf for --config."},
    {"completion", " bash|zsh|fish", 1, 1, COMMAND_COMPLETION, cmd_completion,
     "Prints what a shell needs to complete command lines; make install puts it in its place."},
    {"verify", " DIR [options]", 1, 1, COMMAND_VERIFY, cmd_verify,
     "Checks every digest of a checkpoint, or of the newest one in an output directory, whose "
     "record "
     "it walks line by line."},
    {"replay", " DIR [DIR] [options]", 1, 2, COMMAND_REPLAY, cmd_replay,
     "Computes steps of a run again, on other threads, kernels or policies as asked, and compares "
     "every line of its record and every state."},
    {"selftest", " [options]", 0, 0, COMMAND_SELFTEST, cmd_selftest,
     "Trains small models for known answers, in every form of the kernels and on 1, 2 and 5 "
     "threads."},
    {"watch", " DIR [DIR..] [options]", 1, 64, COMMAND_WATCH, cmd_watch,
     "Shows the run in an output directory: loss, learning rate, time left, memory, saves; of "
     "several "
     "a table."},
    {"report", " DIR [DIR..] [options]", 1, 8, COMMAND_REPORT, cmd_report,
     "Writes a page of one run or several: curves, options, memory, events."},
    {"bench", " step|gemm|optim|fabric [options]", 1, 1, COMMAND_BENCH, cmd_bench,
     "Measures a training step, a matrix product or an update against this machine's peak, or the "
     "links between ranks."},
    {"devices", " [options]", 0, 0, COMMAND_DEVICES, cmd_devices, "Lists what can execute."},
    {"arena", " FILE.csv [options]", 1, 1, COMMAND_ARENA, cmd_arena,
     "Gives each buffer of a CSV file (id, lower, upper, size) an offset, lifetimes apart."},
};

static const command_exit exits[] = {
    {0, "done"},
    {2, "usage"},
    {3, "the plan does not fit"},
    {4, "input data or model"},
    {5, "training became non-finite (weights as before it, state saved), or a loss or logits are "
        "not finite"},
    {6, "storage"},
    {7, "device"},
    {8, "the arithmetic or the memory of this machine is in doubt: a replay, a step computed "
        "again or the selftest differs"},
    {9, "the budget for anomalies is used up; the state is saved"},
    {10, "another rank is lost or did not come in time"},
    {70, "a fault of the program itself"},
    {130, "stopped by an interrupt (SIGINT) after saving"},
    {138, "stopped by SIGUSR1 after saving (--on-usr1 stop)"},
    {143, "stopped by SIGTERM after saving"},
    {152, "stopped by SIGXCPU after saving"},
};

const command *command_at(uint32_t index)
{
    return index < sizeof commands / sizeof commands[0] ? &commands[index] : NULL;
}

const command_exit *command_exit_at(uint32_t index)
{
    return index < sizeof exits / sizeof exits[0] ? &exits[index] : NULL;
}
