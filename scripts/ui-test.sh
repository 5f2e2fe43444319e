#!/usr/bin/env bash
# make ui-test: the web UI in a real browser, against the real binary with scripted agents. It installs the Node packages of the lock
# file, and Debian's Chromium and nginx, where they are missing. Pictures of each page go to the folder in UI_PICTURES, if that is set.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null
tier=ui-test
. scripts/need.sh

began=$SECONDS
need_go
need_ui
need_chromium
need_nginx

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PERDURE_UI_BINARY="$work/perdure" PERDURE_UI_CHROMIUM="$chromium" PERDURE_UI_PICTURES="${UI_PICTURES:-$work/pictures}"
CGO_ENABLED=0 go build -o "$PERDURE_UI_BINARY" ./cmd/perdure
part "components" npm --prefix ui run --silent test
part "pages in Chromium" npm --prefix ui run --silent e2e -- "$@"
step "done in $((SECONDS - began)) s"
