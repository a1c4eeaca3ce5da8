"""Distillation: a smaller model learns from the outputs of a teacher, as one call that can be interrupted and resumed."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.data.pretraining.vocabulary_tables import vocabulary_tables
from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.models.build_model import build_model
from keras_bert_rebuild.models.distillation_model import build_distillation_model
from keras_bert_rebuild.models.distillation_objectives import MEASURES, AttentionRelations, HiddenStates, SoftTargets
from keras_bert_rebuild.recipes.pretraining.models_of_run import check_positions
from keras_bert_rebuild.recipes.pretraining.objectives import MaskedTokens, Trained, renamed
from keras_bert_rebuild.recipes.pretraining.pretrain import pretrain
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.pretraining.student import (
    check_vocabulary,
    copy_weights,
    layer_pairs,
    load_teacher,
    source_blocks,
    starts_from_teacher,
    student_config,
    teacher_facts,
    teacher_tokenizer,
    without_head,
)
from keras_bert_rebuild.recipes.settings import setting, settings_from_dict
from keras_bert_rebuild.training.distributed.distribution import whole_model

STARTS = ("teacher", "scratch")
RELATIONS = tuple(f"{one}-{other}" for one in ("query", "key", "value") for other in ("query", "key", "value"))

# Settings of a pretraining run that the teacher determines, or that a distillation does not support.
OF_TEACHER = ("model", "init", "objective", "generator_size", "discriminator_weight", "next_sentence", "decay_from", "decay_step")

WEIGHTS = ("mlm_weight", "soft_weight", "hidden_weight", "relation_weight")

_PAIR = re.compile(r"(\d+):(\d+)")


class DistilledTokens(MaskedTokens):
    """Masked tokens, and the outputs of a teacher for the same inputs.

    loss = mlm_weight · L_MLM + soft_weight · L_soft + hidden_weight · L_hidden + relation_weight · L_relation
    """

    name = "distill"
    quality = ("loss", "mlm_loss", "mlm_accuracy", "mlm_perplexity", "soft_loss", "hidden_loss", "relation_loss")

    def models(self, config, settings):
        teacher, heads = teacher_facts(settings.teacher)
        return [Trained(config, ("mlm",)), Trained(teacher, heads if settings.soft_weight else (), frozen=True)]

    def arrays_of_logits(self, settings, kind):
        # The teacher's logits too; the softened log probabilities of both, their difference, and the teacher's probabilities.
        return (3, 4) if settings.soft_weight else super().arrays_of_logits(settings, kind)

    def make(self, corpus, settings):
        teacher = load_teacher(settings.teacher, settings.packing)
        check_vocabulary(settings.teacher, teacher.config, corpus.vocabulary, vocabulary_tables(corpus.vocabulary).pad_id)
        if settings.soft_weight and "MLM" not in teacher.output_names:
            raise ValueError(f"soft targets need a teacher with an MLM head, and {settings.teacher} has none: use soft_weight=0.")
        config = student_config(settings, teacher.config)
        check_positions("the student", config, settings)
        check_positions(settings.teacher, teacher.config, settings)
        objectives = objectives_of(settings, teacher.config, config)
        student = build_model(config, ["mlm"], packed=settings.packing)
        if starts_from_teacher(settings, teacher.config, config):
            copy_weights(teacher, student, source_blocks(settings, teacher.config, config))
        return build_distillation_model(student, teacher, objectives, settings.mlm_weight)

    def results(self, model, settings):
        learns_tokens = settings.mlm_weight or settings.soft_weight  # otherwise the head is untrained
        return [(model.student if learns_tokens else without_head(model.student), settings.packing)]

    def vocabulary(self, corpus, settings):
        return teacher_tokenizer(settings.teacher) or super().vocabulary(corpus, settings)

    def quality_of(self, logs, settings):
        names = {"loss": "loss", "MLM_loss": "mlm_loss", "MLM_accuracy": "mlm_accuracy"}
        return renamed(logs, names | {f"{kind}_loss": f"{kind.lower()}_loss" for kind in ("Soft", "Hidden", "Relation")})


DISTILLED = DistilledTokens()


def objectives_of(settings, teacher, student):
    """The list of objectives that settings and both configs describe; objectives of weight 0 are left out.

    Args:
        settings: `DistillSettings`.
        teacher, student: the `BertConfig` of each.

    Raises:
        ValueError: layers do not exist, or relation heads do not divide the widths.
    """
    objectives = []
    if settings.soft_weight:
        objectives.append(SoftTargets(weight=settings.soft_weight, temperature=settings.temperature))
    if settings.hidden_weight:
        pairs = layer_pairs(settings.hidden_layers, teacher, student)
        objectives.append(HiddenStates(weight=settings.hidden_weight, layers=pairs, measure=settings.hidden_measure))
    if settings.relation_weight:
        pairs = layer_pairs(settings.relation_layers, teacher, student)
        heads = teacher.num_attention_heads if settings.relation_heads is None else settings.relation_heads
        relations = tuple(tuple(pair.split("-")) for pair in settings.relations)
        objectives.append(AttentionRelations(weight=settings.relation_weight, layers=pairs, heads=heads, relations=relations))
    for objective in objectives:
        objective.check(teacher, student)
    return objectives


@dataclass(frozen=True, kw_only=True)
class DistillSettings(PretrainSettings):
    """The settings of a distillation: fields of a YAML file, options of `keras-bert distill`, arguments of `distill`.

    They include the settings of a pretraining run, except for those that the teacher determines. Default weights are DistilBERT's.

    Reference: Sanh et al., 2019 (https://arxiv.org/abs/1910.01108), `scripts/run` of its repository: 5 for the soft targets, 2 for
    the masked tokens, 1 for the cosine, temperature 2.
    """

    next_sentence: str | None = "none"
    """There is no second task."""

    teacher: str | None = None
    """The teacher, anything that `from_pretrained` reads."""

    layers: int | None = setting(None, least=1)
    """Encoder blocks of the student (default: half of the teacher's)."""

    hidden_size: int | None = setting(None, least=1)
    """Hidden size of the student; the width of attention heads and the proportion of the feed-forward layers stay the same
    (default: the teacher's)."""

    attention_heads: int | None = setting(None, least=1)
    """Attention heads of the student (default: in proportion to its hidden size)."""

    intermediate_size: int | None = setting(None, least=1)
    """Width of the student's feed-forward layers (default: in proportion to its hidden size)."""

    student: Mapping[str, Any] | None = setting(None, words="fields of a config by name")
    """Further fields of the student's config that differ from the teacher's, such as hidden_dropout_prob: 0."""

    start: str | None = setting(None, choices=STARTS)
    """Initial weights of the student: teacher (copied from blocks of the teacher) or scratch (random) (default: teacher if only the
    number of blocks differs)."""

    start_blocks: Sequence[int] = ()
    """Blocks of the teacher, from 1, that the student's blocks are copied from (default: evenly spaced from the first to the
    last)."""

    mlm_weight: float = setting(2.0, least=0)
    """Weight of the masked language modelling loss; 0 for none."""

    soft_weight: float = setting(5.0, least=0)
    """Weight of the distillation loss: the teacher's distribution over the vocabulary at the masked tokens; 0 for none."""

    temperature: float = setting(2.0, above=0)
    """Softmax temperature of that distillation loss."""

    hidden_weight: float = setting(1.0, least=0)
    """Weight of the loss between the hidden states of teacher and student; 0 for none."""

    hidden_layers: object = "last"
    """Layers whose hidden states are matched: last; uniform (every layer of the student with one of the teacher); or pairs
    TEACHER:STUDENT such as 12:6, counted from 1, with 0 for the embeddings."""

    hidden_measure: str = setting("cosine", choices=MEASURES)
    """Distance of hidden states: cosine, or mse (mean squared error)."""

    relation_weight: float = setting(0.0, least=0)
    """Weight of the loss between self-attention relations (MiniLM); 0 for none."""

    relation_layers: object = "last"
    """Blocks whose attention relations are matched, written like `hidden_layers`; MiniLMv2 uses 21:6 for a large teacher."""

    relation_heads: int | None = setting(None, least=1)
    """Relation heads, a divisor of both hidden sizes (default: the teacher's attention heads)."""

    relations: Sequence[str] = ("query-query", "key-key", "value-value")
    """Pairs of vectors whose relations are matched; the default is that of MiniLMv2."""

    @property
    def learned(self) -> DistilledTokens:
        return DISTILLED

    @property
    def read_paths(self) -> tuple[Any, ...]:
        return (self.teacher,)

    def __post_init__(self) -> None:
        _refuse_of_teacher(self)
        if not isinstance(self.teacher, str) or not self.teacher:
            raise ValueError(f"teacher must be the path of a checkpoint; got {self.teacher!r}.")
        super().__post_init__()
        if not any(getattr(self, name) for name in WEIGHTS[1:]):
            raise ValueError(f"one of {', '.join(WEIGHTS[1:])} must be above 0; without any, nothing is learned from the teacher.")
        if self.start == "scratch" and self.start_blocks:
            raise ValueError(f"start_blocks are for start='teacher'; got {list(self.start_blocks)} with 'scratch'.")
        for block in self.start_blocks:
            if not isinstance(block, int) or isinstance(block, bool):
                raise ValueError(f"start_blocks must be numbers of blocks; got {list(self.start_blocks)}.")
        if not self.relations or any(relation not in RELATIONS for relation in self.relations):
            raise ValueError(f"relations must be some of {', '.join(RELATIONS)}; got {list(self.relations)}.")
        for name in ("hidden_layers", "relation_layers"):
            object.__setattr__(self, name, _layers(name, getattr(self, name)))

    def model_config(self, vocab_size: int, pad_token_id: int) -> BertConfig:
        raise ValueError("the config of a student is derived from its teacher's: see student_config.")

    def resolved(self) -> dict[str, Any]:
        values = {name: value for name, value in super().resolved().items() if name not in OF_TEACHER}
        for name in ("hidden_layers", "relation_layers"):
            if not isinstance(values[name], str):
                values[name] = [f"{theirs}:{mine}" for theirs, mine in values[name]]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return settings_from_dict(cls, values, "a distillation")


def _refuse_of_teacher(settings):
    for name in OF_TEACHER:
        default = type(settings).__dataclass_fields__[name].default
        if getattr(settings, name) != default:
            raise ValueError(f"{name} must be left out of a distillation; got {getattr(settings, name)!r}.")


def _layers(name, value):
    """ "last", "uniform", or pairs of numbers."""
    words = [value] if isinstance(value, str) else value
    if isinstance(words, (list, tuple)) and list(words) in (["last"], ["uniform"]):
        return words[0]
    pairs = []
    for word in words if isinstance(words, (list, tuple)) else ():
        match = _PAIR.fullmatch(word) if isinstance(word, str) else None
        pair = tuple(map(int, match.groups())) if match else tuple(word) if isinstance(word, (list, tuple)) else ()
        if len(pair) != 2 or not all(isinstance(n, int) and not isinstance(n, bool) for n in pair):
            break
        pairs.append(pair)
    if not pairs or len(pairs) != len(words):
        raise ValueError(f"{name} must be 'last', 'uniform' or pairs TEACHER:STUDENT such as 12:6; got {value!r}.")
    return tuple(pairs)


def distill(
    teacher: str | os.PathLike[str],
    store: Any,
    output: str | os.PathLike[str],
    settings: DistillSettings | Mapping[str, Any] | None = None,
    *,
    report: Callable[[dict[str, Any]], object] | None = None,
    **changes: Any,
) -> BertModel:
    """Train a smaller model on a token store and on the outputs of a teacher, or resume an interrupted run.

    The run works as one of `pretrain` and writes the same files; its model is a `DistillationModel`. `model/` holds the student
    alone, with the tokenizer of the teacher, and loads as any pretrained model.

    Args:
        teacher: the path of an encoder, anything that `from_pretrained` reads. It is only read, and must not be moved before the
            run has finished.
        store: as for `pretrain`, with the vocabulary of the teacher.
        output: the folder of the run.
        settings: `DistillSettings`, or a dictionary of them without the teacher; None for the defaults.
        report: as for `pretrain`.
        **changes: single fields of `DistillSettings`, such as layers=6, which override those of `settings`.

    Returns:
        The student, a `PretrainingModel`; it takes one sequence per row even if it was trained with packing.

    Raises:
        ValueError: settings are invalid, or teacher, student and store do not match.
        BusyError, StoppedError, NonFiniteLossError: as for `pretrain`.
    """
    changes["teacher"] = os.fspath(teacher)
    if isinstance(settings, DistillSettings):
        settings = replace(settings, **changes)
    else:
        settings = DistillSettings.from_dict({**(settings or {}), **changes})
    model: Any = pretrain(store, output, settings, report=report)
    return whole_model(model.student, copied=True) if settings.packing else model.student
