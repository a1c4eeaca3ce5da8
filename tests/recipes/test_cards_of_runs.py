"""The card of what a training made says what it was trained on, how, and how well it does, and quotes no text."""

import csv
import math

import pytest
from helpers import small_runs
from helpers.small_corpus import small_corpus
from helpers.small_recipe import write_recipe, write_text
from helpers.small_tasks import PETS, TOKENIZER, small_encoder
from huggingface_hub import ModelCard

from keras_bert_rebuild import finetune, save_pretrained
from keras_bert_rebuild.checkpoints.safetensors_files import SafetensorsFiles
from keras_bert_rebuild.pretrained.card_files import base_of, write_card
from keras_bert_rebuild.recipes.pretraining.pretrain import pretrain
from keras_bert_rebuild.recipes.pretraining.pretrain_recipe import pretrain_recipe

# Whole trainings.
pytestmark = pytest.mark.slow(torch=True)

BASE = {"license": "mit", "base_model": "someone/base", "base_model_revision": "0" * 40}


@pytest.fixture
def encoder(tmp_path):
    folder = tmp_path / "encoder"
    save_pretrained(small_encoder(), folder, vocabulary=list(TOKENIZER.vocabulary))
    write_card(folder, small_encoder(), base=BASE)
    return folder


def measured(card):
    """The scores in the metadata: split and metric to value."""
    return {(result.dataset_split, result.metric_type): result.metric_value for result in card.data.eval_results}


@pytest.mark.parametrize("rank", [None, 2])
def test_a_fine_tuning_writes_its_scores_data_and_settings_and_keeps_the_base(encoder, tmp_path, rank):
    train, folder = tmp_path / "train.tsv", tmp_path / "run"
    train.write_text("".join(f"{example.text}\t{example.label}\n" for example in PETS))
    settings = {"epochs": 1, "batch_size": 2, "max_len": 16, "lora_rank": rank, "jit_compile": False}
    done = finetune("classification", encoder, train, PETS[:4], folder, settings, test=train)
    card = ModelCard.load(folder / "model" / "README.md")
    expected = {("dev", name): value for name, value in done.scores.items()}
    expected |= {("test", name): value for name, value in done.test_scores.items()}
    assert measured(card) == pytest.approx({key: value for key, value in expected.items() if math.isfinite(value)})
    files = {(result.dataset_split, result.dataset_name) for result in card.data.eval_results}
    assert files == {("dev", "4 examples"), ("test", "train.tsv")}
    assert "| train | train.tsv | 6 |\n| dev | 4 examples | 4 |\n| test | train.tsv | 6 |\n" in card.text
    assert "| batch_size | 2 |\n" in card.text
    assert base_of(folder / "model") == BASE
    weights = SafetensorsFiles(folder / "model" / "model.safetensors")
    assert f"| parameters | {sum(math.prod(weights.shape(name)) for name in weights.names):,} |" in card.text
    assert not any(example.text in card.content for example in PETS)
    assert str(tmp_path) not in card.content


def test_a_pretraining_writes_the_last_scores_of_held_out_text(tmp_path):
    corpus, folder = small_corpus(documents=16, passages=4, longest=10), tmp_path / "run"
    pretrain(corpus, folder, small_runs.FOUR_STEPS)
    card = ModelCard.load(folder / "model" / "README.md")
    with (folder / "metrics.csv").open(newline="") as file:
        last = [row for row in csv.DictReader(file) if row["held_out_loss"]][-1]
    expected = {("held out", name): float(value) for name, value in last.items() if name.startswith("held_out_") and value}
    assert expected
    assert measured(card) == pytest.approx(expected)
    assert f"| corpus | a corpus of this process | {corpus.num_tokens:,} |" in card.text
    assert "| learning_rate | 0.01 |\n" in card.text


def test_a_training_by_a_recipe_writes_its_score_of_masked_words(tmp_path):
    text = write_text(tmp_path / "text.txt")
    result = pretrain_recipe(text, tmp_path / "out", write_recipe(tmp_path / "small.yaml"), steps=2, processes=1)
    card = ModelCard.load(result.folder / "README.md")
    assert (card.data.eval_results[0].dataset_name, card.data.eval_results[0].dataset_split) == ("text.txt", "held out")
    assert measured(card)["held out", "accuracy"] == pytest.approx(result.score.accuracy)
    assert measured(card)["held out", "unigram_loss"] == pytest.approx(result.score.unigram_loss)
    assert "| corpus | text.txt |" in card.text
