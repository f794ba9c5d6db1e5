#!/bin/sh
# Decide in CI whether a candidate may replace its base, and write a comment for the pull request.
#
#   sh gate.sh CANDIDATE [option of `peerage gate` ...]
#
# Exit code: 0 the change may pass, 1 it is blocked, 2 wrong usage or input, 3 undecided.
#
#   BASELINE   the committed baseline to compare with        (baseline.json)
#   BASE       a model in the same reviews, in place of the baseline
#   BAR        the bar that was registered and committed      (bar.json)
#   BASE_REF   the git revision that both files are read from, so that a change cannot bring
#              its own (the base branch of a pull or merge request on GitHub and GitLab;
#              elsewhere the files in the folder are read)
#   REVIEWS    a file of judgements to read instead of the store
#   COMMENT    where the comment is written                   (comment.md)
#   UNDECIDED  fail, pass, or empty: then undecided ends with 3 (fail)
#
# To register the bar once: peerage gate --base OLD --candidate NEW --prereg bar.json
set -u

if [ "$#" -eq 0 ]; then
    echo "usage: sh gate.sh CANDIDATE [option of peerage gate ...]" >&2
    exit 2
fi
candidate=$1
shift
comment=${COMMENT:-comment.md}
undecided=${UNDECIDED-fail}
bar=${BAR:-bar.json}
baseline=${BASELINE:-baseline.json}
ref=${BASE_REF:-${GITHUB_BASE_REF:+origin/$GITHUB_BASE_REF}}
ref=${ref:-${CI_MERGE_REQUEST_DIFF_BASE_SHA:-}}
kept=$(mktemp -d) || exit 2
trap 'rm -rf "$kept"' EXIT

# registered FILE COPY: copy a committed file, from the base branch if there is one.
registered() {
    if [ -z "$ref" ]; then
        cat -- "$1" >"$kept/$2"
    else
        git show "$ref:./$1" >"$kept/$2"
    fi 2>>"$kept/errors" && return
    echo "$1 is missing${ref:+ at $ref}: register it, and commit it to the base branch." \
        >>"$kept/errors"
    return 1
}

code=0
registered "$bar" bar.json || code=2
set -- --candidate="$candidate" --markdown --prereg="$kept/bar.json" "$@"
if [ -n "${BASE:-}" ]; then
    set -- --base="$BASE" "$@"
else
    registered "$baseline" baseline.json || code=2
    set -- --against="$kept/baseline.json" "$@"
fi
if [ -n "$undecided" ]; then
    set -- --undecided="$undecided" "$@"
fi
if [ -n "${REVIEWS:-}" ]; then
    set -- "$@" -- "$REVIEWS"
fi

: >"$comment"
if [ "$code" -eq 0 ]; then
    peerage gate "$@" >"$comment" 2>"$kept/errors" || code=$?
fi
cat "$kept/errors" >&2
first=$(head -n 1 "$comment")
case $first in
'## '*) ;;
*) # no verdict, whatever the exit code: say why
    [ "$code" -ne 0 ] || code=2
    {
        echo "## The gate could not decide."
        echo
        sed 's/^/    /' "$kept/errors"
    } >"$comment"
    ;;
esac

if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then # the page of the run shows the verdict as well
    cat "$comment" >>"$GITHUB_STEP_SUMMARY"
fi
sed -n '1s/^## //p' "$comment"
exit "$code"
