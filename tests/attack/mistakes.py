"""Mistakes of newcomers: the exception's class and text must be PyTorch's, on `cpu` and on `tpu`.

    python tests/attack/mistakes.py                       # compare with the stored texts, `mistakes.json`
    python tests/attack/mistakes.py --torch PYTHON        # compare with PyTorch in that interpreter
    PYTHON tests/attack/mistakes.py --store FILE          # record PyTorch's texts

`DIFFERENT` lists what is different on purpose, with the reason. The class must agree there, too.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import warnings

STORED = pathlib.Path(__file__).with_name("mistakes.json")

# Each mistake: a name and a program. `D` is the device, `x` has three elements, `m` is a 2 x 3 matrix, `w` needs a
# gradient, `net` is a linear layer from 4 to 2.
MISTAKES = {
    # Shapes
    "product of matrices that do not fit": "m @ m",
    "product with a vector that does not fit": "torch.matmul(m, torch.ones(4, device=D))",
    "batched product that does not fit": "torch.bmm(torch.ones(2, 3, 4, device=D), torch.ones(2, 3, 4, device=D))",
    "linear layer with another width": "net(torch.ones(5, 3, device=D))",
    "sum of shapes that do not broadcast": "m + torch.ones(2, 4, device=D)",
    "in-place sum that would grow": "x += m",
    "view of another size": "m.view(4, 2)",
    "view of a transposed matrix": "m.t().view(6)",
    "reshape that cannot be": "m.reshape(-1, 4)",
    "reshape with two unknown sizes": "m.reshape(-1, -1)",
    "cat of matrices of several widths": "torch.cat([m, torch.ones(2, 4, device=D)])",
    "cat of one tensor and another": "torch.cat(x, x)",
    "cat of nothing": "torch.cat([])",
    "stack of vectors of several lengths": "torch.stack([x, torch.ones(2, device=D)])",
    "expand to another size": "x.expand(2, 5)",
    "permute with a dimension twice": "m.permute(0, 0)",
    "permute with too few dimensions": "m.permute(0)",
    "transpose of a dimension that is not there": "m.transpose(0, 2)",
    "sum over a dimension that is not there": "m.sum(dim=2)",
    "softmax over a dimension that is not there": "F.softmax(x, dim=3)",
    "chunks of a scalar": "torch.tensor(1.0, device=D).chunk(2)",
    "split sizes that do not add up": "x.split([1, 1])",
    "einsum with sizes that differ": "torch.einsum('ab,bc->ac', m, m)",
    "einsum with an operand too few": "torch.einsum('ab,bc->ac', m)",
    "einsum with an output that is not there": "torch.einsum('ab->ac', m)",
    "padding of an odd number of sizes": "F.pad(m, (1, 2, 3))",
    "pooling of what is too small": "F.max_pool2d(torch.ones(1, 1, 2, 2, device=D), 3)",
    "interpolation without a batch": "F.interpolate(m, size=4)",
    "unfolding more than there is": "x.unfold(0, 5, 1)",
    # Dtypes
    "linear layer of float64": "net(torch.ones(3, 4, device=D).double())",
    "linear layer of integers": "net(torch.ones(3, 4, dtype=torch.long, device=D))",
    "product of two dtypes": "torch.ones(2, 2, device=D) @ torch.ones(2, 2, device=D).double()",
    "linear of float32 and float16": "F.linear(torch.ones(2, 2, device=D), torch.ones(2, 2, device=D).half())",
    "mean of integers": "torch.ones(3, dtype=torch.long, device=D).mean()",
    "gradient of integers": "torch.ones(3, dtype=torch.long, device=D, requires_grad=True)",
    "in-place division of integers": "torch.ones(3, dtype=torch.long, device=D).div_(2)",
    "float added into integers": "torch.ones(3, dtype=torch.long, device=D).add_(0.5)",
    "indices of floats": "x[torch.tensor([0.0, 1.0], device=D)]",
    "embedding of floats": "nn.Embedding(3, 2).to(D)(torch.ones(2, device=D))",
    "scatter with indices of floats": "torch.zeros(3, device=D).scatter_(0, torch.tensor([0.5], device=D), 1.0)",
    "gather with indices of int32": "x.gather(0, torch.tensor([0], dtype=torch.int32, device=D))",
    "convolution of a half image": "nn.Conv2d(1, 1, 1).to(D)(torch.ones(1, 1, 2, 2, device=D).half())",
    "dropout rate above one": "F.dropout(x, 1.5)",
    "bits of floats": "x & x",
    "shift of floats": "x << 1",
    # Devices
    "operand on device meta": "x + torch.ones(3, device='meta')",
    "device without a name": "torch.ones(2, device='gpu')",
    "device number as text": "torch.device('cpu:one')",
    "device that is a list": "x.to([1])",
    # Autograd
    "in-place on a leaf": "w += 1",
    "in-place on a view of a leaf": "w[0] = 1",
    "backward twice": "loss = (w * w).sum(); loss.backward(); loss.backward()",
    "backward of a vector": "(w * 2).backward()",
    "backward without a gradient": "x.sum().backward()",
    "backward with a gradient of another shape": "(w * 2).backward(torch.ones(2, device=D))",
    "in-place on what backward needs": "y = w.exp(); y.add_(1); y.sum().backward()",
    "in-place on an operand of a product": "y = w * 1; z = y * y; y.zero_(); z.sum().backward()",
    "in-place on one of several views": "a, b = (w * 1).unbind(0)[:2]; a.add_(1)",
    "gradient to what was not used": "torch.autograd.grad((w * 2).sum(), torch.ones(2, device=D, requires_grad=True))",
    "gradient to what needs none": "torch.autograd.grad((w * 2).sum(), x)",
    "numpy of what needs a gradient": "w.cpu().numpy()",
    "deepcopy of a result": "import copy; copy.deepcopy(w * 2)",
    "requires_grad of a result": "(w * 2).requires_grad_(False)",
    "hook on what needs no gradient": "x.register_hook(print)",
    "inference tensor needed by backward": "with torch.inference_mode(): y = w * 2\ny.sum().backward()",
    "inference tensor saved for backward": "with torch.inference_mode(): y = x * 2\n(w * y).sum().backward()",
    "in-place on an inference tensor": "with torch.inference_mode(): y = x * 2\ny.add_(1)",
    "retain_grad of what needs none": "x.retain_grad()",
    "gradient of another shape": "w.grad = torch.ones(2, device=D)",
    # Values
    "item of many": "x.item()",
    "truth of many": "bool(x > 0)",
    "truth of none": "bool(x[:0])",
    "int of many": "int(x)",
    "length of a scalar": "len(torch.tensor(1.0))",
    "loop over a scalar": "list(torch.tensor(1.0))",
    "index out of range": "x[5]",
    "index of a float": "x[1.5]",
    "index of text": "x['a']",
    "too many indices": "x[0, 0]",
    "negative step": "x[::-1]",
    "mask of another length": "x[torch.tensor([True, False], device=D)]",
    "mask of another length in an assignment": "x[torch.tensor([True, False], device=D)] = 1.0",
    "ragged list": "torch.tensor([[1, 2], [3]])",
    "text as a tensor": "torch.tensor('abc')",
    "list as an array": "torch.from_numpy([1, 2])",
    "None as a tensor": "torch.tensor(None)",
    "arange that goes the wrong way": "torch.arange(3, 0)",
    "negative size": "torch.ones(-1, device=D)",
    "embedding index out of range": "nn.Embedding(3, 2).to(D)(torch.tensor([0, 5], device=D)).sum().item()",
    "class out of range": "F.cross_entropy(torch.ones(3, 4, device=D), torch.tensor([0, 4, 1], device=D)).item()",
    "one_hot class out of range": "F.one_hot(torch.tensor([5], device=D), 3).sum().item()",
    "gather index out of range": "x.gather(0, torch.tensor([7], device=D)).sum().item()",
    "index_select out of range": "x.index_select(0, torch.tensor([7], device=D)).sum().item()",
    "cholesky of a negative matrix": "torch.linalg.cholesky(-torch.eye(2, device=D)).sum().item()",
    "inverse of zeros": "torch.linalg.inv(torch.zeros(2, 2, device=D)).sum().item()",
    "negative probabilities": "torch.multinomial(-torch.ones(3, device=D), 1).sum().item()",
    "target above one": "F.binary_cross_entropy(torch.full((3,), 1.5, device=D), torch.ones(3, device=D)).item()",
    # Losses
    "cross entropy of floats of another shape": "F.cross_entropy(torch.ones(3, 4, device=D), torch.ones(3, device=D))",
    "cross entropy of another batch": "F.cross_entropy(torch.ones(3, 4, device=D), torch.zeros(2, dtype=torch.long,"
    " device=D))",
    "cross entropy of int32": "F.cross_entropy(torch.ones(3, 4, device=D), torch.zeros(3, dtype=torch.int32,"
    " device=D)).item()",
    "nll of floats": "F.nll_loss(torch.ones(3, 4, device=D), torch.ones(3, device=D)).item()",
    "binary cross entropy of another shape": "F.binary_cross_entropy(torch.ones(3, device=D) / 2, torch.ones(2,"
    " device=D))",
    "logits of another shape": "F.binary_cross_entropy_with_logits(x, torch.ones(2, device=D))",
    "unknown reduction": "F.mse_loss(x, x, reduction='avg')",
    # Modules
    "weights that are missing": "net.load_state_dict({'weight': torch.ones(2, 4)})",
    "weights of a wrapped module": "net.load_state_dict({'module.weight': torch.ones(2, 4), 'module.bias': torch.ones"
    "(2)})",
    "weights of another size": "nn.Sequential(net).load_state_dict({'0.weight': torch.ones(3, 4), '0.bias':"
    " torch.ones(3)})",
    "state that is no dict": "net.load_state_dict([1])",
    "convolution of other channels": "nn.Conv2d(3, 4, 3).to(D)(torch.ones(1, 1, 8, 8, device=D))",
    "convolution of a matrix": "nn.Conv2d(3, 4, 3).to(D)(torch.ones(8, 8, device=D))",
    "kernel larger than the image": "nn.Conv2d(3, 4, 9).to(D)(torch.ones(1, 3, 4, 4, device=D))",
    "groups that do not divide": "nn.Conv2d(3, 4, 3, groups=2)",
    "batch norm of one row": "nn.BatchNorm1d(3).to(D)(torch.ones(1, 3, device=D))",
    "batch norm of an image by the wrong class": "nn.BatchNorm2d(3).to(D)(torch.ones(2, 3, device=D))",
    "layer norm of another width": "nn.LayerNorm(5).to(D)(torch.ones(2, 4, device=D))",
    "group norm that does not divide": "nn.GroupNorm(2, 3)",
    "heads that do not divide": "nn.MultiheadAttention(5, 2)",
    "attention of another width": "nn.MultiheadAttention(4, 2).to(D)(*[torch.ones(2, 3, 5, device=D)] * 3)",
    "attention of keys of another width": "F.scaled_dot_product_attention(*[torch.ones(1, 2, 3, n, device=D) for n in"
    " (4, 5, 5)])",
    "lstm of another width": "nn.LSTM(4, 3).to(D)(torch.ones(2, 3, 5, device=D))",
    "lstm in a sequence": "nn.Sequential(nn.LSTM(4, 4), nn.Linear(4, 2)).to(D)(torch.ones(2, 1, 4, device=D))",
    "size as text": "nn.Linear('3', 2)",
    "class without forward": "class Net(nn.Module): pass\nNet()(x)",
    "class without super": "class Net(nn.Module):\n    def __init__(self): self.layer = nn.Linear(2, 2)\nNet()",
    "forward with too many arguments": "class Net(nn.Module):\n    def forward(self, a): return a\nNet()(x, x)",
    "call of a list of modules": "nn.ModuleList([net])(x)",
    "tensor as a parameter": "net.weight = torch.ones(2, 4, device=D)",
    "something else as a module": "nn.Sequential(1)",
    "attribute of a module that is not there": "net.weights",
    "attribute of a tensor that is not there": "x.length",
    "function that is not there": "torch.matmull",
    "argument that is not there": "torch.randn(3, place=D)",
    "text as an operand": "torch.add('a', x)",
    "argument too few": "torch.matmul(x)",
    "keyword twice": "torch.sum(m, 0, dim=1)",
    "tensor as a size": "torch.zeros(x, device=D)",
    # Optimisers and data
    "negative learning rate": "torch.optim.Adam(net.parameters(), lr=-1)",
    "beta of one": "torch.optim.Adam(net.parameters(), betas=(1.0, 0.9))",
    "optimiser of nothing": "torch.optim.SGD([], 0.1)",
    "optimiser of a tensor": "torch.optim.SGD(x, 0.1)",
    "optimiser of a result": "torch.optim.SGD([w * 2], 0.1)",
    "optimiser of a number": "torch.optim.SGD([1], 0.1)",
    "schedule of text": "torch.optim.lr_scheduler.StepLR('x', 1)",
    "norm that is not finite": "nn.utils.clip_grad_norm_([nanned], 1.0, error_if_nonfinite=True)",
    "batch of several lengths": "next(iter(torch.utils.data.DataLoader([torch.ones(2), torch.ones(3)], 2)))",
    "index into a loader": "torch.utils.data.DataLoader([1, 2])[0]",
    "batch size of zero": "torch.utils.data.DataLoader([1, 2], 0)",
    "sampler and shuffle": "torch.utils.data.DataLoader([1], sampler=torch.utils.data.SequentialSampler([1]),"
    " shuffle=True)",
    "error in a worker": "class Rows(torch.utils.data.Dataset):\n    def __len__(self): return 4\n"
    "    def __getitem__(self, i): raise ValueError('bad row %d' % i)\n"
    "next(iter(torch.utils.data.DataLoader(Rows(), 2, num_workers=1)))",
    "random split that does not add up": "torch.utils.data.random_split([1, 2, 3], [1, 1])",
    "tensors of several lengths in a data set": "torch.utils.data.TensorDataset(torch.ones(2), torch.ones(3))",
    "file that is not there": "torch.load('/nonexistent/model.pt')",
    "negative scale of a distribution": "torch.distributions.Normal(0.0, -1.0)",
    "sum over something else": "sum([x, None])",
    "comparison with text": "x < 'a'",
    "tensor as a context": "with x: pass",
    "call of a tensor": "x(1)",
    "memory for ten terabytes": "torch.empty(10**13).add_(1)",
}

# What is different on purpose, with the reason. The class is PyTorch's, or one derived from it.
DIFFERENT = {
    "operand on device meta": "names both devices, as for all other devices",
    "device without a name": "lists the devices that there are here",
    "argument that is not there": "lists the overloads of this library, and says which keyword is wrong",
    "memory for ten terabytes": "`OutOfMemoryError`, a `RuntimeError`, without the place in PyTorch's source",
}
# Texts that are to become PyTorch's.
KNOWN = {
    "in-place on an operand of a product": "names another node after `zero_`",
    "keyword twice": "lists the overloads instead of naming the argument",
}


def outcomes(torch, device):
    """Return class and text of each mistake's exception."""
    found = {}
    for name, program in MISTAKES.items():
        nanned = torch.ones(2)
        nanned.grad = torch.full((2,), float("nan"))
        names = {
            "torch": torch,
            "nn": torch.nn,
            "F": torch.nn.functional,
            "D": device,
            "x": torch.tensor([0.5, 1.0, 2.0], device=device),
            "m": torch.ones(2, 3, device=device),
            "w": torch.tensor([0.5, 1.0, 2.0], device=device, requires_grad=True),
            "net": torch.nn.Linear(4, 2).to(device),
            "nanned": nanned,
        }
        try:
            exec(program, names)
            found[name] = ["no error", ""]
        except Exception as error:
            found[name] = [type(error).__name__, str(error)]
    return found


def is_same(wanted, got):
    """Whether class and text agree. The text may say more: notes, and the line of the call."""

    def plain(text):
        text = re.sub(r"0x[0-9a-f]+|pid\(?s?\)? \d+|\(pid.*?\)|line \d+", "", text)
        text = (
            text.replace("torch.tpu.", "torch.").replace("pytpu", "torch").replace("tpu:0", "cpu").replace("TPU", "CPU")
        )
        return re.sub(r'File ".*?"', "File", text).strip()

    if wanted[0].lstrip("_") != got[0].lstrip("_"):
        return False
    if "DataLoader worker" in wanted[1]:
        # The tracebacks in the texts are those of each library.
        return (
            plain(wanted[1]).splitlines()[0] == plain(got[1]).splitlines()[0] and wanted[1].splitlines()[-1] in got[1]
        )
    return plain(got[1]).split("\nnote:")[0].startswith(plain(wanted[1])) or plain(wanted[1]) == plain(got[1])


def differences(device, wanted):
    """Return the mistakes whose exceptions differ: name, PyTorch's and ours."""
    import pytpu as torch

    got = outcomes(torch, device)
    found = []
    for name in MISTAKES:
        if name in DIFFERENT or name in KNOWN:
            agrees = got[name][0] in (wanted[name][0], "OutOfMemoryError")
        else:
            agrees = is_same(wanted[name], got[name])
        if not agrees:
            found.append((name, wanted[name], got[name]))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", default="cpu,tpu")
    parser.add_argument("--torch", metavar="PYTHON")
    parser.add_argument("--store", metavar="FILE")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.store:
        import torch

        text = json.dumps(outcomes(torch, "cpu"), indent=0, ensure_ascii=False)
        if args.store == "-":
            print(text)
        else:
            pathlib.Path(args.store).write_text(text + "\n")
        return 0
    if args.torch:
        text = subprocess.run([args.torch, __file__, "--store", "-"], capture_output=True, text=True, check=True).stdout
        wanted = json.loads(text)
    else:
        wanted = json.loads(STORED.read_text())
    count = 0
    for device in args.devices.split(","):
        for name, theirs, ours in differences(device, wanted):
            count += 1
            print(f"== {name}, on {device}\n    {MISTAKES[name]!r}\n    PyTorch: {theirs}\n    here: {ours}")
    print(f"{len(MISTAKES)} mistakes, {len(DIFFERENT)} different on purpose, {len(KNOWN)} known, {count} findings")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
