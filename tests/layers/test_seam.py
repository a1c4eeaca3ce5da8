"""Seams: the plain form, kernels and rules, and in which order they compute."""

import contextvars
import inspect
import threading

import keras
import numpy as np
import pytest
from helpers.kernel_checks import plain
from keras import ops

from keras_bert_rebuild import layers
from keras_bert_rebuild.layers import FeedForward, LayerNormalization, MultiHeadSelfAttention
from keras_bert_rebuild.layers.activations import gelu
from keras_bert_rebuild.layers.seam import PLAIN, Execution, Kernel, attach, executing, execution, kernel_of, seam

pytestmark = pytest.mark.backend


@seam
def inner(x):
    """The argument, in a list."""
    return [x]


@seam
def outer(x, more=""):
    """What `inner` gives, and more."""
    return [*inner(x), f"plain{more}"]


@pytest.fixture(autouse=True)
def _without_kernels():
    yield
    inner.kernels.clear()
    outer.kernels.clear()


def noting(word):
    """A rule or a kernel that adds a word to what it replaces."""
    return lambda replaced, *arguments, **options: [*replaced(*arguments, **options), word]


def always(*arguments, **options):
    return True


def test_without_kernels_and_rules_a_seam_is_its_plain_form():
    assert outer("x") == ["x", "plain"]
    assert outer("x", more="er") == ["x", "plainer"]
    assert kernel_of(outer, "x") is None


def test_rules_compose_in_order_and_the_last_is_the_outermost():
    with executing((outer, noting("first")), (outer, noting("second"))):
        assert outer("x") == ["x", "plain", "first", "second"]
        with executing((outer, noting("third"))):
            assert outer("x", more="er") == ["x", "plainer", "first", "second", "third"]
        assert outer("x") == ["x", "plain", "first", "second"]
    assert outer("x") == ["x", "plain"]


def test_a_rule_of_one_seam_leaves_others_alone_and_holds_within_them():
    with executing((inner, noting("inner"))):
        assert inner("x") == ["x", "inner"]
        assert outer("x") == ["x", "inner", "plain"]


def test_a_rule_may_compute_something_else_or_change_the_arguments():
    with executing((outer, lambda replaced, x, more="": [f"no {x}{more}"])):
        assert outer("x", more="!") == ["no x!"]
    with executing((outer, lambda replaced, x, more="": replaced(x + x, more=more))):
        assert outer("x") == ["xx", "plain"]


def test_the_first_kernel_that_applies_computes_and_gets_the_others_as_what_it_replaces():
    never, first, second = Kernel(noting("never"), lambda x, more="": False), noting("first"), noting("second")
    for kernel in (never, Kernel(first, lambda x, more="": more == "!"), Kernel(second, always)):
        attach(outer, kernel)
    assert outer("x", more="!") == ["x", "plain!", "second", "first"]
    assert outer("x") == ["x", "plain", "second"]
    assert kernel_of(outer, "x", more="!").function is first
    assert kernel_of(outer, "x").function is second


def test_a_kernel_need_not_call_what_it_replaces():
    attach(outer, Kernel(lambda replaced, x, more="": ["kernel"], always))
    attach(outer, Kernel(noting("next"), always))
    assert outer("x") == ["kernel"]


def test_a_rule_wraps_kernels():
    attach(outer, Kernel(noting("kernel"), always))
    with executing((outer, noting("rule"))):
        assert outer("x") == ["x", "plain", "kernel", "rule"]
        assert kernel_of(outer, "x") is not None


def test_a_kernel_that_passes_a_seam_does_not_run_under_a_rule_for_it():
    attach(outer, Kernel(lambda replaced, x, more="": ["all at once"], always, passes=(inner,)))
    attach(outer, Kernel(noting("next"), always))
    assert outer("x") == ["all at once"]
    with executing((outer, noting("rule"))):
        assert outer("x") == ["all at once", "rule"]
    with executing((inner, noting("inner"))):
        assert outer("x") == ["x", "inner", "plain", "next"]
        assert kernel_of(outer, "x") is outer.kernels[1]
    assert kernel_of(outer, "x") is outer.kernels[0]


class Base:
    @seam
    def whole(self):
        return ["whole", *self.part()]

    @seam
    def part(self):
        return ["part"]


class Other(Base):
    def part(self):
        return ["other"]


def test_a_class_that_overrides_a_seam_does_without_the_kernels_that_pass_it():
    attach(Base.whole, Kernel(lambda replaced, base: ["all at once"], always, passes=(Base.part,)))
    attach(Base.part, Kernel(noting("kernel"), always))
    assert Base().whole() == ["all at once"]
    assert Other().whole() == ["whole", "other"]


class Shifted(FeedForward):
    def outer(self, x):
        return super().outer(x) + 1


class Doubled(MultiHeadSelfAttention):
    def attend(self, *arguments):
        return 2 * super().attend(*arguments)


@pytest.mark.parametrize("make", [lambda: Shifted(16, activation=gelu), lambda: Doubled(2)])
def test_a_layer_of_a_user_computes_what_it_overrides_in_training_too(make, rng):
    x, layer = ops.convert_to_tensor(rng.standard_normal((2, 3, 8)), "float32"), make()
    layer.build(x.shape)
    expected = ops.convert_to_numpy(plain(layer, x, training=True))
    np.testing.assert_allclose(ops.convert_to_numpy(layer(x, training=True)), expected, rtol=1e-5, atol=1e-6)


def in_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def test_a_new_thread_starts_without_rules_and_its_own_stay_there():
    def with_rule():
        with executing((outer, noting("thread"))):
            return outer("x")

    with executing((outer, noting("rule"))):
        context = contextvars.copy_context()
        assert in_thread(lambda: (outer("x"), execution())) == (["x", "plain"], PLAIN)
        assert in_thread(with_rule) == ["x", "plain", "thread"]
        assert outer("x") == ["x", "plain", "rule"]
        assert in_thread(lambda: context.run(outer, "x")) == ["x", "plain", "rule"]


def test_the_execution_before_is_restored_after_an_error():
    with executing((outer, noting("first"))):
        before = execution()
        with pytest.raises(ZeroDivisionError), executing((outer, noting("second"))):
            raise ZeroDivisionError
        assert execution() is before
    assert execution() == PLAIN


def test_an_execution_is_hashable_and_equal_to_one_of_the_same_rules():
    one, other = (outer, noting("one")), (inner, noting("other"))
    both = Execution((one, other))
    assert both == Execution((one,)) | Execution((other,))
    assert hash(both) == hash(Execution((one,)) | Execution((other,)))
    assert both != Execution((other, one))
    assert Execution((one,)) != Execution(((outer, noting("one")),))
    assert {Execution(): "plain", both: "both"}[PLAIN] == "plain"
    assert Execution((one, other, one)).by_seam == {outer: [one[1], one[1]], inner: [other[1]]}
    with executing(one):
        assert execution() == Execution((one,))
        with executing():
            assert execution() == Execution((one,))


def seams_of(layer):
    """The methods of a class that are seams."""
    return {name: getattr(layer, name) for name in dir(layer) if hasattr(getattr(layer, name, None), "kernels")}


LAYERS = [value for value in vars(layers).values() if isinstance(value, type) and seams_of(value)]


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.__name__)
def test_a_method_keeps_its_name_its_signature_and_its_docstring(layer):
    for name, method in seams_of(layer).items():
        plain_form = method.__wrapped__
        assert method.__name__ == plain_form.__name__ == name
        assert method.__doc__ == plain_form.__doc__
        assert inspect.signature(method) == inspect.signature(plain_form)


def test_keras_supplies_training_and_mask():
    given = []

    def note(replaced, layer, *arguments, **options):
        bound = inspect.signature(FeedForward.call).bind(layer, *arguments, **options).arguments
        given.append((bound["training"], bound["mask"] is not None))
        return replaced(layer, *arguments, **options)

    inputs = keras.Input((4,), dtype="int32")
    model = keras.Model(inputs, FeedForward(16)(keras.layers.Embedding(9, 8, mask_zero=True)(inputs)))
    with executing((FeedForward.call, note)):
        for training in (True, False):
            model(np.array([[1, 2, 0, 0]]), training=training)
    assert given == [(True, True), (False, True)]


LAYERS_WITH_CALL = {
    "feed-forward": lambda: FeedForward(16, activation="gelu"),
    "norm": LayerNormalization,
    "attention": lambda: MultiHeadSelfAttention(2),
}


@pytest.mark.parametrize("kind", LAYERS_WITH_CALL)
def test_rules_change_layers_within_a_block_and_not_after_it(kind, rng):
    x, layer = ops.convert_to_tensor(rng.standard_normal((2, 3, 8)), "float32"), LAYERS_WITH_CALL[kind]()
    before = ops.convert_to_numpy(layer(x))
    with executing((type(layer).call, lambda replaced, *arguments, **options: 2 * replaced(*arguments, **options))):
        np.testing.assert_allclose(ops.convert_to_numpy(layer(x)), 2 * before, rtol=1e-6)
    np.testing.assert_array_equal(ops.convert_to_numpy(layer(x)), before)


def test_attention_calls_its_seams_in_order(rng):
    x, layer, names = ops.convert_to_tensor(rng.standard_normal((2, 5, 8)), "float32"), MultiHeadSelfAttention(2), []

    def noted(name):
        def rule(replaced, layer, *arguments, **options):
            names.append(name)
            return replaced(layer, *arguments, **options)

        return getattr(MultiHeadSelfAttention, name), rule

    layer.build(x.shape)
    with executing(*map(noted, ("merge", "attend", "project", "call"))):
        found = layer(x)
    assert names == ["call", "project", "attend", "merge"]
    np.testing.assert_allclose(*(ops.convert_to_numpy(y) for y in (found, plain(layer, x))), rtol=0, atol=1e-6)


def test_no_kernel_of_attention_ignores_a_subclass_with_other_scores(rng):
    class Colder(MultiHeadSelfAttention):
        @seam
        def scores(self, query, key, *shared):
            return super().scores(query, key, *shared) / 2

    layers = [kind(2, attention_dropout=0.0) for kind in (MultiHeadSelfAttention, Colder)]
    x = rng.standard_normal((2, 5, 8)).astype("float32")
    for layer in layers:
        layer.build(x.shape)
        layer.set_weights(layers[0].get_weights())
    query, key, value = layers[1].project(x)
    expected = layers[0].attend(query / 2, key, value, np.ones((2, 5), bool))
    found = layers[1].attend(query, key, value, np.ones((2, 5), bool))
    np.testing.assert_allclose(ops.convert_to_numpy(found), ops.convert_to_numpy(expected), rtol=1e-5, atol=1e-6)
