"""Metadata of the distribution `keras-crf-layer`; the package it installs is `keras_crf`."""

from pathlib import Path

from setuptools import find_packages, setup

EXAMPLES = []  # the examples need nothing beyond the library
PLOT = ["matplotlib"]
SERVING = ["tensorflow-serving-api"]  # for the gRPC client; of the version of TensorFlow
TEST = ["pytest>=7", "pytest-xdist", "hypothesis", "seqeval", *PLOT]

readme = Path(__file__).with_name("README.md")

setup(
    name="keras-crf-layer",
    version="0.1.0",
    description="Linear-chain conditional random fields for TensorFlow and Keras 3",
    long_description=readme.read_text(encoding="utf-8") if readme.exists() else "",
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    keywords="crf conditional-random-field keras tensorflow sequence-labelling viterbi ner",
    packages=find_packages(include=["keras_crf", "keras_crf.*"]),
    package_data={"keras_crf": ["py.typed"]},
    python_requires=">=3.10",
    install_requires=["tensorflow>=2.16", "keras>=3.10", "numpy"],
    extras_require={
        "test": TEST,
        "examples": EXAMPLES,
        "plot": PLOT,
        "serving": SERVING,
        "dev": [*TEST, *EXAMPLES, "pytest-cov", "ruff>=0.12", "mypy>=1.11", "nox>=2024.3"],
    },
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "License :: OSI Approved :: Apache Software License",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
        "Typing :: Typed",
    ],
)
