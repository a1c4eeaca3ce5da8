"""Distillation as a run: the folder of a student, the same bits after a stop, which blocks it starts from, and what is refused."""

import csv

import keras
import numpy as np
import pytest
from helpers import small_runs
from helpers.small_tasks import VOCABULARY
from helpers.tiny_families import modules, name_of_module, tiny_config
from keras import ops

from keras_bert_rebuild import BertConfig, build_model, from_pretrained, save_pretrained
from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.recipes.pretraining.distill import DistillSettings, distill, objectives_of
from keras_bert_rebuild.recipes.pretraining.student import (
    copy_weights,
    layer_pairs,
    source_blocks,
    starts_from_teacher,
    student_config,
)
from keras_bert_rebuild.recipes.step_costs import Work, forward_flops, step_memory, trained_flops
from keras_bert_rebuild.training.state.checkpoint_folder import CheckpointFolder

# Two models in every step.
pytestmark = pytest.mark.slow

SETTINGS = {name: value for name, value in small_runs.FOUR_STEPS.items() if name != "model"}
# Everything that has a state of its own or another shape than the teacher's.
NARROW = {"layers": 1, "hidden_size": 8, "attention_heads": 2, "relation_weight": 1.0, "relation_heads": 4}


@pytest.fixture(scope="module")
def teacher(corpus, tmp_path_factory):
    """The folder of a teacher with random weights."""
    sizes = {"num_hidden_layers": 4, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16}
    config = BertConfig(vocab_size=len(corpus.vocabulary), max_position_embeddings=32, **sizes)
    folder = tmp_path_factory.mktemp("teacher") / "model"
    keras.utils.set_random_seed(3)
    save_pretrained(build_model(config, ["mlm"]), folder, vocabulary=list(corpus.vocabulary))
    return folder


@pytest.fixture(scope="module")
def whole(teacher, corpus, tmp_path_factory):
    """A distillation to half of the blocks: its folder, the rows of its curve, and its student."""
    rows, folder = [], tmp_path_factory.mktemp("runs") / "run"
    return folder, rows, distill(teacher, corpus, folder, SETTINGS, report=rows.append)


def arrays(model):
    return {weight.path: ops.convert_to_numpy(weight) for weight in model.weights}


def test_the_result_is_a_plain_folder_with_the_tokenizer_of_the_teacher(whole, teacher):
    folder, _, student = whole
    saved = from_pretrained(folder / "model")
    assert heads_of(saved) == ("mlm",)
    assert saved.config.num_hidden_layers == 2 == student.config.num_hidden_layers
    assert saved.config.replace(num_hidden_layers=4) == from_pretrained(teacher).config
    assert (folder / "model/vocab.txt").read_bytes() == (teacher / "vocab.txt").read_bytes()


def test_the_curve_has_every_loss_and_their_sum(whole):
    folder, rows, _ = whole
    with (folder / "metrics.csv").open(newline="") as file:
        (*_, last) = csv.DictReader(file)
    for kind in ("", "held_out_"):
        assert all(last[f"{kind}{name}"] for name in ("mlm_loss", "mlm_accuracy", "soft_loss", "hidden_loss"))
        row = {name: rows[-1][f"{kind}{name}"] for name in ("loss", "mlm_loss", "soft_loss", "hidden_loss")}
        assert row["loss"] == pytest.approx(2 * row["mlm_loss"] + 5 * row["soft_loss"] + row["hidden_loss"], rel=1e-5)
        assert last[f"{kind}relation_loss"] == ""
    assert rows[-1]["flop_utilisation"] > 0


def test_checkpoints_do_not_have_the_teacher(whole):
    folder, _, student = whole
    names = CheckpointFolder(folder / "checkpoints").newest().arrays().names
    assert sum(name.startswith("weights/") for name in names) == len(student.weights)
    assert not any("Encoder-3" in name for name in names)


@pytest.mark.slow(torch=True)
@pytest.mark.parametrize("changes", [{}, NARROW, {"packing": True, "relation_weight": 1.0}])
def test_a_stopped_run_ends_with_the_same_bits(teacher, corpus, tmp_path, changes):
    settings = {**SETTINGS, **changes}
    first = distill(teacher, corpus, tmp_path / "run", settings)
    small_runs.check_resumption(
        (tmp_path / "run", None, first),
        corpus,
        tmp_path / "again",
        settings,
        run=lambda corpus, folder, settings: distill(teacher, corpus, folder, settings),
    )


@pytest.mark.slow(torch=True)
def test_a_student_nobody_taught_tokens_is_saved_as_an_encoder(teacher, corpus, tmp_path):
    weights = {"mlm_weight": 0, "soft_weight": 0, "hidden_weight": 0, "relation_weight": 1.0}
    student = distill(teacher, corpus, tmp_path / "run", {**SETTINGS, **weights, "ema": None})
    saved = from_pretrained(tmp_path / "run/model")
    assert heads_of(saved) == ()
    trained = arrays(student)
    for path, value in arrays(saved).items():
        np.testing.assert_array_equal(value, trained[path], err_msg=path)


@pytest.mark.slow(torch=True)
def test_a_student_comes_closer_to_its_teacher(teacher, corpus, tmp_path):
    rows = []
    alone = {"gradient_accumulation_steps": 1, "ema": None, "mlm_weight": 0, "start": "scratch"}
    settings = {**SETTINGS, **alone, "steps": 32, "log_steps": 16, "evaluate_steps": 16, "warmup_steps": 4}
    distill(teacher, corpus, tmp_path / "run", settings, report=rows.append)
    for name in ("held_out_soft_loss", "held_out_hidden_loss"):
        assert rows[-1][name] < rows[1][name], name


def settings_with(**changes):
    return DistillSettings(teacher="t", **changes)


@pytest.mark.parametrize(
    ("present", "wanted", "blocks"),
    [(12, 6, (1, 3, 5, 8, 10, 12)), (12, 12, tuple(range(1, 13))), (12, 1, (1,)), (6, 3, (1, 4, 6)), (2, 2, (1, 2))],
)
def test_blocks_are_taken_evenly_from_the_first_to_the_last(present, wanted, blocks):
    """Six of twelve are those of DistilBERT, which counts them from 0: 0, 2, 4, 7, 9, 11."""
    teacher, student = (BertConfig(num_hidden_layers=layers) for layers in (present, wanted))
    assert source_blocks(settings_with(), teacher, student) == blocks


def test_maps_of_layers_are_data():
    teacher, student = BertConfig(num_hidden_layers=12), BertConfig(num_hidden_layers=4)
    assert layer_pairs("last", teacher, student) == ((12, 4),)
    assert layer_pairs("uniform", teacher, student) == ((3, 1), (6, 2), (9, 3), (12, 4))
    given = settings_with(hidden_layers=["12:4", "0:0"], relation_weight=2.0, relation_layers="uniform", relations=["query-key"])
    soft, hidden, relation = objectives_of(given, teacher, student)
    assert (soft.weight, soft.temperature, hidden.layers, hidden.measure) == (5.0, 2.0, ((12, 4), (0, 0)), "cosine")
    assert (relation.weight, relation.heads, relation.relations) == (2.0, 12, (("query", "key"),))
    assert DistillSettings.from_dict(given.resolved()).resolved() == given.resolved()


@pytest.mark.parametrize(
    "name",
    [
        "bert",
        *(
            pytest.param(n, marks=pytest.mark.slow(torch=True))
            for n in map(name_of_module, modules())
            if n not in ("bert", "xlnet")
        ),
    ],
)
def test_a_student_of_every_family_starts_with_blocks_of_its_teacher(rng, name):
    module = next(module for module in modules() if name_of_module(module) == name)
    config = tiny_config(module, num_hidden_layers=4)
    given = settings_with(layers=2)
    student = student_config(given, config)
    assert student == config.replace(num_hidden_layers=2)
    assert starts_from_teacher(given, config, student)
    both = [build_model(c, ["mlm"]) for c in (config, student)]
    copy_weights(*both, source_blocks(given, config, student))
    theirs, mine = map(arrays, both)
    for path, value in mine.items():
        source = path.replace("Encoder-2-", "Encoder-4-") if config.num_distinct_blocks > 1 else path
        np.testing.assert_array_equal(value, theirs[source], err_msg=path)


def test_the_sizes_of_a_student_follow_from_its_width():
    teacher = BertConfig()
    config = student_config(settings_with(layers=4, hidden_size=384, student={"hidden_dropout_prob": 0.0}), teacher)
    assert (config.num_attention_heads, config.intermediate_size, config.hidden_dropout_prob) == (6, 1536, 0.0)
    assert not starts_from_teacher(settings_with(), teacher, config)
    tiny = student_config(settings_with(hidden_size=312, attention_heads=12, intermediate_size=1200), teacher)
    assert (tiny.num_hidden_layers, tiny.num_attention_heads, tiny.intermediate_size) == (6, 12, 1200)


def test_operations_are_those_of_the_student_and_the_forward_pass_of_the_teacher(teacher, whole):
    given = DistillSettings(teacher=str(teacher), **SETTINGS)
    work = Work(4 * 16, 4 * 16**2, 4 * 3, 4)
    student, config = whole[2].config, from_pretrained(teacher).config
    models = given.learned.models(student, given)
    expected = [3 * forward_flops(student, work, heads=("mlm",)), forward_flops(config, work, heads=("mlm",))]
    assert [trained_flops(part, work) for part in models] == expected


def test_memory_has_the_weights_of_the_teacher_and_neither_gradients_nor_moments_of_it(teacher, whole):
    given, student = DistillSettings(teacher=str(teacher), **SETTINGS), whole[2].config
    own, other = (config.num_params(["mlm"]) for config in (student, from_pretrained(teacher).config))
    memory = step_memory(student, given, "gpu", 2)
    assert memory.parameters == 4 * (own + other)
    assert memory.optimizer == 4 * own * (2 + 1 + 1)  # moments, averages and accumulated gradients
    assert memory.gradients == 4 * (own + student.vocab_size * student.hidden_size)
    hard = step_memory(student, DistillSettings(teacher=str(teacher), **SETTINGS, soft_weight=0), "gpu", 2)
    assert memory.activations == hard.activations
    assert memory.working >= hard.working


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"soft_weight": 0, "hidden_weight": 0}, "one of soft_weight, hidden_weight, relation_weight must be above 0"),
        ({"soft_weight": -1}, "soft_weight must be a number of at least 0; got -1"),
        ({"temperature": 0}, "temperature must be a number above 0; got 0"),
        ({"hidden_layers": "first"}, "hidden_layers must be 'last', 'uniform' or pairs TEACHER:STUDENT such as 12:6; got 'first'"),
        ({"relation_layers": ["3:1", "x"]}, r"relation_layers must be 'last', 'uniform' or pairs .*got \['3:1', 'x'\]"),
        ({"relations": ["query-mask"]}, r"relations must be some of query-query, .*got \['query-mask'\]"),
        ({"hidden_measure": "l1"}, "hidden_measure must be one of 'cosine', 'mse'; got 'l1'"),
        ({"start": "none"}, "start must be one of 'teacher', 'scratch'; got 'none'"),
        ({"start": "scratch", "start_blocks": [1]}, r"start_blocks are for start='teacher'; got \[1\] with 'scratch'"),
        ({"layers": 0}, "layers must be a whole number of at least 1; got 0"),
        ({"model": "tiny"}, "model must be left out of a distillation; got 'tiny'"),
        ({"next_sentence": "nsp"}, "next_sentence must be left out of a distillation; got 'nsp'"),
        ({"layer": 2}, "expected settings of a distillation; got layer; did you mean layers"),
        ({"student": {"vocab_size": 3}}, "fields of a config of the family bert without family, vocab_size, .*; got vocab_size"),
        ({"hidden_size": 12}, "hidden_size must be a multiple of 8, the width of the teacher's heads, or needs attention_heads"),
        ({"hidden_size": 12, "attention_heads": 5}, "the heads of the student must divide its width, 12; got 5 heads"),
        (
            {"start": "teacher", "hidden_size": 8},
            r"must have its shapes: Embedding-Token/embeddings is \(\d+, 8\); the teacher has",
        ),
        ({"start": "teacher", "layers": 5}, "must have at most its 4 blocks; got 5: use start='scratch'"),
        ({"start_blocks": [1, 5]}, r"start_blocks must be 2 blocks of the teacher, from 1 to 4; got \[1, 5\]"),
        ({"hidden_layers": ["5:2"]}, "hidden states must be from 0 to 4 in the teacher; got 5:2"),
        ({"relation_weight": 1, "relation_heads": 3}, "relation heads must divide the width of the teacher, 16; got 3"),
        ({"seq_len": 40}, "the student has 32 positions; a phase has examples of 40 tokens"),
    ],
)
def test_what_does_not_fit_is_refused_and_leaves_nothing(teacher, corpus, tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        distill(teacher, corpus, tmp_path / "run", {**SETTINGS, **changes})
    assert not (tmp_path / "run").exists()


def test_a_store_with_other_tokens_is_refused(teacher, corpus, tmp_path):
    other = tmp_path / "other"
    save_pretrained(from_pretrained(teacher), other, vocabulary=[*list(corpus.vocabulary)[:-1], "zzz"])
    with pytest.raises(ValueError, match=r"must have the teacher's vocabulary: token \d+ of .*other is 'zzz'; the store's"):
        distill(other, corpus, tmp_path / "run", SETTINGS)
    config = BertConfig.from_dict({**from_pretrained(teacher).config.to_dict(), "vocab_size": len(VOCABULARY)})
    save_pretrained(build_model(config, ["mlm"]), tmp_path / "small", vocabulary=VOCABULARY)
    with pytest.raises(ValueError, match=rf"small has {len(VOCABULARY)} as tokens in its vocabulary; the store has"):
        distill(tmp_path / "small", corpus, tmp_path / "run", SETTINGS)


def test_a_teacher_without_a_head_has_no_soft_targets(teacher, corpus, tmp_path):
    encoder = tmp_path / "encoder"
    save_pretrained(from_pretrained(teacher, heads=()), encoder, vocabulary=list(corpus.vocabulary))
    with pytest.raises(
        ValueError, match=r"soft targets need a teacher with an MLM head, and .*encoder has none: use soft_weight=0"
    ):
        distill(encoder, corpus, tmp_path / "run", SETTINGS)
    with pytest.raises(ValueError, match="there is no file or folder nowhere"):
        distill("nowhere", corpus, tmp_path / "run", SETTINGS)
    assert not (tmp_path / "run").exists()
