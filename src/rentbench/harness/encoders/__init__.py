"""Sentence encoders for the embedding suites: published ones, and random ones of the same size.

`sources` finds or makes a model's folder, `encoder` loads it and turns texts into vectors.
"""
