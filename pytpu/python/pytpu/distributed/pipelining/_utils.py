"""PyTorch's module of what the files of pipelines share: the places of stages, and what is wrong with tensors."""

from ._IR import PipeInfo
from ._shapes import (
    PipeliningMetadataError,
    _ranks_of_stages as generate_stage_to_rank_mapping,
    _stages_of_ranks as generate_rank_to_stage_mapping,
)

__all__ = ["PipeInfo", "PipeliningMetadataError", "generate_rank_to_stage_mapping", "generate_stage_to_rank_mapping"]
