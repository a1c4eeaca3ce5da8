"""How a command line is read: options under other names, values in other spellings, and mistakes as one sentence."""

import shlex

import pytest

from keras_bert_rebuild.cli.options import TABLE, VERBS, options_of
from keras_bert_rebuild.cli.parsers import parsed

FINETUNE = "finetune multi_label --model m --train a --dev b --output o"


@pytest.mark.parametrize(
    ("other", "ours"),
    [
        (
            "finetune multi_label --model_name_or_path m --train_file a --validation_file b --output_dir o --num_train_epochs 1",
            f"{FINETUNE} --epochs 1",
        ),
        (f"{FINETUNE} --max_steps=9 --max-grad-norm 2", f"{FINETUNE} --steps 9 --clip-norm 2"),
        ("explain --max_predictions 4", "explain --max-predictions 4"),
        ("pretrain t --output r --seq_len 64 --mlm_probability 0.2", "pretrain t --output r --max-seq-length 64 --mask-rate 0.2"),
        ("embed t --model m --output o --max_len 9", "embed t --model m --output o --max-seq-length 9"),
    ],
)
def test_options_of_transformers_and_keras_bert_are_ours(other, ours):
    assert parsed(shlex.split(other)) == parsed(shlex.split(ours))


def test_every_other_name_is_that_of_an_option_and_none_of_ours():
    names = {verb: {name for option in options_of(verb).values() for name in option["names"]} for verb in VERBS}
    for other, ours in TABLE["spellings"].items():
        assert any(ours in known and other not in known for known in names.values()), other


def test_a_text_is_not_an_option():
    assert parsed(["why", "--model", "m", "--", "--max_len"]).text == "--max_len"


@pytest.mark.parametrize("given", ["multi_label", "multi-label"])
def test_values_have_underscores_or_hyphens(given):
    args = parsed(shlex.split(f"finetune {given} --model m --train a --dev b --output o --dtype mixed-bfloat16"))
    assert (args.task, args.dtype) == ("multi-label", "mixed_bfloat16")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("pretrian", "keras-bert: there is no verb 'pretrian'; did you mean pretrain? (see keras-bert --help)."),
        ("plan --modle x", "keras-bert plan: there is no option --modle; did you mean --model? (see keras-bert plan --help)."),
        ("plan --model base tiny", "keras-bert: there is one argument too many: 'tiny' (see keras-bert --help)."),
        ("vocab c", "keras-bert vocab: required and missing: --output (see keras-bert vocab --help)."),
        ("plan --tokens 1.5", "keras-bert plan: --tokens: expected a whole number; got '1.5' (see keras-bert plan --help)."),
        ("pretrain s --remat=maybe", "keras-bert pretrain: --remat: takes no value; got 'maybe' (see keras-bert pretrain --help)."),
    ],
)
def test_a_mistake_is_one_sentence(line, sentence, capsys):
    with pytest.raises(SystemExit) as ended:
        parsed(shlex.split(line))
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"{sentence}\n"
