"""Low-rank matrices: what they add, which weights learn, how they are loaded."""

import keras
import numpy as np
import pytest
from helpers.other_process import printed_json
from helpers.small_tasks import PETS, TOKENIZER, small_encoder, trained

from keras_bert_rebuild import TextClassifier, add_lora, from_pretrained, load_lora, load_task, save_lora
from keras_bert_rebuild.training.lora import has_lora, without_lora

QUERY = "Encoder-1-MultiHeadSelfAttention/query"


def fresh():
    return TextClassifier.from_encoder(small_encoder(), TOKENIZER, labels=("cat", "dog"))


def values(model):
    return {v.path: np.array(keras.ops.convert_to_numpy(v.value)) for v in model.weights}


def spread_b(model, rng):
    for variable in model.weights:
        if variable.path.endswith("lora_kernel_b"):
            variable.assign(rng.normal(size=variable.shape).astype("float32"))


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_the_product_is_added_to_the_kernels_and_nothing_else_changes(rng, dtype):
    task = TextClassifier.from_encoder(small_encoder(), TOKENIZER, labels=("cat", "dog"), dtype=dtype)
    before, answers = values(task.model), task.predict_examples(PETS)
    add_lora(task.model, rank=3, alpha=6)
    np.testing.assert_allclose([a.probability for a in task.predict_examples(PETS)], [a.probability for a in answers], atol=1e-6)
    spread_b(task.model, rng)
    now, merged = values(task.model), values(without_lora(task.model))
    assert merged.keys() == before.keys()
    for path, value in before.items():  # in float32 also where the model computes in bfloat16
        added = 0
        if "/query/kernel" in path or "/value/kernel" in path:
            added = 2 * now[path.replace("kernel", "lora_kernel_a")] @ now[path.replace("kernel", "lora_kernel_b")]
        np.testing.assert_allclose(merged[path], value + added, atol=1e-5, err_msg=path)


def test_only_the_matrices_and_the_head_learn():
    task = fresh()
    add_lora(task.model, rank=2)
    paths = {v.path for v in task.model.trainable_variables}
    assert {path for path in paths if "lora_kernel" not in path} == {
        "NSP-Dense/kernel", "NSP-Dense/bias", "Classification/kernel", "Classification/bias"
    }  # fmt: skip
    assert len(paths) == 4 + 2 * 2 * 2
    before = values(task.model)
    first, last = trained(task, PETS, epochs=8, rate=1e-2)
    assert last < first
    assert {path for path, value in values(task.model).items() if not np.array_equal(value, before[path])} == paths


# Low-rank matrices in a process that did not train them: the outputs, and the loss when training continues.
AGAIN = """
import json, sys
import keras
from helpers.small_tasks import PETS, trained
from keras_bert_rebuild import load_lora, load_task
keras.utils.set_random_seed(7)
task = load_task(f"{sys.argv[1]}/base")
load_lora(task.model, f"{sys.argv[1]}/lora.safetensors")
probability = task.predict_examples(PETS)[0].probability
print(json.dumps([float(value) for value in (probability, *trained(task, PETS, epochs=6, rate=3e-3))]))
"""


@pytest.mark.slow(torch=True)
def test_matrices_are_loaded_in_a_new_process_and_continue_training(tmp_path):
    base = fresh()
    base.save(tmp_path / "base")
    task = load_task(tmp_path / "base")
    add_lora(task.model, rank=2)
    first, last = trained(task, PETS, epochs=6, rate=3e-3)
    save_lora(task.model, tmp_path / "lora.safetensors")
    assert (tmp_path / "lora.safetensors").stat().st_size < (tmp_path / "base" / "model.safetensors").stat().st_size / 3
    (tmp_path / "again.py").write_text(AGAIN)
    probability, again_first, again_last = printed_json(tmp_path / "again.py", tmp_path)
    assert probability == pytest.approx(task.predict_examples(PETS)[0].probability, abs=1e-6)
    assert again_last < again_first < first
    assert again_last < last


def test_a_task_is_saved_with_the_matrices_added_to_its_kernels(tmp_path, rng):
    task = fresh()
    add_lora(task.model, rank=2, patterns=["(query|key|value|output)/kernel$", "intermediate/kernel$"])
    spread_b(task.model, rng)
    task.save(tmp_path / "task")
    again = load_task(tmp_path / "task")
    assert not has_lora(again.model)
    for one, other in zip(task.predict_examples(PETS), again.predict_examples(PETS), strict=True):
        assert one.probability == pytest.approx(other.probability, abs=1e-5)


def test_the_same_numbers_are_drawn_on_every_backend():
    task = fresh()
    add_lora(task.model, rank=2)
    np.testing.assert_allclose(values(task.model)[f"{QUERY}/lora_kernel_a"][0], [0.01569496, -0.03926374], atol=1e-7)


def test_matrices_with_another_alpha_are_refused(tmp_path):
    model, other = fresh().model, fresh().model
    add_lora(model, rank=2, alpha=6)
    save_lora(model, tmp_path / "lora.safetensors")
    add_lora(other, rank=2)
    before = values(other)
    with pytest.raises(ValueError, match="must have the alpha of the model's matrices, 2; got 6"):
        load_lora(other, tmp_path / "lora.safetensors")
    assert all(np.array_equal(value, before[path]) for path, value in values(other).items())


def test_matrices_of_another_model_leave_a_model_unchanged(tmp_path):
    model, other = fresh().model, TextClassifier.from_encoder(small_encoder(), TOKENIZER, labels=("cat", "dog", "bird")).model
    add_lora(other, rank=2)
    save_lora(other, tmp_path / "lora.safetensors")
    learns = [v.path for v in model.trainable_variables]
    with pytest.raises(ValueError, match="must hold the matrices of this model; 2 differ, such as Classification/bias"):
        load_lora(model, tmp_path / "lora.safetensors")
    assert not has_lora(model)
    assert [v.path for v in model.trainable_variables] == learns


@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize` method")
def test_matrices_are_not_added_to_integer_kernels():
    model = fresh().model
    add_lora(model, rank=2)
    model.quantize("int8")
    with pytest.raises(ValueError, match="must not be quantised, because"):
        without_lora(model)


@pytest.mark.slow(torch=True)
def test_bad_input_is_one_sentence(tmp_path):
    model = fresh().model
    for arguments, message in (
        ({"rank": 0}, "whole number of at least 1; got 0"),
        ({"rank": 2, "alpha": -1}, "alpha must be above 0"),
        ({"rank": 2, "patterns": ["nothing"]}, f"such as '{QUERY}/kernel'; 'nothing' matches none"),
        ({"rank": 2, "patterns": "query"}, "list of regular expressions"),
    ):
        with pytest.raises(ValueError, match=message):
            add_lora(model, **arguments)
    with pytest.raises(ValueError, match="must have dense layers, whose kernels are adapted; bare has none"):
        add_lora(keras.Sequential([keras.Input((3,)), keras.layers.LayerNormalization()], name="bare"), rank=2)
    with pytest.raises(ValueError, match="must have low-rank matrices; call add_lora first"):
        save_lora(model, tmp_path / "lora.safetensors")
    with pytest.raises(ValueError, match=r"lora\.safetensors; it does not exist"):
        load_lora(model, tmp_path / "lora.safetensors")
    add_lora(model, rank=2)
    with pytest.raises(ValueError, match="once"):
        add_lora(model, rank=2)
    save_lora(model, tmp_path / "lora.safetensors")
    other = fresh().model
    add_lora(other, rank=3)
    with pytest.raises(ValueError, match="must hold the matrices of this model; 8 differ"):
        load_lora(other, tmp_path / "lora.safetensors")
    (tmp_path / "damaged.safetensors").write_bytes((tmp_path / "lora.safetensors").read_bytes()[:100])
    with pytest.raises(ValueError, match="is damaged"):
        load_lora(fresh().model, tmp_path / "damaged.safetensors")
    fresh().save(tmp_path / "task")
    with pytest.raises(ValueError, match="a safetensors file with other content"):
        load_lora(fresh().model, tmp_path / "task" / "model.safetensors")
    assert from_pretrained(tmp_path / "task").config.labels == ("cat", "dog")
