"""Packages the libraries in src/jaxmg/bin; where there are none, CMake makes them first."""

import subprocess
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py


class Build(build_py):
    """Sees to the libraries before files are gathered."""

    def run(self):
        if not any(Path("src/jaxmg/bin").glob("*.so")):
            subprocess.run(["cmake", "-S", ".", "-B", "build/native"], check=True)
            subprocess.run(["cmake", "--build", "build/native", "--target", "install"], check=True)
        super().run()


class Binary(Distribution):
    """Has libraries, though no extension modules: its wheels are for one platform."""

    def has_ext_modules(self):
        return True


setup(cmdclass={"build_py": Build}, distclass=Binary)
