"""Outputs of transformers for files that it wrote: tests/parity/make_golden.py makes them, tox -e parity compares directly."""

from pathlib import Path

import numpy as np
import pytest
from helpers import minilm
from helpers.exhaustive import EXHAUSTIVE
from helpers.run_model import answers

from keras_bert_rebuild import from_pretrained

pytestmark = pytest.mark.backend

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = sorted(path.parent.name for path in GOLDEN.glob("*/golden.npz"))


def test_every_family_has_golden_files():
    assert {case.split("_")[0] for case in CASES} == {
        "albert",
        "bert",
        "deberta",
        "distilbert",
        "electra",
        "gte",
        "modernbert",
        "nomic",
        "roberta",
        "xlm",
        "xlnet",
    }


@pytest.mark.backend(all_cases=True)
@pytest.mark.parametrize("case", CASES)
def test_outputs_are_those_of_transformers(case):
    golden = np.load(GOLDEN / case / "golden.npz")
    ids, segments = golden["ids"], golden["segments"]
    model = from_pretrained(GOLDEN / case)
    real = ids != model.config.pad_token_id
    outputs = answers(model, ids, segments)
    assert len(outputs) == len(golden.files) - 2
    for i, got in enumerate(outputs):
        expected = golden[str(i)]
        if expected.shape[:2] == ids.shape:
            expected, got = expected[real], got[real]
        np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_the_config_counts_the_parameters_of_the_model(case):
    model = from_pretrained(GOLDEN / case)
    from keras_bert_rebuild.models.heads import heads_of

    assert model.config.num_params(heads_of(model)) == model.count_params()


LENGTHS = range(1, 513) if EXHAUSTIVE else [*range(1, 65), *range(80, 513, 24)]


@pytest.mark.slow(torch=True)
def test_a_trained_model_agrees_with_transformers_at_lengths_from_1_to_512():
    golden = np.load(GOLDEN / "minilm.npz")
    np.testing.assert_array_equal(minilm.text_ids(), golden["ids"])
    model = from_pretrained(minilm.FOLDER)
    lengths = np.array(LENGTHS)
    for start in range(0, len(lengths), 32):
        batch = lengths[start : start + 32]
        ids = np.where(np.arange(batch[-1])[None] < batch[:, None], golden["ids"][None, : batch[-1]], 0)
        states, pooled = (np.asarray(output) for output in model.predict_on_batch([ids, np.zeros_like(ids)]))
        got = [minilm.summary(states[i, :n], pooled[i]) for i, n in enumerate(batch)]
        np.testing.assert_allclose(np.stack(got), golden["summaries"][batch - 1], atol=1e-5)
