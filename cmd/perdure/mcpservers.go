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

// mcpServer is an MCP server whose tools agents may use.
type mcpServer struct {
	Type    string                         `json:"type"` // as others write it; what is given below says it
	Command string                         `json:"command"`
	Args    []string                       `json:"args"`
	Env     map[string]string              `json:"env"` // beside this program's own
	URL     string                         `json:"url"` // instead of a command
	Headers map[string]string              `json:"headers"`
	Classes map[string]perdure.EffectClass `json:"classes"` // by tool; without one: at_most_once
	Tools   []string                       `json:"tools"`   // empty: all
	Agents  []string                       `json:"agents"`  // the tools that ask another agent, with * for any letters
	Shared  bool                           `json:"shared"`  // one server, or one connection, for all sessions
}

// How long a server may take to say what it has, and how long that is believed.
const (
	mcpProbeTime = 20 * time.Second
	mcpFresh     = 24 * time.Hour
)

// mcpSaid is what a server said of itself, kept so that not every start asks it again.
type mcpSaid struct {
	Of     string      `json:"of"` // a digest of how it is reached
	At     time.Time   `json:"at"`
	Era    string      `json:"era"`
	Server string      `json:"server"`
	Tasks  bool        `json:"tasks"` // it makes tasks of calls
	Tools  []*sdk.Tool `json:"tools"`
}

// mcpServers are the servers of a data directory. The zero value has none.
type mcpServers struct {
	dir string // mcp of the data directory
	st  store.Store
	log *slog.Logger
	all []*mcptool.Server

	told func(name string, of mcpServer, err error) // whether a server answered; nil: nobody asks
}

// newMCPServers gives agents the tools of the servers that the file names. One that cannot be reached, and never was, is left out.
func newMCPServers(ctx context.Context, home mcpHome, s *mcpServers, tools *tool.Registry) error {
	for _, name := range slices.Sorted(maps.Keys(home.Servers)) {
		of := home.Servers[name]
		if err := of.check(); err != nil {
			return fmt.Errorf("MCP server %s of %s: %w", name, mcpFile, err)
		}
		said, err := s.said(ctx, name, of, false)
		if s.told != nil {
			s.told(name, of, err)
		}
		if err != nil {
			s.log.Warn("an MCP server cannot be reached, and its tools are not there", "server", name, "error", err)
			continue
		}
		server, err := mcptool.NewServer(mcptool.ServerConfig{
			Name: name, Definitions: said.Tools, Shared: of.Shared, Classes: of.Classes, Only: of.Tools, Agents: of.Agents, Handles: handlesIn(s.st),
			Open: func(ctx context.Context, session perdure.SessionID) (*mcptool.Client, error) {
				cfg := mcptool.Config{Era: said.Era, Changed: func() { s.stale(name) }}
				return s.opening(ctx, of, cfg, name+"\x00"+string(session))
			},
		})
		if err != nil {
			return fmt.Errorf("%s: %w", mcpFile, err)
		}
		for _, t := range server.Tools() {
			tools.Offer(t)
		}
		s.all = append(s.all, server)
	}
	return nil
}

// check says what is wrong with a server's entry.
func (m mcpServer) check() error {
	if (m.Command == "") == (m.URL == "") {
		return fmt.Errorf("%w: name either a command, or a url", perdure.Invalid)
	}
	for name, class := range m.Classes {
		if !class.Valid() {
			return fmt.Errorf("%w class %q of %s: pure, idempotent or at_most_once", perdure.Invalid, class, name)
		}
	}
	return nil
}

// said is what a server says of itself: as it said within a day, unless it is asked anew, or else as it says now, or said last.
func (s *mcpServers) said(ctx context.Context, name string, of mcpServer, anew bool) (said mcpSaid, err error) {
	said, _ = s.known(name, of)
	if !anew && said.Of != "" && time.Since(said.At) < mcpFresh {
		return said, nil
	}
	fresh, err := s.probe(ctx, name, of, said.Era)
	switch {
	case err != nil && said.Of != "" && !anew:
		s.log.Warn("an MCP server cannot be reached now; its tools are as it said before", "server", name, "error", err)
		return said, nil
	case err != nil:
		return said, err
	}
	s.keep(name, fresh)
	return fresh, nil
}

// keep keeps what a server said. What is not kept is asked again.
func (s *mcpServers) keep(name string, said mcpSaid) {
	text, err := json.Marshal(said)
	if err == nil {
		err = os.MkdirAll(s.dir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(s.kept(name), text, 0o600)
	}
	if err != nil {
		s.log.Warn("what an MCP server says is not kept", "server", name, "error", err)
	}
}

// kept is where it stands what a server said.
func (s *mcpServers) kept(name string) string { return filepath.Join(s.dir, name+".json") }

// known is what a server said last.
func (s *mcpServers) known(name string, of mcpServer) (said mcpSaid, ok bool) {
	text, _ := os.ReadFile(s.kept(name)) // none is as good as one that cannot be read
	if perdure.DecodeKnownJSON(text, &said) != nil || said.Of != of.digest() {
		return mcpSaid{}, false
	}
	return said, true
}

// probe asks a server what it has.
func (s *mcpServers) probe(ctx context.Context, name string, of mcpServer, era string) (mcpSaid, error) {
	ctx, cancel := context.WithTimeout(ctx, mcpProbeTime)
	defer cancel()
	said := mcpSaid{Of: of.digest(), At: time.Now().UTC(), Era: era}
	client, err := s.opening(ctx, of, mcptool.Config{Era: era, Learned: func(era string) { said.Era = era }}, "probe\x00"+name)
	if err != nil {
		return said, err
	}
	said.Server, said.Tasks = client.About()
	said.Tools, err = client.Definitions(ctx)
	return said, errors.Join(err, client.Close(true))
}

// stale forgets when a server said what it has: the next start asks it anew.
func (s *mcpServers) stale(name string) {
	path := filepath.Join(s.dir, name+".json")
	var said mcpSaid
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
		s.log.Warn("an MCP server has other tools, and the next start will not ask for them", "server", name, "error", err)
	}
}

// opening makes a connection for whom names it.
func (s *mcpServers) opening(ctx context.Context, of mcpServer, cfg mcptool.Config, whose string) (client *mcptool.Client, err error) {
	cfg.Version, cfg.Log = version().Version, s.log
	if s.st != nil {
		cfg.Handles = handlesIn(s.st)
	}
	if of.URL != "" {
		cfg.URL = of.URL
		if cfg.HTTP, err = of.way(); err != nil {
			return nil, err
		}
		return mcptool.Open(ctx, cfg)
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(whose + "\x00" + of.digest()))
	k := keeper{socket: filepath.Join(s.dir, hex.EncodeToString(sum[:6])+".sock"), log: filepath.Join(s.dir, "servers.log"), command: []string{of.Command}}
	for _, arg := range of.Args {
		k.command = append(k.command, os.ExpandEnv(arg))
	}
	for name, value := range of.Env {
		k.env = append(k.env, name+"="+os.ExpandEnv(value))
	}
	cfg.Dial = k.dial
	return mcptool.Open(ctx, cfg)
}

// digest is of how a server is reached.
func (m mcpServer) digest() string {
	text, _ := json.Marshal([]any{m.Command, m.Args, m.Env, m.URL, m.Headers}) // texts
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// way is the way to a server over HTTP, with its headers.
func (m mcpServer) way() (*http.Client, error) {
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

// withHeaders adds what a server wants to be sent, to that server alone.
type withHeaders struct {
	next    http.RoundTripper
	host    string
	headers map[string]string
}

// RoundTrip implements http.RoundTripper.
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

// handlesIn keeps the handles of remote tasks in a store.
func handlesIn(st store.Store) mcptool.Handles {
	ports := sessionport.New(sessionport.Config{Store: st})
	return mcptool.InResources(func(call tool.Call) tool.Resources { return ports(call.Session, call).Resources })
}

// Close ends the connections, those of all servers at once.
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

// testMCP asks a server what it has.
func testMCP(ctx context.Context, t mcp.Testing) (said mcp.Tested, err error) {
	of := mcpServer{URL: t.URL}
	if len(t.Command) > 0 {
		of.Command, of.Args = t.Command[0], t.Command[1:]
	}
	if t.Name != "" {
		home, err := readMCPHome(t.Dir)
		if err != nil {
			return said, err
		}
		var ok bool
		if of, ok = home.Servers[t.Name]; !ok {
			return said, fmt.Errorf("%w: %s names no server %q", perdure.NotFound, filepath.Join(t.Dir, mcpFile), t.Name)
		}
	}
	if err := of.check(); err != nil {
		return said, err
	}
	s := &mcpServers{dir: filepath.Join(t.Dir, "mcp"), log: slog.New(slog.DiscardHandler)}
	var found mcpSaid
	if t.Name != "" {
		found, err = s.said(ctx, t.Name, of, true)
	} else {
		found, err = s.probe(ctx, "", of, "")
	}
	if err != nil {
		return said, err
	}
	said = mcp.Tested{Server: found.Server, Era: found.Era, Tasks: found.Tasks}
	server, err := mcptool.NewServer(mcptool.ServerConfig{Name: cmp.Or(t.Name, "server"), Definitions: found.Tools, Classes: of.Classes, Only: of.Tools, Agents: of.Agents})
	if err != nil {
		return said, err
	}
	for _, one := range server.Tools() {
		shown := mcp.TestedTool{Name: one.Spec().Name, Class: one.Spec().Class, Title: cmp.Or(one.Spec().DisplayName, one.Spec().Description)}
		if t.Name == "" {
			shown.Name = one.Definition().Name
		}
		said.Tools = append(said.Tools, shown)
	}
	return said, nil
}
