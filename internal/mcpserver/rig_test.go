package mcpserver_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/enginerig"
	"github.com/perdure/perdure/internal/mcpserver"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of a test.
const patience = 2 * time.Minute

// rig is a server with its store, over its deaths.
type rig struct {
	*enginerig.Outside
	t      *testing.T
	store  *memory.Store
	script string // of the model
	more   []tool.Tool
	cfg    mcpserver.Config
	tells  local.Telemetry // of the next engine

	eng    *local.Engine
	mortal *enginerig.KillableStore
	server *mcpserver.Server
	web    *httptest.Server
	stop   func()
}

// newRig starts a server. Tokens are names of principals; "boss" may approve.
func newRig(t *testing.T, cfg mcpserver.Config, more ...tool.Tool) *rig {
	t.Helper()
	return newTalking(t, "steps: [{text: none, repeat: true}]", cfg, more...)
}

// newTalking is newRig with a model that answers by a script.
func newTalking(t *testing.T, script string, cfg mcpserver.Config, more ...tool.Tool) *rig {
	t.Helper()
	return (&rig{script: script, more: more, cfg: cfg}).open(t)
}

// newTelling is newRig with an engine that records spans.
func newTelling(t *testing.T, tells local.Telemetry, cfg mcpserver.Config) *rig {
	t.Helper()
	return (&rig{script: "steps: [{text: none, repeat: true}]", tells: tells, cfg: cfg}).open(t)
}

// open starts a rig from script, cfg and the other fields that are set.
func (r *rig) open(t *testing.T) *rig {
	t.Helper()
	r.Outside, r.t, r.store = enginerig.NewOutside(), t, memory.New(memory.Config{})
	if r.cfg.Verify == nil {
		r.cfg.Verify = func(_ context.Context, token string) (mcpserver.Principal, error) {
			if token == "stranger" {
				return mcpserver.Principal{}, errors.New("unknown token")
			}
			return mcpserver.Principal{ID: token, Approve: token == "boss"}, nil
		}
	}
	if r.cfg.Tools == nil {
		for _, name := range []string{"echo", "charge", "note", "hold", "hold_note", "hold_charge", "fail", "break", "needs", "ask", "ask_number"} {
			r.cfg.Tools = append(r.cfg.Tools, mcpserver.Exposed{Name: name})
		}
		for _, t := range r.more {
			r.cfg.Tools = append(r.cfg.Tools, mcpserver.Exposed{Name: t.Spec().Name})
		}
	}
	r.start()
	t.Cleanup(func() {
		r.ReleaseAll()
		r.stop()
		_ = r.store.Close() // in memory
	})
	return r
}

func (r *rig) start() {
	r.t.Helper()
	m, err := scripted.Parse("script", []byte(r.script))
	if err != nil {
		r.t.Fatal(err)
	}
	var count atomic.Int64
	r.mortal = enginerig.NewKillableStore(r.store, &count, enginerig.KillPoint{})
	with := enginerig.Config(enginetest.Setup{}, r.mortal, m, r.Tools(r.more...))
	with.Telemetry = r.tells
	r.eng, err = local.Open(context.Background(), with)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, one := range r.more {
		if ask, ok := one.(*mcpserver.Ask); ok {
			ask.Use(r.eng)
		}
	}
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1) // of one Run
	go func() { ended <- r.eng.Run(ctx) }()
	cfg := r.cfg
	cfg.Engine = r.eng
	if r.server, err = mcpserver.New(ctx, cfg); err != nil {
		r.t.Fatal(err)
	}
	r.web = httptest.NewServer(r.server)
	r.stop = sync.OnceFunc(func() {
		r.server.Close()
		r.web.CloseClientConnections()
		r.web.Close()
		end()
		<-ended
	})
}

// restart kills the engine, as SIGKILL would, and starts another one over the same store.
func (r *rig) restart() {
	r.t.Helper()
	r.mortal.Kill()
	r.stop()
	r.start()
}

// questionPart is one request.
type questionPart struct {
	as      string // the principal's token; empty: a default one
	tasks   bool   // declares Tasks
	elicits bool
	header  map[string]string
	session string // of the older wire: its id
}

type object = map[string]any

// answer is a JSON-RPC answer, with what HTTP says.
type answer struct {
	status int
	header http.Header
	Result object `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    object `json:"data"`
	} `json:"error"`
	before []object // what came on the stream before it
}

var lastID atomic.Int64

// modern asks on the wire of 2026-07-28.
func (r *rig) modern(ctx context.Context, a questionPart, method string, params object) (answer, error) {
	caps := object{}
	if a.tasks {
		caps["extensions"] = object{"io.modelcontextprotocol/tasks": object{}}
	}
	if a.elicits {
		caps["elicitation"] = object{}
	}
	meta := object{
		"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": caps,
		"io.modelcontextprotocol/clientInfo": object{"name": "test", "version": "1"},
	}
	if given, ok := params["_meta"].(object); ok {
		maps.Copy(meta, given)
	}
	whole := object{}
	maps.Copy(whole, params)
	whole["_meta"] = meta
	header := map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method}
	for _, name := range []string{"name", "taskId"} {
		if text, ok := params[name].(string); ok {
			header["Mcp-Name"] = text
		}
	}
	maps.Copy(header, a.header)
	a.header = header
	return r.post(ctx, a, object{"jsonrpc": "2.0", "id": lastID.Add(1), "method": method, "params": whole})
}

func (r *rig) post(ctx context.Context, a questionPart, body object) (got answer, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return got, err
	}
	return r.send(ctx, a, text)
}

// send posts a body as it is.
func (r *rig) send(ctx context.Context, a questionPart, text []byte) (got answer, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.web.URL+"/mcp", bytes.NewReader(text))
	if err != nil {
		return got, err
	}
	token := a.as
	if token == "" {
		token = "somebody"
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if a.session != "" {
		req.Header.Set("Mcp-Session-Id", a.session)
		req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	for k, v := range a.header {
		req.Header.Set(k, v)
	}
	resp, err := r.web.Client().Do(req)
	if err != nil {
		return got, err
	}
	defer resp.Body.Close()
	got.status, got.header = resp.StatusCode, resp.Header
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return got, got.stream(resp.Body)
	}
	all, err := io.ReadAll(resp.Body)
	if err == nil && len(all) > 0 && strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		err = json.Unmarshal(all, &got)
	}
	return got, err
}

// stream reads an answer that comes as events.
func (a *answer) stream(body io.Reader) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		text, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || text == "" {
			continue
		}
		var m object
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			return err
		}
		if _, told := m["method"]; told {
			a.before = append(a.before, m)
			continue
		}
		return json.Unmarshal([]byte(text), a)
	}
	return errors.Join(lines.Err(), io.ErrUnexpectedEOF)
}

// ask is modern, and has to be answered.
func (r *rig) ask(a questionPart, method string, params object) answer {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	got, err := r.modern(ctx, a, method, params)
	if err != nil {
		r.t.Fatalf("%s: %v", method, err)
	}
	return got
}

// want is ask, and has to have a result.
func (r *rig) want(a questionPart, method string, params object) object {
	r.t.Helper()
	got := r.ask(a, method, params)
	if got.Error != nil || got.Result == nil {
		r.t.Fatalf("%s: got %d %+v", method, got.status, got.Error)
	}
	return got.Result
}

// refusal is a code of JSON-RPC, and the status of HTTP with it; 0: any.
type refusal struct{ status, code int }

// refused is ask, and has to be refused with a code.
func (r *rig) refused(a questionPart, method string, params object, want refusal) answer {
	r.t.Helper()
	got := r.ask(a, method, params)
	if got.Error == nil || got.Error.Code != want.code || want.status != 0 && got.status != want.status {
		r.t.Errorf("%s: got %d %+v %v, want %v", method, got.status, got.Error, got.Result, want)
	}
	return got
}

// call calls a tool.
func (r *rig) call(a questionPart, name string, args, meta object) object {
	r.t.Helper()
	params := object{"name": name, "arguments": args}
	if meta != nil {
		params["_meta"] = meta
	}
	return r.want(a, "tools/call", params)
}

// until polls a task until it has a status.
func (r *rig) until(a questionPart, id, status string) object {
	r.t.Helper()
	for end := time.Now().Add(patience); ; {
		got := r.want(a, "tasks/get", object{"taskId": id})
		if got["status"] == status {
			return got
		}
		if time.Now().After(end) {
			r.t.Fatalf("task %s is %v, want %s", id, got, status)
		}
		<-time.After(5 * time.Millisecond)
	}
}

var (
	withTasks = questionPart{tasks: true, elicits: true}
	text      = object{"text": "a"}
)

// textOf is the text of a result.
func textOf(result object) string {
	content, _ := result["content"].([]any)
	if len(content) == 0 {
		return ""
	}
	block, _ := content[0].(object)
	said, _ := block["text"].(string)
	return said
}
