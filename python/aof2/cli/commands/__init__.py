"""The commands, one a file; those of a group are in a folder of its name."""
