# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # From a TorchScript archive to ONNX: Silero VAD
#
# Some models come without their Python code: as a TorchScript archive, a file that holds the weights and a compiled
# program. Silero VAD is such a model. It reads sound in short chunks and says for each how likely it is that somebody
# speaks.
#
# This notebook takes the archive to ONNX:
#
# 1. load it and look at what is in it,
# 2. export it as it is, and see what that freezes,
# 3. export it with its state as inputs and outputs,
# 4. run 200 chunks through it, beside the archive and beside the ONNX file of its authors,
# 5. look into the graph,
# 6. three small models of our own: a loop, a branch under tracing, a forgotten flag.
#
# Nothing is downloaded while it runs. It takes less than a minute.

# %% [markdown]
# ## 1. The archive
#
# The archive and the authors' ONNX file are data of the Python package `silero-vad` (MIT licence). The package is
# found, but not imported: only the two files are needed, and nothing of what it depends on.

# %%
from importlib.util import find_spec
from pathlib import Path

package = find_spec("silero_vad")
if package is None:
    raise ModuleNotFoundError(
        "This notebook needs the package silero-vad. Run  %pip install --no-deps silero-vad==6.2.3  and start again."
    )
data = Path(package.origin).parent / "data"
for name in ("silero_vad.jit", "silero_vad.onnx"):
    print(f"{name:16} {(data / name).stat().st_size / 1e6:.1f} MB")

# %% [markdown]
# `load_script` reads an archive. It takes only what `torch.jit.save` wrote, and says what a file is if it is something
# else. Loading runs no Python code of the file.

# %%
import onnx_lab

vad = onnx_lab.load_script(data / "silero_vad.jit")
vad.forward.schema

# %% [markdown]
# The model takes sound and a sampling rate. The rate is a plain integer. The program behind `forward` can be read. Here
# are its conditions (`ne` is "not equal"), and what is written to `self`:

# %%
for line in vad.code.splitlines():
    if line.lstrip().startswith(("if ", "self.")) or "torch.ne(" in line or "torch.__not__(" in line:
        print(line)

# %% [markdown]
# So the program branches
#
# - on the **sampling rate**: there are two networks in the file, one for 16,000 Hz and one for 8,000 Hz,
# - on **lengths**: a chunk must have 512 samples at 16,000 Hz and 256 at 8,000 Hz, all else is an error,
# - on its **state**: what it remembers from the chunk before, and whether there was one.
#
# It remembers four things. `_state` belongs to the recurrent layer. `_context` is the end of the last chunk, which is
# put before the next one. `_last_sr` and `_last_batch_size` tell whether the stream is still the same.

# %%
import torch


def remembered():
    return {
        "_state": tuple(vad._state.shape),
        "_context": tuple(vad._context.shape),
        "_last_sr": vad._last_sr,
        "_last_batch_size": vad._last_batch_size,
    }


torch.manual_seed(0)
chunk = 0.05 * torch.randn(1, 512)
vad.reset_states()
print("at first ", remembered())
with torch.no_grad():
    first, second = vad(chunk, 16000).item(), vad(chunk, 16000).item()
print("after two", remembered())
print(f"the same chunk twice: {first:.4f}, then {second:.4f}")

# %% [markdown]
# ## 2. Export it as it is
#
# `capture="auto"` is the default. It takes a scripted program as it is: the program is evaluated as far as constants
# decide, and what is left becomes the graph. `16000` is a plain integer, so it becomes a constant, and the branches on
# the rate are gone.

# %%
# %load_ext onnx_lab

# %%
vad.reset_states()
# frozen = %onnx_export vad chunk 16000
frozen

# %% [markdown]
# `captured by` says `script`. The note says what was frozen: the file holds the state as it was at the export, here that
# of a model that has heard nothing. So each chunk is heard as if it were the first. For one chunk this is right:

# %%
frozen.verify()

# %% [markdown]
# ## 3. The state as inputs and outputs
#
# With `state="io"`, what the model remembers comes in as inputs and goes out as outputs. The caller feeds the outputs
# of one call to the next.

# %%
vad.reset_states()
at_16k = onnx_lab.export(vad, (chunk, 16000), "vad_16k.onnx", state="io", external_data=False)
at_16k.verify()

# %%
import onnxruntime


def open_file(path):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


session = open_file("vad_16k.onnx")
for way, values in (("in ", session.get_inputs()), ("out", session.get_outputs())):
    for value in values:
        print(way, f"{value.name:20} {value.type:14} {value.shape}")

# %% [markdown]
# The outputs that follow the model's own are the state after the call, in the order of the inputs that follow `x`.
#
# `_state` and `_context` have a first size with a name. The state of a fresh model is empty, and after a chunk it is
# not. The file takes both. `initial_state` is what to begin with:

# %%
{name: (value.dtype.name, value.shape) for name, value in at_16k.initial_state.items()}

# %% [markdown]
# The same for 8,000 Hz. It is another file, since the rate is a constant: this one holds the other network.

# %%
vad.reset_states()
at_8k = onnx_lab.export(vad, (chunk[:, :256], 8000), "vad_8k.onnx", state="io", external_data=False)
print(at_8k.verify())
print({name: value.shape for name, value in at_8k.initial_state.items()})

# %% [markdown]
# ## 4. Two hundred chunks
#
# A sound to try it on, made with NumPy. A voice is a row of harmonics of a gliding pitch. Resonances of the mouth, the
# formants, make some of them louder, and each vowel has its own. Four syllables a second, two phrases, silence between
# them and a little noise everywhere.

# %%
import numpy as np

VOWELS = np.array([(730, 1090, 2440), (270, 2290, 3010), (570, 840, 2410), (530, 1840, 2480), (300, 870, 2240)])


def voice(rate, seconds=6.4, syllables=4):
    random = np.random.default_rng(2)
    time = np.arange(int(rate * seconds)) / rate
    pitch = 120 + 25 * np.sin(np.pi * time) + 12 * np.sin(3.4 * np.pi * time)
    phase = 2 * np.pi * np.cumsum(pitch) / rate

    vowel = VOWELS[random.integers(len(VOWELS), size=int(seconds * syllables) + 1)]
    middle = (np.arange(len(vowel)) + 0.5) / syllables
    formants = [
        (np.interp(time, middle, vowel[:, i]), width, gain)
        for i, width, gain in ((0, 70, 1), (1, 100, 0.6), (2, 140, 0.35))
    ]

    sound = np.zeros_like(time)
    for k in range(1, 24):
        peaks = [gain / (1 + ((k * pitch - f) / width) ** 2) for f, width, gain in formants]
        sound += sum(peaks) * np.sin(k * phase) / k**0.3
    sound *= np.sin(np.pi * syllables * time) ** 2
    sound[(time % 3.2 < 0.8) | (time % 3.2 > 2.4)] = 0
    return (0.5 * sound / np.abs(sound).max() + 0.002 * random.standard_normal(len(time))).astype(np.float32)


# %% [markdown]
# Three programs hear it, chunk by chunk. First the archive:


# %%
def by_archive(chunks, rate):
    vad.reset_states()
    with torch.no_grad():
        return np.array([vad(torch.from_numpy(one), rate).item() for one in chunks])


# %% [markdown]
# Our file in ONNX Runtime. The state goes round:


# %%
def by_our_file(chunks, path, state):
    session, heard = open_file(path), []
    for one in chunks:
        probability, *after = session.run(None, {"x": one, **state})
        state = dict(zip(state, after, strict=True))
        heard.append(probability.item())
    return np.array(heard)


# %% [markdown]
# The authors' file. It has the rate as an input and both networks inside. It keeps the recurrent state as we do, but
# the context is left to the caller: the last 64 samples (32 at 8,000 Hz) of the chunk before, put in front.


# %%
def by_authors_file(chunks, rate):
    session, heard = open_file(data / "silero_vad.onnx"), []
    size = 64 if rate == 16000 else 32
    state, context = np.zeros((2, 1, 128), np.float32), np.zeros((1, size), np.float32)
    for one in chunks:
        given = np.concatenate([context, one], axis=1)
        probability, state = session.run(None, {"input": given, "state": state, "sr": np.array(rate)})
        context = given[:, -size:]
        heard.append(probability.item())
    return np.array(heard)


# %%
sounds, heard = {}, {}
for rate, size, path, state in (
    (16000, 512, "vad_16k.onnx", at_16k.initial_state),
    (8000, 256, "vad_8k.onnx", at_8k.initial_state),
):
    sounds[rate] = voice(rate)
    chunks = sounds[rate].reshape(-1, 1, size)
    archive, ours, authors = by_archive(chunks, rate), by_our_file(chunks, path, state), by_authors_file(chunks, rate)
    heard[rate] = {"archive": archive, "our file": ours, "authors' file": authors}
    print(
        f"{rate} Hz, {len(chunks)} chunks, largest difference from the archive: "
        f"ours {np.abs(ours - archive).max():.1e}, authors' {np.abs(authors - archive).max():.1e}"
    )

# %% [markdown]
# The differences do not grow: what the state carries over is the same.

# %%
import matplotlib.pyplot as plt

plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False})
LOOKS = {
    "archive": {"color": "#94a3b8", "linewidth": 5},
    "our file": {"color": "#1d4ed8", "linewidth": 1.6},
    "authors' file": {"color": "#ea580c", "linewidth": 0, "marker": "o", "markersize": 2.5, "markevery": 3},
}


def draw(rate):
    _, (top, middle, bottom) = plt.subplots(3, sharex=True, figsize=(9, 5.6), layout="constrained")
    seconds = np.arange(len(sounds[rate])) / rate
    top.plot(seconds, sounds[rate], color="#475569", linewidth=0.4)
    top.set(title=f"{rate:,} Hz", ylabel="sound", xlim=(0, seconds[-1]))

    ends = np.arange(1, 201) * seconds[-1] / 200
    for name, probabilities in heard[rate].items():
        middle.plot(ends, probabilities, label=name, **LOOKS[name])
    middle.set(ylabel="probability\nof speech", ylim=(-0.04, 1.04))
    middle.legend(loc="center left", bbox_to_anchor=(1, 0.5))

    for name in ("our file", "authors' file"):
        difference = np.abs(heard[rate][name] - heard[rate]["archive"])
        bottom.semilogy(ends, np.maximum(difference, 1e-10), ".", markersize=4, color=LOOKS[name]["color"], label=name)
    bottom.set(ylabel="difference\nfrom archive", xlabel="seconds", ylim=(5e-11, 1e-4))
    bottom.legend(loc="center left", bbox_to_anchor=(1, 0.5))


draw(16000)

# %% [markdown]
# The three lines of the middle picture lie on each other. The lowest picture shows by how much they differ. Single
# precision has steps of 6e-8 just below 1; a difference of zero is drawn at 1e-10. At 8,000 Hz:

# %%
draw(8000)

# %% [markdown]
# And the file of step 2, whose state is frozen? It forgets after each chunk, and hears something else:

# %%
frozen.save("vad_frozen.onnx")
session = open_file("vad_frozen.onnx")
forgetful = np.array([session.run(None, {"x": one})[0].item() for one in sounds[16000].reshape(-1, 1, 512)])
print(f"largest difference from the archive: {np.abs(forgetful - heard[16000]['archive']).max():.2f}")

# %% [markdown]
# ## 5. Look inside
#
# The graph of `at_16k`. Branches on the state are `If` nodes. Each has two bodies, drawn as boxes whose results go into
# it. `depth=1` opens nothing else.

# %%
at_16k.graph(depth=1)

# %% [markdown]
# Most of this is for the first chunk: is there a state, is it of this rate, of this batch? A model that has heard a chunk
# already has its answers. Export it in that state, and the questions are gone: the rate and the batch are constants here
# and stay what they are.

# %%
vad.reset_states()
with torch.no_grad():
    vad(chunk, 16000)
steady = onnx_lab.export(vad, (chunk, 16000), "vad_steady.onnx", state="io", external_data=False)
print({name: value.shape for name, value in steady.initial_state.items()})
steady.graph(depth=2)

# %% [markdown]
# `initial_state` now is that of a model that has heard `chunk`. To begin anew, give zeros. They say the same as the
# empty state of the other file:

# %%
zeros = {name: np.zeros_like(value) for name, value in steady.initial_state.items()}
anew = by_our_file(sounds[16000].reshape(-1, 1, 512), "vad_steady.onnx", zeros)
print(f"largest difference from the archive: {np.abs(anew - heard[16000]['archive']).max():.1e}")

# %% [markdown]
# Which operators are in the program, and what became of each? `source` is the line in the authors' own Python files: the
# archive remembers it, though the files are not here.

# %%
steady.ops()

# %% [markdown]
# And step by step: PyTorch's value against ONNX Runtime's. What is largest comes first.

# %%
steady.diff()

# %% [markdown]
# ## 6. Small models of our own
#
# ### A loop
#
# How many turns this loop takes depends on the numbers. `torch.jit.script` compiles it, and it becomes a `Loop` of ONNX.


# %%
class Halve(torch.nn.Module):
    def forward(self, x):
        turns = 0
        while bool(x.abs().sum() > 1.0):
            x = x * 0.5
            turns += 1
        return x, turns


halve = torch.jit.script(Halve())
loop = onnx_lab.export(halve, (torch.tensor([3.0, 100.0]),), dynamic_shapes=({0: "length"},))
loop.graph()

# %% [markdown]
# Other numbers, other turns, and of another length:

# %%
examples = ([3.0, 100.0], [0.1, 0.2, 0.3], [1e6])
session = open_file(loop.model_proto().SerializeToString())
for numbers in examples:
    _, turns = session.run(None, {"x": np.array(numbers, np.float32)})
    print(f"{numbers}: {turns} turns")
loop.verify(more=[((torch.tensor(numbers),), {}) for numbers in examples[1:]])

# %% [markdown]
# ### A branch under tracing
#
# `capture="trace"` runs the model once and writes down what happens. A branch is not written down, only the side that
# was taken. `frozen()` lists what was fixed that way, where, and which capture keeps it.

# %%
import pandas as pd


class Gate(torch.nn.Module):
    def forward(self, x):
        if x.mean() > 0:
            return x.relu()
        return x.neg()


pd.set_option("display.max_colwidth", 100)
gate = Gate()
traced = onnx_lab.export(gate, (torch.ones(3),), capture="trace")
traced.frozen()

# %%
for capture in ("trace", "script"):
    result = onnx_lab.export(gate, (torch.ones(3),), capture=capture)
    print(capture, [node.op_type for node in result.model.graph], result.verify(torch.tensor([-3.0, -2.0, 1.0])))

# %% [markdown]
# ### A forgotten flag
#
# Here somebody put one submodule into training mode and forgot it. Models are exported in evaluation mode by default,
# so the file is right. `modes()` still tells that the flag and the file differ.

# %%
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2)).eval()
net[1].train()

onnx_lab.export(net, (torch.ones(3, 4),)).modes()

# %% [markdown]
# With `training="preserve"` each flag is taken as it is. Then the file drops values at random, and `modes()` says where.

# %%
kept = onnx_lab.export(net, (torch.ones(3, 4),), training="preserve")
print([node.op_type for node in kept.model.graph])
kept.modes()

# %% [markdown]
# ## What is not possible
#
# - **Both rates in one file.** A plain number among the inputs is a constant of the file. Make one file for each rate.
# - **A dynamic batch together with `state="io"`.** For this model it is refused: nothing in the program says that the
#   state has the batch of the sound. Make one file for each batch.
# - **Other lengths of a chunk.** The program itself refuses them.
# - **A look into branches and loops with `diff()`.** Their results are compared, their steps are not. Export the model in
#   a state that decides the branches, as above.
# - **Changing the archive.** It holds no Python code. If you have the code, export the module itself: `capture="auto"`
#   then goes through torch.export.
# - **A promise for ever.** PyTorch has deprecated TorchScript. Archives are read as long as PyTorch reads them.
#
# Where to go: `01_quickstart.ipynb` for a model with its Python code and the magics, `README.md` for the limits,
# `help(onnx_lab.export)` for every option.
