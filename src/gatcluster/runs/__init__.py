"""The run folder: what a fit leaves behind, and how it is read again."""
