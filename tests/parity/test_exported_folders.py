"""Exported Hugging Face folders with the head of a task, run by transformers in a separate process."""

import sys
from pathlib import Path

import numpy as np
import pytest

# The modules of tests/export, without its tests.
sys.path.append(str(Path(__file__).parents[1] / "export"))

from eight_scripts import TEXTS, answers, small_export
from foreign import run_foreign

import keras_bert_rebuild

# For transformers a word of more than 100 characters is unknown, for Google one of more than 200.
TEXTS = [text for text in TEXTS if "y" * 200 not in text]


@pytest.mark.parametrize(
    ("head", "names"),
    [
        ("classification", ["logits"]),
        ("token_classification", ["logits"]),
        ("question_answering", ["start_logits", "end_logits"]),
    ],
)
def test_transformers_answers_the_same_with_the_head_of_a_task(tmp_path, rng, head, names):
    model, tokenizer = small_export(rng, [head])
    keras_bert_rebuild.export(model, tokenizer, tmp_path / "folder", "huggingface")
    got = run_foreign("transformers", tmp_path / "folder", TEXTS, tmp_path)
    encoded, (expected,) = answers(model, tokenizer, TEXTS)
    values = got["logits"] if names == ["logits"] else np.stack([got[name] for name in names], axis=-1)
    if expected.ndim == 3:
        values, expected = values[encoded.mask == 1], expected[encoded.mask == 1]
    np.testing.assert_allclose(values, expected, atol=1e-5)
    if head != "question_answering":
        assert tuple(got["labels"]) == model.config.labels
