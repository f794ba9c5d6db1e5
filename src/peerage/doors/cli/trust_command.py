"""`peerage trust`: allow what this folder's peerage.toml does beyond configuring."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from peerage import config
from peerage.config.trust import Permission, folder_of, grant, read_consents, revoke
from peerage.doors.cli.common_options import confirm_permission
from peerage.doors.cli.screen import write_json, write_line
from peerage.errors import UsageError


def trust(
    *,
    show: Annotated[
        bool, Parameter(name="--list", help="List what is allowed, in every folder.")
    ] = False,
    revoke_: Annotated[
        bool, Parameter(name="--revoke", help="End everything that is allowed in this folder.")
    ] = False,
    yes: Annotated[bool, Parameter(help="Allow everything listed, without asking.")] = False,
    json: Annotated[bool, Parameter(help="Print one JSON document on stdout.")] = False,
) -> None:
    """Allow what the peerage.toml in this folder does beyond configuring.

    That is running programs, using a store on another host, and calling a host that is neither
    this machine nor a vendor's own. Each such thing is shown before you are asked. The consent is
    for this folder and exactly this thing: the words of the command, the host with the variable of
    its key, the host of the store. Other changes of the file need no new consent.

    A file that you name with --config or PEERAGE_CONFIG needs no consent.
    """
    if show + revoke_ + yes > 1:
        raise UsageError("--list, --revoke and --yes exclude each other.")
    if show:
        by_folder = {folder: sorted(allowed) for folder, allowed in read_consents().items()}
        if json:
            folders = {folder: [*map(_document, ones)] for folder, ones in by_folder.items()}
            write_json({"folders": folders})
        elif not by_folder:
            write_line("nothing is allowed in any folder")
        for folder, allowed in {} if json else by_folder.items():
            write_line(folder)
            _write_list(allowed)
    elif revoke_:
        ended = sorted(revoke(folder_of(config.FILE)))
        _report("revoked", "no longer allowed in this folder", ended, json=json)
    else:
        _allow(yes=yes, json=json)


def _allow(*, yes: bool, json: bool) -> None:
    """List what this folder's file needs consent for, ask for each thing, and keep the answers."""
    file, needed = config.permissions()
    folder = folder_of(file)
    before = read_consents().get(folder, frozenset())
    missing = [one for one in needed if one not in before]
    if not missing:
        _report("allowed", "already allowed in this folder", needed, json=json)
        return
    if not json:
        write_line("this folder's peerage.toml wants to")
        _write_list(missing)
    refusal = UsageError("nothing was allowed.", hint="To allow it without a terminal: --yes.")
    allowed = [one for one in missing if yes or confirm_permission(one, refusal)]
    grant(folder, allowed)
    _report("allowed", "allowed in this folder", allowed, json=json)


def _report(key: str, heading: str, permissions: list[Permission], *, json: bool) -> None:
    if json:
        write_json({"folder": folder_of(config.FILE), key: [*map(_document, permissions)]})
    else:
        write_line(f"{heading}{':' if permissions else ': nothing'}")
        _write_list(permissions)


def _write_list(permissions: list[Permission]) -> None:
    for permission in permissions:
        write_line(f"  {permission}")


def _document(permission: Permission) -> dict[str, object]:
    return {
        "kind": permission.kind,
        "words": list(permission.words),
        "variables": list(permission.variables),
    }
