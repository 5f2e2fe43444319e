package egress_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/egress"
)

// TestSendDatagram: a datagram arrives whole, and one without a receiver is an error at once.
func TestSendDatagram(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "d") // short enough for the path of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	listener, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := egress.SendDatagram(t.Context(), path, "READY=1"); err != nil {
		t.Fatal(err)
	}
	if err := listener.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 100)
	if n, err := listener.Read(text); err != nil || string(text[:n]) != "READY=1" {
		t.Errorf("got %q, %v", text[:n], err)
	}
	if err := egress.SendDatagram(t.Context(), path+"x", "READY=1"); err == nil {
		t.Error("sent to nobody")
	}
}
