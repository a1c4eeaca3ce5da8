"""The heads in bfloat16."""

import keras
import numpy as np
import pytest
from helpers.reference import softmax
from helpers.small import LENGTH, VOCAB, small_batch, spread

from keras_bert_rebuild import BertConfig, build_model

pytestmark = pytest.mark.backend

# Name of an output, and how it is computed from its logits.
OUTPUTS = {
    "NSP": softmax,
    "SOP": softmax,
    "Classification": np.asarray,
    "Token-Classification": np.asarray,
    "Question-Answering": np.asarray,
    "Multiple-Choice": np.asarray,
    "RTD": np.asarray,
}
HEADS = ("mlm", "nsp", "sop", "classification", "token_classification", "question_answering", "multiple_choice", "rtd")


@pytest.mark.slow
def test_large_logits_retain_their_precision_in_bfloat16(rng):
    keras.config.set_dtype_policy("mixed_bfloat16")
    config = BertConfig(
        vocab_size=VOCAB, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=LENGTH, labels=("a", "b", "c"),
    )  # fmt: skip
    model = spread(build_model(config, HEADS, seq_len=LENGTH), rng)
    heads = [model.get_layer(name) for name in OUTPUTS]
    for head in heads:
        head.kernel.assign(head.kernel * 180)
    before = [head.input for head in heads]
    (ids, segments, chosen), _ = small_batch(rng)
    given = {"Input-Token": ids, "Input-Segment": segments, "Input-Masked": chosen}
    x = tuple(given[tensor.name] for tensor in model.inputs)
    probe = keras.Model(model.inputs, [*before, *(head.output for head in heads), model.get_layer("MLM").output])
    *answers, mlm = (keras.ops.convert_to_numpy(keras.ops.cast(answer, "float32")) for answer in probe(x))
    for i, (head, make) in enumerate(zip(heads, OUTPUTS.values(), strict=True)):
        features, got = answers[i].astype("float64"), answers[i + len(heads)]
        kernel, bias = (keras.ops.convert_to_numpy(v).astype("float64") for v in (head.kernel, head.bias))
        logits = features @ kernel + bias
        assert np.abs(logits).max() > 64, head.name
        np.testing.assert_allclose(got, make(logits), rtol=1e-5, atol=2e-4, err_msg=head.name)
    np.testing.assert_allclose(mlm.sum(-1), 1, atol=1e-5)
