"""Batches with labels at some positions, for hypothesis."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

# Batches of up to 3 examples of up to 7 positions, some of them labelled, and a number of slots that may be too large.
BATCHES = st.tuples(st.integers(1, 3), st.integers(1, 7)).flatmap(
    lambda shape: st.tuples(
        st.lists(st.booleans(), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]).map(
            lambda chosen: np.reshape(chosen, shape)
        ),
        st.integers(1, 9),
    )
)
of_batches = settings(max_examples=25)
