#!/usr/bin/env bash
# Runs the simulations with large counts. It asks nothing and reads no standard input.
#
#   LANES_STEPS=n   random steps on lanes: start, detach, approve, cancel, kill … (1,000,000)
#   LANES_SEED=n    the first program's seed (the clock's; it is printed, and so is the line that replays a red program)
#   STORMS=n        random programs of each kind of storm, over engines that die on stores that fail (1,000)
#   SIM_FLAGS=…     more for go test, for instance -race, which takes ten times as long
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null

export LANES_STEPS=${LANES_STEPS:-1000000} LANES_SEED=${LANES_SEED:-$(date +%s)} STORMS=${STORMS:-1000}

step() { printf 'sim: %s\n' "$*"; }

step "lanes: $LANES_STEPS random steps, seeds from $LANES_SEED: one end for each task, one result for each call, each told once, no place lost"
# SIM_FLAGS is split into words.
# shellcheck disable=SC2086
go test ${SIM_FLAGS:-} -count=1 -timeout=6h -run '^TestLaneStorm$' -v ./engine/local
step "storms: $STORMS random programs of each kind, with kills and a store that fails"
# shellcheck disable=SC2086
go test ${SIM_FLAGS:-} -count=1 -timeout=6h -run '^TestStorm' ./engine/local
step "done"
