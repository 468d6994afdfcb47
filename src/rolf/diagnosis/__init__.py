"""Do the features explain the rewards? ``rolf.diagnose`` answers."""
