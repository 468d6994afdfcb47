"""HTTP itself: connections, middleware, errors, logs and metrics."""
