"""The processes of a benchmark: contenders that wait for commands, workers that do one job, and the file of their results."""

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
# By then idle threads of the previous process sleep.
PAUSE = 0.3


def environment(backend, threads=None):
    """The variables of a process: the package of this checkout, quiet libraries, no network, a GPU shared with others."""
    limited = {} if threads is None else {"OMP_NUM_THREADS": str(threads)}
    return {
        **os.environ,
        **limited,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "KERAS_BACKEND": backend,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }


class Contender:
    """A process that answers every line of its input with a line of JSON."""

    def __init__(self, command, log, variables):
        self.log = log
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log.open("w"), text=True, env=variables
        )

    def answer(self):
        """The next line of its output, read."""
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.log.stem} ended with {self.process.wait()}: {self.log.read_text()[-2000:]}")
        return json.loads(line)

    def ask(self, *words):
        """The answer to a command."""
        time.sleep(PAUSE)
        with contextlib.suppress(BrokenPipeError):  # of an ended process; the answer says why
            print(*words, file=self.process.stdin, flush=True)
        return self.answer()

    def end(self):
        """Close its input, and wait."""
        self.process.stdin.close()
        self.process.wait()


def result_of(command, variables):
    """The JSON that a process prints as its last line."""
    done = subprocess.run(list(map(str, command)), env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command[1:3]))} ended with {done.returncode}: {done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


class Results:
    """The rows of a file of JSON lines, to which new ones are appended as soon as they are known."""

    def __init__(self, path, **same):
        known = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
        self.path, self.rows = path, [row for row in known if all(row[name] == value for name, value in same.items())]

    def has(self, **facts):
        """Whether a row has these values."""
        return any(all(row[name] == value for name, value in facts.items()) for row in self.rows)

    def keep(self, row):
        """Append a row; returns it."""
        self.rows.append(row)
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        return row
