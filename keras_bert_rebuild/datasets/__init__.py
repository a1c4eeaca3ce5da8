"""Released checkpoints, under keras_bert's import path."""

from keras_bert_rebuild.datasets.pretrained import PretrainedInfo, PretrainedList, get_pretrained

__all__ = ["PretrainedInfo", "PretrainedList", "get_pretrained"]
