#!/bin/sh
# Decide in CI whether a candidate may replace its base, and write a comment for the pull request.
#
#   sh gate.sh CANDIDATE [option of `peerage gate` ...]
#
# Exit code: 0 the change may pass, 1 it is blocked, 2 wrong usage or input, 3 undecided.
#
#   BASELINE   the committed baseline to compare with        (baseline.json)
#   BASE       a model in the same reviews, in place of the baseline
#   BAR        the bar as it was registered, to be committed  (bar.json)
#              (a run that does not find it writes it, and says so in the comment)
#   COMMENT    where the comment is written                  (comment.md)
#   UNDECIDED  pass, fail, or empty: then undecided ends with 3  (pass)
set -u

if [ "$#" -eq 0 ]; then
    echo "usage: sh gate.sh CANDIDATE [option of peerage gate ...]" >&2
    exit 2
fi
candidate=$1
shift
comment=${COMMENT:-comment.md}
undecided=${UNDECIDED-pass}
bar=${BAR:-bar.json}
is_new=
[ -e "$bar" ] || is_new=yes

set -- --candidate "$candidate" --guard --markdown --prereg "$bar" "$@"
if [ -n "${BASE:-}" ]; then
    set -- --base "$BASE" "$@"
else
    set -- --against "${BASELINE:-baseline.json}" "$@"
fi
if [ -n "$undecided" ]; then
    set -- --undecided "$undecided" "$@"
fi

code=0
peerage gate "$@" >"$comment" 2>"$comment.errors" || code=$?
cat "$comment.errors" >&2
if [ "$code" -ne 0 ] && [ ! -s "$comment" ]; then # no verdict: say why
    {
        echo "## The gate could not decide."
        echo
        sed 's/^/    /' "$comment.errors"
    } >"$comment"
fi
rm -f "$comment.errors"
if [ -n "$is_new" ] && [ -e "$bar" ]; then
    {
        echo
        echo "**$bar was not there** and was written by this run. Commit it: without it, every run"
        echo "registers a bar of its own, and a lowered bar is not noticed."
    } >>"$comment"
fi

if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then # the page of the run shows the verdict as well
    cat "$comment" >>"$GITHUB_STEP_SUMMARY"
fi
sed -n '1s/^## //p' "$comment"
exit "$code"
