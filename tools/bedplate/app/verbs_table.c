/* SPDX-License-Identifier: MIT */
/* The tables of verbs and of exit codes: what help, the manual and the man page are made of. */
#include "tools/bedplate/app/verbs.h"

const char verb_program_purpose[] = "trains neural networks inside one block of memory whose size "
                                    "is known, to the byte, before the "
                                    "first step";

static const verb verbs[] = {
    {"plan", " --model DIR|PRESET [options]", 0, 0, VERB_PLAN, cmd_plan,
     "Prints how much memory a training run needs, to the byte, before it exists."},
    {"train", " --model DIR|PRESET --data FILE.. --output-dir DIR [options]", 0, 0, VERB_TRAIN,
     cmd_train, "Trains a model inside one planned arena."},
    {"eval", " --model DIR --data FILE.. [options]", 0, 0, VERB_EVAL, cmd_eval,
     "Prints the mean loss over the data, and what its task is judged by: perplexity, or accuracy "
     "and F1, or Pearson's correlation."},
    {"embed", " --model DIR --data FILE.. --output FILE.npy|FILE.jsonl [options]", 0, 0, VERB_EMBED,
     cmd_embed, "Writes a vector for each text, as sentence-transformers makes them."},
    {"distill", " --model DIR --data FILE.. --output FILE [options]", 0, 0, VERB_DISTILL,
     cmd_distill,
     "Writes what a teacher holds likely at each place of a data set, for train --distill."},
    {"generate", " --model DIR --prompt TEXT|--prompt-ids IDS [options]", 0, 0, VERB_GENERATE,
     cmd_generate, "Continues a prompt."},
    {"export", " --model DIR --to DIR|FILE [options]", 0, 0, VERB_EXPORT, cmd_export,
     "Writes a model for other programs: Hugging Face directory, GGUF, llm.c."},
    {"import", " --from FILE --to DIR [options]", 0, 0, VERB_IMPORT, cmd_import,
     "Makes a model directory of a GGUF or llm.c file."},
    {"tokenize", " --tokenizer DIR --data FILE.. --output FILE [options]", 0, 0, VERB_TOKENIZE,
     cmd_tokenize, "Turns text into a token file in llm.c's format."},
    {"init", " DIR", 1, 1, VERB_INIT, cmd_init,
     "Asks for model, data and memory in five questions and writes DIR/train.conf for --config."},
    {"completion", " bash|zsh|fish", 1, 1, VERB_COMPLETION, cmd_completion,
     "Prints what a shell needs to complete command lines; make install puts it in its place."},
    {"verify", " DIR [options]", 1, 1, VERB_VERIFY, cmd_verify,
     "Checks every digest of a snapshot, or of the newest one in an output directory, whose record "
     "it walks line by line."},
    {"replay", " DIR [DIR] [options]", 1, 2, VERB_REPLAY, cmd_replay,
     "Computes steps of a run again, on other threads, kernels or policies as asked, and compares "
     "every line of its record and every state."},
    {"selftest", " [options]", 0, 0, VERB_SELFTEST, cmd_selftest,
     "Trains small models for known answers, in every form of the kernels and on 1, 2 and 5 "
     "threads."},
    {"watch", " DIR [options]", 1, 1, VERB_WATCH, cmd_watch,
     "Shows how the run in an output directory is: loss, rate, time left, memory, saves."},
    {"report", " DIR [DIR..] [options]", 1, 8, VERB_REPORT, cmd_report,
     "Writes a page of one run or several: curves, options, memory, events."},
    {"bench", " step|gemm|optim|fabric [options]", 1, 1, VERB_BENCH, cmd_bench,
     "Measures a training step, a matrix product or an update against this machine's peak, or the "
     "links between ranks."},
    {"devices", " [options]", 0, 0, VERB_DEVICES, cmd_devices, "Lists what can execute."},
    {"arena", " FILE.csv [options]", 1, 1, VERB_ARENA, cmd_arena,
     "Gives each buffer of a CSV file (id, lower, upper, size) an offset, lifetimes apart."},
};

static const verb_exit exits[] = {
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

const verb *verb_at(uint32_t index)
{
    return index < sizeof verbs / sizeof verbs[0] ? &verbs[index] : NULL;
}

const verb_exit *verb_exit_at(uint32_t index)
{
    return index < sizeof exits / sizeof exits[0] ? &exits[index] : NULL;
}
