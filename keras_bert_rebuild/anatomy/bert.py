"""The anatomy of BERT, and of the families that differ from it only by fields of their configs."""

from keras_bert_rebuild.anatomy.encoder import Attention, Block, Embedding, Encoder, FeedForward, Norm, Positions
from keras_bert_rebuild.anatomy.heads import HEADS


def bert_encoder(config):
    """The `Encoder` of a `BertConfig`.

    Reference: Devlin et al., 2019, section 3 (https://arxiv.org/abs/1810.04805); Lan et al., 2020, section 3.1
    (https://arxiv.org/abs/1909.11942), for shared blocks and narrow tables.
    """
    norm = Norm(config.layer_norm_eps)
    return Encoder(
        width=config.hidden_size,
        embedding=Embedding(
            tokens=config.vocab_size,
            width=config.embedding_width,
            norm=norm,
            positions=Positions("table", config.max_position_embeddings, config.position_offset),
            pad_id=config.pad_token_id,
            segments=config.type_vocab_size,
            tasks=config.num_tasks,
            dropout=config.hidden_dropout_prob,
            widened=config.embedding_size is not None,
        ),
        blocks=tuple(
            Block(
                number=config.block_of_layer(layer) + 1,
                attention=Attention(config.num_attention_heads, config.attention_act, config.attention_probs_dropout_prob),
                feed_forward=FeedForward(config.intermediate_size, config.hidden_act),
                norm=norm,
                dropout=config.hidden_dropout_prob,
                adapter=config.adapter_size,
            )
            for layer in range(config.num_hidden_layers)
        ),
        heads=HEADS,
        labels=len(config.labels),
        crf=config.crf,
        head_dropout=config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout,
        initializer_range=config.initializer_range,
        mlm_activation=config.hidden_act if config.mlm_act is None else config.mlm_act,
        pooler_activation=config.pooler_act,
    )
