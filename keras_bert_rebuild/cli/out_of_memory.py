"""Memory that does not suffice, whoever says so, as one sentence with what helps."""

import sys

# What a backend raises: the module, looked up only where it is imported, and the names from there to the class.
_CLASSES = (
    ("tensorflow", ("errors", "ResourceExhaustedError")),
    ("torch", ("OutOfMemoryError",)),
    ("jax", ("errors", "JaxRuntimeError")),
)

# What is said in a RuntimeError that is one of memory.
_WORDS = ("RESOURCE_EXHAUSTED", "out of memory", "not enough memory", "can't allocate memory", "failed to allocate", "oom when")

# Verb: what helps.
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
    """The classes of errors that memory may be behind, of the backends that are imported."""
    found = [MemoryError, RuntimeError]
    for module, names in _CLASSES:
        thing = sys.modules.get(module)
        for name in names:
            thing = getattr(thing, name, None)
        if isinstance(thing, type):
            found.append(thing)
    return tuple(found)


def is_of_memory(error):
    """Whether an error of these classes is one of memory; the disk can be exhausted, too."""
    if isinstance(error, MemoryError) or type(error).__name__ in ("OutOfMemoryError", "ResourceExhaustedError"):
        return "No space left" not in str(error)
    return any(words.lower() in str(error).lower() for words in _WORDS)


def memory_sentence(error, args):
    """What to say of it.

    Args:
        error: the error.
        args: the arguments of the verb; `used`, where the verb sets it, is what it resolved them to, `(batch, length)`.
    """
    if type(error) is MemoryError and str(error):  # ours, which says what would not fit and what would
        return str(error)
    batch, length = getattr(args, "used", None) or (getattr(args, "batch_size", None), getattr(args, "max_len", None))
    told = [f"batches of {batch:,} rows"] if batch is not None else []
    if length is not None:
        tokens = length if isinstance(length, str) else f"{length:,}"
        told.append(f"{tokens} tokens" if told else f"rows of {tokens} tokens")
    rows = f" with {' of '.join(told)}" if told else ""
    *first, last = REMEDIES.get(args.verb, _ANYWHERE)
    return f"out of memory{rows}: take {', '.join(first)}, or {last}."
