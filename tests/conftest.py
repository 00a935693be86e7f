"""Fixtures that every test can ask for; what they do is told where they are."""

from hypothesis import settings

pytest_plugins = ["support.fake_nvml", "support.driver_image"]

# What a check says of a change must not hang on luck: the same examples every time. To look for new ones:
# `pytest --hypothesis-profile=search`.
settings.register_profile("same", derandomize=True)
settings.register_profile("search", max_examples=1000)
settings.load_profile("same")
