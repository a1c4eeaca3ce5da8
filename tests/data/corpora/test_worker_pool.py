"""Tasks distributed over processes."""

import functools
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from keras_bert_rebuild.data.corpora.worker_pool import run_tasks

ROOT = Path(__file__).parents[3]

SLEEPERS = """
import functools, sys, time
package = type(sys)("keras_bert_rebuild")
package.__path__ = [sys.argv[1]]
sys.modules["keras_bert_rebuild"] = package
from keras_bert_rebuild.data.corpora.worker_pool import run_tasks
print("started", flush=True)
list(run_tasks(functools.partial, (time.sleep,), [60, 60, 60], 2))
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_every_task_is_done_once(workers):
    assert sorted(run_tasks(functools.partial, (math.factorial,), range(7), workers)) == [1, 1, 2, 6, 24, 120, 720]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_in_a_task_is_raised_in_the_main_process(workers):
    with pytest.raises(ValueError, match="invalid literal"):
        list(run_tasks(functools.partial, (int,), ["1", "x"], workers))


def test_a_process_that_dies_is_one_sentence():
    with pytest.raises(ChildProcessError, match="ended with code 3; run the same command again"):
        list(run_tasks(functools.partial, (os._exit,), [3], 2))


def test_tasks_are_created_only_when_a_process_is_about_to_be_free():
    made = []
    results = run_tasks(functools.partial, (math.sqrt,), (made.append(i) or i for i in range(50)), 2)
    for done in range(1, 20):
        next(results)
        assert len(made) <= done + 2 + 1
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
