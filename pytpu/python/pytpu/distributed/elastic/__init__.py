"""`torch.distributed.elastic`: start the processes of a job, watch them, and start them again after a failure.

`torch.distributed.run` is the command line. One *agent* runs on each machine (*node*). The agents meet in a
*rendezvous*, give each *worker* its rank, and restart all workers if one fails or if a node joins.
"""
