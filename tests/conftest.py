"""How the tests were started makes no difference to them.

A shell starts what it runs in the background with Ctrl-C ignored, and some launchers
block signals. Both are inherited by every program that is started from there, so tests
that send signals would wait for ever. Here, above all folders, because each folder may be
run alone.
"""

import signal

SENT_BY_TESTS = (signal.SIGINT, signal.SIGTERM)

signal.pthread_sigmask(signal.SIG_UNBLOCK, SENT_BY_TESTS)
# A handler, not the default action: a program that is started does not inherit handlers, so
# it gets the default one, from which Python makes KeyboardInterrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
