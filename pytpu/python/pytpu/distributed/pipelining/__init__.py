"""Pipelines: parts of a model on several ranks, which work on different microbatches at the same time."""

from ._IR import Pipe, SplitPoint, pipe_split, pipeline
from .schedules import (
    PipelineActivationLiveness,
    Schedule1F1B,
    ScheduleDualPipeV,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
    ScheduleZBVZeroBubble,
    _ScheduleForwardOnly as _ScheduleForwardOnly,
    analyze_pipeline_activation_liveness,
)
from .stage import PipelineStage, PipelineStageInfo, build_stage

__all__ = [
    "Pipe",
    "PipelineActivationLiveness",
    "PipelineStage",
    "PipelineStageInfo",
    "Schedule1F1B",
    "ScheduleDualPipeV",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble",
    "ScheduleLoopedBFS",
    "ScheduleZBVZeroBubble",
    "SplitPoint",
    "analyze_pipeline_activation_liveness",
    "build_stage",
    "pipe_split",
    "pipeline",
]
