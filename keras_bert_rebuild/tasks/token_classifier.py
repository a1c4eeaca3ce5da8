"""Classification of words: entities, slots, parts of speech."""

import itertools
from collections import Counter, namedtuple
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import keras
import numpy as np

from keras_bert_rebuild.data.labelled.labelled_examples import TaggedText, TaggedWords
from keras_bert_rebuild.layers.conditional_random_field import marginals
from keras_bert_rebuild.models.heads import CRF
from keras_bert_rebuild.tasks.metrics import class_scores, entity_scores, entity_type_scores, tag_scores
from keras_bert_rebuild.tasks.metrics.classes import confusion_rows
from keras_bert_rebuild.tasks.metrics.entities import OUTSIDE, canonical, notation_of, type_of, with_insides, written
from keras_bert_rebuild.tasks.tag_schemes import (
    all_labels,
    best_tags,
    check_scheme,
    in_scheme,
    nearest_tag,
    recognised,
    spans_of_tags,
    tags_for,
    tags_of_spans,
)
from keras_bert_rebuild.tasks.task import Progress, Task
from keras_bert_rebuild.tasks.text_problems import class_weight_list, label_number
from keras_bert_rebuild.tasks.text_rows import Encoded, example_list, example_name
from keras_bert_rebuild.tasks.words_of_tokens import words_of_tokens
from keras_bert_rebuild.training.task_losses import IGNORED, ConditionalRandomFieldLoss, LabelLoss

# An entity: its offsets (in words of a list, or in characters of a text), its text, and the mean probability of its tags.
Entity = namedtuple("Entity", ["label", "start", "end", "text", "probability"])

# A tag for every word, and the entities that the tags describe; for a text also the offsets of its words, `(words, 2)`.
Tagged = namedtuple("Tagged", ["tags", "entities", "offsets"])

# Learning rate multiplier of transitions: they are scores themselves, not weights of a product.
CRF_RATE = 100.0


class TokenClassifier(Task):
    """Classifies every word, and finds the entities that the words form.

    The output for a word is that of its first token. Sentences longer than `max_len` are split into windows; a word is predicted
    and trained in the window with the most context around it. Tags of entities are decoded as the most probable sequence that
    their scheme allows, other tags independently. With `crf`, the model also learns which tags follow each other within a window.

    Args:
        model: a `BertModel` with the head "token_classification"; `model.config.labels` are the tags.
        tokenizer: as for `task_tokenizer`.
        scheme: the tagging scheme, one of "IO", "IOB1", "IOB2", "IOE1", "IOE2", "BIOES", "BILOU", "BMES" and "BMEWO", or prefixes
            such as "BIS". None to infer it from the set of tags, for example IOB1 if there is an I-x but no B-x; `scheme_of` infers
            it from examples, which is more reliable.
        max_len, stride: see `Task`.

    Reference: Devlin et al., 2019, section 5.3 (https://arxiv.org/abs/1810.04805).
    """

    kind = "token_classification"
    heads = ("token_classification",)
    per_token = True
    predicts_encoded_rows = True
    label_padding = ignored_label = IGNORED
    examples = "tagging"
    metrics = ("f1", "precision", "recall", "accuracy", "macro_f1")
    options = ("class_weights", "crf")
    saved_first = ("scheme",)

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Any = None,
        *,
        scheme: str | None = None,
        max_len: int | None = None,
        stride: int | None = None,
    ) -> None:
        super().__init__(model, tokenizer, max_len=max_len, stride=stride)
        self.crf = next((layer for layer in model.layers if layer.name == CRF), None)
        if len(self.labels) < 2:
            raise ValueError(f"a token classifier must have at least two tags; got {list(self.labels)}.")
        self._numbers = {label: i for i, label in enumerate(self.labels)}
        self.scheme = recognised(self.labels) if scheme is None else check_scheme(scheme, self.labels)
        self.notation = notation_of(self.labels) or "plain"
        self._known = [canonical(label, self.notation) for label in self.labels]

    @classmethod
    def from_encoder(
        cls, encoder: Any, tokenizer: Any = None, *, crf: bool = False, rates: Mapping[str, float] | None = None, **settings: Any
    ) -> Self:
        """The task with a newly initialised head on an encoder.

        Args:
            encoder, tokenizer, rates, **settings: see `Task.from_encoder`.
            crf: end the head with a `ConditionalRandomField`, which learns which tags follow each other.
        """
        return super().from_encoder(encoder, tokenizer, rates={**(rates or {}), "crf": bool(crf)}, **settings)

    @classmethod
    def settings_for(cls, examples: Sequence[Any], options: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
        return {"labels": cls.labels_of(examples), "scheme": cls.scheme_of(examples), "crf": options["crf"]}

    @classmethod
    def label_counts(cls, examples: Sequence[Any], weighed: bool = False, **settings: Any) -> Counter | None:
        """The counts of the tags of words; for texts with spans, whose words are not known yet, of O and the labels of spans."""
        if weighed and not all(isinstance(example, TaggedWords) for example in examples):
            return None
        outside = [OUTSIDE for example in examples if isinstance(example, TaggedText)]
        return Counter([*outside, *itertools.chain.from_iterable(example.labels() for example in examples)])

    @staticmethod
    def labels_of(examples: Iterable[Any]) -> tuple[str, ...]:
        """The tags of examples, sorted with O first, and further tags that their scheme may need; IOB2 for spans of a text.

        Raises:
            ValueError: there are no tags, or only one.
        """
        labels, scheme = _tags_and_scheme(example_list(examples))
        labels = all_labels(scheme, labels)
        if len(labels) < 2:
            raise ValueError(f"examples must have at least two different tags; they have {list(labels) or 'none'}.")
        return labels

    @staticmethod
    def scheme_of(examples: Iterable[Any]) -> str | None:
        """The scheme of the tags of examples, inferred from their order; None for tags that do not describe entities."""
        return _tags_and_scheme(example_list(examples))[1]

    def __call__(self, texts: Sequence[str | Sequence[str]], batch_size: int = 32) -> list[Tagged]:
        """Tag texts.

        Args:
            texts: a list of texts, or of lists of words.
            batch_size: rows per batch.

        Returns:
            A `Tagged` for each text; the offsets of entities are characters of a text or words of a list.

        Raises:
            ValueError: not a list, an empty list, or a mixture of texts and lists of words.
        """
        texts = example_list(texts, "texts")
        examples = [TaggedText(text) if isinstance(text, str) else TaggedWords(tuple(text)) for text in texts]
        return self.predict_examples(examples, batch_size)

    def encode(self, examples: Iterable[Any]) -> Encoded:
        examples = example_list(examples)
        windows, words = self._words(examples)
        tags = [self._tags(example, words, i) for i, example in enumerate(examples)]
        if any(indices is None for indices in tags):
            return Encoded(windows)
        targets = []
        for row, example in enumerate(windows.examples):
            target = np.full(len(windows.ids[row]), IGNORED, "int32")
            first = words.first_tokens[row] >= 0
            target[first] = np.asarray(tags[example], "int32")[words.first_tokens[row][first]]
            targets.append(target)
        return Encoded(windows, targets)

    def loss(self, class_weights: Mapping[str, float] | None = None) -> keras.losses.Loss:
        """Cross entropy at the first token of every word; with a CRF, the negative log-likelihood of the whole sequence of tags.

        Raises:
            ValueError: class weights are given for a CRF, whose loss is over sequences, not labels.
        """
        if self.crf is not None and class_weights is not None:
            raise ValueError("class_weights must be None with crf: the loss of a whole sequence of tags has no class weights.")
        if self.crf is not None:
            return ConditionalRandomFieldLoss()
        return LabelLoss(None if class_weights is None else class_weight_list(class_weights, self.labels))

    def predict_examples(self, examples: Iterable[Any], batch_size: int = 32, progress: Progress = None) -> list[Any]:
        examples = example_list(examples)
        windows, words = self._words(examples)
        # A word that the tokenizer drops is outside.
        outside = np.eye(len(self.labels))[self._numbers.get(OUTSIDE, 0)] * 1e3
        logits = [np.tile(outside, (count, 1)) for count in words.counts]
        for row, answer in enumerate(self.predict_windows(windows, batch_size, progress)):
            first = words.first_tokens[row] >= 0
            logits[windows.examples[row]][words.first_tokens[row][first]] = answer[first]
        return [
            self._answer(example, scores, words.offsets[i])
            for i, (example, scores) in enumerate(zip(examples, logits, strict=True))
        ]

    def scores(self, examples: Sequence[Any], answers: Sequence[Any]) -> dict[str, float]:
        """Precision, recall and F1 of entities, the same in any scheme; accuracy if tags do not describe entities."""
        return (tag_scores if self.scheme is None else entity_scores)(*self._compared(examples, answers))

    def details(self, examples: Sequence[Any], answers: Sequence[Any]) -> dict[str, Any]:
        right, predicted = self._compared(examples, answers)
        # I-x and B-x share a row of the confusion matrix, which shows whether a word was found and with which label.
        shown = (lambda tag: tag) if self.scheme is None else type_of
        flat = [[shown(tag) for tags in side for tag in tags] for side in (right, predicted)]
        classes = class_scores(*flat) if self.scheme is None else entity_type_scores(right, predicted)
        return {"classes": classes, **confusion_rows(*flat)}

    def row(self, example: Any, answer: Any) -> dict[str, Any]:
        entities = [{**entity._asdict(), "probability": round(entity.probability, 6)} for entity in answer.entities]
        if isinstance(example, TaggedWords):
            return {"words": list(example.words), "tags": list(answer.tags), "entities": entities}
        if self.scheme is None:
            return {"text": example.text, "words": [example.text[a:b] for a, b in answer.offsets], "tags": list(answer.tags)}
        return {"text": example.text, "entities": entities}

    def rate_multipliers(self) -> dict[str, float]:
        """The multiplier of a CRF: its transitions start at 0, and the learning rate of an encoder would leave them near 0."""
        return {} if self.crf is None else {f"(^|/){CRF}/": CRF_RATE}

    def right_tags(self, examples: Iterable[Any]) -> list[list[str]]:
        """The tags of examples, as lists of strings, in the scheme of the task and for the same words as the predictions."""
        examples = example_list(examples)
        _, words = self._words(examples)
        for number, example in enumerate(examples):
            self._tags(example, words, number)  # raises an error if a label is unknown
        return [self._scheme_tags(example, words, number) for number, example in enumerate(examples)]

    def _compared(self, examples, answers):
        """The right and predicted tags as metrics read them: labels, or if they describe entities canonical tags."""
        sides = self.right_tags(examples), [list(answer.tags) for answer in answers]
        if self.scheme is None:
            return sides
        read = lambda tags: with_insides([canonical(tag, self.notation) for tag in tags], self.scheme)  # noqa: E731
        return tuple([read(tags) for tags in side] for side in sides)

    def _words(self, examples):
        """The windows of examples, and which tokens are the first of a word."""
        in_words = {not isinstance(example, TaggedText) for example in examples}
        if len(in_words) > 1:
            raise ValueError("examples must all be texts or all be lists of words; got both.")
        texts = [example.text if isinstance(example, TaggedText) else list(example.words) for example in examples]
        windows = self.windows(texts, **({"is_pretokenized": True} if in_words == {True} else {}))
        return windows, words_of_tokens(windows, texts)

    def _tags(self, example, words, number):
        """The indices of the tags of an example's words, or None."""
        tags, where = self._scheme_tags(example, words, number), example_name(example, number)
        if tags is None:
            return None
        if self.scheme is not None:
            near = lambda tag: nearest_tag(self.scheme, canonical(tag, self.notation), self._known)  # noqa: E731
            tags = [written(near(tag), self.notation) if isinstance(tag, str) else tag for tag in tags]
        return [label_number(tag, self._numbers, where) for tag in tags]

    def _scheme_tags(self, example, words, number):
        """The tags of an example's words, in the scheme of the task, or None."""
        where = example_name(example, number)
        if isinstance(example, TaggedWords):
            if example.tags is not None and len(example.tags) != len(example.words):
                actual = f"{where} has {len(example.words)} words and {len(example.tags)} tags"
                raise ValueError(f"expected a tag for each word; {actual}.")
            if example.tags is None or self.scheme is None or not all(isinstance(tag, str) for tag in example.tags):
                return example.tags
            tags = in_scheme(self.scheme, [canonical(tag, self.notation) for tag in example.tags])
            return [written(tag, self.notation) for tag in tags]
        if example.spans is None:
            return None
        for start, end, label in example.spans:
            if not 0 <= start < end <= len(example.text):
                actual = f"{where} has {label!r} from {start} to {end}"
                raise ValueError(f"a span must be inside its text of {len(example.text)} characters; {actual}.")
        try:
            tags = tags_of_spans(*words.offsets[number].T.tolist(), example.spans, self.scheme or "IOB2")
            return tags if self.scheme is None else [written(tag, self.notation) for tag in tags]
        except ValueError as error:
            raise ValueError(f"{error}: {where}.") from None

    def _answer(self, example, logits, offsets):
        logits = logits - logits.max(-1, keepdims=True)
        logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        transitions = None if self.crf is None else self.crf.transitions
        best = best_tags(logs, self._known, self.scheme, transitions)
        probabilities = np.exp(logs) if transitions is None else marginals(logs, transitions)
        tags = [self.labels[i] for i in best]
        is_words = isinstance(example, TaggedWords)
        entities = []
        for label, start, end in () if self.scheme is None else spans_of_tags([self._known[i] for i in best], self.scheme):
            probability = float(probabilities[np.arange(start, end), best[start:end]].mean())
            if is_words:
                entities.append(Entity(label, start, end, " ".join(example.words[start:end]), probability))
            else:
                first, last = int(offsets[start][0]), int(offsets[end - 1][1])
                entities.append(Entity(label, first, last, example.text[first:last], probability))
        return Tagged(tags, entities, None if is_words else offsets)


def _tags_and_scheme(examples):
    """All the tags of examples, and their scheme; tags of spans are IOB2."""
    if any(isinstance(example, TaggedText) for example in examples):
        kinds = {label for example in examples if isinstance(example, TaggedText) for _, _, label in example.spans or ()}
        return tags_for("IOB2", kinds), "IOB2" if kinds else None
    sentences = [example.tags for example in examples if example.tags is not None]
    tags = set(itertools.chain(*sentences))
    return tags, recognised(tags, sentences)
