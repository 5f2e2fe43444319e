#!/usr/bin/env bash
# The second tier of tests: kill loops, power cuts, storms and large counts. These are the tests in files with the build tag
# soak, and no others.
#
#   scripts/soak.sh [packages]    every package that has such files when none are named
#   SCALE=ci|full                 counts for minutes (the default) or for hours
#   ONLY=REGEXP                   the tests whose names match, and no others
#   SOAK_FLAGS=…                  more for go test, for instance -race or -v
#
# A count of its own can be given to each test by the variable that its call of soak.Count names. It asks nothing and reads
# no standard input.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null
tier=soak
. scripts/need.sh

export SCALE=${SCALE:-ci}
[[ $SCALE == ci || $SCALE == full ]] || fail "SCALE=$SCALE: want ci or full"
limit=30m # it ends a package that hangs; a slow machine takes more than a quarter of an hour
[[ $SCALE == ci ]] || limit=24h

began=$SECONDS
need_go
need_strace
need_dpkg
need_nginx
need_postgres
mapfile -t files < <(grep -rlE --include='*_test.go' '^//go:build .*\bsoak\b' "${@:-.}" | sort)
((${#files[@]})) || fail "no file with the build tag soak in ${*:-.}"
mapfile -t names < <(sed -n 's/^func \(Test[A-Za-z0-9_]*\)(.*/\1/p' "${files[@]}" | grep -E -- "${ONLY:-.}" | sort)
((${#names[@]})) || fail "no test of the second tier matches ONLY=${ONLY:-}"
mapfile -t packages < <(for file in "${files[@]}"; do
	grep -qE "^func ($(IFS='|' && echo "${names[*]}"))\(" "$file" && printf './%s\n' "$(dirname "${file#./}")"
done | sort -u)
step "SCALE=$SCALE: ${#names[@]} tests in ${#packages[@]} packages"
# The attacks on the real binary are the slowest, so they come first. SOAK_FLAGS is split into words.
# shellcheck disable=SC2086
part "soak" env CGO_ENABLED=${CGO_ENABLED:-0} go test -tags soak -vet=all -count=1 -timeout="$limit" ${SOAK_FLAGS:-} \
	-run "^($(IFS='|' && echo "${names[*]}"))$" "${packages[@]}"
step "done in $((SECONDS - began)) s"
