"""Preparing a corpus, killed at random times: the same bytes in the end, and no process remains."""

import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.exhaustive import only_exhaustive

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
