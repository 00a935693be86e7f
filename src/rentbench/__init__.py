"""rentbench: containerised GPU benchmarks, and a static site made from their results.

The package's version is read from its metadata where it is shown (`rentbench.cli`), not kept here: this file
is copied into images, and a release of the tool must not change an image.
"""
