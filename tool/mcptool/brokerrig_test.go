package mcptool_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/mcptool"
)

// speaks makes an MCP server of a script that answers a call: its id is $id, and "say" says a line.
func speaks(onCall string) string {
	return `say() { printf '%s\n' "$1"; }
while read -r line; do
	id=$(say "$line" | sed -n 's/^{"jsonrpc":"2.0","id":"\([^"]*\)".*/\1/p')
	case $line in
	*'"method":"initialize"'*) say '{"jsonrpc":"2.0","id":"'$id'","result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"shell","version":"1"}}}' ;;
	*'"method":"tools/list"'*) say '{"jsonrpc":"2.0","id":"'$id'","result":{"tools":[{"name":"does","inputSchema":{"type":"object"}}]}}' ;;
	*'"method":"tools/call"'*) ` + onCall + ` ;;
	*) [ -z "$id" ] || say '{"jsonrpc":"2.0","id":"'$id'","error":{"code":-32601,"message":"not here"}}' ;;
	esac
done`
}

// saysDone answers a call.
const saysDone = `say '{"jsonrpc":"2.0","id":"'$id'","result":{"content":[{"type":"text","text":"done"}]}}'`

// does is the tool of such a server.
func (k *shell) does(t *testing.T, class perdure.EffectClass) *mcptool.Remote {
	t.Helper()
	c, err := mcptool.Open(t.Context(), mcptool.Config{
		Classes: map[string]perdure.EffectClass{"does": class},
		Dial:    func(ctx context.Context) (io.ReadWriteCloser, error) { return k.connect(ctx) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(false) })
	all, err := mcptool.Tools(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

// run makes a call of a key.
func run(t *testing.T, r *mcptool.Remote, key string) tool.Result {
	ctx, end := context.WithTimeout(t.Context(), patience)
	defer end()
	call := tool.Call{Tool: "does", Args: json.RawMessage(`{}`), Key: key, Execution: 1}
	return r.Run(ctx, call, tool.Env{Call: call})
}

// shell is a broker whose server is a shell script.
type shell struct {
	socket string
	ended  chan error // of one Keep; closed after what it returned
}

// keepShell keeps a script until the test ends.
func keepShell(t *testing.T, script string) *shell {
	t.Helper()
	dir, err := os.MkdirTemp("", "keep") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	k := &shell{socket: filepath.Join(dir, "s"), ended: make(chan error, 1)}
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() {
		k.ended <- mcptool.RunBroker(ctx, mcptool.BrokerConfig{Socket: k.socket, Command: []string{"sh", "-c", script}})
		close(k.ended)
	}()
	t.Cleanup(func() {
		end()
		if err := <-k.ended; err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(dir)
	})
	return k
}

// connect connects to the broker once it is listening.
func (k *shell) connect(ctx context.Context) (net.Conn, error) {
	for {
		conn, err := net.Dial("unix", k.socket)
		if err == nil {
			return conn, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// wire is a line-based connection to a broker.
type wire struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

// dial connects, and ends what waits too long.
func (k *shell) dial(t *testing.T) *wire {
	t.Helper()
	ctx, end := context.WithTimeout(t.Context(), patience)
	defer end()
	conn, err := k.connect(ctx)
	if err == nil {
		err = conn.SetDeadline(time.Now().Add(patience))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &wire{conn, t, bufio.NewReader(conn)}
}

// say writes a line.
func (w *wire) say(text string) {
	w.t.Helper()
	if _, err := w.Write([]byte(text + "\n")); err != nil {
		w.t.Fatal(err)
	}
}

// hear reads until a line has these words, and returns what it read.
func (w *wire) hear(words string) (all []string) {
	w.t.Helper()
	for {
		text, err := w.in.ReadString('\n')
		if err != nil {
			w.t.Fatalf("%v, after %q", err, all)
		}
		if all = append(all, text); strings.Contains(text, words) {
			return all
		}
	}
}
