"""A TensorFlow SavedModel that takes text: the tokenizer is in the graph."""

import keras

from keras_bert_rebuild.anatomy.bare_if_one import bare_if_one
from keras_bert_rebuild.export.names_outside import LEFT_OUT, input_names, output_names
from keras_bert_rebuild.tasks.embedding_model import of_any_length
from keras_bert_rebuild.text.tensorflow_wordpiece import TensorFlowWordPiece, is_available
from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceTokenizer


def write_saved_model(model, tokenizer, folder, max_len):
    """Write a SavedModel with text in and answers out.

    Its signatures are `serving_default(text)`, where the model has segments `pairs(text, second_text)`, and `ids(input_ids, ...)`,
    which takes what another tokenizer made. Batch and length are free. A text that is too long is cut as `encode_batch` does. The
    answers are the outputs of the model by name; logits of a classification come with `probabilities` and, where one label holds,
    `label`, and answers for every token with the `input_ids` that they are for.

    Args:
        model: a model of this library, on the TensorFlow backend.
        tokenizer: its `WordPieceTokenizer`.
        folder: where to write.
        max_len: tokens of a row at the most.

    Raises:
        ValueError: another backend, another kind of tokenizer, or no tensorflow-text.
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
        raise ValueError("a SavedModel needs tensorflow-text of TensorFlow's own version: pip install tensorflow-text.")
    import tensorflow as tf

    served = _Served(of_any_length(model), tokenizer, max_len)
    archive = keras.export.ExportArchive()
    archive.track(served.model)
    texts = tf.TensorSpec([None], tf.string, name="text")
    archive.add_endpoint("serving_default", served.answer_texts, input_signature=[texts])
    if "Input-Segment" in served.inputs:
        second = tf.TensorSpec([None], tf.string, name="second_text")
        archive.add_endpoint("pairs", served.answer_pairs, input_signature=[texts, second])
    ids = {name: tf.TensorSpec([None, None], tf.int32, name=name) for name in served.inputs.values()}
    archive.add_endpoint("ids", served.answer_ids, input_signature=[ids])
    archive.write_out(str(folder), verbose=False)


class _Served:
    """The functions behind the signatures."""

    def __init__(self, model, tokenizer, max_len):
        self.model = model
        self.inputs = input_names(model)
        self.outputs = output_names(model)
        self.labels = getattr(model.config, "labels", ())
        self.problem = getattr(model.config, "problem_type", None)
        self.tokenizer = tokenizer
        self.max_len = max_len
        # Ids that no token has, after a repeated line, are given to tokens that no text can have.
        tokens = [tokenizer.tokens.get(i) or f" {i}" for i in range(max(tokenizer.tokens) + 1)]
        self.pieces = TensorFlowWordPiece(tokens, tokenizer.tokens[tokenizer.unk_id], tokenizer.settings)

    def answer_texts(self, text):
        """Answers to texts."""
        import tensorflow as tf

        ids = self._pieces(text)
        return self._answer_rows([_cut(ids, tf.minimum(ids.row_lengths(), self.max_len - 2))])

    def answer_pairs(self, text, second_text):
        """Answers to pairs of texts."""
        import tensorflow as tf

        first, second = self._pieces(text), self._pieces(second_text)
        before, behind = first.row_lengths(), second.row_lengths()
        room = self.max_len - 2 - self.tokenizer.separators
        # `longest_first` of `encode_batch`.
        behind = tf.minimum(behind, tf.maximum(tf.cast(room // 2, behind.dtype), room - before))
        return self._answer_rows([_cut(first, tf.minimum(before, room - behind)), _cut(second, behind)])

    def answer_ids(self, ids):
        """Answers to rows of ids."""
        import tensorflow as tf

        columns = {name: _of_some_width(ids[outside]) for name, outside in self.inputs.items()}
        columns[LEFT_OUT] = tf.zeros_like(columns["Input-Token"])
        return self._answers([columns[tensor.name] for tensor in self.model.inputs])

    def _pieces(self, texts):
        import tensorflow as tf

        # What is no UTF-8 becomes a character that BERT drops.
        return self.pieces(tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace"))

    def _answer_rows(self, sides):
        import tensorflow as tf

        one = tf.ones_like(sides[0].row_lengths(), tf.int32)[:, None]
        ids, segments = [one * self.tokenizer.cls_id], [one * 0]
        for number, side in enumerate(sides):
            segment = number * self.tokenizer.second_segment
            ids += [side, one * self.tokenizer.sep_id]
            segments += [tf.ones_like(side) * segment, one * segment]
        ids, segments = tf.concat(ids, axis=1), tf.concat(segments, axis=1)
        columns = {
            "Input-Token": _of_some_width(ids.to_tensor(self.tokenizer.pad_id)),
            "Input-Segment": _of_some_width(segments.to_tensor()),
            "Input-Mask": _of_some_width(tf.ones_like(ids).to_tensor()),
        }
        columns["Input-Task"] = one * 0
        columns[LEFT_OUT] = columns["Input-Token"] * 0
        answers = self._answers([columns[tensor.name] for tensor in self.model.inputs])
        if any(len(tensor.shape) == 3 for tensor in self.model.outputs):
            answers["input_ids"] = columns["Input-Token"]
        return answers

    def _answers(self, columns):
        import tensorflow as tf

        outputs = self.model(bare_if_one(columns), training=False)
        outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        answers = {name: tf.cast(value, tf.float32) for name, value in zip(self.outputs, outputs, strict=True)}
        if "Classification" not in self.model.output_names or self.problem == "regression":
            return answers
        if self.problem == "multi_label_classification":
            answers["probabilities"] = tf.sigmoid(answers["logits"])
        elif len(self.labels) > 1:  # one output is a number, as of a regression
            answers["probabilities"] = tf.nn.softmax(answers["logits"])
            answers["label"] = tf.gather(tf.constant(self.labels), tf.argmax(answers["logits"], axis=-1))
        return answers


def _of_some_width(rows):
    """Rows; where there are none, none of one token, since a model takes the first token of every row."""
    import tensorflow as tf

    is_empty = tf.reduce_all(tf.equal(tf.shape(rows), 0))
    return tf.pad(rows, [[0, 0], [0, tf.cast(is_empty, tf.int32)]])


def _cut(ragged, counts):
    """The first so many values of every row."""
    import tensorflow as tf

    rows = ragged.value_rowids()
    places = tf.range(tf.size(rows, out_type=rows.dtype)) - tf.gather(ragged.row_starts(), rows)
    return tf.RaggedTensor.from_row_lengths(tf.boolean_mask(ragged.flat_values, places < tf.gather(counts, rows)), counts)
