"""System libraries: the names that build files use → the packages with their headers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bakery.init.findings import Fact, Place


@dataclass(frozen=True, slots=True)
class Library:
    """A library of the system.

    Attributes:
        names: of CMake, pkg-config and the linker, in lower case.
        header: a header, or a folder of headers, that no other library has.
        apt: the package of Debian.
        dnf: the package of Red Hat.
    """

    names: tuple[str, ...]
    header: str
    apt: str
    dnf: str


LIBRARIES = (
    Library(("zlib", "z"), "zlib.h", "zlib1g-dev", "zlib-devel"),
    Library(("bzip2", "bz2"), "bzlib.h", "libbz2-dev", "bzip2-devel"),
    Library(("liblzma", "lzma"), "lzma.h", "liblzma-dev", "xz-devel"),
    Library(("zstd", "libzstd"), "zstd.h", "libzstd-dev", "libzstd-devel"),
    Library(("lz4", "liblz4"), "lz4.h", "liblz4-dev", "lz4-devel"),
    Library(
        ("openssl", "openssl-sys", "libssl", "libcrypto", "ssl", "crypto"), "openssl/", "libssl-dev", "openssl-devel"
    ),
    Library(("libffi", "ffi"), "ffi.h", "libffi-dev", "libffi-devel"),
    Library(("libxml2", "libxml-2.0", "xml2"), "libxml/", "libxml2-dev", "libxml2-devel"),
    Library(("libxslt", "xslt", "exslt"), "libxslt/", "libxslt1-dev", "libxslt-devel"),
    Library(("yaml-0.1", "yaml"), "yaml.h", "libyaml-dev", "libyaml-devel"),
    Library(("expat",), "expat.h", "libexpat1-dev", "expat-devel"),
    Library(("jpeg", "libjpeg"), "jpeglib.h", "libjpeg-dev", "libjpeg-turbo-devel"),
    Library(("png", "libpng"), "png.h", "libpng-dev", "libpng-devel"),
    Library(("tiff", "libtiff-4"), "tiffio.h", "libtiff-dev", "libtiff-devel"),
    Library(("freetype", "freetype2"), "ft2build.h", "libfreetype-dev", "freetype-devel"),
    Library(("fftw3", "fftw3f", "fftw"), "fftw3.h", "libfftw3-dev", "fftw-devel"),
    Library(("hdf5",), "hdf5.h", "libhdf5-dev", "hdf5-devel"),
    Library(("openblas", "blas", "lapack", "cblas", "lapacke"), "cblas.h", "libopenblas-dev", "openblas-devel"),
    Library(("gsl",), "gsl/", "libgsl-dev", "gsl-devel"),
    Library(("gmp",), "gmp.h", "libgmp-dev", "gmp-devel"),
    Library(("mpfr",), "mpfr.h", "libmpfr-dev", "mpfr-devel"),
    Library(("mpc",), "mpc.h", "libmpc-dev", "libmpc-devel"),
    Library(("boost",), "boost/", "libboost-dev", "boost-devel"),
    Library(("eigen3", "eigen"), "Eigen/", "libeigen3-dev", "eigen3-devel"),
    Library(("sqlite3",), "sqlite3.h", "libsqlite3-dev", "sqlite-devel"),
    Library(("curl", "libcurl"), "curl/", "libcurl4-openssl-dev", "libcurl-devel"),
    Library(("postgresql", "libpq", "pq"), "libpq-fe.h", "libpq-dev", "libpq-devel"),
    Library(("mysqlclient", "libmariadb", "mariadb"), "mysql.h", "libmariadb-dev", "mariadb-connector-c-devel"),
    Library(("odbc",), "sqlext.h", "unixodbc-dev", "unixODBC-devel"),
    Library(("libzmq", "zmq", "zeromq"), "zmq.h", "libzmq3-dev", "zeromq-devel"),
    Library(("libsodium", "sodium"), "sodium.h", "libsodium-dev", "libsodium-devel"),
    Library(("snappy",), "snappy.h", "libsnappy-dev", "snappy-devel"),
    Library(("uuid",), "uuid/uuid.h", "uuid-dev", "libuuid-devel"),
    Library(("numa",), "numa.h", "libnuma-dev", "numactl-devel"),
    Library(("cairo",), "cairo.h", "libcairo2-dev", "cairo-devel"),
    Library(("dbus-1",), "dbus/", "libdbus-1-dev", "dbus-devel"),
    Library(("glib-2.0",), "glib.h", "libglib2.0-dev", "glib2-devel"),
    Library(("sndfile",), "sndfile.h", "libsndfile1-dev", "libsndfile-devel"),
    Library(("portaudio", "portaudio-2.0"), "portaudio.h", "portaudio19-dev", "portaudio-devel"),
    Library(("geos", "geos_c"), "geos_c.h", "libgeos-dev", "geos-devel"),
    Library(("proj",), "proj.h", "libproj-dev", "proj-devel"),
    Library(("gdal",), "gdal.h", "libgdal-dev", "gdal-devel"),
    Library(("webp", "libwebp"), "webp/", "libwebp-dev", "libwebp-devel"),
    Library(("lcms2",), "lcms2.h", "liblcms2-dev", "lcms2-devel"),
    Library(("openjp2", "libopenjp2"), "openjpeg.h", "libopenjp2-7-dev", "openjpeg2-devel"),
    Library(("ldap", "lber"), "ldap.h", "libldap-dev", "openldap-devel"),
    Library(("sasl2", "libsasl2"), "sasl/", "libsasl2-dev", "cyrus-sasl-devel"),
    Library(("krb5", "gssapi_krb5", "krb5-gssapi"), "gssapi/", "libkrb5-dev", "krb5-devel"),
    Library(("sdl2",), "SDL.h", "libsdl2-dev", "SDL2-devel"),
    Library(("alsa", "asound"), "alsa/", "libasound2-dev", "alsa-lib-devel"),
    Library(("cups",), "cups/", "libcups2-dev", "cups-devel"),
    Library(("libsystemd", "systemd"), "systemd/", "libsystemd-dev", "systemd-devel"),
    Library(("pcap", "libpcap"), "pcap.h", "libpcap-dev", "libpcap-devel"),
    Library(("re2",), "re2/", "libre2-dev", "re2-devel"),
    Library(("openmpi", "mpi"), "mpi.h", "libopenmpi-dev", "openmpi-devel"),
)
"""The names of Debian were looked up in its package lists (12, 2026-11-23); those of Red Hat are not verified."""

_BY_NAME: Mapping[str, Library] = {name: library for library in LIBRARIES for name in library.names}
_BY_HEADER: Mapping[str, Library] = {library.header: library for library in LIBRARIES}
TOOLS = {"apt": "pkg-config", "dnf": "pkgconf-pkg-config"}
"""Package manager → the package with pkg-config."""


def by_names(facts: Iterable[Fact]) -> dict[Library, Place]:
    """Return the libraries that a build requires by name, each with the first place."""
    found: dict[Library, Place] = {}
    for fact in facts:
        library = _BY_NAME.get(fact.text.lower())
        if library:
            found.setdefault(library, fact.place)
    return found


def by_headers(headers: Mapping[str, Place]) -> dict[Library, Place]:
    """Return the libraries whose header is included, each with the first place."""
    found: dict[Library, Place] = {}
    for header, place in headers.items():
        folder, slash, _ = header.partition("/")
        library = _BY_HEADER.get(header) or _BY_HEADER.get(folder + slash)
        if library:
            found.setdefault(library, place)
    return found
