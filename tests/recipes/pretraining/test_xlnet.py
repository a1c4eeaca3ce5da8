"""XLNet's pretraining: orders and targets of a batch, a folder that loads, exact resumption, and what a plan of it counts."""

import csv

import numpy as np
import pytest
from helpers import small_runs
from helpers.command_line import run_verb, said_by_verb
from helpers.small_corpus import FIRST, PAD, small_corpus

from keras_bert_rebuild import from_pretrained, plan
from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.recipes.pretraining.pretrain import pretrain, training_batches
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.step_costs import Work, num_params, step_memory, train_flops

SETTINGS = {
    **small_runs.FOUR_STEPS,
    "model": {**small_runs.FOUR_STEPS["model"], "num_hidden_layers": 2},
    "objective": "xlnet",
}


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory):
    return small_runs.whole_run(corpus, tmp_path_factory.mktemp("runs") / "run", SETTINGS)


def test_a_run_leaves_an_xlnet_with_a_trained_query_vector(whole):
    folder, rows, model = whole
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


@pytest.mark.slow(torch=True)
def test_a_stopped_run_ends_with_the_same_bits(whole, corpus, tmp_path):
    small_runs.check_resumption(whole, corpus, tmp_path / "run", SETTINGS)


def test_a_sixth_of_the_tokens_is_predicted_in_spans_in_an_order_of_the_example(corpus):
    settings = PretrainSettings.from_dict({**SETTINGS, "batch_size": 64, "seq_len": 64, "gradient_accumulation_steps": 1})
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


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"init": "folder"}, "init must be left out with objective='xlnet', which starts a new model; got 'folder'"),
        ({"next_sentence": "nsp"}, "next_sentence must be 'none' with objective='xlnet', as in XLNet; got 'nsp'"),
        ({"generator_size": 0.5}, "generator_size is for objective='electra'; got 0.5 with 'xlnet'"),
    ],
)
def test_settings_that_it_has_not_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        PretrainSettings.from_dict({**SETTINGS, **settings})


def test_models_of_another_family_and_without_blocks_are_refused(corpus, tmp_path):
    with pytest.raises(ValueError, match="trains models of the family xlnet; got a model of the family electra"):
        pretrain(corpus, tmp_path / "run", SETTINGS, model="electra-small")
    with pytest.raises(ValueError, match="two streams need a model with a query vector, a config and a block"):
        pretrain(corpus, tmp_path / "run", SETTINGS, model={**SETTINGS["model"], "num_hidden_layers": 0})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("model", "blocks", "width"), [("xlnet-base", 12, 768), ("xlnet-large", 24, 1024)])
def test_sizes_are_those_of_the_paper(model, blocks, width):
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


@pytest.mark.slow(torch=True)
def test_from_text_to_a_folder_on_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    who, does, what = ("the miller", "her sister", "a fox"), ("found", "lost", "sold"), ("a ring", "the mill", "two geese")
    tales = [[f"on day {a + 7 * b} {who[a % 3]} {does[b % 3]} {what[(a + b) % 3]} ." for a in range(6)] for b in range(30)]
    (tmp_path / "tales.txt").write_text("\n\n".join("\n".join(passages) for passages in tales))
    said_by_verb("vocab", capsys, "tales.txt", "--vocab-size", 170, "--output", "vocab.txt")
    said_by_verb("prepare", capsys, "tales.txt", "--tokenizer", "vocab.txt", "--output", "tokens", "--processes", 1)
    sizes = "num_hidden_layers: 1\n  hidden_size: 16\n  num_attention_heads: 2\n  intermediate_size: 16"
    (tmp_path / "s.yaml").write_text(f"model:\n  {sizes}\njit_compile: {str(SETTINGS['jit_compile']).lower()}\n")
    options = "--steps 3 --batch-size 8 --max-seq-length 16 --held-out 0 --no-tensorboard --workers 0 --loss-chunk 8 --remat"
    command = ["pretrain", capsys, "tokens", "--output", "run", "--settings", "s.yaml", "--objective", "xlnet", *options.split()]
    said = said_by_verb(*command)
    assert [line.split()[-1] for line in said.out.splitlines()] == ["run/model", "run/metrics.csv"]
    assert from_pretrained("run/model").config.family == "xlnet"
    assert (tmp_path / "run/model/vocab.txt").read_text() == (tmp_path / "vocab.txt").read_text()
    said = run_verb(*command, "--next-sentence", "nsp")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "next_sentence must be 'none' with objective='xlnet'" in said.err
