"""Distillation as an objective of a pretraining run: a student, its teacher, and what the student imitates."""

from keras_bert_rebuild.anatomy.bare_if_one import bare_if_one
from keras_bert_rebuild.data.pretraining.vocabulary_tables import vocabulary_tables
from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.models.build_model import build_model
from keras_bert_rebuild.models.distillation_model import build_distillation_model
from keras_bert_rebuild.models.distillation_objectives import AttentionRelations, HiddenStates, SoftTargets
from keras_bert_rebuild.models.pretraining_graph import PretrainingGraph
from keras_bert_rebuild.recipes.pretraining.models_of_run import check_positions
from keras_bert_rebuild.recipes.pretraining.objectives import MaskedTokens, Trained, renamed
from keras_bert_rebuild.recipes.pretraining.student import (
    check_vocabulary,
    copy_weights,
    load_teacher,
    source_blocks,
    starts_from_teacher,
    student_config,
    teacher_facts,
    teacher_tokenizer,
)


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
        return [(model.student if learns_tokens else _without_head(model.student), settings.packing)]

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


def layer_pairs(layers, teacher, student):
    """Pairs of a layer of the teacher and one of the student.

    Args:
        layers: "last", the last of each; "uniform", each layer of the student with one of the teacher at equal distances; or pairs.
        teacher, student: the `BertConfig` of each.

    Reference: Jiao et al., 2020, section 3.1, for "uniform" (https://arxiv.org/abs/1909.10351).
    """
    theirs, mine = teacher.num_hidden_layers, student.num_hidden_layers
    if layers == "last":
        return ((theirs, mine),)
    if layers == "uniform":
        return tuple((round(n * theirs / mine), n) for n in range(1, mine + 1))
    return tuple(layers)


def _without_head(student):
    """The encoder of a student, as a model that shares its layers."""
    hidden = PretrainingGraph(student).without_last_layers.outputs[0]
    model = BertModel(bare_if_one([tensor for tensor in student.inputs if tensor.name != "Input-Masked"]), hidden)
    model.config = student.config
    return model
