"""Write `export_programs.zip`: the programs in `export_programs.py`, exported. Run it with real PyTorch.

For each program and its decomposition there are the archive, its text, and a file of arguments and results.
"""

import copy
import io
import pathlib
import re
import zipfile

import export_programs
import torch


def without_folders(program):
    """Leave the folders of this machine out of the stack traces."""
    for module in program.graph_module.modules():
        for node in getattr(module, "graph", torch.fx.Graph()).nodes:
            if node.meta.get("stack_trace"):
                node.meta["stack_trace"] = re.sub(r'File "[^"]*/', 'File "', node.meta["stack_trace"])


def files(name, module, args, kwargs, shapes):
    """Return the files of one program by name."""
    program = torch.export.export(module, copy.deepcopy(args), copy.deepcopy(kwargs), dynamic_shapes=shapes)
    for form in (name, f"{name}.core"):
        without_folders(program)
        archive, values = io.BytesIO(), io.BytesIO()
        torch.export.save(program, archive)
        after = copy.deepcopy(args)
        run = program.module()
        torch.manual_seed(5)
        result = run(*after, **kwargs)
        buffers = {key: value.clone() for key, value in run.named_buffers()}
        torch.save({"args": args, "kwargs": kwargs, "result": result, "after": after, "buffers": buffers}, values)
        yield f"{form}.pt2", archive.getvalue()
        yield f"{form}.pt", values.getvalue()
        yield f"{form}.txt", str(program).encode()
        if name in ("indices", "residual_training"):
            return
        program = program.run_decompositions()


if __name__ == "__main__":
    path = pathlib.Path(__file__).with_name("export_programs.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as made:
        for name, case in export_programs.programs(torch).items():
            for file, data in files(name, *case):
                made.writestr(zipfile.ZipInfo(file), data, zipfile.ZIP_DEFLATED)
