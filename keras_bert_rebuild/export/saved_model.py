"""A TensorFlow SavedModel that takes text: the tokenizer is part of the graph."""

import keras

from keras_bert_rebuild.anatomy.bare_if_one import bare_if_one
from keras_bert_rebuild.export.runtimes import LEFT_OUT, input_names, output_names
from keras_bert_rebuild.tasks.embedding_model import for_any_length
from keras_bert_rebuild.text.tensorflow_wordpiece import TensorFlowWordPiece, is_available
from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceTokenizer


def write_saved_model(model, tokenizer, folder, max_len, of_task=None):
    """Write a SavedModel that maps text to outputs.

    Its signatures are `serving_default(text)`, `pairs(text, second_text)` if the model has segments, and `ids(input_ids, ...)` for
    ids from another tokenizer. Batch size and length are free. Long texts are truncated as by `encode_batch`. Outputs have
    their names in the model; classification logits come with `probabilities` and, if exactly one label applies, `label`; outputs
    per token come with their `input_ids`.

    Args:
        model: a model of this library, on the TensorFlow backend.
        tokenizer: its `WordPieceTokenizer`.
        folder: the folder to write to.
        max_len: maximum number of tokens of a row.
        of_task: the settings of the task in export.json. `serving_default` puts its prompt before texts; `query(text)` and
            `document(text)` have their own. For a reranker, `serving_default` takes pairs.

    Raises:
        ValueError: the backend is not TensorFlow, the tokenizer is of another kind, or tensorflow-text is missing.
    """
    backend = keras.config.backend()
    if backend != "tensorflow":
        raise ValueError(f"a SavedModel needs the TensorFlow backend (KERAS_BACKEND=tensorflow); got {backend}.")
    if not isinstance(tokenizer, WordPieceTokenizer) or tokenizer.added_tokens:
        raise ValueError(
            "a SavedModel takes text through a WordPieceTokenizer without added_tokens; got "
            f"{type(tokenizer).__name__}{' with ' + ', '.join(tokenizer.added_tokens) if tokenizer.added_tokens else ''}."
        )
    if not is_available():
        raise ValueError("a SavedModel needs tensorflow-text of the same version as TensorFlow: pip install tensorflow-text.")
    import tensorflow as tf

    of_task = of_task or {}
    served = _Served(for_any_length(model), tokenizer, max_len, halves=of_task.get("kind") == "reranking")
    archive = keras.export.ExportArchive()
    archive.track(served.model)
    texts = tf.TensorSpec([None], tf.string, name="text")
    second = tf.TensorSpec([None], tf.string, name="second_text")
    if of_task.get("kind") == "reranking":
        archive.add_endpoint("serving_default", served.on_pairs, input_signature=[texts, second])
    else:
        prompts = {"serving_default": of_task.get("prompt", "")}
        prompts |= {name: of_task["prompts"][name] for name in ("query", "document") if name in of_task.get("prompts", {})}
        for name, prompt in prompts.items():
            archive.add_endpoint(name, served.on_texts_with(prompt), input_signature=[texts])
    if "Input-Segment" in served.inputs and not of_task:
        archive.add_endpoint("pairs", served.on_pairs, input_signature=[texts, second])
    ids = {name: tf.TensorSpec([None, None], tf.int32, name=name) for name in served.inputs.values()}
    archive.add_endpoint("ids", served.on_ids, input_signature=[ids])
    archive.write_out(str(folder), verbose=False)


class _Served:
    """The functions of the signatures."""

    def __init__(self, model, tokenizer, max_len, halves=False):
        self.model, self.halves = model, halves
        self.inputs = input_names(model)
        self.outputs = output_names(model)
        self.labels = getattr(model.config, "labels", ())
        self.problem = getattr(model.config, "problem_type", None)
        self.tokenizer = tokenizer
        self.max_len = max_len
        # Ids without a token, after a repeated vocabulary line, get tokens that cannot occur in a text.
        tokens = [tokenizer.tokens.get(i) or f" {i}" for i in range(max(tokenizer.tokens) + 1)]
        self.pieces = TensorFlowWordPiece(tokens, tokenizer.tokens[tokenizer.unk_id], tokenizer.settings)

    def on_texts_with(self, prompt):
        """A function from texts to outputs that puts a prompt before the texts."""
        import tensorflow as tf

        def on_texts(text):
            ids = self._pieces(tf.strings.join([prompt, text]) if prompt else text)
            return self._on_rows([self._cut(ids, tf.minimum(ids.row_lengths(), self.max_len - 2))])

        return on_texts

    def on_pairs(self, text, second_text):
        """Outputs for pairs of texts."""
        import tensorflow as tf

        first, second = self._pieces(text), self._pieces(second_text)
        first_length, second_length = first.row_lengths(), second.row_lengths()
        available = self.max_len - 2 - self.tokenizer.separators
        # `longest_first` of `encode_batch`; `halves` for a reranker.
        share = tf.cast(available // 2, second_length.dtype) * tf.ones_like(second_length)
        if self.halves:
            share += tf.cast(second_length >= first_length, share.dtype) * (available % 2)
        second_length = tf.minimum(second_length, tf.maximum(share, available - first_length))
        first_length = tf.minimum(first_length, available - second_length)
        return self._on_rows([self._cut(first, first_length), self._cut(second, second_length)])

    def on_ids(self, ids):
        """Outputs for rows of ids."""
        import tensorflow as tf

        columns = {name: _with_width(ids[outside]) for name, outside in self.inputs.items()}
        columns[LEFT_OUT] = tf.zeros_like(columns["Input-Token"])
        return self._outputs([columns[tensor.name] for tensor in self.model.inputs])

    def _cut(self, ragged, counts):
        """The `counts` values of every row at its beginning, or at its end if texts are cut on the left."""
        import tensorflow as tf

        rows = ragged.value_rowids()
        offsets = tf.range(tf.size(rows, out_type=rows.dtype)) - tf.gather(ragged.row_starts(), rows)
        begins = ragged.row_lengths() - counts if self.tokenizer.truncation_side == "left" else tf.zeros_like(counts)
        offsets -= tf.gather(begins, rows)
        is_kept = (offsets >= 0) & (offsets < tf.gather(counts, rows))
        return tf.RaggedTensor.from_row_lengths(tf.boolean_mask(ragged.flat_values, is_kept), counts)

    def _pieces(self, texts):
        import tensorflow as tf

        # Invalid UTF-8 becomes a character that BERT drops.
        return self.pieces(tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace"))

    def _on_rows(self, sides):
        import tensorflow as tf

        ones = tf.ones_like(sides[0].row_lengths(), tf.int32)[:, None]
        ids, segments = [ones * self.tokenizer.cls_id], [ones * 0]
        for number, side in enumerate(sides):
            segment = number * self.tokenizer.second_segment
            ids += [side, ones * self.tokenizer.sep_id]
            segments += [tf.ones_like(side) * segment, ones * segment]
        ids, segments = tf.concat(ids, axis=1), tf.concat(segments, axis=1)
        columns = {
            "Input-Token": _with_width(ids.to_tensor(self.tokenizer.pad_id)),
            "Input-Segment": _with_width(segments.to_tensor()),
            "Input-Mask": _with_width(tf.ones_like(ids).to_tensor()),
        }
        columns["Input-Task"] = ones * 0
        columns[LEFT_OUT] = columns["Input-Token"] * 0
        outputs_by_name = self._outputs([columns[tensor.name] for tensor in self.model.inputs])
        if any(len(tensor.shape) == 3 for tensor in self.model.outputs):
            outputs_by_name["input_ids"] = columns["Input-Token"]
        return outputs_by_name

    def _outputs(self, columns):
        import tensorflow as tf

        outputs = self.model(bare_if_one(columns), training=False)
        outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        outputs_by_name = {name: tf.cast(value, tf.float32) for name, value in zip(self.outputs, outputs, strict=True)}
        if "Classification" not in self.model.output_names or self.problem == "regression":
            return outputs_by_name
        if self.problem == "multi_label_classification":
            outputs_by_name["probabilities"] = tf.sigmoid(outputs_by_name["logits"])
        elif len(self.labels) > 1:  # a single output is a regression
            outputs_by_name["probabilities"] = tf.nn.softmax(outputs_by_name["logits"])
            outputs_by_name["label"] = tf.gather(tf.constant(self.labels), tf.argmax(outputs_by_name["logits"], axis=-1))
        return outputs_by_name


def _with_width(rows):
    """The rows; an empty batch gets width 1, since a model reads the first token of every row."""
    import tensorflow as tf

    is_empty = tf.reduce_all(tf.equal(tf.shape(rows), 0))
    return tf.pad(rows, [[0, 0], [0, tf.cast(is_empty, tf.int32)]])
