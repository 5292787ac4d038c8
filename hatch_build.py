"""Put prebuilt kernels into a wheel, which then is for one Python and one kind of processor."""

from __future__ import annotations

import os
import sys
import sysconfig
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelHook(BuildHookInterface):
    """Adds the folder that DUALSWEEP_PREBUILT names, if there is one; see tools/wheel.py."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the kernels to what is built."""
        folder = os.environ.get("DUALSWEEP_PREBUILT")
        if not folder or version == "editable":
            return
        build_data["force_include"][folder] = "dualsweep/_kernels"
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        # Kernels are object code that refers to nothing outside of numba, so that the C library
        # does not matter beyond what numba's own wheels need.
        platform = platform.replace("linux_", "manylinux_2_17_")
        build_data["tag"] = f"cp{sys.version_info.major}{sys.version_info.minor}-none-{platform}"
