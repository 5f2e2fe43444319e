#!/usr/bin/env bash
# make temporal and make temporal-workflows: the tests of engine/temporal, which is a module of its own.
#
#   scripts/temporal.sh             builds the server and perdure-temporal, then runs every test, with the server
#   scripts/temporal.sh workflows   the workflows in virtual time and recorded histories, without a server
#   scripts/temporal.sh server      builds the server and prints its path
#   scripts/temporal.sh record      runs the tests with the server and records their histories again
#   scripts/temporal.sh tidy        writes go.mod and go.sum of the module again
#
# The server is Temporal's own, embedded in tools/temporal. Its first build takes 4 to 15 minutes on two cores; it is kept outside
# of the tree, in PERDURE_CACHE or the user's cache folder, until its sources or Go change.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null
tier=temporal
. scripts/need.sh

module=engine/temporal

# build_server sets server to the path of the server's binary, and builds it where it is missing.
build_server() {
	local folder version began=$SECONDS
	folder=${PERDURE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/perdure}
	version=$({ go version; cat tools/temporal/main.go tools/temporal/go.mod tools/temporal/go.sum; } | sha256sum | cut -c 1-16)
	server=$folder/temporal-$version
	if [[ -x $server ]]; then
		step "server: $server"
		return
	fi
	mkdir -p "$folder"
	step "server: building it, which takes 4 to 15 minutes the first time: $(grep -F 'go.temporal.io/server ' tools/temporal/go.mod | tr -s '\t' ' ')"
	if ! CGO_ENABLED=0 go build -C tools/temporal -trimpath -ldflags '-s -w' -o "$server.new" .; then
		rm -f "$server.new"
		fail "the server could not be built, so nothing was tested: check that GOPROXY ($(go env GOPROXY)) has the modules of tools/temporal/go.mod"
	fi
	mv "$server.new" "$server"
	step "server: built in $((SECONDS - began)) s, $(($(stat -c %s "$server" 2>/dev/null || stat -f %z "$server") / 1000000)) MB: $server"
}

# build_program builds perdure-temporal as it is released, and runs it once.
build_program() {
	local folder
	folder=$(mktemp -d)
	(cd $module && CGO_ENABLED=0 go build -o "$folder/perdure-temporal" ./cmd/perdure-temporal)
	"$folder/perdure-temporal" version
	rm -r "$folder"
}

# test_module runs the module's tests with the arguments given.
test_module() { (cd $module && go vet -tags live ./... && go test -count=1 "$@" ./...); }

tidy() {
	local folder
	folder=$(mktemp -d)
	trap "rm -r $folder" EXIT
	# go mod tidy does not read go.work, so it gets the replacement in a copy of go.mod.
	{ cat $module/go.mod; echo "replace github.com/perdure/perdure => $PWD"; } >"$folder/go.mod"
	cp $module/go.sum "$folder/go.sum"
	(cd $module && GOWORK=off go mod tidy -modfile="$folder/go.mod")
	(cd "$folder" && GOWORK=off go mod edit -dropreplace=github.com/perdure/perdure)
	cp "$folder/go.mod" "$folder/go.sum" $module/
}

need_go
case ${1:-all} in
workflows) test_module ;;
server)
	build_server
	echo "$server"
	;;
tidy) tidy ;;
all)
	build_server
	build_program
	PERDURE_TEMPORAL_SERVER=$server test_module -tags live -v -run '^Test(Live|Scripts)' -timeout=20m
	test_module
	;;
record)
	build_server
	PERDURE_TEMPORAL_SERVER=$server PERDURE_TEMPORAL_RECORD=1 test_module -tags live -run '^TestLive' -timeout=20m
	;;
*) fail "unknown part $1: use workflows, server, record or tidy, or none" ;;
esac
[[ $(go list -deps ./cmd/perdure | grep -c '^go\.temporal\.io/') == 0 ]] || fail "cmd/perdure depends on Temporal: only $module may"
step "done in $SECONDS s"
