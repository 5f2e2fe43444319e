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

// ServerConfig says how the tools of one MCP server are given to agents. Name, Definitions and Open are required.
type ServerConfig struct {
	Name        string      // of the server; its tools are NAME__TOOL, and its capability mcp_NAME
	Definitions []*mcp.Tool // as the server said them
	// Open makes a connection. Each session has one of its own, since a server may keep state with a connection.
	Open func(ctx context.Context, session perdure.SessionID) (*Client, error)
	// Shared says that all sessions use one connection, which is opened for no session: what the server keeps with it, all see.
	Shared  bool
	Classes map[string]perdure.EffectClass // as those of Config
	Only    []string                       // the tools that agents get, by the server's names; empty: all
	Agents  []string                       // the tools that ask another agent, by the server's names, with * for any letters: their tasks are of kind external_agent
	Handles Handles                        // as those of Config
}

// idleConnection is how long a connection stays that nobody uses.
const idleConnection = 10 * time.Minute

// Server is the tools of one MCP server, with its connections. It is safe for concurrent use.
type Server struct {
	cfg   ServerConfig
	tools []*Remote

	mu    sync.Mutex
	open  map[perdure.SessionID]*opened // guarded by mu; of no session where it is shared
	ended bool                          // guarded by mu
}

// opened is a connection, or one that is being made.
type opened struct {
	made   chan struct{} // closed when it is made, or could not be
	client *Client
	err    error
	used   time.Time
	left   bool // who made it did not wait for it
}

// NewServer makes the tools of a server. Invalid: what is wrong with the configuration.
func NewServer(cfg ServerConfig) (*Server, error) {
	if safeName(cfg.Name) != cfg.Name || cfg.Name == "" || len(cfg.Name) > 40 || strings.Contains(cfg.Name, "__") {
		return nil, fmt.Errorf("%w name %q of an MCP server: 1 to 40 letters, digits, - and _, of which no two follow each other", perdure.Invalid, cfg.Name)
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
			return nil, fmt.Errorf("MCP server %s: %w: it has no tool %q that could be an agent", cfg.Name, perdure.Invalid, pattern)
		}
	}
	for _, name := range slices.Concat(cfg.Only, slices.Sorted(maps.Keys(cfg.Classes))) {
		if !known[name] {
			return nil, fmt.Errorf("MCP server %s: %w: it has no tool %q", cfg.Name, perdure.Invalid, name)
		}
	}
	return s, nil
}

// Tools are its tools. They are in no defaults: an agent chooses the capability of their server.
func (s *Server) Tools() []*Remote { return s.tools }

// remote is a tool as agents get it. The server's hints are shown, and choose no class (TL10).
func (s *Server) remote(def *mcp.Tool) *Remote {
	spec := tool.Spec{
		Name: longName(s.cfg.Name, def.Name), DisplayName: def.Title, Class: cmp.Or(s.cfg.Classes[def.Name], perdure.AtMostOnce),
		Description: cmp.Or(strings.TrimSpace(def.Description), "The tool "+def.Name+" of the MCP server "+s.cfg.Name+"."),
		Parameters:  schemaOf(def),
		Hints:       tool.Hints{CapabilityID: "mcp_" + s.cfg.Name, CapabilityName: "MCP server " + s.cfg.Name},
	}
	if slices.ContainsFunc(s.cfg.Agents, func(pattern string) bool { return matches(pattern, def.Name) }) { // the operator's word, as for a class
		long := true
		spec.Agent, spec.SoftBudget, spec.Deadline, spec.Hints.LongRunning = true, tool.Never, agentDeadline, &long // SA8
	}
	r := &Remote{of: s.connection, handles: s.cfg.Handles, server: s.cfg.Name, def: def, spec: spec}
	if tool.NewRegistry(r).Err() != nil { // a schema that we cannot check by: the server checks it
		r.spec.Parameters = anyObject
	}
	return r
}

// agentDeadline is the longest that another agent may take.
const agentDeadline = 24 * time.Hour

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

var anyObject = json.RawMessage(`{"type":"object"}`)

// longName is the name of a server's tool. One that is too long ends with a digest of the whole.
func longName(server, name string) string {
	long := server + "__" + strings.Map(safeRune, name)
	if len(long) <= 64 {
		return long
	}
	sum := sha256.Sum256([]byte(long))
	return long[:55] + "_" + hex.EncodeToString(sum[:4])
}

// schemaOf is a tool's schema, if it is one that refers to nothing outside itself (S9).
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

// connection is the one of a session, made if there is none.
func (s *Server) connection(ctx context.Context, session perdure.SessionID) (*Client, error) {
	if s.cfg.Shared {
		session = ""
	}
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return nil, fmt.Errorf("MCP server %s: %w: this process ends", s.cfg.Name, perdure.Unavailable)
	}
	s.sweep(time.Now())
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
		if ok && c.left { // it says nothing of the server
			return s.connection(ctx, session)
		}
	}
	return c.client, c.err
}

// sweep closes what nobody uses; whoever calls holds mu.
func (s *Server) sweep(now time.Time) {
	for session, c := range s.open {
		select {
		case <-c.made:
		default:
			continue
		}
		if c.err == nil && now.Sub(c.used) > idleConnection && !c.client.busy() {
			delete(s.open, session)
			go func() { _ = c.client.Close(true) }() // nobody uses it any more
		}
	}
}

// Close ends the connections, all at once, and waits no longer than one of them may take. A server that this
// process started ends with the last one, unless calls run there.
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
			case <-time.After(closeTime): // whoever makes it has not seen that its call is over
				return
			}
			if c.err == nil {
				_ = c.client.Close(true) // it is over
			}
		})
	}
	group.Wait()
	return nil
}
