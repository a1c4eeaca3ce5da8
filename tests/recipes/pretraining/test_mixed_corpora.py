"""Pretraining on several corpora by weight: in the folder's settings, resumed exactly, and never on what is held out."""

import pytest
import yaml
from helpers import small_runs
from helpers.small_corpus import small_corpus

from keras_bert_rebuild.data.corpora.held_out import SomeDocuments
from keras_bert_rebuild.data.corpora.mixed import MixedCorpus
from keras_bert_rebuild.recipes.pretraining.pretrain import pretrain

SETTINGS = {**small_runs.FOUR_STEPS, "next_sentence": "none"}


def mixed(weights=(3, 1)):
    documents = small_corpus(documents=24, passages=4, longest=10)
    return MixedCorpus([SomeDocuments(documents, range(14)), SomeDocuments(documents, range(14, 24))], weights)


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[False, True], ids=["padded", "packed"])
def whole(request, tmp_path_factory):
    settings = {**SETTINGS, "packing": request.param}
    return settings, small_runs.whole_run(mixed(), tmp_path_factory.mktemp("runs") / "run", settings)


def test_the_settings_of_a_run_name_its_corpora_and_their_shares(whole):
    _, (folder, rows, _) = whole
    corpus = yaml.safe_load((folder / "settings.yaml").read_text())["corpus"]
    assert [part["share"] for part in corpus["mixed"]] == [0.75, 0.25]
    assert [part["documents"] for part in corpus["mixed"]] == [14, 10]
    assert sum(part["tokens"] for part in corpus["mixed"]) == corpus["tokens"]
    assert rows[-1]["held_out_loss"] > 0


@pytest.mark.slow(torch=True)
def test_a_stopped_run_ends_with_the_same_bits(whole, tmp_path):
    settings, run = whole
    small_runs.check_resumption(run, mixed(), tmp_path / "run", settings)


def test_other_weights_are_another_run(whole):
    settings, (folder, _, _) = whole
    with pytest.raises(ValueError, match=r"holds a run on another corpus: .*share"):
        pretrain(mixed((1, 1)), folder, settings)
