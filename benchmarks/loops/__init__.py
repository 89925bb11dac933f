"""Compare how much work wfctl and other programs lose or repeat when a loop is killed."""
