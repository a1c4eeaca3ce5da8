"""Which weights are trained and which are frozen."""

import keras
import numpy as np
import pytest
from helpers.small_tasks import TOKENIZER, small_encoder, trained

from keras_bert_rebuild import TextClassifier, freeze, train_only
from keras_bert_rebuild.data.labelled.labelled_examples import ClassifiedText

EXAMPLES = [ClassifiedText("the cat", label="a"), ClassifiedText("the dog", label="b")]


def task():
    return TextClassifier.from_encoder(small_encoder(), TOKENIZER, labels=("a", "b"))


@pytest.mark.compiles_long
def test_frozen_weights_stay_and_all_others_learn():
    here = task()
    counts = freeze(here.model, ["^Embedding-", "^Encoder-1-"])
    before = {v.path: np.array(v.numpy()) for v in here.model.weights}
    moves = {path for path in before if not path.startswith(("Embedding-", "Encoder-1-"))}
    assert counts.trained == sum(before[path].size for path in moves)
    assert counts.frozen == here.model.count_params() - counts.trained
    trained(here, EXAMPLES, epochs=2)
    moved = {v.path for v in here.model.weights if np.abs(v.numpy() - before[v.path]).max() > 1e-6}
    # The bias of the keys has no gradient: attention depends on differences only.
    assert moves - {"Encoder-2-MultiHeadSelfAttention/key/bias"} <= moved <= moves


def test_only_the_named_weights_learn():
    model = small_encoder()
    counts = train_only(model, ["bias$", "^NSP-Dense/"])
    assert {v.path for v in model.trainable_weights} == {
        v.path for v in model.weights if v.path.endswith("bias") or v.path.startswith("NSP-Dense/")
    }
    assert sum(counts) == model.count_params()


@pytest.mark.parametrize("change", [freeze, train_only])
def test_a_pattern_without_a_match_is_one_sentence(change):
    model = small_encoder()
    with pytest.raises(
        ValueError, match="must match a variable path, such as 'Embedding-Token/embeddings'; 'Encoder-9' matches none"
    ):
        change(model, ["Embedding", "Encoder-9"])
    with pytest.raises(ValueError, match="list of regular expressions"):
        change(model, "Embedding")
    with pytest.raises(ValueError, match="must have a model with weights, which must be built; empty has none"):
        change(keras.Sequential([keras.layers.Dense(2)], name="empty"), ["kernel"])
    assert all(variable.trainable for variable in model.weights)
