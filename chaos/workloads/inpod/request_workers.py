"""Asks Ray's autoscaler for so many CPUs, as a driver does; a worker has one. The request stays until the next one.

Exit code 0 only when it was taken.
"""

import argparse
import os
import threading

import ray
from ray.autoscaler.sdk import request_resources


def main() -> None:
    """Parses the arguments and asks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cpus", type=int)
    parser.add_argument("--seconds", type=float, default=30)
    args = parser.parse_args()

    # The cluster may not answer at all, and nobody cleans up after a script that waits for it.
    deadline = threading.Timer(args.seconds, os._exit, [1])
    deadline.daemon = True
    deadline.start()

    ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
    request_resources(num_cpus=args.cpus)


if __name__ == "__main__":
    main()
