"""The ceiling is the rate of matrix products."""

import time

import numpy as np

from keras_bert_rebuild.recipes.model_flops import matrix_ceiling


def test_no_product_of_this_size_is_faster_than_the_ceiling_by_much():
    ceiling = matrix_ceiling("float32", seconds=0.1)
    a = np.full((512, 512), 0.5, "float32")
    started = time.perf_counter()
    (a @ a).sum()
    # NumPy runs on the same cores: a wrong unit would appear as a factor of a thousand.
    assert 2 * 512**3 / (time.perf_counter() - started) / 1000 < ceiling < 1e17
