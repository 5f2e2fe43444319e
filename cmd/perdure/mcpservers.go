package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/cli/mcp"
	"github.com/perdure/perdure/internal/egress"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/mcptool"
)

// mcpServer is an MCP server whose tools agents can use.
type mcpServer struct {
	Type    string                         `json:"type"` // accepted for compatibility, and ignored
	Command string                         `json:"command"`
	Args    []string                       `json:"args"`
	Env     map[string]string              `json:"env"` // in addition to this program's own
	URL     string                         `json:"url"` // instead of a command
	Headers map[string]string              `json:"headers"`
	Classes map[string]perdure.EffectClass `json:"classes"` // by tool; default: at_most_once
	Tools   []string                       `json:"tools"`   // empty: all
	Agents  []string                       `json:"agents"`  // tools that call another agent; * matches any characters
	Shared  bool                           `json:"shared"`  // one server or connection for all sessions
}

// How long a server may take to report its tools, and how long the report is valid.
const (
	mcpProbeTime   = 20 * time.Second
	mcpProbeMaxAge = 24 * time.Hour
)

// mcpProbe is the stored report of a server, so that not every start needs to contact it.
type mcpProbe struct {
	Of              string      `json:"of"` // digest of the configuration of the connection
	At              time.Time   `json:"at"`
	ProtocolVersion string      `json:"era"`
	Server          string      `json:"server"`
	Tasks           bool        `json:"tasks"` // the server runs calls as tasks
	Tools           []*sdk.Tool `json:"tools"`
}

// mcpServers are the servers of a data directory. The zero value has none.
type mcpServers struct {
	dir string // folder mcp of the data directory
	st  store.Store
	log *slog.Logger
	all []*mcptool.Server

	probes func(name string, of mcpServer, err error) // receives whether a server responded; nil: nobody does
}

// newMCPServers adds the tools of the servers in the file. A server that cannot be reached, and has
// no stored report, is skipped.
func newMCPServers(ctx context.Context, home mcpConfig, s *mcpServers, tools *tool.Registry) error {
	for _, name := range slices.Sorted(maps.Keys(home.Servers)) {
		of := home.Servers[name]
		if err := of.check(); err != nil {
			return fmt.Errorf("MCP server %s of %s: %w", name, mcpFile, err)
		}
		said, err := s.probeOf(ctx, name, of, false)
		if s.probes != nil {
			s.probes(name, of, err)
		}
		if err != nil {
			s.log.Warn("MCP server not reachable, its tools are missing", "server", name, "error", err)
			continue
		}
		server, err := mcptool.NewServer(mcptool.ServerConfig{
			Name: name, Definitions: said.Tools, Shared: of.Shared, Classes: of.Classes, Only: of.Tools,
			Agents: of.Agents, Handles: handlesIn(s.st), Log: s.log,
			Open: func(ctx context.Context, session perdure.SessionID) (*mcptool.Client, error) {
				cfg := mcptool.Config{Era: said.ProtocolVersion, OnToolsChanged: func() { s.stale(name) }}
				return s.opening(ctx, of, cfg, name+"\x00"+string(session))
			},
		})
		if err != nil {
			return fmt.Errorf("%s: %w", mcpFile, err)
		}
		s.offer(server, tools)
		s.all = append(s.all, server)
	}
	return nil
}

// offer registers the tools of a server. A tool whose name another tool of this process has is left
// out, so that one server cannot prevent the start.
func (s *mcpServers) offer(server *mcptool.Server, tools *tool.Registry) {
	for _, t := range server.Tools() {
		name := t.Spec().Name
		why := tool.NewRegistry(t).Err()
		if why == nil && tools.Has(name) {
			why = fmt.Errorf("another tool has its name: %w", perdure.Conflict)
		}
		if why != nil {
			s.log.Warn("MCP tool left out", "capability", t.Spec().Hints.CapabilityID, "tool", name, "error", why)
			continue
		}
		tools.RegisterOptional(t)
	}
}

// check returns what is wrong with the entry of a server.
func (m mcpServer) check() error {
	if (m.Command == "") == (m.URL == "") {
		return fmt.Errorf("%w entry: give either a command or a url", perdure.Invalid)
	}
	for name, class := range m.Classes {
		if !class.Valid() {
			return fmt.Errorf("%w class %q of %s: pure, idempotent or at_most_once", perdure.Invalid, class, name)
		}
	}
	return nil
}

// probeOf returns the report of a server: the stored one if it is less than a day old and anew is
// false, otherwise a new one. If the server does not respond and anew is false, an older report is
// used.
func (s *mcpServers) probeOf(ctx context.Context, name string, of mcpServer, anew bool) (said mcpProbe, err error) {
	said, _ = s.known(name, of)
	if !anew && said.Of != "" && time.Since(said.At) < mcpProbeMaxAge {
		return said, nil
	}
	fresh, err := s.probe(ctx, name, of, said.ProtocolVersion)
	switch {
	case err != nil && said.Of != "" && !anew:
		s.log.Warn("MCP server not reachable, using its stored tools", "server", name, "error", err)
		return said, nil
	case err != nil:
		return said, err
	}
	s.storeProbe(name, fresh)
	return fresh, nil
}

// storeProbe stores the report of a server. After an error it is requested again next time.
func (s *mcpServers) storeProbe(name string, said mcpProbe) {
	text, err := json.Marshal(said)
	if err == nil {
		err = os.MkdirAll(s.dir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(s.storedProbe(name), text, 0o600)
	}
	if err != nil {
		s.log.Warn("storing the report of an MCP server failed", "server", name, "error", err)
	}
}

// storedProbe returns the path of the report of a server.
func (s *mcpServers) storedProbe(name string) string { return filepath.Join(s.dir, name+".json") }

// known returns the stored report of a server.
func (s *mcpServers) known(name string, of mcpServer) (said mcpProbe, ok bool) {
	text, _ := os.ReadFile(s.storedProbe(name)) // a missing report is like an unreadable one
	if perdure.DecodeKnownJSON(text, &said) != nil || said.Of != of.digest() {
		return mcpProbe{}, false
	}
	return said, true
}

// probe requests the report of a server.
func (s *mcpServers) probe(ctx context.Context, name string, of mcpServer, era string) (mcpProbe, error) {
	ctx, cancel := context.WithTimeout(ctx, mcpProbeTime)
	defer cancel()
	said := mcpProbe{Of: of.digest(), At: time.Now().UTC(), ProtocolVersion: era}
	client, err := s.opening(ctx, of, mcptool.Config{Era: era, OnVersion: func(era string) { said.ProtocolVersion = era }},
		"probe\x00"+name)
	if err != nil {
		return said, err
	}
	said.Server, said.Tasks = client.About()
	said.Tools, err = client.Definitions(ctx)
	return said, errors.Join(err, client.Close(true))
}

// stale marks the report of a server as outdated, so that the next start requests a new one.
func (s *mcpServers) stale(name string) {
	path := filepath.Join(s.dir, name+".json")
	var said mcpProbe
	text, err := os.ReadFile(path)
	if err == nil {
		err = perdure.DecodeKnownJSON(text, &said)
	}
	if err == nil && !said.At.IsZero() {
		said.At = time.Time{}
		if text, err = json.Marshal(said); err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
	}
	if err != nil {
		s.log.Warn("marking the report of an MCP server as outdated failed", "server", name, "error", err)
	}
}

// opening opens a connection for the user that whose identifies.
func (s *mcpServers) opening(ctx context.Context, of mcpServer, cfg mcptool.Config,
	whose string) (client *mcptool.Client, err error) {
	cfg.Version, cfg.Log = version().Version, s.log
	if s.st != nil {
		cfg.Handles = handlesIn(s.st)
	}
	if of.URL != "" {
		cfg.URL = of.URL
		if cfg.HTTP, err = of.transport(); err != nil {
			return nil, err
		}
		return mcptool.Open(ctx, cfg)
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(whose + "\x00" + of.digest()))
	k := mcpBroker{socket: filepath.Join(s.dir, hex.EncodeToString(sum[:6])+".sock"),
		log: filepath.Join(s.dir, "servers.log"), command: []string{of.Command}}
	for _, arg := range of.Args {
		k.command = append(k.command, os.ExpandEnv(arg))
	}
	for name, value := range of.Env {
		k.env = append(k.env, name+"="+os.ExpandEnv(value))
	}
	cfg.Dial = k.dial
	return mcptool.Open(ctx, cfg)
}

// digest returns the digest of the configuration of the connection.
func (m mcpServer) digest() string {
	text, _ := json.Marshal([]any{m.Command, m.Args, m.Env, m.URL, m.Headers}) // strings only: it cannot fail
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// transport returns the HTTP client of a server, with its headers.
func (m mcpServer) transport() (*http.Client, error) {
	client, err := egress.ForURL(m.URL)
	if err != nil || len(m.Headers) == 0 {
		return client, err
	}
	to, err := url.Parse(m.URL)
	if err != nil {
		return nil, err
	}
	client.Transport = withHeaders{client.Transport, to.Host, m.Headers}
	return client, nil
}

// withHeaders adds the headers of a server to requests to that server only.
type withHeaders struct {
	next    http.RoundTripper
	host    string
	headers map[string]string
}

func (w withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != w.host {
		return w.next.RoundTrip(r)
	}
	sent := r.Clone(r.Context())
	for name, value := range w.headers {
		sent.Header.Set(name, os.ExpandEnv(value))
	}
	return w.next.RoundTrip(sent)
}

// handlesIn stores the handles of remote tasks in a store.
func handlesIn(st store.Store) mcptool.Handles {
	ports := sessionport.New(sessionport.Config{Store: st})
	return mcptool.InResources(func(call tool.Call) tool.Resources { return ports(call.Session, call).Resources })
}

func (s *mcpServers) Close() error {
	errs := make([]error, len(s.all))
	var group sync.WaitGroup
	for i, server := range s.all {
		group.Go(func() { errs[i] = server.Close() })
	}
	group.Wait()
	return errors.Join(errs...)
}

var _ io.Closer = (*mcpServers)(nil)

// testMCP requests the report of a server.
func testMCP(ctx context.Context, t mcp.TestOptions) (said mcp.TestResult, err error) {
	of := mcpServer{URL: t.URL}
	if len(t.Command) > 0 {
		of.Command, of.Args = t.Command[0], t.Command[1:]
	}
	if t.Name != "" {
		home, err := readMCPConfig(t.Dir)
		if err != nil {
			return said, err
		}
		var ok bool
		if of, ok = home.Servers[t.Name]; !ok {
			return said, fmt.Errorf("%w: %s has no server %q", perdure.NotFound, filepath.Join(t.Dir, mcpFile), t.Name)
		}
	}
	if err := of.check(); err != nil {
		return said, err
	}
	s := &mcpServers{dir: filepath.Join(t.Dir, "mcp"), log: slog.New(slog.DiscardHandler)}
	var found mcpProbe
	if t.Name != "" {
		found, err = s.probeOf(ctx, t.Name, of, true)
	} else {
		found, err = s.probe(ctx, "", of, "")
	}
	if err != nil {
		return said, err
	}
	said = mcp.TestResult{Server: found.Server, ProtocolVersion: found.ProtocolVersion, Tasks: found.Tasks}
	server, err := mcptool.NewServer(mcptool.ServerConfig{Name: cmp.Or(t.Name, "server"), Definitions: found.Tools,
		Classes: of.Classes, Only: of.Tools, Agents: of.Agents})
	if err != nil {
		return said, err
	}
	for _, one := range server.Tools() {
		shown := mcp.TestedTool{Name: one.Spec().Name, Class: one.Spec().Class,
			Title: cmp.Or(one.Spec().DisplayName, one.Spec().Description)}
		if t.Name == "" {
			shown.Name = one.Definition().Name
		}
		said.Tools = append(said.Tools, shown)
	}
	return said, nil
}
