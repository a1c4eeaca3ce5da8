"""Tasks in processes, and a corpus prepared in processes that are killed: no process remains, the bytes are the same in the end."""

import functools
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.hostile_inputs import only_exhaustive

from keras_bert_rebuild.data.corpora.worker_pool import mapped

ROOT = Path(__file__).parents[3]

SLEEPERS = """
import functools, sys, time
package = type(sys)("keras_bert_rebuild")
package.__path__ = [sys.argv[1]]
sys.modules["keras_bert_rebuild"] = package
from keras_bert_rebuild.data.corpora.worker_pool import mapped
print("started", flush=True)
list(mapped(functools.partial, (time.sleep,), [60, 60, 60], 2))
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_every_task_is_done_once_and_results_are_in_order(workers):
    assert list(mapped(functools.partial, (math.factorial,), range(7), workers)) == [1, 1, 2, 6, 24, 120, 720]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_in_a_task_is_raised_in_the_main_process(workers):
    with pytest.raises(ValueError, match="invalid literal"):
        list(mapped(functools.partial, (int,), ["1", "x"], workers))


def test_a_process_that_dies_is_one_sentence():
    with pytest.raises(ChildProcessError, match="ended with code 3; run the same command again"):
        list(mapped(functools.partial, (os._exit,), [3], 2))


def test_tasks_are_created_only_when_a_process_is_about_to_be_free():
    made = []
    results = mapped(functools.partial, (math.sqrt,), (made.append(i) or i for i in range(50)), 2)
    for done in range(1, 20):
        next(results)
        assert len(made) <= done + 2 * 2 + 1
    results.close()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_no_process_outlives_the_main_one(how):
    command = [sys.executable, "-c", SLEEPERS, str(ROOT / "keras_bert_rebuild")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as main:
        main.stdout.readline()
        children = wait_for(lambda: found if len(found := children_of(main.pid)) == 2 else None)
        main.send_signal(how)
        main.wait(timeout=20)
    assert wait_for(lambda: not any(is_running(pid) for pid in children))


def children_of(pid):
    return [int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition):
    """The value of a condition as soon as it is true, within 20 s."""
    for _ in range(400):
        if value := condition():
            return value
        time.sleep(0.05)
    return condition()


# Preparing a corpus, killed at random times: the same bytes in the end, and no process remains.


PACKAGE = Path(__file__).parents[3] / "keras_bert_rebuild"
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "boat", "##s", "the", "river", *"0123456789"]
LONG = 300

# The command without importing Keras, which takes longer than the work.
PREPARE = """
import sys
package = type(sys)("keras_bert_rebuild")
package.__path__ = [sys.argv[1]]
sys.modules["keras_bert_rebuild"] = package
from keras_bert_rebuild.data.corpora.prepare import prepare
prepare(*sys.argv[2:5], workers=2, block_bytes=50_000)
"""


def bare_prepare(corpus, vocabulary, output):
    return "-c", PREPARE, PACKAGE, corpus, vocabulary, output


def whole_command(corpus, vocabulary, output):
    return "-m", "keras_bert_rebuild.cli.main", "prepare", corpus, "--tokenizer", vocabulary, "--output", output, "--processes", 2


def run(arguments, seconds):
    """Start Python and kill it when the time is over; whether it finished before."""
    command = [sys.executable, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
        # Its workers write errors to the same pipe, which closes when the last of them ends; a timeout here fails the test.
        errors = process.communicate(timeout=20)[1].decode()
    assert process.returncode in (0, -signal.SIGKILL), errors
    return process.returncode == 0


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.skipif(sys.platform == "win32", reason="kills with signals")
@pytest.mark.parametrize(
    ("command", "lines", "kills"),
    [
        pytest.param(bare_prepare, 20_000, 5, id="some"),
        pytest.param(whole_command, 400_000, 24, id="many", marks=[only_exhaustive, pytest.mark.timeout(1800)]),
    ],
)
@pytest.mark.slow(torch=True)
def test_a_run_killed_at_random_times_resumes_to_the_same_bytes(tmp_path, command, lines, kills):
    corpus, vocabulary, output = tmp_path / "corpus.txt", tmp_path / "v.txt", tmp_path / "out"
    corpus.write_text("\n".join(f"a boat by the river {i} and {i * 7} boats {i * i}" + "\n" * (i % 9 == 0) for i in range(lines)))
    vocabulary.write_text("\n".join(TOKENS))
    started = time.monotonic()
    assert run(command(corpus, vocabulary, output), LONG)
    duration = time.monotonic() - started
    whole = contents(output)
    assert len(whole) > 10
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}, times to {duration:.2f} s")  # pytest shows it when the test fails
    times = random.Random(seed)
    killed = 0
    while killed < kills:
        shutil.rmtree(output)
        ended = False
        while not ended:
            ended = run(command(corpus, vocabulary, output), times.uniform(0, duration) if killed < kills else LONG)
            killed += not ended
        assert contents(output) == whole, f"seed {seed}: other bytes after {killed} kills"
