#!/usr/bin/env bash
# make contact: Perdure with programs of other authors, beside the Go fixtures of their cases. It installs what it needs of Node
# from the lock file of internal/contact, a Node of its own too, and Debian's Chromium where it is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null
tier=contact
. scripts/need.sh

home=internal/contact/testdata/npm
began=$SECONDS
need_go
need_npm "$home"
need_chromium
need_ordinary

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PERDURE_CONTACT_BINARY="$work/perdure" PERDURE_CONTACT_NODE="$node" PERDURE_CONTACT_CHROMIUM="$chromium" PERDURE_CONTACT_TABLE="$work/table"
export CGO_ENABLED=0

# The programs of others come first, since their parts need longest to understand when they fail. Every part runs.
failed=0
try() {
	local name=$1 began=$SECONDS status=0
	shift
	step "$name"
	"$@" || status=$?
	step "$name: $((SECONDS - began)) s, $( ((status == 0)) && echo passed || echo FAILED)"
	((status == 0)) || failed=1
}
go build -o "$PERDURE_CONTACT_BINARY" ./cmd/perdure
try "programs of other authors" go test -tags contact -count=1 -parallel=2 -timeout=40m ./internal/contact
try "fixtures of models, MCP servers and commands" go test -count=1 ./tool ./tool/core ./tool/mcptool ./tool/shell ./model/... ./internal/tool... \
	./internal/model... ./internal/supervise ./internal/sandbox
try "fixtures of the whole program" go test -count=1 -run '^Test(MCP|MissingServer|UnusedServers|DoctorNames|ServeDoesNotWait|StartupTimeout|StrictVendors|ModelOptions)' ./internal/app
if [[ -s $PERDURE_CONTACT_TABLE ]]; then
	step "what each program needed:"
	cat "$PERDURE_CONTACT_TABLE"
fi
step "done in $((SECONDS - began)) s"
exit $failed
