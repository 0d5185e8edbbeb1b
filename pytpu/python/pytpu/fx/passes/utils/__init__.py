"""`torch.fx.passes.utils`: parts of graphs, compared and taken out."""

from .common import HolderModule, compare_graphs, lift_subgraph_as_module
