package remote_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/engine/remote"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/enginerig"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// world is the environment of servers over one store, one after another at one address, and of the
// one client that outlives them all.
type world struct {
	*enginerig.Outside
	setup  enginetest.Setup
	model  *scripted.Model
	store  *memory.Store
	keys   *keyTable
	socket string // the address of the servers; empty: TCP
	addr   string // over TCP, once it is known
	token  string // over TCP
	client *remote.Engine

	mortal  *enginerig.KillableStore // of the running server
	local   *local.Engine            // likewise
	api     *api.API
	server  *http.Server
	served  chan error         // of the running server; capacity 1
	stop    context.CancelFunc // of the running engine; nil: none runs
	ended   chan error         // of the running engine; capacity 1
	commits atomic.Int64
}

// newWorld creates a world behind a Unix socket, or over TCP if there is a token.
func newWorld(t *testing.T, s enginetest.Setup, token string) *world {
	t.Helper()
	m, err := scripted.Parse("law", []byte(s.Script))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Outside: enginerig.NewOutside(), setup: s, model: m, store: memory.New(memory.Config{}), keys: newKeyTable(), token: token}
	if token == "" {
		w.socket = shortSocket(t)
	}
	t.Cleanup(func() {
		w.ReleaseAll()
		w.Kill(t)
		if w.client != nil {
			w.client.Close()
		}
	})
	return w
}

// shortSocket is a path for a socket: it may hold 107 bytes, and t.TempDir has long names.
func shortSocket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "p")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// Start creates an engine over the store and a server for it, and returns the client.
func (w *world) Start(t *testing.T) engine.Engine {
	t.Helper()
	w.start(t)
	if w.client == nil {
		w.client = w.connect(t, "")
	}
	return w.client
}

// connect creates a client, of the server itself or of another address.
func (w *world) connect(t *testing.T, url string) *remote.Engine {
	t.Helper()
	if url == "" {
		url = "http://" + w.addr
		if w.socket != "" {
			url = "unix://" + w.socket
		}
	}
	client, err := remote.New(remote.Config{URL: url, Token: w.token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func (w *world) start(t *testing.T) {
	t.Helper()
	w.shut()
	w.mortal = enginerig.NewKillableStore(w.store, &w.commits, enginerig.KillPoint{})
	eng, err := local.Open(t.Context(), enginerig.Config(w.setup, w.mortal, w.model, w.Tools(w.talker())))
	if err != nil {
		t.Fatal(err)
	}
	w.local = eng
	w.api, err = api.New(api.Config{Engine: eng, Local: w.token == "", Token: w.token, Keys: w.keys})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	w.stop, w.ended = stop, make(chan error, 1)
	go func(ended chan error) { ended <- eng.Run(ctx) }(w.ended)
	listener := w.listen(t)
	w.server, w.served = api.NewServer(w.api, slog.New(slog.DiscardHandler)), make(chan error, 1)
	go func(server *http.Server, served chan error) { served <- server.Serve(listener) }(w.server, w.served)
}

// listen opens the address of the first server again.
func (w *world) listen(t *testing.T) net.Listener {
	t.Helper()
	network, addr := "unix", w.socket
	if w.socket == "" {
		network, addr = "tcp", w.addr
		if addr == "" {
			addr = "127.0.0.1:0"
		}
	}
	listener, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	w.addr = listener.Addr().String()
	return listener
}

// Kill cuts off the engine's store and every connection, as SIGKILL would, and then lets the test
// process clean up.
func (w *world) Kill(t *testing.T) {
	t.Helper()
	if w.mortal != nil {
		w.mortal.Kill()
	}
	w.shut()
	if w.stop != nil {
		w.Stop(t)
	}
}

// Stop ends the engine by its context. The server still responds, and accepts intents, until the
// next Start.
func (w *world) Stop(t *testing.T) {
	t.Helper()
	w.stop()
	if err := <-w.ended; err != nil && !errors.Is(err, perdure.Unavailable) { // a killed engine gets Unavailable
		t.Error(err)
	}
	w.stop = nil
}

// shut cuts the server off.
func (w *world) shut() {
	if w.server == nil {
		return
	}
	_ = w.server.Close() // its connections are already cut
	if err := <-w.served; !errors.Is(err, http.ErrServerClosed) {
		panic(err)
	}
	w.server = nil
}

// Commits counts transactions.
func (w *world) Commits() int { return int(w.commits.Load()) }

// talker is a tool with much output.
func (w *world) talker() tool.Tool {
	type answer struct {
		Status string `json:"status"`
	}
	return tool.NewBackground(enginerig.Spec("bg_talk", perdure.Idempotent), func(ctx context.Context, _ struct{}, env tool.Env) (answer, error) {
		for _, line := range talk(env.Call.Execution) {
			_ = env.Sink.Output("stdout", line)
		}
		return answer{"ok"}, w.Hold(ctx, "bg_talk")
	})
}

// keyTable stores idempotency keys across all crashes.
type keyTable struct {
	mu   sync.Mutex
	rows map[[2]string]api.Request // guarded by mu
}

func newKeyTable() *keyTable { return &keyTable{rows: map[[2]string]api.Request{}} }

// Begin records a request, or returns the recorded one.
func (k *keyTable) Begin(_ context.Context, r api.Request) (api.Request, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	known, ok := k.rows[[2]string{r.Scope, r.Key}]
	switch {
	case !ok:
		k.rows[[2]string{r.Scope, r.Key}] = r
		return r, nil
	case known.Hash != r.Hash:
		return api.Request{}, api.KeyReused
	}
	return known, nil
}

// End stores the response.
func (k *keyTable) End(_ context.Context, r api.Request) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	known, ok := k.rows[[2]string{r.Scope, r.Key}]
	if !ok {
		return errors.New("the key was never begun")
	}
	if known.Status == 0 {
		k.rows[[2]string{r.Scope, r.Key}] = r
	}
	return nil
}
