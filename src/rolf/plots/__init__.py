"""Pictures: readable in print and by colour-blind people, drawn without global state."""
