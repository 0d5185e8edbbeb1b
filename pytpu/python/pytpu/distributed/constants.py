"""Times that the modules of `torch.distributed` share."""

import datetime

__all__ = ["default_pg_timeout"]

default_pg_timeout = datetime.timedelta(minutes=30)
