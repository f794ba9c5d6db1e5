"""`python -m peerage`."""

from peerage.doors.cli import main

main()
