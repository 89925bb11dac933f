"""Tests of wfctl's plugin for agent programs (clients): hooks, skills and installation."""
