"""`keras-bert plan`."""

import json

import pytest

from keras_bert_rebuild import plan
from keras_bert_rebuild.cli.main import main


def test_a_plan_is_read_at_a_glance(capsys):
    arguments = ["--tpu", "v5e:4x4", "--batch-size", "1024", "--dtype", "mixed_bfloat16", "--tokens", "137e9"]
    assert main(["plan", "--model", "base", *arguments]) == 0
    printed = capsys.readouterr().out
    made = plan("base", tpu="v5e:4x4", batch_size=1024, dtype="mixed_bfloat16", tokens=137e9)
    for fact in (
        "base on TPU v5e, slice 4x4, 16 chips",
        f"{made.num_parameters:,} parameters, 1,024 examples of 128 tokens per step, 64 per device at once, mixed_bfloat16",
        f"{made.memory.total / 1e9:,.2f} GB",
        "16.91 GB",
        "fits",
        f"{made.largest_batch:,}",
        f"{made.step_seconds * 1e3:,.1f} ms",
        f"{made.device_hours:,.1f}",
        "https://cloud.google.com/tpu/docs/v5e",
    ):
        assert fact in printed
    assert max(map(len, printed.splitlines())) <= 120


def test_what_does_not_fit_is_drawn_beyond_the_limit(capsys):
    assert main(["plan", "--model", "large", "--gpu", "t4", "--batch-size", "512"]) == 0
    printed = capsys.readouterr().out
    assert "does not fit" in printed
    bar = next(line for line in printed.splitlines() if "│" in line)
    inside, outside = bar.split("│")
    assert set(inside) <= set("█▓▒░")
    assert set(outside.strip()) <= set("▓▒░")
    assert len(inside) + len(outside.rstrip()) == 48


def test_the_bar_is_to_scale(capsys):
    main(["plan", "--model", "base", "--gpu", "l4", "--batch-size", "64"])
    bar = next(line for line in capsys.readouterr().out.splitlines() if "│" in line).split("│")[0]
    made = plan("base", gpu="l4", batch_size=64)
    assert abs(bar.count("▒") - 48 * made.memory.activations / 24e9) <= 1
    assert abs(bar.count("▓") - 48 * made.memory.optimizer / 24e9) <= 1


def test_json_is_the_plan(capsys):
    assert (
        main(["plan", "--model", "tiny", "--gpus", "8", "--gpu", "h100", "--format", "json", "--batch-size", "256", "--remat"]) == 0
    )
    printed = json.loads(capsys.readouterr().out)
    made = plan("tiny", gpus=8, gpu="h100", batch_size=256, remat=True)
    assert printed == json.loads(json.dumps(made.to_dict()))


def test_the_source_of_the_time_and_the_padding_are_printed(capsys):
    arguments = [
        "plan",
        "--model",
        "base",
        "--gpu",
        "h100",
        "--batch-size",
        "256",
        "--dtype",
        "mixed_bfloat16",
        "--real-tokens",
        "0.85",
    ]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "tokens per second, padding of 15% not counted" in printed
    assert "Computation: BERT-base, 256 x 128, with dropout, mixed_bfloat16, measured on an H100" in printed
    assert main([*arguments, "--packing", "--mfu", "0.3"]) == 0
    printed = capsys.readouterr().out
    assert "padding of" not in printed
    assert "computed at an MFU of 30% of" in printed


def test_the_figures_of_the_compiler_are_next_to_the_estimate(capsys, monkeypatch):
    said = {
        "arguments": 1_321_838_592,
        "temporaries": 2_326_914_048,
        "program": 335_019_008,
        "flops": 4.7e12,
        "all_reduce": 313_533_712,
    }
    monkeypatch.setattr("keras_bert_rebuild.recipes.planning.plan.ask_compiler", lambda *_: said)
    assert main(["plan", "--model", "base", "--tpu", "v5e:2x2", "--compile"]) == 0
    printed = capsys.readouterr().out
    most = next(line for line in printed.splitlines() if "maximum at once" in line)
    assert most.split()[-2:] == ["3.65", "GB"]
    assert "18.8 TFLOP" in printed
    assert "313.5 MB" in printed or "0.31 GB" in printed
    monkeypatch.setattr("keras_bert_rebuild.recipes.planning.plan.ask_compiler", lambda *_: {"refused": "Ran out of memory."})
    assert main(["plan", "--model", "base", "--tpu", "v5e:2x2", "--compile"]) == 0
    printed = capsys.readouterr().out
    assert next(line for line in printed.splitlines() if "maximum at once" in line).endswith("does not fit")
    assert "Ran out of memory." in printed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "base"], "one of tpu (such as v5e:4x4), gpu (such as h100) and cpu to plan for; got none"),
        (["--model", "base", "--tpu", "v9:2x2"], "--tpu must be one of v4, v5e, v5p, v6e"),
        (["--model", "base", "--tpu", "v5e:5x5"], "must be one of 1x1, 2x2, 2x4"),
        (["--model", "base", "--gpu", "rtx1"], "--gpu must be one of a100-40"),
        (["--model", "base", "--gpu", "l4", "--max-seq-length", "513"], "--max-seq-length must be at most 512"),
        (["--model", "base", "--tpu", "v5e:2x2", "--batch-size", "255"], "multiple of the 4 devices"),
        (["--model", "nothing.json", "--gpu", "l4"], "nothing.json; it does not exist"),
    ],
)
def test_impossible_arguments_are_one_sentence_and_exit_code_2(capsys, arguments, said):
    assert main(["plan", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("keras-bert plan: ")
    assert error.count("\n") == 1
    assert said in error


@pytest.mark.parametrize(
    "arguments", [["--tokens", "1.5"], ["--tokens", "inf"], ["--tokens", "many"], ["--dtype", "int4"], ["--gpus", "x"]]
)
def test_words_instead_of_numbers_exit_with_2(capsys, arguments):
    with pytest.raises(SystemExit) as exit_:
        main(["plan", "--model", "base", "--gpu", "l4", *arguments])
    assert exit_.value.code == 2
    assert "Traceback" not in capsys.readouterr().err
