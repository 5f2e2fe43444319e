package mcptool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/enginerig"
	"github.com/perdure/perdure/internal/mcpserver"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/mcptool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of a test.
const patience = 2 * time.Minute

// side is an engine over a store, over its deaths.
type side struct {
	t      *testing.T
	store  *memory.Store
	tools  func() *tool.Registry
	script string          // of its model
	tells  local.Telemetry // of the next engine
	eng    *local.Engine
	mortal *enginerig.KillableStore
	end    func()
}

// silent is the script of a model that is not used.
const silent = "steps: [{text: none, repeat: true}]"

func newSide(t *testing.T, script string, tools func(*memory.Store) *tool.Registry) *side {
	t.Helper()
	st := memory.New(memory.Config{})
	s := &side{t: t, store: st, script: script, tools: func() *tool.Registry { return tools(st) }}
	s.start()
	t.Cleanup(func() {
		s.end()
		_ = st.Close() // in memory
	})
	return s
}

func (s *side) start() {
	s.t.Helper()
	m, err := scripted.Parse("side", []byte(s.script))
	if err != nil {
		s.t.Fatal(err)
	}
	var count atomic.Int64
	s.mortal = enginerig.NewKillableStore(s.store, &count, enginerig.KillPoint{})
	with := enginerig.Config(enginetest.Setup{}, s.mortal, m, s.tools())
	with.Telemetry = s.tells
	if s.eng, err = local.Open(context.Background(), with); err != nil {
		s.t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1) // of one Run
	go func() { ended <- s.eng.Run(ctx) }()
	s.end = sync.OnceFunc(func() { end(); <-ended })
}

// restart kills the engine, as SIGKILL would, and starts another one over the same store.
func (s *side) restart() {
	s.t.Helper()
	s.kill()
	s.start()
}

func (s *side) kill() {
	s.mortal.Kill()
	s.end()
}

// far is an MCP server of ours with Tasks, and the requests that it received.
type far struct {
	*side
	*enginerig.Outside
	web *httptest.Server

	mu      sync.Mutex
	methods []string      // guarded by mu; in the order in which they came
	headers []http.Header // guarded by mu; with them
	away    bool          // guarded by mu; it answers nothing
	after   string        // guarded by mu; how long it wants to be left alone when it is away

	// answers intercepts the responses; nil: it does not. It is called for each request, and answer
	// writes the server's response.
	answers func(w http.ResponseWriter, r *http.Request, method string, answer http.Handler)
}

func newFar(t *testing.T) *far {
	t.Helper()
	f := &far{Outside: enginerig.NewOutside()}
	f.side = newSide(t, silent, func(*memory.Store) *tool.Registry { return f.Tools() })
	var marked []mcpserver.Exposed
	for _, name := range []string{"echo", "charge", "hold_note", "hold_charge", "ask", "ask_number", "fail"} {
		marked = append(marked, mcpserver.Exposed{Name: name})
	}
	server, err := mcpserver.New(t.Context(), mcpserver.Config{Engine: f.eng, Tools: marked, Local: &mcpserver.Principal{ID: "near"}})
	if err != nil {
		t.Fatal(err)
	}
	f.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct {
			Method string `json:"method"`
		}
		_ = json.Unmarshal(body, &m) // invalid JSON has no method
		f.mu.Lock()
		f.methods, f.headers = append(f.methods, m.Method), append(f.headers, r.Header.Clone())
		away, after := f.away, f.after
		f.mu.Unlock()
		if away {
			if after != "" {
				w.Header().Set("Retry-After", after)
			}
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if f.answers != nil {
			f.answers(w, r, m.Method, server)
			return
		}
		server.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		f.ReleaseAll()
		server.Close()
		f.web.CloseClientConnections()
		f.web.Close()
	})
	return f
}

// asked counts the requests of a method.
func (f *far) asked(method string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.methods {
		if m == method {
			n++
		}
	}
	return n
}

func (f *far) goAway(away bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = away
}

// near is an engine whose tools are those of a far server.
type near struct {
	*side
	far      *far
	client   *mcptool.Client
	session  perdure.SessionID
	patience time.Duration                 // with the server; 0: the client's own
	kept     func(mcptool.Handle)          // called with each handle before it is stored; may be nil
	over     func(note func() error) error // stands around the note that a remote task is over; nil: nothing does
}

// watching reports the stored handles.
type watching struct {
	mcptool.Handles
	n *near
}

func (w watching) Store(ctx context.Context, call tool.Call, h mcptool.Handle) error {
	if w.n.kept != nil {
		w.n.kept(h)
	}
	return w.Handles.Store(ctx, call, h)
}

func (w watching) End(ctx context.Context, call tool.Call) error {
	note := func() error { return w.Handles.End(ctx, call) }
	if w.n.over != nil {
		return w.n.over(note)
	}
	return note()
}

func newNear(t *testing.T, f *far, classes map[string]perdure.EffectClass) *near {
	t.Helper()
	n := &near{far: f}
	n.side = newSide(t, silent, func(st *memory.Store) *tool.Registry {
		ports := sessionport.New(sessionport.Config{Store: st})
		handles := mcptool.InResources(func(call tool.Call) tool.Resources { return ports(call.Session, call).Resources })
		if n.client != nil {
			_ = n.client.Close(false) // it is lost with its process
		}
		var err error
		if n.client, err = mcptool.Open(context.Background(), mcptool.Config{URL: f.web.URL + "/mcp", HTTP: f.web.Client(), Classes: classes, Handles: watching{handles, n}}); err != nil {
			t.Fatal(err)
		}
		remotes, err := mcptool.Tools(context.Background(), n.client)
		if err != nil {
			t.Fatal(err)
		}
		set := tool.NewRegistry()
		for _, r := range remotes {
			set.Register(r)
		}
		return set
	})
	t.Cleanup(func() { _ = n.client.Close(false) })
	s, err := n.eng.Sessions().Create(context.Background(), perdure.Agent{Name: "near"})
	if err != nil {
		t.Fatal(err)
	}
	n.session = s.ID
	return n
}

// begin calls a tool.
func (n *near) begin(name, args string) perdure.CallKey {
	n.t.Helper()
	made, err := n.eng.HostCalls().Start(context.Background(), engine.HostCallRequest{Session: n.session, Tool: name, Args: json.RawMessage(args)})
	if err != nil {
		n.t.Fatal(err)
	}
	return perdure.CallKey{Session: n.session, Call: made.ID}
}

// until polls a call until it is as it should be.
func (n *near) until(key perdure.CallKey, is func(engine.HostCall) bool) engine.HostCall {
	n.t.Helper()
	for end := time.Now().Add(patience); ; {
		found, err := n.eng.HostCalls().Find(context.Background(), key)
		if err != nil {
			n.t.Fatal(err)
		}
		if is(found) {
			return found
		}
		if time.Now().After(end) {
			n.t.Fatalf("it is %+v, %+v", found.Task, found.Result)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func over(c engine.HostCall) bool { return c.Result != nil }
