"""Lets a real dpdisp wait a moment where it waits a minute between two tries.

Copied under the name ``sitecustomize.py`` into a folder of PYTHONPATH; every Python of the round
runs it as it starts, and all but dpdisp leave at once.
"""

import sys
import time

if any(word.endswith("/dpdisp") for word in sys.orig_argv):
    plain = time.sleep
    time.sleep = lambda seconds: plain(min(float(seconds), 0.3))
