"""A lock excludes others, names its holder, and ends with its process."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from keras_bert_rebuild.files.locked import BusyError, acquire, lock_file, locked, release

PACKAGE = Path(__file__).parents[2] / "keras_bert_rebuild"
# Without the package's own import, which takes seconds.
START = f"""
import sys, time
package = type(sys)("keras_bert_rebuild")
package.__path__ = [{str(PACKAGE)!r}]
sys.modules["keras_bert_rebuild"] = package
from keras_bert_rebuild.files.locked import lock_file, locked, now_doing
now_doing("`keras-bert other`")
"""


def other_process(script, *arguments):
    return subprocess.Popen([sys.executable, "-c", START + script, *map(str, arguments)], stdout=subprocess.PIPE, text=True)


HOLD = """
with locked(lock_file(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_process_names_the_first_and_a_killed_one_holds_nothing(tmp_path):
    output = tmp_path / "out.npy"
    with other_process(HOLD, output) as process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(
            BusyError, match=rf"out.npy is being written by `keras-bert other`, process {process.pid}, since 2\d{{3}}-"
        ):
            acquire(lock_file(output), output)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert lock_file(output).exists()
        with locked(lock_file(output), output):
            pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks")
def test_a_forked_process_has_no_lock_and_releases_none(tmp_path):
    script = """
import os
from keras_bert_rebuild.files.locked import BusyError, acquire, release
lock = lock_file(sys.argv[1])
held = acquire(lock)
if os.fork() == 0:
    try:
        acquire(lock)
    except BusyError:
        release(held)
        os._exit(7)
print(os.waitstatus_to_exitcode(os.wait()[1]), lock.exists())
"""
    with other_process(script, tmp_path / "a") as process:
        assert process.stdout.read() == "7 True\n"


RACE = """
import os, pathlib
for _ in range(200):
    with locked(lock_file(sys.argv[1]), wait=60):
        mark = pathlib.Path(sys.argv[1] + ".mark")
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        mark.unlink()
"""


def test_two_processes_never_hold_the_lock_at_once_even_if_the_file_is_deleted(tmp_path):
    with other_process(RACE, tmp_path / "a") as one, other_process(RACE, tmp_path / "a") as two:
        assert (one.wait(), two.wait()) == (0, 0)


def test_a_lock_is_reentrant_in_its_thread_only(tmp_path):
    lock = lock_file(tmp_path / "a")
    found = []

    def other():
        try:
            acquire(lock)
        except BusyError as error:
            found.append(str(error))

    with locked(lock), locked(lock):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(found) == 1
    assert not lock.exists()


def test_waiting_for_a_lock(tmp_path):
    lock = lock_file(tmp_path / "a")
    held = acquire(lock)
    done = []

    def other():
        with locked(lock, wait=30):
            done.append(time.monotonic())

    thread = threading.Thread(target=other)
    thread.start()
    time.sleep(0.1)
    assert not done
    release(held)
    thread.join()
    assert done


def test_a_foreign_file_at_the_path_of_the_lock_is_not_written_to(tmp_path):
    lock, mine = lock_file(tmp_path / "a"), tmp_path / "mine"
    for content in ("", "mine"):
        mine.write_text(content)
        for plant in (lock.symlink_to, lock.hardlink_to):
            plant(mine)
            with pytest.raises(OSError, match="a"):
                acquire(lock, tmp_path / "a")
            lock.unlink()
    lock.write_text("mine, too")
    with pytest.raises(OSError, match="expected a lock file or nothing at"):
        acquire(lock, tmp_path / "a")
    assert (mine.read_text(), lock.read_text()) == ("mine", "mine, too")


def test_the_longest_file_name_has_a_lock(tmp_path):
    with locked(lock_file(tmp_path / ("é" * 127))):
        assert len(list(tmp_path.iterdir())) == 2  # and its holder
