"""The one compiled file. It is optional: without a C compiler torch does the same, slower."""

import sys

from setuptools import Extension, setup

FAST = ["-O3", "-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math"]
FLAGS = ["/O2", "/fp:fast"] if sys.platform == "win32" else FAST

setup(
    ext_modules=[
        Extension(
            "hyperfsad.method._kernel",
            ["src/hyperfsad/method/_kernel.c"],
            extra_compile_args=FLAGS,
            optional=True,
        )
    ]
)
