"""Faults from outside: damaged files, killed processes, full disks, two processes at one place."""
