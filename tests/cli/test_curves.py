"""`keras-bert curves`."""

from xml.etree import ElementTree

from keras_bert_rebuild.cli.main import main


def test_the_curves_are_in_the_folder_of_the_run(capsys, tmp_path):
    assert main(["curves", str(tmp_path)]) == 2
    assert f"expected the metrics.csv of a run; {tmp_path / 'metrics.csv'} does not exist." in capsys.readouterr().err
    (tmp_path / "metrics.csv").write_text("step,loss\n1,2.5\n2,2\n", encoding="utf-8")
    assert main(["curves", str(tmp_path)]) == 0
    assert (tmp_path / "curves.svg").read_text(encoding="utf-8").startswith("<svg")
    assert main(["curves", str(tmp_path / "metrics.csv"), "--output", str(tmp_path / "other.svg")]) == 0
    assert (tmp_path / "other.svg").read_bytes() == (tmp_path / "curves.svg").read_bytes()


def test_the_name_of_a_column_is_a_text_in_the_picture(tmp_path):
    name = 'x<script>window.found=1</script>y"onload="'
    (tmp_path / "metrics.csv").write_text(
        f'step,"probe_{name.replace(chr(34), chr(34) * 2)}_accuracy"\n1,0.1\n2,0.4\n', encoding="utf-8"
    )
    assert main(["curves", str(tmp_path)]) == 0
    elements = list(ElementTree.parse(tmp_path / "curves.svg").iter())
    assert [one for one in elements if one.tag.endswith("script")] == []
    assert f"Probe {name}: accuracy" in [one.text for one in elements]
