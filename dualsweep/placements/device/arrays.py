"""Where arrays are: a library by its array API namespace, and one of its devices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import RLock

import numpy as np

from ..._typing import Array, Device, DeviceArray, DeviceDType, Namespace
from ...newton.backend import Arrays

PRECISION = RLock()  # held while torch's setting, one for all threads, is not what it was


class Space(Arrays):
    """A namespace of the array API standard, as of `array_api_compat`, and a device of it."""

    def __init__(self, xp: Namespace, device: Device) -> None:
        super().__init__(xp)
        self.device = device

    @property
    def library(self) -> str:
        """Name of the library: numpy, cupy, torch, ..."""
        return str(self.xp.__name__).rpartition(".")[2]

    @property
    def _is_cuda(self) -> bool:
        """Whether arrays are torch's, on a CUDA device."""
        return self.library == "torch" and self.device.type == "cuda"

    def zeros(self, shape: tuple[int, ...], dtype: DeviceDType) -> DeviceArray:
        """Return an array of zeros."""
        return self.xp.zeros(shape, dtype=dtype, device=self.device)

    def empty(self, shape: tuple[int, ...], dtype: DeviceDType) -> DeviceArray:
        """Return an array of anything."""
        return self.xp.empty(shape, dtype=dtype, device=self.device)

    def asarray(self, values: Array, dtype: DeviceDType = None) -> DeviceArray:
        """Return what is on the host as an array here."""
        return self.xp.asarray(np.ascontiguousarray(values), dtype=dtype, device=self.device)

    def current(self) -> AbstractContextManager[None]:
        """Return a ``with`` block in which new arrays are made on the device."""
        if self.library == "cupy":
            import cupy

            return cupy.cuda.Device(self.device.id)
        return nullcontext()

    @contextmanager
    def products(self, rough: bool = False) -> Iterator[None]:
        """Return a block that multiplies float32 as such, or roughly where that is faster.

        Torch on CUDA devices can round factors to 10 bits (TF32), for a product in a fifth of the
        time. Its setting is restored at the end; other threads that come here wait until then.
        """
        if not self._is_cuda:
            yield
            return
        import torch

        settings = torch.backends.cuda.matmul
        name: str = "fp32_precision"
        value: str | bool = "tf32" if rough else "ieee"
        if not hasattr(settings, name):  # before torch 2.9
            name, value = "allow_tf32", rough
        with PRECISION:
            before = getattr(settings, name)
            setattr(settings, name, value)
            try:
                yield
            finally:
                setattr(settings, name, before)

    def free_bytes(self) -> float:
        """Return how much memory the device has left; infinity if it shares the host's."""
        if self.library == "cupy":
            import cupy

            with self.current():
                cached = cupy.get_default_memory_pool().free_bytes()
                return float(cupy.cuda.runtime.memGetInfo()[0]) + float(cached)
        if self._is_cuda:
            import torch

            cuda, device = torch.cuda, self.device
            cached = cuda.memory_reserved(device) - cuda.memory_allocated(device)
            return float(cuda.mem_get_info(device)[0]) + float(cached)
        return np.inf

    def release(self) -> None:
        """Give memory that is not used back to the device, for other libraries to use."""
        if self.library == "cupy":
            import cupy

            cupy.get_default_memory_pool().free_all_blocks()
        elif self._is_cuda:
            import torch

            torch.cuda.empty_cache()


class OnHost:
    """An array in host memory, because the device has no room for it.

    ``array[part, :]`` is a copy on the device.
    """

    def __init__(self, space: Space, shape: tuple[int, int], dtype: DeviceDType) -> None:
        narrow = dtype == space.xp.float32
        self.space, self.shape, self.dtype = space, shape, dtype
        self.values = np.empty(shape, np.float32 if narrow else np.float64)

    def __getitem__(self, place: tuple[slice, slice]) -> DeviceArray:
        return self.space.asarray(self.values[place])

    def __setitem__(self, place: tuple[slice, slice], values: DeviceArray) -> None:
        self.values[place] = self.space.numpy(values)
