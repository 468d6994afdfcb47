"""Checks that hold for every policy, and for every storage, to be run on one's own.

    import rolf.testing

    def test_my_policy():
        rolf.testing.check_policy(MyPolicy)

``rolf.testing.storage.StorageContract`` is the same for a storage backend, as a class of tests
to inherit from (it needs pytest and hypothesis).
"""

from rolf.testing.policies import CHECKS, check_policy

__all__ = ["CHECKS", "check_policy"]
