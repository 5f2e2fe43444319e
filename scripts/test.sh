#!/usr/bin/env bash
# Brings what the tests need, then runs go vet and every test, all but some with the race detector.
#
#   scripts/test.sh [packages]    the packages are ./... when none are named
#
# It asks nothing and reads no standard input. The race detector needs a C compiler, the tutorial needs curl, the faults
# of the disk need strace, the page on nginx needs nginx, and the store on Postgres needs its server, so they are installed where
# they are missing and we are root on Debian; elsewhere the line to run is printed. The product itself is built and run without them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null

step() { printf 'test: %s\n' "$*"; }
fail() { printf 'test: %s\n' "$*" >&2; exit 1; }

# need_go finds Go where it is usually put, and wants 1.26 or newer.
need_go() {
	command -v go >/dev/null || PATH="$PATH:/usr/local/go/bin"
	command -v go >/dev/null || fail "Go is missing: install Go 1.26 or newer and run this again"
	local version toolchain
	# Asked outside the module, so that an older Go answers instead of refusing go.mod.
	version=$(cd / && GOTOOLCHAIN=local go env GOVERSION)
	toolchain=$(cd / && go env GOTOOLCHAIN)
	if [[ $version =~ go1\.([0-9]+) ]] && ((BASH_REMATCH[1] < 26)); then
		[[ $toolchain != local ]] || fail "$version is too old: install Go 1.26 or newer and run this again"
		step "Go: $version is older than 1.26, so it fetches the toolchain that go.mod names"
		return
	fi
	step "Go: $version"
}

# has_c reports whether the compiler that Go uses can build a program with the C library.
has_c() {
	local cc folder status=0
	cc=$(go env CC)
	folder=$(mktemp -d)
	# CC may carry flags, so it is split into words.
	# shellcheck disable=SC2086
	printf '#include <stdlib.h>\n#include <pthread.h>\nint main(void) { return 0; }\n' |
		$cc -x c -o "$folder/a" - >/dev/null 2>&1 || status=1
	rm -r "$folder"
	return "$status"
}

# bring installs packages, or ends with what is needed and the line to run.
bring() {
	local why=$1
	shift
	if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
		fail "$why: run  sudo apt-get install -y $*  (or your system's equivalent), then this again"
	fi
	step "installing $*"
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends "$@"
}

need_curl() {
	if ! command -v curl >/dev/null; then
		step "curl: missing"
		bring "the tutorial is tried with curl" curl
	fi
	step "curl: $(curl --version | head -n 1 | cut -d ' ' -f 2)"
}

need_strace() {
	if ! command -v strace >/dev/null; then
		step "strace: missing"
		[[ $(uname) == Linux ]] || return 0 # the faults of system calls are tried on Linux
		bring "faults of the disk are made with strace" strace
	fi
	step "strace: $(strace --version | head -n 1 | awk '{print $NF}')"
}

# The server that the package would start is not wanted: the test starts one of its own.
need_nginx() {
	local policy=/usr/sbin/policy-rc.d made= program
	[[ $(uname) == Linux ]] || return 0
	if ! program=$(PATH="$PATH:/usr/sbin" command -v nginx); then
		step "nginx: missing"
		if [[ $(id -u) == 0 && ! -e $policy ]] && command -v apt-get >/dev/null; then
			printf '#!/bin/sh\nexit 101\n' >"$policy"
			chmod +x "$policy"
			made=yes
		fi
		bring "the page on nginx is tried with it" nginx-light
		[[ -z $made ]] || rm "$policy"
		program=$(PATH="$PATH:/usr/sbin" command -v nginx) || fail "nginx-light is installed, and its program nginx is not in /usr/sbin"
	fi
	step "nginx: $("$program" -v 2>&1 | cut -d / -f 2)"
}

# postgres_program answers with the server's program, which Debian keeps out of PATH.
postgres_program() {
	local found=(/usr/lib/postgresql/*/bin/postgres)
	if [[ -x ${found[-1]} ]]; then
		printf '%s\n' "${found[-1]}"
	else
		command -v postgres
	fi
}

# The tests start servers of their own, as an unprivileged user: the cluster that the package would make and start is not wanted.
need_postgres() {
	local program
	if ! program=$(postgres_program); then
		step "PostgreSQL: missing"
		if [[ $(id -u) == 0 && ! -e /etc/postgresql-common/createcluster.conf ]] && command -v apt-get >/dev/null; then
			mkdir -p /etc/postgresql-common
			printf 'create_main_cluster = false\n' >/etc/postgresql-common/createcluster.conf
		fi
		bring "the store on Postgres is tried with its server" postgresql
		program=$(postgres_program) || fail "postgresql is installed, and its program postgres is not in /usr/lib/postgresql/*/bin"
	fi
	step "PostgreSQL: $("$program" --version | awk '{print $3}')"
}

need_c() {
	if has_c; then
		step "C compiler: $(go env CC)"
		return
	fi
	step "C compiler: missing"
	bring "the race detector needs a C compiler" gcc libc6-dev
	has_c || fail "gcc and libc6-dev are installed, and $(go env CC) still builds nothing: unset CC, then run this again"
}

step "brings what the tests need, then go vet and go test"
need_go
need_c
need_curl
need_strace
need_nginx
need_postgres
export CGO_ENABLED=1 # for the race detector only
export GORACE=atexit_sleep_ms=0 # else each process that it watches takes a second to end
packages=("${@:-./...}")
step "go vet ${packages[*]}"
go vet "${packages[@]}"
# These run without the detector, which would make them several times as slow and find nothing that it does not find elsewhere:
# the engine's suite over SQLite, Postgres and the wire (it runs with it over memory), twenty thousand steps on lanes, what
# dies at each of its commits in turn, what is about the disk and not about memory (power cuts, full disks, migrations that
# are killed), what plays the program or its commands as processes that are started, killed or followed from outside, and what
# reads megabytes of one stream. So do those that print figures.
readonly plain='^(TestS7Everywhere|TestR12(PausedWorker|ThreeWorkers)|TestRetention(ForEver|PerState)|TestR02KillPoints|TestStreamKilledEverywhere|Test(Subagent)?CrashPoints|TestEngineO(nSQLite|nPostgres|verHTTP)|TestLaneStorm|TestR18(EveryCommit|SabotageIsNoticed)|TestR(01|03|0[5-8]|12Rival|15(KeysSurvive|Duplicates|Webhook)|20Followers|26|27|33Adopts).*|TestChaos.*|TestPages|TestH15Bulk|TestReportOverProviders|TestScripts|TestMCPProxy.*|TestMCPExternalAgentKills|TestQuickRun|TestC[0-2][0-9].*|TestPauseSurvivesKills|TestBehindNginx|TestConfinedLocal|TestS1(1Escapes|2Bombs)|TestR20SlowClient|TestS6Bodies|TestEndlessAnswers|TestL(ong|arge)Events)$'
# The simulation plays a few of its seeds with the detector, and all of them without: it decides by itself who comes when.
readonly simulation='^TestR18(Simulation|SameSeedSameTrace)$'
readonly figures='^(TestR13EveryTransition|TestR13KillAtFire|TestR14ThousandSchedules|TestS22BudgetRace)$'
# So do whole packages: what runs hardly anything side by side, as commands, examples and measurements do, and what works on
# SQLite, of which the detector would watch all; what the store on it shares with the one on Postgres runs with it there.
readonly quiet='/(bench(/[a-z]+)?|docs|examples/[a-z]+|internal/(archtest|backup|cli(/[a-z]+)?|linear|manual|session(file|port|sql))|store/sql(ite|store)|tool/(tooltest|web))$'
calm=()
raced=("${packages[@]}")
if (($# == 0)); then
	mapfile -t calm < <(go list ./... | grep -E "$quiet")
	mapfile -t raced < <(go list ./... | grep -Ev "$quiet")
fi
step "go test -race -shuffle=on -skip $plain ${packages[*]}, but for ${calm[*]:-none}"
SEEDS=30 TWICE=2 go test -race -shuffle=on -timeout=20m -skip "$plain|TestR13KillAtFire|TestR14ThousandSchedules|TestS22BudgetRace" "${raced[@]}"
if (($# == 0)); then
	packages=(./cmd/perdure ./engine/local ./engine/remote ./internal/{api,sim,supervise} ./model/{anthropic,openai}) # that have them
	step "go test -shuffle=on ${calm[*]}"
	go test -shuffle=on -timeout=20m "${calm[@]}"
fi
step "go test -shuffle=on -run $plain|$simulation ${packages[*]}"
SEEDS=250 go test -shuffle=on -timeout=20m -run "$plain|$simulation" "${packages[@]}"
if (($# == 0)); then
	packages=(./internal/cron ./internal/meter ./engine/local)
fi
step "go test -v -run $figures ${packages[*]}"
go test -v -timeout=20m -run "$figures" "${packages[@]}" | awk '/^(ok|FAIL|panic:)|--- FAIL|_test[.]go:/ { sub(/^ *[a-z_0-9]+_test[.]go:[0-9]+: /, ""); print }'
step "done"
