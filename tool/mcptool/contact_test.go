package mcptool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool/mcptool"
)

// stateful is a server over HTTP with sessions, of protocol version 2025-11-25. Its only tool
// counts the calls that ran.
type stateful struct {
	// answers intercepts tools/call number n, from 1: it may answer by itself. known says whether
	// the server knows the session of the request.
	answers func(w http.ResponseWriter, n int, id json.RawMessage, known bool) bool
	hangs   bool // it never answers server/discover
	forgets int  // before this call it forgets all sessions, as a restart does; 0: never

	mu       sync.Mutex
	sessions map[string]bool // guarded by mu
	calls    int             // guarded by mu; that arrived
	ran      int             // guarded by mu; that ran
	shakes   int             // guarded by mu; initialize requests
}

func (s *stateful) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var asked struct {
		ID     json.RawMessage
		Method string
	}
	_ = json.Unmarshal(body, &asked) // invalid JSON has no method
	if s.hangs && asked.Method == "server/discover" {
		<-r.Context().Done()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch asked.Method {
	case "server/discover":
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, asked.ID)
	case "initialize":
		s.shakes++
		session := fmt.Sprintf("s%d", s.shakes)
		s.sessions[session] = true
		w.Header().Set("Mcp-Session-Id", session)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"stateful","version":"1"}}}`, asked.ID)
	case "tools/list":
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"does","inputSchema":{"type":"object"}}]}}`, asked.ID)
	case "tools/call":
		if s.calls++; s.calls == s.forgets {
			clear(s.sessions)
		}
		if s.answers != nil && s.answers(w, s.calls, asked.ID, s.sessions[r.Header.Get("Mcp-Session-Id")]) {
			return
		}
		s.ran++
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"ran %d"}]}}`, asked.ID, s.ran)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

// open returns the tool of the server.
func (s *stateful) open(t *testing.T, cfg mcptool.Config) *mcptool.Remote {
	t.Helper()
	s.sessions = map[string]bool{}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	cfg.URL, cfg.HTTP = web.URL+"/mcp", web.Client()
	c, err := mcptool.Open(t.Context(), cfg)
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

// TestLostSession: a server that was restarted does not know the session. The client makes a new
// one and sends the call again, once; whatever the server says instead, no outcome is unknown.
func TestLostSession(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, source string
		status       int
		kind, body   string // %s: the id of the request
	}{
		{"no id", "punkpeye/mcp-remote#106", 404, "application/json", `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`},
		{"an id", "several reports", 404, "application/json", `{"jsonrpc":"2.0","id":%s,"error":{"code":-32001,"message":"unknown session"}}`},
		{"a text", "modelcontextprotocol/rust-sdk#733", 404, "text/plain", "Session not found"},
		{"nothing", "modelcontextprotocol/python-sdk#1676", 404, "", ""},
		{"a bad request", "samanhappy/mcphub#405", 400, "application/json", `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`},
		{"a bad request as text", "mark3labs/mcp-go#689", 400, "text/plain", "Invalid session ID"},
		{"unauthorized", "modelcontextprotocol/rust-sdk#559", 401, "text/plain", "Unauthorized: Session not found"},
		{"a success", "actionhero/keryx#503", 200, "text/event-stream", "event: message\ndata: {\"error\":\"Session not found\"}\n\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := &stateful{forgets: 2, answers: func(w http.ResponseWriter, _ int, id json.RawMessage, known bool) bool {
				if known {
					return false
				}
				w.Header().Set("Content-Type", c.kind)
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, strings.ReplaceAll(c.body, "%s", string(id)))
				return true
			}}
			does := s.open(t, mcptool.Config{})

			first, second, third := run(t, does, "1"), run(t, does, "2"), run(t, does, "3")

			if !first.IsSuccess() || !second.IsSuccess() || !third.IsSuccess() {
				t.Errorf("got %q, %q, %q", textOf(first), textOf(second), textOf(third))
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.ran != 3 || s.calls != 4 || s.shakes != 2 {
				t.Errorf("%d ran of %d calls in %d sessions, want 3 of 4 in 2", s.ran, s.calls, s.shakes)
			}
		})
	}
}

// TestRefusedCalls: a call that HTTP refused did not run and is an error; one that may have run is
// unknown. Neither ends the connection.
func TestRefusedCalls(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		status int
		body   string
		kind   perdure.ErrorKind
		says   string
	}{
		{"unauthorized", 401, `{"error":"invalid_token"}`, "", "HTTP 401 Unauthorized: invalid_token"},
		{"forbidden", 403, "<html><h1>Blocked</h1></html>", "", "Blocked"},
		{"too many", 429, "slow down", "", "slow down"},
		{"no server", 503, "no healthy upstream", "", "did not run"},
		{"unavailable", 503, "", perdure.ErrorUnknown, "503"},
		{"bare", 500, "oops", perdure.ErrorUnknown, "oops"},
		{"gateway timeout", 504, "", perdure.ErrorUnknown, "504"},
		{"conflict", 409, "", perdure.ErrorUnknown, "409"},
		{"an answer with a status", 500, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"the tool broke"}}`, "", "the tool broke"},
		{"a session that is always unknown", 404, "", "", "does not know the session"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := &stateful{answers: func(w http.ResponseWriter, n int, id json.RawMessage, _ bool) bool {
				if n > 2 {
					return false
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, strings.ReplaceAll(c.body, "%s", string(id)))
				return true
			}}
			does := s.open(t, mcptool.Config{})

			r := run(t, does, "1")

			if r.IsSuccess() || r.ErrorKind != c.kind || !strings.Contains(r.Text, c.says) {
				t.Errorf("got %s %q", r.ErrorKind, r.Text)
			}
			for n := 2; n < 4; n++ { // the calls after the refusals
				r = run(t, does, fmt.Sprint(n))
			}
			if !r.IsSuccess() {
				t.Errorf("afterwards: %s %q", r.ErrorKind, r.Text)
			}
		})
	}
}

// TestNoiseBesideAnAnswer: what a server sends over HTTP beside its answer, or around it, costs
// nothing.
func TestNoiseBesideAnAnswer(t *testing.T) {
	t.Parallel()
	const answer = `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"done"}]}}`
	const sse, js = "text/event-stream", "application/json"
	for _, c := range []struct{ name, source, kind, body string }{
		{"a heartbeat", "PhilflowIO/dav-mcp#31", sse, "data: {\"type\":\"heartbeat\"}\n\ndata: " + answer + "\n\n"},
		{"a named heartbeat", "IBM/mcp-context-forge#689", sse, "event: keepalive\ndata: {}\n\nevent: message\ndata: " + answer + "\n\n"},
		{"a comment and an empty event", "", sse, ": ping\n\ndata:\n\ndata: " + answer + "\n\n"},
		{"an event of another name", "", sse, "event: result\ndata: " + answer + "\n\n"},
		{"a field without a colon", "", sse, "keepalive\n\ndata: " + answer + "\n\n"},
		{"carriage returns", "", sse, "data: {\"x\":1}\r\n\r\ndata: " + answer + "\r\n\r\n"},
		{"no end of the last event", "", sse, "data: " + answer},
		{"a byte order mark", "", sse, "\xef\xbb\xbfdata: " + answer + "\n\n"},
		{"data on several lines", "", sse, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\ndata: \"result\":{\"content\":[{\"type\":\"text\",\"text\":\"done\"}]}}\n\n"},
		{"an id as text", "modelcontextprotocol/rust-sdk#1017", sse, "data: " + strings.ReplaceAll(answer, "%s", `"%s"`) + "\n\n"},
		{"an id as text in JSON", "modelcontextprotocol/python-sdk#1720", js, strings.ReplaceAll(answer, "%s", `"%s"`)},
		{"a list of one", "gensecaihq/Wazuh-MCP-Server#59", js, "[" + answer + "]"},
		{"a byte order mark in JSON", "", js, "\xef\xbb\xbf" + answer},
		{"JSON called a stream", "", sse, answer},
		{"a stream called JSON", "", js, "data: " + answer + "\n\n"},
		{"no type", "", "", answer},
		{"a type of a page", "", "text/html", answer},
		{"an answer to another request first", "", sse, "data: {\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}\n\ndata: " + answer + "\n\n"},
		{"NaN beside it", "PrefectHQ/fastmcp#5150", js, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"done"}],"structuredContent":{"x":NaN}}}`},
		{"an unknown block beside it", "several reports", sse, `data: {"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"chart"},{"type":"text","text":"done"}]}}` + "\n\n"},
		{"cut off", "", js, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"done`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var log lines
			s := &stateful{answers: func(w http.ResponseWriter, _ int, id json.RawMessage, _ bool) bool {
				w.Header()["Content-Type"] = []string{c.kind} // an empty one is not guessed
				_, _ = io.WriteString(w, strings.ReplaceAll(c.body, "%s", string(id)))
				return true
			}}
			does := s.open(t, mcptool.Config{Name: "noisy", Log: slog.New(slog.NewTextHandler(&log, nil))})

			for n := range 2 {
				if r := run(t, does, fmt.Sprint(n)); !r.IsSuccess() || !strings.Contains(textOf(r), "done") {
					t.Errorf("got %s %q", r.ErrorKind, textOf(r))
				}
			}

			if n := strings.Count(log.String(), "is no message"); n > 1 || n == 1 && !strings.Contains(log.String(), "server=noisy") {
				t.Errorf("the log says %s", log.String())
			}
		})
	}
}

// lines collects a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestAnswerWithoutAnAnswer: a success of HTTP without any answer leaves the outcome unknown, and
// the connection as it is.
func TestAnswerWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{"nothing": "", "a page": "<html>Please log in</html>", "another answer": `{"jsonrpc":"2.0","id":99,"result":{}}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &stateful{answers: func(w http.ResponseWriter, n int, _ json.RawMessage, _ bool) bool {
				if n == 1 {
					_, _ = io.WriteString(w, body)
				}
				return n == 1
			}}
			does := s.open(t, mcptool.Config{})

			if r := run(t, does, "1"); r.ErrorKind != perdure.ErrorUnknown {
				t.Errorf("got %s %q", r.ErrorKind, textOf(r))
			}
			if r := run(t, does, "2"); !r.IsSuccess() {
				t.Errorf("afterwards: %s %q", r.ErrorKind, textOf(r))
			}
		})
	}
}

// nobody is an address at which nothing listens. The port of a listener that was closed would not
// do: another test may get it.
const nobody = "127.0.0.1:1"

// TestServerIsNotThere: a call to a server that accepts no connection was not made.
func TestServerIsNotThere(t *testing.T) {
	t.Parallel()
	s := &stateful{sessions: map[string]bool{}}
	web := httptest.NewServer(s)
	defer web.Close()
	var gone atomic.Bool
	// Each request has its own connection, so that none is sent over one that was made before.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if gone.Load() {
				addr = nobody
			}
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}}}
	c, err := mcptool.Open(t.Context(), mcptool.Config{URL: web.URL + "/mcp", HTTP: client})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(false)
	all, err := mcptool.Tools(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	gone.Store(true)

	if r := run(t, all[0], "1"); r.IsSuccess() || r.ErrorKind != "" {
		t.Errorf("got %s %q", r.ErrorKind, textOf(r))
	}
}

// TestListeningStreamIsOptional: a stream of the server's own messages that is refused, ends at
// once or stays silent does not harm the calls.
func TestListeningStreamIsOptional(t *testing.T) {
	t.Parallel()
	for name, listen := range map[string]func(w http.ResponseWriter, r *http.Request){
		"it ends at once": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/event-stream") },
		"it is unknown":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"it breaks":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"it is a page":    func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"it is silent":    func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"it is noise": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: hello\n\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &stateful{sessions: map[string]bool{}}
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					listen(w, r)
					return
				}
				s.ServeHTTP(w, r)
			}))
			t.Cleanup(func() {
				web.CloseClientConnections()
				web.Close()
			})
			c, err := mcptool.Open(t.Context(), mcptool.Config{URL: web.URL + "/mcp", HTTP: web.Client()})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(false)
			all, err := mcptool.Tools(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}

			if r := run(t, all[0], "1"); !r.IsSuccess() {
				t.Errorf("got %s %q", r.ErrorKind, r.Text)
			}
		})
	}
}

// TestNoiseOnStdio: what a server writes on its stream beside its messages costs nothing, also
// before its first message.
func TestNoiseOnStdio(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, source, first, onCall string }{
		{"a byte order mark", "several reports", `printf '\357\273\277'`, saysDone},
		{"a banner", "microsoft/azure-devops-mcp#147", `echo 'Azure DevOps MCP Server version : 1.0.0'; echo`, saysDone},
		{"a prefix without its end of line", "hurttlocker/o8#1541", `printf '[db] Connected to /tmp/x '`, `printf '[call] {x} '; ` + saysDone},
		{"carriage returns", "", `printf '\r\n\r\n'`, `printf '%s\r\n' '{"jsonrpc":"2.0","id":"'$id'","result":{"content":[{"type":"text","text":"done"}]}}'`},
		{"NaN", "XBP-Europe/sagemath-mcp#66", ":", `say '{"jsonrpc":"2.0","id":"'$id'","result":{"content":[{"type":"text","text":"done"}],"structuredContent":{"x":NaN}}}'`},
		{"half a surrogate pair", "several reports", ":", `printf '%s\n' '{"jsonrpc":"2.0","id":"'$id'","result":{"content":[{"type":"text","text":"done \ud83d"}]}}'`},
		{"a list of answers", "gensecaihq/Wazuh-MCP-Server#59", ":", `say '[{"jsonrpc":"2.0","id":"'$id'","result":{"content":[{"type":"text","text":"done"}]},"error":null}]'`},
		{"a text instead of blocks", "several reports", ":", `say '{"jsonrpc":"2.0","id":"'$id'","result":{"content":"done"}}'`},
		{"neither text nor blocks", "several reports", ":", `say '{"jsonrpc":"2.0","id":"'$id'","result":{"state":"done"}}'`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := keepShell(t, c.first+"\n"+speaks(c.onCall))

			if r := run(t, k.does(t, perdure.AtMostOnce), "k"); !r.IsSuccess() || !strings.Contains(textOf(r), "done") {
				t.Errorf("got %s %q", r.ErrorKind, textOf(r))
			}
		})
	}
}

// TestBrokenStreamCostsItsCall: a stream that breaks before the answer and cannot be resumed leaves
// the outcome of its call unknown, and harms no other call.
func TestBrokenStreamCostsItsCall(t *testing.T) {
	t.Parallel()
	s := &stateful{answers: func(w http.ResponseWriter, n int, _ json.RawMessage, _ bool) bool {
		if n == 1 {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "id: 1\nretry: 1\ndata:\n\n")
		}
		return n == 1
	}}
	does := s.open(t, mcptool.Config{})

	if r := run(t, does, "1"); r.ErrorKind != perdure.ErrorUnknown {
		t.Errorf("got %s %q", r.ErrorKind, textOf(r))
	}
	if r := run(t, does, "2"); !r.IsSuccess() {
		t.Errorf("afterwards: %s %q", r.ErrorKind, textOf(r))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shakes != 1 {
		t.Errorf("%d sessions, want one", s.shakes)
	}
}
