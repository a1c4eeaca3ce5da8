"""Classification of words: entities, slots, parts of speech."""

from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_bert_rebuild.data.labelled_examples import TaggedText, TaggedWords
from keras_bert_rebuild.tasks.encode_windows import encode_windows
from keras_bert_rebuild.tasks.entities import OUTSIDE, best_tags, is_bio, spans_of_tags, tags_of_spans
from keras_bert_rebuild.tasks.task import Encoded, Task, example_list, place_of
from keras_bert_rebuild.tasks.text_classifier import class_weight_list, label_number
from keras_bert_rebuild.tasks.words_of_tokens import words_of_tokens
from keras_bert_rebuild.training.task_losses import IGNORED, LabelLoss

# An entity: where it begins and ends, in words of a list of words, in characters of a text, and the mean probability of its tags.
Entity = namedtuple("Entity", ["label", "start", "end", "text", "probability"])

# A tag for every word and the entities they mean; for a text the places of its words in characters, `(words, 2)`.
Tagged = namedtuple("Tagged", ["tags", "entities", "places"])


class TokenClassifier(Task):
    """Tell what every word is, and which entities the words make.

    The first token of a word answers for it. Sentences longer than `max_len` go in windows; of the windows that show a word, the
    one that shows the most around it answers and is trained. Tags that are BIO (O, B-x, I-x) are decoded as the most probable
    sequence that BIO allows, other tags word by word.

    Args:
        model: a `BertModel` with the head "token_classification"; `model.config.labels` are the tags.
        tokenizer: as for `task_tokenizer`.
        max_len, stride: as of `Task`.

    Reference: Devlin et al., 2019, section 5.3 (https://arxiv.org/abs/1810.04805).
    """

    kind = "token_classification"
    heads = ("token_classification",)
    per_token = True
    label_padding = IGNORED

    def __init__(self, model: keras.Model, tokenizer: Any = None, *, max_len: int | None = None, stride: int | None = None) -> None:
        super().__init__(model, tokenizer, max_len=max_len, stride=stride)
        if len(self.labels) < 2:
            raise ValueError(f"a token classifier must have two tags at least; got {list(self.labels)}.")
        self._numbers = {label: i for i, label in enumerate(self.labels)}
        self.is_bio = is_bio(self.labels)

    @staticmethod
    def labels_of(examples: Iterable[Any]) -> tuple[str, ...]:
        """The tags that examples have, sorted, O first; for spans of a text B-x and I-x of every label.

        Raises:
            ValueError: there are no tags, or only one.
        """
        tags: set[str] = set()
        for example in example_list(examples):
            if isinstance(example, TaggedText):
                tags.update(f"{part}-{label}" for _, _, label in example.spans or () for part in "BI")
                tags.add(OUTSIDE)
            else:
                tags.update(example.tags or ())
        if is_bio(tags):  # O is needed where no word is outside, and I-x where no entity has two words
            tags |= {OUTSIDE, *(f"{part}-{tag[2:]}" for tag in tags - {OUTSIDE} for part in "BI")}
        if len(tags) < 2:
            raise ValueError(f"there must be two tags at least to tell apart; the examples have {list(tags) or 'none'}.")
        return tuple(sorted(tags, key=lambda tag: (tag != OUTSIDE, tag[2:] if is_bio(tags) else tag, tag)))

    def __call__(self, texts: Sequence[str | Sequence[str]], batch_size: int = 32) -> list[Tagged]:
        """Tag texts.

        Args:
            texts: a list of texts, or of lists of words.
            batch_size: rows of a batch.

        Returns:
            A `Tagged` for each; entities are placed in characters of a text or in the words of a list.

        Raises:
            ValueError: not a list, an empty one, or one of texts and of lists of words.
        """
        texts = example_list(texts, "texts")
        examples = [TaggedText(text) if isinstance(text, str) else TaggedWords(tuple(text)) for text in texts]
        return self.predict_examples(examples, batch_size)

    def encode(self, examples: Iterable[Any]) -> Encoded:
        examples = example_list(examples)
        windows, words = self._words(examples)
        tags = [self._tags(example, words, i) for i, example in enumerate(examples)]
        if any(of_one is None for of_one in tags):
            return Encoded(windows)
        targets = []
        for row, example in enumerate(windows.examples):
            target = np.full(len(windows.ids[row]), IGNORED, "int32")
            chosen = words.heads[row] >= 0
            target[chosen] = np.asarray(tags[example], "int32")[words.heads[row][chosen]]
            targets.append(target)
        return Encoded(windows, targets)

    def loss(self, class_weights: Mapping[str, float] | None = None) -> keras.losses.Loss:
        """Cross entropy of the first token of every word."""
        return LabelLoss(None if class_weights is None else class_weight_list(class_weights, self.labels))

    def predict_examples(
        self, examples: Iterable[Any], batch_size: int = 32, progress: Callable[[int, int], object] | None = None
    ) -> list[Any]:
        examples = example_list(examples)
        windows, words = self._words(examples)
        # A word that the tokenizer leaves nothing of is outside.
        outside = np.eye(len(self.labels))[self._numbers.get(OUTSIDE, 0)] * 1e3
        logits = [np.tile(outside, (count, 1)) for count in words.counts]
        for row, answer in enumerate(self._predict(windows, batch_size, progress)):
            chosen = words.heads[row] >= 0
            logits[windows.examples[row]][words.heads[row][chosen]] = answer[chosen]
        return [
            self._answer(example, of_one, words.places[i]) for i, (example, of_one) in enumerate(zip(examples, logits, strict=True))
        ]

    def scores(self, examples: Sequence[Any], answers: Sequence[Any]) -> dict[str, float]:
        """Precision, recall and F1 of entities where tags are BIO; else the accuracy of tags."""
        from keras_bert_rebuild.tasks.metrics import entity_scores, tag_scores

        right = self.right_tags(examples)
        return (entity_scores if self.is_bio else tag_scores)(right, [answer.tags for answer in answers])

    def right_tags(self, examples: Iterable[Any]) -> list[list[str]]:
        """The tags that examples tell, as lists of strings, word for word those of the answers; entities begin with B-x."""
        examples = example_list(examples)
        _, words = self._words(examples)
        return [[self.labels[i] for i in self._tags(example, words, number)] for number, example in enumerate(examples)]

    def _words(self, examples):
        """The windows of examples, and which word every token begins."""
        in_words = {not isinstance(example, TaggedText) for example in examples}
        if len(in_words) > 1:
            raise ValueError("examples must all be texts or all be lists of words; got both.")
        given = [example.text if isinstance(example, TaggedText) else list(example.words) for example in examples]
        options = {"max_len": self.max_len, "stride": self.stride}
        if in_words == {True}:
            windows = encode_windows(self.tokenizer, given, is_pretokenized=True, **options)
        else:
            windows = encode_windows(self.tokenizer, given, **options)
        return windows, words_of_tokens(windows, given)

    def _tags(self, example, words, number):
        """The numbers of the tags of an example's words, or None."""
        where = place_of(example, number)
        if isinstance(example, TaggedText):
            if example.spans is None:
                return None
            for start, end, label in example.spans:
                if not 0 <= start < end <= len(example.text):
                    length = len(example.text)
                    raise ValueError(
                        f"a span must lie in its text of {length} characters; {where} has {label!r} from {start} to {end}."
                    )
            try:
                tags = tags_of_spans(*words.places[number].T.tolist(), example.spans)
            except ValueError as error:
                raise ValueError(f"{error}: {where}.") from None
        elif example.tags is None:
            return None
        else:
            tags = example.tags
            if len(tags) != len(example.words):
                raise ValueError(f"there must be a tag for each word; {where} has {len(example.words)} words and {len(tags)} tags.")
        numbers = [label_number(tag, self._numbers, where) for tag in tags]
        # Files of CoNLL-2003 begin entities with I-x, where the best tags have B-x.
        for span in spans_of_tags(tags) if self.is_bio else ():
            numbers[span.start] = self._numbers.get(f"B-{span.label}", numbers[span.start])
        return numbers

    def _answer(self, example, logits, places):
        logits = logits - logits.max(-1, keepdims=True)
        logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        best = best_tags(logs, self.labels) if self.is_bio else logs.argmax(-1)
        tags = [self.labels[i] for i in best]
        of_words = isinstance(example, TaggedWords)
        entities = []
        for label, start, end in spans_of_tags(tags) if self.is_bio else ():
            probability = float(np.exp(logs[np.arange(start, end), best[start:end]]).mean())
            if of_words:
                entities.append(Entity(label, start, end, " ".join(example.words[start:end]), probability))
            else:
                first, behind = int(places[start][0]), int(places[end - 1][1])
                entities.append(Entity(label, first, behind, example.text[first:behind], probability))
        return Tagged(tags, entities, None if of_words else places)
