package app

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
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/mcptool"
)

// connections implements local.Connections for the MCP servers of a data directory. It is safe for
// concurrent use.
type connections struct {
	home    func() (mcpConfig, error)
	servers *mcpServers

	mu     sync.Mutex
	failed map[string]string // guarded by mu; by name: last error in this process
}

var _ local.Connections = (*connections)(nil)

// List implements local.Connections. It contacts no server and returns what each one
// reported last.
func (c *connections) List(context.Context) (found []engine.Connection, err error) {
	home, err := c.home()
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(home.Servers)) {
		found = append(found, c.show(name, home.Servers[name]))
	}
	return found, nil
}

// Test implements local.Connections. A server whose headers name accounts gets the tokens of those
// that are connected, because many such servers list their tools for nobody else.
func (c *connections) Test(ctx context.Context, name string, of tool.Ports) (engine.Connection, error) {
	home, err := c.home()
	if err != nil {
		return engine.Connection{}, err
	}
	entry, ok := home.Servers[name]
	if !ok {
		return engine.Connection{}, fmt.Errorf("connection %.80q: %w", name, perdure.NotFound)
	}
	if err = entry.check(name); err == nil {
		err = c.servers.refresh(ctx, name, entry, of)
	}
	if ctx.Err() != nil {
		return engine.Connection{}, context.Cause(ctx)
	}
	c.note(name, entry, err)
	return c.show(name, entry), nil
}

// note records why a server did not respond; nil: it responded.
func (c *connections) note(name string, of mcpServer, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		delete(c.failed, name)
		return
	}
	c.failed[name] = of.masked(err.Error())
}

// masked masks possible secrets in a text: all values that the entry of the server contains.
func (m mcpServer) masked(text string) string {
	given := slices.Concat(m.Args, slices.Collect(maps.Values(m.Env)), slices.Collect(maps.Values(m.Headers)))
	if at, err := url.Parse(m.URL); err == nil && m.URL != "" {
		given = append(given, m.URL, at.RawQuery, at.User.String())
	}
	for _, value := range slices.SortedFunc(slices.Values(given),
		func(a, b string) int { return cmp.Compare(len(b), len(a)) }) {
		for _, form := range []string{os.ExpandEnv(value), value} {
			if len(form) >= 4 { // shorter values occur in any text
				text = strings.ReplaceAll(text, form, "[…]")
			}
		}
	}
	return text
}

// show returns a server as it reported itself last.
func (c *connections) show(name string, of mcpServer) engine.Connection {
	shown := engine.Connection{Name: name, Kind: "mcp_stdio", Command: filepath.Base(of.Command), Shared: of.Shared,
		State: engine.ConnectionUnknown, Tools: []string{}}
	if of.URL != "" {
		shown.Kind, shown.Command = "mcp_http", ""
		if at, err := url.Parse(of.URL); err == nil {
			shown.URL = (&url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path}).String()
		}
	}
	for _, ref := range of.secretRefs() {
		if account := ref.Provider(); account != "" {
			shown.Accounts = append(shown.Accounts, account)
		}
	}
	if said, ok := c.servers.known(name, of); ok {
		shown.State, shown.CheckedAt, shown.Server = engine.ConnectionReady, said.At, said.Server
		server, err := mcptool.NewServer(mcptool.ServerConfig{Name: name, Definitions: said.Tools, Classes: of.Classes,
			Only: of.Tools})
		if err != nil {
			shown.State, shown.LastError = engine.ConnectionUnreachable, of.masked(err.Error())
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

// configured returns what callers may see of the configuration of this process.
func (e *localEngine) configured(defaultModel string, oauth func() (local.OAuthProviders, error)) local.Providers {
	return local.Providers{
		OAuth:        oauth,
		DefaultModel: defaultModel, CheckModel: e.models.check, ByProvider: true,
		Agents: func() (map[string]local.ConfiguredAgent, error) {
			home, err := e.connections.home()
			all := map[string]local.ConfiguredAgent{}
			for name, a := range home.Agents {
				all[name] = local.ConfiguredAgent{Description: a.Description, Agent: a.Agent}
			}
			return all, err
		},
		Connections: e.connections,
		Providers: []engine.Provider{withKey(providerAnthropic, anthropicKey), withKey(providerOpenAI, openaiKey),
			{Name: providerScripted, Kind: providerScripted, Ready: true, Source: engine.ProviderFromProgram}},
	}
}

// withKey returns a provider that needs a key from the environment.
func withKey(name, variable string) engine.Provider {
	p := engine.Provider{Name: name, Kind: name, Ready: strings.TrimSpace(os.Getenv(variable)) != "",
		Source: engine.ProviderFromEnvironment, Variable: variable}
	if !p.Ready {
		p.Source = engine.ProviderFromProgram
		p.Missing = variable + " is not set; not needed for models with their own server"
	}
	return p
}
