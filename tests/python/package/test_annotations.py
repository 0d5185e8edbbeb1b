"""Annotations of classes that programs derive from can be evaluated, as transformers does for each model class."""

import inspect
import typing

import pytest

import pytpu as torch

MODULES = ["nn", "optim", "optim.lr_scheduler", "utils.data", "distributions", "autograd"]


def public_classes(name):
    """Return the classes among the public names of a module."""
    module = torch
    for part in name.split("."):
        module = getattr(module, part)
    found = [getattr(module, public) for public in dir(module) if not public.startswith("_")]
    return [item for item in found if inspect.isclass(item) and item.__module__.startswith(("torch", "pytpu"))]


@pytest.mark.parametrize("name", MODULES)
def test_annotations_of_public_classes_are_evaluated(name):
    classes = public_classes(name)
    assert classes
    for item in classes:
        typing.get_type_hints(item)


def test_annotations_of_a_module_of_a_program_are_evaluated():
    class Model(torch.nn.Module):
        width: int
        kind: "str"

    hints = typing.get_type_hints(Model)
    assert (hints["width"], hints["kind"], hints["training"]) == (int, str, bool)
