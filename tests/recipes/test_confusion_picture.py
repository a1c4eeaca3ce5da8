"""The picture of a confusion matrix is well-formed, whatever the labels are called, and as dark as the counts say."""

from xml.etree import ElementTree

import pytest

from keras_bert_rebuild.recipes.confusion_picture import confusion_svg

NAMESPACE = "{http://www.w3.org/2000/svg}"


def cells(labels, matrix):
    """The cells of the picture: `((red, green, blue), what they tell)`."""
    root = ElementTree.fromstring(confusion_svg(labels, matrix, "a < b"))
    found = [rect for rect in root.iter(f"{NAMESPACE}rect") if len(rect)]
    return root, [(tuple(map(int, rect.get("fill")[4:-1].split(","))), rect[0].text) for rect in found]


def test_every_pair_of_labels_has_a_cell_that_is_as_dark_as_its_part_of_the_row():
    root, found = cells(["<&>", "good"], [[3, 1], [0, 0]])
    assert [text for _, text in found] == [
        "<&> taken for <&>: 3, 75.0%",
        "<&> taken for good: 1, 25.0%",
        "good taken for <&>: 0, 0.0%",
        "good taken for good: 0, 0.0%",
    ]
    assert found[2][0] == found[3][0] == (255, 255, 255)
    assert found[0][0] < found[1][0] < found[2][0]
    assert "a < b" in [text.text for text in root.iter(f"{NAMESPACE}text")]


@pytest.mark.parametrize("count", [1, 41, 151])
def test_any_number_of_labels_fits(count):
    matrix = [[int(i == j) for j in range(count)] for i in range(count)]
    root, found = cells([f"a label with a long name, number {i}" for i in range(count)], matrix)
    assert len(found) == count**2
    assert int(root.get("width")) < 2500
