package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/access"
	"github.com/perdure/perdure/internal/api"
)

// standIn answers on /mcp: it reports the principal of the request, and holds it on demand until
// the request ends or is released.
type standIn struct {
	in   chan string // the method of the request
	gate chan struct{}
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.in <- r.Method
	if r.Header.Get("Hold") != "" {
		select {
		case <-r.Context().Done():
		case <-s.gate:
		}
	}
	who, _ := access.PrincipalFrom(r.Context())
	_, _ = w.Write([]byte("for " + who.ID)) // the test reads it
}

func mcpRig(t *testing.T, edit func(*api.Config)) (*rig, *standIn) {
	t.Helper()
	s := &standIn{in: make(chan string, 100), gate: make(chan struct{})}
	r := newRig(t, func(c *api.Config) {
		c.MCP = s
		if edit != nil {
			edit(c)
		}
	})
	return r, s
}

func message(method string) ask {
	return post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+method+`"}`)
}

// TestMCPIsLetInAsAnyRequest: requests of MCP clients go through the same steps as all requests of
// the API: authentication, the limit of the body, and a request id.
func TestMCPIsLetInAsAnyRequest(t *testing.T) {
	t.Parallel()
	r, s := mcpRig(t, func(c *api.Config) { c.Limits.Body = 200 })

	good := r.do(message("tools/list"))
	stranger := message("tools/list")
	stranger.header = map[string]string{"Authorization": "Bearer nobody"}
	large := post("/mcp", `{"a":"`+strings.Repeat("a", 300)+`"}`)

	if got := r.do(large); got.status != http.StatusRequestEntityTooLarge {
		t.Errorf("too large: got %d %s", got.status, got.body)
	}
	if got := r.do(stranger); got.status != http.StatusUnauthorized || got.header.Get("Www-Authenticate") != "Bearer" {
		t.Errorf("a stranger: got %d %v", got.status, got.header)
	}
	if good.status != http.StatusOK || string(good.body) != "for "+access.Root || good.header.Get("X-Request-Id") == "" {
		t.Errorf("got %d %s %v", good.status, good.body, good.header)
	}
	if len(s.in) != 1 {
		t.Errorf("%d requests were let in, want 1", len(s.in))
	}
}

// TestMCPIsRefusedWhenItIsTooMuch: each kind of message has its places. A cancel gets in while
// calls are refused (R23).
func TestMCPIsRefusedWhenItIsTooMuch(t *testing.T) {
	t.Parallel()
	r, s := mcpRig(t, func(c *api.Config) { c.Admission = api.Admission{LongRunning: 1} })
	held := message("tools/call")
	held.header = map[string]string{"Hold": "yes"}
	ended := make(chan reply, 1)
	go func() { ended <- r.do(held) }()
	<-s.in

	refused := r.do(message("tools/call"))
	read, cancel := r.do(message("tasks/get")), r.do(message("tasks/cancel"))
	close(s.gate)

	r.refusal(refused, http.StatusServiceUnavailable, "overloaded")
	if refused.header.Get("Retry-After") == "" {
		t.Errorf("it does not say when to come again: %v", refused.header)
	}
	if read.status != http.StatusOK || cancel.status != http.StatusOK {
		t.Errorf("a read got %d, a cancel %d", read.status, cancel.status)
	}
	if got := <-ended; got.status != http.StatusOK {
		t.Errorf("the call got %d", got.status)
	}
}

// TestMCPDrains: a server that shuts down admits no new requests, ends streams, and lets running
// calls be answered (R3).
func TestMCPDrains(t *testing.T) {
	t.Parallel()
	r, s := mcpRig(t, nil)
	call, stream, listen := message("tools/call"), get("/mcp"), message("subscriptions/listen")
	ended := map[string]chan reply{}
	for name, q := range map[string]ask{"call": call, "stream": stream, "listen": listen} {
		q.header = map[string]string{"Hold": "yes"}
		ended[name] = make(chan reply, 1)
		go func() { ended[name] <- r.do(q) }()
		<-s.in
	}

	r.api.Drain()

	for _, name := range []string{"stream", "listen"} {
		if got := <-ended[name]; got.status != http.StatusOK {
			t.Errorf("%s: got %d", name, got.status)
		}
	}
	refused := r.do(message("tools/list"))
	r.refusal(refused, http.StatusServiceUnavailable, "draining")
	if refused.header.Get("Retry-After") == "" {
		t.Errorf("it does not say when to come again: %v", refused.header)
	}
	if len(ended["call"]) != 0 {
		t.Error("a call was ended before its work")
	}
	close(s.gate)
	if got := <-ended["call"]; got.status != http.StatusOK {
		t.Errorf("the call got %d", got.status)
	}
}
