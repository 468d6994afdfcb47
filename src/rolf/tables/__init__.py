"""Tables from files and frames: cells, columns and kinds; nothing here knows arms or logs."""
