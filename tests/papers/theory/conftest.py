from hypothesis import settings

settings.register_profile("theory", max_examples=40, deadline=None, derandomize=True, database=None)
settings.load_profile("theory")
