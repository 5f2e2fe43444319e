package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/docs"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/access"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/manual"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/internal/sessionsql"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
)

const token = "a-token-of-this-test"

// pages are rendered once, for all servers of these tests.
var pages = manual.New(docs.Files)

// script answers by what the person said last.
const script = `
rules:
  - when: {last_role: notification}
    text: noted
  - when: {last_role: tool_result}
    text: done
  - when: {last_role: agent}
    text: nothing new
  - when: {user_contains: "charge"}
    calls: [{name: charge, args: {text: a}}]
  - when: {user_contains: "echo"}
    calls: [{name: echo, args: {text: "a <b> & c"}}]
  - when: {user_contains: "spawn stream"}
    calls: [{name: spawn_background, args: {tool: stream, title: Work, args: {}}}]
  - when: {user_contains: "spawn secret"}
    calls: [{name: spawn_background, args: {tool: stream, title: Work, args: {text: "Authorization: Bearer canary"}}}]
  - when: {user_contains: "spawn hold"}
    calls: [{name: spawn_background, args: {tool: hold, title: Work, args: {}}}]
  - when: {user_contains: "spawn once"}
    calls: [{name: spawn_background, args: {tool: once, title: Work, args: {}}}]
  - when: {user_contains: "spawn asking"}
    calls: [{name: spawn_background, args: {tool: asking, title: Work, args: {}}}]
  - when: {user_contains: "spawn counting"}
    calls: [{name: spawn_background, args: {tool: counting, title: Work, args: {}}}]
  - when: {user_contains: "pay"}
    calls: [{name: pay, args: {text: a, password: canary}}]
  - when: {user_contains: "locate"}
    calls: [{name: locate, args: {}}]
  - when: {user_contains: "slow"}
    calls: [{name: slow, args: {text: a}}]
  - when: {user_contains: "whose"}
    calls: [{name: whose, args: {}}]
  - when: {user_contains: "spawn later"}
    calls: [{name: spawn_background, args: {tool: whose, title: Work, args: {}}}]
steps: [{text: "hello there, friend", repeat: true}]
`

type words struct {
	Text string `json:"text,omitempty"`
}

type payment struct {
	Text     string `json:"text"`
	Password string `json:"password,omitempty"`
}

// rig is an engine with an API in front of it, on a real server.
type rig struct {
	t     *testing.T
	store *memory.Store
	eng   *local.Engine
	vault *secret.Keyring

	databases *sessionsql.Store
	payments  int // number of payments that were added
	api       *api.API
	server    *httptest.Server
	crowd     *api.ConnLimiter // its connections
	keys      *keys
	cfg       api.Config
	gate      chan struct{} // lets hold, charge and once end
	in        chan string   // the id of a request that was entered
	tokens    tokens        // the tokens that the tool whose was given, and their users
	stop      func()
	once      sync.Once
}

// newRig starts a server; edit may change its configuration.
func newRig(t *testing.T, edit func(*api.Config)) *rig {
	t.Helper()
	r := &rig{
		t: t, store: memory.New(memory.Config{}), keys: &keys{rows: map[string]api.Request{}},
		gate: make(chan struct{}), in: make(chan string, 100),
	}
	vault, err := secret.Create(filepath.Join(t.TempDir(), "keys"))
	if err != nil {
		t.Fatal(err)
	}
	r.vault = vault
	if r.databases, err = sessionsql.New(sessionsql.Config{Dir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.databases.Close() })
	r.startEngine()
	r.cfg = api.Config{
		Engine: access.NewGuard(r.eng, access.StoreOwners(r.store), access.MachineAccess{}, nil), Token: token, Keys: r.keys, Manual: pages,
		StorageIdentity: func(context.Context) (engine.StorageIdentity, error) {
			return engine.StorageIdentity{Store: "sqlite", ID: "1", Directory: "1"}, nil
		},
		Machine: machineOfTest(),
		Keyring: access.NewKeyring(access.Config{Store: r.store, Root: token, FailureBurst: 1 << 20, CheckInterval: 5 * time.Millisecond}),
	}
	if edit != nil {
		edit(&r.cfg)
	}
	r.startAPI()
	t.Cleanup(func() {
		r.release()
		r.closeServer()
		r.stop()
		r.store.Close()
	})
	return r
}

func (r *rig) startAPI() {
	r.t.Helper()
	a, err := api.New(r.cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.api = a
	r.server = httptest.NewUnstartedServer(a)
	r.server.Config = api.NewServer(a, slog.New(slog.DiscardHandler))
	r.crowd = api.LimitConns(r.server.Listener, api.MaxConnections)
	r.server.Listener = r.crowd
	r.server.Start()
}

// closeServer closes the server, and the streams that it has detached.
func (r *rig) closeServer() {
	r.server.CloseClientConnections()
	r.server.Close()
	r.crowd.CloseAll()
	r.crowd.Wait(context.Background())
}

func (r *rig) startEngine() {
	r.t.Helper()
	m, err := scripted.Parse("rig", []byte(script))
	if err != nil {
		r.t.Fatal(err)
	}
	hold := func(name string) func(context.Context, words, tool.Env) (words, error) {
		return func(ctx context.Context, in words, env tool.Env) (words, error) {
			env.Sink.Output("stdout", []byte("working\n"))
			r.in <- name
			select {
			case <-r.gate:
				return in, nil
			case <-ctx.Done():
				return words{}, context.Cause(ctx)
			}
		}
	}
	spec := func(name string, class perdure.EffectClass) tool.Spec {
		return tool.Spec{Name: name, Description: "A fixture.", Class: class}
	}
	with := func(policy tool.Policy, s tool.Spec) tool.Spec {
		s.Policy = policy
		return s
	}
	asking := func(expected string) func(context.Context, words, tool.Env) (words, error) {
		return func(ctx context.Context, _ words, env tool.Env) (words, error) {
			reply, err := env.Dialog.Ask(ctx, tool.Question{Prompt: "which?", Expected: []byte(expected)})
			return words{Text: reply.Text + "|" + string(reply.Data) + "|" + reply.By}, err
		}
	}
	tools := append(background.Tools(background.Config{}),
		tool.New(with(tool.PolicyRequiresApproval, spec("pay", perdure.AtMostOnce)), func(_ context.Context, in payment, _ tool.Env) (words, error) {
			return words{Text: "paid " + in.Text}, nil
		}),
		tool.New(with(tool.PolicyClientSide, spec("locate", perdure.Pure)), func(_ context.Context, in words, _ tool.Env) (words, error) { return in, nil }),
		tool.New(spec("slow", perdure.Idempotent), hold("slow")),
		tool.NewBackground(spec("asking", perdure.Idempotent), asking("")),
		tool.NewBackground(spec("counting", perdure.Idempotent), asking(`{"type":["integer","string"]}`)),
		tool.NewBackground(spec("whose", perdure.Pure), func(ctx context.Context, in words, env tool.Env) (words, error) {
			token, err := env.Connections.Token(ctx, "github")
			r.tokens.add(env.Call, token)
			return in, err
		}),
		tool.New(spec("echo", perdure.Pure), func(_ context.Context, in words, _ tool.Env) (words, error) { return in, nil }),
		tool.New(spec("fail", perdure.Pure), func(context.Context, words, tool.Env) (words, error) { return words{}, tool.Errorf("boom") }),
		tool.New(spec("charge", perdure.AtMostOnce), hold("charge")),
		tool.NewBackground(spec("hold", perdure.Idempotent), hold("hold")),
		tool.NewBackground(spec("once", perdure.AtMostOnce), hold("once")),
		tool.NewBackground(spec("stream", perdure.Pure), func(_ context.Context, in words, env tool.Env) (words, error) {
			for i := range 20 {
				env.Sink.Output([]string{"stdout", "stderr"}[i%2], fmt.Appendf(nil, "line %d of the log\n", i))
			}
			return in, nil
		}))
	r.eng, err = local.Open(r.t.Context(), local.Config{
		Store: r.store, Model: m, Tools: tool.NewRegistry(tools...), Timing: local.Timing{Drain: -1},
		Workers:  local.Workers{Beat: time.Hour, Lease: 4 * time.Hour},
		Webhooks: local.Webhooks{Egress: nowhere{}},
		Storage:  local.Storage{Secrets: local.Secrets{Keys: r.vault}, SQL: r.databases},
		Catalogue: local.Catalogue{Providers: local.Providers{
			Agents: func() (map[string]local.ConfiguredAgent, error) {
				return map[string]local.ConfiguredAgent{"helper": {Description: "Helps.", Agent: perdure.Agent{Instructions: "Be brief.", Tools: []string{"echo"}}}, "other": {}}, nil
			},
			OAuth: func() (local.OAuthProviders, error) {
				return local.OAuthProviders{RedirectURL: "https://perdure.example/v1/connections/callback", All: map[string]local.OAuthProvider{
					"hub": {AuthorizeURL: "https://hub.example/authorize", TokenURL: "https://hub.example/token", ClientID: "me"}}}, nil
			},
			Connections: tickets{}, Providers: []engine.Provider{{Name: "openai", Kind: "openai", Ready: true}},
		}},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	ended := make(chan error, 1)
	go func(eng *local.Engine) { ended <- eng.Run(ctx) }(r.eng)
	r.stop = func() { cancel(); <-ended }
}

// restart ends engine and server with their work as it is, as a crash would, and starts the next
// ones over the same store and the same keys.
func (r *rig) restart() {
	r.t.Helper()
	r.closeServer()
	r.stop()
	r.startEngine()
	r.cfg.Engine = access.NewGuard(r.eng, access.StoreOwners(r.store), access.MachineAccess{}, nil)
	r.startAPI()
}

func (r *rig) release() { r.once.Do(func() { close(r.gate) }) }

// entered waits until a tool was entered.
func (r *rig) entered(name string) {
	r.t.Helper()
	select {
	case got := <-r.in:
		if got != name {
			r.t.Fatalf("%s was entered, want %s", got, name)
		}
	case <-time.After(20 * time.Second):
		r.t.Fatalf("%s was not entered", name)
	}
}

// ask is one request.
type ask struct {
	method, path string
	body         string
	header       map[string]string // an empty value takes the header away
}

// reply is its answer, read whole.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (r *rig) request(ctx context.Context, q ask) *http.Request {
	r.t.Helper()
	var body io.Reader
	if q.body != "" {
		body = strings.NewReader(q.body)
	}
	req, err := http.NewRequestWithContext(ctx, q.method, r.server.URL+q.path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if q.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range q.header {
		if req.Header.Del(name); value != "" {
			req.Header.Set(name, value)
		}
	}
	return req
}

func (r *rig) do(q ask) reply {
	r.t.Helper()
	res, err := r.server.Client().Do(r.request(r.t.Context(), q))
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return reply{res.StatusCode, res.Header, body}
}

// want does a request and reads its answer into the type that the engine knows.
func want[T any](r *rig, status int, q ask) T {
	r.t.Helper()
	got := r.do(q)
	if got.status != status {
		r.t.Fatalf("%s %s: got %d %s, want %d", q.method, q.path, got.status, got.body, status)
	}
	return read[T](r.t, got.body)
}

// read decodes strictly: the wire says nothing that the type does not know.
func read[T any](t *testing.T, body []byte) T {
	t.Helper()
	var v T
	if err := perdure.DecodeJSON(body, &v); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return v
}

// taskInList is a list as it stands on the wire.
type taskInList[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next"`
}

func get(path string) ask        { return ask{method: http.MethodGet, path: path} }
func post(path, body string) ask { return ask{method: http.MethodPost, path: path, body: body} }

func put(path, body string) ask { return ask{method: http.MethodPut, path: path, body: body} }

// session starts a session and returns its path.
func (r *rig) session() string {
	r.t.Helper()
	return "/v1/sessions/" + string(want[engine.Session](r, http.StatusCreated, post("/v1/sessions", `{"agent":{"name":"a"}}`)).ID)
}

// say sends a text.
func (r *rig) say(session, text string) {
	r.t.Helper()
	body := fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, text)
	want[map[string]any](r, http.StatusAccepted, post(session+"/messages", body))
}

// rest waits until a session is at rest.
func (r *rig) rest(session string) engine.Session {
	r.t.Helper()
	return r.rested(session, token)
}

// rested is rest for the bearer of a secret.
func (r *rig) rested(session, secret string) engine.Session {
	r.t.Helper()
	got := r.do(get(session + "?wait=20s").as(secret))
	if got.header.Get("Perdure-Idle") != "true" {
		r.t.Fatalf("%d %s: the session is not at rest", got.status, got.body)
	}
	return read[engine.Session](r.t, got.body)
}

// talk makes a session with a conversation in it.
func (r *rig) talk(texts ...string) string {
	r.t.Helper()
	s := r.session()
	for _, text := range texts {
		r.say(s, text)
		r.rest(s)
	}
	return s
}

// problem is a problem as it stands on the wire.
type problem struct {
	Type        string `json:"type"`
	Title       string `json:"title"`
	Status      int    `json:"status"`
	Detail      string `json:"detail"`
	Instance    string `json:"instance"`
	Code        string `json:"code"`
	RequestID   string `json:"request_id"`
	Retryable   bool   `json:"retryable"`
	FieldErrors []struct {
		Field   string `json:"field"`
		Message string `json:"message"`
	} `json:"field_errors"`
}

// refusal checks that an answer is a whole problem of a status and code.
func (r *rig) refusal(got reply, status int, code string) problem {
	r.t.Helper()
	if got.status != status || got.header.Get("Content-Type") != "application/problem+json" {
		r.t.Fatalf("got %d %s %s, want a problem %d", got.status, got.header.Get("Content-Type"), got.body, status)
	}
	p := read[problem](r.t, got.body)
	if p.Code != code || p.Status != status || p.Title == "" || p.Detail == "" || !strings.HasSuffix(p.Type, "#"+code) ||
		p.RequestID != got.header.Get("X-Request-Id") {
		r.t.Fatalf("got %+v, want code %s", p, code)
	}
	r.explained(p.Type, code)
	return p
}

// dial opens a connection for requests written by hand.
func (r *rig) dial() net.Conn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.server.Listener.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c
}

// keys is the contract of api.Keys in memory.
type keys struct {
	mu   sync.Mutex
	rows map[string]api.Request // guarded by mu; by scope and key
	deaf bool                   // guarded by mu: no response is stored, as if the process had died before
}

// Begin records a request, or returns what is known of it.
func (k *keys) Begin(_ context.Context, r api.Request) (api.Request, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	known, ok := k.rows[r.Scope+"\x00"+r.Key]
	if !ok {
		k.rows[r.Scope+"\x00"+r.Key] = r
		return r, nil
	}
	if known.Hash != r.Hash {
		return api.Request{}, fmt.Errorf("begin: %w", api.KeyReused)
	}
	return known, nil
}

// End stores the first answer.
func (k *keys) End(_ context.Context, r api.Request) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.deaf {
		return perdure.Storage
	}
	if known := k.rows[r.Scope+"\x00"+r.Key]; known.Status == 0 {
		r.Body = bytes.Clone(r.Body)
		k.rows[r.Scope+"\x00"+r.Key] = r
	}
	return nil
}

func (k *keys) hear(no bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.deaf = !no
}

func raw(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// tickets is a host's connections.
type tickets struct{}

func (tickets) List(context.Context) ([]engine.Connection, error) {
	return []engine.Connection{{Name: "tickets", Kind: "mcp_stdio", Command: "tickets", State: engine.ConnectionUnknown, Tools: []string{}}}, nil
}

func (t tickets) Test(ctx context.Context, name string, _ tool.Ports) (engine.Connection, error) {
	all, err := t.List(ctx)
	if name != all[0].Name {
		return engine.Connection{}, fmt.Errorf("connection %q: %w", name, perdure.NotFound)
	}
	all[0].State = engine.ConnectionReady
	return all[0], err
}
