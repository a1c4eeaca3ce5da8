"""A confusion matrix as a picture, SVG without a drawing library."""

from keras_bert_rebuild.files.printable import in_xml

CELL, FONT, WIDEST_LABEL = 34, 12, 24
_STYLE = "font-family:sans-serif;font-size:{}px;fill:#222"


def confusion_svg(labels, matrix, title=""):
    """A picture of a confusion matrix: rows are true labels, columns what they were taken for.

    Cells are as dark as their part of the row; numbers are counts, left out where there are more than forty labels.

    Args:
        labels: names of rows and columns.
        matrix: counts, a list of rows.
        title: a line above it.

    Returns:
        The text of an SVG file.
    """
    cell = CELL if len(labels) <= 40 else max(6, 1400 // len(labels))
    font = min(FONT, max(5, cell - 2))
    names = [in_xml(label if len(label) <= WIDEST_LABEL else f"{label[: WIDEST_LABEL - 1]}…") for label in map(str, labels)]
    margin = int(max(map(len, names), default=1) * font * 0.62) + 24
    top, side = margin + 30, len(labels) * cell
    width, height = margin + side + 20, top + side + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{margin}" y="18" style="{_STYLE.format(FONT + 1)}">{in_xml(title)}</text>',
    ]
    for i, (name, row) in enumerate(zip(names, matrix, strict=True)):
        middle = i * cell + cell / 2 + font / 3
        parts.append(
            f'<text x="{margin - 6}" y="{top + middle:.1f}" text-anchor="end" style="{_STYLE.format(font)}">{name}</text>'
            f'<text transform="translate({margin + middle:.1f},{top - 6}) rotate(-90)" style="{_STYLE.format(font)}">{name}</text>'
        )
        whole = sum(row)
        for j, count in enumerate(row):
            share = count / whole if whole else 0.0
            # White to a dark blue, the numbers white where it is dark.
            red, green, blue = (round(255 + share * (end - 255)) for end in (8, 64, 129))
            x, y = margin + j * cell, top + i * cell
            parts.append(
                f'<rect x="{x}" y="{y}" width="{cell}" height="{cell}" fill="rgb({red},{green},{blue})" stroke="#ddd">'
                f"<title>{name} taken for {names[j]}: {count}, {share:.1%}</title></rect>"
            )
            if count and len(labels) <= 40:
                ink = "#fff" if share > 0.5 else "#222"
                parts.append(
                    f'<text x="{x + cell / 2}" y="{y + cell / 2 + 3}" text-anchor="middle" '
                    f'style="font-family:sans-serif;font-size:{10 if count < 10000 else 8}px;fill:{ink}">{count}</text>'
                )
    return "\n".join([*parts, "</svg>", ""])
