"""`compile_model` and the script from keras_bert's README."""

import keras
import numpy as np
import pytest
from helpers.small import small_model

import keras_bert_rebuild
from keras_bert_rebuild import compile_model, gen_batch_inputs, get_base_dict, get_model

pytestmark = pytest.mark.backend


def test_the_model_is_returned_and_takes_the_arguments_of_keras_bert():
    model = small_model()
    assert compile_model(model, weight_decay=0.02, decay_steps=7, warmup_steps=3, learning_rate=0.5) is model
    optimizer = model.optimizer
    assert (optimizer.decay_rate, optimizer.decay_steps, optimizer.warmup_steps) == (0.02, 7, 3)
    assert float(optimizer.learning_rate) == 0.5


def test_steps_are_counted_as_keras_bert_counts_them():
    assert keras_bert_rebuild.calc_train_steps(1024, 32, 10, 0.1) == (320, 32)
    assert keras_bert_rebuild.calc_train_steps(1025, 32, 1, 0.5) == (33, 16)


@pytest.mark.slow(torch=True)
def test_toy_sentence_pairs_train_until_the_masked_words_are_right():
    pairs = [
        [["all", "work", "and", "no", "play"], ["makes", "jack", "a", "dull", "boy"]],
        [["from", "the", "day", "forth"], ["my", "arm", "changed"]],
        [["and", "a", "voice", "echoed"], ["power", "give", "me", "more", "power"]],
    ]
    token_dict = get_base_dict()
    for pair in pairs:
        for token in pair[0] + pair[1]:
            token_dict.setdefault(token, len(token_dict))
    token_list = list(token_dict)
    np.random.seed(3)
    model = get_model(
        token_num=len(token_dict), head_num=5, transformer_num=2, embed_dim=25, feed_forward_dim=100, seq_len=20, pos_num=20,
        dropout_rate=0.05,
    )  # fmt: skip
    compile_model(model, learning_rate=3e-3, decay_steps=2000, warmup_steps=50)

    def batches():
        while True:
            yield gen_batch_inputs(pairs * 4, token_dict, token_list, seq_len=20, mask_rate=0.3, swap_sentence_rate=1.0)

    model.fit(batches(), steps_per_epoch=450, epochs=1, verbose=0)
    inputs, (labels, nsp) = gen_batch_inputs(pairs * 20, token_dict, token_list, seq_len=20, mask_rate=0.3, swap_sentence_rate=1.0)
    mlm, next_sentence = model.predict(inputs, verbose=0)
    hits = (mlm.argmax(-1) == labels[..., 0])[inputs[2] == 1]
    assert hits.mean() > 0.9
    assert (next_sentence.argmax(-1) == nsp[:, 0]).mean() > 0.9


def test_the_loss_and_the_optimizer_are_registered_with_keras():
    for name in ("PretrainingLoss", "AdamWarmup", "PretrainingModel", "BertModel", "TokenEmbedding", "gelu"):
        assert keras.saving.get_registered_object(f"keras_bert_rebuild>{name}") is not None
