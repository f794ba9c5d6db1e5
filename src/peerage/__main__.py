"""Start the command line, for `peerage` and `python -m peerage`.

An interrupt while it loads ends it without a traceback.
"""

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
