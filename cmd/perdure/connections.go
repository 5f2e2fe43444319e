package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/tool/mcptool"
)

// connections are the MCP servers of a data directory as callers see them. They are safe for concurrent use.
type connections struct {
	home    func() (mcpHome, error)
	servers *mcpServers

	mu     sync.Mutex
	failed map[string]string // guarded by mu; by name: why it did not answer, in this process
}

var _ engine.Connections = (*connections)(nil)

// Connections implements engine.Connections. Nobody is asked: it tells what each server said last.
func (c *connections) Connections(context.Context) (found []engine.Connection, err error) {
	home, err := c.home()
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(home.Servers)) {
		found = append(found, c.show(name, home.Servers[name]))
	}
	return found, nil
}

// TestConnection implements engine.Connections.
func (c *connections) TestConnection(ctx context.Context, name string) (engine.Connection, error) {
	home, err := c.home()
	if err != nil {
		return engine.Connection{}, err
	}
	of, ok := home.Servers[name]
	if !ok {
		return engine.Connection{}, fmt.Errorf("connection %.80q: %w", name, perdure.NotFound)
	}
	if err = of.check(); err == nil {
		_, err = c.servers.said(ctx, name, of, true)
	}
	if ctx.Err() != nil {
		return engine.Connection{}, context.Cause(ctx)
	}
	c.note(name, of, err)
	return c.show(name, of), nil
}

// note keeps why a server did not answer; nil: it did.
func (c *connections) note(name string, of mcpServer, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		delete(c.failed, name)
		return
	}
	c.failed[name] = of.hushed(err.Error())
}

// hushed takes what may be secret out of a text: what the entry gives to its server.
func (m mcpServer) hushed(text string) string {
	given := slices.Concat(m.Args, slices.Collect(maps.Values(m.Env)), slices.Collect(maps.Values(m.Headers)))
	if at, err := url.Parse(m.URL); err == nil && m.URL != "" {
		given = append(given, m.URL, at.RawQuery, at.User.String())
	}
	for _, value := range slices.SortedFunc(slices.Values(given), func(a, b string) int { return cmp.Compare(len(b), len(a)) }) {
		for _, form := range []string{os.ExpandEnv(value), value} {
			if len(form) >= 4 { // shorter ones are in any text
				text = strings.ReplaceAll(text, form, "[…]")
			}
		}
	}
	return text
}

// show is a server as it said last.
func (c *connections) show(name string, of mcpServer) engine.Connection {
	shown := engine.Connection{Name: name, Kind: "mcp_stdio", Command: filepath.Base(of.Command), Shared: of.Shared, State: engine.ConnectionUnknown, Tools: []string{}}
	if of.URL != "" {
		shown.Kind, shown.Command = "mcp_http", ""
		if at, err := url.Parse(of.URL); err == nil {
			shown.URL = (&url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path}).String()
		}
	}
	if said, ok := c.servers.known(name, of); ok {
		shown.State, shown.CheckedAt, shown.Server = engine.ConnectionReady, said.At, said.Server
		server, err := mcptool.NewServer(mcptool.ServerConfig{Name: name, Definitions: said.Tools, Classes: of.Classes, Only: of.Tools})
		if err != nil {
			shown.State, shown.LastError = engine.ConnectionUnreachable, of.hushed(err.Error())
			return shown
		}
		for _, t := range server.Tools() {
			shown.Tools = append(shown.Tools, t.Spec().Name)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if why, ok := c.failed[name]; ok {
		shown.State, shown.LastError = engine.ConnectionUnreachable, why
	}
	return shown
}

// given is what callers may see of how this program was started.
func (e *opened) given() local.Given {
	return local.Given{
		Agents: func() (map[string]local.GivenAgent, error) {
			home, err := e.connections.home()
			all := map[string]local.GivenAgent{}
			for name, a := range home.Agents {
				all[name] = local.GivenAgent{Description: a.Description, Agent: a.Agent}
			}
			return all, err
		},
		Connections: e.connections,
		Providers:   []engine.Provider{withKey(providerAnthropic, anthropicKey), withKey(providerOpenAI, openaiKey), {Name: providerScripted, Kind: providerScripted, Ready: true}},
	}
}

// withKey is a provider that wants a key of the environment.
func withKey(name, variable string) engine.Provider {
	p := engine.Provider{Name: name, Kind: name, Ready: strings.TrimSpace(os.Getenv(variable)) != ""}
	if !p.Ready {
		p.Missing = variable + " is not set; models that name a server of their own need none"
	}
	return p
}
