"""The main job of aof2 from end to end, for a person to watch: `python -m aof2_dev.demo`.

`writer` is the process that gets killed, `steps` what happens around it, `screen` how
it looks. Every step checks what it claims; the demo fails if one does not hold.
"""
