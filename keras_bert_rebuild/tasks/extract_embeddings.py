"""Vectors of texts: keras_bert's `extract_embeddings`."""

import itertools
from collections import namedtuple
from pathlib import Path

import keras
import numpy as np

from keras_bert_rebuild import layers
from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.pretrained import load_trained_model_from_checkpoint
from keras_bert_rebuild.text.tokenizer import Tokenizer
from keras_bert_rebuild.text.vocabulary import load_vocabulary

POOL_NSP = "POOL_NSP"
POOL_MAX = "POOL_MAX"
POOL_AVE = "POOL_AVE"

POOLINGS = {
    POOL_NSP: lambda: layers.Extract(index=0, name="Pool-NSP"),
    POOL_MAX: lambda: layers.MaskedGlobalMaxPool1D(name="Pool-Max"),
    POOL_AVE: lambda: keras.layers.GlobalAveragePooling1D(name="Pool-Ave"),
}

CheckpointPaths = namedtuple("CheckpointPaths", ["config", "checkpoint", "vocab"])


def get_checkpoint_paths(model_path):
    """The paths of config, checkpoint and vocabulary in a folder as Google released them; whether they exist is not looked at."""
    folder = Path(model_path)
    return CheckpointPaths(*(str(folder / name) for name in ("bert_config.json", "bert_model.ckpt", "vocab.txt")))


def extract_embeddings_generator(
    model, texts, poolings=None, vocabs=None, cased=False, batch_size=4, cut_embed=True, output_layer_num=1
):
    """Yield the vectors of texts, one array a text, in order.

    Args:
        model: the folder of a Google checkpoint, or a model of token and segment ids.
        texts: an iterable of texts or pairs of texts; it may be endless.
        poolings: None for a vector per token; or one or a list of `POOL_NSP`, `POOL_MAX`, `POOL_AVE`, joined in that order.
        vocabs: token to id; read from the folder where `model` is one and this is None.
        cased: keep case and accents.
        batch_size: texts at a time.
        cut_embed: without poolings, leave out the vectors of padding.
        output_layer_num: as for `get_model`, where `model` is a folder.

    Yields:
        `(tokens, width)` without poolings, [CLS] and [SEP] included, else `(width · number of poolings,)`.

    Raises:
        ValueError: at the first step: a string in place of a list of texts, an unknown pooling, no vocabulary.
    """
    if isinstance(texts, (str, bytes)):
        raise ValueError(f"texts must be a list of texts; got the string {texts[:40]!r}: put it into a list.")
    if isinstance(model, (str, Path)):
        paths = get_checkpoint_paths(model)
        model = load_trained_model_from_checkpoint(paths.config, paths.checkpoint, output_layer_num=output_layer_num)
        vocabs = load_vocabulary(paths.vocab) if vocabs is None else vocabs
    if vocabs is None:
        raise ValueError("vocabs must be a dictionary from token to id where model is not a folder; got None.")
    seq_len = model.outputs[0].shape[1]
    model = _with_poolings(model, poolings)
    tokenizer = Tokenizer(vocabs, cased=cased)
    texts = iter(texts)
    while batch := list(itertools.islice(texts, batch_size)):
        encoded = [tokenizer.encode(*_first_and_second(text), max_len=seq_len) for text in batch]
        length = max(len(ids) for ids, _ in encoded)
        tokens, segments = np.zeros((2, len(batch), length), "int32")
        for row, (ids, kinds) in enumerate(encoded):
            tokens[row, : len(ids)] = ids
            segments[row, : len(kinds)] = kinds
        vectors = keras.ops.convert_to_numpy(model.predict_on_batch([tokens, segments]))
        for ids, vector in zip(tokens, vectors, strict=True):
            used = int(np.max(np.nonzero(ids)[0], initial=-1)) + 1
            yield vector[:used] if poolings is None and cut_embed else vector


def extract_embeddings(model, texts, poolings=None, vocabs=None, cased=False, batch_size=4, cut_embed=True, output_layer_num=1):
    """The vectors of texts as a list: see `extract_embeddings_generator`."""
    return list(extract_embeddings_generator(model, texts, poolings, vocabs, cased, batch_size, cut_embed, output_layer_num))


def _with_poolings(model, poolings):
    if poolings is None:
        return model
    names = [poolings] if isinstance(poolings, str) else list(poolings)
    for name in names:
        if name not in POOLINGS:
            raise ValueError(f"Unknown pooling method: {name!r}, expected {', '.join(POOLINGS)}.")
    if not names or len(set(names)) < len(names):
        raise ValueError(f"poolings must be one or more of {', '.join(POOLINGS)}, each once; got {names}.")
    pooled = [POOLINGS[name]()(model.outputs[0]) for name in names]
    return BertModel(model.inputs, pooled[0] if len(pooled) == 1 else keras.layers.Concatenate(name="Concatenate")(pooled))


def _first_and_second(text):
    return (text, None) if isinstance(text, str) else (text[0], text[1])
