"""Names of activations in other libraries and ours: "gelu" is one function in Google's files and another in Hugging Face's."""

# Their name and ours. Of several names for a function, the first is written.
HUGGINGFACE = (
    ("gelu", "gelu_erf"),
    ("gelu_python", "gelu_erf"),
    ("gelu_new", "gelu"),
    ("gelu_pytorch_tanh", "gelu"),
    ("gelu_accurate", "gelu"),
    ("gelu_fast", "gelu"),
    ("quick_gelu", "quick_gelu"),
    ("relu", "relu"),
    ("relu6", "relu6"),
    ("silu", "silu"),
    ("swish", "silu"),
    ("tanh", "tanh"),
    ("sigmoid", "sigmoid"),
    ("mish", "mish"),
    ("linear", "linear"),
)

# Google's code knows the first four and refuses other names; the rest are our names, so that no function is silently replaced.
GOOGLE = (
    ("gelu", "gelu"),
    ("relu", "relu"),
    ("tanh", "tanh"),
    ("linear", "linear"),
    *((ours, ours) for ours in ("gelu_erf", "quick_gelu", "relu6", "silu", "sigmoid", "mish")),
)
