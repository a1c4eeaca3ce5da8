"""Out-of-memory errors of every backend as one sentence with remedies."""

import sys

# The errors of the backends: the module, used only if it is imported, and the names from there to the class.
_CLASSES = (
    ("tensorflow", ("errors", "ResourceExhaustedError")),
    ("torch", ("OutOfMemoryError",)),
    ("jax", ("errors", "JaxRuntimeError")),
)

# The words of a RuntimeError that is about memory.
_WORDS = ("RESOURCE_EXHAUSTED", "out of memory", "not enough memory", "can't allocate memory", "failed to allocate", "oom when")

# From verbs to what helps.
REMEDIES = {
    "pretrain": (
        "a smaller --batch-size",
        "more --gradient-accumulation-steps, or --remat yes",
        "a shorter --seq-len",
    ),
    "finetune": ("a smaller --batch-size", "a shorter --max-len", "--lora-rank 8 or --dtype mixed_bfloat16"),
    "predict": ("a smaller --batch-size", "a model that was fine-tuned with a shorter --max-len", "a machine with more memory"),
    "embed": ("a shorter --max-len", "--dtype mixed_bfloat16", "a machine with more memory"),
    "attention": ("a shorter --max-len", "fewer --layers", "fewer --heads"),
    "export": ("a shorter --max-len", "fewer lines to calibrate with", "a machine with more memory"),
    "convert": ("--dtype float16", "fewer other programs", "a machine with more memory"),
    "prepare": ("fewer --workers", "fewer other programs", "a machine with more memory"),
    "demo": ("a smaller --corpus", "fewer other programs", "a machine with more memory"),
    "vocab": ("a smaller corpus", "fewer other programs", "a machine with more memory"),
}
_ANYWHERE = ("a smaller model", "fewer other programs", "a machine with more memory")


def memory_errors():
    """The classes of errors that may be about memory, of the backends that are imported."""
    found = [MemoryError, RuntimeError]
    for module, names in _CLASSES:
        thing = sys.modules.get(module)
        for name in names:
            thing = getattr(thing, name, None)
        if isinstance(thing, type):
            found.append(thing)
    return tuple(found)


def is_of_memory(error):
    """Whether an error of these classes is about memory; it may also be about a full disk."""
    if isinstance(error, MemoryError) or type(error).__name__ in ("OutOfMemoryError", "ResourceExhaustedError"):
        return "No space left" not in str(error)
    return any(words.lower() in str(error).lower() for words in _WORDS)


def memory_sentence(error, args):
    """The message for the user.

    Args:
        error: the error.
        args: the arguments of the verb; if the verb sets `used`, it has the resolved values, `(batch, length)`.
    """
    if type(error) is MemoryError and str(error):  # raised by this package, with what would not fit and what would
        return str(error)
    batch, length = getattr(args, "used", None) or (getattr(args, "batch_size", None), getattr(args, "max_len", None))
    sizes = [f"batches of {batch:,} rows"] if batch is not None else []
    if length is not None:
        tokens = length if isinstance(length, str) else f"{length:,}"
        sizes.append(f"{tokens} tokens" if sizes else f"rows of {tokens} tokens")
    rows = f" with {' of '.join(sizes)}" if sizes else ""
    *first, last = REMEDIES.get(args.verb, _ANYWHERE)
    return f"out of memory{rows}: try {', '.join(first)}, or {last}."
