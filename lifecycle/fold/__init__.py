"""The fold: functions that apply events to the state of a workflow."""
