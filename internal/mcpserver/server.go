// Package mcpserver serves tools to MCP clients. Slow calls are durable tasks: through the Tasks
// extension of 2026-07-28, through the tasks of 2025-11-25, and as ordinary tools with task tools
// beside them for clients that support neither.
//
// It may import the root, engine, tool, telemetry and the MCP SDK. The one thing to know: there is
// no second record. A call is a task in the session of its principal, committed by
// [engine.HostCalls] before any response (M1), and each protocol version shows that record.
//
// A request passes through two layers of this package. The front (http.go, stdio.go) adapts what
// the SDK does not know; the receiving middleware (wire.go) answers everything about tasks and
// passes the rest on to the SDK. In this package, "modern" means 2026-07-28 or later and "legacy"
// means 2025-11-25.
package mcpserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/access"
)

// maxBudget is the maximum time that a call may keep a client without Tasks waiting (M9).
const maxBudget = 50 * time.Second

// Whether a call may become a task for clients of 2025-11-25. The values are those of the protocol.
const (
	TaskOptional  = "optional"
	TaskRequired  = "required"
	TaskForbidden = "forbidden"
)

// Principal is an authenticated caller. All calls of a principal are in one session, which no other
// principal sees (M5).
type Principal struct {
	ID      string // stable, never reused; the session is derived from it
	Approve bool   // has the scope to approve: it is asked for approvals (M10)
	// Access is the principal towards the engine. nil: the local operator.
	Access *access.Principal
	// Audience names the servers for which the credential was issued; it must contain
	// Config.Resource. nil: the credential was issued by this server.
	Audience []string
}

// Exposed makes a tool available to MCP clients.
type Exposed struct {
	Name       string // name in the engine
	PublicName string // name for clients; empty: Name
	// RejoinWindow is how long a call without a key joins an earlier one with the same content
	// whose reply was not written completely (M4). 0: 10 min; negative: never.
	RejoinWindow time.Duration
	Task         string // empty: TaskOptional
	// Verbatim states that the tool's result is already an MCP result, which is passed on
	// unchanged.
	Verbatim bool
	// Definition replaces the engine's description of the tool; its name is overwritten. nil: the
	// engine's.
	Definition *mcp.Tool
	InputFirst []Question // asked before the call is made; the answers become arguments
}

// Question is put to the person at the client before a call is made. The answer becomes the
// argument Key.
type Question struct {
	Key            string
	Prompt         string
	Schema         []byte // JSON Schema of an object
	AnswerProperty string // property of the answer that becomes the argument; empty: Key
}

// Config is the configuration of a server. Engine and Tools are required, and either Verify or
// Local.
type Config struct {
	Engine engine.Engine
	Tools  []Exposed
	// Verify returns the principal of a bearer token. An error refuses the token (401).
	Verify func(ctx context.Context, token string) (Principal, error)
	// Local is the principal where only one can connect: on stdio, and on a Unix socket that only
	// its owner may open.
	Local *Principal
	// Resource is this server's identifier, for which tokens must have been issued; empty:
	// audiences are not checked.
	Resource string
	// Origins are the web origins allowed in addition to the server's own host (S15).
	Origins []string

	Name       string        // server name; empty: perdure
	Version    string        // empty: dev
	SoftBudget time.Duration // how long a call without a task waits; 0 or more than 50 s: 50 s (M9)
	PureBudget time.Duration // how long a pure call waits for a client with Tasks; 0: 10 s (M2)
	ResultTTL  time.Duration // how long results are kept after their task has ended; 0: 24 h (M8)
	Ping       time.Duration // interval of comments on a silent stream; 0: 15 s
	Command    string        // start of commands shown to people, up to the verb; empty: perdure
	Log        *slog.Logger  // nil: discarded
	ExtendSDK  func(*mcp.Server)
	// Complete answers completion/complete, if Extend adds something to complete. nil: there are no
	// completions.
	Complete func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error)
}

// Server serves MCP. It is safe for concurrent use.
type Server struct {
	cfg   Config
	mcp   *mcp.Server
	tools map[string]exposed // by the name for clients
	seal  seal
	http  http.Handler
	polls pollLimiter
	// marker is the secret token of progress notifications that wrap other notifications (see
	// notice).
	marker string
	group  sync.WaitGroup // of the goroutines that notify clients of 2025-11-25

	mu       sync.Mutex
	sessions map[string]perdure.SessionID // guarded by mu; by principal
	replies  map[string]*reply            // guarded by mu; being sent, see registerReply

	listeners map[string]int                    // guarded by mu; number of subscriptions, by principal
	followed  map[*mcp.ServerSession]*taskWatch // guarded by mu; tasks followed by clients of 2025-11-25
}

// exposed is an exposed tool with its engine entry.
type exposed struct {
	Exposed
	tool engine.Tool
}

// New checks the configuration and creates a server. An Invalid error names what is missing, which
// may be a tool to expose.
func New(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Engine == nil {
		return nil, fmt.Errorf("new MCP server: %w configuration: Engine is required", perdure.Invalid)
	}
	if cfg.Verify == nil && cfg.Local == nil {
		return nil, fmt.Errorf("new MCP server: %w configuration: Verify or Local is required", perdure.Invalid)
	}
	cfg = withDefaults(cfg)
	s := &Server{
		cfg: cfg, tools: map[string]exposed{}, sessions: map[string]perdure.SessionID{}, replies: map[string]*reply{}, marker: rand.Text(),
		listeners: map[string]int{}, followed: map[*mcp.ServerSession]*taskWatch{},
	}
	rand.Read(s.seal.key[:]) // never fails
	caps := &mcp.ServerCapabilities{}
	if cfg.ExtendSDK != nil {
		caps.Logging = &mcp.LoggingCapabilities{} //nolint:staticcheck // for the features added by Extend
	}
	caps.AddExtension(extension, nil)
	caps.AddExtension(metaKey, nil)
	s.mcp = mcp.NewServer(&mcp.Implementation{Name: cfg.Name, Version: cfg.Version}, &mcp.ServerOptions{
		Capabilities: caps, Logger: cfg.Log, CompletionHandler: cfg.Complete,
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	if err := s.expose(ctx); err != nil {
		return nil, fmt.Errorf("new MCP server: %w", err)
	}
	if err := s.taskMethods(); err != nil {
		return nil, fmt.Errorf("new MCP server: %w", err)
	}
	s.taskTools()
	if cfg.ExtendSDK != nil {
		cfg.ExtendSDK(s.mcp)
	}
	s.mcp.AddReceivingMiddleware(s.receive)
	s.http = s.front()
	return s, nil
}

func withDefaults(cfg Config) Config {
	cfg.Name = cmp.Or(cfg.Name, "perdure")
	cfg.Version = cmp.Or(cfg.Version, "dev")
	cfg.Command = cmp.Or(cfg.Command, "perdure")
	if cfg.SoftBudget <= 0 || cfg.SoftBudget > maxBudget {
		cfg.SoftBudget = maxBudget
	}
	cfg.PureBudget = cmp.Or(cfg.PureBudget, 10*time.Second)
	cfg.ResultTTL = cmp.Or(cfg.ResultTTL, 24*time.Hour)
	cfg.Ping = cmp.Or(cfg.Ping, 15*time.Second)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return cfg
}

// Close ends the sessions of clients of 2025-11-25. Running tasks continue.
func (s *Server) Close() {
	for session := range s.mcp.Sessions() {
		_ = session.Close() // an error changes nothing
	}
	s.group.Wait()
}

// expose registers the exposed tools.
func (s *Server) expose(ctx context.Context) error {
	known, err := s.cfg.Engine.Tools().List(ctx)
	if err != nil {
		return err
	}
	byName := map[string]engine.Tool{}
	for _, t := range known {
		byName[t.Name] = t
	}
	for _, marked := range s.cfg.Tools {
		t, ok := byName[marked.Name]
		if !ok {
			return fmt.Errorf("%w configuration: the tool %s to expose does not exist", perdure.Invalid, marked.Name)
		}
		marked.PublicName, marked.Task = cmp.Or(marked.PublicName, marked.Name), cmp.Or(marked.Task, TaskOptional)
		x := exposed{marked, t}
		if err := s.listTool(x.definition()); err != nil {
			s.cfg.Log.Warn("tool not exposed to MCP clients: invalid definition", "tool", marked.PublicName, "error", err)
			continue
		}
		s.tools[marked.PublicName] = x
	}
	return nil
}

// listTool registers a definition. The SDK panics if it cannot serve one, for example one that
// another server wrote.
func (s *Server) listTool(t *mcp.Tool) (err error) {
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("%w definition: %v", perdure.Invalid, why)
		}
	}()
	s.mcp.AddTool(t, unreachable)
	return nil
}

// forgetSession makes the next call look up the session of a principal again.
func (s *Server) forgetSession(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, id)
}

// session returns the one session of a principal's calls (M5).
func (s *Server) session(ctx context.Context, p Principal) (perdure.SessionID, error) {
	s.mu.Lock()
	id, ok := s.sessions[p.ID]
	s.mu.Unlock()
	if ok {
		return id, nil
	}
	sum := sha256.Sum256([]byte("perdure/mcp/1\x00" + p.ID))
	id = perdure.FormatID[perdure.SessionID]([16]byte(sum[:16]))
	if _, err := s.cfg.Engine.Sessions().CreateAs(ctx, id, perdure.Agent{Name: "mcp", Title: "MCP calls of " + p.ID}); err != nil {
		return "", fmt.Errorf("session of %s: %w", p.ID, err)
	}
	s.mu.Lock()
	s.sessions[p.ID] = id
	s.mu.Unlock()
	return id, nil
}
