"""Vectors of texts: keras_bert's `extract_embeddings`."""

import itertools
import os
from collections import namedtuple
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.data.buckets import Buckets, EncodedBlock
from keras_bert_rebuild.pretrained import load_trained_model_from_checkpoint
from keras_bert_rebuild.tasks.embedding_model import RowAnswers, embedding_model, lengths_of, longest_row
from keras_bert_rebuild.tasks.embedding_stream import check_list_of_texts
from keras_bert_rebuild.text.tokenizer import Tokenizer
from keras_bert_rebuild.text.vocabulary import load_vocabulary

POOL_NSP = "POOL_NSP"
POOL_MAX = "POOL_MAX"
POOL_AVE = "POOL_AVE"

KERAS_BERT_POOLINGS = {POOL_NSP: "cls", POOL_MAX: "max", POOL_AVE: "mean"}

CheckpointPaths = namedtuple("CheckpointPaths", ["config", "checkpoint", "vocab"])


def get_checkpoint_paths(model_path: str | os.PathLike[str]) -> CheckpointPaths:
    """The paths of config, checkpoint and vocabulary in a folder as Google released them; they need not exist."""
    folder = Path(model_path)
    return CheckpointPaths(*(str(folder / name) for name in ("bert_config.json", "bert_model.ckpt", "vocab.txt")))


def extract_embeddings_generator(
    model: str | Path | keras.Model,
    texts: Iterable[str | Sequence[str]],
    poolings: str | Sequence[str] | None = None,
    vocabs: dict[str, int] | None = None,
    cased: bool = False,
    batch_size: int = 4,
    cut_embed: bool = True,
    output_layer_num: int | Sequence[int] = 1,
) -> Iterator[npt.NDArray[Any]]:
    """Yield the vectors of texts, one array for each text, in order.

    Texts of similar length are computed together, padded to the longest of them. A few thousand texts are read ahead; memory does
    not grow with the number of texts.

    Args:
        model: the folder of a Google checkpoint, or a model of token and segment ids.
        texts: an iterable of texts or pairs of texts; it may be endless.
        poolings: None for a vector per token; or one or a list of `POOL_NSP`, `POOL_MAX`, `POOL_AVE`, concatenated in that order.
        vocabs: a dictionary from token to id; None to read it from the folder, if `model` is one.
        cased: retain case and accents.
        batch_size: texts per batch at the model's maximum length; batches of shorter texts have about as many tokens.
        cut_embed: without poolings, leave out the vectors of padding.
        output_layer_num: as for `get_model`, if `model` is a folder.

    Yields:
        `(tokens, width)` without poolings, [CLS] and [SEP] included, else `(width · number of poolings,)`.

    Raises:
        ValueError: (at the first vector) texts is a string instead of a list, a pooling is unknown, or there is no vocabulary.
    """
    check_list_of_texts(texts)
    if isinstance(model, (str, Path)):
        paths = get_checkpoint_paths(model)
        model = load_trained_model_from_checkpoint(paths.config, paths.checkpoint, output_layer_num=output_layer_num)
        vocabs = load_vocabulary(paths.vocab) if vocabs is None else vocabs
    if vocabs is None:
        raise ValueError("vocabs must be a dictionary from token to id if model is not a folder; got None.")
    names = _names_of_poolings(poolings)
    seq_len = model.outputs[0].shape[1] if len(model.outputs[0].shape) > 2 else None
    # The caller wants the vectors of padding, which depend on the padded length.
    at_static_length = seq_len is not None and not names and not cut_embed
    model = embedding_model(model, names, any_length=not at_static_length)
    longest = seq_len or longest_row(model)

    answers = RowAnswers(model)

    def fetch(begun):
        rows, vectors = begun[0], answers.fetch(begun[1])
        if names or not cut_embed:
            return vectors
        return [vector[: _used(ids)] for (ids, _), vector in zip(rows, vectors, strict=True)]

    def answer(rows, length):
        return rows, answers(rows, length)

    buckets = Buckets(answer, lengths_of(model, longest), batch_size * longest, fetch=fetch)
    tokenizer = Tokenizer(vocabs, cased=cased)
    blocks = (EncodedBlock.from_row(*_encoded(tokenizer, text, seq_len)) for text in texts)
    # A block has a copy of its vector, so that one that is retained does not keep the whole batch in memory.
    yield from itertools.chain.from_iterable(buckets.stream_blocks(blocks))


def extract_embeddings(
    model: str | Path | keras.Model,
    texts: Iterable[str | Sequence[str]],
    poolings: str | Sequence[str] | None = None,
    vocabs: dict[str, int] | None = None,
    cased: bool = False,
    batch_size: int = 4,
    cut_embed: bool = True,
    output_layer_num: int | Sequence[int] = 1,
) -> list[npt.NDArray[Any]]:
    """The vectors of texts as a list: see `extract_embeddings_generator`."""
    return list(extract_embeddings_generator(model, texts, poolings, vocabs, cased, batch_size, cut_embed, output_layer_num))


def _names_of_poolings(poolings):
    if poolings is None:
        return ()
    names = [poolings] if isinstance(poolings, str) else list(poolings)
    for name in names:
        if name not in KERAS_BERT_POOLINGS:
            raise ValueError(f"Unknown pooling method: {name!r}, expected {', '.join(KERAS_BERT_POOLINGS)}.")
    if not names or len(set(names)) < len(names):
        raise ValueError(f"poolings must be one or more of {', '.join(KERAS_BERT_POOLINGS)}, each once; got {names}.")
    return tuple(KERAS_BERT_POOLINGS[name] for name in names)


def _encoded(tokenizer, text, seq_len):
    """Ids and segments of a text or a pair, truncated to the model and without padding."""
    first, second = (text, None) if isinstance(text, str) else (text[0], text[1])
    ids, segments = tokenizer.encode(first, second)
    return (ids, segments) if seq_len is None or len(ids) <= seq_len else tokenizer.encode(first, second, max_len=seq_len)


def _used(ids):
    """The number of ids up to the last one that is not 0, keras_bert's padding."""
    return int(np.max(np.nonzero(ids)[0], initial=-1)) + 1
