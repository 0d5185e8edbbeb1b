"""Batch and instance normalisation."""

from __future__ import annotations

import pytpu as torch
from pytpu import Tensor
from pytpu.nn import functional as F
from pytpu.nn.parameter import UninitializedBuffer, UninitializedParameter

from .lazy import LazyModuleMixin
from .module import Module
from .normalization import _make_affine, _reset_affine

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from pytpu.nn.parameter import Parameter
    from pytpu.types import Device


class _NormBase(Module):
    if TYPE_CHECKING:
        weight: Parameter | None
        bias: Parameter | None
        running_mean: Tensor | None
        running_var: Tensor | None
        num_batches_tracked: Tensor | None
    _version = 2

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        _make_affine(self, affine, bias, num_features, device, dtype)
        if track_running_stats:
            self.register_buffer("running_mean", torch.zeros(num_features, device=device, dtype=dtype))
            self.register_buffer("running_var", torch.ones(num_features, device=device, dtype=dtype))
            self.register_buffer("num_batches_tracked", torch.tensor(0, dtype=torch.long, device=device))
        else:
            self.register_buffer("running_mean", None)
            self.register_buffer("running_var", None)
            self.register_buffer("num_batches_tracked", None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Set the running mean to 0, the running variance to 1 and the batch counter to 0."""
        if self.track_running_stats:
            mean: Any = self.running_mean
            var: Any = self.running_var
            count: Any = self.num_batches_tracked
            mean.zero_()
            var.fill_(1)
            count.zero_()

    def reset_parameters(self) -> None:
        """Set the scale to 1 and the shift to 0, and reset the running statistics."""
        self.reset_running_stats()
        if self.affine:
            _reset_affine(self)

    def _check_input_dim(self, input):
        raise NotImplementedError

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        version = local_metadata.get("version")
        if (version is None or version < 2) and self.track_running_stats:
            # The counter did not exist in the first version of the format.
            key = prefix + "num_batches_tracked"
            if key not in state_dict:
                tracked = self.num_batches_tracked
                state_dict[key] = (
                    tracked
                    if tracked is not None and tracked.device.type != "meta"
                    else torch.tensor(0, dtype=torch.long)
                )
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised `input`, and update the running statistics in training mode."""
        self._check_input_dim(input)
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # average over all batches
                factor = 1.0 / float(self.num_batches_tracked)
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        keep = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if keep else None,
            self.running_var if keep else None,
            self.weight,
            self.bias,
            by_batch,
            factor,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Normalise each channel over the batch and the length.

    `y = (x - mean) / sqrt(var + eps) * weight + bias`, with the biased variance.

    Mean and variance come from the batch in training mode, and from the running statistics in evaluation mode.

    Args:
        num_features: Number of channels `c`.
        eps: Number that is added to the variance.
        momentum: Weight of the newest batch in the running statistics:
            `running = (1 - momentum) * running + momentum * batch`. `None` makes them the plain average over
            all batches.
        affine: Whether to learn a scale `weight` and a shift `bias`.
        track_running_stats: Whether to keep running statistics and use them in evaluation mode. Without them,
            statistics always come from the input.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.
        bias: Whether `affine` includes the shift.

    Attributes:
        weight: Parameter `(num_features,)`, initially 1, or `None`.
        bias: Parameter `(num_features,)`, initially 0, or `None`.
        running_mean: Buffer `(num_features,)`, initially 0, or `None`.
        running_var: Buffer `(num_features,)`, initially 1, or `None`. It averages unbiased variances.
        num_batches_tracked: Buffer, a scalar `int64`, or `None`.

    Shape:
        Input `(n, c)` or `(n, c, l)`; output of the same shape.

    Raises:
        ValueError: The input is not 2D or 3D, or a channel has only one value in training mode.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.BatchNorm1d(100)
        >>> layer(torch.randn(20, 100)).shape
        torch.Size([20, 100])
    """

    def _check_input_dim(self, input):
        if input.dim() not in (2, 3):
            raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")


class BatchNorm2d(_BatchNorm):
    """Normalise each channel over the batch and the spatial dimensions.

    `y = (x - mean) / sqrt(var + eps) * weight + bias`, with the biased variance.

    Mean and variance come from the batch in training mode, and from the running statistics in evaluation mode.

    Args:
        num_features: Number of channels `c`.
        eps: Number that is added to the variance.
        momentum: Weight of the newest batch in the running statistics:
            `running = (1 - momentum) * running + momentum * batch`. `None` makes them the plain average over
            all batches.
        affine: Whether to learn a scale `weight` and a shift `bias`.
        track_running_stats: Whether to keep running statistics and use them in evaluation mode. Without them,
            statistics always come from the input.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.
        bias: Whether `affine` includes the shift.

    Attributes:
        weight: Parameter `(num_features,)`, initially 1, or `None`.
        bias: Parameter `(num_features,)`, initially 0, or `None`.
        running_mean: Buffer `(num_features,)`, initially 0, or `None`.
        running_var: Buffer `(num_features,)`, initially 1, or `None`. It averages unbiased variances.
        num_batches_tracked: Buffer, a scalar `int64`, or `None`.

    Shape:
        Input `(n, c, h, w)`; output of the same shape.

    Raises:
        ValueError: The input is not 4D, or a channel has only one value in training mode.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.BatchNorm2d(100)
        >>> layer(torch.randn(20, 100, 35, 45)).shape
        torch.Size([20, 100, 35, 45])
    """

    def _check_input_dim(self, input):
        if input.dim() != 4:
            raise ValueError(f"expected 4D input (got {input.dim()}D input)")


class BatchNorm3d(_BatchNorm):
    """Normalise each channel over the batch and the spatial dimensions.

    `y = (x - mean) / sqrt(var + eps) * weight + bias`, with the biased variance.

    Mean and variance come from the batch in training mode, and from the running statistics in evaluation mode.

    Args:
        num_features: Number of channels `c`.
        eps: Number that is added to the variance.
        momentum: Weight of the newest batch in the running statistics:
            `running = (1 - momentum) * running + momentum * batch`. `None` makes them the plain average over
            all batches.
        affine: Whether to learn a scale `weight` and a shift `bias`.
        track_running_stats: Whether to keep running statistics and use them in evaluation mode. Without them,
            statistics always come from the input.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.
        bias: Whether `affine` includes the shift.

    Attributes:
        weight: Parameter `(num_features,)`, initially 1, or `None`.
        bias: Parameter `(num_features,)`, initially 0, or `None`.
        running_mean: Buffer `(num_features,)`, initially 0, or `None`.
        running_var: Buffer `(num_features,)`, initially 1, or `None`. It averages unbiased variances.
        num_batches_tracked: Buffer, a scalar `int64`, or `None`.

    Shape:
        Input `(n, c, d, h, w)`; output of the same shape.

    Raises:
        ValueError: The input is not 5D, or a channel has only one value in training mode.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.BatchNorm3d(100)
        >>> layer(torch.randn(2, 100, 35, 45, 10)).shape
        torch.Size([2, 100, 35, 45, 10])
    """

    def _check_input_dim(self, input):
        if input.dim() != 5:
            raise ValueError(f"expected 5D input (got {input.dim()}D input)")


class _InstanceNorm(_NormBase):
    _unbatched_dim: int

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _apply_instance_norm(self, input):
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0,
            self.eps,
        )

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised `input`. See the class for shapes."""
        self._check_input_dim(input)
        channels = input.dim() - self._unbatched_dim
        if input.size(channels) != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={channels} to match num_features ({self.num_features}), but got: "
                    f"{input.size(channels)}."
                )
            import warnings

            warnings.warn(
                f"input's size at dim={channels} does not match num_features. You can silence this warning by not "
                "passing in num_features, which is not used because affine=False",
                stacklevel=2,
            )
        if input.dim() == self._unbatched_dim:
            return self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)
        return self._apply_instance_norm(input)


class InstanceNorm1d(_InstanceNorm):
    """Normalise each channel of each sample over the length.

    `y = (x - mean) / sqrt(var + eps) * weight + bias`, with the biased variance.

    Mean and variance come from the sample. With `track_running_stats`, evaluation mode takes the running
    statistics instead.

    Args:
        num_features: Number of channels `c`.
        eps: Number that is added to the variance.
        momentum: Weight of the newest batch in the running statistics:
            `running = (1 - momentum) * running + momentum * batch`. `None` leaves them as they are.
        affine: Whether to learn a scale `weight` and a shift `bias`.
        track_running_stats: Whether to keep running statistics and use them in evaluation mode. Without them,
            statistics always come from the input.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.
        bias: Whether `affine` includes the shift.

    Attributes:
        weight: Parameter `(num_features,)`, initially 1, or `None`.
        bias: Parameter `(num_features,)`, initially 0, or `None`.
        running_mean: Buffer `(num_features,)`, initially 0, or `None`.
        running_var: Buffer `(num_features,)`, initially 1, or `None`. It averages unbiased variances.
        num_batches_tracked: Buffer, a scalar `int64`, or `None`.

    Shape:
        Input `(n, c, l)` or `(c, l)`; output of the same shape.

    Raises:
        ValueError: The input is not 2D or 3D, its channels are not `num_features` although `affine` is set, or
            a channel has only one value.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.InstanceNorm1d(100)
        >>> layer(torch.randn(20, 100, 40)).shape
        torch.Size([20, 100, 40])
    """

    _unbatched_dim = 2

    def _check_input_dim(self, input):
        if input.dim() not in (2, 3):
            raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")


class InstanceNorm2d(_InstanceNorm):
    """Normalise each channel of each sample over the spatial dimensions.

    `y = (x - mean) / sqrt(var + eps) * weight + bias`, with the biased variance.

    Mean and variance come from the sample. With `track_running_stats`, evaluation mode takes the running
    statistics instead.

    Args:
        num_features: Number of channels `c`.
        eps: Number that is added to the variance.
        momentum: Weight of the newest batch in the running statistics:
            `running = (1 - momentum) * running + momentum * batch`. `None` leaves them as they are.
        affine: Whether to learn a scale `weight` and a shift `bias`.
        track_running_stats: Whether to keep running statistics and use them in evaluation mode. Without them,
            statistics always come from the input.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.
        bias: Whether `affine` includes the shift.

    Attributes:
        weight: Parameter `(num_features,)`, initially 1, or `None`.
        bias: Parameter `(num_features,)`, initially 0, or `None`.
        running_mean: Buffer `(num_features,)`, initially 0, or `None`.
        running_var: Buffer `(num_features,)`, initially 1, or `None`. It averages unbiased variances.
        num_batches_tracked: Buffer, a scalar `int64`, or `None`.

    Shape:
        Input `(n, c, h, w)` or `(c, h, w)`; output of the same shape.

    Raises:
        ValueError: The input is not 3D or 4D, its channels are not `num_features` although `affine` is set, or
            a channel has only one value.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.InstanceNorm2d(100)
        >>> layer(torch.randn(20, 100, 35, 45)).shape
        torch.Size([20, 100, 35, 45])
    """

    _unbatched_dim = 3

    def _check_input_dim(self, input):
        if input.dim() not in (3, 4):
            raise ValueError(f"expected 3D or 4D input (got {input.dim()}D input)")


class InstanceNorm3d(_InstanceNorm):
    """Normalise each channel of each sample over the spatial dimensions.

    `y = (x - mean) / sqrt(var + eps) * weight + bias`, with the biased variance.

    Mean and variance come from the sample. With `track_running_stats`, evaluation mode takes the running
    statistics instead.

    Args:
        num_features: Number of channels `c`.
        eps: Number that is added to the variance.
        momentum: Weight of the newest batch in the running statistics:
            `running = (1 - momentum) * running + momentum * batch`. `None` leaves them as they are.
        affine: Whether to learn a scale `weight` and a shift `bias`.
        track_running_stats: Whether to keep running statistics and use them in evaluation mode. Without them,
            statistics always come from the input.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.
        bias: Whether `affine` includes the shift.

    Attributes:
        weight: Parameter `(num_features,)`, initially 1, or `None`.
        bias: Parameter `(num_features,)`, initially 0, or `None`.
        running_mean: Buffer `(num_features,)`, initially 0, or `None`.
        running_var: Buffer `(num_features,)`, initially 1, or `None`. It averages unbiased variances.
        num_batches_tracked: Buffer, a scalar `int64`, or `None`.

    Shape:
        Input `(n, c, d, h, w)` or `(c, d, h, w)`; output of the same shape.

    Raises:
        ValueError: The input is not 4D or 5D, its channels are not `num_features` although `affine` is set, or
            a channel has only one value.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.InstanceNorm3d(100)
        >>> layer(torch.randn(2, 100, 35, 45, 10)).shape
        torch.Size([2, 100, 35, 45, 10])
    """

    _unbatched_dim = 4

    def _check_input_dim(self, input):
        if input.dim() not in (4, 5):
            raise ValueError(f"expected 4D or 5D input (got {input.dim()}D input)")


class SyncBatchNorm(_BatchNorm):
    """Normalise each channel over the batches of all processes.

    `y = (x - mean) / sqrt(var + eps) * weight + bias`, with the biased variance.

    In one process and in evaluation, the result is that of a `BatchNorm` layer.

    Args:
        num_features: Number of channels `c`.
        eps: Number that is added to the variance.
        momentum: Weight of the newest batch in the running statistics:
            `running = (1 - momentum) * running + momentum * batch`. `None` makes them the plain average over
            all batches.
        affine: Whether to learn a scale `weight` and a shift `bias`.
        track_running_stats: Whether to keep running statistics and use them in evaluation mode. Without them,
            statistics always come from the input.
        process_group: Processes to average over. `None` means all.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.
        bias: Whether `affine` includes the shift.

    Attributes:
        weight: Parameter `(num_features,)`, initially 1, or `None`.
        bias: Parameter `(num_features,)`, initially 0, or `None`.
        running_mean: Buffer `(num_features,)`, initially 0, or `None`.
        running_var: Buffer `(num_features,)`, initially 1, or `None`. It averages unbiased variances.
        num_batches_tracked: Buffer, a scalar `int64`, or `None`.

    Shape:
        Input `(n, c, *)`; output of the same shape.

    Raises:
        ValueError: The input has fewer than two dimensions.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.SyncBatchNorm(100)
        >>> layer(torch.randn(20, 100, 35)).shape
        torch.Size([20, 100, 35])
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any | None = None,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised `input`. See the class for shapes."""
        group = self._group_of_several()
        if group is None:
            return super().forward(input)
        self._check_input_dim(input)
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        from ._sync_batchnorm import NormalizedOverRanks

        y, mean, var = NormalizedOverRanks.apply(input, self.weight, self.bias, self.eps, group)
        if self.running_mean is not None and self.running_var is not None:
            momentum = self.momentum
            if momentum is None:
                momentum = 0.0 if self.num_batches_tracked is None else 1 / self.num_batches_tracked.item()
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
            self.running_var.lerp_(var.to(self.running_var.dtype), momentum)
        return y

    def _group_of_several(self):
        """Return the group whose batches this call normalises together, or `None` if it is one process."""
        distributed = getattr(torch, "distributed", None)
        if not self.training or distributed is None or not distributed.is_initialized():
            return None
        group = self.process_group or distributed.group.WORLD
        return group if distributed.get_world_size(group) > 1 else None

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any | None = None) -> Module:
        """Replace the batch normalisations in `module` by `SyncBatchNorm` layers that share their tensors.

        Args:
            module: Module to search. Its children are replaced in place.
            process_group: Processes to average over. `None` means all.

        Returns:
            `module`, or a new `SyncBatchNorm` where `module` itself is a batch normalisation.

        Example:
            >>> import pytpu as torch
            >>> net = torch.nn.Sequential(torch.nn.Linear(20, 100), torch.nn.BatchNorm1d(100))
            >>> torch.nn.SyncBatchNorm.convert_sync_batchnorm(net)[1]
            SyncBatchNorm(100, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
        """
        converted = module
        if isinstance(module, _BatchNorm) and not isinstance(module, cls):
            converted = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            converted.weight, converted.bias = module.weight, module.bias
            converted.running_mean, converted.running_var = module.running_mean, module.running_var
            converted.num_batches_tracked = module.num_batches_tracked
            converted.training = module.training
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted


class _LazyNorm(LazyModuleMixin):
    num_features: int

    def _channel_dim(self, input):
        raise NotImplementedError

    def _make_uninitialized(self, affine, track_running_stats, bias, device, dtype):
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = torch.tensor(0, dtype=torch.long, device=device)

    def reset_parameters(self) -> None:
        """Reset the values, as the base layer does. Do nothing while the parameters have no shape."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Give parameters and buffers the shapes that fit `input`, and reset their values."""
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[self._channel_dim(input)]
        for value in (self.weight, self.bias, self.running_mean, self.running_var):
            if value is not None:
                value.materialize((self.num_features,))
        self.reset_parameters()


class _LazyBatchNorm(_LazyNorm):
    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype)
        self._make_uninitialized(affine, track_running_stats, bias, device, dtype)

    def _channel_dim(self, input):
        return 1


class LazyBatchNorm1d(_LazyBatchNorm, BatchNorm1d):
    """Apply a `BatchNorm1d` whose `num_features` is the number of channels of the first input.

    The first call makes the parameters and buffers and turns the module into a `BatchNorm1d`.

    Args:
        eps: Number that is added to the variance.
        momentum: Weight of the newest batch in the running statistics:
            `running = (1 - momentum) * running + momentum * batch`. `None` makes them the plain average over
            all batches.
        affine: Whether to learn a scale `weight` and a shift `bias`.
        track_running_stats: Whether to keep running statistics and use them in evaluation mode. Without them,
            statistics always come from the input.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.
        bias: Whether `affine` includes the shift.

    Shape:
        Input `(n, c)` or `(n, c, l)`; output of the same shape.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.LazyBatchNorm1d()
        >>> out = layer(torch.randn(20, 100))
        >>> layer.num_features
        100
    """

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyBatchNorm, BatchNorm2d):
    """Apply a `BatchNorm2d` whose `num_features` is the number of channels of the first input.

    The first call makes the parameters and buffers and turns the module into a `BatchNorm2d`.

    Args:
        eps: Number that is added to the variance.
        momentum: Weight of the newest batch in the running statistics:
            `running = (1 - momentum) * running + momentum * batch`. `None` makes them the plain average over
            all batches.
        affine: Whether to learn a scale `weight` and a shift `bias`.
        track_running_stats: Whether to keep running statistics and use them in evaluation mode. Without them,
            statistics always come from the input.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.
        bias: Whether `affine` includes the shift.

    Shape:
        Input `(n, c, h, w)`; output of the same shape.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.LazyBatchNorm2d()
        >>> out = layer(torch.randn(20, 100, 35, 45))
        >>> layer.num_features
        100
    """

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyBatchNorm, BatchNorm3d):
    """Apply a `BatchNorm3d` whose `num_features` is the number of channels of the first input.

    The first call makes the parameters and buffers and turns the module into a `BatchNorm3d`.

    Args:
        eps: Number that is added to the variance.
        momentum: Weight of the newest batch in the running statistics:
            `running = (1 - momentum) * running + momentum * batch`. `None` makes them the plain average over
            all batches.
        affine: Whether to learn a scale `weight` and a shift `bias`.
        track_running_stats: Whether to keep running statistics and use them in evaluation mode. Without them,
            statistics always come from the input.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.
        bias: Whether `affine` includes the shift.

    Shape:
        Input `(n, c, d, h, w)`; output of the same shape.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.LazyBatchNorm3d()
        >>> out = layer(torch.randn(2, 100, 35, 45, 10))
        >>> layer.num_features
        100
    """

    cls_to_become = BatchNorm3d


class _LazyInstanceNorm(_LazyBatchNorm):
    def _channel_dim(self, input):
        return input.dim() - self._unbatched_dim


class LazyInstanceNorm1d(_LazyInstanceNorm, InstanceNorm1d):
    """Apply an `InstanceNorm1d` whose `num_features` is the number of channels of the first input.

    The first call makes the parameters and buffers and turns the module into an `InstanceNorm1d`.

    Args:
        eps: Number that is added to the variance.
        momentum: Weight of the newest batch in the running statistics:
            `running = (1 - momentum) * running + momentum * batch`. `None` leaves them as they are.
        affine: Whether to learn a scale `weight` and a shift `bias`.
        track_running_stats: Whether to keep running statistics and use them in evaluation mode. Without them,
            statistics always come from the input.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.
        bias: Whether `affine` includes the shift.

    Shape:
        Input `(n, c, l)` or `(c, l)`; output of the same shape.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.LazyInstanceNorm1d()
        >>> out = layer(torch.randn(20, 100, 40))
        >>> layer.num_features
        100
    """

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyInstanceNorm, InstanceNorm2d):
    """Apply an `InstanceNorm2d` whose `num_features` is the number of channels of the first input.

    The first call makes the parameters and buffers and turns the module into an `InstanceNorm2d`.

    Args:
        eps: Number that is added to the variance.
        momentum: Weight of the newest batch in the running statistics:
            `running = (1 - momentum) * running + momentum * batch`. `None` leaves them as they are.
        affine: Whether to learn a scale `weight` and a shift `bias`.
        track_running_stats: Whether to keep running statistics and use them in evaluation mode. Without them,
            statistics always come from the input.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.
        bias: Whether `affine` includes the shift.

    Shape:
        Input `(n, c, h, w)` or `(c, h, w)`; output of the same shape.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.LazyInstanceNorm2d()
        >>> out = layer(torch.randn(20, 100, 35, 45))
        >>> layer.num_features
        100
    """

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyInstanceNorm, InstanceNorm3d):
    """Apply an `InstanceNorm3d` whose `num_features` is the number of channels of the first input.

    The first call makes the parameters and buffers and turns the module into an `InstanceNorm3d`.

    Args:
        eps: Number that is added to the variance.
        momentum: Weight of the newest batch in the running statistics:
            `running = (1 - momentum) * running + momentum * batch`. `None` leaves them as they are.
        affine: Whether to learn a scale `weight` and a shift `bias`.
        track_running_stats: Whether to keep running statistics and use them in evaluation mode. Without them,
            statistics always come from the input.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.
        bias: Whether `affine` includes the shift.

    Shape:
        Input `(n, c, d, h, w)` or `(c, d, h, w)`; output of the same shape.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.LazyInstanceNorm3d()
        >>> out = layer(torch.randn(2, 100, 35, 45, 10))
        >>> layer.num_features
        100
    """

    cls_to_become = InstanceNorm3d
