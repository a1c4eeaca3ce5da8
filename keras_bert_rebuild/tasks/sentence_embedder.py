"""Vectors of sentences, trained so that similar texts have vectors of similar direction."""

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.data.labelled.length_buckets import BucketedBatches
from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.tasks.embedding_model import sharing_layers
from keras_bert_rebuild.tasks.metrics.classes import REGRESSION_METRICS
from keras_bert_rebuild.tasks.registry import FinetuneTask
from keras_bert_rebuild.tasks.sentence_objectives import OBJECTIVES, objective_for
from keras_bert_rebuild.tasks.task import Progress, Task, example_list, paired_lists, place_of
from keras_bert_rebuild.tasks.text_rows import Encoded, weighted_mean

# The modules of a sentence-transformers folder.
MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
]


class SentenceEmbedder(Task):
    """Computes vectors of texts, and the cosine between the vectors of pairs of texts.

        vector = Σ_windows tokens · mean over tokens (last block) / Σ_windows tokens, scaled to length 1

    Args:
        model: a `BertModel` without heads, whose output is that of the last block; the mean over tokens is added.
        tokenizer: as for `task_tokenizer`.
        objective: the training objective: "cosine", cosines that match the scores of pairs; "in_batch_negatives", to find the
            second text of every pair among those of the batch, which should be distinct.
        score_range: the scores of least and greatest similarity, cosines 0 and 1.
        scale: factor of the cosines in "in_batch_negatives".
        max_len, stride: see `Task`.

    Reference: Reimers and Gurevych, 2019, section 3 (https://arxiv.org/abs/1908.10084).
    """

    kind = "embedding"
    heads = ()
    examples = "similarity"
    metrics = REGRESSION_METRICS
    options = ("objective",)

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Any = None,
        *,
        objective: str = "cosine",
        score_range: Sequence[float] = (0.0, 1.0),
        scale: float = 20.0,
        max_len: int | None = None,
        stride: int | None = None,
    ) -> None:
        if getattr(model, "config", None) is None or not set(heads_of(model)) <= {"pooler"}:
            raise ValueError("SentenceEmbedder must have a BertModel without heads; from_encoder makes one.")
        self.encoder = model
        pooled = keras.layers.GlobalAveragePooling1D(dtype="float32", name="Pool-Ave")(model.outputs[0])
        with_mean = sharing_layers(model, pooled)
        with_mean.load_report = getattr(model, "load_report", None)
        super().__init__(with_mean, tokenizer, max_len=max_len, stride=stride)
        low, high = score_range
        if objective not in OBJECTIVES or not low < high:
            known = " or ".join(OBJECTIVES)
            raise ValueError(f"objective must be {known}, and score_range ascending; got {objective!r} and {tuple(score_range)}.")
        self.objective = objective
        self.score_range = float(low), float(high)
        self.scale = scale

    @classmethod
    def words(cls) -> tuple[FinetuneTask, ...]:
        return (FinetuneTask("similarity", cls, cls.examples, cls.metrics, options=cls.options),)

    @classmethod
    def settings_for(cls, examples: Sequence[Any], options: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
        scores = [example.score for example in examples]
        objective = options["objective"] or objective_for(scores)
        return {"objective": objective, **OBJECTIVES[objective].settings_for(scores)}

    def __call__(self, texts: Sequence[str], batch_size: int = 32) -> npt.NDArray[np.float32]:
        """The vectors of texts, `(texts, hidden)`, float32, each of length 1.

        Raises:
            ValueError: not a list, or an empty list.
        """
        return self._vectors(example_list(texts, "texts"), batch_size, None)

    def similarity(self, firsts: Sequence[str], seconds: Sequence[str], batch_size: int = 32) -> npt.NDArray[np.float32]:
        """The cosine of each text and the text of the same index in another list, `(texts,)`.

        Raises:
            ValueError: not a list, an empty list, or a different number of first and second texts.
        """
        firsts, seconds = paired_lists(firsts, seconds)
        vectors = self._vectors([*firsts, *seconds], batch_size, None)
        return np.sum(vectors[: len(firsts)] * vectors[len(firsts) :], axis=1)

    def encode(self, examples: Iterable[Any]) -> Encoded:
        """The rows of pairs, first and second in turn; every window of a long text forms a pair, with the last of a shorter one."""
        examples = example_list(examples)
        windows = self.windows(list(itertools.chain.from_iterable((example.first, example.second) for example in examples)))
        objective = self._objective
        targets = [objective.target(example.score, place_of(example, i)) for i, example in enumerate(examples)]
        return Encoded(windows, None if None in targets else np.array(targets, "float32"))

    def batches(self, encoded: Encoded, batch_size: int = 32, seed: int | None = None, **kwargs: Any) -> BucketedBatches:
        """Batches of pairs for `fit` and `evaluate`: see `Task.batches`; `batch_size` counts pairs."""
        if encoded.targets is None:
            raise ValueError("every pair must have a score to be trained for cosines; at least one has none.")
        bounds = np.searchsorted(encoded.windows.examples, np.arange(2 * len(encoded.targets) + 1)).tolist()
        rows, owners, all_windows = [], [], self._objective.all_windows
        for pair in range(len(encoded.targets)):
            first, second, end = bounds[2 * pair : 2 * pair + 3]
            count = max(second - first, end - second) if all_windows else 1
            for i in range(count):
                rows += [min(first + i, second - 1), min(second + i, end - 1)]
                owners += [pair, pair]
        return self.grouped_batches(encoded, rows, encoded.targets[owners], 2, batch_size, seed, **kwargs)

    def loss(self) -> keras.losses.Loss:
        """The loss of the objective: the squared error of cosines, or cross entropy over the batch."""
        return self._objective.loss()

    def predict_examples(self, examples: Iterable[Any], batch_size: int = 32, progress: Progress = None) -> list[Any]:
        """A number for every pair: the cosine, mapped linearly from 0 to 1 onto the range of the scores."""
        examples = example_list(examples)
        texts = list(itertools.chain.from_iterable((example.first, example.second) for example in examples))
        vectors = self._vectors(texts, batch_size, progress)
        low, high = self.score_range
        return (low + np.sum(vectors[::2] * vectors[1::2], axis=1) * (high - low)).tolist()

    def scores(self, examples: Sequence[Any], answers: Sequence[Any]) -> dict[str, float]:
        """Pearson's and Spearman's correlation of the scores."""
        from keras_bert_rebuild.tasks.metrics import regression_scores

        return regression_scores([example.score for example in examples], list(answers))

    def row(self, example: Any, answer: Any) -> dict[str, Any]:
        return {"first": example.first, "second": example.second, "score": round(float(answer), 6)}

    def settings(self) -> dict[str, Any]:
        own = {"objective": self.objective, "score_range": list(self.score_range), "scale": self.scale}
        return {**super().settings(), **own}

    def further_files(self) -> dict[str, bytes]:
        """The files that let sentence-transformers read the Hugging Face folder."""
        return sentence_files(self.model.config.hidden_size, self.max_len)

    def model_to_save(self) -> keras.Model:
        return self.encoder

    @property
    def _objective(self):
        return OBJECTIVES[self.objective](self.score_range, self.scale)

    def _vectors(self, texts, batch_size, progress):
        windows = self.windows(texts)
        vectors = weighted_mean(self.predict_windows(windows, batch_size, progress), windows)
        return (vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)).astype("float32")


def sentence_files(width, max_len):
    """The files that make an encoder's folder a sentence-transformers one with mean pooling and unit vectors: name to bytes.

    Args:
        width: length of a vector.
        max_len: maximum number of tokens in a text.
    """
    pooling = {
        "word_embedding_dimension": width,
        "pooling_mode_cls_token": False,
        "pooling_mode_mean_tokens": True,
        "pooling_mode_max_tokens": False,
        "pooling_mode_mean_sqrt_len_tokens": False,
    }
    files = {
        "1_Pooling/config.json": pooling,
        "sentence_bert_config.json": {"max_seq_length": max_len, "do_lower_case": False},
        "modules.json": MODULES,
    }
    return {name: (json.dumps(values, indent=2) + "\n").encode() for name, values in files.items()}
