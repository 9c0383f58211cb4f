"""``python -m unilab_metrics.demo``: one rank, under torchrun or the demo's launcher."""

from __future__ import annotations

import argparse
import sys

from unilab_metrics.demo.options import OptionError, parse_options


def main() -> int:
    """Parses the command line and trains this process's rank."""
    parser = argparse.ArgumentParser(
        prog="python -m unilab_metrics.demo",
        description="One rank of the demo training; RANK and WORLD_SIZE say which.",
    )
    parser.add_argument("--iterations", type=int, metavar="K")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    arguments = parser.parse_args()
    try:
        options = parse_options(arguments.overrides, iterations=arguments.iterations)
    except OptionError as error:
        print(error, file=sys.stderr)  # noqa: T201 (the user typed it)
        return error.exit_code

    from unilab_metrics.demo.train import train_rank  # torch, which a usage error can do without

    return train_rank(options)


if __name__ == "__main__":
    sys.exit(main())
