"""What macOS, Windows and their Pythons bring: libraries that a wheel may need without carrying them."""

from __future__ import annotations

import re

_MACOS = ("/usr/lib/", "/System/Library/")
"""Folders of libraries that every macOS has; they lie in the system's shared cache."""

_API_SETS = ("api-ms-win-", "ext-ms-")
_DLLS = """
    advapi32 avicap32 avifil32 avrt bcrypt bcryptprimitives cabinet cfgmgr32 combase comctl32 comdlg32 credui
    crypt32 cryptbase cryptnet cryptui d2d1 d3d10 d3d10_1 d3d11 d3d12 d3d9 d3dcompiler_47 dbgeng dbghelp dcomp
    ddraw dinput8 directml dnsapi dsound dwmapi dwrite dxcore dxgi dxva2 esent evr fltlib fwpuclnt gdi32
    gdi32full gdiplus glu32 hid httpapi icu icuin icuuc imagehlp imm32 iphlpapi kernel32 kernelbase ksuser
    ktmw32 mf mfplat mfreadwrite mpr mprapi mscms mscoree msimg32 msvcrt mswsock ncrypt ndfapi netapi32 netutils
    normaliz ntdll ntdsapi odbc32 odbccp32 ole32 oleacc oleaut32 oledlg opengl32 pathcch pdh powrprof propsys
    psapi quartz rasapi32 resutils rpcrt4 rstrtmgr sas samcli schannel secur32 sechost sensapi setupapi shcore
    shell32 shfolder shlwapi slc snmpapi srvcli sspicli synchronization tbs tdh traffic ucrtbase urlmon user32
    userenv usp10 uxtheme version virtdisk webauthn websocket wer wevtapi wininet winhttp winmm winscard
    winspool.drv wintrust winusb wlanapi wldap32 wmiutils wofutil ws2_32 wsock32 wtsapi32 xinput1_4 xinput9_1_0
    xmllite xpsprint
"""
_WINDOWS = frozenset(_DLLS.split())
"""DLLs of Windows 10 and 11 that programs are linked with, without their suffix (Microsoft's API documentation)."""

_WITH_PYTHON = re.compile(r"vcruntime140(?:_1)?\.dll", re.IGNORECASE)
"""What the installers of python.org put beside python.exe: C's runtime, but not C++'s (msvcp140)."""

PYTHON_DLL = re.compile(r"python(3[0-9]*)(t?)(_d)?\.dll", re.IGNORECASE)
"""Python's own library on Windows: ``python3.dll`` has the stable ABI, ``python311.dll`` all of one release."""

DEBUG_DLL = re.compile(
    r"(?:(?:vcruntime|msvcp|concrt|vccorlib|vcomp)[0-9]+(?:_[a-z0-9]+)*d|ucrtbased)\.dll", re.IGNORECASE
)
"""Microsoft's runtimes for debugging, which only Visual Studio installs and whose licence forbids to pass on."""

REDISTRIBUTABLE = re.compile(r"(?:msvcp|concrt|vccorlib|vcomp|vcamp|mfc)[0-9]+(?:_[a-z0-9_]+)?\.dll", re.IGNORECASE)
"""Microsoft's runtimes that come with the "Visual C++ Redistributable", which a machine may lack."""

MACOS_PYTHON = re.compile(r"(?:^|/)(?:Python3?\.framework/.*|libpython3[.0-9]*t?\.dylib)$")
"""Python's own library on macOS, in a framework or not."""


def is_system_library(name: str) -> bool:
    """Whether an install name of macOS or a DLL's name is one that the system or its Python always brings."""
    lower = name.lower()
    if name.startswith("/"):
        return name.startswith(_MACOS) and not MACOS_PYTHON.search(name)
    if lower.startswith(_API_SETS) or _WITH_PYTHON.fullmatch(lower):
        return True
    return lower.endswith((".dll", ".drv")) and lower.removesuffix(".dll") in _WINDOWS
