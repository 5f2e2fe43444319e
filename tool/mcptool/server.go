package mcptool

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
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
	// Shared says that all sessions share one connection, which is opened with an empty session:
	// all see the state that the server keeps with it.
	Shared  bool
	Classes map[string]perdure.EffectClass // see Config
	Only    []string                       // the tools offered to agents, by the server's names; empty: all
	// Agents are the tools that ask another agent, by the server's names with * as wildcard: their
	// tasks are of kind external_agent.
	Agents  []string
	Handles Handles // see Config
}

// idleConnection is how long an unused connection stays open.
const idleConnection = 10 * time.Minute

// Server is the tools of one MCP server with its connections. It is safe for concurrent use.
type Server struct {
	cfg   ServerConfig
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
	known := map[string]bool{}
	for _, def := range cfg.Definitions {
		known[def.Name] = true
		if len(cfg.Only) > 0 && !slices.Contains(cfg.Only, def.Name) {
			continue
		}
		s.tools = append(s.tools, s.remote(def))
	}
	for _, pattern := range cfg.Agents {
		if _, err := path.Match(pattern, ""); err != nil || !slices.ContainsFunc(slices.Collect(maps.Keys(known)), func(name string) bool { return matches(pattern, name) }) {
			return nil, fmt.Errorf("MCP server %s: %w: no tool matches the agent pattern %q", cfg.Name, perdure.Invalid, pattern)
		}
	}
	for _, name := range slices.Concat(cfg.Only, slices.Sorted(maps.Keys(cfg.Classes))) {
		if !known[name] {
			return nil, fmt.Errorf("MCP server %s: %w: it has no tool %q", cfg.Name, perdure.Invalid, name)
		}
	}
	return s, nil
}

// Tools returns the tools. They are not among the defaults: an agent chooses the capability of
// their server.
func (s *Server) Tools() []*Remote { return s.tools }

// remote creates a tool for agents. The server's hints are shown, but do not determine the effect
// class (TL10).
func (s *Server) remote(def *mcp.Tool) *Remote {
	spec := tool.Spec{
		Name: longName(s.cfg.Name, def.Name), DisplayName: def.Title, Class: cmp.Or(s.cfg.Classes[def.Name], perdure.AtMostOnce),
		Description: cmp.Or(strings.TrimSpace(def.Description), "The tool "+def.Name+" of the MCP server "+s.cfg.Name+"."),
		Parameters:  schemaOf(def),
		Hints:       tool.Hints{CapabilityID: "mcp_" + s.cfg.Name, CapabilityName: "MCP server " + s.cfg.Name},
	}
	// Set by the operator, like a class.
	if slices.ContainsFunc(s.cfg.Agents, func(pattern string) bool { return matches(pattern, def.Name) }) {
		long := true
		// SA8
		spec.ExternalAgent, spec.SoftBudget, spec.Deadline, spec.Hints.LongRunning = true, tool.Never, agentDeadline, &long
	}
	r := &Remote{of: s.connection, handles: s.cfg.Handles, server: s.cfg.Name, def: def, spec: spec}
	if tool.NewRegistry(r).Err() != nil { // a schema that we cannot check: the server validates the arguments
		r.spec.Parameters = anyObject
	}
	return r
}

// agentDeadline is the maximum duration of a call to another agent.
const agentDeadline = 24 * time.Hour

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

var anyObject = json.RawMessage(`{"type":"object"}`)

// longName returns the name of a server's tool. A name that is too long is cut and gets a digest.
func longName(server, name string) string {
	long := server + "__" + strings.Map(safeRune, name)
	if len(long) <= 64 {
		return long
	}
	sum := sha256.Sum256([]byte(long))
	return long[:55] + "_" + hex.EncodeToString(sum[:4])
}

// schemaOf returns a tool's schema, or one of any object if it has external references (S9).
func schemaOf(def *mcp.Tool) json.RawMessage {
	text, err := json.Marshal(def.InputSchema)
	if err != nil || !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return anyObject
	}
	var schema any
	if perdure.DecodeJSON(text, &schema) != nil || refersOutside(schema) {
		return anyObject
	}
	return text
}

func refersOutside(schema any) bool {
	switch v := schema.(type) {
	case map[string]any:
		for key, value := range v {
			ref, isText := value.(string)
			switch key {
			case "$ref", "$dynamicRef":
				if isText && !strings.HasPrefix(ref, "#") {
					return true
				}
			case "$id":
				if isText {
					return true
				}
			}
			if refersOutside(value) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, refersOutside)
	}
	return false
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
