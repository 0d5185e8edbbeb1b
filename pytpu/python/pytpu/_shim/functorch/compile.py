"""`functorch.compile`: older names of `torch._functorch`."""

from torch._functorch.aot_autograd import (
    aot_function as aot_function,
    aot_module as aot_module,
    aot_module_simplified as aot_module_simplified,
    compiled_function as compiled_function,
    compiled_module as compiled_module,
    make_boxed_compiler as make_boxed_compiler,
    make_boxed_func as make_boxed_func,
)
from torch._functorch.compilers import nop as nop, print_compile as print_compile
from torch._functorch.partitioners import (
    default_partition as default_partition,
    min_cut_rematerialization_partition as min_cut_rematerialization_partition,
)
