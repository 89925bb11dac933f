"""Tests of resources that grow with the attempts of a stage."""
