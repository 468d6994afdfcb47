"""Pictures, drawn from plain data: readable in print and by colour-blind people."""
