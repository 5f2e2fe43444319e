package mcptool_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool/mcptool"
)

// restarting dials a broker of a script, and starts another one if it has ended.
type restarting struct {
	t      *testing.T
	script string
	dir    string
	starts int
}

func (r *restarting) dial(ctx context.Context) (io.ReadWriteCloser, error) {
	k := &shell{socket: filepath.Join(r.dir, "s")}
	if conn, err := net.Dial("unix", k.socket); err == nil {
		return conn, nil
	}
	r.starts++
	ended := make(chan struct{})
	running, end := context.WithCancel(context.WithoutCancel(r.t.Context()))
	go func() {
		defer close(ended)
		_ = mcptool.RunBroker(running, mcptool.BrokerConfig{Socket: k.socket, Command: []string{"sh", "-c", r.script}, Stop: time.Second}) // the script may fail
	}()
	r.t.Cleanup(func() { end(); <-ended })
	return k.connect(ctx)
}

// newRestarting makes one in a folder with a short path.
func newRestarting(t *testing.T, script string) *restarting {
	t.Helper()
	dir, err := os.MkdirTemp("", "era")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return &restarting{t: t, script: script, dir: dir}
}

// TestServersThatDoNotKnowTheNewestVersion: whatever an older server does with the first request of
// the newest protocol version, the older handshake follows, and the version is remembered.
func TestServersThatDoNotKnowTheNewestVersion(t *testing.T) {
	t.Parallel()
	silent := strings.Replace(speaks(saysDone), `*) [ -z`, `*discover*) ;; *) [ -z`, 1)
	for _, c := range []struct {
		name, source, script string
		starts               int
	}{
		{"it refuses", "", speaks(saysDone), 1},
		{"it is silent", "MayDay-wpf/snow-app#56", silent, 1},
		{"it exits", "MayDay-wpf/snow-app#19", strings.Replace(silent, `*discover*) ;;`, `*discover*) exit 1 ;;`, 1), 2},
		{"it answers no request", "UsefulSoftwareCo/executor#1449", strings.Replace(silent, `*discover*) ;;`, `*discover*) say '{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}' ;;`, 1), 1},
		{"it starts late", "marcoeilers/nagini#313", "sleep 7\n" + speaks(saysDone), 1},
		{"it is in disorder", "modelcontextprotocol/modelcontextprotocol#2776", strings.Replace(silent, `*discover*) ;;`, `*discover*) while read -r line; do :; done ;;`, 1), 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRestarting(t, c.script)
			var era string
			open := func(known string) *mcptool.Client {
				client, err := mcptool.Open(t.Context(), mcptool.Config{Dial: r.dial, Era: known, Probe: 100 * time.Millisecond, Startup: 12 * time.Second, OnVersion: func(v string) { era = v }})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = client.Close(true) })
				return client
			}

			all, err := mcptool.Tools(t.Context(), open(""))
			if err != nil {
				t.Fatal(err)
			}
			if got := run(t, all[0], "k"); !got.IsSuccess() {
				t.Errorf("got %s %q", got.ErrorKind, textOf(got))
			}

			if era != "2025-11-25" || r.starts != c.starts {
				t.Errorf("it has version %q after %d starts, want %d", era, r.starts, c.starts)
			}
			if open(era); r.starts != c.starts {
				t.Errorf("with its version known, it was started %d times", r.starts-c.starts+1)
			}
		})
	}
}

// TestServerIsSilentOverHTTP: a server over HTTP that does not answer the first request of the
// newest version gets the older handshake.
func TestServerIsSilentOverHTTP(t *testing.T) {
	t.Parallel()
	s := &stateful{hangs: true}
	does := s.open(t, mcptool.Config{Probe: 100 * time.Millisecond})

	if r := run(t, does, "k"); !r.IsSuccess() {
		t.Errorf("got %s %q", r.ErrorKind, textOf(r))
	}
}

// TestServerNeverAnswers: a server that never answers costs the timeout for connecting and no more,
// and the error says so.
func TestServerNeverAnswers(t *testing.T) {
	t.Parallel()
	r := newRestarting(t, "cat >/dev/null")

	_, err := mcptool.Open(t.Context(), mcptool.Config{Dial: r.dial, Probe: 10 * time.Millisecond, Startup: 200 * time.Millisecond})

	if err == nil || !strings.Contains(err.Error(), "did not answer within 200ms") || !strings.Contains(err.Error(), perdure.Unavailable.Error()) {
		t.Errorf("got %v", err)
	}
}
