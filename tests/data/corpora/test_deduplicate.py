"""Preparing without duplicates: what goes is what plain Python finds, whatever the number of processes, and after a kill."""

import json
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert_rebuild.data.corpora.held_out import split_documents
from keras_bert_rebuild.data.corpora.mixed import MixedCorpus
from keras_bert_rebuild.data.corpora.prepare import prepare
from keras_bert_rebuild.data.corpora.token_store import TokenStore

PACKAGE = Path(__file__).parents[3] / "keras_bert_rebuild"
WORDS = [f"w{i}" for i in range(400)]
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]


@pytest.fixture
def vocabulary(tmp_path):
    path = tmp_path / "v.txt"
    path.write_text("\n".join(TOKENS) + "\n")
    return path


def text_of(documents):
    return "\n\n".join("\n".join(" ".join(passage) for passage in document) for document in documents)


def stored(corpus):
    """The documents of a corpus as lists of passages, strings."""
    starts, ids = np.asarray(corpus.passage_starts), corpus.ids_at(np.arange(corpus.num_tokens))
    passages = [" ".join(TOKENS[i] for i in ids[a:b]) for a, b in pairwise(starts)]
    return [passages[a:b] for a, b in pairwise(np.searchsorted(starts, corpus.document_starts))]


def prepared(folder, documents, **options):
    (folder / "corpus.txt").write_text(text_of(documents))
    done = prepare(folder / "corpus.txt", folder / "v.txt", folder / "out", **{"workers": 1, "block_bytes": 2000, **options})
    return done, stored(TokenStore(folder / "out"))


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def passage_of(rng, words=14):
    return [rng.choice(WORDS) for _ in range(words)]


def shingles(passages):
    return {tuple(words[i : i + 3]) for words in passages for i in range(max(len(words) - 2, 1))}


def jaccard(one, other):
    return len(one & other) / len(one | other)


def plainly(documents, similarity=None):
    """Documents without repeated ones, then without repeated passages, compared pair by pair."""

    def stays(texts, i, staying, is_document):
        if not is_document and len(texts[i][0]) < 8:
            return True
        if texts[i] in texts[:i]:
            return False
        if similarity is None or sum(map(len, texts[i])) < 8:
            return True
        return all(jaccard(shingles(texts[i]), shingles(texts[j])) < similarity for j in staying if sum(map(len, texts[j])) >= 8)

    def chosen(texts, is_document):
        staying = []
        for i in range(len(texts)):
            if stays(texts, i, staying, is_document):
                staying.append(i)
        return set(staying)

    of_documents = chosen(documents, True)
    whole = [document for i, document in enumerate(documents) if i in of_documents]
    passages = chosen([[passage] for document in whole for passage in document], False)
    found, number = [], 0
    for document in whole:
        part = []
        for passage in document:
            if number in passages:
                part.append(" ".join(passage))
            elif part:
                found.append(part)
                part = []
            number += 1
        found += [part] if part else []
    return found


# Passages that are often equal or nearly so, some of them too short to be compared.
BASES = [[f"w{20 * i + j}" for j in range(12)] for i in range(3)]
PASSAGE = st.one_of(
    st.sampled_from([*BASES, ["w1", "w2"], ["w3"]]),
    st.tuples(st.sampled_from(BASES), st.integers(0, 11), st.sampled_from(["w300", "w301"])).map(
        lambda x: [*x[0][: x[1]], x[2], *x[0][x[1] + 1 :]]
    ),
)
DOCUMENTS = st.lists(st.lists(PASSAGE, min_size=1, max_size=5), min_size=1, max_size=8)


@settings(max_examples=10)
@given(DOCUMENTS)
def test_exact_duplicates_are_those_of_plain_python(tmp_path_factory, documents):
    folder = tmp_path_factory.mktemp("any")
    (folder / "v.txt").write_text("\n".join(TOKENS))
    done, found = prepared(folder, documents, deduplicate="exact")
    assert found == plainly(documents)
    assert set(done.removed) == {"documents", "passages"}
    tokens = sum(kind["tokens"] for kinds in done.removed.values() for kind in kinds.values())
    assert done.counts["tokens"] + tokens == sum(len(passage) for document in documents for passage in document)


def pairs_of(similar, count, rng):
    """Passages of 62 words and others with some of their words changed, in pairs of about a similarity."""
    pairs = []
    for _ in range(count):
        first = passage_of(rng, 62)
        second = list(first)
        for place in range(3, 3 + 6 * similar, 6):  # each changes three shingles of 60
            second[place] = "w0" if second[place] != "w0" else "w1"
        pairs.append((first, second))
    return pairs


def test_pairs_above_the_threshold_go_and_pairs_below_stay(tmp_path, vocabulary):
    rng = random.Random(0)
    above, below = pairs_of(2, 150, rng), pairs_of(3, 150, rng)  # 54/66 and 51/69
    assert min(jaccard(shingles([a]), shingles([b])) for a, b in above) > 0.8
    assert max(jaccard(shingles([a]), shingles([b])) for a, b in below) < 0.78
    documents = [[passage_of(rng), first] for first, _ in above + below] + [
        [passage_of(rng), second] for _, second in above + below
    ]
    done, found = prepared(tmp_path, documents, deduplicate="near", similarity=0.8, block_bytes=10**6)
    there = {passage for document in found for passage in document}
    assert all(" ".join(first) in there for first, _ in above + below)
    assert all(" ".join(second) in there for _, second in below)
    missed = sum(" ".join(second) in there for _, second in above)
    assert missed <= 5  # 1 % of 150 are expected
    assert done.removed["passages"]["near"]["texts"] == 150 - missed
    assert done.removed["documents"]["near"]["texts"] == 0


def test_in_a_chain_of_similar_texts_none_goes_for_one_that_goes(tmp_path, vocabulary):
    rng = random.Random(1)
    chain = [passage_of(rng, 62)]
    for place in (5, 15, 25, 35, 45):
        chain.append([*chain[-1][:place], "w0", *chain[-1][place + 1 :]])
    sets = [shingles([passage]) for passage in chain]
    expected = []
    for i, one in enumerate(sets):
        if not any(jaccard(sets[j], one) >= 0.85 for j in expected):
            expected.append(i)
    assert 1 < len(expected) < 6
    _, found = prepared(tmp_path, [[passage] for passage in chain], deduplicate="near", similarity=0.85)
    assert found == [[" ".join(chain[i])] for i in expected]


def repeated_documents(rng):
    """Documents, some repeated, some nearly, some long enough for several shards, and passages repeated in others."""
    documents = [[passage_of(rng, rng.randint(3, 30)) for _ in range(rng.randint(1, 12))] for _ in range(30)]
    documents.append([passage_of(rng, 20) for _ in range(60)])
    documents += [documents[3], documents[-1], [*documents[5][:-1], ["w9"]]]
    nearly = [list(passage) for passage in documents[30]]
    nearly[7][3] = "w0"
    documents.append(nearly)
    documents.append([passage_of(rng), documents[30][4], passage_of(rng), documents[30][5], documents[30][6], passage_of(rng)])
    rng.shuffle(documents)
    return documents


@pytest.mark.parametrize("similarity", [None, 0.8])
def test_a_corpus_of_many_shards_loses_what_plain_python_finds(tmp_path, vocabulary, similarity):
    documents = repeated_documents(random.Random(2))
    options = {"deduplicate": "exact"} if similarity is None else {"deduplicate": "near", "similarity": similarity}
    done, found = prepared(tmp_path, documents, **options)
    assert done.shards > 5
    assert found == plainly(documents, similarity)
    TokenStore(tmp_path / "out").verify()
    index = json.loads((tmp_path / "out" / "index.json").read_text())
    assert index["removed"] == done.removed
    example = done.removed["passages"]["exact"]["example"]
    assert example["removed"] == example["stays"]


def test_any_number_of_workers_writes_the_same_bytes_and_a_second_call_none(tmp_path, vocabulary):
    documents = repeated_documents(random.Random(3))
    (tmp_path / "corpus.txt").write_text(text_of(documents))
    arguments = (tmp_path / "corpus.txt", vocabulary)
    options = {"block_bytes": 6000, "deduplicate": "near"}
    first = prepare(*arguments, tmp_path / "1", workers=1, **options)
    prepare(*arguments, tmp_path / "2", workers=2, **options)
    whole = contents(tmp_path / "1")
    assert whole == contents(tmp_path / "2")
    again = prepare(*arguments, tmp_path / "1", workers=1, **options)
    assert (again.made, again.counts, again.removed, again.notes) == (0, first.counts, first.removed, first.notes)
    (tmp_path / "1" / "shard-000002.ids.npy").unlink()
    assert prepare(*arguments, tmp_path / "1", workers=1, **options).made
    assert contents(tmp_path / "1") == whole


@pytest.mark.parametrize("change", [{"removed": {"documents": {"exact": {}}}}, {"removed": 3}, {"notes": None}, {"blocks": 99}])
def test_a_damaged_report_is_made_again(tmp_path, vocabulary, change):
    prepared(tmp_path, [[["w1"]], [["w1"]]], deduplicate="exact")
    whole = contents(tmp_path / "out")
    index = tmp_path / "out" / "index.json"
    index.write_text(json.dumps({**json.loads(index.read_text()), **change}))
    done, _ = prepared(tmp_path, [[["w1"]], [["w1"]]], deduplicate="exact")
    assert done.made == 1
    assert contents(tmp_path / "out") == whole


# The process is killed at points among all replaces and removals.
KILLED = """
import os, pathlib, signal, sys
package = type(sys)("keras_bert_rebuild")
package.__path__ = [sys.argv[1]]
sys.modules["keras_bert_rebuild"] = package
from keras_bert_rebuild.data.corpora.mixed import MixedCorpus
from keras_bert_rebuild.data.corpora.prepare import prepare
import keras_bert_rebuild.text.wordpiece_tokenizer
corpus, vocabulary, folder = sys.argv[2:]
points = 0

def with_points(function, limit):
    def called(*args, **options):
        global points
        for call in (lambda: None, lambda: function(*args, **options)):
            result = call()
            points += 1
            if points == limit:
                os.kill(os.getpid(), signal.SIGKILL)
        return result
    return called

def run(output, limit=0):
    pid = os.fork()
    if pid == 0:
        for owner, name in ((os, "replace"), (os, "rmdir"), (os, "unlink")):
            setattr(owner, name, with_points(getattr(owner, name), limit))
        prepare(corpus, vocabulary, output, workers=1, block_bytes=12000, deduplicate="near")
        os._exit(0)
    return os.waitpid(pid, 0)[1]

limit = 1
while run(f"{folder}/{limit}", limit) != 0:
    assert run(f"{folder}/{limit}") == 0
    limit += 9
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kills with signals")
@pytest.mark.slow(torch=True)
def test_a_run_killed_at_any_point_resumes_to_the_same_bytes(tmp_path, vocabulary):
    (tmp_path / "corpus.txt").write_text(text_of(repeated_documents(random.Random(4))))
    prepare(tmp_path / "corpus.txt", vocabulary, tmp_path / "whole", workers=1, block_bytes=12000, deduplicate="near")
    (tmp_path / "runs").mkdir()
    arguments = map(str, (PACKAGE, tmp_path / "corpus.txt", vocabulary, tmp_path / "runs"))
    subprocess.run([sys.executable, "-c", KILLED, *arguments], check=True, capture_output=True)
    runs = list((tmp_path / "runs").iterdir())
    assert len(runs) > 5
    whole = contents(tmp_path / "whole")
    for run in runs:
        assert contents(run) == whole, run.name


def test_no_held_out_passage_is_nearly_in_training(tmp_path, vocabulary):
    rng = random.Random(5)
    documents = [[passage_of(rng, 30) for _ in range(4)] for _ in range(30)]
    for i in range(0, 30, 2):  # every second document has a passage of the next one, with a word changed at its end
        documents[i].append([*documents[i + 1][2][:-1], "w0"])
    for kind in ("exact", "near"):
        folder = tmp_path / kind
        folder.mkdir()
        (folder / "v.txt").write_text("\n".join(TOKENS))
        prepared(folder, documents, deduplicate=kind)
        train, held_out = (stored(part) for part in split_documents(TokenStore(folder / "out"), 0.4, seed=0))
        sets = [[shingles([passage.split()]) for document in part for passage in document] for part in (train, held_out)]
        assert any(jaccard(one, other) >= 0.8 for one in sets[0] for other in sets[1]) == (kind == "exact")


@pytest.mark.parametrize("kind", ["exact", "near"])
def test_what_another_store_has_goes_too_and_that_store_stays(tmp_path, vocabulary, kind):
    rng = random.Random(6)
    passages = [passage_of(rng, 30) for _ in range(24)]
    others = [passages[i : i + 3] for i in range(0, 12, 3)]
    nearly = [*passages[7][:-1], "w0"]
    documents = [others[1], [passages[12], passages[2], passages[13]], [passages[14], nearly], [passages[15], passages[12]]]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "v.txt").write_text(vocabulary.read_text())
    prepared(tmp_path / "other", [*others, others[0]])  # one repeats itself
    before = contents(tmp_path / "other" / "out")
    done, found = prepared(tmp_path, documents, deduplicate=kind, apart_from=[tmp_path / "other" / "out"])
    near = kind == "near"
    staying = [[[12]], [[13]], [[14]] if near else [[14], [7]], [[15]]]
    assert [len(document) for document in found] == [len(document) for document in staying]
    assert [document[0] for document in found] == [" ".join(passages[i]) for i in (12, 13, 14, 15)]
    assert done.removed["documents"]["exact"]["texts"] == 1
    assert done.removed["passages"]["exact"]["texts"] == 2
    assert not near or done.removed["passages"]["near"]["texts"] == 1
    assert contents(tmp_path / "other" / "out") == before


def test_stores_that_are_mixed_share_nothing_across_their_split(tmp_path, vocabulary):
    """Each is without near duplicates, the second also of the first."""
    rng = random.Random(7)
    passages = [passage_of(rng, 30) for _ in range(60)]
    stores = []
    for name, chosen in (("one", passages[:40]), ("two", [[*passage[:-1], "w0"] for passage in passages[20:]])):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "v.txt").write_text(vocabulary.read_text())
        prepared(folder, [chosen[i : i + 2] for i in range(0, 40, 2)], deduplicate="near", apart_from=stores)
        stores.append(folder / "out")
    train, held_out = split_documents(MixedCorpus(stores), 0.4, seed=0)
    sets = [[shingles([passage.split()]) for document in stored(part) for passage in document] for part in (train, held_out)]
    assert sum(map(len, sets)) == 60
    assert max(jaccard(one, other) for one in sets[0] for other in sets[1]) < 0.2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"deduplicate": "fuzzy"}, "deduplicate must be one of 'no', 'exact', 'near'; got 'fuzzy'"),
        ({"deduplicate": "near", "similarity": 0.3}, r"similarity must be in \[0.5, 1\)"),
        ({"deduplicate": "near", "similarity": 1.0}, r"similarity must be in \[0.5, 1\)"),
        ({"apart_from": ["other"]}, "apart_from needs deduplicate='exact' or 'near'"),
        (
            {"deduplicate": "exact", "apart_from": ["other"]},
            "expected a folder that `keras-bert prepare` wrote; other does not exist",
        ),
    ],
)
def test_impossible_settings_are_one_sentence_and_nothing_is_written(tmp_path, vocabulary, options, message):
    with pytest.raises(ValueError, match=message):
        prepared(tmp_path, [[["w1"]]], **options)
    assert not (tmp_path / "out").exists()


def test_a_store_of_another_vocabulary_is_refused(tmp_path, vocabulary):
    prepared(tmp_path, [[["w1"]]])
    vocabulary.write_text("\n".join([*TOKENS, "more"]))
    with pytest.raises(ValueError, match=r"apart_from must list stores of the same vocabulary and case; .*out differ"):
        prepare(tmp_path / "corpus.txt", vocabulary, tmp_path / "2", workers=1, deduplicate="exact", apart_from=[tmp_path / "out"])
    assert not (tmp_path / "2").exists()


def test_a_folder_without_deduplication_is_another_one(tmp_path, vocabulary):
    documents = [[["w1", "w2"]], [["w1", "w2"]]]
    prepared(tmp_path, documents)
    before = contents(tmp_path / "out")
    with pytest.raises(ValueError, match=r"has deduplicate null, not \{.kind.: .exact.\}"):
        prepared(tmp_path, documents, deduplicate="exact")
    assert contents(tmp_path / "out") == before
