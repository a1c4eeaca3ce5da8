"""The help of all verbs, and how mistakes are answered: one sentence, with what was probably meant."""

import itertools
import re
import shlex

import pytest

from keras_bert_rebuild.cli.help_text import overview
from keras_bert_rebuild.cli.main import main
from keras_bert_rebuild.cli.option_values import checkpoint, described, existing, index, model, path, place, size_or_path, tokenizer
from keras_bert_rebuild.cli.options import TABLE, VERBS, options_of
from keras_bert_rebuild.cli.parsers import MEANT, missing, parsed, parser_of
from keras_bert_rebuild.files.hub import MEANT_NAMES, SHORT_NAMES

WIDTH = 100
FINETUNE = "finetune multi_label --model m --train a --dev b --output o"
OPTIONS = {
    verb: {name for option in options_of(verb).values() for name in option["names"] if name.startswith("-")} for verb in VERBS
}


def lines_of(help):
    """The lines of a help on a terminal, which breaks those that are too long."""
    return sum(max(1, -(-len(line) // WIDTH)) for line in help.rstrip("\n").split("\n"))


@pytest.fixture
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", str(WIDTH))


def mistake(capsys, line):
    """The sentence that answers a command line."""
    with pytest.raises(SystemExit) as ended:
        parsed(shlex.split(line) if isinstance(line, str) else line)
    said = capsys.readouterr()
    assert (ended.value.code, said.out, said.err.count("\n")) == (2, "", 1)
    return said.err


def test_the_overview_has_every_verb_once_in_four_groups_each_with_a_command(wide):
    verbs = [verb for names in TABLE["overview"].values() for verb in names.split()]
    assert sorted(verbs) == sorted(VERBS)
    assert len(TABLE["overview"]) == 4
    commands = re.findall(r"^  keras-bert (.*)$", overview(), re.M)
    assert [parsed(shlex.split(line)).verb for line in commands] == ["finetune", "fill", "demo", "explain"]
    assert lines_of(overview()) <= 45
    assert max(map(len, overview().splitlines())) <= 115


@pytest.mark.parametrize("verb", VERBS)
def test_a_help_has_at_most_40_lines_and_begins_with_what_the_verb_does_and_a_command(verb, wide):
    help = parser_of(verb).format_help()
    sentence, command, *_ = help.split("\n")
    assert sentence.endswith(".")
    assert len(sentence) <= WIDTH
    assert lines_of(help) <= 40
    assert parsed(shlex.split(command)[1:]).verb == verb
    count = sum(action.option_strings != [] for action in parser_of(verb)._actions)
    assert f"keras-bert {verb} --help-all shows all {count} options" in help.rstrip().split("\n")[-1]


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_all_options_has_all_of_them_and_the_short_one_those_that_are_needed(verb, wide, capsys):
    with pytest.raises(SystemExit) as ended:
        parsed([verb, "--help-all"])
    assert ended.value.code == 0
    everything, short = capsys.readouterr().out, parser_of(verb).format_help()
    for name in OPTIONS[verb]:
        assert re.search(rf"^  (.*, )?{name}( |,|$)", everything, re.M), name
    for option in options_of(verb).values():
        assert not option.get("required") or option["names"][0] in short
    assert set(VERBS[verb].get("common", "").split()) <= {name.removeprefix("--") for name in OPTIONS[verb]}


def test_every_word_that_people_type_means_something_that_exists():
    for kind, existing_words in (
        ("verbs", set(VERBS)),
        ("options", set(itertools.chain(*OPTIONS.values()))),
        ("values", {str(choice) for verb in VERBS for option in options_of(verb).values() for choice in option.get("choices", ())}),
    ):
        for typed, meant in MEANT[kind].items():
            assert typed == typed.lower().replace("_", "-")
            for ours in meant:
                assert (f"--{ours.partition(' ')[0]}" if kind == "options" else ours) in existing_words, ours
    assert not set(MEANT["verbs"]) & set(VERBS)
    assert not set(MEANT_NAMES) & set(SHORT_NAMES)


def test_a_length_has_one_name_in_all_verbs():
    lengths = {name for names in OPTIONS.values() for name in names if re.search("len(gth|-|$)|max-tokens", name)}
    assert lengths == {"--max-seq-length", "--lengths"}


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (f"{FINETUNE} --lr 1", "there is no option --lr; did you mean --learning-rate?"),
        (f"{FINETUNE} --bs 1", "there is no option --bs; did you mean --batch-size?"),
        ("embed t --max-len 1", "there is no option --max-len; did you mean --max-seq-length?"),
        (f"{FINETUNE} --fp16", "there is no option --fp16; did you mean --dtype mixed_bfloat16?"),
        ("embed t --output_dir o", "there is no option --output_dir; did you mean --output?"),
        (f"{FINETUNE} --task_name t --do_eval", "there are no options --task_name, --do_eval; the data are files, --train, --dev"),
        ("pretrain t --per_device_train_batch_size 8", "did you mean --batch-size?"),  # there without devices and micro-batches
        ("pretrain t --seq_len=9", "there is no option --seq_len; did you mean --max-seq-length?"),
        ("embed t -o v.npy", "there is no option -o; did you mean --output?"),
        ("embed t --gpu", "there is no option --gpu: a GPU is used where the backend finds one, and CUDA_VISIBLE_DEVICES= in"),
        (f"{FINETUNE} --lr 1 --bs 2", "there are no options --lr, --bs; did you mean --learning-rate for --lr, --batch-size for"),
        ("prepare c --shard 1/2", "there is no option --shard: prepare --engine ray shares the work among machines"),
        ("pretrain t --evaluation-steps 3", "there is no option --evaluation-steps; did you mean --eval-batches?"),
        ("prune --heads 0.3", "there is no option --heads; did you mean --amount?"),
        ("plan --json", "there is no option --json; did you mean --format json?"),
        ("train", "there is no verb 'train'; did you mean finetune?"),
        ("eval", "there is no verb 'eval'; did you mean predict?"),
        ("tokenize c", "there is no verb 'tokenize'; did you mean prepare?"),
        ("pretrian", "there is no verb 'pretrian'; did you mean pretrain? (see keras-bert --help)."),
        ("finetune ner", "TASK: unknown value 'ner'; did you mean token-classification (choose from"),
        ("plan --modle x", "keras-bert plan: there is no option --modle; did you mean --model? (see keras-bert plan --help)."),
        ("plan --model base tiny", "keras-bert: there is one argument too many: 'tiny' (see keras-bert --help)."),
        ("vocab c", "keras-bert vocab: required and missing: --output (see keras-bert vocab --help)."),
        ('search index " "', "keras-bert search: QUERY: expected a text; got ' ' (see"),
        ("plan --model base --gpus 0", "keras-bert plan: --gpus: expected a whole number of at least 1; got '0' (see"),
        ("embed t --model m --output o --dtype float99", "--dtype: unknown value 'float99'; did you mean float64 (choose from"),
        ("models --model x", "keras-bert models: there is no option --model (see"),
        (
            "plan --tokens 1.5",
            "keras-bert plan: --tokens: expected a whole number of at least 1; got '1.5' (see keras-bert plan --help).",
        ),
        ("pretrain s --remat=maybe", "keras-bert pretrain: --remat: takes no value; got 'maybe' (see keras-bert pretrain --help)."),
    ],
)
def test_what_people_type_is_answered_with_what_they_mean(line, sentence, capsys):
    assert sentence in mistake(capsys, line)


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("inspect --model bert-large", "bert-large-uncased"),
        ("fill minilm text", "all-MiniLM-L6-v2"),
        ("plan --model bert-large", "'large'"),
        ("pretrain . --model bert-base-uncased", "'base'"),
        ("explain --model bert-large", "bert-large-uncased"),
    ],
)
def test_a_name_that_people_use_for_a_model_is_answered_with_its_name(line, meant, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert f"did you mean {meant}" in missing(parsed(line.split()))


def broken(verb, what):
    """The first example of a verb with a mistake in a path, in a value, or in an option."""
    words = shlex.split(VERBS[verb]["examples"][0])
    if what == "option":
        return [*words, "--no-such-thing", "1"]
    paths = (existing, checkpoint, described, index, model, size_or_path, tokenizer, path, place)
    actions = [action for action in parser_of(verb)._actions if action.dest not in ("help", "help_all", "verbose")]
    if what == "path":
        action = next((action for action in actions if action.type in paths[:-2]), None)
        wrong = "no/such/thing"
    else:
        action = next(
            (a for a in actions if a.option_strings and (a.choices or (a.type is not None and a.type not in paths))), None
        )
        wrong = "?"
    if action is None:
        return None
    if action.option_strings:
        return [*words, action.option_strings[0], wrong]
    return [words[0], wrong, *words[2:]]


@pytest.mark.parametrize("what", ["path", "value", "option"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_mistake_of_every_kind_in_every_verb_is_one_sentence(verb, what, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = broken(verb, what)
    if words is None:
        assert (verb, what) in {("models", "path"), ("curves", "value")}
        return
    if what == "path":
        sentence = missing(parsed(words))
        assert "no/such/thing" in sentence
        assert "\n" not in sentence
    else:
        said = mistake(capsys, words)
        assert said.startswith(f"keras-bert {verb}: ")
        assert ("'?'" if what == "value" else "--no-such-thing") in said
    assert [*tmp_path.iterdir()] == []


def test_without_a_verb_the_verbs_are_shown(capsys):
    assert main([]) == 2
    assert capsys.readouterr().err == overview()


def test_an_option_may_stand_before_an_argument_that_may_be_left_out():
    assert parsed(["search", "index", "--top-k", "3", "words"]).query == "words"
    assert parsed(["fill", "m", "--top-k", "3", "one", "two"]).text == ["one", "two"]
    assert parsed(["predict", "--model", "m", "--input", "i", "--output", "o", "multi_label"]).task == "multi-label"


@pytest.mark.parametrize("verb", [verb for verb in VERBS if "spellings" in VERBS[verb]])
def test_a_verb_accepts_the_names_of_other_programs_that_it_lists(verb):
    parser = parser_of(verb)
    for word in VERBS[verb]["spellings"].split():
        ours = parser._spelled_here(f"--{word.replace('-', '_')}")
        assert ours in OPTIONS[verb], word
        assert f"--{word}" not in OPTIONS[verb]
        assert next(name for name, typed in TABLE["meant"]["options"].items() if f"--{name}" == ours and word in typed.split())


@pytest.mark.parametrize(
    ("pasted", "ours"),
    [
        (
            "finetune classification --model_name_or_path m --train_file t.csv --validation_file=d.csv --max_seq_length 128"
            " --per_device_train_batch_size 16 --learning_rate 2e-5 --num_train_epochs 3 --output_dir run",
            "finetune classification --model m --train t.csv --dev d.csv --max-seq-length 128"
            " --batch-size 16 --learning-rate 2e-5 --epochs 3 --output run",
        ),
        (
            "pretrain tokens --model_name_or_path m --mlm_probability 0.2 --max_steps 9 --output_dir run",
            "pretrain tokens --init m --mask-rate 0.2 --steps 9 --output run",
        ),
    ],
)
def test_a_command_of_transformers_scripts_is_the_same_command_here(pasted, ours):
    assert parsed(pasted.split()) == parsed(ours.split())


def test_options_and_values_have_underscores_or_hyphens():
    assert parsed(["explain", "--max_predictions", "4"]) == parsed(["explain", "--max-predictions", "4"])
    args = parsed(shlex.split(f"{FINETUNE} --dtype mixed-bfloat16"))
    assert (args.task, args.dtype) == ("multi-label", "mixed_bfloat16")
    assert parsed(shlex.split(FINETUNE.replace("_", "-"))).task == "multi-label"


def test_a_text_is_not_an_option():
    assert parsed(["why", "--model", "m", "--", "--max_len"]).text == "--max_len"
