"""Multinomial logistic regression against scikit-learn's."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from keras_bert_rebuild.tasks.metrics.linear_probe import fit_linear_probe


@pytest.mark.parametrize(("n", "width", "labels"), [(200, 8, 2), (200, 8, 5), (60, 100, 3)])
@pytest.mark.parametrize("l2", [1.0, 1e-3])
def test_the_fit_is_scikit_learns(n, width, labels, l2):
    rng = np.random.default_rng(n + labels)
    answers = np.arange(n) % labels
    vectors = rng.standard_normal((labels, width))[answers] + rng.standard_normal((n, width)) * rng.uniform(0.2, 3, width) + 1
    peer = LogisticRegression(C=(2 if labels == 2 else 1) / (l2 * n), tol=1e-10, max_iter=10_000).fit(vectors, answers)
    probe = fit_linear_probe(vectors, answers, labels, l2)
    np.testing.assert_allclose(np.exp(probe.log_probabilities(vectors)), peer.predict_proba(vectors), atol=1e-5)
    # For two labels scikit-learn has the difference of their vectors.
    kernel = probe.kernel.T if labels > 2 else (probe.kernel[:, 1:] - probe.kernel[:, :1]).T
    np.testing.assert_allclose(kernel, peer.coef_, atol=1e-4)
