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

// shell is a keeper whose server is a shell script.
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
		k.ended <- mcptool.Keep(ctx, mcptool.Keeping{Socket: k.socket, Command: []string{"sh", "-c", script}})
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

// connect connects to the keeper, once it is there.
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

// wire is a connection to a keeper, by the line.
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
