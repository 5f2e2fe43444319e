//go:build linux

package app

import (
	"bufio"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestServiceManager: a server tells the manager that has started it when it is ready and when it
// stops, and works without one that listens.
func TestServiceManager(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(shortDir(t), "notify")
	listener, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := listener.SetReadDeadline(time.Now().Add(waitTime)); err != nil {
		t.Fatal(err)
	}
	state := func() string {
		t.Helper()
		text := make([]byte, 1<<10)
		n, err := listener.Read(text)
		if err != nil {
			t.Fatal(err)
		}
		return string(text[:n])
	}
	p := newPlace(t, nil)
	p.env = []string{"NOTIFY_SOCKET=" + socket}
	server := p.command("serve", "--addr", "127.0.0.1:0")
	var talk strings.Builder
	server.Stderr = &talk
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}

	if got := state(); got != managerReady {
		t.Errorf("got %q, want %q", got, managerReady)
	}
	if out := p.output("doctor", "--health"); out != "ok\n" { // what is ready answers
		t.Errorf("got %q", out)
	}
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := state(); got != managerStopping {
		t.Errorf("got %q, want %q", got, managerStopping)
	}
	if err := server.Wait(); err != nil {
		t.Errorf("%v\n%s", err, talk.String())
	}

	p.env = []string{"NOTIFY_SOCKET=" + socket + ".gone"}
	server = p.command("serve", "--addr", "127.0.0.1:0")
	talk.Reset()
	server.Stderr = &talk
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Error(err)
	}
	if got := p.output("doctor", "--health"); got != "ok\n" {
		t.Errorf("got %q", got)
	}
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := server.Wait(); err != nil || !strings.Contains(talk.String(), "service manager not notified") {
		t.Errorf("%v\n%s", err, talk.String())
	}
}
