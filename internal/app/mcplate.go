package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/mcptool"
)

// A server is asked for its tools when a session wants them. The tools of its last report are there
// at once.
const (
	// How long a session waits for a new report if there is an older one.
	mcpRefreshTime = 5 * time.Second
	// After this time, a session that waits for a server says so.
	mcpSlowTime = 5 * time.Second
	// Pause after a failed start.
	mcpRetryPause = 10 * time.Second
)

// lateServer is an MCP server whose tools are registered once it has reported them.
type lateServer struct {
	s     *mcpServers
	name  string
	of    mcpServer
	tools *tool.Registry

	mu      sync.Mutex
	server  *mcptool.Server // guarded by mu; nil: its tools are not known
	mine    []string        // guarded by mu; names of its registered tools
	at      time.Time       // guarded by mu; time of the report in use
	changed bool            // guarded by mu; the report in use is that of an earlier entry of the file
	era     string          // guarded by mu; its protocol version
	ready   chan struct{}   // guarded by mu; nil: it is not being started
	retryAt time.Time       // guarded by mu; it is not started again before
	warned  string          // guarded by mu; the last reason why it is missing
	slow    *time.Timer     // guarded by mu; warns of a slow start; nil: there was none
}

// add adds the servers of the file to the tools. It contacts none of them.
func (s *mcpServers) add(home mcpConfig, tools *tool.Registry) error {
	for _, name := range slices.Sorted(maps.Keys(home.Servers)) {
		of := home.Servers[name]
		if err := of.check(name); err != nil {
			return fmt.Errorf("MCP server %s of %s: %w", name, mcpFile, err)
		}
		l := &lateServer{s: s, name: name, of: of, tools: tools}
		s.all = append(s.all, l)
		if err := l.registerStored(); err != nil {
			return fmt.Errorf("%s: %w", mcpFile, err)
		}
		tools.Expect(tool.Source{Capability: "mcp_" + name, Name: "MCP server " + name, Prefix: name + "__", Start: l.start})
	}
	return nil
}

// registerStored registers the tools of the stored report. If the entry of the server has changed
// since, they only serve calls that an earlier process made, until the server has reported.
func (l *lateServer) registerStored() error {
	said, ok := l.s.known(l.name, l.of)
	if ok {
		return l.register(said)
	}
	if said, ok = l.s.lastReport(l.name); !ok {
		return nil
	}
	said.At, said.ProtocolVersion = time.Time{}, ""
	if err := l.register(said); err != nil {
		l.s.log.Debug("the stored tools of an MCP server do not fit its entry", "server", l.name, "error", err)
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed = true
	return nil
}

// startAll starts all servers, side by side, and does not wait.
func (s *mcpServers) startAll() {
	for _, l := range s.all {
		l.start()
	}
}

// find returns a server by its name.
func (s *mcpServers) find(name string) (*lateServer, bool) {
	i := slices.IndexFunc(s.all, func(l *lateServer) bool { return l.name == name })
	if i < 0 {
		return nil, false
	}
	return s.all[i], true
}

// start implements tool.Source: it asks the server for its tools, unless they are known.
func (l *lateServer) start() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ready != nil {
		return l.ready
	}
	ready := make(chan struct{})
	now := time.Now()
	if l.server != nil && now.Sub(l.at) < mcpProbeMaxAge || now.Before(l.retryAt) {
		close(ready)
		return ready
	}
	enough := sync.OnceFunc(func() { close(ready) })
	begun := l.s.begin(func(ctx context.Context) {
		defer enough()
		said, err := l.s.probe(ctx, l.name, l.of, probeOptions{Era: l.knownEra()})
		if err == nil {
			l.s.storeProbe(l.name, said)
			err = l.register(said)
		}
		l.ended(err)
	})
	switch {
	case !begun:
		enough()
		return ready
	case l.server != nil && !l.changed:
		time.AfterFunc(mcpRefreshTime, enough)
	default:
		l.slow = time.AfterFunc(mcpSlowTime, func() {
			l.s.log.Warn("MCP server still starting", "server", l.name, "startup_timeout", l.of.startup().String())
		})
	}
	l.ready = ready // ended, which waits for mu, resets it
	return ready
}

func (l *lateServer) knownEra() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.era
}

// ended records how a start ended, and warns of a server that is missing.
func (l *lateServer) ended(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ready = nil
	if l.slow != nil {
		l.slow.Stop()
	}
	if l.s.isClosed() {
		return // this process ends
	}
	if l.s.probes != nil {
		l.s.probes(l.name, l.of, err)
	}
	if err == nil {
		l.warned = ""
		return
	}
	l.retryAt = time.Now().Add(mcpRetryPause)
	why := l.of.masked(err.Error())
	if why == l.warned {
		return
	}
	l.warned = why
	text := "MCP server not available, its tools are missing until it answers"
	if l.server != nil {
		text = "MCP server not available, using the tools that it had"
	}
	l.s.log.Warn(text, "server", l.name, "error", why, "test", "perdure mcp test --name "+l.name)
}

// register registers the tools of a report, and removes those of an earlier one.
func (l *lateServer) register(said mcpProbe) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	made, err := l.made(said)
	if err != nil {
		return err
	}
	first := l.server == nil
	if first {
		l.server = made
	}
	l.at, l.era, l.changed = said.At, said.ProtocolVersion, false
	var names []string
	for _, t := range made.Tools() {
		offered, err := l.priced(t)
		if err != nil {
			return err
		}
		spec := offered.Spec()
		if err := tool.NewRegistry(offered).Err(); err != nil {
			l.s.log.Warn("MCP tool left out", "server", l.name, "tool", t.Definition().Name, "error", err)
			continue
		}
		if old, exists := l.tools.Get(spec.Name); exists {
			switch {
			case reflect.DeepEqual(old.Spec(), spec) && slices.Contains(l.mine, spec.Name):
				names = append(names, spec.Name)
				continue
			case !slices.Contains(l.mine, spec.Name) || slices.Contains(names, spec.Name):
				l.s.log.Warn("MCP tool left out: another tool has this name", "server", l.name, "tool", t.Definition().Name, "name", spec.Name)
				continue
			}
			l.tools.Unregister(spec.Name)
		}
		l.tools.RegisterOptional(offered)
		names = append(names, spec.Name)
	}
	for _, old := range l.mine {
		if !slices.Contains(names, old) {
			l.tools.Unregister(old)
		}
	}
	l.mine = names
	return nil
}

// priced returns a tool as it is offered: with its price, if it has one.
func (l *lateServer) priced(t *mcptool.Remote) (tool.Tool, error) {
	name := t.Definition().Name
	price, paid := l.of.Prices[name]
	if !paid {
		return t, nil
	}
	return newPaidTool(t, name, price)
}

// made returns the tools of a report. All reports of a server use the connections of the first. The
// caller holds mu.
func (l *lateServer) made(said mcpProbe) (*mcptool.Server, error) {
	if l.server != nil {
		return l.server.WithDefinitions(said.Tools)
	}
	secrets := &headerSecrets{of: l.of}
	return mcptool.NewServer(mcptool.ServerConfig{
		BeforeCall: secrets.open,
		Name:       l.name, Definitions: said.Tools, Shared: l.of.Shared, Classes: l.of.Classes, Only: l.of.Tools,
		Agents: l.of.Agents, SoftBudget: time.Duration(l.of.SoftBudget), SoftBudgets: l.of.softBudgets(),
		Handles: handlesIn(l.s.st), Log: l.s.log,
		Open: func(ctx context.Context, session perdure.SessionID) (*mcptool.Client, error) {
			cfg := mcptool.Config{Name: l.name, Era: l.knownEra(), OnVersion: l.learn, OnToolsChanged: l.outdate}
			return l.s.opening(ctx, l.of, cfg, l.name+"\x00"+string(session),
				func() []perdure.WebSecret { return secrets.valuesOf(session) })
		},
	})
}

// learn records the protocol version of the server.
func (l *lateServer) learn(era string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.era = era
}

// outdate marks the report as outdated: the tools have changed. The next session that chooses the
// server asks for a new one.
func (l *lateServer) outdate() {
	l.s.stale(l.name)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = time.Time{}
}

func (l *lateServer) close() error {
	l.mu.Lock()
	server := l.server
	l.mu.Unlock()
	if server == nil {
		return nil
	}
	return server.Close()
}

// refresh requests the report of a server for a user, and registers its tools.
func (s *mcpServers) refresh(ctx context.Context, name string, of mcpServer, user tool.Ports) error {
	secrets, err := of.openSecrets(ctx, user)
	if denial := (*perdure.EgressError)(nil); errors.As(err, &denial) || errors.As(err, new(*tool.NotConnected)) {
		secrets, err = nil, nil // the server may list its tools for everybody
	}
	if err != nil {
		return err
	}
	said, err := s.probeAnew(ctx, name, of, secrets)
	l, ok := s.find(name)
	if err != nil || !ok {
		return err
	}
	return l.register(said)
}
