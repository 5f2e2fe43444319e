#!/usr/bin/env bash
# Compares the Go API and the HTTP API with those of the last release (docs/reference/compatibility.md). An incompatible
# change passes if a fragment in changelog/unreleased announces it: its first line begins with "Change:".
#
#   scripts/compat.sh [TAG]    the last tag before this commit when none is named
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null
tier=lint
. scripts/need.sh

tag=${1:-$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null || true)}
if [[ -z $tag ]]; then
	step "compatibility: there is no release yet, so there is nothing to compare with"
	exit 0
fi
step "compatibility with $tag"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/old"
git archive "$tag" | tar -x -C "$work/old"

# Each tree is read with its own requirements, so the programs are built first and run in both.
go build -modfile=tools/release/go.mod -o "$work/" golang.org/x/exp/cmd/apidiff github.com/oasdiff/oasdiff
module=$(go list -m)
(cd "$work/old" && "$work/apidiff" -m -w "$work/old.api" "$module")
"$work/apidiff" -m -w "$work/new.api" "$module"
"$work/apidiff" -m -incompatible "$work/old.api" "$work/new.api" >"$work/go.txt"
found=0
"$work/oasdiff" breaking --fail-on ERR --format text "$work/old/docs/reference/openapi.json" docs/reference/openapi.json \
	>"$work/http.txt" || found=$?
((found <= 1)) || fail "the OpenAPI documents cannot be compared: $(cat "$work/http.txt")"

if [[ ! -s $work/go.txt ]] && ((found == 0)); then
	step "compatibility: nothing incompatible"
	exit 0
fi
cat "$work/go.txt" "$work/http.txt"
if grep -lq '^Change:' changelog/unreleased/*.md 2>/dev/null; then
	step "compatibility: the changes above are announced in changelog/unreleased"
	exit 0
fi
fail "incompatible with $tag: keep the old form beside the new one, or announce the change in changelog/unreleased/NAME.md with a first line that begins with Change:"
