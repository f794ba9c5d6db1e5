"""`peerage`, and `python -m peerage`: the command line, silent if interrupted while it loads."""

import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line."""
    try:
        from peerage.doors.cli import main as run
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    run()


if __name__ == "__main__":
    main()
