"""Every family in the runtimes that docs/checkpoints.md claims for it."""

import keras
import numpy as np
import pytest
from foreign import run_foreign
from helpers import small_tokenizers, tiny_families
from helpers.small import spread
from helpers.small_tasks import VOCABULARY

import keras_bert_rebuild
from keras_bert_rebuild import WordPieceTokenizer, build_model

TEXTS = ["the cat sat on the mat .", "a dog"]


@pytest.fixture(params=tiny_families.modules(), ids=tiny_families.name_of_module)
def module(request):
    return request.param


@pytest.fixture
def tokenizer():
    return WordPieceTokenizer(VOCABULARY)


@pytest.fixture
def model(module, rng):
    return spread(build_model(tiny_families.tiny_config(module)), rng)


def own_answers(model, tokenizer):
    """Vectors of the tokens of the texts, one after another, without padding."""
    encoded = tokenizer.encode_batch(TEXTS, pad_to="longest")
    columns = {"Input-Token": encoded.ids, "Input-Segment": encoded.segments}
    inputs = [columns[tensor.name] for tensor in model.inputs]
    outputs = keras.ops.convert_to_numpy(keras.ops.stop_gradient(model(inputs if len(inputs) > 1 else inputs[0])))
    return outputs[encoded.mask == 1], encoded


@pytest.mark.parametrize(
    ("capability", "format", "package"), [("ONNX", "onnx", "onnxruntime"), ("OpenVINO", "openvino", "openvino")]
)
def test_another_runtime_answers_the_same(module, model, tokenizer, capability, format, package, tmp_path):
    for name in ("onnx", package):
        pytest.importorskip(name, reason="tox -e export has it")
    folder = tmp_path / "folder"
    with tiny_families.tried(module, capability):
        keras_bert_rebuild.export(model, tokenizer, folder, format)
    if not folder.exists():
        return
    got = run_foreign("tokenizers", folder, TEXTS, tmp_path)
    expected, encoded = own_answers(model, tokenizer)
    np.testing.assert_array_equal(got["input_ids"], encoded.ids)
    np.testing.assert_allclose(got["last_hidden_state"][encoded.mask == 1], expected, atol=1e-5)


@pytest.mark.slow(torch=True)
@pytest.mark.backend("tensorflow")
def test_a_saved_model_answers_the_same_or_is_refused_with_its_tokenizer(module, model, tokenizer, tmp_path):
    if (tiny_families.name_of_module(module), "SavedModel") in tiny_families.MISSING:
        tokenizer, _ = small_tokenizers.with_encoder(small_tokenizers.changed_bpe, tmp_path, ())
        with pytest.raises(ValueError, match="takes text through a WordPieceTokenizer"):
            keras_bert_rebuild.export(model, tokenizer, tmp_path / "served")
        return
    keras_bert_rebuild.export(model, tokenizer, tmp_path / "served")
    got = run_foreign("tensorflow", tmp_path / "served", TEXTS, tmp_path)
    expected, encoded = own_answers(model, tokenizer)
    np.testing.assert_allclose(got["last_hidden_state"][encoded.mask == 1], expected, atol=1e-5)
