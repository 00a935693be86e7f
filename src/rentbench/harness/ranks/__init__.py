"""Work that takes several processes at once: a script started by torchrun, one process (rank) for each GPU.

`group.RankGroup` is the workload's side, `rank.Rank` what the script sees, `launcher` the torchrun between.
"""
