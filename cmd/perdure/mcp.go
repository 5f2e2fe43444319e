package main

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

// localPrincipal is who asks where nobody else can connect.
const localPrincipal = "local"

// keeperSocket is where a proxy's server is kept.
const keeperSocket = "keep.sock"

// maxSocketPath is the longest path of a socket in bytes: the system wants a NUL at its end.
const maxSocketPath = len(syscall.RawSockaddrUnix{}.Path) - 1

// keptServer is the name under which a proxy keeps what its server said.
const keptServer = "server"

// markedTools is the tools that MCP clients see: those named, or all that need no capability.
func markedTools(ctx context.Context, eng engine.Engine, names []string) ([]mcpserver.Exposed, error) {
	var marked []mcpserver.Exposed
	all, err := eng.Tools(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if t.Capability == "" && !ofTurns(t) && slices.Contains(names, "*") || slices.Contains(names, t.Name) {
			marked = append(marked, mcpserver.Exposed{Name: t.Name})
		}
	}
	for _, name := range names {
		if name != "*" && !slices.ContainsFunc(all, func(t engine.Tool) bool { return t.Name == name }) {
			return nil, fmt.Errorf("%w: there is no tool %q to show; perdure tool list shows them", perdure.Invalid, name)
		}
	}
	return marked, nil
}

// ofTurns reports a tool that only makes sense in a conversation: it looks after that one's background runs or schemas.
func ofTurns(t engine.Tool) bool {
	return slices.Contains([]string{
		"spawn_background", "check_background_tool", "list_tasks", "get_task", "wait_task", "cancel_task", "message_task", "load_tool", "report_progress", "write_todos",
	}, t.Name)
}

// mcpDoor answers on /mcp: its server is made for the first request. It is safe for concurrent use.
type mcpDoor struct {
	log    *slog.Logger
	server func() (*mcpserver.Server, error) // made once

	mu     sync.Mutex
	made   *mcpserver.Server // guarded by mu; nil: nobody has asked yet
	closed bool              // guarded by mu
}

// newMCP makes what answers on /mcp.
func newMCP(eng engine.Engine, names []string, cfg api.Config) *mcpDoor {
	return &mcpDoor{log: cfg.Log, server: sync.OnceValues(func() (*mcpserver.Server, error) {
		ctx := context.Background()
		marked, err := markedTools(ctx, eng, names)
		if err != nil {
			return nil, err
		}
		config := mcpserver.Config{Engine: eng, Tools: marked, Version: version().Version, Log: cfg.Log}
		if cfg.Local {
			config.Local = &mcpserver.Principal{ID: localPrincipal}
		} else {
			config.Verify = verifiedBefore
		}
		return mcpserver.New(ctx, config)
	})}
}

// ServeHTTP answers. Once it is closed, clients are to come again.
func (m *mcpDoor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		w.Header().Set("Retry-After", "1") // seconds
		http.Error(w, "the server begins anew", http.StatusServiceUnavailable)
		return
	}
	server, err := m.server()
	m.made = server
	m.mu.Unlock()
	if err != nil {
		m.log.Error("MCP cannot be served", "error", err)
		http.Error(w, "MCP cannot be served", http.StatusInternalServerError)
		return
	}
	server.ServeHTTP(w, r)
}

// close ends the sessions of its clients and what tells them. What runs goes on.
func (m *mcpDoor) close() {
	m.mu.Lock()
	made := m.made
	m.closed = true
	m.mu.Unlock()
	if made != nil {
		made.Close()
	}
}

// verifiedBefore is the principal that the API found: it has looked at the token before anything else did, so that what the
// request has under way ends with it.
func verifiedBefore(ctx context.Context, _ string) (mcpserver.Principal, error) {
	who, ok := access.From(ctx)
	if !ok {
		return mcpserver.Principal{}, access.Unknown
	}
	return mcpserver.Principal{ID: who.ID, Approve: who.May(access.Approve), Who: &who}, nil
}

// serveMCP serves tools to one client on stdio. Whoever holds the data directory does the work, or else this process does.
func serveMCP(ctx context.Context, s mcp.Serving, log *slog.Logger) (err error) {
	eng, err := open(ctx, cli.Opening{Access: cli.Writing, Dir: s.Dir, Database: s.Database, Server: s.Server, AskModels: true, StopTime: s.StopTime, Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	return whileRunning(ctx, eng.Run, func(ctx context.Context) error {
		marked, err := markedTools(ctx, eng, s.Tools)
		if err != nil {
			return err
		}
		server, err := mcpserver.New(ctx, mcpserver.Config{
			Engine: eng, Tools: marked, Local: &mcpserver.Principal{ID: localPrincipal}, Version: version().Version, SoftBudget: s.SoftBudget, Log: log,
		})
		if err != nil {
			return err
		}
		return server.ServeStdio(ctx, io.NopCloser(s.In), nopCloser{s.Out})
	})
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// whileRunning does something while an engine runs, and ends the engine with it. When the engine ends first, so does it.
func whileRunning(ctx context.Context, run func(context.Context) error, do func(context.Context) error) error {
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

// proxyGarbage is the garbage collector's percentage in a proxy, whose heap is small: collecting that as often as Go does costs a
// call more than the memory is worth. GOGC in the environment says otherwise.
const proxyGarbage = 400

// proxyMCP makes the calls of another MCP server durable.
func proxyMCP(ctx context.Context, p mcp.Proxying, log *slog.Logger) (err error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(proxyGarbage)
	}
	if p.Name == "" {
		p.Name = proxyName(p)
	} else if !isFolder(p.Name) {
		return fmt.Errorf("%w name %q: a proxy's name is that of its folder in the data directory, so take one without slashes, such as --name files", perdure.Invalid, p.Name)
	}
	if err := sqlite.RefuseBackup(p.Dir); err != nil {
		return err
	}
	dir := filepath.Join(p.Dir, "mcp-proxy", p.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the proxy's directory: %w", err)
	}
	st, err := sqlite.Open(ctx, sqlite.Config{Dir: dir, Program: "perdure mcp proxy"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	way, err := overHTTP(p)
	if err != nil {
		return err
	}
	era, learned := proxyEra(dir, p, log)
	client, err := mcptool.Open(ctx, mcptool.Config{
		Dial: dialKeeper(dir, p), URL: p.URL, HTTP: way, Classes: p.Classes, Handles: handlesIn(st), Version: version().Version, Log: log, Era: era, Learned: learned,
	})
	if err != nil {
		return err
	}
	remotes, err := mcptool.Tools(ctx, client)
	if err != nil {
		return errors.Join(err, client.Close(true))
	}
	tools := tool.NewRegistry()
	var marked []mcpserver.Exposed
	for _, r := range remotes {
		if err := tool.NewRegistry(r).Err(); err != nil { // one that cannot be served does not stop the others
			log.Warn("a tool of the MCP server cannot be served, and is left out", "tool", r.Definition().Name, "error", err)
			continue
		}
		tools.Register(r)
		marked = append(marked, mcpserver.Exposed{Name: r.Spec().Name, As: r.Definition().Name, Verbatim: true, Definition: r.Definition()})
	}
	eng, err := local.Open(ctx, local.Config{Store: st, Model: noModel{}, Tools: tools, Drain: -1, Return: timesOf(p.StopTime, false).end, SoftBudget: tool.Never, Log: log})
	if err != nil {
		return errors.Join(err, client.Close(true))
	}
	door := newDoor(eng, st, dir, log) // so that people can look, and resolve, while the proxy has the directory
	door.answer = timesOf(p.StopTime, false).answer
	if err := door.openSocket(); err != nil {
		return errors.Join(err, client.Close(true))
	}
	run := func(ctx context.Context) error { return door.carry(ctx, eng.Run) }
	err = whileRunning(ctx, run, func(ctx context.Context) error {
		server, err := mcpserver.New(ctx, mcpserver.Config{
			Engine: eng, Tools: marked, Local: &mcpserver.Principal{ID: localPrincipal}, Name: p.Name, Command: "perdure --data " + dir, Version: version().Version, SoftBudget: p.SoftBudget, Log: log,
		})
		if err != nil {
			return err
		}
		if p.Listen != "" {
			return serveProxy(ctx, p, server)
		}
		return server.ServeStdio(ctx, io.NopCloser(p.In), nopCloser{p.Out})
	})
	return errors.Join(err, client.Close(true), door.close())
}

// proxyName is the name of a proxy that was given none: of its command, with a digest of all its words.
func proxyName(p mcp.Proxying) string {
	words := append([]string{p.URL}, p.Command...)
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	base := "url"
	if len(p.Command) > 0 {
		base = filepath.Base(p.Command[0])
	}
	return base + "-" + hex.EncodeToString(sum[:4])
}

// isFolder reports a name that is a folder of its own right where it is put.
func isFolder(name string) bool {
	return filepath.IsLocal(name) && filepath.Base(name) == name && name != "."
}

// proxyEra is what a proxy's server spoke within a day, and what keeps what it speaks now: one that answers nothing it does not know takes
// half a minute to ask.
func proxyEra(dir string, p mcp.Proxying, log *slog.Logger) (era string, learned func(era string)) {
	of := mcpServer{URL: p.URL}
	if len(p.Command) > 0 {
		of.Command, of.Args = p.Command[0], p.Command[1:]
	}
	s := &mcpServers{dir: dir, log: log}
	if said, ok := s.known(keptServer, of); ok && time.Since(said.At) < mcpFresh {
		era = said.Era
	}
	return era, func(era string) {
		s.keep(keptServer, mcpSaid{Of: of.digest(), At: time.Now().UTC(), Era: era})
	}
}

// overHTTP is the way to a server that was typed as a URL; nil: it is a command.
func overHTTP(p mcp.Proxying) (*http.Client, error) {
	if p.URL == "" {
		return nil, nil
	}
	return egress.ForURL(p.URL)
}

// dialKeeper connects to whoever keeps a proxy's server, and starts a keeper where there is none. It lives on when this process
// dies, in a session of its own.
func dialKeeper(dir string, p mcp.Proxying) func(context.Context) (io.ReadWriteCloser, error) {
	if len(p.Command) == 0 {
		return nil
	}
	return keeper{socket: filepath.Join(dir, keeperSocket), log: filepath.Join(dir, "server.log"), command: p.Command}.dial
}

// keeper is a process that keeps an MCP server.
type keeper struct {
	socket, log string // paths
	command     []string
	env         []string // beside this program's own
}

func (k keeper) dial(ctx context.Context) (io.ReadWriteCloser, error) {
	if len(k.socket) > maxSocketPath {
		return nil, fmt.Errorf("%w socket %s: its path has %d bytes, and systems take %d; give a data directory with a shorter path (--data), or a shorter name",
			perdure.Invalid, k.socket, len(k.socket), maxSocketPath)
	}
	if conn, err := egress.DialSocket(ctx, k.socket); err == nil {
		return conn, nil
	}
	out, err := os.OpenFile(k.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	process := exec.Command(self(), append([]string{"mcp", "keep", "--socket", k.socket, "--"}, k.command...)...)
	process.Stderr, process.SysProcAttr, process.Env = out, &syscall.SysProcAttr{Setsid: true}, append(strangersEnv(), k.env...)
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("start the keeper: %w", err)
	}
	ended := make(chan error, 1) // of one process
	go func() { ended <- process.Wait() }()
	for {
		if conn, err := egress.DialSocket(ctx, k.socket); err == nil {
			return conn, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case err := <-ended:
			return nil, fmt.Errorf("the server did not stay: %v; %s says why", err, k.log)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ownVariables open what is ours: a server of others is not handed them (S15). One that needs them is given them in mcp.json.
var ownVariables = []string{"PERDURE_TOKEN", "PERDURE_DATABASE"}

// strangersEnv is this program's environment for a server of others.
func strangersEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(ownVariables, name)
	})
}

// serveProxy serves on a loopback address.
func serveProxy(ctx context.Context, p mcp.Proxying, handler http.Handler) error {
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
	stop := context.AfterFunc(ctx, func() { _ = web.Close() }) // the engine lets its work be
	defer stop()
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// keepMCP keeps a server.
func keepMCP(ctx context.Context, k mcp.Keeping, log *slog.Logger) error {
	return mcptool.Keep(ctx, mcptool.Keeping{Socket: k.Socket, Command: k.Command, Linger: k.Linger, Stop: k.StopTime, Log: log})
}

// noModel is the model of a proxy, which asks none.
type noModel struct{}

// Stream has no answer.
func (noModel) Stream(context.Context, model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		yield(model.Delta{}, &model.Error{Code: model.Unavailable, Text: "a proxy has no model"})
	}
}
