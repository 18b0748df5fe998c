# SPDX-License-Identifier: MIT
"""Fine-tunes models in an exact memory budget: the program `bedplate`, called from Python.

    import bedplate

    plan = bedplate.plan(model="gpt2", arena="4GiB")
    last = bedplate.train(model="gpt2", data="poems.txt", output_dir="out", max_steps=100,
                          on_log=lambda line: print(line["step"], line["loss"]))
    print(bedplate.evaluate(model="out", data="poems.txt")["loss"])
    print(bedplate.generate("Shall I", model="out")["text"])

Each function runs the program in a process of its own and returns what it prints with `--json` as a dict. Keyword
arguments are the program's options, with `_` for `-` (`bedplate train --help`, docs/manual.md):

    True, False     true, false                    bf16=True              --bf16=true
    None            not given
    a list          the option for each value      data=["a", "b"]        --data=a --data=b
                    (of data, eval_data, freeze, trainable, param_override, stop)
                    or joined by commas            data_weights=[1, 2]    --data-weights=1,2
    anything else   its text; paths too            max_steps=100          --max-steps=100

What the program refuses raises a BedplateError with its exit code and its message. Linux only.
"""
import collections
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from typing import Any, Callable, Deque, Dict, IO, Iterable, List, Mapping, NoReturn, Optional, Sequence, Tuple, Type, Union

from ._version import __version__

__all__ = ["AnomalyError", "BedplateError", "DataError", "DeviceError", "DoesNotFitError", "HardwareError", "NonFiniteError",
           "RankError", "StorageError", "StoppedError", "UsageError", "__version__", "embed", "evaluate", "generate", "plan",
           "program", "run", "train"]

if not sys.platform.startswith("linux"):
    raise ImportError("Bedplate runs on Linux; macOS and Windows are not supported")

Line = Dict[str, Any]
Rows = Iterable[Mapping[str, Any]]
_KEPT = 200  # lines of stderr in an exception
# Options that are given once for each value (OPTION_PATHS and OPTION_LIST of tools/bedplate/app/options_table.c).
_REPEATED = frozenset(("data", "eval-data", "freeze", "trainable", "param-override", "stop", "reward"))


class BedplateError(RuntimeError):
    """The program ended with another exit code than 0.

    exit_code: the program's (docs/manual.md); negative where a signal ended it.
    message: its last message, without `bedplate: `. stderr: its last lines.
    command: the words that were run. result: the last line that it printed with --json, if any."""

    def __init__(self, message: str, exit_code: int, stderr: str = "", command: Sequence[str] = (), result: Optional[Line] = None):
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
        self.stderr = stderr
        self.command = list(command)
        self.result = result

    def __str__(self) -> str:
        return "%s (exit code %d)" % (self.message, self.exit_code)


class UsageError(BedplateError):
    """2: an option or its value is wrong."""


class DoesNotFitError(BedplateError):
    """3: the plan does not fit; `result` has the plan, `arena_bytes` in it what it needs."""


class DataError(BedplateError):
    """4: data or a model cannot be used."""


class NonFiniteError(BedplateError):
    """5: training became non-finite; the state before it is saved."""


class StorageError(BedplateError):
    """6: a file cannot be read or written."""


class DeviceError(BedplateError):
    """7: the device cannot be used."""


class HardwareError(BedplateError):
    """8: this machine's arithmetic or memory is in doubt."""


class AnomalyError(BedplateError):
    """9: the budget for anomalies is used up; the state is saved."""


class RankError(BedplateError):
    """10: another rank is lost."""


class StoppedError(BedplateError):
    """130, 138, 143, 152: stopped by a signal after saving; resume="auto" goes on."""


_ERRORS: Dict[int, Type[BedplateError]] = {
    2: UsageError, 3: DoesNotFitError, 4: DataError, 5: NonFiniteError, 6: StorageError, 7: DeviceError, 8: HardwareError,
    9: AnomalyError, 10: RankError, 130: StoppedError, 138: StoppedError, 143: StoppedError, 152: StoppedError}


def program() -> str:
    """The program's path: BEDPLATE_PROGRAM of the environment, else the one of this package."""
    return os.environ.get("BEDPLATE_PROGRAM") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "bedplate")


def _text(name: str, value: Any) -> str:
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if hasattr(value, "item"):  # a number of numpy
        return _text(name, value.item())
    raise TypeError("%s: found %s, expected text, a number, a path, True, False, None or a list of these" % (name, type(value).__name__))


def _words(options: Mapping[str, Any]) -> List[str]:
    words: List[str] = []
    for key, value in options.items():
        name = key.rstrip("_").replace("_", "-")
        if value is None:
            continue
        if isinstance(value, (list, tuple)):
            texts = [_text(key, each) for each in value]
            if name not in _REPEATED:
                texts = [",".join(texts)]
            words.extend("--%s=%s" % (name, text) for text in texts)
        else:
            words.append("--%s=%s" % (name, _text(key, value)))
    return words


def _start(words: Sequence[str]) -> "subprocess.Popen[str]":
    """In a session of its own: a terminal's Ctrl-C reaches the program once, through run()."""
    try:
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                encoding="utf-8", errors="replace", start_new_session=True)
    except OSError as error:
        raise BedplateError("%s cannot be run here: %s. It needs the processor and the C library that its wheel is named "
                            "after; the static wheel (musllinux) needs no library" % (words[0], error.strerror), 127,
                            command=words) from error


def _fail(code: int, words: Sequence[str], said: Sequence[str], result: Optional[Line]) -> NoReturn:
    own = [line[len("bedplate: "):] for line in said if line.startswith("bedplate: ")]
    message = own[0] if own else said[-1] if said else "the program said nothing"
    if code < 0:
        message = "the program was ended by %s" % signal.Signals(-code).name
        if code == -signal.SIGILL:
            message += ": this processor lacks instructions that it uses"
    elif code == 1 and any("GLIBC_" in line for line in said):
        message = "the C library of this machine is too old (%s); the static wheel (musllinux) needs none" % said[-1]
    elif own:
        # Progress comes before what went wrong, and what would help after it.
        errors = [line for line in own if re.search(r"\bfound |\bexpected |\bexpected ", line)]
        message = errors[-1] if errors else own[-1]
    kind = _ERRORS.get(code, BedplateError)
    raise kind(message, code, "\n".join(said), words, result)


def run(command: str, *arguments: Union[str, "os.PathLike[str]"], on_log: Optional[Callable[[Line], Any]] = None,
        on_stderr: Optional[Callable[[str], Any]] = None, **options: Any) -> List[Line]:
    """Runs `bedplate COMMAND ARGUMENTS --json OPTIONS` and returns the lines that it prints, each a dict.

    on_log gets each line as it comes, on_stderr each line of progress and warnings, from a thread of its own.
    An exception, of on_log or KeyboardInterrupt, stops the program as Ctrl-C does: a training saves first, and the
    exception goes on."""
    words = [program(), command, *(os.fspath(each) for each in arguments), *_words(options), "--json"]
    lines: List[Line] = []
    said: Deque[str] = collections.deque(maxlen=_KEPT)
    process = _start(words)

    def listen(stream: IO[str]) -> None:
        for text in stream:
            said.append(text.rstrip("\n"))
            if on_stderr is not None:
                on_stderr(said[-1])

    assert process.stdout is not None and process.stderr is not None
    listener = threading.Thread(target=listen, args=(process.stderr,), daemon=True)
    listener.start()
    try:
        for text in process.stdout:
            if not text.startswith("{"):
                continue
            line = json.loads(text)
            lines.append(line)
            if on_log is not None:
                on_log(line)
        code = process.wait()
    except BaseException:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.stdout.read()
        process.wait()
        raise
    finally:
        listener.join()
        process.stdout.close()
        process.stderr.close()
    if code != 0:
        _fail(code, words, list(said), lines[-1] if lines else None)
    return lines


def _last(lines: Sequence[Line], words: str) -> Line:
    if not lines:
        raise BedplateError("bedplate %s printed no result" % words, 0)
    return lines[-1]


def plan(**options: Any) -> Line:
    """How much memory a training needs, to the byte: `arena_bytes`, `host_bytes`, `classes`, `fits`, ..

    plan(model="gpt2", arena="4GiB"). Raises DoesNotFitError where nothing fits `arena`."""
    return _last(run("plan", **options), "plan")


def train(on_log: Optional[Callable[[Line], Any]] = None, **options: Any) -> Line:
    """Trains and returns the last line: `steps`, `state_digest`, `ended_by`, `output_dir`, ..

    train(model="gpt2", data="poems.txt", output_dir="out", max_steps=100). on_log gets each line of the log
    (every `logging_steps` steps: `step`, `loss`, ..) and of evaluations as it comes."""
    lines = run("train", on_log=(lambda line: None if "state_digest" in line else on_log(line)) if on_log else None, **options)
    return _last(lines, "train")


def _rows_file(rows: Rows, folder: str) -> str:
    path = os.path.join(folder, "rows.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(dict(row), ensure_ascii=False) + "\n")
    return path


def _data_of(data: Any, folder: str) -> Any:
    """Files as they are; rows as a file of theirs."""
    if isinstance(data, (list, tuple)) and data and all(isinstance(row, Mapping) for row in data):
        return _rows_file(data, folder)
    return data


def evaluate(data: Any, **options: Any) -> Line:
    """The loss over the data, and what the task is judged by (`perplexity`, `accuracy`, `f1`, ..).

    evaluate("poems.txt", model="out"). data: a file, several, or rows: [{"text": .., "label": ..}, ..]."""
    with tempfile.TemporaryDirectory(prefix="bedplate-") as folder:
        return _last(run("eval", data=_data_of(data, folder), **options), "eval")


def generate(prompt: Optional[str] = None, **options: Any) -> Line:
    """Continues a prompt: `text`, `ids`, `finish_reason`, ..

    generate("Shall I", model="out", max_new_tokens=40, temperature=0.8). With num_return_sequences=N the dict has
    `sequences`, a list of N such dicts, besides those of the last."""
    lines = run("generate", prompt=prompt, **options)
    last = dict(_last(lines, "generate"))
    if len(lines) > 1:
        last["sequences"] = list(lines)
    return last


def embed(data: Any, output: Union[None, str, "os.PathLike[str]"] = None, **options: Any) -> Line:
    """A vector for each text, as sentence-transformers makes them.

    embed(["a man", "a plan"], model="minilm")["embeddings"] is a list of lists of floats. data: texts in a list, rows
    (dicts), or the Path of a file. Where `output` names a file (.npy or .jsonl) the vectors go there instead, and
    `path` names it."""
    with tempfile.TemporaryDirectory(prefix="bedplate-") as folder:
        if isinstance(data, (list, tuple)) and data and all(isinstance(text, str) for text in data):
            data = [{"text": text} for text in data]
        where = os.path.join(folder, "vectors.jsonl") if output is None else os.fspath(output)
        result = dict(_last(run("embed", data=_data_of(data, folder), output=where, **options), "embed"))
        if output is None:
            with open(where, encoding="utf-8") as file:
                result["embeddings"] = [json.loads(line)["embedding"] for line in file]
            result.pop("path", None)
        return result


def _main() -> NoReturn:
    """The command `bedplate`: this process becomes the program."""
    words: Tuple[str, ...] = (program(), *sys.argv[1:])
    try:
        os.execv(words[0], words)
    except OSError as error:
        sys.exit("bedplate: %s cannot be run here: %s" % (words[0], error.strerror))
