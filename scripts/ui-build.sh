#!/usr/bin/env bash
# make ui: builds the web UI of the folder ui into internal/ui/dist, which is committed and embedded. It installs the Node packages
# of the lock file where they are missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tier=ui
. scripts/need.sh

need_ui
step "building into internal/ui/dist"
(cd ui && npm run --silent build)
