"""Earlier names of options, and those of transformers, mean the same as today's."""

import json
import shlex

import pytest

import keras_bert_command
from keras_bert_rebuild.cli.older_names import BEFORE, OF_TRANSFORMERS, renewed
from keras_bert_rebuild.cli.parser_table import FILE

TABLE = json.loads(FILE.read_text("utf-8"))


@pytest.fixture(scope="module")
def parser():
    return keras_bert_command.parser_of(TABLE, FILE.parent)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("vocab c --size 9 --output v", "vocab c --vocab-size 9 --output v"),
        ("prepare c --vocab v --output t --workers 2", "prepare c --tokenizer v --output t --processes 2"),
        ("convert a b --to keras --vocabulary v", "convert --model a --output b --format keras --tokenizer v"),
        ("inspect --json a", "inspect --format json --model a"),
        ("explain a b --batch 8 --length=64", "explain --model a --other b --batch-size 8 --max-seq-length=64"),
        ("explain --format table", "explain --format text"),
        ("explain --format=table", "explain --format=text"),
        ("explain --predictions 4", "explain --max-predictions 4"),
        ("plan base --remat --json", "plan --model base --remat --format json"),
        ("plan base --packing no", "plan --model base --no-packing"),
        ("pretrain t --output r --remat yes --seq-len 64", "pretrain t --output r --remat --max-seq-length 64"),
        ("pretrain t --evaluate-steps 5 --evaluation-steps 2", "pretrain t --eval-steps 5 --eval-batches 2"),
        ("pretrain t --config s.yaml --tensorboard=false", "pretrain t --settings s.yaml --no-tensorboard"),
        ("prepare c --uncased --document-per-file --cased", "prepare c --uncased --document-per-file --cased"),
        ("distill m t u --output r --layers 2", "distill --teacher m t u --output r --num-hidden-layers 2"),
        ("prune m --heads 0.3 --data d --measure-on e --output o", "prune --model m --amount 0.3 --dev d --test e --output o"),
        ("why m 'a text' --top 3 --steps 9", "why --model m 'a text' --top-k 3 --integration-steps 9"),
        ("lens m a b", "lens --model m a --pair b"),
        ("attention a b --model m --output o", "attention a --pair b --model m --output o"),
        ("probe m --train a --dev b", "probe --model m --train a --dev b"),
        ("search i q --judgements f", "search i q --qrels f"),
        ("predict --model m --input i --output o --format csv", "predict --model m --input i --output o --input-format csv"),
        (
            "finetune multi_label --model_name_or_path m --train_file a --validation_file b --output_dir o --num_train_epochs 1",
            "finetune multi_label --model m --train a --dev b --output o --epochs 1",
        ),
    ],
)
def test_a_line_is_rewritten_with_the_names_of_today(parser, before, now):
    words = renewed(shlex.split(before), TABLE)
    assert words == shlex.split(now)
    assert renewed(words, TABLE) == words


def test_a_text_is_not_an_option():
    words = ["why", "--model", "m", "--", "--top"]
    assert renewed(words, TABLE) == words
    assert renewed(["why", "yes", "--model", "m"], TABLE) == ["why", "yes", "--model", "m"]
    assert renewed(["lens", "-h"], TABLE) == ["lens", "-h"]


def test_every_earlier_name_is_that_of_some_verb_and_hidden():
    names = {verb: {name for option in found["options"] for name in option["names"]} for verb, found in TABLE["verbs"].items()}
    for old, new in (*BEFORE, *OF_TRANSFORMERS):
        verbs = [verb for verb, known in names.items() if new[0] in known and old not in known]
        assert verbs, old
        assert all(renewed([verb, f"{old}=x"], TABLE)[1].startswith(new[0]) for verb in verbs), old


@pytest.mark.parametrize(("given", "meant"), [("multi_label", "multi-label"), ("multi-label", "multi-label")])
def test_values_have_underscores_or_hyphens(parser, given, meant):
    args = parser.parse_args(["finetune", given, *shlex.split("--model m --train a --dev b --output o --dtype mixed-bfloat16")])
    assert (args.task, args.dtype) == (meant, "mixed_bfloat16")
