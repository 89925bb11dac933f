"""Shorten the pause of a real dpdisp between two tries from a minute to a moment.

Tests copy this file as ``sitecustomize.py`` into a folder of PYTHONPATH. Every Python process of
the test runs it at its start, and only dpdisp is affected.
"""

import sys
import time

if any(word.endswith("/dpdisp") for word in sys.orig_argv):
    plain = time.sleep
    time.sleep = lambda seconds: plain(min(float(seconds), 0.3))
