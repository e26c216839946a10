"""The one compiled file: a plain shared library, called by pointer, that serves every Python.

It is optional: without a C compiler numpy does the same, slower, and the wheel is a pure one.
"""

import os
import sys

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

NAME = "hyperfsad.method._kernel"
SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
FAST = ["-O3", "-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math"]
FLAGS = ["/O2", "/fp:fast"] if sys.platform == "win32" else [*FAST, "-fvisibility=hidden"]


class BuildLibrary(build_ext):
    """Builds a library that has nothing of Python in it, not even in its name."""

    def get_ext_filename(self, fullname: str) -> str:
        return os.path.join(*fullname.split(".")) + SUFFIX

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return []

    def get_libraries(self, ext: Extension) -> list[str]:
        return []


class BuildWheel(bdist_wheel):
    """Of any Python 3; of any platform where the library could not be compiled."""

    def get_tag(self) -> tuple[str, str, str]:
        library = self.get_finalized_command("build_ext").get_ext_fullpath(NAME)
        self.root_is_pure = not os.path.exists(library)
        return "py3", "none", super().get_tag()[2]


setup(
    ext_modules=[
        Extension(NAME, ["src/hyperfsad/method/_kernel.c"], extra_compile_args=FLAGS, optional=True)
    ],
    cmdclass={"build_ext": BuildLibrary, "bdist_wheel": BuildWheel},
)
