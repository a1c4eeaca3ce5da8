"""The examples of a corpus before masking: spans of documents as one segment or two."""

from keras_bert_rebuild.data.pretraining.examples import Examples, shortened
from keras_bert_rebuild.data.pretraining.mixed_examples import examples_of
from keras_bert_rebuild.data.pretraining.segment_pairs import OTHER_SPAN, next_sentence_pairs, sentence_order_pairs, single_segments
from keras_bert_rebuild.data.random_numbers import Stream, uniform_at


class SegmentExamples:
    """The examples of every pass over a corpus.

    Args:
        store: a `TokenCorpus`, a `MixedCorpus`, or any object with the attributes of one.
        tables: the `VocabularyTables` of the corpus.
        length: maximum number of tokens of an example, without special tokens.
        seed: an integer.
        next_sentence, random_next_rate, short_seq_prob: as for `PretrainingBatches`.
    """

    def __init__(self, store, tables, length, seed=0, next_sentence="nsp", random_next_rate=0.5, short_seq_prob=0.1):
        self.next_sentence = next_sentence
        self._store, self._tables, self._length = store, tables, length
        self._random_next_rate, self._short_seq_prob = random_next_rate, short_seq_prob
        self._spans = examples_of(store, lambda part, of_part: Examples(part, length, of_part), seed)

    def __len__(self):
        return len(self._spans)

    def at(self, positions):
        """The examples at positions in the endless sequence of passes.

        Args:
            positions: integers `(examples,)` from 0; position p is in pass p // len(self).

        Returns:
            The keys of their random numbers, uint64 `(examples,)`, and their `Segments`.
        """
        spans, targets = shortened(self._spans.at(positions), self._short_seq_prob, self._length)
        if self.next_sentence == "nsp":
            others = self._spans.of_other_documents(spans, uniform_at(spans.keys, OTHER_SPAN, Stream.PAIR))
            segments = next_sentence_pairs(self._store, self._tables, spans, others, targets, self._random_next_rate)
        elif self.next_sentence == "sop":
            segments = sentence_order_pairs(self._store, self._tables, spans, targets, self._random_next_rate)
        else:
            segments = single_segments(spans)
        return spans.keys, segments
