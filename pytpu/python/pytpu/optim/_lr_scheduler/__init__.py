"""The schedules of `lr_scheduler`, which publishes them."""
