// Package mcptool turns the tools of an MCP server into tools of agents, and runs a broker that
// keeps such a server alive when its client exits.
//
// It may import the root, tool and the MCP SDK. The one thing to know: the id of a call on the wire
// is derived from its idempotency key and execution. So the same call, sent again after a crash, is
// one call to the broker, which still has its answer.
//
// There are two ways to a server. A server on stdio is a child process of a broker ([MaxEnded]):
// the broker survives the engine and holds answers until they are fetched. A server over HTTP
// survives by itself; if it turns a call into a task, the task's handle is stored ([Handles]), so
// that another process can follow it.
package mcptool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// metaCall is the metadata key under which a request names its call.
const metaCall = "io.github.perdure/call"

// legacyVersion is requested if the server does not support the latest version.
const legacyVersion = "2025-11-25"

// modernVersion is the first version without sessions, in which calls may become tasks.
const modernVersion = "2026-07-28"

// Config describes a server and how to reach it. Either Dial or URL is required.
type Config struct {
	Name string // of the server, for the log; may be empty
	// Dial connects to the server's broker, and starts one if there is none. It is called again
	// when the connection is lost.
	Dial func(ctx context.Context) (io.ReadWriteCloser, error)
	URL  string       // of a server over HTTP, instead of Dial
	HTTP *http.Client // HTTP client, with its transport; required with URL

	// By the server's tool names; a tool without a class is at_most_once (TL10).
	Classes map[string]perdure.EffectClass
	Version string // of this client; empty: dev
	// Nil: a call that the server turns into a task is lost with this process.
	Handles Handles
	// Era is the protocol version that the server is known to support; empty: unknown.
	Era            string
	OnVersion      func(era string) // called with the version if it differs from Era; may be nil
	OnToolsChanged func()           // called when the server's list of tools has changed; may be nil
	// Patience is the timeout of requests other than calls, such as polls; 0: 30 s.
	Patience time.Duration
	// Startup is the timeout for connecting, which includes the start of the server; 0:
	// DefaultStartup.
	Startup time.Duration
	// Probe is how long a server may take to answer the request of the newest protocol version
	// before the older handshake is used; 0: 3 s.
	Probe time.Duration
	Log   *slog.Logger // nil: discarded
}

// Client is a connection to an MCP server. A lost connection is made again when it is needed. It is
// safe for concurrent use.
type Client struct {
	cfg        Config
	mcp        *mcp.Client
	connecting chan struct{} // capacity 1: its holder makes the connection

	mu            sync.Mutex
	now           *connection         // guarded by mu; nil: not connected
	era           string              // guarded by mu; see Config.Era
	calls         map[string]*running // guarded by mu; by id on the wire
	mirroredTasks bool                // guarded by mu; some tool has arguments that must be copied to HTTP headers
	changed       bool                // guarded by mu; the server's tools have changed since they were listed
	abandoned     []*connection       // guarded by mu; connections whose session the server lost
	noisy         bool                // guarded by mu; the server has sent something that is no message
	backOffUntil  time.Time           // guarded by mu; the server asked not to be contacted before
}

// running is a call that waits for its answer.
type running struct {
	env    tool.Env
	result json.RawMessage // as received
	events []toolEvent     // guarded by the client's mu; received and not recorded yet
	emits  bool            // guarded by the client's mu; a goroutine of emitting records events
	// emitting has the goroutine that records events.
	emitting sync.WaitGroup
}

// metaEvent is the metadata key of a progress notification under which a server reports an event of
// its own.
const metaEvent = "io.github.perdure/event"

// toolEvent is an event that a server reports about a call.
type toolEvent struct {
	Name string          `json:"name"`
	Data json.RawMessage `json:"data"`
}

// Open connects to a server.
func Open(ctx context.Context, cfg Config) (*Client, error) {
	if (cfg.Dial == nil) == (cfg.URL == "") || cfg.URL != "" && (cfg.HTTP == nil || cfg.HTTP.Transport == nil) {
		return nil, fmt.Errorf("open MCP client: %w configuration: either Dial, or URL and HTTP, are required", perdure.Invalid)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Version = cmp.Or(cfg.Version, "dev")
	if cfg.Patience <= 0 {
		cfg.Patience = 30 * time.Second
	}
	if cfg.Startup <= 0 {
		cfg.Startup = DefaultStartup
	}
	if cfg.Probe <= 0 {
		cfg.Probe = 3 * time.Second
	}
	c := &Client{cfg: cfg, era: cfg.Era, calls: map[string]*running{}, connecting: make(chan struct{}, 1)}
	caps := &mcp.ClientCapabilities{}
	caps.AddExtension(extension, nil)
	c.mcp = mcp.NewClient(&mcp.Implementation{Name: "perdure", Version: cfg.Version}, &mcp.ClientOptions{
		Logger: cfg.Log, Capabilities: caps,
		ElicitationHandler: func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return c.elicit(ctx, r.Params)
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { c.progress(r.Params) },
	})
	c.mcp.AddReceivingMiddleware(notForwarded, c.listChanged)
	if err := knowTasks(c.mcp); err != nil {
		return nil, err
	}
	if _, _, err := c.connected(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// Definitions lists the server's tools.
func (c *Client) Definitions(ctx context.Context) ([]*mcp.Tool, error) {
	session, _, err := c.connected(ctx)
	if err != nil {
		return nil, err
	}
	all, err := c.list(ctx, session)
	if err != nil {
		return nil, fmt.Errorf("list the tools of the MCP server: %w", err)
	}
	for _, t := range all {
		if bytes.Contains(mustJSON(t.InputSchema), []byte(`"x-mcp-header"`)) {
			c.mu.Lock()
			c.mirroredTasks = true
			c.mu.Unlock()
		}
	}
	return all, nil
}

// maxTools is the maximum number of tools of one server. It protects against a list without an end.
const maxTools = 2_000

// handleNotification registers a running call until end is called.
func (c *Client) handleNotification(id string, env tool.Env) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := &running{env: env}
	c.calls[id] = of
	return func() {
		c.mu.Lock()
		delete(c.calls, id)
		c.mu.Unlock()
		of.emitting.Wait() // the call may not emit once it has ended
	}
}

// receivedEvent queues the event in the parameters of a progress notification, if there is one. It
// is called in the order in which messages arrive, so that the events of a call come before its
// result.
func (c *Client) receivedEvent(params json.RawMessage) {
	var note struct {
		Token string `json:"progressToken"`
		Meta  struct {
			Event *toolEvent `json:"io.github.perdure/event"`
		} `json:"_meta"`
	}
	if !bytes.Contains(params, []byte(metaEvent)) || perdure.DecodeKnownJSON(params, &note) != nil || note.Meta.Event == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.calls[note.Token]
	if of == nil || of.env.Events == nil || len(of.events) >= tool.MaxEventsOfCall {
		return
	}
	if of.events = append(of.events, *note.Meta.Event); !of.emits {
		of.emits = true
		of.emitting.Go(func() { c.emitEvents(of) })
	}
}

// emitEvents records the queued events of a call, one after another.
func (c *Client) emitEvents(of *running) {
	for {
		c.mu.Lock()
		if len(of.events) == 0 {
			of.emits = false
			c.mu.Unlock()
			return
		}
		next := of.events[0]
		of.events = of.events[1:]
		c.mu.Unlock()
		data := next.Data
		if len(data) == 0 {
			data = json.RawMessage("null")
		}
		if err := of.env.Events.Emit(context.Background(), next.Name, data); err != nil {
			c.cfg.Log.Warn("event of an MCP server not recorded", "server", c.cfg.Name, "call", of.env.Call.ID, "error", err)
		}
	}
}

// received stores the result of a call as the server wrote it. It reports whether the call is
// running.
func (c *Client) received(id string, result json.RawMessage) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.calls[id]
	if of != nil {
		of.result = result
	}
	return of != nil
}

// noise logs a text of the server that is no message: the first one as a warning.
func (c *Client) noise(text []byte, why error) {
	c.mu.Lock()
	level := slog.LevelWarn
	if c.noisy {
		level = slog.LevelDebug
	}
	c.noisy = true
	c.mu.Unlock()
	c.cfg.Log.Log(context.Background(), level, "the MCP server sent something that is no message; it is skipped", "server", c.cfg.Name, "text", shown(text), "reason", why)
}

// requestWritten returns the stored result; nil: none was received.
func (c *Client) requestWritten(id string) json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of := c.calls[id]; of != nil {
		return of.result
	}
	return nil
}

// backOff records that the server asked not to be contacted for a while.
func (c *Client) backOff(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if until := time.Now().Add(d); until.After(c.backOffUntil) {
		c.backOffUntil = until
	}
}

// About returns the server's name and version, and whether it turns calls into tasks; empty while
// not connected.
func (c *Client) About() (server string, tasks bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == nil || c.now.session.InitializeResult() == nil {
		return "", false
	}
	if info := c.now.session.InitializeResult().ServerInfo; info != nil {
		server = strings.TrimSpace(info.Name + " " + info.Version)
	}
	return server, makesTasks(c.now.session)
}

// busy reports whether calls are running.
func (c *Client) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls) > 0
}

// backingOff returns how long the server asked not to be contacted.
func (c *Client) backingOff() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Until(c.backOffUntil)
}

// elicit passes a question of the server to people. The protocol does not say to which call the
// question belongs, so it works only while exactly one call is running.
func (c *Client) elicit(ctx context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	c.mu.Lock()
	all := slices.Collect(maps.Values(c.calls))
	c.mu.Unlock()
	if len(all) != 1 {
		return nil, fmt.Errorf("cannot tell which of %d running calls the question belongs to, so it was not passed on", len(all))
	}
	reply, err := ask(ctx, all[0].env, OpenQuestion{Prompt: p.Message, Schema: mustJSON(p.RequestedSchema)})
	if err != nil {
		return nil, fmt.Errorf("no person can be asked here: %w", err)
	}
	result := &mcp.ElicitResult{Action: "accept"}
	err = perdure.DecodeKnownJSON(mustJSON(reply["content"]), &result.Content)
	for name, value := range result.Content {
		result.Content[name] = plainNumber(value)
	}
	return result, err
}

// plainNumber returns a number of a decoded answer as a number of Go: the SDK checks answers
// against the schema of the question by their types, and a json.Number is a string.
func plainNumber(value any) any {
	n, ok := value.(json.Number)
	if !ok {
		return value
	}
	if whole, err := n.Int64(); err == nil {
		return whole
	}
	if f, err := n.Float64(); err == nil {
		return f
	}
	return value
}

// notForwarded refuses requests of servers that Perdure does not pass on to its own client. The SDK
// replaces the text of a method-not-found error by its own, hence the other code.
func notForwarded(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch method {
		case "sampling/createMessage", "roots/list":
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: method + " is not supported: Perdure does not pass it on to its client"}
		}
		return next(ctx, method, req)
	}
}

// listChanged records that the server's tools have changed: the SDK then forgets which arguments it
// copies to headers.
func (c *Client) listChanged(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method == "notifications/tools/list_changed" {
			defer c.toolsChanged()
		}
		return next(ctx, method, req)
	}
}

// toolsChanged records that the tools have changed, and reports whether arguments of some are
// copied to headers.
func (c *Client) toolsChanged() bool {
	c.mu.Lock()
	c.changed = true
	mirrors := c.mirroredTasks
	c.mu.Unlock()
	if c.cfg.OnToolsChanged != nil {
		c.cfg.OnToolsChanged()
	}
	return mirrors
}

// listed lists the tools again if they have changed and arguments of some are copied to headers.
func (c *Client) listed(ctx context.Context, session *mcp.ClientSession) {
	c.mu.Lock()
	again := c.changed && c.mirroredTasks
	c.changed = false
	c.mu.Unlock()
	if again {
		_, _ = c.list(ctx, session) // a server that requires headers reports a missing one itself
	}
}

// progress passes a progress notification on to the sink of its call.
func (c *Client) progress(p *mcp.ProgressNotificationParams) {
	token, _ := p.ProgressToken.(string)
	c.mu.Lock()
	of := c.calls[token]
	c.mu.Unlock()
	if of == nil {
		return
	}
	sink := of.env.Report()
	sink.Progress(p.Progress, p.Total, p.Message)
	if p.Message != "" {
		sink.Status(p.Message)
	}
}
