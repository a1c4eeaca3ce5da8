"""Comparisons of a model with the one of transformers that has its weights."""

import numpy as np
import torch
from helpers.small import answers
from safetensors.torch import load_file

from keras_bert_rebuild import attention_maps, save_pretrained


def given_to(theirs, ids, segments):
    """The arguments for transformers, without segments for a model that takes none."""
    given = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor((ids != theirs.config.pad_token_id).astype("int64"))}
    if getattr(theirs.config, "type_vocab_size", 3 if theirs.config.model_type == "xlnet" else 0):
        given["token_type_ids"] = torch.tensor(segments)
    return given


def assert_states_and_maps_agree(theirs, ours, ids, segments):
    """The output, the input of every block and every attention map, at tokens that are not padding, to 1e-5."""
    real = ids != theirs.config.pad_token_id
    with torch.no_grad():
        expected = theirs(**given_to(theirs, ids, segments), output_hidden_states=True, output_attentions=True)
    maps = attention_maps(ours, [ids, segments] if len(ours.inputs) > 1 else ids, vectors=True)
    np.testing.assert_allclose(answers(ours, ids, segments)[0][real], expected.last_hidden_state.numpy()[real], atol=1e-5)
    pairs = real[:, None, :, None] & real[:, None, None, :]
    for layer, attention in enumerate(expected.attentions):
        got = np.where(pairs, maps.probabilities[layer], 0)
        np.testing.assert_allclose(got, np.where(pairs, attention.numpy(), 0), atol=1e-5)
        np.testing.assert_allclose(maps.inputs[layer][real], expected.hidden_states[layer].numpy()[real], atol=1e-5)


def step(theirs, ours, kind, ids, segments):
    """The gradients of the mean cross-entropy of a step, in both models, at tokens that are not padding or of whole texts."""
    real = ids != theirs.config.pad_token_id
    of_text = kind == "ForSequenceClassification"
    targets = torch.tensor(np.array([0, 2, 1]) if of_text else (ids % 3)[real])
    chosen = slice(None) if of_text else torch.tensor(real)
    torch.nn.functional.cross_entropy(theirs(**given_to(theirs, ids, segments)).logits[chosen], targets).backward()
    given = {"Input-Token": ids, "Input-Segment": segments, "Input-Masked": np.ones_like(ids)}
    inputs = [given[tensor.name] for tensor in ours.inputs]
    outputs = ours(inputs if len(inputs) > 1 else inputs[0], training=False)[chosen]
    logs = torch.log(outputs) if kind in ("ForMaskedLM", "LMHeadModel") else torch.log_softmax(outputs, -1)
    torch.nn.functional.nll_loss(logs, targets).backward()


def assert_gradients_agree(theirs, ours, folder, without=(), least=1.0):
    """Every weight has the same gradient after `step`, to 1e-5 of the larger one of its largest number and `least`.

    Args:
        theirs, ours: the models; their weights are gradients afterwards, saved in the layout of transformers.
        folder: for them.
        without: names of weights that no gradient reaches.
        least: largest numbers below this one count as this one.

    Returns:
        The largest number of every gradient by the name of its weight.
    """
    unreached = [name for name, weight in theirs.named_parameters() if weight.grad is None]
    assert len(unreached) == len(without), unreached
    for weight in theirs.parameters():
        weight.data, weight.grad = weight.new_zeros(weight.shape) if weight.grad is None else weight.grad, None
    for variable in ours.trainable_variables:
        variable.value.data, variable.value.grad = variable.value.grad, None
    theirs.save_pretrained(folder / "theirs")
    save_pretrained(ours, folder / "ours")
    gradients, found = (load_file(folder / name / "model.safetensors") for name in ("theirs", "ours"))
    assert set(found) == set(gradients)
    gradients = {name: gradient for name, gradient in gradients.items() if name not in without}
    largest = {name: gradient.abs().max().item() for name, gradient in gradients.items()}
    for name, gradient in gradients.items():
        np.testing.assert_allclose(found[name], gradient, rtol=0, atol=1e-5 * max(least, largest[name]), err_msg=name)
    return largest
