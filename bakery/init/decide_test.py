"""The table [test] of a draft."""

from __future__ import annotations

from bakery.init.draft import Draft
from bakery.init.frameworks import Device
from bakery.init.project import Project
from bakery.toolchains import facts


def set_test(draft: Draft, project: Project, device: Device) -> None:
    """Set what is imported, and what the import needs that the wheel does not bundle."""
    if device.cuda:
        draft.set("test.requirements", _cuda_requirements(device), "the libraries that are not bundled")
    if project.modules:
        draft.set(
            "test.imports", [fact.text for fact in project.modules], f"guess: {project.modules[0].place}", optional=True
        )


def _cuda_requirements(device: Device) -> list[str]:
    major = int(device.cuda[0].partition(".")[0])
    rows = [row for row in facts.components() if major in row.majors and row.name in dict(device.components)]
    extras = dict.fromkeys(("cudart", *(extra for row in rows for extra in row.extras)))
    separate = [row.package for row in rows if row.package]
    return [f"cuda-toolkit[{','.join(sorted(extras))}]==${{CUDA_VERSION}}", *dict.fromkeys(separate)]
