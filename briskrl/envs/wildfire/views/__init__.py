"""What episodes show: planes, masks and short rows."""
