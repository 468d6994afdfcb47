"""Checks that hold for every policy and every storage, for use in your own tests.

    import rolf.testing

    def test_my_policy():
        rolf.testing.check_policy(MyPolicy)

``rolf.testing.storage.StorageContract`` is the same for a storage backend, as a class of tests
to inherit from (it needs pytest and hypothesis).
"""

from rolf.testing.policies import CHECKS, check_policy

__all__ = ["CHECKS", "check_policy"]
