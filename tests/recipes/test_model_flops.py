"""Operation counts equal those computed by hand."""

import time

import numpy as np

from keras_bert_rebuild import BertConfig
from keras_bert_rebuild.recipes.model_flops import Work, forward_flops, matrix_ceiling, train_flops


def product(rows, inner, columns):
    return 2 * rows * inner * columns


def test_the_matrix_products_of_bert_base_are_counted_one_by_one():
    length, width, inner, words = 128, 768, 3072, 30522
    block = 4 * product(length, width, width) + 2 * product(length, width, inner)  # projections, feed-forward
    block += 12 * (
        product(length, 64, length) + product(length, length, 64)
    )  # every head: queries by keys, probabilities by values
    heads = product(20, width, width) + product(20, width, words) + product(1, width, width) + product(1, width, 2)
    config = BertConfig(vocab_size=words)
    assert forward_flops(config, Work(length, length**2, 20, 1)) == 12 * block + heads
    assert train_flops(config, Work(length, length**2, 20, 1)) == 3 * (12 * block + heads)


def test_narrow_embeddings_are_projected_and_their_head_is_narrow():
    config = BertConfig(
        vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, embedding_size=8
    )
    block = 4 * product(5, 32, 32) + 2 * product(5, 32, 64) + 4 * 32 * 25
    expected = 2 * block + product(5, 8, 32) + product(3, 32, 8) + product(3, 8, 100)
    assert forward_flops(config, Work(5, 25, 3, 1), pair_head=False) == expected


def test_no_product_of_this_size_is_faster_than_the_ceiling_by_much():
    ceiling = matrix_ceiling("float32", seconds=0.1)
    a = np.full((512, 512), 0.5, "float32")
    started = time.perf_counter()
    (a @ a).sum()
    # NumPy runs on the same cores: a wrong unit would appear as a factor of a thousand.
    assert 2 * 512**3 / (time.perf_counter() - started) / 1000 < ceiling < 1e17
