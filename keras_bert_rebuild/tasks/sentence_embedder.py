"""Vectors of sentences, trained so that similar texts have vectors of similar direction."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.models.packed_vectors import LOG_SCALE
from keras_bert_rebuild.tasks.embedding_model import sharing_layers
from keras_bert_rebuild.tasks.metrics.classes import REGRESSION_METRICS
from keras_bert_rebuild.tasks.packed_training import layers_after_pooling, training_model_of
from keras_bert_rebuild.tasks.registry import FinetuneTask
from keras_bert_rebuild.tasks.sentence_objectives import OBJECTIVES, Objective, VectorTraining, objectives_for
from keras_bert_rebuild.tasks.task import Progress, Task, example_list, paired_lists
from keras_bert_rebuild.tasks.text_rows import Encoded, weighted_mean
from keras_bert_rebuild.tasks.vector_examples import VECTOR_EXAMPLES, check_objective

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
        objective: the training objective, a name in `OBJECTIVES` for its examples: "cosine", cosines that match the scores of
            pairs; "in_batch_negatives", to find the second text of every pair among those of the batch. None: the first for them.
        score_range: the scores of least and greatest similarity, cosines 0 and 1.
        scale: factor of the cosines in objectives that compare them; None for the usual one.
        example_kind: what it is trained on and answers: "similarity", pairs with scores; "retrieval", queries with texts to find;
            "classification", texts with labels.
        prompts: what queries and documents of "retrieval" begin with, by "query" and "document".
        training: further settings of the training.
        max_len, stride: see `Task`.

    Reference: Reimers and Gurevych, 2019, section 3 (https://arxiv.org/abs/1908.10084).
    """

    kind = "embedding"
    heads = ()
    examples = "similarity"
    metrics = REGRESSION_METRICS

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Any = None,
        *,
        objective: str | None = None,
        score_range: Sequence[float] = (0.0, 1.0),
        scale: float | None = None,
        example_kind: str = "similarity",
        prompts: Mapping[str, str] | None = None,
        training: VectorTraining | None = None,
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
        if example_kind not in VECTOR_EXAMPLES:
            raise ValueError(f"example_kind must be one of {', '.join(VECTOR_EXAMPLES)}; got {example_kind!r}.")
        objective = objectives_for(example_kind)[0] if objective is None else objective
        check_objective(objective, example_kind)
        low, high = score_range
        if not low < high:
            raise ValueError(f"score_range must be ascending; got {tuple(score_range)}.")
        self.examples, self.objective = example_kind, objective
        self.score_range = float(low), float(high)
        self.scale = OBJECTIVES[objective].default_scale if scale is None else float(scale)
        self.prompts = dict(prompts or {})
        training = VectorTraining() if training is None else training
        self.training = replace(training, symmetric=example_kind == "similarity") if training.symmetric is None else training
        self._trained = self._learned_scale = None

    @classmethod
    def words(cls) -> tuple[FinetuneTask, ...]:
        return tuple(
            FinetuneTask(of.name, cls, kind, of.metrics, {"example_kind": kind}, of.options) for kind, of in VECTOR_EXAMPLES.items()
        )

    @property
    def word(self) -> FinetuneTask:
        return next(word for word in self.words() if word.examples == self.examples)

    @classmethod
    def settings_for(cls, examples: Sequence[Any], options: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
        kind = settings.get("example_kind", "similarity")
        objective = options["objective"] or VECTOR_EXAMPLES[kind].objective_for(examples)
        check_objective(objective, kind)
        given = {name: value for name, value in options.items() if name in VectorTraining.__dataclass_fields__}
        prompts = {name: options.get(f"{name}_prompt") for name in ("query", "document")}
        return {
            "objective": objective,
            "scale": None if options.get("temperature") is None else 1.0 / options["temperature"],
            "training": VectorTraining(**given),
            **({"prompts": {name: prompt for name, prompt in prompts.items() if prompt}} if any(prompts.values()) else {}),
            **(OBJECTIVES[objective].settings_for([example.score for example in examples]) if kind == "similarity" else {}),
        }

    @classmethod
    def label_counts(cls, examples: Sequence[Any], weighed: bool = False, **settings: Any) -> Counter | None:
        labelled = settings.get("example_kind") == "classification" and not weighed
        return Counter(example.label for example in examples) if labelled else None

    def __call__(self, texts: Sequence[str], batch_size: int = 32) -> npt.NDArray[np.float32]:
        """The vectors of texts, `(texts, hidden)`, float32, each of length 1.

        Raises:
            ValueError: not a list, or an empty list.
        """
        return self.vectors(example_list(texts, "texts"), batch_size, None)

    def similarity(self, firsts: Sequence[str], seconds: Sequence[str], batch_size: int = 32) -> npt.NDArray[np.float32]:
        """The cosine of each text and the text of the same index in another list, `(texts,)`.

        Raises:
            ValueError: not a list, an empty list, or a different number of first and second texts.
        """
        firsts, seconds = paired_lists(firsts, seconds)
        vectors = self.vectors([*firsts, *seconds], batch_size, None)
        return np.sum(vectors[: len(firsts)] * vectors[len(firsts) :], axis=1)

    def encode(self, examples: Iterable[Any]) -> Encoded:
        return self._examples.encode(example_list(examples))

    def batches(self, encoded: Encoded, batch_size: int = 32, seed: int | None = None, **kwargs: Any) -> keras.utils.PyDataset:
        """Batches for `training_model.fit`: see `Task.batches`; `batch_size` counts pairs, groups or texts with labels.

        Those of groups are random, whatever the lengths of texts; with `seed=None` they are consecutive examples in their order.
        """
        return self._examples.batches(encoded, batch_size, seed, **kwargs)

    def loss(self) -> keras.losses.Loss:
        """The loss of the objective."""
        loss = self.training_objective.loss()
        if self._learned_scale is not None:
            loss.learned_scale = self._learned_scale
        return loss

    @property
    def training_model(self) -> keras.Model:
        """The model that is trained: for groups and labels one that has the layers of the task and takes packed rows."""
        if not self._examples.packed:
            return self.model
        if self._trained is None:
            self._trained, vectors = training_model_of(self, getattr(self, "poolings", ("mean",)), layers_after_pooling(self.model))
            if self.training.learned_temperature:
                self._learned_scale = vectors.learn_scale(self.scale)
        return self._trained

    def rate_multipliers(self) -> dict[str, float]:
        # A logarithm must move by tenths, not thousandths.
        return {f"{LOG_SCALE}$": 100.0} if self.training.learned_temperature else {}

    def predict_examples(self, examples: Iterable[Any], batch_size: int = 32, progress: Progress = None) -> list[Any]:
        """For every pair its cosine, mapped linearly from 0 to 1 onto the range of the scores; for every query the best of the
        texts of all examples, `{text: score}`; for every text with a label the nearest other examples, `{number: score}`."""
        return self._examples.answers(example_list(examples), batch_size, progress)

    def scores(self, examples: Sequence[Any], answers: Sequence[Any]) -> dict[str, float]:
        """Of pairs Pearson's and Spearman's correlation, for 0 and 1 also average precision; else the scores of rankings."""
        return self._examples.scores(examples, answers)

    def row(self, example: Any, answer: Any) -> dict[str, Any]:
        return self._examples.row(example, answer)

    def settings(self) -> dict[str, Any]:
        scale = self.scale if self._learned_scale is None else float(keras.ops.convert_to_numpy(self._learned_scale()))
        own = {"objective": self.objective, "score_range": list(self.score_range), "scale": scale}
        kind = {} if self.examples == "similarity" else {"example_kind": self.examples}
        return {**super().settings(), **own, **kind, **({"prompts": self.prompts} if self.prompts else {})}

    def further_files(self) -> dict[str, bytes]:
        """The files that let sentence-transformers read the Hugging Face folder."""
        return sentence_files(self.model.config.hidden_size, self.max_len)

    def model_to_save(self) -> keras.Model:
        return self.encoder

    @property
    def training_objective(self) -> Objective:
        """The `Objective` that the vectors are trained for."""
        similarity = "cosine" if getattr(self, "normalize", True) else "dot"
        return OBJECTIVES[self.objective](self.score_range, self.scale, self.training, similarity)

    @property
    def _examples(self):
        return VECTOR_EXAMPLES[self.examples](self)

    def vectors(self, texts: Sequence[str], batch_size: int = 32, progress: Progress = None) -> npt.NDArray[np.float32]:
        """As a call, of texts that have their prompts, with a `progress` as for `predict_examples`."""
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
