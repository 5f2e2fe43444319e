package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// oldServer is a server on stdio that logs its requests, and does not know newer protocol versions.
const oldServer = `while read -r line; do
	id=$(printf '%s' "$line" | sed -n 's/^{"jsonrpc":"2.0","id":"\([^"]*\)".*/\1/p')
	method=$(printf '%s' "$line" | sed -n 's/.*"method":"\([^"]*\)".*/\1/p')
	echo "$method" >>"$0"
	case $method in
	initialize) says='"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}' ;;
	tools/list) says='"result":{"tools":[{"name":"does","inputSchema":{"type":"object"}}]}' ;;
	*) says='"error":{"code":-32601,"message":"not here"}' ;;
	esac
	[ -z "$id" ] || printf '%s\n' '{"jsonrpc":"2.0","id":"'"$id"'",'"$says"'}'
done`

// TestMCPProxyEra: a proxy probes the protocol version of its server once, since a server that
// ignores unknown requests makes the probe slow. Another server of the same name is probed again.
func TestMCPProxyEra(t *testing.T) {
	t.Parallel()
	data, world := shortDir(t), t.TempDir()
	asked := func(noted string) []string {
		note := filepath.Join(world, noted)
		p := startMCP(t, "mcp", "proxy", "--data", data, "--name", "old", "--", "sh", "-c", oldServer, note)
		p.ask("tools/list", "")
		p.leave()
		awaitGone(t, note)
		methods, err := os.ReadFile(note)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(methods))
	}

	first, second, other := asked("one"), asked("one"), asked("two")

	if second = second[len(first):]; first[0] != "server/discover" || second[0] != "initialize" {
		t.Errorf("it was asked %v, then %v", first, second)
	}
	if other[0] != "server/discover" {
		t.Errorf("the other one was asked %v", other)
	}
}
