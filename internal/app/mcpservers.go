package app

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	Startup startupTime                    `json:"startup_timeout"`
	Prices  map[string]toolPrice           `json:"prices"` // by tool; its calls are paid before they are made

	SoftBudget  softBudget            `json:"soft_budget"`  // of all tools; 0: that of the engine
	SoftBudgets map[string]softBudget `json:"soft_budgets"` // by tool, instead of that of all
}

// softBudget is how long a call may keep its turn waiting: a number of seconds, a duration such as
// 30s, or none.
type softBudget time.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (b *softBudget) UnmarshalJSON(text []byte) error {
	var seconds float64
	var words string
	var d time.Duration
	switch {
	case perdure.DecodeJSON(text, &seconds) == nil:
		d = time.Duration(min(seconds, 24*3600) * float64(time.Second))
	case perdure.DecodeJSON(text, &words) == nil && words == "none":
		*b = softBudget(tool.Never)
		return nil
	default:
		d, _ = time.ParseDuration(words) // after an error 0, which is refused
	}
	if d <= 0 || d >= tool.DefaultDeadline {
		return fmt.Errorf("%w soft budget %.40q: use a number of seconds or a duration such as 30s, less than %s, or none",
			perdure.Invalid, strings.Trim(string(text), `"`), tool.DefaultDeadline)
	}
	*b = softBudget(d)
	return nil
}

// softBudgets returns the soft budgets of single tools.
func (m mcpServer) softBudgets() map[string]time.Duration {
	all := map[string]time.Duration{}
	for name, budget := range m.SoftBudgets {
		all[name] = time.Duration(budget)
	}
	return all
}

// startupTime is how long a server may take to start: a number of seconds, or a duration such as
// 90s; 0: the default.
type startupTime time.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (t *startupTime) UnmarshalJSON(text []byte) error {
	var seconds float64
	if perdure.DecodeJSON(text, &seconds) == nil && seconds >= 0 && seconds <= 24*3600 {
		*t = startupTime(seconds * float64(time.Second))
		return nil
	}
	var words string
	if err := perdure.DecodeJSON(text, &words); err == nil {
		if d, err := time.ParseDuration(words); err == nil && d >= 0 && d <= 24*time.Hour {
			*t = startupTime(d)
			return nil
		}
	}
	return fmt.Errorf("%w startup_timeout %.40s: want a number of seconds up to a day, or a duration such as \"90s\"", perdure.Invalid, text)
}

// startup returns how long the server may take to start.
func (m mcpServer) startup() time.Duration {
	return cmp.Or(time.Duration(m.Startup), mcptool.DefaultStartup)
}

// serversLog is the file with what the servers of a data directory write to stderr.
const serversLog = "servers.log"

// mcpProbeMaxAge is how long the report of a server is valid.
const mcpProbeMaxAge = 24 * time.Hour

// mcpProbe is the stored report of a server, so that not every start needs to contact it.
type mcpProbe struct {
	Of              string      `json:"of"` // digest of the configuration of the connection
	At              time.Time   `json:"at"`
	ProtocolVersion string      `json:"era"`
	Server          string      `json:"server"`
	Tasks           bool        `json:"tasks"` // the server runs calls as tasks
	Tools           []*sdk.Tool `json:"tools"`
}

// mcpServers are the servers of a data directory.
type mcpServers struct {
	dir string // folder mcp of the data directory
	st  store.Store
	log *slog.Logger
	all []*lateServer

	mu       sync.Mutex     // guards the beginning of starts against Close
	starting sync.WaitGroup // of the servers that are being asked for their tools
	closed   chan struct{}  // closed when this process ends, and with it the starts

	probes func(name string, of mcpServer, err error) // receives whether a server responded; nil: nobody does
}

// newMCPServers returns the servers of a data directory.
func newMCPServers(dataDir string, st store.Store, log *slog.Logger) *mcpServers {
	return &mcpServers{dir: filepath.Join(dataDir, "mcp"), st: st, log: log, closed: make(chan struct{})}
}

// check returns what is wrong with the entry of a server, or with its name, which is also the name
// of a file.
func (m mcpServer) check(name string) error {
	if _, err := mcptool.NewServer(mcptool.ServerConfig{Name: name}); err != nil {
		return err
	}
	if (m.Command == "") == (m.URL == "") {
		return fmt.Errorf("%w entry: give either a command or a url", perdure.Invalid)
	}
	for name, class := range m.Classes {
		if !class.Valid() {
			return fmt.Errorf("%w class %q of %s: pure, idempotent or at_most_once", perdure.Invalid, class, name)
		}
	}
	for name, price := range m.Prices {
		if _, err := newPaidTool(nil, name, price); err != nil {
			return err
		}
		if class := m.Classes[name]; class != "" && class != perdure.AtMostOnce {
			return fmt.Errorf("%w class %q of %s: a tool whose calls are paid is at_most_once", perdure.Invalid, class, name)
		}
	}
	if m.Shared && len(m.secretRefs()) > 0 {
		return fmt.Errorf("%w headers: a server that all sessions share cannot have the secrets or connections of one of them; remove shared", perdure.Invalid)
	}
	return nil
}

// probeAnew requests the report of a server with the values of its headers, and stores it.
func (s *mcpServers) probeAnew(ctx context.Context, name string, of mcpServer, secrets []perdure.WebSecret) (mcpProbe, error) {
	said, _ := s.known(name, of)
	fresh, err := s.probe(ctx, name, of, probeOptions{said.ProtocolVersion, secrets})
	if err != nil {
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
	said, ok = s.lastReport(name)
	if !ok || said.Of != of.digest() {
		return mcpProbe{}, false
	}
	return said, true
}

// lastReport returns the stored report under a name, also if its entry in the file has changed
// since.
func (s *mcpServers) lastReport(name string) (said mcpProbe, ok bool) {
	text, _ := os.ReadFile(s.storedProbe(name)) // a missing report is like an unreadable one
	if perdure.DecodeKnownJSON(text, &said) != nil {
		return mcpProbe{}, false
	}
	return said, said.Of != ""
}

// probeOptions are how a server is asked for its report.
type probeOptions struct {
	Era     string              // its protocol version; empty: unknown
	Secrets []perdure.WebSecret // for its headers; nil: those that name one are left out
}

// repeats reports whether a text that a server sent has one of the values.
func (o probeOptions) repeats(text []byte) bool {
	return slices.ContainsFunc(o.Secrets, func(s perdure.WebSecret) bool { return bytes.Contains(text, []byte(s.Value)) })
}

// probe requests the report of a server.
func (s *mcpServers) probe(ctx context.Context, name string, of mcpServer, o probeOptions) (mcpProbe, error) {
	said := mcpProbe{Of: of.digest(), At: time.Now().UTC(), ProtocolVersion: o.Era}
	var secrets func() []perdure.WebSecret
	if len(o.Secrets) > 0 {
		secrets = func() []perdure.WebSecret { return o.Secrets }
	}
	client, err := s.opening(ctx, of, mcptool.Config{Name: name, Era: o.Era, OnVersion: func(era string) { said.ProtocolVersion = era }},
		"probe\x00"+name, secrets)
	if err != nil {
		return said, err
	}
	said.Server, said.Tasks = client.About()
	said.Tools, err = client.Definitions(ctx)
	if text, failed := json.Marshal(said); failed == nil && o.repeats(text) { // all sessions read a report
		err = fmt.Errorf("%w: the server wrote the token of its caller into the description of its tools", perdure.Denied)
	}
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

// opening opens a connection for the user that whose identifies. secrets returns what requests
// insert into the headers of the server; nil: nothing is inserted.
func (s *mcpServers) opening(ctx context.Context, of mcpServer, cfg mcptool.Config,
	whose string, secrets func() []perdure.WebSecret) (client *mcptool.Client, err error) {
	if err := of.checkVariables(); err != nil {
		return nil, err
	}
	cfg.Version, cfg.Log, cfg.Startup = version().Version, s.log, of.startup()
	if s.st != nil {
		cfg.Handles = handlesIn(s.st)
	}
	if of.URL != "" {
		cfg.URL = of.URL
		if cfg.HTTP, err = of.transport(secrets); err != nil {
			return nil, err
		}
		return mcptool.Open(ctx, cfg)
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(whose + "\x00" + of.digest()))
	k := mcpBroker{name: cfg.Name, socket: filepath.Join(s.dir, hex.EncodeToString(sum[:6])+".sock"),
		log: filepath.Join(s.dir, serversLog), command: []string{of.Command}}
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
func (m mcpServer) transport(secrets func() []perdure.WebSecret) (*http.Client, error) {
	client, err := egress.ForURL(m.URL)
	if err != nil || len(m.Headers) == 0 {
		return client, err
	}
	to, err := url.Parse(m.URL)
	if err != nil {
		return nil, err
	}
	client.Transport = withHeaders{client.Transport, to.Host, m.Headers, secrets}
	return client, nil
}

// handlesIn stores the handles of remote tasks in a store.
func handlesIn(st store.Store) mcptool.Handles {
	ports := sessionport.New(sessionport.Config{Store: st})
	return mcptool.InResources(func(call tool.Call) tool.Resources { return ports(call.Session, call).Resources })
}

// begin asks a server for its tools with a context that Close ends; false: Close was called.
func (s *mcpServers) begin(start func(ctx context.Context)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed() {
		return false
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.starting.Go(func() {
		defer cancel()
		start(ctx)
	})
	go func() { // until the start has ended
		select {
		case <-s.closed:
			cancel()
		case <-ctx.Done():
		}
	}()
	return true
}

// isClosed reports whether Close was called.
func (s *mcpServers) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// Close ends the starts and all connections.
func (s *mcpServers) Close() error {
	s.mu.Lock()
	if !s.isClosed() {
		close(s.closed)
	}
	s.mu.Unlock()
	s.starting.Wait()
	errs := make([]error, len(s.all))
	var group sync.WaitGroup
	for i, server := range s.all {
		group.Go(func() { errs[i] = server.close() })
	}
	group.Wait()
	return errors.Join(errs...)
}

var _ io.Closer = (*mcpServers)(nil)

// testMCP requests the report of a server. What is left out of its tools is logged as a warning.
func testMCP(ctx context.Context, t mcp.TestOptions, log *slog.Logger) (said mcp.TestResult, err error) {
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
	name := cmp.Or(t.Name, "server")
	if err := of.check(name); err != nil {
		return said, err
	}
	if _, changed := of.Env["PATH"]; !changed && of.Command != "" {
		if err := lookCommand([]string{of.Command}); err != nil {
			return said, err
		}
	}
	s := newMCPServers(t.Dir, nil, log)
	output := filepath.Join(s.dir, serversLog)
	from := sizeOf(output)
	var found mcpProbe
	if t.Name != "" {
		found, err = s.probeAnew(ctx, t.Name, of, nil)
	} else {
		found, err = s.probe(ctx, "", of, probeOptions{})
	}
	if err != nil {
		return said, withOutput(err, output, from)
	}
	said = mcp.TestResult{Server: found.Server, ProtocolVersion: found.ProtocolVersion, Tasks: found.Tasks}
	server, err := mcptool.NewServer(mcptool.ServerConfig{Name: name, Definitions: found.Tools,
		Classes: of.Classes, Only: of.Tools, Agents: of.Agents, SoftBudget: time.Duration(of.SoftBudget),
		SoftBudgets: of.softBudgets(), Log: log})
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
