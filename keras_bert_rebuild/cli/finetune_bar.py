"""A bar for a fine-tuning, fed with the rows of its curve."""

from keras_bert_rebuild.cli.training_bar import TrainingBar

# Columns of the curve, how they are shown.
SHOWN = (
    ("epoch", "epoch {:.1f}"),
    ("loss", "loss {:.4f}"),
    ("dev_accuracy", "accuracy {:.4f}"),
    ("dev_micro_f1", "micro F1 {:.4f}"),
    ("dev_f1", "F1 {:.4f}"),
    ("dev_exact_match", "exact {:.4f}"),
    ("dev_spearman", "Spearman {:.4f}"),
    ("evaluated", "evaluating {:.0%}"),
    ("examples_per_second", "{:,.0f} ex/s"),
)


class FinetuneBar(TrainingBar):
    """Steps done, the time taken and left, and below them loss and scores.

    Example: `with FinetuneBar(console) as bar: finetune("classification", model, train, dev, output, report=bar)`.
    """

    shown = SHOWN

    def __init__(self, console):
        super().__init__(console, None)

    def __enter__(self):
        return self  # nothing to show before the first row: there may be only an error

    def __exit__(self, *error):
        if self.live.is_started:
            super().__exit__(*error)

    def __call__(self, row):
        """Show a row of the curve; the first has the number of steps."""
        if "steps" in row:
            self.update(self._task, total=row["steps"])
            self.start()
        if self._known is not None and "evaluated" not in row:
            self._known.pop("evaluated", None)
        super().__call__(row)
