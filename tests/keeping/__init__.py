"""Tests that the files of a job are kept, and that later changes to them are noticed."""
