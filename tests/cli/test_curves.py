"""`keras-bert curves`."""

from keras_bert_rebuild.cli.main import main


def test_the_curves_lie_in_the_folder_of_the_run(capsys, tmp_path):
    assert main(["curves", str(tmp_path)]) == 2
    assert f"expected the metrics.csv of a run; {tmp_path / 'metrics.csv'} does not exist." in capsys.readouterr().err
    (tmp_path / "metrics.csv").write_text("step,loss\n1,2.5\n2,2\n", encoding="utf-8")
    assert main(["curves", str(tmp_path)]) == 0
    assert (tmp_path / "curves.svg").read_text(encoding="utf-8").startswith("<svg")
    assert main(["curves", str(tmp_path / "metrics.csv"), "--output", str(tmp_path / "other.svg")]) == 0
    assert (tmp_path / "other.svg").read_bytes() == (tmp_path / "curves.svg").read_bytes()
