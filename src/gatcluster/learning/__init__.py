"""How the network learns: targets, losses, Algorithm 1, recipes. Nothing here reads a file or prints."""
