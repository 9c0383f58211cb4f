"""``python -m unilab_metrics.demo``: one rank, under torchrun or the demo's launcher."""

from __future__ import annotations

import argparse
import sys

from unilab_metrics.demo.algorithms import ALGORITHMS, DEFAULT_ALGORITHM, options_of, train
from unilab_metrics.demo.overrides import OptionError

_EXAMPLES = """\
examples:
  python -m unilab_metrics.demo --iterations 300
  python -m unilab_metrics.demo --algorithm ppo algo.seed=7
  torchrun --nproc-per-node 2 -m unilab_metrics.demo --algorithm ppo
"""


def main() -> int:
    """Parses the command line and trains this process's rank."""
    parser = argparse.ArgumentParser(
        prog="python -m unilab_metrics.demo",
        description="One rank of the demo training; RANK and WORLD_SIZE say which.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--algorithm", choices=ALGORITHMS, default=DEFAULT_ALGORITHM)
    parser.add_argument("--iterations", type=int, metavar="K")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    arguments = parser.parse_args()
    try:
        options = options_of(
            arguments.algorithm, arguments.overrides, iterations=arguments.iterations
        )
    except OptionError as error:
        print(error, file=sys.stderr)  # noqa: T201 (the user typed it)
        return error.exit_code
    return train(options)


if __name__ == "__main__":
    sys.exit(main())
