"""What `AdamW` and `Lamb` share: rules by path, state, saving."""

import keras
import numpy as np
import pytest
from helpers.optimizer_reference import linear_data, linear_model, value
from helpers.small import compiled, small_model

from keras_bert_rebuild import AdamW, BertConfig, WarmupLinearDecay, build_model
from keras_bert_rebuild.training.optimizers.adamw_and_lamb import Lamb
from keras_bert_rebuild.training.optimizers.by_path import ByPathOptimizer

pytestmark = pytest.mark.backend

BOTH = pytest.mark.parametrize("optimizer_class", [AdamW, Lamb])
BLOCK = (
    "MultiHeadSelfAttention/query",
    "MultiHeadSelfAttention/key",
    "MultiHeadSelfAttention/value",
    "MultiHeadSelfAttention/output",
    "FeedForward/intermediate",
    "FeedForward/output",
)
NORMS = ("MultiHeadSelfAttention-Norm", "FeedForward-Norm")


def decaying(model):
    """Paths that decay and paths that do not."""
    optimizer = AdamW()
    paths = {v.path: optimizer.decays(v) for v in model.trainable_variables}
    return {path for path, decays in paths.items() if decays}, {path for path, decays in paths.items() if not decays}


def of_blocks(blocks):
    yes = {f"Encoder-{block}-{dense}/kernel" for block in blocks for dense in BLOCK}
    no = {f"Encoder-{block}-{dense}/bias" for block in blocks for dense in BLOCK}
    return yes, no | {f"Encoder-{block}-{norm}/{part}" for block in blocks for norm in NORMS for part in ("gamma", "beta")}


def test_the_variables_with_decay_in_bert_are_this_list():
    yes, no = of_blocks([1, 2])
    yes |= {f"Embedding-{table}/embeddings" for table in ("Token", "Segment", "Position")}
    yes |= {"MLM-Dense/kernel", "NSP-Dense/kernel", "NSP/kernel"}
    no |= {"Embedding-Norm/gamma", "Embedding-Norm/beta", "MLM-Norm/gamma", "MLM-Norm/beta"}
    no |= {"MLM-Dense/bias", "MLM-Sim/bias", "NSP-Dense/bias", "NSP/bias"}
    assert decaying(small_model()) == (yes, no)


SIZES = {"vocab_size": 30, "hidden_size": 4, "num_attention_heads": 1, "intermediate_size": 4, "max_position_embeddings": 8}


def test_the_variables_with_decay_in_albert_are_this_list():
    config = BertConfig(family="albert", num_hidden_layers=2, num_hidden_groups=1, embedding_size=2, **SIZES)
    yes, no = of_blocks([1])
    yes |= {f"Embedding-{table}/embeddings" for table in ("Token", "Segment", "Position")}
    yes |= {"Embedding-Mapping/kernel", "MLM-Dense/kernel", "NSP-Dense/kernel", "SOP/kernel"}
    no |= {"Embedding-Norm/gamma", "Embedding-Norm/beta", "MLM-Norm/gamma", "MLM-Norm/beta"}
    no |= {"Embedding-Mapping/bias", "MLM-Dense/bias", "MLM-Sim/bias", "NSP-Dense/bias", "SOP/bias"}
    assert decaying(build_model(config, ["mlm", "sop"])) == (yes, no)


def test_the_variables_with_decay_in_roberta_are_this_list():
    config = BertConfig(family="roberta", num_hidden_layers=1, position_offset=2, type_vocab_size=1, labels=("a", "b"), **SIZES)
    yes, no = of_blocks([1])
    yes |= {f"Embedding-{table}/embeddings" for table in ("Token", "Segment", "Position")}
    yes |= {"MLM-Dense/kernel", "Token-Classification/kernel", "Question-Answering/kernel"}
    no |= {"Embedding-Norm/gamma", "Embedding-Norm/beta", "MLM-Norm/gamma", "MLM-Norm/beta"}
    no |= {"MLM-Dense/bias", "MLM-Sim/bias", "Token-Classification/bias", "Question-Answering/bias"}
    assert decaying(build_model(config, ["mlm", "token_classification", "question_answering"])) == (yes, no)


@BOTH
def test_rows_looked_up_more_than_once_count_as_one_in_the_global_norm(rng, optimizer_class):
    # On TensorFlow the gradient of a lookup lists such a row several times.
    ids, labels = np.array([[0, 0, 0, 1]]), rng.normal(size=(1, 4, 3)).astype("float32")
    table = rng.normal(size=(2, 3)).astype("float32")
    model = keras.Sequential([keras.Input((4,), dtype="int32"), keras.layers.Embedding(2, 3)])
    model.layers[0].set_weights([table])
    optimizer = optimizer_class(0.1, global_clipnorm=0.5, beta_1=0.0)
    model.compile(optimizer=optimizer, loss=lambda y, p: keras.ops.sum(y * p, axis=(1, 2)))
    model.fit(ids, labels, verbose=0)
    seen = value(optimizer._momentums[0])
    gradient = np.stack([labels[0, :3].sum(0), labels[0, 3]])
    np.testing.assert_allclose(seen, gradient * 0.5 / np.linalg.norm(gradient), atol=1e-6)


@BOTH
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_variables_of_half_precision_take_steps_computed_in_float32(optimizer_class, dtype):
    kernel = keras.Variable(np.ones(4), dtype=dtype, name="kernel")
    optimizer = optimizer_class(0.25, weight_decay=0.0, ema_momentum=0.5)
    optimizer.build([kernel])
    for _ in range(2):
        # Its square is 0 in float16.
        optimizer.apply([keras.ops.cast(np.full(4, 1e-4), dtype)])
    assert {keras.backend.standardize_dtype(v.dtype) for v in optimizer.variables[2:]} == {"float32"}
    expected = [0.75, 0.5] if optimizer_class is AdamW else [0.75, 0.5625]
    # 1e-4 is 100 times epsilon: the step is 1 / 1.01 of the rate.
    np.testing.assert_allclose(value(kernel).astype("float32"), expected[1], atol=0.01)
    np.testing.assert_allclose(value(optimizer.average_of(kernel)), (1 / 2 + expected[0] / 2 + expected[1]) / 2, atol=0.01)


def everything(optimizer_class):
    """An optimizer with every kind of state."""
    return optimizer_class(
        WarmupLinearDecay(0.01, 2, 20),
        rate_multipliers={"kernel": 0.5},
        ema_momentum=0.9,
        global_clipnorm=1.0,
        gradient_accumulation_steps=2,
    )


def check_training_continues_equally(model, copy, x, y):
    for trained in (model, copy):
        trained.fit(x, y, batch_size=1, shuffle=False, verbose=0)
    check_same_state(model, copy)


def check_same_state(model, copy):
    for ours, theirs in zip(model.weights + model.optimizer.variables, copy.weights + copy.optimizer.variables, strict=True):
        assert ours.path == theirs.path
        np.testing.assert_array_equal(value(ours), value(theirs))


@pytest.mark.parametrize(("optimizer_class", "file"), [(AdamW, "model.keras"), (Lamb, "model.h5")])
@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file:UserWarning")
def test_a_saved_model_continues_training_as_if_it_had_not_been_saved(rng, tmp_path, optimizer_class, file):
    weights, x, y = linear_data(rng, 5)
    model = linear_model(weights, everything(optimizer_class))
    model.fit(x, y, batch_size=1, verbose=0)  # in the middle of an accumulation
    model.save(tmp_path / file)
    copy = keras.saving.load_model(tmp_path / file)
    assert type(copy.optimizer) is optimizer_class
    assert copy.optimizer.get_config() == model.optimizer.get_config()
    if file == "model.h5":
        copy.optimizer.build(copy.trainable_variables)  # as `BertModel.fit` does
    check_training_continues_equally(model, copy, x, y)


@pytest.mark.slow(torch=True)
def test_a_saved_bert_is_loaded_with_the_state_of_its_optimizer(rng, tmp_path):
    model = compiled(small_model(transformer_num=1), optimizer=everything(AdamW))
    model.optimizer.build(model.trainable_variables)
    for variable in model.optimizer.variables[1:]:  # all except the number of the step
        variable.assign(rng.normal(size=variable.shape).astype("float32"))
    model.save(tmp_path / "model.keras")
    check_same_state(model, keras.saving.load_model(tmp_path / "model.keras"))


@BOTH
def test_paths_of_the_state_are_the_same_in_every_build(optimizer_class):
    paths = []
    for _ in range(2):
        optimizer = optimizer_class(ema_momentum=0.9)
        optimizer.build(small_model().trainable_variables)
        paths.append([v.path for v in optimizer.variables])
        keras.backend.clear_session()
    name = optimizer_class.__name__
    assert paths[0] == paths[1]
    assert len(set(paths[0])) == len(paths[0])
    assert {f"{name}/NSP_kernel_momentum", f"{name}/NSP_kernel_velocity", f"{name}/NSP_kernel_average_offset"} <= set(paths[0])


@BOTH
def test_both_are_registered_and_found_by_a_config(optimizer_class):
    optimizer = optimizer_class(
        0.5, 0.1, 0.8, 0.9, 1e-5, no_decay=["bias"], rate_multipliers={"b$": 0.5}, bias_correction=False, clipnorm=1.0
    )
    for copy in (
        keras.optimizers.deserialize(keras.optimizers.serialize(optimizer)),
        keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(optimizer)),
    ):
        assert type(copy) is optimizer_class
        assert copy.get_config() == optimizer.get_config()


def test_multipliers_without_a_matching_path_are_an_error():
    optimizer = AdamW(rate_multipliers={"Enocder-1-": 0.5})
    with pytest.raises(ValueError, match=r"matches the path of a trained variable, such as 'kernel'; got 'Enocder-1-'"):
        optimizer.build([keras.Variable(np.ones(2), name="kernel")])


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"weight_decay": -0.1}, "weight_decay must not be negative"),
        ({"epsilon": -1.0}, "epsilon must not be negative"),
        ({"beta_1": 1.0}, r"beta_1 must be in \[0, 1\)"),
        ({"ema_momentum": 1.0}, r"ema_momentum must be in \[0, 1\)"),
        ({"rate_multipliers": {"kernel": -1.0}}, "the rate multiplier of 'kernel' must not be negative; got -1"),
        ({"no_decay": "bias"}, "no_decay must be a list of regular expressions"),
        ({"no_decay": ["(bias"]}, r"'\(bias' is not one"),
        ({"rate_multipliers": {"[": 1.0}}, "rate_multipliers must hold regular expressions"),
        ({"use_ema": True}, "averaged weights are set by ema_momentum only; got use_ema"),
    ],
)
def test_settings_that_make_no_sense_are_errors(arguments, error):
    with pytest.raises(ValueError, match=error):
        AdamW(**arguments)


def test_exclude_from_weight_decay_is_refused_and_the_base_class_is_abstract():
    with pytest.raises(ValueError, match="no_decay, regular expressions"):
        AdamW().exclude_from_weight_decay(var_names=["bias"])
    optimizer = ByPathOptimizer()
    kernel = keras.Variable(np.ones(2), name="kernel")
    optimizer.build([kernel])
    with pytest.raises(NotImplementedError, match="must define adapted"):
        optimizer.apply([np.ones(2, "float32")])


def test_under_mixed_bfloat16_weights_and_state_are_float32(rng):
    keras.config.set_dtype_policy("mixed_bfloat16")
    weights, x, y = linear_data(rng, 4)
    model = linear_model(weights, AdamW(0.01, ema_momentum=0.9))
    losses = model.fit(x, y, epochs=5, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    assert {v.dtype for v in model.optimizer.variables if v.path != "AdamW/iteration"} == {"float32"}
