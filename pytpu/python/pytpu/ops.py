"""`torch.ops`: operators by namespace, name and overload, as in `torch.ops.aten.add.Tensor(x, y)`.

`aten` has the op table, and methods for the ops that the table does not have. Other namespaces have the operators of
`torch.library`. The arguments choose the overload, so all overloads of one operator are one function. Schemas are
PyTorch's (`_schema.py`).
"""

import functools
import sys

from . import _C, _aten_gradients, _schema as _schemas_of_text, _torch_dispatch

# Schemas are never changed, and modes ask for that of each call.
_schema_of = functools.cache(_schemas_of_text.FunctionSchema)


class _Unique:
    """An object that exists once for its name. Copies are the object itself, and pickles have only the name."""

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return _look_up, (str(self),)


def _call(op, function, args, kwargs):
    """Call the function of an operator, or let proxies of `torch.fx` take the call of the operator over."""
    fx = sys.modules.get("pytpu.fx.proxy")
    if fx is not None:
        operands = _C._overriding(args, kwargs)
        if operands is not None and any(isinstance(operand, fx.Proxy) for operand in operands):
            return _C._call_torch_function(op, operands, args, kwargs)
    return function(*args, **kwargs)


class OpOverload(_Unique):
    """One overload of an operator."""

    def __init__(self, packet, overload):
        # Libraries read both names.
        self.overloadpacket = self._overloadpacket = packet
        self._overloadname = overload
        self.__module__ = packet.__module__
        self.__name__ = f"{packet.__name__}.{overload}"

    def __call__(self_, /, *args, **kwargs):  # the operator may have an argument named self
        if len(args) == 3 and self_._overloadname == "Scalar" and self_._schema.arguments[2].name == "alpha":
            # The overload takes `alpha` by position, unlike that of two tensors.
            args, kwargs = args[:2], {"alpha": args[2], **kwargs}
        if self_.overloadpacket._is_python and _torch_dispatch.is_offered(args, kwargs):
            return _torch_dispatch.offer(self_, args, kwargs)
        return _call(self_, self_.overloadpacket._op, args, kwargs)

    @property
    def _schema(self):
        packet = self.overloadpacket
        text = packet._texts.get(self._overloadname) or packet._out_texts.get(self._overloadname)
        if text is None:
            raise AttributeError(f"the schema of {self} is not known")
        return _schema_of(f"{packet._qualified_op_name.partition('::')[0]}::{text}")

    @property
    def namespace(self):
        """The namespace: `aten`."""
        return self.overloadpacket._qualified_op_name.partition("::")[0]

    @property
    def is_view(self):
        """Whether the results are views of an argument, which is not written."""
        aliases = [a.alias_info for a in self._schema.arguments if a.alias_info]
        return bool(aliases) and not any(a.is_write for a in aliases)

    def __repr__(self):
        return (
            f"<OpOverload(op='{self.overloadpacket._qualified_op_name.replace('::', '.')}', "
            f"overload='{self._overloadname}')>"
        )

    def __str__(self):
        return f"{self.overloadpacket._qualified_op_name.replace('::', '.')}.{self._overloadname}"

    def name(self):
        """The qualified name: `aten::add.Tensor`."""
        suffix = "" if self._overloadname == "default" else f".{self._overloadname}"
        return self.overloadpacket._qualified_op_name + suffix


def _texts_of(op, name):
    """Return the schema of an operator of `torch.library` by its overload, if it has one."""
    text = getattr(getattr(op, "schema", None), "text", None)
    return {} if text is None else {"default": name + text}


class OpOverloadPacket(_Unique):
    """An operator with all of its overloads."""

    def __init__(self, namespace, name, op):
        self.__name__ = name
        self.__module__ = f"torch._ops.{namespace}"
        self._qualified_op_name = f"{namespace}::{name}"
        self._op = op
        schemas = _schemas_of_python(name) if namespace == "aten" else None
        self._out_texts = {}
        #: Whether Python computes it, so that the table does not offer its calls.
        self._is_python = (namespace not in ("aten", "prims") and not hasattr(op, "schema")) or (
            schemas is not None and _python_op(name) is not None
        )
        self._schemas = schemas or (_C._schemas(name) if namespace == "aten" else [name])
        self._texts = _schemas_of_text.of_aten(name, self._schemas) if namespace == "aten" else _texts_of(op, name)

    def __call__(self_, /, *args, **kwargs):  # the operator may have an argument named self
        return _call(self_, self_._op, args, kwargs)

    def overloads(self):
        """Names of the overloads."""
        return list(self._texts) or ["default"]

    def __getattr__(self, name):
        # A method's overloads are not listed, so any well-formed name is accepted for it.
        is_known = name in self.overloads() or name in self._out_texts
        if name.startswith("_") or (self._schemas and not is_known):
            raise AttributeError(
                f"The underlying op of '{self._qualified_op_name.replace('::', '.')}' has no overload name '{name}'"
            )
        overload = OpOverload(self, name)
        setattr(self, name, overload)
        return overload

    def _with_out(self, name):
        """Return the form of an overload that writes its results into `out`."""
        own = {"default": "out", "Tensor": "out", "dim_IntList": "IntList_out", "dim_int": "int_out"}
        found = own.get(name, f"{name}_out")
        if found not in self._texts and name in self._texts:
            head, _, results = self._texts[name].rpartition(") -> ")
            names = head.partition("(")[2]
            head = f"{self.__name__}.{found}({names}" + (", Tensor(a!) out" if "*" in names else ", *, Tensor(a!) out")
            self._out_texts[found] = f"{head}) -> Tensor(a!)"
        return getattr(self, found)

    def __dir__(self):
        return [*super().__dir__(), *self.overloads()]

    def __repr__(self):
        return f"<OpOverloadPacket(op='{self._qualified_op_name.replace('::', '.')}')>"

    def __str__(self):
        return self._qualified_op_name.replace("::", ".")


# Operators that libraries name in tables and in policies of selective checkpointing, and that have no function of this
# name.
_NAMES_ONLY = {
    "_pin_memory",
    "_sparse_addmm",
    "_sparse_mm_reduce_impl",
    "_grouped_mm",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
    "_scaled_dot_product_attention_math",
    "_flash_attention_forward",
    "_efficient_attention_forward",
}


def _schemas_of_python(name):
    """Return the schemas of an operator of aten that is no row, or `None`."""
    from . import _aten_methods

    return _aten_gradients.SCHEMAS.get(name) or _aten_methods.SCHEMAS.get(name)


def _python_op(name):
    """Return the function of an operator of aten that Python computes, or `None`."""
    from . import _aten_methods

    return getattr(_aten_gradients, name, None) if name in _aten_gradients.SCHEMAS else _aten_methods.find(name)


def _rare_op(name):
    """Return the operators of aten that are neither rows nor methods. Libraries name more than they call."""
    if name == "_int_mm":
        from ._rare import _int_mm

        return _int_mm
    if name in _NAMES_ONLY:
        from ._absent import absent_function

        return absent_function(f"torch.ops.aten.{name}")
    return None


def _enter_block(name, args=None):
    """Enter `record_function`, for programs that have the block as two calls."""
    from .autograd.profiler import record_function

    block = record_function(name, args)
    block.__enter__()
    return block


def _exit_block(record):
    """Leave the block that `_enter_block` entered."""
    record.__exit__(None, None, None)


class _Namespace:
    def __init__(self, name):
        self.__name__ = f"torch.ops.{name}"
        self._name = name

    def __getattr__(self, name):
        op = None
        if self._name == "aten" and not name.startswith("__"):
            op = _python_op(name) or getattr(_C._ops, name, None) or getattr(_C.Tensor, name, None)
            op = _rare_op(name) if op is None else op
        elif self._name in ("_c10d_functional", "c10d_functional") and not name.startswith("__"):
            from .distributed import _functional_ops

            op = getattr(_functional_ops, name) if name in _functional_ops.__all__ else None
            # Results of collectives here are tensors already. torchao names the operator in a table.
            op = (lambda input: input) if name == "_wrap_tensor_autograd" else op
        elif self._name == "c10d" and not name.startswith("__"):
            from .distributed import _functional_ops

            op = _functional_ops.IN_PLACE.get(name)
        elif self._name == "higher_order" and not name.startswith("__"):
            from ._higher_order_ops import _operators

            return _operators.find(name)
        elif self._name == "profiler" and name in ("_record_function_enter", "_record_function_enter_new"):
            op = _enter_block
        elif self._name == "profiler" and name == "_record_function_exit":
            op = _exit_block
        elif not name.startswith("__"):
            from ._operators.registry import declare

            if declare(f"{self._name}::{name}"):
                return getattr(self, name)
        if op is None:
            raise AttributeError(f"'_OpNamespace' '{self._name}' object has no attribute '{name}'")
        packet = OpOverloadPacket(self._name, name, op)
        setattr(self, name, packet)
        return packet

    def __dir__(self):
        return [*super().__dir__(), *(vars(_C._ops) if self._name == "aten" else ())]


aten = _Namespace("aten")


def _look_up(name):
    """Return the operator or the overload of a dotted name: `aten.add` or `aten.add.Tensor`."""
    namespace, *rest = name.split(".")
    found = globals().get(namespace) or __getattr__(namespace)
    for part in rest:
        found = getattr(found, part)
    return found


def _add(namespace, name, op):
    """Make a function an operator of a namespace."""
    space = globals().setdefault(namespace, _Namespace(namespace))
    setattr(space, name, OpOverloadPacket(namespace, name, op))


def _remove(namespace, name):
    """Undoes `_add`."""
    delattr(globals()[namespace], name)


#: Paths that `load_library` loaded: none.
loaded_libraries = set()


def load_library(path):
    """Raise `OSError`: C++ extensions are made for PyTorch's library, which is absent."""
    raise OSError(f"Could not load this library: {path} (it needs libtorch, which pytpu does not have)")


def import_module(module):
    """Import a module that registers operators."""
    import importlib

    importlib.import_module(module)


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module 'torch.ops' has no attribute '{name}'")
    return globals().setdefault(name, _Namespace(name))
