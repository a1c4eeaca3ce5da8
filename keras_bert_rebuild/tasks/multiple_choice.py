"""Multiple choice: which of several endings or answers fits a prompt."""

import itertools
from collections import namedtuple
from collections.abc import Iterable, Sequence
from typing import Any

import keras
import numpy as np

from keras_bert_rebuild.data.labelled.labelled_examples import ChoiceQuestion
from keras_bert_rebuild.data.labelled.length_buckets import BucketedBatches
from keras_bert_rebuild.tasks.task import Progress, Task
from keras_bert_rebuild.tasks.text_rows import Encoded, example_list, example_name, softmax, weighted_mean
from keras_bert_rebuild.training.task_losses import ChoiceLoss

# The index and text of the choice, and the probability of each.
Chosen = namedtuple("Chosen", ["index", "text", "probabilities"])


class MultipleChoice(Task):
    """Choose the text that fits a prompt: the prompt and each choice form a pair, and the logits of all pairs are compared.

    A prompt that is too long for `max_len` is split into windows. The answer uses the mean of their logits, weighted by their
    numbers of tokens; in training every window is a separate question.

    Args:
        model: a `BertModel` with the head "multiple_choice".
        tokenizer: as for `task_tokenizer`.
        max_len, stride: see `Task`.

    Reference: Devlin et al., 2019, section 4.4 (https://arxiv.org/abs/1810.04805).
    """

    kind = "multiple_choice"
    heads = ("multiple_choice",)
    examples = "choices"
    predicts_encoded_rows = True
    metrics = ("accuracy",)

    def __call__(self, prompts: Sequence[str], choices: Sequence[Sequence[str]], batch_size: int = 32) -> list[Chosen]:
        """Choose.

        Args:
            prompts: a list of texts.
            choices: a list of texts for each prompt.
            batch_size: rows per batch.

        Returns:
            A `Chosen` for each prompt.

        Raises:
            ValueError: not a list, an empty list, or a different number of prompts and lists of choices.
        """
        prompts, choices = example_list(prompts, "prompts"), example_list(choices, "choices")
        if len(choices) != len(prompts):
            raise ValueError(f"choices must have a list for each of the {len(prompts)} prompts; got {len(choices)}.")
        questions = [
            ChoiceQuestion(prompt, tuple(example_list(texts, "choices"))) for prompt, texts in zip(prompts, choices, strict=True)
        ]
        return self.predict_examples(questions, batch_size)

    def encode(self, examples: Iterable[Any]) -> Encoded:
        examples = example_list(examples)
        windows = self._windows(examples)
        if any(example.label is None for example in examples):
            return Encoded(windows)
        for i, example in enumerate(examples):
            if isinstance(example.label, bool) or example.label not in range(len(example.choices)):
                raise ValueError(
                    f"a label must be the index of a choice, from 0 to {len(example.choices) - 1}; {example_name(example, i)} has "
                    f"{example.label!r}."
                )
        return Encoded(windows, [np.arange(len(example.choices)) == example.label for example in examples])

    def batches(self, encoded: Encoded, batch_size: int = 32, seed: int | None = None, **kwargs: Any) -> BucketedBatches:
        """Batches of questions for `fit` and `evaluate`: see `Task.batches`; `batch_size` counts questions."""
        if encoded.targets is None:
            raise ValueError("every question must have a label for training; at least one has none.")
        bounds = np.searchsorted(encoded.windows.examples, np.arange(sum(map(len, encoded.targets)) + 1)).tolist()
        group, rows, labels, first = max(map(len, encoded.targets)), [], [], 0
        for target in encoded.targets:
            windows = list(itertools.pairwise(bounds[first : first + len(target) + 1]))
            first += len(target)
            # Padding rows follow the choices; the loss ignores them.
            padded_target = np.concatenate([target.astype("float32"), np.full(group - len(target), -1.0, "float32")])
            for i in range(max(end - begin for begin, end in windows)):
                choice_rows = [min(begin + i, end - 1) for begin, end in windows]
                rows += choice_rows + choice_rows[-1:] * (group - len(target))
                labels += [padded_target] * group
        return self.grouped_batches(encoded, rows, np.stack(labels), group, batch_size, seed, **kwargs)

    def loss(self) -> keras.losses.Loss:
        """Cross entropy over the choices of a question."""
        return ChoiceLoss()

    def predict_examples(self, examples: Iterable[Any], batch_size: int = 32, progress: Progress = None) -> list[Any]:
        examples = example_list(examples)
        windows = self._windows(examples)
        logits = weighted_mean(self.predict_windows(windows, batch_size, progress), windows)[:, 0]
        ends = np.cumsum([len(example.choices) for example in examples])
        return [
            self._answer(example, logits[end - len(example.choices) : end]) for example, end in zip(examples, ends, strict=True)
        ]

    def scores(self, examples: Sequence[Any], answers: Sequence[Any]) -> dict[str, float]:
        """Accuracy."""
        from keras_bert_rebuild.tasks.metrics import accuracy

        return {"accuracy": accuracy([example.label for example in examples], [answer.index for answer in answers])}

    def row(self, example: Any, answer: Any) -> dict[str, Any]:
        probabilities = [round(float(value), 6) for value in answer.probabilities]
        return {"prompt": example.prompt, "choice": answer.index, "text": answer.text, "probabilities": probabilities}

    def _windows(self, examples):
        for i, example in enumerate(examples):
            if isinstance(example.choices, str) or not len(example.choices):
                raise ValueError(f"choices must be a list of texts; {example_name(example, i)} has {example.choices!r}.")
        prompts = [example.prompt for example in examples for _ in example.choices]
        return self.windows(prompts, [choice for example in examples for choice in example.choices], side=0)

    def _answer(self, example, logits):
        best = int(logits.argmax())
        return Chosen(best, example.choices[best], softmax(logits).tolist())
