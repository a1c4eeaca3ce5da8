"""What docs/checkpoints.md says of every family is tried on a tiny model of it; formats and heads in test_every_family.py."""

import functools
import json

import keras
import numpy as np
import pytest
from helpers import tiny_families
from helpers.reference import weights_of as values_of
from helpers.small import spread
from helpers.small_tasks import PETS, VOCABULARY, trained

from keras_bert_rebuild import (
    EmbeddingStream,
    TextClassifier,
    WordPieceTokenizer,
    add_lora,
    build_model,
    compile_model,
    explain,
    from_pretrained,
    plan,
    save_pretrained,
    show_attention,
)
from keras_bert_rebuild.anatomy.parts import weights_of
from keras_bert_rebuild.explain.comparison import compare
from keras_bert_rebuild.explain.plot_model import plot_model
from keras_bert_rebuild.models.build_model import dtype_scope
from keras_bert_rebuild.training.distributed.distribution import axes_of

TEXT = "the cat sat on the mat ."


@pytest.fixture(params=tiny_families.modules(), ids=tiny_families.name_of_module)
def module(request):
    return request.param


@pytest.fixture
def tries(module):
    return functools.partial(tiny_families.tried, module)


@pytest.fixture
def config(module):
    return tiny_families.tiny_config(module)


@pytest.fixture
def tokenizer():
    return WordPieceTokenizer(VOCABULARY)


@pytest.fixture
def model(config, rng):
    return spread(build_model(config), rng)


def inputs_of(model, tokenizer, texts=(TEXT, "a dog")):
    encoded = tokenizer.encode_batch(list(texts), pad_to="longest")
    known = {"Input-Token": encoded.ids, "Input-Segment": encoded.segments, "Input-Masked": np.ones_like(encoded.ids)}
    found = [np.asarray(known[tensor.name], "int32") for tensor in model.inputs]
    return found if len(found) > 1 else found[0]


def answer(model, tokenizer):
    outputs = model(inputs_of(model, tokenizer), training=False)
    found = keras.tree.flatten(outputs)[0]
    return keras.ops.convert_to_numpy(keras.ops.cast(keras.ops.stop_gradient(found), "float32"))


def test_fine_tuning_lowers_the_loss(tries, model, tokenizer):
    with tries("fine-tune"):
        task = TextClassifier.from_encoder(model, tokenizer, labels=["cat", "dog"])
        first, last = trained(task, PETS, epochs=3, rate=3e-3)
        assert np.isfinite(first)
        assert last < first


def test_texts_have_vectors(tries, model, tokenizer):
    with tries("embed"):
        vectors = list(EmbeddingStream.from_model(model, tokenizer).stream([TEXT, "the dog"]))
        assert np.shape(vectors) == (2, 16)
        assert np.abs(vectors[0] - vectors[1]).max() > 1e-4


def test_adapters_of_low_rank_change_nothing_at_first(tries, model, tokenizer):
    with tries("LoRA"):
        before = answer(model, tokenizer)
        add_lora(model, rank=2)
        np.testing.assert_array_equal(answer(model, tokenizer), before)
        assert sum("lora" in variable.path for variable in model.trainable_variables) >= 4


def test_a_training_is_planned(tries, config):
    with tries("plan"):
        planned = plan(config, gpu="h100", batch_size=4, seq_len=16, max_predictions=2)
        assert planned.fits
        assert abs(planned.num_parameters - config.num_params(["mlm"])) < 1000  # with or without a pair head


def test_every_parameter_is_explained(tries, model, config):
    with tries("explain"):
        assert explain(model).total("params") == model.count_params() == config.num_params(())
        assert compare(config, config.replace(intermediate_size=48)).changes


def test_the_attention_page_shows_it(tries, model, tokenizer, config):
    with tries("attention page"):
        html = show_attention(model, tokenizer, TEXT).html
        data = json.loads(html.split('id="data">')[1].split("</script>")[0])
        assert data["layerCount"] == config.num_hidden_layers
        assert {"probabilities", "queries", "keys"} <= data["arrays"].keys()


def test_it_is_drawn(tries, config):
    with tries("plot"):
        for block in (False, True):
            assert plot_model(config, [], block=block).to_svg().startswith("<svg")


def test_rematerialisation_changes_no_number(tries, config, tokenizer, rng):
    with tries("remat"):
        model = spread(build_model(config, ["mlm"]), rng)
        inputs = inputs_of(model, tokenizer)
        start, ends = model.get_weights(), []
        for remat in (False, True):
            model.set_weights(start)
            compile_model(model, optimizer=keras.optimizers.SGD(0.1), remat=remat, jit_compile=False)
            model.train_on_batch(inputs, {"MLM": inputs[0]})
            ends.append(model.get_weights())
        for plain, again in zip(*ends, strict=True):
            np.testing.assert_allclose(again, plain, atol=1e-6)
        assert any(np.abs(before - after).max() > 0 for before, after in zip(start, ends[0], strict=True))


def test_it_runs_in_bfloat16(tries, config, model, tokenizer):
    with tries("bfloat16"):
        expected = answer(model, tokenizer)
        with dtype_scope("mixed_bfloat16"):
            other = build_model(config)
        other.set_weights(model.get_weights())
        assert str(other.layers[-1].compute_dtype) == "bfloat16"
        found = answer(other, tokenizer)
        assert 0 < np.abs(found - expected).max() < 0.1 * np.abs(expected).max() + 0.05


def test_its_large_weights_are_split_over_devices(tries, config):
    """`distribute` splits by this table; it runs on several devices in tests/training/distributed."""
    with tries("distribution"):
        weights = {path: shape for path, (_, shape) in weights_of(config.encoder(), ()).items()}
        for ending in ("query/kernel", "output/kernel", "intermediate/kernel", "Embedding-Token/embeddings"):
            paths = [path for path in weights if path.endswith(ending)]
            assert paths
            for path in paths:
                assert "model" in axes_of(path, weights[path], 2), path


def test_only_families_with_googles_names_are_written_for_google(module, config, rng, tmp_path):
    model = spread(build_model(config.replace(hidden_act="gelu", mlm_act="gelu", labels=()), []), rng)
    if "google" in tiny_families.formats_of(module):
        save_pretrained(model, tmp_path / "google", "google")
        assert values_of(from_pretrained(tmp_path / "google", heads=[])).keys() == values_of(model).keys()
    else:
        with pytest.raises(ValueError, match=r"names for the family|saved with format 'keras'"):
            save_pretrained(model, tmp_path / "google", "google")
