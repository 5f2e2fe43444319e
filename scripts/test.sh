#!/usr/bin/env bash
# The first tier of tests: brings what the tests need, then vets and tests every package.
#
#   scripts/test.sh [packages]    the packages are ./... when none are named
#
# It asks nothing and reads no standard input. Files with the build tag soak belong to the second tier, scripts/soak.sh.
# The race detector watches the packages in which goroutines share memory; it needs a C compiler. The pages of the
# documents are played with curl, the store on Postgres is tried on servers that the tests start, and the sandbox with
# Node, Python and git. The product itself is built and run without any of them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null
tier=test
. scripts/need.sh

began=$SECONDS
need_go
need_c
need_curl
need_ordinary
need_postgres
# Most tests wait for something else than a processor, so more of them run side by side than there are processors.
# The timeout ends a package that hangs; on a slow machine the slowest one takes more than fifteen minutes.
flags=(-shuffle=on -timeout=30m -parallel=4)
if (($#)); then
	part "go vet and go test" env CGO_ENABLED=0 go test -vet=all "${flags[@]}" "$@"
else
	# In these, goroutines share memory: they run with the race detector, and only so. The root has no goroutine, which
	# archtest keeps. A process that the detector watches waits for a second at its end unless it is told not to.
	raced=(./dispatch ./internal/effect/... ./store/memory ./internal/api ./internal/supervise)
	mapfile -t others < <(go list ./... | grep -vxF -f <(go list "${raced[@]}"))
	# The slowest packages come first, so that the others fill the time in which their tests wait.
	part "go vet and go test" env CGO_ENABLED=0 go test -vet=all "${flags[@]}" ./internal/app ./engine/local ./store/postgres ./engine/remote "${others[@]}"
	export CGO_ENABLED=1 GORACE=atexit_sleep_ms=0
	part "go vet and go test with the race detector" go test -race -vet=all "${flags[@]}" "${raced[@]}"
	part "the engine over memory with the race detector" go test -race -vet=off "${flags[@]}" -run '^(TestEngine|TestStorm|TestLane.*)$' ./engine/local
fi
step "done in $((SECONDS - began)) s"
