"""Tasks compared with the classes of transformers, from folders of either side."""

import json

import cases
import keras
import numpy as np
import pytest
import torch
import transformers

from keras_bert_rebuild import MultipleChoice, NextSentence, TokenClassifier, load_task
from keras_bert_rebuild.data.labelled.labelled_examples import ChoiceQuestion, ClassifiedText, Question, TaggedWords

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *(f"word{chr(97 + i)}" for i in range(25)),
    *(f"##{c}" for c in "abcdefghij"),
]
FIRSTS = ["worda wordb wordc", "wordd", " ".join(f"word{chr(97 + i)}" for i in range(18))]
SECONDS = ["worde", "wordfa wordgab wordh", "wordi"]


def theirs_for(kind, folder, **changes):
    """A model of transformers with every weight different from its initial value, and its folder with a vocabulary."""
    torch.manual_seed(7)
    model = getattr(transformers, f"BertFor{kind}")(transformers.BertConfig(**{**cases.BERT, **changes})).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(torch.randn_like(weight) * 0.3 + (1.0 if "norm" in name.lower() and name.endswith("weight") else 0.0))
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS))
    return model


def logits_of(model, windows):
    """The logits of transformers, row by row without padding."""
    with torch.no_grad():
        for ids, segments in zip(windows.ids, windows.segments, strict=True):
            tensors = [torch.tensor(row.astype("int64"))[None] for row in (ids, segments)]
            yield model(input_ids=tensors[0], token_type_ids=tensors[1], attention_mask=torch.ones_like(tensors[0]))


EXAMPLES = {
    "SequenceClassification": [ClassifiedText(*both) for both in zip(FIRSTS, SECONDS, strict=True)],
    "TokenClassification": [TaggedWords(tuple(text.split())) for text in FIRSTS],
    "QuestionAnswering": [Question("", question, context) for question, context in zip(SECONDS, FIRSTS, strict=True)],
}


@pytest.mark.parametrize("kind", EXAMPLES)
def test_logits_agree_from_their_folder_and_from_ours(tmp_path, kind):
    theirs = theirs_for(kind, tmp_path / "theirs", num_labels=2 if kind == "QuestionAnswering" else 4)
    task = load_task(tmp_path / "theirs", stride=3)
    windows = task.encode(EXAMPLES[kind]).windows
    expected = list(logits_of(theirs, windows))
    for row, (got, outputs) in enumerate(zip(task.predict_windows(windows, 2), expected, strict=True)):
        logits = torch.stack([outputs.start_logits, outputs.end_logits], -1) if kind.startswith("Q") else outputs.logits
        np.testing.assert_allclose(got, logits[0].numpy(), atol=1e-5, err_msg=str(row))
    task.save(tmp_path / "ours")
    again = getattr(transformers, f"AutoModelFor{kind}").from_pretrained(tmp_path / "ours").eval()
    assert again.config.architectures == [f"BertFor{kind}"]
    for one, other in zip(expected, logits_of(again, windows), strict=True):
        for a, b in zip(one.to_tuple(), other.to_tuple(), strict=True):
            assert torch.equal(a, b)


@pytest.mark.parametrize(("problem", "labels"), [("multi_label_classification", 3), ("regression", 1), (None, 3)])
def test_the_problem_is_that_of_their_config_and_the_other_way_round(tmp_path, problem, labels):
    theirs_for("SequenceClassification", tmp_path / "theirs", problem_type=problem, num_labels=labels)
    task = load_task(tmp_path / "theirs")
    assert task.model.config.problem_type == (problem or "single_label_classification")
    task.save(tmp_path / "ours")
    again = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "ours")
    assert again.config.problem_type == (problem or "single_label_classification")
    assert again.config.num_labels == labels


def test_choices_agree(tmp_path):
    theirs = theirs_for("MultipleChoice", tmp_path / "theirs")
    task = load_task(tmp_path / "theirs")
    assert isinstance(task, MultipleChoice)
    question = ChoiceQuestion(FIRSTS[0], tuple(SECONDS))
    task.save(tmp_path / "ours")
    again, info = transformers.AutoModelForMultipleChoice.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not info["missing_keys"]
    for model in (theirs, again.eval()):
        tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
        inputs = tokenizer([question.prompt] * 3, list(question.choices), padding=True, return_tensors="pt")
        with torch.no_grad():
            logits = model(**{name: value[None] for name, value in inputs.items()}).logits[0]
        np.testing.assert_allclose(task.predict_examples([question])[0].probabilities, logits.softmax(-1).numpy(), atol=1e-5)


def test_next_sentences_agree(tmp_path):
    theirs = theirs_for("NextSentencePrediction", tmp_path)
    score = NextSentence(tmp_path)
    expected = [outputs.logits.softmax(-1)[0, 0].item() for outputs in logits_of(theirs, score._encoding(FIRSTS, SECONDS))]
    np.testing.assert_allclose(score(FIRSTS, SECONDS), expected, atol=1e-5)


def test_the_pipelines_of_transformers_give_our_answers(tmp_path):
    theirs_for("TokenClassification", tmp_path / "tags", num_labels=3, id2label={0: "B-x", 1: "B-y", 2: "O"})
    theirs_for("SequenceClassification", tmp_path / "texts", num_labels=3)
    label = transformers.pipeline("text-classification", model=str(tmp_path / "texts"))(FIRSTS[0])[0]
    ours = load_task(tmp_path / "texts")(FIRSTS[:1])[0]
    assert (label["label"], label["score"]) == (ours.label, pytest.approx(ours.probability, abs=1e-5))
    spans = transformers.pipeline("token-classification", model=str(tmp_path / "tags"))(FIRSTS[0])
    entities = load_task(tmp_path / "tags")(FIRSTS[:1])[0].entities
    assert [(f"B-{e.label}", e.start, e.end) for e in entities] == [(s["entity"], s["start"], s["end"]) for s in spans]
    assert spans


def texts_of_one_length(rng, count, words):
    return [" ".join(f"word{chr(97 + i)}" for i in rng.integers(0, 18, words)) for _ in range(count)]


def labelled(kind, rng):
    """Eight examples whose rows are equally long, so that theirs need no padding."""
    texts = texts_of_one_length(rng, 8, 9)
    if kind == "SequenceClassification":
        return [ClassifiedText(text, label=f"LABEL_{rng.integers(4)}") for text in texts]
    if kind == "TokenClassification":
        return [TaggedWords(tuple(text.split()), tuple(f"LABEL_{i}" for i in rng.integers(0, 4, 9))) for text in texts]
    words = [text.split() for text in texts]
    return [Question("", "worda wordb", text, ((6 * 3, " ".join(of[3:5])),)) for text, of in zip(texts, words, strict=True)]


@pytest.mark.parametrize("kind", EXAMPLES)
def test_losses_of_training_steps_agree(tmp_path, kind):
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    theirs = theirs_for(kind, tmp_path, num_labels=2 if kind == "QuestionAnswering" else 4, **still).train()
    task = load_task(tmp_path)
    examples = labelled(kind, np.random.default_rng(5))
    encoded = task.encode(examples)
    task.compile(keras.optimizers.SGD(0.01))
    ids, segments = (torch.tensor(np.stack(rows).astype("int64")) for rows in (encoded.windows.ids, encoded.windows.segments))
    targets = torch.tensor(np.stack(encoded.targets).astype("int64"))
    names = ("start_positions", "end_positions") if kind == "QuestionAnswering" else ("labels",)
    labels = dict(zip(names, targets.T if kind == "QuestionAnswering" else [targets], strict=True))
    optimizer, batches = torch.optim.SGD(theirs.parameters(), 0.01), task.batches(encoded, 8)
    for step in range(4):
        optimizer.zero_grad()
        expected = theirs(input_ids=ids, token_type_ids=segments, attention_mask=torch.ones_like(ids), **labels).loss
        expected.backward()
        optimizer.step()
        got = task.model.train_on_batch(*batches[0])
        assert float(got) == pytest.approx(expected.item(), rel=2e-5), step


def test_transformers_ignores_the_transitions_of_a_random_field(tmp_path):
    theirs_for("TokenClassification", tmp_path / "theirs", num_labels=3, id2label={0: "B-x", 1: "I-x", 2: "O"})
    task = TokenClassifier.from_encoder(tmp_path / "theirs", labels=("O", "B-x", "I-x"), crf=True)
    task.crf.next.assign(np.arange(9).reshape(3, 3) / 4)
    task.save(tmp_path / "ours")
    again = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path / "ours").eval()
    windows = task.encode(EXAMPLES["TokenClassification"]).windows
    for ours, outputs in zip(task.predict_windows(windows, 2), logits_of(again, windows), strict=True):
        np.testing.assert_allclose(ours, outputs.logits[0].numpy(), atol=1e-5)
    assert again.config.id2label == {0: "O", 1: "B-x", 2: "I-x"}


def test_a_tagger_with_the_weights_of_pytorch_crf_is_read(tmp_path):
    theirs = theirs_for("TokenClassification", tmp_path / "theirs", num_labels=3, id2label={0: "O", 1: "B-x", 2: "I-x"})
    own = {"crf.transitions": torch.randn(3, 3), "crf.start_transitions": torch.randn(3), "crf.end_transitions": torch.randn(3)}
    (tmp_path / "theirs" / "model.safetensors").unlink()
    torch.save({**theirs.state_dict(), **own}, tmp_path / "theirs" / "pytorch_model.bin")
    config = json.loads((tmp_path / "theirs" / "config.json").read_text())
    (tmp_path / "theirs" / "config.json").write_text(json.dumps({**config, "crf": True}))
    task = load_task(tmp_path / "theirs")
    np.testing.assert_array_equal(
        task.crf.transitions, torch.cat([own["crf.transitions"], *[own[name][None] for name in list(own)[1:]]])
    )
