"""Importances are derivatives with respect to factors of the heads, and order heads as switching off each of them does."""

import keras
import numpy as np
import pytest
from helpers.small import spread
from helpers.small_tasks import CONFIG, PETS, TOKENIZER, small_encoder, small_task

from keras_bert_rebuild import (
    LateInteractionEmbedder,
    MultipleChoice,
    QuestionAnswerer,
    Reranker,
    SentenceEmbedder,
    SparseEmbedder,
    TextClassifier,
    TokenClassifier,
    build_model,
)
from keras_bert_rebuild.data.labelled.labelled_examples import (
    ChoiceQuestion,
    ClassifiedText,
    Question,
    RankedText,
    ScoredPair,
    TaggedWords,
    TextGroup,
)
from keras_bert_rebuild.interpret import Head, HeadImportance, head_importance, intervene, prune_heads
from keras_bert_rebuild.tasks.objectives import VectorTraining

WORDS = ["the", "cat", "sat", "on", "a", "red", "mat"]


def batches_of(task, examples):
    """The inputs and targets of every example, which is one row or group alone in its batch."""
    return [task.batches(task.encode([example]), 1)[0][:2] for example in examples]


def losses_of(task, batches):
    """The loss of every example."""
    return [float(keras.ops.stop_gradient(task.loss()(y, task.training_model(x, training=False)))) for x, y in batches]


def scaled(task, block, head, factor):
    """The task with the rows of a head in the kernel of the output multiplied by a factor; returns what undoes it."""
    kernel = task.model.get_layer(f"Encoder-{block + 1}-MultiHeadSelfAttention").output_dense.kernel
    before = keras.ops.convert_to_numpy(kernel).copy()
    after = before.copy()
    after[8 * head : 8 * head + 8] *= factor
    kernel.assign(after)
    return lambda: kernel.assign(before)


def numerical(task, examples, step=0.02):
    """|d loss / d factor| of every head and example, by central differences: `(examples, blocks, heads)`."""
    found, batches = np.zeros((len(examples), 2, 2)), batches_of(task, examples)
    for block, head in np.ndindex(2, 2):
        losses = []
        for factor in (1 + step, 1 - step):
            undo = scaled(task, block, head, factor)
            losses.append(losses_of(task, batches))
            undo()
        found[:, block, head] = np.abs(np.subtract(*losses)) / (2 * step)
    return found


TASKS = {
    "texts": (TextClassifier, {"labels": ["cat", "dog"]}, PETS),
    "tokens": (
        TokenClassifier,
        {"labels": ["O", "B-X"]},
        [TaggedWords(WORDS, ["O", "B-X", "O", "O", "O", "O", "B-X"]), TaggedWords(WORDS[:2], ["O", "B-X"])],
    ),
    "spans": (
        QuestionAnswerer,
        {},
        [
            Question("0", "who sat ?", "the cat sat on a mat .", ((4, "cat"),)),
            Question("1", "where ?", "anna likes paris .", ((11, "paris"),)),
        ],
    ),
    "choices": (
        MultipleChoice,
        {},
        [ChoiceQuestion("who sat", ("the cat", "a red mat", "ben"), 0), ChoiceQuestion("where", ("paris", "red", "anna"), 2)],
    ),
    "scores": (Reranker, {}, [RankedText("who sat", "the cat sat .", 1.0), RankedText("where", "red", 0.0)]),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", TASKS)
def test_importances_are_means_of_derivatives_by_a_factor_of_every_head(kind):
    cls, settings, examples = TASKS[kind]
    task = small_task(cls, **settings)
    importance = head_importance(task, examples, batch_size=4)
    derivatives = numerical(task, examples)
    np.testing.assert_allclose(importance.values, derivatives.mean(0), rtol=0.02, atol=2e-3)
    errors = derivatives.std(0, ddof=1) / len(examples) ** 0.5
    np.testing.assert_allclose(importance.standard_errors, errors, rtol=0.03, atol=2e-3)
    assert importance.examples == len(examples)


@pytest.mark.slow
def test_importances_order_heads_as_switching_each_of_them_off_does():
    config = CONFIG.replace(num_hidden_layers=3, num_attention_heads=4, labels=("cat", "dog"))
    model = spread(build_model(config, ["classification"]), np.random.default_rng(1), 0.15)
    task = TextClassifier(model, TOKENIZER)
    importance = head_importance(task, PETS)
    lost = np.zeros((3, 4))
    batches = batches_of(task, PETS)
    base = losses_of(task, batches)
    for block, head in np.ndindex(3, 4):
        with intervene(task, [Head(block, head)]):
            lost[block, head] = np.abs(np.subtract(losses_of(task, batches), base)).mean()
    ranks = [np.argsort(np.argsort(values.ravel())) for values in (importance.values, lost)]
    assert np.corrcoef(*ranks)[0, 1] > 0.9
    assert importance.order()[0] == divmod(int(importance.values.argmin()), 4)
    per_block = head_importance(task, PETS, batch_size=2, per_block=True)
    np.testing.assert_allclose(np.linalg.norm(per_block.values, axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(
        per_block.values[1] / per_block.values[1, 0], importance.values[1] / importance.values[1, 0], rtol=1e-4
    )


def test_nothing_of_the_model_is_changed_and_no_weight_has_a_gradient():
    task = small_task(TextClassifier, labels=["cat", "dog"])
    before, steps = task([pet.text for pet in PETS]), []
    head_importance(task, PETS, batch_size=4, progress=lambda done, of: steps.append((done, of)))
    assert task([pet.text for pet in PETS]) == before
    assert steps == [(1, 2), (2, 2)]
    assert all(getattr(variable.value, "grad", None) is None for variable in task.model.weights)


def test_a_shared_block_has_an_importance_for_every_run_and_is_pruned_by_their_sum():
    config = CONFIG.replace(family="albert", num_hidden_layers=3, num_hidden_groups=1, num_attention_heads=4, labels=("cat", "dog"))
    task = TextClassifier(spread(build_model(config, ["classification"]), np.random.default_rng(1)), TOKENIZER)
    importance = head_importance(task, PETS)
    assert importance.values.shape == (3, 4)
    assert importance.blocks == (0, 0, 0)
    least = np.argsort(importance.values.sum(0))
    assert importance.least(0.5) == {0: sorted(least[:2].tolist())}
    pruned = TextClassifier(prune_heads(task.model, importance.least(0.5)), TOKENIZER)
    again = head_importance(pruned, PETS)
    assert again.present[0] == tuple(sorted(least[2:].tolist()))
    assert not again.values[:, least[:2]].any()
    assert again.values[:, least[2:]].all()


def test_the_least_important_heads_leave_every_block_its_best():
    values = np.array([[0.1, 0.2, 0.3], [1.0, 2.0, 3.0]])
    importance = HeadImportance(values, values, 1, ((0, 1, 2), (0, 1, 2)), (0, 1), False)
    assert importance.least(0.5) == {0: [0, 1], 1: [0]}
    assert importance.least(1.0) == {0: [0, 1], 1: [0, 1]}
    assert importance.least(0.0) == {}
    with pytest.raises(ValueError, match=r"share must be in \[0, 1\]; got 1.5"):
        importance.least(1.5)


PAIRS = [
    ScoredPair("the cat sat", "a cat sat on a mat", 0.9),
    ScoredPair("red", "anna likes paris", 0.1),
    ScoredPair("who ?", "ben", 0.4),
]
GROUPS = [
    TextGroup("who sat ?", "the cat sat on a mat .", ("anna likes paris .", "ben")),
    TextGroup("where ?", "anna likes paris .", ("the cat sat on a mat .",)),
    TextGroup("red or blue", "the red mat", ()),
]
EMBEDDERS = {
    "cosines": (SentenceEmbedder, {}, PAIRS),
    "order of pairs": (SentenceEmbedder, {"objective": "cosent"}, PAIRS),
    "pairs with negatives": (SentenceEmbedder, {"objective": "in_batch_negatives"}, PAIRS),
    "groups": (SentenceEmbedder, {"example_kind": "retrieval", "training": VectorTraining(chunk=2)}, GROUPS),
    "labels": (SentenceEmbedder, {"example_kind": "classification", "objective": "contrastive"}, PETS[:4]),
    "late interaction": (LateInteractionEmbedder, {"negatives": 1}, GROUPS),
    "sparse": (SparseEmbedder, {"negatives": 1}, GROUPS),
}


def embedder_of(kind):
    cls, settings, examples = EMBEDDERS[kind]
    if cls is not SparseEmbedder:
        return small_task(cls, **settings), examples
    return cls(small_encoder(["mlm"]), TOKENIZER, **settings), examples


def of_one_example(task, examples, changed):
    """The number of examples times the loss of a batch of them all, where the texts of one example come from a changed model.

    Args:
        changed: a function of task, block, head and factor that changes the model and returns what undoes it.

    Returns:
        A function of block, head and factor to that number for every example.
    """
    inputs, targets = task.batches(task.encode(examples), len(examples))[0][:2]
    outputs = lambda: keras.ops.convert_to_numpy(task.training_model(inputs, training=False))  # noqa: E731
    loss = lambda found: len(examples) * float(task.loss()(targets, keras.ops.convert_to_tensor(found)))  # noqa: E731
    base = outputs()
    rows = len(base) // len(examples)

    def losses(block, head, factor):
        undo = changed(task, block, head, factor)
        other = outputs()
        undo()
        mixed = np.repeat(base[None], len(examples), 0)
        for i in range(len(examples)):
            mixed[i, rows * i : rows * (i + 1)] = other[rows * i : rows * (i + 1)]
        return np.array([loss(found) for found in mixed])

    return losses


@pytest.mark.slow
@pytest.mark.parametrize("kind", EMBEDDERS)
def test_importances_for_an_embedder_are_derivatives_of_the_loss_of_the_batch_by_factors_in_the_texts_of_one_example(kind):
    task, examples = embedder_of(kind)
    losses = of_one_example(task, examples, scaled)
    step = 0.001 if kind == "sparse" else 0.02  # a maximum over tokens has kinks
    derivatives = np.zeros((len(examples), 2, 2))
    for block, head in np.ndindex(2, 2):
        up, down = (losses(block, head, factor) for factor in (1 + step, 1 - step))
        derivatives[:, block, head] = np.abs(up - down) / (2 * step)
    importance = head_importance(task, examples, batch_size=len(examples))
    assert derivatives.mean(0).min() > 1e-3
    np.testing.assert_allclose(importance.values, derivatives.mean(0), rtol=0.03, atol=2e-3)
    assert importance.examples == len(examples)


@pytest.mark.slow
def test_importances_for_an_embedder_order_heads_as_switching_each_of_them_off_does():
    config = CONFIG.replace(num_hidden_layers=3, num_attention_heads=4)
    model = spread(build_model(config, []), np.random.default_rng(1), 0.1)
    task = SentenceEmbedder(model, TOKENIZER)
    importance = head_importance(task, PAIRS)
    lost = np.zeros((3, 4))
    batches = batches_of(task, PAIRS)
    base = losses_of(task, batches)
    for block, head in np.ndindex(3, 4):
        with intervene(task, [Head(block, head)]):
            lost[block, head] = np.abs(np.subtract(losses_of(task, batches), base)).mean()
    ranks = [np.argsort(np.argsort(values.ravel())) for values in (importance.values, lost)]
    assert np.corrcoef(*ranks)[0, 1] > 0.8


def test_what_has_no_labels_or_is_no_task_is_refused():
    with pytest.raises(ValueError, match=r"expected a task, as load_task returns it; got BertModel\."):
        head_importance(small_encoder(()), PAIRS)
    with pytest.raises(ValueError, match="every pair must have a score"):
        head_importance(SentenceEmbedder(small_encoder(()), TOKENIZER), [ScoredPair("red", "blue")])
    with pytest.raises(ValueError, match="must have a label"):
        head_importance(small_task(TextClassifier, labels=["cat", "dog"]), [ClassifiedText("red")])
