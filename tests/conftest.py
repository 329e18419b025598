"""What all tests share."""

import hypothesis

pytest_plugins = ["pytester"]

# How long one example takes depends on what else the machine does; that is no property of the code under test.
hypothesis.settings.register_profile("unhurried", deadline=None)
hypothesis.settings.load_profile("unhurried")
