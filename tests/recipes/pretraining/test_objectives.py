"""ELECTRA's and XLNet's pretraining: folders that load, curves, exact resumption, and what a plan of them counts."""

import csv
import os

import numpy as np
import pytest
from helpers import small_runs
from helpers.command_line import prepare_tales, run_verb, said_by_verb
from helpers.small_corpus import FIRST, MASK, PAD, small_corpus

from keras_bert_rebuild import from_pretrained, plan
from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.recipes.pretraining.objectives import generator_config
from keras_bert_rebuild.recipes.pretraining.pretrain import pretrain, training_batches
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.step_costs import (
    Work,
    embedding_params,
    forward_flops,
    gradient_bytes,
    num_params,
    step_memory,
    train_flops,
)

ELECTRA = {**small_runs.FOUR_STEPS, "objective": "electra"}
XLNET = {
    **small_runs.FOUR_STEPS,
    "model": {**small_runs.FOUR_STEPS["model"], "num_hidden_layers": 2},
    "objective": "xlnet",
}


@pytest.fixture(scope="module")
def electra(corpus, tmp_path_factory):
    return small_runs.whole_run(corpus, tmp_path_factory.mktemp("runs") / "run", ELECTRA)


def test_a_run_leaves_a_discriminator_and_a_generator_with_one_embedding(electra):
    folder, _, model = electra
    discriminator, generator = (from_pretrained(folder / name) for name in ("model", "generator"))
    assert [heads_of(part) for part in (discriminator, generator)] == [("rtd",), ("mlm",)]
    assert (
        generator.config == generator_config(discriminator.config) == model.generator.config.replace(labels=generator.config.labels)
    )
    assert (generator.config.hidden_size, generator.config.embedding_width) == (4, 16)
    for layer in ("Embedding-Token", "Embedding-Segment", "Embedding-Position", "Embedding-Norm"):
        tables = [part.get_layer(layer).get_weights() for part in (discriminator, generator)]
        for one, other in zip(*tables, strict=True):
            np.testing.assert_array_equal(one, other)
    with pytest.warns(UserWarning, match=r"4 of 25 variables are newly initialised: NSP-Dense/kernel, .*, Classification/bias"):
        finetuned = from_pretrained(folder / "model", heads=["classification"], strict=False)
    assert finetuned.output_shape == (None, 2)


def test_the_curve_has_the_losses_and_accuracies_of_both(electra):
    folder, rows, _model = electra
    with (folder / "metrics.csv").open(newline="") as file:
        (_, last) = csv.DictReader(file)
    for kind in ("", "held_out_"):
        assert all(last[f"{kind}{name}"] for name in ("mlm_loss", "mlm_accuracy", "rtd_loss", "rtd_accuracy", "rtd_replaced"))
        found = {name: rows[-1][f"{kind}{name}"] for name in ("loss", "mlm_loss", "rtd_loss")}
        assert found["loss"] == pytest.approx(found["mlm_loss"] + 50 * found["rtd_loss"], rel=1e-5)
    assert not any("pair" in name for name in last)
    assert 0 < rows[-1]["rtd_replaced"] <= 0.25
    assert rows[-1]["flop_utilisation"] > 0


def test_chosen_tokens_are_masked_or_kept_and_draws_belong_to_examples(corpus):
    settings = PretrainSettings.from_dict({**ELECTRA, "batch_size": 64, "gradient_accumulation_steps": 1, "mask_rate": 0.3})
    batches = training_batches(corpus, settings.all_phases[0], settings)
    (tokens, _, draws, chosen), labels = batches.batch(0, 1)
    original = labels[..., 0]
    assert (original[chosen == 1] >= 5).all()
    np.testing.assert_array_equal(tokens[chosen == 0], original[chosen == 0])
    masked = tokens[chosen == 1] == MASK
    assert 0.75 < masked.mean() < 0.95
    np.testing.assert_array_equal(tokens[chosen == 1][~masked], original[chosen == 1][~masked])
    assert 0 <= draws.min() < 1 << 20 < (1 << 24) - (1 << 20) < draws.max() < 1 << 24
    np.testing.assert_array_equal(batches.batch(0, 1)[0][2], draws)
    half = training_batches(corpus, settings.all_phases[0], settings, process_index=1, process_count=2)
    np.testing.assert_array_equal(half.batch(0, 1)[0][2], draws[32:])
    assert (tokens == PAD).any()


def test_models_of_another_family_and_generators_without_width_are_refused(corpus, tmp_path):
    with pytest.raises(ValueError, match="trains models of the family electra; got a model of the family transformer"):
        pretrain(corpus, tmp_path / "run", ELECTRA, model="transformer-base")
    with pytest.raises(ValueError, match=r"generator_size must give a width above 0 .*got 0\.01 of 16, a width of 0 with 1 heads"):
        pretrain(corpus, tmp_path / "run", ELECTRA, generator_size=0.01)
    assert not (tmp_path / "run").exists()


def test_settings_of_masked_tokens_are_written_as_before():
    masked, replaced = PretrainSettings(), PretrainSettings(objective="electra")
    assert not {"objective", "generator_size", "discriminator_weight"} & masked.resolved().keys()
    assert masked.resolved()["next_sentence"] == "nsp"
    assert replaced.resolved()["discriminator_weight"] == 50
    assert replaced.resolved()["next_sentence"] == "none"


@pytest.mark.parametrize(
    ("model", "blocks", "width", "of_generator"), [("electra-base", 12, 768, 256), ("electra-large", 24, 1024, 256)]
)
def test_sizes_are_those_of_the_paper(model, blocks, width, of_generator):
    config = PretrainSettings(objective="electra", model=model).model_config(30522, 0)
    generator = generator_config(config)
    assert (config.num_hidden_layers, config.hidden_size, config.embedding_width) == (blocks, width, width)
    assert (generator.num_hidden_layers, generator.hidden_size, generator.num_attention_heads) == (blocks, of_generator, 4)
    assert (generator.intermediate_size, generator.embedding_width) == (4 * of_generator, width)
    small = PretrainSettings(objective="electra", model="electra-small").model_config(30522, 0)
    assert (small.hidden_size, small.embedding_width, generator_config(small).hidden_size) == (256, 128, 64)


def test_a_plan_counts_both_models():
    settings = {"objective": "electra", "batch_size": 8, "seq_len": 128, "max_predictions": 20}
    made = plan("electra-small", gpus=1, gpu="h100", **settings)
    run = PretrainSettings(**settings)
    config = PretrainSettings(objective="electra", model="electra-small").model_config(30522, 0)
    generator = generator_config(config)
    shared = (30522 + 2 + 512 + 2) * 128
    assert embedding_params(config) == shared
    assert made.num_parameters == config.num_params(["rtd"]) + generator.num_params(["mlm"]) - shared
    work = Work(8 * 128, 8 * 128**2, 8 * 20, 8)
    both = forward_flops(config, work, heads=["rtd"]) + forward_flops(generator, work, pair_head=False)
    assert made.flops == 3 * both
    assert made.memory == step_memory(config, run, "gpu", 8)
    assert made.memory.parameters == 4 * num_params(config, run)
    single = PretrainSettings(**{**settings, "objective": "mlm"}, next_sentence="none")
    activations = [step_memory(part, single, "gpu", 8).activations for part in (config, generator)]
    assert made.memory.activations == sum(activations)
    assert gradient_bytes(config, run) == 4 * num_params(config, run) + 2 * 4 * 30522 * 128
    with pytest.raises(ValueError, match="trains models of the family electra; got a model of the family transformer"):
        plan("transformer-base", gpus=1, gpu="h100", **settings)


# XLNet's pretraining: orders and targets of a batch, a folder that loads, exact resumption, and what a plan of it counts.


@pytest.fixture(scope="module")
def xlnet(corpus, tmp_path_factory):
    return small_runs.whole_run(corpus, tmp_path_factory.mktemp("runs") / "run", XLNET)


def test_a_run_leaves_an_xlnet_with_a_trained_query_vector(xlnet):
    folder, rows, model = xlnet
    found = from_pretrained(folder / "model")
    assert (found.config.family, heads_of(found), len(model.weights)) == ("xlnet", ("mlm",), len(found.weights))
    assert found.get_layer("Embedding-Query").trainable_weights == []
    with (folder / "metrics.csv").open(newline="") as file:
        (_, last) = csv.DictReader(file)
    for kind in ("", "held_out_"):
        assert all(last[f"{kind}{name}"] for name in ("loss", "mlm_loss", "mlm_accuracy", "mlm_perplexity"))
    assert not any("pair" in name for name in last)
    assert rows[-1]["flop_utilisation"] > 0
    finetuned = from_pretrained(folder / "model", heads=[])
    assert finetuned.output_shape == (None, None, 16)


def test_a_sixth_of_the_tokens_is_predicted_in_spans_in_an_order_of_the_example(corpus):
    settings = PretrainSettings.from_dict({**XLNET, "batch_size": 64, "seq_len": 64, "gradient_accumulation_steps": 1})
    assert (settings.masking, settings.mask_rate, settings.next_sentence) == ("span", 1 / 6, "none")
    corpus = small_corpus(documents=8, passages=40, longest=20)
    batches = training_batches(corpus, settings.all_phases[0], settings)
    (tokens, segments, order, chosen), labels = batches.batch(0, 1)
    np.testing.assert_array_equal(tokens, labels[..., 0])
    assert (tokens[chosen == 1] >= FIRST).all()
    assert chosen.sum() / (tokens >= FIRST).sum() == pytest.approx(1 / 6, rel=0.05)
    np.testing.assert_array_equal(order > 0, chosen == 1)
    np.testing.assert_array_equal(np.sort(order, axis=1)[:, ::-1].max(axis=1), chosen.sum(axis=1))
    for places, at in zip(order, chosen == 1, strict=True):
        np.testing.assert_array_equal(np.sort(places[at]), np.arange(1, at.sum() + 1))
    ups = sum((np.diff(places[places > 0]) > 0).sum() for places in order) / (chosen.sum() - len(chosen))
    assert 0.4 < ups < 0.6
    after = (chosen[:, 1:] & chosen[:, :-1]).sum() / chosen.sum()
    assert after > 0.35  # neighbours at random would be a sixth
    assert segments.max() == 0
    assert (tokens == PAD).any()
    np.testing.assert_array_equal(batches.batch(0, 1)[0][2], order)
    assert (batches.batch(0, 2)[0][2] != order).any()
    half = training_batches(corpus, settings.all_phases[0], settings, process_index=1, process_count=2)
    np.testing.assert_array_equal(half.batch(0, 1)[0][2], order[32:])


def test_models_of_another_family_and_without_blocks_are_refused(corpus, tmp_path):
    with pytest.raises(ValueError, match="trains models of the family xlnet; got a model of the family electra"):
        pretrain(corpus, tmp_path / "run", XLNET, model="electra-small")
    with pytest.raises(ValueError, match="two streams need a model with a query vector, a config and a block"):
        pretrain(corpus, tmp_path / "run", XLNET, model={**XLNET["model"], "num_hidden_layers": 0})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("model", "blocks", "width"), [("xlnet-base", 12, 768), ("xlnet-large", 24, 1024)])
def test_sizes_of_xlnet_are_those_of_the_paper(model, blocks, width):
    config = PretrainSettings(objective="xlnet", model=model).model_config(32000, 5)
    assert (config.family, config.num_hidden_layers, config.hidden_size) == ("xlnet", blocks, width)
    assert (config.num_attention_heads, config.intermediate_size) == (width // 64, 4 * width)


def test_a_plan_counts_both_streams():
    settings = {"objective": "xlnet", "batch_size": 8, "seq_len": 128, "mask_rate": 0.25}
    made = plan("xlnet-base", gpus=1, gpu="h100", **settings)
    run = PretrainSettings(**settings)
    config = PretrainSettings(objective="xlnet", model="xlnet-base").model_config(32000, 5)
    assert made.num_parameters == config.num_params(["mlm"]) == num_params(config, run)
    work = Work(8 * 128, 8 * 128**2, 8 * 33, 8)
    second = train_flops(config, Work(work.tokens // 4, work.squares // 4), heads=["mlm"])
    assert made.flops == train_flops(config, work, heads=["mlm"]) + second
    assert made.memory == step_memory(config, run, "gpu", 8)
    single = step_memory(config, PretrainSettings(**{**settings, "objective": "mlm"}, next_sentence="none"), "gpu", 8)
    assert made.memory.activations == single.activations * 5 // 4
    with pytest.raises(ValueError, match="trains models of the family xlnet; got a model of the family transformer"):
        plan("transformer-base", gpus=1, gpu="h100", **settings)


# Both.


@pytest.mark.slow(torch=True)
@pytest.mark.parametrize(("run", "folders"), [(ELECTRA, ("model", "generator")), (XLNET, ("model",))], ids=["electra", "xlnet"])
def test_a_stopped_run_ends_with_the_same_bits(run, folders, request, corpus, tmp_path):
    whole = request.getfixturevalue(run["objective"])
    small_runs.check_resumption(whole, corpus, tmp_path / "run", run, folders)
    assert sorted(os.listdir(tmp_path / "run" / folders[-1])) == sorted(os.listdir(whole[0] / folders[-1]))


@pytest.mark.parametrize(
    ("run", "settings", "message"),
    [
        (ELECTRA, {"init": "folder"}, "init must be left out with objective='electra', which starts a new generator with its"),
        (
            ELECTRA,
            {"loss_chunk": 64},
            "loss_chunk must be left out with objective='electra', which samples from all logits; got 64",
        ),
        (ELECTRA, {"next_sentence": "nsp"}, "next_sentence must be 'none' with objective='electra', as in ELECTRA; got 'nsp'"),
        (ELECTRA, {"generator_size": 1.5}, "generator_size must be a number from 0 to 1; got 1.5"),
        (ELECTRA, {"discriminator_weight": 0}, "discriminator_weight must be a number above 0; got 0"),
        (ELECTRA, {"objective": "mlm", "generator_size": 0.5}, "generator_size is for objective='electra'; got 0.5 with 'mlm'"),
        (ELECTRA, {"objective": "mlm", "discriminator_weight": 2.0}, "discriminator_weight is for objective='electra'; got 2.0"),
        (ELECTRA, {"objective": "xyz"}, "objective must be one of 'mlm', 'electra', 'xlnet'; got 'xyz'"),
        (XLNET, {"init": "folder"}, "init must be left out with objective='xlnet', which starts a new model; got 'folder'"),
        (XLNET, {"next_sentence": "nsp"}, "next_sentence must be 'none' with objective='xlnet', as in XLNet; got 'nsp'"),
        (XLNET, {"generator_size": 0.5}, "generator_size is for objective='electra'; got 0.5 with 'xlnet'"),
    ],
)
def test_settings_of_another_objective_are_refused(run, settings, message):
    with pytest.raises(ValueError, match=message):
        PretrainSettings.from_dict({**run, **settings})


@pytest.mark.slow(torch=True)
@pytest.mark.parametrize(
    ("objective", "options", "last", "wrong", "message"),
    [
        (
            "electra",
            "--generator-size 0.5",
            "generator",
            "--loss-chunk 8",
            "--loss-chunk must be left out",
        ),
        (
            "xlnet",
            "--loss-chunk 8 --remat",
            "model",
            "--next-sentence nsp",
            "--next-sentence must be 'none'",
        ),
    ],
    ids=["electra", "xlnet"],
)
def test_from_text_to_its_folders_on_the_command_line(tmp_path, capsys, monkeypatch, objective, options, last, wrong, message):
    monkeypatch.chdir(tmp_path)
    prepare_tales(capsys, tmp_path)
    sizes = "num_hidden_layers: 1\n  hidden_size: 16\n  num_attention_heads: 2\n  intermediate_size: 16"
    (tmp_path / "s.yaml").write_text(f"model:\n  {sizes}\njit_compile: {str(ELECTRA['jit_compile']).lower()}\n")
    options = f"--steps 3 --batch-size 8 --max-seq-length 16 --held-out 0 --workers 0 {options}".split()
    command = ["pretrain", capsys, "tokens", "--output", "run", "--settings", "s.yaml", "--objective", objective, *options]
    written = [line.split()[-1] for line in said_by_verb(*command).out.splitlines()]
    assert written == [*dict.fromkeys(["run/model", f"run/{last}"]), "run/metrics.csv"]
    result = from_pretrained(f"run/{last}").config
    assert (result.family, result.hidden_size) == (objective, 8 if objective == "electra" else 16)
    assert (tmp_path / "run/model/vocab.txt").read_text() == (tmp_path / "vocab.txt").read_text()
    said = run_verb(*command, *wrong.split())
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert message in said.err
