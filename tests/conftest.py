"""Fixtures that every test can ask for; what they do is told where they are."""

pytest_plugins = ["support.fake_nvml", "support.driver_image"]
