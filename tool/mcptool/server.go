package mcptool

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// ServerConfig describes how the tools of one MCP server are offered to agents. Name, Definitions
// and Open are required.
type ServerConfig struct {
	Name        string      // server name; its tools are named NAME__TOOL, and its capability mcp_NAME
	Definitions []*mcp.Tool // as reported by the server
	// Open makes a connection. Each session has its own, because a server may keep state with a
	// connection.
	Open func(ctx context.Context, session perdure.SessionID) (*Client, error)
	// BeforeCall is called with what a call may reach, before the call is sent, for instance to
	// fetch the credentials of its session; an error refuses the call. nil: nothing is done.
	BeforeCall func(ctx context.Context, env tool.Env) error
	// Shared says that all sessions share one connection, which is opened with an empty session:
	// all see the state that the server keeps with it.
	Shared  bool
	Classes map[string]perdure.EffectClass // see Config
	Only    []string                       // the tools offered to agents, by the server's names; empty: all
	// Agents are the tools that ask another agent, by the server's names with * as wildcard: their
	// tasks are of kind external_agent.
	Agents []string
	// SoftBudget is how long a call of any tool may keep its turn waiting, and SoftBudgets replaces
	// it for single tools, by the server's names. 0: that of the engine; tool.Never: for ever.
	SoftBudget  time.Duration
	SoftBudgets map[string]time.Duration
	Handles     Handles      // see Config
	Log         *slog.Logger // nil: discarded
}

// idleConnection is how long an unused connection stays open.
const idleConnection = 10 * time.Minute

// Server is the tools of one MCP server with its connections. It is safe for concurrent use.
type Server struct {
	cfg   ServerConfig
	log   *slog.Logger // names the server
	tools []*Remote

	mu    sync.Mutex
	open  map[perdure.SessionID]*opened // guarded by mu; a shared one has the empty session
	ended bool                          // guarded by mu
}

// opened is a connection, possibly still being made.
type opened struct {
	made   chan struct{} // closed when it is made, or has failed
	client *Client
	err    error
	used   time.Time
	left   bool // the attempt ended with its caller's ctx
}

// NewServer creates the tools of a server. Invalid: what is wrong with the configuration.
func NewServer(cfg ServerConfig) (*Server, error) {
	if safeName(cfg.Name) != cfg.Name || cfg.Name == "" || len(cfg.Name) > 40 || strings.Contains(cfg.Name, "__") {
		return nil, fmt.Errorf("%w name %q of an MCP server: use 1 to 40 letters, digits, - and single _", perdure.Invalid, cfg.Name)
	}
	s := &Server{cfg: cfg, open: map[perdure.SessionID]*opened{}}
	if s.log = cfg.Log; s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.log = s.log.With("server", cfg.Name)
	for _, t := range named(cfg.Definitions, cfg.Name+"__", s.log) { // also of those that are not offered, so that no name changes with them
		if len(cfg.Only) == 0 || slices.Contains(cfg.Only, t.def.Name) {
			s.tools = append(s.tools, s.remote(t))
		}
	}
	for _, pattern := range cfg.Agents {
		if _, err := path.Match(pattern, ""); err != nil {
			return nil, fmt.Errorf("MCP server %s: %w agent pattern %q", cfg.Name, perdure.Invalid, pattern)
		}
	}
	s.warnOfMissing()
	return s, nil
}

// warnOfMissing names the settings of tools that the server does not have. It may have had them
// before, so the others work all the same.
func (s *Server) warnOfMissing() {
	equal := func(name, tool string) bool { return name == tool }
	for _, setting := range []struct {
		name  string
		tools []string
		names func(given, tool string) bool
	}{
		{"soft_budgets", slices.Sorted(maps.Keys(s.cfg.SoftBudgets)), equal},
		{"tools", s.cfg.Only, equal}, {"classes", slices.Sorted(maps.Keys(s.cfg.Classes)), equal}, {"agents", s.cfg.Agents, matches},
	} {
		for _, given := range setting.tools {
			if !slices.ContainsFunc(s.cfg.Definitions, func(def *mcp.Tool) bool { return setting.names(given, def.Name) }) {
				s.log.Warn("setting ignored: the MCP server has no such tool", "setting", setting.name, "tool", given)
			}
		}
	}
}

// WithDefinitions returns the same server with other tools. Both use the connections of the first
// one, which is closed for both.
func (s *Server) WithDefinitions(defs []*mcp.Tool) (*Server, error) {
	cfg := s.cfg
	cfg.Definitions = defs
	made, err := NewServer(cfg)
	if err != nil {
		return nil, err
	}
	for _, t := range made.tools {
		t.of = s.connection
	}
	return made, nil
}

// Tools returns the tools. They are not among the defaults: an agent chooses the capability of
// their server.
func (s *Server) Tools() []*Remote { return s.tools }

// remote creates a tool for agents. The server's hints are shown, but do not determine the effect
// class (TL10).
func (s *Server) remote(t namedTool) *Remote {
	def := t.def
	schema := schemaOf(def)
	if len(schema.Left) > 0 {
		s.log.Debug("arguments of an MCP tool are not checked completely here; its server checks them", "tool", def.Name,
			"left", schema.Left)
	}
	spec := tool.Spec{
		Name: t.name, DisplayName: def.Title, Class: cmp.Or(s.cfg.Classes[def.Name], perdure.AtMostOnce),
		Description: cmp.Or(strings.TrimSpace(def.Description), "The tool "+def.Name+" of the MCP server "+s.cfg.Name+"."),
		Parameters:  schema.Parameters,
		Checked:     schema.Checked,
		Hints:       tool.Hints{CapabilityID: "mcp_" + s.cfg.Name, CapabilityName: "MCP server " + s.cfg.Name},
	}
	if said := def.Annotations; said != nil {
		spec.Hints.ReadOnly, spec.Hints.Idempotent = &said.ReadOnlyHint, &said.IdempotentHint
		spec.Hints.Destructive = said.DestructiveHint
	}
	// Set by the operator, like a class.
	if slices.ContainsFunc(s.cfg.Agents, func(pattern string) bool { return matches(pattern, def.Name) }) {
		long := true
		// SA8
		spec.ExternalAgent, spec.SoftBudget, spec.Deadline, spec.Hints.LongRunning = true, tool.Never, agentDeadline, &long
	}
	if !spec.ExternalAgent {
		spec.SoftBudget = s.cfg.SoftBudget
	}
	spec.SoftBudget = cmp.Or(s.cfg.SoftBudgets[def.Name], spec.SoftBudget)
	return &Remote{of: s.connection, handles: s.cfg.Handles, beforeCall: s.cfg.BeforeCall, server: s.cfg.Name, def: def, spec: spec}
}

// agentDeadline is the maximum duration of a call to another agent.
const agentDeadline = 24 * time.Hour

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

var anyObject = json.RawMessage(`{"type":"object"}`)

// schemaOf reads a tool's schema.
func schemaOf(def *mcp.Tool) tool.ForeignSchema {
	text, err := json.Marshal(def.InputSchema)
	if err != nil {
		text = anyObject
	}
	return tool.ReadForeignSchema(text)
}

// connection returns the connection of a session, and makes it if necessary.
func (s *Server) connection(ctx context.Context, session perdure.SessionID) (*Client, error) {
	if s.cfg.Shared {
		session = ""
	}
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return nil, fmt.Errorf("MCP server %s: %w: this process is shutting down", s.cfg.Name, perdure.Unavailable)
	}
	s.closeIdle(time.Now())
	c, ok := s.open[session]
	if !ok {
		c = &opened{made: make(chan struct{})}
		s.open[session] = c
	}
	c.used = time.Now()
	s.mu.Unlock()
	if !ok {
		c.client, c.err = s.cfg.Open(ctx, session)
		c.left = c.err != nil && ctx.Err() != nil
		close(c.made)
	}
	select {
	case <-c.made:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if c.err != nil { // the next call tries again
		s.mu.Lock()
		if s.open[session] == c {
			delete(s.open, session)
		}
		s.mu.Unlock()
		if ok && c.left { // the failure concerns its caller, not the server
			return s.connection(ctx, session)
		}
	}
	return c.client, c.err
}

// closeIdle closes unused connections. The caller holds mu.
func (s *Server) closeIdle(now time.Time) {
	for session, c := range s.open {
		select {
		case <-c.made:
		default:
			continue
		}
		if c.err == nil && now.Sub(c.used) > idleConnection && !c.client.busy() {
			delete(s.open, session)
			go func() { _ = c.client.Close(true) }() // the connection is not used any more
		}
	}
}

// Close ends all connections at the same time, and waits no longer than one of them takes. A server
// started by this process ends with its last connection, unless calls are running there.
func (s *Server) Close() error {
	s.mu.Lock()
	s.ended = true
	all := s.open
	s.open = map[perdure.SessionID]*opened{}
	s.mu.Unlock()
	var group sync.WaitGroup
	for _, c := range all {
		group.Go(func() {
			select {
			case <-c.made:
			case <-time.After(closeTime): // the opener has not noticed yet that its call is over
				return
			}
			if c.err == nil {
				_ = c.client.Close(true) // an error changes nothing
			}
		})
	}
	group.Wait()
	return nil
}
