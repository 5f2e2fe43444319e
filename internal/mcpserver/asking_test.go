package mcpserver_test

import (
	"context"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/access"
	"github.com/perdure/perdure/internal/mcpserver"
)

// listening is an engine that records the principal of each call.
type listening struct {
	engine.Engine
	mu      sync.Mutex
	nobody  map[string]int // guarded by mu; requests without a principal, by method
	known   map[string]int // guarded by mu; the others
	changed chan struct{}
}

func (l *listening) note(ctx context.Context, method string) {
	l.mu.Lock()
	if who, ok := access.PrincipalFrom(ctx); ok && who.ID == "tok_ada" {
		l.known[method]++
	} else {
		l.nobody[method]++
	}
	l.mu.Unlock()
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// listeningHostCalls implements engine.HostCalls for listening.
type listeningHostCalls struct {
	engine.HostCalls
	*listening
}

// HostCalls implements engine.Engine.
func (l *listening) HostCalls() engine.HostCalls { return listeningHostCalls{l.Engine.HostCalls(), l} }

func (l listeningHostCalls) MarkReported(ctx context.Context, key perdure.CallKey) error {
	l.note(ctx, "told")
	return l.Engine.HostCalls().MarkReported(ctx, key)
}

func (l *listening) Follow(ctx context.Context, id perdure.SessionID, after int64, fn func(engine.Frame) error) error {
	l.note(ctx, "follow")
	return l.Engine.Follow(ctx, id, after, fn)
}

// seen waits until a method was asked.
func (l *listening) seen(t *testing.T, method string) {
	t.Helper()
	for {
		l.mu.Lock()
		n := l.known[method] + l.nobody[method]
		l.mu.Unlock()
		if n > 0 {
			return
		}
		select {
		case <-l.changed:
		case <-t.Context().Done():
			t.Fatalf("%s was not asked", method)
		}
	}
}

// TestBackgroundIsAskedForWhoAsked: what the server does after a request has ended, it does as the
// principal that made the request. Otherwise it would be the local operator, who may read
// everything.
func TestBackgroundIsAskedForWhoAsked(t *testing.T) {
	t.Parallel()
	who := access.Principal{ID: "tok_ada", Org: "acme", Scopes: []access.Scope{access.Read, access.Write}}
	verify := func(context.Context, string) (mcpserver.Principal, error) {
		return mcpserver.Principal{ID: who.ID, Access: &who}, nil
	}
	r := newRig(t, mcpserver.Config{Verify: verify})
	heard := &listening{Engine: r.eng, nobody: map[string]int{}, known: map[string]int{}, changed: make(chan struct{}, 1)}
	server, err := mcpserver.New(t.Context(), mcpserver.Config{Engine: heard, Verify: verify, Tools: []mcpserver.Exposed{{Name: "hold_note"}}})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(server)
	own := r.web
	r.web = web
	defer func() { r.web = own; server.Close(); web.CloseClientConnections(); web.Close() }()
	a, _ := r.legacy(questionPart{as: "ada"})

	r.older(a, "tools/call", object{"name": "hold_note", "arguments": object{"text": "a"}, "task": object{}})
	heard.seen(t, "follow")
	heard.seen(t, "told")

	heard.mu.Lock()
	defer heard.mu.Unlock()
	if len(heard.nobody) > 0 {
		t.Errorf("asked without a principal: %v, for the caller: %v", heard.nobody, heard.known)
	}
}
