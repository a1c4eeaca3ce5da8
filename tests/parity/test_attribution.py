"""Attributions are those of captum on the transformers model with the same weights."""

import numpy as np
import pytest
import torch
from captum.attr import LayerGradientXActivation, LayerIntegratedGradients
from helpers.small_tasks import TOKENIZER, small_task
from transformers import AutoModelForSequenceClassification

from keras_bert_rebuild import TextClassifier
from keras_bert_rebuild.interpret import attribute

TEXT, PAIR = "the cat sat on the mat .", "anna likes the red dog"
# Name of a rule here and in captum.
RULES = {
    "gauss_legendre": "gausslegendre",
    "middle": "riemann_middle",
    "left": "riemann_left",
    "right": "riemann_right",
    "trapezoid": "riemann_trapezoid",
}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A classifier here and in transformers, and the inputs of the pair."""
    task = small_task(TextClassifier, labels=("cat", "dog"))
    path = tmp_path_factory.mktemp("classifier") / "model"
    task.save(path)
    theirs = AutoModelForSequenceClassification.from_pretrained(path, attn_implementation="eager").eval()
    encoded = TOKENIZER.encode_batch([TEXT], [PAIR])
    ids, segments = (torch.tensor(np.asarray(rows[0]), dtype=torch.long)[None] for rows in (encoded.ids, encoded.segments))
    forward = lambda ids, segments: theirs(input_ids=ids, token_type_ids=segments).logits[:, 1]  # noqa: E731
    return task, theirs, forward, ids, segments


def tokens_of(found):
    return np.array([token.score for token in found.tokens])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("baseline", ["mask", "pad"])
def test_integrated_gradients_are_those_of_captum(both, rule, baseline):
    task, theirs, forward, ids, segments = both
    (found,) = attribute(task, [TEXT], [PAIR], target="dog", steps=24, rule=rule, baseline=baseline)
    absent = {"mask": TOKENIZER.mask_id, "pad": TOKENIZER.pad_id}[baseline]
    special = (ids == TOKENIZER.cls_id) | (ids == TOKENIZER.sep_id)
    method = LayerIntegratedGradients(forward, theirs.bert.embeddings.word_embeddings)
    expected, gap = method.attribute(
        ids,
        baselines=torch.where(special, ids, absent),
        additional_forward_args=(segments,),
        n_steps=24,
        method=RULES[rule],
        return_convergence_delta=True,
    )
    expected = expected.sum(-1)[0].detach().numpy()
    if rule == "trapezoid":  # captum's 24 weights sum to 23/24
        expected = expected * 24 / 23
    else:
        assert found.gap == pytest.approx(float(gap), abs=1e-4)
    np.testing.assert_allclose(tokens_of(found), expected, atol=1e-4)


def test_gradient_times_input_is_that_of_captum(both):
    task, theirs, forward, ids, segments = both
    (found,) = attribute(task, [TEXT], [PAIR], target="dog", method="gradient_x_input")
    method = LayerGradientXActivation(forward, theirs.bert.embeddings.word_embeddings)
    expected = method.attribute(ids, additional_forward_args=(segments,))
    np.testing.assert_allclose(tokens_of(found), expected.sum(-1)[0].detach().numpy(), atol=1e-4)


def test_rollout_is_the_product_of_the_attentions_of_transformers(both):
    task, theirs, _, ids, segments = both
    (found,) = attribute(task, [TEXT], [PAIR], target="dog", method="rollout")
    product = np.eye(ids.shape[1])
    for attention in theirs(input_ids=ids, token_type_ids=segments, output_attentions=True).attentions:
        product = (0.5 * attention[0].mean(0).detach().numpy() + 0.5 * np.eye(ids.shape[1])) @ product
    np.testing.assert_allclose(tokens_of(found), product[0], atol=1e-5)
