#!/usr/bin/env bash
# Runs the simulations with large counts. It asks nothing and reads no standard input.
#
#   LANES_STEPS=n   random steps on lanes: start, detach, approve, cancel, kill … (1,000,000)
#   LANES_SEED=n    the first program's seed (the clock's; it is printed, and so is the line that replays a red program)
#   STORMS=n        random programs of each kind of storm, over engines that die on stores that fail (1,000)
#   KILLPOINTS=all  every point of the matrix of kills, and every commit of a simulation; another word: a sample (all)
#   LINEAR_HISTORIES=n, LINEAR_OPERATIONS=n    histories of each model, and operations in each (1,000 and 5,000)
#   LEASES=n        rounds of workers that are paused beyond their leases and come back (10,000), from LEASE_SEED on (1)
#   SEEDS=n         random programs of the deterministic simulation (10,000), from FIRST_SEED=n on (1)
#   SIM_FLAGS=…     more for go test, for instance -race, which takes ten times as long
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null

export LANES_STEPS=${LANES_STEPS:-1000000} LANES_SEED=${LANES_SEED:-$(date +%s)} STORMS=${STORMS:-1000}
export LEASES=${LEASES:-10000}
export KILLPOINTS=${KILLPOINTS:-all} LINEAR_HISTORIES=${LINEAR_HISTORIES:-1000} LINEAR_OPERATIONS=${LINEAR_OPERATIONS:-5000}

step() { printf 'sim: %s\n' "$*"; }

step "lanes: $LANES_STEPS random steps, seeds from $LANES_SEED: one end for each task, one result for each call, each told once, no place lost"
# SIM_FLAGS is split into words.
# shellcheck disable=SC2086
go test ${SIM_FLAGS:-} -count=1 -timeout=6h -run '^TestLaneStorm$' -v ./engine/local
step "storms: $STORMS random programs of each kind, with kills and a store that fails"
# shellcheck disable=SC2086
go test ${SIM_FLAGS:-} -count=1 -timeout=6h -run '^TestStorm' ./engine/local
step "kill points: $KILLPOINTS, of every call of every method of the store that a turn uses, seven ways, for each effect class"
# shellcheck disable=SC2086
go test ${SIM_FLAGS:-} -count=1 -timeout=6h -run '^TestR02KillPoints$' -v ./engine/local
step "subagents: $KILLPOINTS, of every transaction of a story with two of them"
# shellcheck disable=SC2086
go test ${SIM_FLAGS:-} -count=1 -timeout=6h -run '^TestSubagent(CrashPoints|Faults)$' ./engine/local
step "linearizability: $LINEAR_HISTORIES histories of $LINEAR_OPERATIONS operations for each model"
# shellcheck disable=SC2086
go test ${SIM_FLAGS:-} -count=1 -timeout=6h -run '^TestR17' -v ./internal/linear
step "leases: $LEASES rounds of paused workers: no stale write"
# shellcheck disable=SC2086
go test ${SIM_FLAGS:-} -count=1 -timeout=6h -run '^TestR12' -v ./engine/local
step "simulation: ${SEEDS:-10000} seeds from ${FIRST_SEED:-1}: the whole runtime in virtual time, with faults and deaths at commits"
# shellcheck disable=SC2086
SEEDS=${SEEDS:-10000} go test ${SIM_FLAGS:-} -count=1 -timeout=6h -run '^TestR18' -v ./internal/sim
step "done"
