"""Parts of wfctl that the core does not need: see `wfctl_eventstore.extension`."""
