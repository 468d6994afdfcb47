"""The forms of requests and answers."""
