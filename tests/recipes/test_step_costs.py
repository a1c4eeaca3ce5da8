"""Counts of operations and bytes equal those computed by hand."""

import dataclasses
import math
import time

import numpy as np
import pytest

from keras_bert_rebuild import BertConfig
from keras_bert_rebuild.recipes.pretraining.optimizer_settings import make_optimizer
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.step_costs import (
    Work,
    forward_flops,
    gradient_bytes,
    largest_batch,
    matrix_ceiling,
    orthogonal_flops,
    step_memory,
    train_flops,
)


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


CONFIG = BertConfig(vocab_size=1024, num_hidden_layers=3)
SETTINGS = PretrainSettings(seq_len=128, max_predictions=8, dtype="mixed_bfloat16")
LENGTH, WIDTH, INNER, HEADS = 128, 768, 3072, 12
GIB = 2**30


@pytest.mark.parametrize(
    "settings",
    [{"optimizer": "stable_adamw"}, {"optimizer": "muon", "ema": 0.9}, {"optimizer": "muon", "objective": "electra"}],
)
def test_the_state_of_every_optimizer_is_counted_as_it_is_built(settings):
    run = PretrainSettings(**settings, model=SMALL)
    config = run.model_config(64, 0)
    model = run.learned.build(config, run)
    optimizer = make_optimizer(model, run)
    optimizer.build(model.trainable_variables)
    held = sum(4 * math.prod(variable.shape) for variable in optimizer.variables if len(variable.shape))
    assert step_memory(config, run, "cpu", 4).optimizer == held


def test_the_products_of_muon_are_counted_for_every_matrix():
    width, inner = 16, 32
    run = PretrainSettings(optimizer="muon", model=SMALL)
    square, oblong = 4 * width**3 + 2 * width**3, 4 * width**2 * inner + 2 * width**3
    assert orthogonal_flops(run.model_config(64, 0), run) == 5 * 2 * (4 * square + 2 * oblong)
    assert orthogonal_flops(run.model_config(64, 0), PretrainSettings(model=SMALL)) == 0


SMALL = {"num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}


def changed(**changes):
    return dataclasses.replace(SETTINGS, **changes)


def test_a_block_retains_what_its_backward_pass_reads():
    half = LENGTH * (3 * WIDTH + WIDTH + 2 * WIDTH + INNER)  # queries, keys, values; joined heads; two sums; before the activation
    full = 2 * 16 * LENGTH + 4 * LENGTH  # maxima and sums, 12 heads taking 16 rows; moments
    memory = step_memory(CONFIG, SETTINGS, "tpu", batch_size=5)
    assert memory.activations == 5 * 3 * (2 * half + 4 * full)
    assert memory.working == 5 * 2 * (3 * LENGTH * INNER + 3 * HEADS * LENGTH * LENGTH)


def test_weights_and_both_moments_are_float32_under_every_policy():
    for dtype in ("float32", "mixed_bfloat16"):
        memory = step_memory(CONFIG, changed(dtype=dtype), "tpu", 1)
        assert memory.parameters == 4 * CONFIG.num_params(["mlm", "nsp"])
        assert memory.optimizer == 2 * memory.parameters
    averaged = step_memory(CONFIG, changed(ema=0.999, batch_size=4, gradient_accumulation_steps=2), "tpu", 1)
    assert averaged.optimizer == 4 * averaged.parameters


def test_the_peak_is_before_the_backward_pass_or_after_it():
    small, large = (step_memory(CONFIG, SETTINGS, "tpu", n) for n in (1, 64))
    state = small.parameters + small.optimizer
    assert small.total == state + small.gradients
    assert large.total == state + large.activations + large.working + 2 * 1024 * WIDTH


def test_gradients_have_the_dtype_of_the_pass_and_the_token_table_has_two():
    weights, table = CONFIG.num_params(["mlm", "nsp"]), 1024 * WIDTH
    assert gradient_bytes(CONFIG, SETTINGS) == 2 * weights + 4 * table
    assert gradient_bytes(CONFIG, changed(dtype="float32")) == 4 * weights + 4 * table


def test_a_tpu_rounds_the_operands_of_products_and_computes_norms_and_activations_again_and_others_do_not():
    settings = changed(dtype="float32")
    tpu, gpu = (step_memory(CONFIG, settings, kind, 8).activations for kind in ("tpu", "gpu"))
    rounded = 8 * 3 * 2 * LENGTH * 4 * WIDTH
    again = 8 * 4 * LENGTH * (3 * (2 * WIDTH + INNER) + 2 * WIDTH)  # in three blocks, and the two of the embedding
    padded = 8 * 3 * 4 * 2 * 4 * LENGTH
    assert gpu - tpu == rounded + again - padded


def test_a_tpu_fills_tiles():
    settings = changed(seq_len=20)
    config = CONFIG.replace(num_attention_heads=8)
    one_block = config.replace(num_hidden_layers=1)
    tpu, gpu = (step_memory(one_block, settings, kind, 1).activations for kind in ("tpu", "gpu"))
    rows = 24  # 20 tokens take 24 rows, and as columns 128
    assert tpu == 2 * rows * (5 * WIDTH + INNER) + 2 * WIDTH * 128 + 4 * (2 * 8 * 128 + 4 * 20)
    assert gpu == 2 * 20 * (10 * WIDTH + 2 * INNER) + 4 * (2 * 8 * 20 + 4 * 20)
    tpu, gpu = (step_memory(one_block, settings, kind, 1).working for kind in ("tpu", "gpu"))
    assert tpu == 2 * (3 * rows * INNER + 3 * 8 * rows * 128)
    assert gpu == 2 * 20 * INNER


def test_scores_are_retained_only_by_processors_without_dropout_and_gpus_have_none():
    without, scores = CONFIG.replace(attention_probs_dropout_prob=0.0), 4 * HEADS * LENGTH * LENGTH
    dropped, fused, processor = (
        step_memory(*what, 4) for what in ((CONFIG, SETTINGS, "gpu"), (without, SETTINGS, "gpu"), (without, SETTINGS, "cpu"))
    )
    assert dropped.activations == fused.activations == processor.activations - 3 * 4 * scores
    assert dropped == fused
    assert processor.working == fused.working + 3 * 2 * scores
    dropped_there = step_memory(CONFIG, SETTINGS, "cpu", 4)
    assert (dropped_there.activations, dropped_there.working) == (dropped.activations, processor.working)


def test_rematerialised_blocks_retain_their_input_and_one_block_is_recomputed():
    plain, remat = (step_memory(CONFIG, changed(remat=on), "tpu", 16) for on in (False, True))
    assert remat.activations == 16 * 3 * 2 * LENGTH * WIDTH
    assert remat.working == plain.working + plain.activations // 3
    assert remat.total < plain.total


def test_the_logits_of_a_wide_vocabulary_are_more_than_a_block_and_a_chunk_of_them_is_less():
    wide = CONFIG.replace(vocab_size=1024 * 256)
    settings = changed(max_predictions=128)
    whole, chunk = (step_memory(wide, changed(max_predictions=128, loss_chunk=size), "gpu", 16).working for size in (None, 128))
    assert whole == 2 * 4 * 16 * 128 * wide.vocab_size
    assert chunk == 3 * 4 * 128 * wide.vocab_size
    assert step_memory(CONFIG, settings, "gpu", 16).working < chunk


def test_the_discriminator_begins_after_the_logits_of_the_generator():
    run = PretrainSettings(objective="electra", model=SMALL, seq_len=16, max_predictions=16)
    wide = run.model_config(100_000, 0)
    discriminator = step_memory(wide, PretrainSettings(model=SMALL, seq_len=16), "gpu", 4).activations
    memory = step_memory(wide, run, "gpu", 4)
    assert memory.working == 4 * 3 * 4 * 16 * 100_000 - discriminator
    assert memory.activations > discriminator


@pytest.mark.parametrize("kind", ["tpu", "gpu"])
def test_the_largest_batch_fits_and_one_more_does_not(kind):
    largest = largest_batch(CONFIG, SETTINGS, kind, 4 * GIB)
    assert step_memory(CONFIG, SETTINGS, kind, largest).total <= 4 * GIB < step_memory(CONFIG, SETTINGS, kind, largest + 1).total
    assert largest_batch(CONFIG, SETTINGS, kind, 1000) == 0
