// Package mcpserver serves tools to MCP clients: slow calls are durable tasks, on the wire of 2026-07-28 with the Tasks
// extension, on that of 2025-11-25, and as ordinary tools for clients that know neither.
//
// It may import the root, engine, tool, telemetry and the MCP SDK. The one thing to know: there is no second record. A call is a task of its
// principal's session, committed by [engine.HostCalls] before anything is answered (M1); every wire shows that record.
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

// maxBudget is the longest that a call without a task may keep its client waiting (M9).
const maxBudget = 50 * time.Second

// Whether a call may become a task for the clients of 2025-11-25, in the words of that wire.
const (
	TaskOptional  = "optional"
	TaskRequired  = "required"
	TaskForbidden = "forbidden"
)

// Principal is who calls. Everything of a principal's is in one session, which nobody else sees (M5).
type Principal struct {
	ID      string // stable, never reused; the session is derived from it
	Approve bool   // has the scope to approve: approvals are put to it (M10)
	// Who is whom the engine is asked for. nil: the local operator.
	Who *access.Principal
	// Audience is whom the credential was made for; it must name Config.Resource. nil: the credential is this server's own.
	Audience []string
}

// Exposed marks a tool for MCP clients.
type Exposed struct {
	Name string // in the engine
	As   string // as clients call it; empty: Name
	// Rejoin is how long a call without a key joins one of the same content whose reply was not written whole (M4).
	// 0: 10 min; negative: never.
	Rejoin time.Duration
	Task   string // empty: TaskOptional
	// Verbatim says that the tool's result is an MCP result already, to be handed on as it is.
	Verbatim bool
	// Definition is shown to clients instead of what the engine says of the tool; its name is set. nil: the engine's.
	Definition *mcp.Tool
	First      []Question // asked before the call is made (MRTR); the answers are arguments
}

// Question is asked of the client's person before a call is made: its answer is the argument named Key.
type Question struct {
	Key    string
	Prompt string
	Schema []byte // JSON Schema of an object
	Answer string // the property of that object which is the argument; empty: Key
}

// Config is what a server is made of. Engine and Tools are required, and Verify unless it is Local.
type Config struct {
	Engine engine.Engine
	Tools  []Exposed
	// Verify says whose a bearer token is. An error refuses it (401).
	Verify func(ctx context.Context, token string) (Principal, error)
	// Local is the principal where nobody else can connect: on stdio, and on a Unix socket which only its owner may open.
	Local *Principal
	// Resource is this server's own identifier, for which tokens must have been made; empty: audiences are not looked at.
	Resource string
	// Origins are the web pages that may call, beside those of the server's own host (S15).
	Origins []string

	Name       string        // of the server; empty: perdure
	Version    string        // empty: dev
	SoftBudget time.Duration // that a call without a task is waited for; 0 or more than 50 s: 50 s (M9)
	PureBudget time.Duration // that a pure call is waited for by a client with Tasks; 0: 10 s (M2)
	Keep       time.Duration // a result after its task's end; 0: 24 h (M8)
	Ping       time.Duration // after which a stream that says nothing says that it is there; 0: 15 s
	Command    string        // by which people resolve and approve, as far as its verbs; empty: perdure
	Log        *slog.Logger  // nil: discarded
	Extend     func(*mcp.Server)
	// Complete answers completion/complete, where Extend adds something to complete. nil: nothing does.
	Complete func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error)
}

// Server serves MCP. It is safe for concurrent use.
type Server struct {
	cfg   Config
	mcp   *mcp.Server
	tools map[string]exposed // by the name that clients call
	seal  seal
	http  http.Handler
	paces paces
	// marker is the token of progress that is a notice of ours (see notice). Nobody else knows it.
	marker string
	group  sync.WaitGroup // of what tells the clients of the older wire

	mu       sync.Mutex
	sessions map[string]perdure.SessionID // guarded by mu; by principal
	replies  map[string]*reply            // guarded by mu; on their way, see underWay

	listeners map[string]int                   // guarded by mu; subscriptions, by principal
	followed  map[*mcp.ServerSession]*listened // guarded by mu; what clients of the older wire are told
}

// exposed is a marked tool with what the engine says of it.
type exposed struct {
	Exposed
	tool engine.Tool
}

// New checks the configuration and makes a server. Invalid: what is missing, among it a marked tool that is not there.
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
		listeners: map[string]int{}, followed: map[*mcp.ServerSession]*listened{},
	}
	rand.Read(s.seal.key[:]) // never fails
	caps := &mcp.ServerCapabilities{}
	if cfg.Extend != nil {
		caps.Logging = &mcp.LoggingCapabilities{} //nolint:staticcheck // of what is added by others
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
	if cfg.Extend != nil {
		cfg.Extend(s.mcp)
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
	cfg.Keep = cmp.Or(cfg.Keep, 24*time.Hour)
	cfg.Ping = cmp.Or(cfg.Ping, 15*time.Second)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return cfg
}

// Close ends the sessions of clients of the older wire. What runs goes on.
func (s *Server) Close() {
	for session := range s.mcp.Sessions() {
		_ = session.Close() // it is over
	}
	s.group.Wait()
}

// expose registers the marked tools.
func (s *Server) expose(ctx context.Context) error {
	known, err := s.cfg.Engine.Tools(ctx)
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
			return fmt.Errorf("%w configuration: there is no tool %s to expose", perdure.Invalid, marked.Name)
		}
		marked.As, marked.Task = cmp.Or(marked.As, marked.Name), cmp.Or(marked.Task, TaskOptional)
		x := exposed{marked, t}
		if err := s.show(x.definition()); err != nil {
			s.cfg.Log.Warn("a tool cannot be shown to MCP clients, and is left out", "tool", marked.As, "error", err)
			continue
		}
		s.tools[marked.As] = x
	}
	return nil
}

// show registers a definition. The SDK panics at one that it cannot serve, which another server may have written.
func (s *Server) show(t *mcp.Tool) (err error) {
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("%w definition: %v", perdure.Invalid, why)
		}
	}()
	s.mcp.AddTool(t, unreachable)
	return nil
}

// forget lets the next call look for the session of a principal anew.
func (s *Server) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, id)
}

// session is the one session of a principal's calls (M5).
func (s *Server) session(ctx context.Context, p Principal) (perdure.SessionID, error) {
	s.mu.Lock()
	id, ok := s.sessions[p.ID]
	s.mu.Unlock()
	if ok {
		return id, nil
	}
	sum := sha256.Sum256([]byte("perdure/mcp/1\x00" + p.ID))
	id = perdure.FormatID[perdure.SessionID]([16]byte(sum[:16]))
	if _, err := s.cfg.Engine.NewSessionAs(ctx, id, perdure.Agent{Name: "mcp", Title: "MCP calls of " + p.ID}); err != nil {
		return "", fmt.Errorf("session of %s: %w", p.ID, err)
	}
	s.mu.Lock()
	s.sessions[p.ID] = id
	s.mu.Unlock()
	return id, nil
}
