"""Embedding random texts, for any time, in memory that does not grow."""

import itertools
import os
import random
import time
from pathlib import Path

import numpy as np
import pytest
from helpers import minilm
from helpers.hostile_inputs import hostile_text, prose

from keras_bert_rebuild import BertConfig, EmbeddingStream, build_model, from_pretrained, load_tokenizer

MINUTES = float(os.environ.get("SOAK_MINUTES", "30"))

# By then all shapes are compiled, allocators have their arenas and the tokenizer its words: memory is flat from here on.
WARM_UP = 0.25

# One in this many texts is embedded again, alone.
ALONE = 97


def resident_bytes():
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def check(stream, texts):
    """Embed texts, check every vector, and embed some of them again; returns the number of texts."""
    waiting, count = [], 0

    def kept():
        for text in texts:
            waiting.append(text)
            yield text

    for vector in stream.stream(kept()):
        text = waiting.pop(0)
        assert np.isfinite(vector).all(), ascii(text[:200])
        assert abs(np.linalg.norm(vector) - 1) < 1e-3, ascii(text[:200])
        if count % ALONE == 0:
            np.testing.assert_allclose(stream([text])[0], vector, atol=1e-5, err_msg=ascii(text[:200]))
        count += 1
    return count


def test_hostile_texts_have_vectors_of_length_one():
    config = BertConfig(vocab_size=30522, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    tokenizer = load_tokenizer(minilm.FOLDER)
    stream = EmbeddingStream.from_model(build_model(config), tokenizer, normalize=True, max_len=16)
    rng, sentences = random.Random(1), prose()
    assert check(stream, (hostile_text(rng, sentences, 10_000) for _ in range(100))) == 100


@pytest.mark.skipif("SOAK_MINUTES" not in os.environ, reason="takes SOAK_MINUTES")
@pytest.mark.timeout(0)
def test_memory_is_flat_while_texts_come():
    model, tokenizer = from_pretrained(minilm.FOLDER, heads=[]), load_tokenizer(minilm.FOLDER)
    stream = EmbeddingStream.from_model(model, tokenizer, normalize=True, max_len=128)
    seed = int(time.time())
    print(f"\nseed {seed}", flush=True)
    rng, sentences = random.Random(seed), prose()
    begin, seen, measured = time.monotonic(), 0, []
    end = begin + 60 * MINUTES
    while time.monotonic() < end:
        texts = (hostile_text(rng, sentences) for _ in itertools.count())
        seen += check(stream, itertools.islice(texts, 500))
        measured.append((time.monotonic() - begin, resident_bytes()))
        print(f"{measured[-1][0]:8.0f} s {seen:9,} texts {measured[-1][1] / 1e6:9.1f} MB", flush=True)
    warm = [size for seconds, size in measured if seconds > 60 * MINUTES * WARM_UP]
    third = max(len(warm) // 3, 1)
    first, last = np.median(warm[:third]), np.median(warm[-third:])
    print(f"{seen:,} texts; memory after the warm-up {first / 1e6:.1f} MB, in the end {last / 1e6:.1f} MB", flush=True)
    assert last < 1.05 * first
