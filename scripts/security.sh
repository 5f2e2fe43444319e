#!/usr/bin/env bash
# Runs the attacks on files, on secrets, on the way out, on the web UI and on the sandbox with the full numbers, and prints what was tried. It asks nothing and reads no
# standard input.
#
#   PERDURE_NAMES=n      hostile names, each given to every method of every place that keeps files (2,000)
#   PERDURE_RACES=n      attempts while files, links and directories are swapped under them (100,000)
#   PERDURE_CANARIES=n   secrets that must turn up nowhere (1,000)
#   R15_REQUESTS=n       requests that are sent again and again, over restarts (10,000)
#   SECURITY_FLAGS=…     more for go test, for instance -race
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null

export SCALE=full PERDURE_NAMES=${PERDURE_NAMES:-2000} PERDURE_RACES=${PERDURE_RACES:-100000} PERDURE_CANARIES=${PERDURE_CANARIES:-1000}
export R15_REQUESTS=${R15_REQUESTS:-10000}

# run PATTERN PACKAGE... runs the tests of a pattern, shows the lines that count, and ends where one is red or none is there.
run() {
	local pattern=$1 out rc=0
	shift
	# SECURITY_FLAGS is split into words.
	# shellcheck disable=SC2086
	out=$(go test -tags soak ${SECURITY_FLAGS:-} -count=1 -timeout=2h -run "$pattern" -v "$@" 2>&1) || rc=$?
	if ((rc != 0)); then
		printf '%s\n' "$out"
		exit "$rc"
	fi
	grep -q '^--- PASS' <<<"$out" || { printf 'security: no test is called %s in %s\n' "$pattern" "$*" >&2; exit 1; }
	sed -n 's/^.*\.go:[0-9]*: security: /security: /p; s/^--- \(PASS\|SKIP\)/security: \1/p' <<<"$out"
}

printf 'security: files: %s names, %s races\n' "$PERDURE_NAMES" "$PERDURE_RACES"
run '^(TestS04|TestDir|TestSeedsBesideAShell)' ./tool/file
run '^(TestFiles|TestFileQuotas)' ./internal/sessionfile
printf 'security: secrets: %s canaries\n' "$PERDURE_CANARIES"
run 'Canar' ./internal/sessionport ./engine/local
printf 'security: the way out\n'
run '^(TestS1|TestS2|TestDial)' ./internal/egress
run '^TestS3' ./internal/injection
printf 'security: the web UI\n'
run '^(TestS15|TestLink|TestTokens|TestCookies|TestOtherOrigins|TestPages)' ./internal/ui
run '^(TestS15Cookies|TestBehindNginx)' ./internal/app
printf 'security: the sandbox\n'
run '^(TestS11|TestS12)' ./internal/supervise
printf 'security: duplicates: %s requests\n' "$R15_REQUESTS"
run '^TestR15Duplicates' ./internal/app
printf 'security: done\n'
