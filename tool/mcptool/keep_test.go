package mcptool_test

import (
	"bufio"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/tool/mcptool"
)

// talker reads one byte of what it is asked, says more than a pipe holds, and only then reads the rest.
const talker = `head -c 1 >/dev/null
i=0
while [ $i -lt 3000 ]; do
	echo '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"there is more to say than a pipe holds"}}'
	i=$((i + 1))
done
head -c 1000000 >/dev/null
echo '{"jsonrpc":"2.0","id":"1","result":{}}'
exec cat >/dev/null`

// TestKeeperOfATalker: a server that does not read while it speaks is heard, however much it is asked meanwhile.
func TestKeeperOfATalker(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "keep") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- mcptool.Keep(ctx, mcptool.Keeping{Socket: socket, Command: []string{"sh", "-c", talker}})
	}()
	var conn net.Conn
	for conn == nil {
		if conn, err = net.Dial("unix", socket); err != nil {
			select {
			case err := <-ended:
				t.Fatal(err)
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	go func() {
		asked := `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"text":"` + strings.Repeat("x", 1<<20) + "\"}}\n"
		_, _ = conn.Write([]byte(asked)) // what fails here is no answer below
	}()

	said := 0
	in := bufio.NewReader(conn)
	for text := ""; !strings.Contains(text, `"result"`); said++ {
		if text, err = in.ReadString('\n'); err != nil {
			t.Fatalf("after %d lines: %v", said, err)
		}
	}

	if said != 3002 { // and the keeper's own first
		t.Errorf("got %d lines, want 3002", said)
	}
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
