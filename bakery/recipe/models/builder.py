"""The builder: the image that wheels are built in."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StrictBool, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue

from bakery.core.image_names import parse
from bakery.recipe.models.base import Model, invalid
from bakery.recipe.models.text import (
    REFERENCE,
    ComponentText,
    EnvironmentName,
    Fingerprint,
    Line,
    Matching,
    ProjectName,
    RequirementText,
    RustVersion,
    SizeText,
    SystemPackage,
    Text,
)
from bakery.toolchains import registry

ImageText = Annotated[
    str,
    Matching(
        "[a-z0-9][A-Za-z0-9._/:-]*(?:@sha256:[0-9a-f]{64})?",
        "an image name, such as 'quay.io/pypa/manylinux_2_28_x86_64:2026.06.28-1'",
        "write the image as docker pull takes it, in lower case",
        references=True,
    ),
]
Place = Annotated[
    str,
    Matching(
        r"[a-z0-9](?:[a-z0-9._/-]|:[0-9])*[a-z0-9]",
        "a registry and an owner, such as 'mirror.example/pypa'",
        "write what stands before the name of the image, without https://",
    ),
]
IndexUrl = Annotated[
    Line,
    Matching(
        r"""https?://[^\s'"\\@]+""",
        "an address without a password, such as 'https://index.example/torch/${CUDA_TAG}'",
        "write user and password into the configuration of pip on this machine",
        references=True,
    ),
]
Digest = Annotated[
    str,
    Matching(
        "sha256:[0-9a-f]{64}",
        "sha256: and 64 hexadecimal digits",
        "copy it from: docker buildx imagetools inspect IMAGE",
    ),
]
RepositoryUrl = Annotated[
    Line,
    Matching(
        r"""(?:https|file)://[^\s'"\\]+""",
        "an address, such as 'https://mirror.example/cuda/repos/rhel8/x86_64'",
        references=True,
    ),
]


class Base(Model):
    """The base image: the root file system that the builder starts from.

    The short form is a name. ``base = "manylinux_2_28"`` is PyPA's image of that name, pinned by its digest; it has all
    current Pythons ([bases](bases.md) lists all names). ``base = "debian"`` selects, for each cell, the Debian release
    that ships the cell's Python, and needs no image registry. Any other image is written ``base = { image = "…" }``.
    """

    short_form: ClassVar[str | None] = "string"

    provider: str = Field(default="debian", examples=["manylinux_2_28", "debian", "image"])
    """The name of the base. ``image`` if ``image`` is set. ``${NAME}`` is replaced by the variable's value in each cell."""
    image: ImageText | None = Field(default=None, examples=["quay.io/pypa/manylinux_2_28_x86_64:2026.06.28-1"])
    """The name of any image, as ``docker pull`` takes it. ``${NAME}`` is replaced by the variable's value. In manylinux images, ``/opt/python``,
    auditwheel and ``AUDITWHEEL_PLAT`` are used. In other images, missing tools are installed with the image's own
    package manager."""
    digest: Digest | None = None
    """The digest of the image, ``sha256:…``. It pins the image, so every machine uses the same bytes. With a short name,
    it replaces the digest that Bakery knows, for an image of your own under that name."""
    registry: Place | None = Field(default=None, examples=["mirror.example/pypa"])
    """With a short name, the registry and owner that have its images, such as a mirror. ``BAKERY_BASE_REGISTRY`` sets it
    for all recipes."""

    @classmethod
    def shape_schema(cls, table: JsonSchemaValue) -> None:
        """List the names of bases."""
        table["properties"]["provider"]["anyOf"] = [{"enum": [*registry.bases()]}, {"pattern": r"\$\{"}]

    @classmethod
    def short_values(cls) -> JsonSchemaValue:
        """List the names of bases that need nothing else."""
        return {"anyOf": [{"enum": [name for name in registry.bases() if name != "image"]}, {"pattern": r"\$\{"}]}

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        if isinstance(value, dict) and isinstance(image := value.get("image"), str) and "@sha256:" in image:
            name, _, digest = image.partition("@")
            if value.get("digest", digest) != digest:
                raise invalid("image and digest name two digests; remove one of the two")
            return {**value, "image": name, "digest": digest}
        return {"provider": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _consistent(self) -> Base:
        has_name = self.provider not in ("debian", "image")
        if self.digest and not (self.image or has_name):
            raise invalid("digest belongs to an image; name the image, too", 'add image = "…", or remove digest')
        if self.registry and not has_name:
            raise invalid(
                "registry is for a base with a short name", 'write provider = "manylinux_2_28", or remove registry'
            )
        if self.digest and self.image and (reference := REFERENCE.search(self.image)):
            raise invalid(
                f"digest names one image, and with {reference[0]} the name may be several; remove one of the two"
            )
        if self.image and "provider" in self.model_fields_set and self.provider != "image":
            raise invalid(
                f"provider {self.provider!r} takes no image; remove one of the two",
                'write base = { image = "…" }, or remove image',
            )
        if self.provider == "image" and not self.image:
            raise invalid("provider 'image' needs the name of an image", 'add image = "…"')
        return self


class BeforeBuild(Model):
    """A command that runs before the wheel is built, such as one that generates sources or installs a library.

    The short form is the command. Its step is cached until the source changes.
    """

    short_form: ClassVar[str | None] = "string"

    command: Text = Field(examples=["sh scripts/vendor.sh"])
    """The shell command to run in ``/src``, a copy of the project's source, with the tools and the ``environment`` of
    the builder. What it writes there and what it installs is there when the wheel is built."""
    network: StrictBool = False
    """Allow the command to use the network. Off by default. The command never gets secrets or the password of the
    package index."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return {"command": value} if isinstance(value, str) else value

    @field_validator("command")
    @classmethod
    def _no_empty_command(cls, value: str) -> str:
        if not value.strip():
            raise invalid("expected a shell command", "write a command, or remove before-build")
        return value


class Builder(Model):
    """The image that compiles: a base image, a toolkit, and everything else that the build needs."""

    base: Base = Base()
    """The base image of the builder."""
    toolkit: str = Field(default="none", examples=["none", "cuda", "wheels", "clang", "image", "repository"])
    """Where the CUDA compiler and libraries come from. ``cuda`` selects, for each cell, the toolkit that has
    its CUDA release: ``image`` on a base with CUDA (``manylinux_2_28_cuda12_9``), else ``debian``, ``clang`` or ``wheels``,
    and ``repository`` for releases that these lack, if ``cuda-repository`` is set."""
    cuda_repository: RepositoryUrl | None = Field(
        default=None, examples=["https://mirror.example/cuda/repos/rhel8/x86_64"]
    )
    """The URL (``https:`` or ``file:``) of NVIDIA's package repository, or of a mirror, for the distribution and
    architecture of the base image. Toolkit ``repository`` installs from it, and ``cuda`` the releases that it has nowhere else."""
    cuda_repository_key: Fingerprint | None = Field(default=None, examples=["610C7B14E068A878070DA4E99CD0A493D42D0685"])
    """The fingerprint (40 digits) of the key that signs the repository. By default, the keys whose fingerprints NVIDIA
    published are accepted: those for Debian 12, Ubuntu, and RHEL 8 and 9."""
    components: tuple[ComponentText, ...] = Field(default=(), examples=[["cublas", "cusolver", "cudnn==9.*"]])
    """CUDA libraries to compile and link with, from NVIDIA's wheels. Their versions are those of the CUDA release.
    Libraries with their own releases (cudnn, nccl) have the version that torch pins for that CUDA release, or the one
    given here."""
    framework: str = Field(default="", examples=["torch", "jax"])
    """The framework that the extension is built for. A variable or an axis sets its release (``TORCH_VERSION``,
    ``JAX_VERSION``). Build and test use exactly this release; the wheel's metadata requires the releases that the wheel
    works with."""
    framework_index: IndexUrl | None = Field(default=None, examples=["https://index.example/torch/cu${CUDA_TAG}"])
    """A package index that has the framework, such as torch's own for one CUDA release. Steps that resolve and install
    Python packages of build and test ask it in addition to the indexes of pip's configuration. ``${NAME}`` is replaced by
    the variable's value in each cell. A user and password that pip's configuration has for the same host are used for
    it, too."""
    requirements: tuple[RequirementText, ...] = Field(default=(), examples=[["cmake>=3.26", "ninja"]])
    """Python packages to install for the build, in addition to the project's ``[build-system] requires``."""
    allow_direct: tuple[ProjectName, ...] = Field(default=(), examples=[["my-build-tool"]])
    """Python packages that may be required by URL (``name @ https://…``, ``name @ git+https://…``) in this recipe, in
    the project's ``pyproject.toml``, or in the metadata of a dependency. URLs of other packages are refused. Source
    distributions and repositories are built without network and without secrets."""
    system_packages: tuple[SystemPackage, ...] = ()
    """Packages to install with the package manager of the base image."""
    environment: dict[EnvironmentName, Line] = Field(
        default={}, examples=[{"CMAKE_CUDA_ARCHITECTURES": "${CUDA_ARCHS}"}]
    )
    """Environment variables of the compile step. ``${NAME}`` is replaced by the variable's value."""
    rust: RustVersion | None = Field(default=None, examples=["auto", "1.85"])
    """Install Rust, and fetch the crates that ``Cargo.lock`` names, so that compiling needs no network. ``auto`` is the
    Rust of the project: that of ``rust-toolchain.toml``, else the newest that the base image or its package manager
    has, if ``rust-version`` in ``Cargo.toml`` allows it. Other values are a release such as ``1.85``, or a channel of
    rustup. Rust that the package manager does not have is downloaded from static.rust-lang.org, or from
    ``RUSTUP_DIST_SERVER`` in ``environment``."""
    before_build: BeforeBuild | None = None
    """A command to run before the wheel is built."""
    cross: StrictBool = False
    """Compile on the platform of the machine that builds, with Debian's cross compiler if the cell has another
    platform. Supports C and C++ on base ``debian``. If false, and always for tests, a platform that no node has is
    emulated."""
    compiler_cache: StrictBool | Literal["ccache", "sccache"] = True
    """Keep what compilers made when the source changes. ``ccache`` caches C, C++ and nvcc. ``sccache`` is ccache for C and
    C++, and sccache for rustc and nvcc: it caches each architecture of a CUDA file on its own, and fails with CUDA 13.3
    and newer. ``true`` is ``ccache``, with sccache for rustc if ``rust`` is set."""
    device_compression: Literal["size", "speed", "none"] | None = None
    """How nvcc compresses device code in the wheel (its option ``--compress-mode``, CUDA 12.8 and newer). ``size`` gives
    the smallest wheels; drivers older than CUDA 12.4 cannot read it. ``speed`` is the compression of CUDA 12.8. The default
    is nvcc's own."""
    job_memory: SizeText | None = Field(default=None, examples=["3.5 GB"])
    """The peak memory of one compiler process. The build then runs as many compilers in parallel as the cores and the
    free memory of the machine allow. For this, ``MAX_JOBS``, ``EXT_PARALLEL`` and ``CMAKE_BUILD_PARALLEL_LEVEL`` are
    set, and ``NVCC_THREADS`` is set to 1. Variables that ``environment`` sets are not changed."""
    jobs: Annotated[int, Field(strict=True, ge=1, le=1024)] | None = None
    """A fixed number of parallel compiler processes, if all machines are alike."""
    network: StrictBool = False
    """Allow the compile step to use the network. Off by default; list what it needs in ``requirements`` instead."""

    @classmethod
    def shape_schema(cls, table: JsonSchemaValue) -> None:
        """List the names of toolkits and frameworks."""
        table["properties"]["toolkit"]["enum"] = [registry.ANY_CUDA, *registry.toolkits()]
        table["properties"]["framework"]["enum"] = [*registry.frameworks()]

    @model_validator(mode="after")
    def _toolkit_has_its_source(self) -> Builder:
        if self.toolkit == "repository" and not self.cuda_repository:
            raise invalid("toolkit 'repository' needs the address of the package repository: cuda-repository")
        if self.cuda_repository and self.toolkit not in ("repository", registry.ANY_CUDA):
            raise invalid("cuda-repository is for toolkit 'repository' or 'cuda'; set the toolkit, or remove it")
        if self.cuda_repository_key and not self.cuda_repository:
            raise invalid("cuda-repository-key is the key of cuda-repository; name that, too, or remove the key")
        if self.framework_index and not self.framework:
            raise invalid("framework-index is the index of a framework; name that, too, or remove the index")
        named = self.base.image or REFERENCE.search(self.base.provider)
        if self.toolkit == "image" and not (named or parse(self.base.provider).cuda):
            raise invalid(
                "toolkit 'image' is the CUDA of the base image; name one that has it",
                'base = "manylinux_2_28_cuda12_9", or base = { image = "…" }',
            )
        return self
