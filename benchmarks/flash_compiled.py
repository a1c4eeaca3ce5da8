"""What Triton makes of the kernels of `kernels/jax_flash.py` for a GPU that is not there: registers, memory, instructions.

Command: KERAS_BACKEND=jax python benchmarks/flash_compiled.py --triton PYTHON [--dtype bfloat16] [--width 64] [--blocks 64x64x4x2]
The same kernels on the parts of one product, as in `jax_flash_merged.py`: with --merged
Needs: PYTHON is an interpreter with the package triton, whose compiler needs no GPU (python -m venv ...; pip install triton).
Time: half a minute

Pallas lowers the kernels of a step of 2 x 512, 12 heads; Triton compiles each to machine code. A row has the kernel, the
architecture (80: A100, 86: RTX 30, 90: H100), bytes of shared memory of a program (at most 163, 99 and 227 KiB there), registers
of a thread (of at most 255), bytes that did not fit them, and instructions of a thread for each score in the inner loop: all, and
those of the integer unit, of which a cycle has half as many as of all. So it tells whether the kernels compile and
fit, and how many instructions they are, but neither what they compute nor how long they wait for memory. JAX has a Triton of its
own, of another version.
"""

import argparse
import collections
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TARGET = "__gpu$xla.gpu.triton"
# Shifts, logic, comparisons, selections and permutations of bytes.
INTEGER_UNIT = ("SHF", "LOP3", "ISETP", "FMNMX", "FSEL", "SEL", "PRMT", "PLOP3", "FSETP", "VIADD")


def lower(folder, args):
    """Write the kernels in Triton's language, as text."""
    import jax
    from jaxlib.mlir import ir
    from jaxlib.triton import dialect

    from keras_bert_rebuild.kernels import jax_flash, jax_flash_blocks, jax_flash_merged

    def step(query, key, value, mask, seed):
        blocks = jax_flash_blocks.Blocks(*args.blocks)

        def loss(*tensors):
            return jax_flash.attention_with_dropout(*tensors, mask, 0.1, seed, blocks=blocks).astype("float32").sum()

        return jax.grad(loss, (0, 1, 2))(query, key, value)

    def merged_step(merged, mask, words):
        options = {"rate": 0.1, "blocks": jax_flash_blocks.Blocks(*args.blocks), "interpret": False}

        def loss(merged):
            return jax_flash_merged.attend_in_blocks(merged, mask, mask, words, words, **options).astype("float32").sum()

        return jax.grad(loss)(merged)

    tensor, mask = jax.ShapeDtypeStruct((2, 512, 12, args.width), args.dtype), jax.ShapeDtypeStruct((2, 512), "int32")
    arguments = tensor, tensor, tensor, mask, jax.ShapeDtypeStruct((2,), "uint32")
    if args.merged:
        merged = jax.ShapeDtypeStruct((2, 512, 3, 12, args.width), args.dtype)
        step, arguments = merged_step, (merged, mask, jax.ShapeDtypeStruct((2, 12, 512), "uint32"))
    unchecked = [jax.export.DisabledSafetyCheck.custom_call(TARGET)]
    module = jax.export.export(jax.jit(step), platforms=["cuda"], disabled_checks=unchecked)(*arguments).mlir_module()
    for code, name in re.findall(r'ir = "((?:[^"\\]|\\.)*)", name = "(\w+)"', module):
        code = re.sub(rb'\\([0-9A-F]{2}|["\\])', unescaped, code.encode("latin-1"))
        with ir.Context() as context:
            dialect.register_dialect(context)
            (folder / f"{name}.ttir").write_text(str(ir.Module.parse(code)), encoding="utf-8")


def unescaped(match):
    """The byte that MLIR writes as a backslash and two digits."""
    return match[1] if len(match[1]) == 1 else bytes([int(match[1], 16)])


def compile_all(folder, args):
    """Print a row for each kernel and architecture; in the interpreter of Triton."""
    import triton
    from triton.backends.compiler import GPUTarget

    tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    queries, keys, warps, stages = args.blocks
    print("| kernel | sm | shared memory | registers | spilled | instructions a score | of the integer unit |")
    print(f"|---|{6 * '---:|'}")
    for capability in args.capabilities:
        for path in sorted(folder.glob("*.ttir")):
            options = {"num_warps": warps, "num_stages": stages}
            built = triton.compile(str(path), target=GPUTarget("cuda", capability, 32), options=options)
            cubin = path.with_suffix(".cubin")
            cubin.write_bytes(built.asm["cubin"])

            def tool(name, *options, cubin=cubin):
                return subprocess.run([tools / name, *options, cubin], capture_output=True, text=True, check=True).stdout

            registers, spilled = re.search(r"REG:(\d+) STACK:(\d+)", tool("cuobjdump", "-res-usage")).groups()
            loop = inner_loop(tool("nvdisasm", "-c"))
            scale = 32 * warps / (queries * keys)
            counts = [scale * sum(loop.values()), scale * sum(loop[name] for name in INTEGER_UNIT)]
            name = path.stem.removeprefix("attention_").removesuffix("_kernel")
            memory = f"{built.metadata.shared:,} | {registers} | {spilled}"
            print(f"| {name} | {capability} | {memory} | {counts[0]:.1f} | {counts[1]:.1f} |")


def inner_loop(text):
    """How often each instruction is in the longest loop of a program."""
    instructions, labels, longest = [], {}, range(0)
    for line in text.splitlines():
        if label := re.match(r"(\.L\S+):", line):
            labels[label[1]] = len(instructions)
        elif found := re.match(r"\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?(.*?);", line):
            instructions.append(found[1])
            target = re.search(r"BRA.*`\((\.L\S+)\)", found[1])
            loop = range(labels.get(target[1], len(instructions)), len(instructions)) if target else range(0)
            longest = max(longest, loop, key=len)
    return collections.Counter(re.split(r"[\s.]", instructions[i])[0] for i in longest)


def main():
    """Lower here, compile there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triton", metavar="PYTHON", help="the interpreter of Triton")
    parser.add_argument("--dtype", choices=("bfloat16", "float16", "float32"), default="bfloat16")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--blocks", type=lambda text: tuple(map(int, text.split("x"))), default=(64, 64, 4, 2))
    parser.add_argument("--capabilities", type=int, nargs="+", default=[80, 86, 90])
    parser.add_argument("--merged", action="store_true", help="on the parts of one product")
    parser.add_argument("--compile", type=Path, metavar="FOLDER", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.compile:
        compile_all(args.compile, args)
        return
    if not args.triton:
        parser.error("--triton PYTHON must name an interpreter with the package triton")
    with tempfile.TemporaryDirectory() as folder:
        lower(Path(folder), args)
        subprocess.run([args.triton, __file__, *sys.argv[1:], "--compile", folder], check=True)


if __name__ == "__main__":
    main()
