package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/access"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/cli/mcp"
	"github.com/perdure/perdure/internal/egress"
	"github.com/perdure/perdure/internal/mcpserver"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/mcptool"
)

// localPrincipal is the caller where only local processes can connect.
const localPrincipal = "local"

// brokerSocket is the socket of a process that keeps the server of a proxy alive.
const brokerSocket = "keep.sock"

// serverLog is the file with what the server of a proxy writes to stderr.
const serverLog = "server.log"

// maxSocketPath is the maximum length of the path of a socket in bytes, without the terminating
// NUL.
const maxSocketPath = len(syscall.RawSockaddrUnix{}.Path) - 1

// keeperCommand is the name under which a proxy stores what its server reported.
const keeperCommand = "server"

// toolsWithHandles returns the tools for MCP clients: those named, or all that need no capability.
// comesLater reports whether a tool belongs to a server that is not available; it is left out. nil:
// there are no such servers.
func toolsWithHandles(ctx context.Context, eng engine.Engine, names []string, comesLater func(string) bool) ([]mcpserver.Exposed, error) {
	var marked []mcpserver.Exposed
	all, err := eng.Tools().List(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if t.Capability == "" && !isTurnTool(t) && slices.Contains(names, "*") || slices.Contains(names, t.Name) {
			marked = append(marked, mcpserver.Exposed{Name: t.Name})
		}
	}
	for _, name := range names {
		if name != "*" && !slices.ContainsFunc(all, func(t engine.Tool) bool { return t.Name == name }) &&
			(comesLater == nil || !comesLater(name)) {
			return nil, fmt.Errorf("%w: unknown tool %q; perdure tool list shows all tools", perdure.Invalid, name)
		}
	}
	return marked, nil
}

// isTurnTool reports whether a tool only makes sense in a conversation, because it manages its
// background runs or schemas.
func isTurnTool(t engine.Tool) bool {
	return slices.Contains([]string{
		"spawn_background", "check_background_tool", "list_tasks", "get_task", "wait_task", "cancel_task",
		"message_task", "load_tool", "report_progress", "write_todos",
	}, t.Name)
}

// mcpHandler serves /mcp. Its server is created with the first request. It is safe for concurrent
// use.
type mcpHandler struct {
	log    *slog.Logger
	server func() (*mcpserver.Server, error) // created once

	mu      sync.Mutex
	current *mcpserver.Server // guarded by mu; nil: there was no request yet
	closed  bool              // guarded by mu
}

// newMCP returns the handler of /mcp.
func newMCP(eng engine.Engine, names []string, cfg api.Config) *mcpHandler {
	return &mcpHandler{log: cfg.Log, server: sync.OnceValues(func() (*mcpserver.Server, error) {
		ctx := context.Background()
		checked := func(string) bool { return true } // by the start of the program
		marked, err := toolsWithHandles(ctx, eng, names, checked)
		if err != nil {
			return nil, err
		}
		config := mcpserver.Config{Engine: eng, Tools: marked, Version: version().Version, Log: cfg.Log}
		if cfg.Local {
			config.Local = &mcpserver.Principal{ID: localPrincipal}
		} else {
			config.Verify = verifiedToken
		}
		return mcpserver.New(ctx, config)
	})}
}

// ServeHTTP implements http.Handler. After close, it asks clients to retry.
func (m *mcpHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		w.Header().Set("Retry-After", "1") // seconds
		http.Error(w, "the server is restarting", http.StatusServiceUnavailable)
		return
	}
	server, err := m.server()
	m.current = server
	m.mu.Unlock()
	if err != nil {
		m.log.Error("serving MCP failed", "error", err)
		http.Error(w, "cannot serve MCP", http.StatusInternalServerError)
		return
	}
	server.ServeHTTP(w, r)
}

// close ends the sessions and streams of the clients. Running work continues.
func (m *mcpHandler) close() {
	m.mu.Lock()
	made := m.current
	m.closed = true
	m.mu.Unlock()
	if made != nil {
		made.Close()
	}
}

// verifiedToken returns the principal that the API found. The API checks the token before anything
// else, so that revoking it ends all requests under way.
func verifiedToken(ctx context.Context, _ string) (mcpserver.Principal, error) {
	who, ok := access.PrincipalFrom(ctx)
	if !ok {
		return mcpserver.Principal{}, access.Unknown
	}
	return mcpserver.Principal{ID: who.ID, Approve: who.May(access.Approve), Access: &who}, nil
}

// serveMCP serves tools to one client on stdio. The server of the data directory does the work if
// there is one, otherwise this process.
func (p Program) serveMCP(ctx context.Context, s mcp.ServeOptions, log *slog.Logger) (err error) {
	eng, err := p.open(ctx, cli.OpenOptions{Access: cli.Writing, Dir: s.Dir, Database: s.Database, SharedFiles: s.SharedFiles, Server: s.Server,
		AskModels: true, ModelOptions: s.ModelOptions, Utility: s.Utility, Limits: s.Limits, TypedLimit: s.TypedLimit,
		Retention: cli.Retention(max(s.Limits.Tasks.Retention, 0)), StopTime: s.StopTime, Log: log,
		Secrets: cli.SecretRules{Use: s.UseSecret, Allow: s.AllowSecret, Ask: s.AskSecret}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	return serveWhileRunning(ctx, eng.Run, func(ctx context.Context) error {
		var comesLater func(string) bool
		if here, ok := eng.(*localEngine); ok {
			here.cfg.Tools.Await(ctx, nil, s.Tools)
			comesLater = here.comesLater
		}
		marked, err := toolsWithHandles(ctx, eng, s.Tools, comesLater)
		if err != nil {
			return err
		}
		server, err := mcpserver.New(ctx, mcpserver.Config{
			Engine: eng, Tools: marked, Local: &mcpserver.Principal{ID: localPrincipal}, Version: version().Version,
			SoftBudget: s.SoftBudget, Log: log,
		})
		if err != nil {
			return err
		}
		return server.ServeStdio(ctx, io.NopCloser(s.In), nopCloser{s.Out})
	})
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// serveWhileRunning calls do while an engine runs, and then stops the engine. When the engine ends
// first, the context of do ends.
func serveWhileRunning(ctx context.Context, run func(context.Context) error, do func(context.Context) error) error {
	work, end := context.WithCancelCause(ctx)
	defer end(nil)
	var group sync.WaitGroup
	var failed error
	group.Go(func() {
		if failed = run(work); failed != nil {
			end(failed)
		}
	})
	err := do(work)
	end(nil)
	group.Wait()
	return errors.Join(err, failed)
}

// proxyGarbage is the GC percentage of a proxy. Its heap is small, so that collecting with Go's
// default frequency costs calls more time than the memory is worth. GOGC in the environment
// overrides it.
const proxyGarbage = 400

// proxyMCP runs a durable proxy of an MCP server.
func proxyMCP(ctx context.Context, p mcp.ProxyOptions, log *slog.Logger) (err error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(proxyGarbage)
	}
	if p.Name == "" {
		p.Name = proxyName(p)
	} else if !isFolder(p.Name) {
		return fmt.Errorf("%w name %q: the name of a proxy is also the name of its folder, so it cannot contain slashes; for instance --name files", perdure.Invalid, p.Name)
	}
	if err := sqlite.RefuseBackup(p.Dir); err != nil {
		return err
	}
	dir := filepath.Join(p.Dir, "mcp-proxy", p.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the directory of the proxy: %w", err)
	}
	if err := lookCommand(p.Command); err != nil {
		return err
	}
	st, err := sqlite.Open(ctx, sqlite.Config{Dir: dir, Program: proxyProgram})
	if errors.Is(err, perdure.Conflict) {
		return joinProxy(ctx, dir, p, err, log)
	}
	if err != nil {
		return err
	}
	return holdProxy(ctx, p, dir, st, log)
}

// holdProxy runs the proxy that holds the folder. It serves its own client, and those of further
// proxies with the same command line. It closes the store.
func holdProxy(ctx context.Context, p mcp.ProxyOptions, dir string, st *sqlite.Store, log *slog.Logger) (err error) {
	defer func() { err = errors.Join(err, st.Close()) }()
	hub, err := openHub(dir, p)
	if err != nil {
		return err
	}
	defer hub.close()
	way, err := overHTTP(p)
	if err != nil {
		return err
	}
	era, learned := proxyEra(dir, p, log)
	output := filepath.Join(dir, serverLog)
	from := sizeOf(output)
	client, err := mcptool.Open(ctx, mcptool.Config{
		Dial: dialBroker(dir, p), URL: p.URL, HTTP: way, Classes: p.Classes, Handles: handlesIn(st),
		Name: p.Name, Version: version().Version, Log: log, Era: era, OnVersion: learned,
	})
	if err != nil {
		return withOutput(err, output, from)
	}
	remotes, err := mcptool.Tools(ctx, client)
	if err != nil {
		return errors.Join(withOutput(err, output, from), client.Close(true))
	}
	tools, marked := proxiedTools(remotes, log)
	eng, err := local.Open(ctx, local.Config{Store: st, Model: unavailableModel{}, Tools: tools, Timing: local.Timing{Drain: -1, Return: timesOf(p.StopTime, false).end, SoftBudget: tool.Never}, Log: log})
	if err != nil {
		return errors.Join(err, client.Close(true))
	}
	// so that users can inspect and resolve calls while the proxy holds the directory
	door := newAPIServer(eng, st, dir, log)
	door.answer = timesOf(p.StopTime, false).answer
	if err := door.openSocket(); err != nil {
		return errors.Join(err, client.Close(true))
	}
	run := func(ctx context.Context) error { return door.serveWorkers(ctx, eng.Run) }
	alone := true
	err = serveWhileRunning(ctx, run, func(ctx context.Context) error {
		server, err := mcpserver.New(ctx, mcpserver.Config{
			Engine: eng, Tools: marked, Local: &mcpserver.Principal{ID: localPrincipal}, Name: p.Name,
			Command: "perdure --data " + dir, Version: version().Version, SoftBudget: p.SoftBudget, Log: log,
		})
		if err != nil {
			return err
		}
		defer func() { alone = hub.close() }()
		hub.start(ctx, server, log)
		if p.Listen != "" {
			return serveProxy(ctx, p, server)
		}
		return server.ServeStdio(ctx, io.NopCloser(p.In), nopCloser{p.Out})
	})
	return errors.Join(err, client.Close(alone), door.close())
}

// proxiedTools returns the tools of a server, and how clients see them.
func proxiedTools(remotes []*mcptool.Remote, log *slog.Logger) (*tool.Registry, []mcpserver.Exposed) {
	tools := tool.NewRegistry()
	var marked []mcpserver.Exposed
	for _, r := range remotes {
		if err := tool.NewRegistry(r).Err(); err != nil { // an invalid tool does not affect the others
			log.Warn("MCP tool skipped", "tool", r.Definition().Name, "error", err)
			continue
		}
		tools.Register(r)
		marked = append(marked, mcpserver.Exposed{Name: r.Spec().Name, PublicName: r.Definition().Name, Verbatim: true,
			Definition: r.Definition()})
	}
	return tools, marked
}

// proxyName returns the default name of a proxy: its command, and a digest of all arguments.
func proxyName(p mcp.ProxyOptions) string {
	words := append([]string{p.URL}, p.Command...)
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	base := "url"
	if len(p.Command) > 0 {
		base = filepath.Base(p.Command[0])
	}
	return base + "-" + hex.EncodeToString(sum[:4])
}

// isFolder reports whether a name is that of a direct subfolder.
func isFolder(name string) bool {
	return filepath.IsLocal(name) && filepath.Base(name) == name && name != "."
}

// proxyEra returns the protocol version that the proxy's server used within the last day, and a
// function that stores the current one. Detecting it takes some seconds with a server that does not
// respond to unknown requests.
func proxyEra(dir string, p mcp.ProxyOptions, log *slog.Logger) (era string, learned func(era string)) {
	of := mcpServer{URL: p.URL}
	if len(p.Command) > 0 {
		of.Command, of.Args = p.Command[0], p.Command[1:]
	}
	s := &mcpServers{dir: dir, log: log} // it only reads and writes reports
	if said, ok := s.known(keeperCommand, of); ok && time.Since(said.At) < mcpProbeMaxAge {
		era = said.ProtocolVersion
	}
	return era, func(era string) {
		s.storeProbe(keeperCommand, mcpProbe{Of: of.digest(), At: time.Now().UTC(), ProtocolVersion: era})
	}
}

// overHTTP returns the HTTP client for a server with a URL; nil: the server is a command.
func overHTTP(p mcp.ProxyOptions) (*http.Client, error) {
	if p.URL == "" {
		return nil, nil
	}
	return egress.ForURL(p.URL)
}

// dialBroker returns a function that connects to the process that keeps the proxy's server alive,
// and starts that process if necessary. It runs in a session of its own, and survives this process.
func dialBroker(dir string, p mcp.ProxyOptions) func(context.Context) (io.ReadWriteCloser, error) {
	if len(p.Command) == 0 {
		return nil
	}
	return mcpBroker{name: p.Name, socket: filepath.Join(dir, brokerSocket), log: filepath.Join(dir, serverLog),
		command: p.Command}.dial
}

// mcpBroker describes a process that keeps an MCP server alive.
type mcpBroker struct {
	name        string // of the server, for the log; may be empty
	socket, log string // paths
	command     []string
	env         []string // in addition to this program's own
}

func (k mcpBroker) dial(ctx context.Context) (io.ReadWriteCloser, error) {
	if len(k.socket) > maxSocketPath {
		return nil, fmt.Errorf("%w socket %s: its path has %d bytes, but at most %d are possible; use a data directory with a shorter path (--data), or a shorter name",
			perdure.Invalid, k.socket, len(k.socket), maxSocketPath)
	}
	if conn, err := egress.DialSocket(ctx, k.socket); err == nil {
		return conn, nil
	}
	if !slices.ContainsFunc(k.env, func(entry string) bool { return strings.HasPrefix(entry, "PATH=") }) {
		if err := lookCommand(k.command); err != nil {
			return nil, err
		}
	}
	out, err := os.OpenFile(k.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	process := exec.Command(self(), append([]string{"mcp", "keep", "--socket", k.socket, "--name=" + k.name, "--"}, k.command...)...)
	process.Stderr, process.SysProcAttr, process.Env = out, &syscall.SysProcAttr{Setsid: true},
		append(foreignEnv(), k.env...)
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("start the process that keeps the MCP server: %w", err)
	}
	ended := make(chan error, 1) // capacity 1: one result
	go func() { ended <- process.Wait() }()
	for {
		if conn, err := egress.DialSocket(ctx, k.socket); err == nil {
			return conn, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case err := <-ended:
			return nil, fmt.Errorf("the MCP server exited: %v; see %s", err, k.log)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// secretVariables give access to Perdure itself. They are not passed to MCP servers (S15); one that
// needs them gets them in mcp.json.
var secretVariables = []string{"PERDURE_TOKEN", "PERDURE_DATABASE"}

// foreignEnv returns this program's environment for an MCP server.
func foreignEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(secretVariables, name)
	})
}

// serveProxy serves on a loopback address.
func serveProxy(ctx context.Context, p mcp.ProxyOptions, handler http.Handler) error {
	host, _, err := net.SplitHostPort(p.Listen)
	if err != nil || !isLoopback(host) {
		return fmt.Errorf("%w address %q: want a loopback HOST:PORT", perdure.Invalid, p.Listen)
	}
	listener, err := net.Listen("tcp", p.Listen)
	if err != nil {
		return fmt.Errorf("%w: listen: %w", perdure.Unavailable, err)
	}
	fmt.Fprintf(p.Out, "http://%s/mcp\n", listener.Addr())
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	web := api.NewServer(mux, slog.New(slog.DiscardHandler))
	stop := context.AfterFunc(ctx, func() { _ = web.Close() }) // the engine keeps its work
	defer stop()
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// keepMCP keeps a server alive.
func keepMCP(ctx context.Context, k mcp.KeepOptions, log *slog.Logger) error {
	return mcptool.RunBroker(ctx, mcptool.BrokerConfig{Name: k.Name, Socket: k.Socket, Command: k.Command, Linger: k.Linger, Stop: k.StopTime,
		Log: log})
}

// unavailableModel is the model of a proxy, which calls none.
type unavailableModel struct{}

func (unavailableModel) Stream(context.Context, model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		yield(model.Delta{}, &model.Error{Code: model.Unavailable, Text: "a proxy has no model"})
	}
}
