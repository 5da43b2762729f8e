"""What a field means that nobody set: dotted path → value. No default stands anywhere else."""

from __future__ import annotations

from collections.abc import Mapping

Default = str | bool | None | tuple[str, ...] | Mapping[str, str]

DEFAULTS: Mapping[str, Default] = {
    "source": ".",
    "source.ignore": (),
    "source.accept": (),
    "source.expected-size": "500 MB",
    "platforms": ("linux/amd64",),
    "matrix.python": ("3.11",),
    "builder.base.provider": "debian",
    "builder.toolkit": "none",
    "builder.components": (),
    "builder.framework": "",
    "builder.requirements": (),
    "builder.system-packages": (),
    "builder.environment": {},
    "builder.compiler-cache": True,
    "builder.job-memory": None,
    "builder.jobs": None,
    "builder.network": False,
    "native.requirements": (),
    "native.system-packages": (),
    "native.environment": {},
    "native.network": False,
    "wheel.frontend": "build",
    "wheel.config-settings": {},
    "wheel.repair.enabled": True,
    "wheel.repair.exclude": (),
    "wheel.repair.strip": False,
    "wheel.repair.plat": "auto",
    "wheel.also-named": (),
    "wheel.requires": (),
    "test.requirements": (),
    "test.imports": (),
    "test.command": None,
    "test.files": (),
    "test.network": False,
    "test.load-shared-objects": True,
    "cache.backend": "none",
    "cache.ref": "",
    "cache.directory": ".bakery/cache",
    "cache.mode": "max",
    "output.directory": "dist",
}
