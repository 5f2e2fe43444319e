// Package mcptool makes tools of an MCP server's tools, and keeps such a server alive beside its client.
//
// It may import the root, tool and the MCP SDK. The one thing to know: a call's id on the wire is its idempotency key and
// execution, so that the same call, sent again after a crash, is one call to the keeper, and its answer is found.
package mcptool

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// metaCall is the metadata under which a request says which call it is.
const metaCall = "io.github.perdure/call"

// legacyVersion is asked for where the newest is not understood.
const legacyVersion = "2025-11-25"

// modernVersion is the first without sessions, on which calls may become tasks.
const modernVersion = "2026-07-28"

// Config says which server, and how it is reached. Dial or URL is required.
type Config struct {
	// Dial connects to the server's keeper, and starts one where there is none. It is called again when the connection is lost.
	Dial func(ctx context.Context) (io.ReadWriteCloser, error)
	URL  string       // of a server over HTTP, instead
	HTTP *http.Client // the way there, with its transport; required with URL

	Classes map[string]perdure.EffectClass // by the server's name of the tool; a tool without one is at_most_once (TL10)
	Version string                         // of this client; empty: dev
	Handles Handles                        // nil: a call that the server makes a task is lost with this process
	Era     string                         // the version that the server is known to speak; empty: it is asked
	Learned func(era string)               // is told the version when it is another one; nil: nobody is
	Changed func()                         // is told that the server has other tools than it said; nil: nobody is
	// Patience is how long the server may take to answer what is not a call, a poll for one; 0: 30 s.
	Patience time.Duration
	Log      *slog.Logger // nil: discarded
}

// Client is a connection to an MCP server that is made again when it is lost. It is safe for concurrent use.
type Client struct {
	cfg    Config
	mcp    *mcp.Client
	making chan struct{} // capacity 1: who is in it makes the connection, and alone touches cfg.Era

	mu      sync.Mutex
	now     *connection         // guarded by mu; nil: there is none
	calls   map[string]*running // guarded by mu; by their ids on the wire
	mirrors bool                // guarded by mu; some argument goes into a header of HTTP, as the tool's definition says
	changed bool                // guarded by mu; the server has other tools since they were listed
	until   time.Time           // guarded by mu; the server wants to be left alone
}

// running is a call that waits for its answer.
type running struct {
	env    tool.Env
	result json.RawMessage // as it was written
}

// Open connects to a server.
func Open(ctx context.Context, cfg Config) (*Client, error) {
	if (cfg.Dial == nil) == (cfg.URL == "") || cfg.URL != "" && (cfg.HTTP == nil || cfg.HTTP.Transport == nil) {
		return nil, fmt.Errorf("open MCP client: %w configuration: Dial, or URL and HTTP, are required", perdure.Invalid)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Version == "" {
		cfg.Version = "dev"
	}
	if cfg.Patience <= 0 {
		cfg.Patience = 30 * time.Second
	}
	c := &Client{cfg: cfg, calls: map[string]*running{}, making: make(chan struct{}, 1)}
	caps := &mcp.ClientCapabilities{}
	caps.AddExtension(extension, nil)
	c.mcp = mcp.NewClient(&mcp.Implementation{Name: "perdure", Version: cfg.Version}, &mcp.ClientOptions{
		Logger: cfg.Log, Capabilities: caps,
		ElicitationHandler: func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return c.elicit(ctx, r.Params)
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { c.progress(r.Params) },
	})
	c.mcp.AddReceivingMiddleware(notHandedOn, c.listChanged)
	if err := knowTasks(c.mcp); err != nil {
		return nil, err
	}
	if _, _, err := c.connected(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// connected returns the connection, made anew where it was lost, and since when its server lives.
func (c *Client) connected(ctx context.Context) (*mcp.ClientSession, time.Time, error) {
	if session, born := c.current(); session != nil {
		return session, born, nil
	}
	select { // a server that says nothing keeps only those waiting who want something of it
	case c.making <- struct{}{}:
		defer func() { <-c.making }()
	case <-ctx.Done():
		return nil, time.Time{}, context.Cause(ctx)
	}
	if session, born := c.current(); session != nil {
		return session, born, nil
	}
	var failed error
	for _, version := range c.versions() {
		probe, cancel := context.WithTimeout(ctx, c.cfg.Patience)
		made, err := c.connect(probe, version)
		cancel()
		if err == nil {
			c.use(ctx, made)
			return made.session, made.born, nil
		}
		failed = errors.Join(failed, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, time.Time{}, fmt.Errorf("connect to the MCP server: %w: %w", perdure.Unavailable, failed)
}

// current is the connection that there is; nil: there is none.
func (c *Client) current() (*mcp.ClientSession, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == nil {
		return nil, time.Time{}
	}
	return c.now.session, c.now.born
}

// use makes a connection the one that calls go over; whoever calls is in making.
func (c *Client) use(ctx context.Context, made *connection) {
	c.mu.Lock()
	mirrors := c.mirrors
	c.mu.Unlock()
	if mirrors {
		_, _ = c.list(ctx, made.session) // what the server wants in a header it asks for itself
	}
	c.mu.Lock()
	c.now, c.changed = made, false
	c.mu.Unlock()
	if made.dropped > 0 { // that the tools are others may be among it
		c.cfg.Log.Warn("the MCP server said more than was held while nobody was connected, and its oldest messages were dropped", "messages", made.dropped)
		c.toolsChanged()
	}
	if spoken := made.session.InitializeResult(); spoken != nil && spoken.ProtocolVersion != c.cfg.Era {
		if c.cfg.Era = spoken.ProtocolVersion; c.cfg.Learned != nil {
			c.cfg.Learned(c.cfg.Era)
		}
	}
	go func() { // until the connection ends
		_ = made.session.Wait() // why does not matter: it is made anew
		c.lost(made.session)
	}()
}

// versions is what is asked for, in turn; whoever calls is in making. A server that is known to speak an older version is not asked for the
// newest first.
func (c *Client) versions() []string {
	if c.cfg.Era != "" && c.cfg.Era < modernVersion {
		return []string{c.cfg.Era, ""}
	}
	return []string{"", legacyVersion}
}

// connect makes one connection.
func (c *Client) connect(ctx context.Context, version string) (made *connection, err error) {
	options := &mcp.ClientSessionOptions{ProtocolVersion: version}
	made = &connection{gone: make(chan struct{})}
	if c.cfg.URL != "" {
		way := *c.cfg.HTTP
		way.Transport = &taskWay{next: c.cfg.HTTP.Transport, wait: c.leaveAlone, came: c.came, gone: made.gone}
		made.session, err = c.mcp.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: c.cfg.URL, HTTPClient: &way}, options)
		return made, err
	}
	conn, in, said, err := c.greeted(ctx)
	if err != nil && conn != nil && ctx.Err() == nil { // that keeper ended just then, and leaves its place to another one
		conn, in, said, err = c.greeted(ctx)
	}
	if err != nil {
		return made, err
	}
	wire := &mcp.IOTransport{Reader: readCloser{in, conn}, Writer: conn, MaxLineLength: 4 * maxLine} // the keeper bounds lines, and ends no connection over one
	made.session, err = c.mcp.Connect(ctx, &named{c: c, inner: wire}, options)
	if err != nil {
		return made, errors.Join(err, ignoreClosed(conn.Close()))
	}
	made.born, made.dropped, made.conn = said.Keeper.At, said.Keeper.Dropped, conn
	return made, nil
}

// greeted dials a keeper, and reads which one it is.
func (c *Client) greeted(ctx context.Context) (conn io.ReadWriteCloser, in *bufio.Reader, said hello, err error) {
	if conn, err = c.cfg.Dial(ctx); err != nil {
		return nil, nil, said, err
	}
	in = bufio.NewReaderSize(conn, 64<<10)
	silent := context.AfterFunc(ctx, func() { _ = conn.Close() }) // a keeper that says nothing
	first, err := in.ReadBytes('\n')
	silent()
	if err == nil {
		err = perdure.DecodeKnownJSON(first, &said)
	}
	if err != nil {
		err = errors.Join(fmt.Errorf("the keeper says nothing: %w", err), ignoreClosed(conn.Close()))
	}
	return conn, in, said, err
}

type readCloser struct {
	io.Reader
	io.Closer
}

// Definitions lists the server's tools.
func (c *Client) Definitions(ctx context.Context) ([]*mcp.Tool, error) {
	session, _, err := c.connected(ctx)
	if err != nil {
		return nil, err
	}
	all, err := c.list(ctx, session)
	if err != nil {
		return nil, fmt.Errorf("list the tools of the MCP server: %w", err)
	}
	for _, t := range all {
		if bytes.Contains(mustJSON(t.InputSchema), []byte(`"x-mcp-header"`)) {
			c.mu.Lock()
			c.mirrors = true
			c.mu.Unlock()
		}
	}
	return all, nil
}

// maxTools is the most tools of one server: who says more of them says so for ever.
const maxTools = 2_000

// list lists the tools of a connection, which knows from then on what of their arguments goes into headers.
func (c *Client) list(ctx context.Context, session *mcp.ClientSession) (all []*mcp.Tool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Patience)
	defer cancel()
	for t, err := range session.Tools(ctx, nil) {
		if err != nil {
			return all, err
		}
		if all = append(all, t); len(all) > maxTools {
			return nil, fmt.Errorf("%w: it has more than %d", perdure.Limit, maxTools)
		}
	}
	return all, nil
}

// hears notes that a call runs, until what it returns is called.
func (c *Client) hears(id string, env tool.Env) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[id] = &running{env: env}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.calls, id)
	}
}

// came notes the result of a call as its server wrote it.
func (c *Client) came(id string, result json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of := c.calls[id]; of != nil {
		of.result = result
	}
}

// written is that result; nil: none came.
func (c *Client) written(id string) json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of := c.calls[id]; of != nil {
		return of.result
	}
	return nil
}

// leaveAlone notes that the server wants to be left alone for a while.
func (c *Client) leaveAlone(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if until := time.Now().Add(d); until.After(c.until) {
		c.until = until
	}
}

// About says which server it is, and whether it makes tasks of calls; nothing while there is no connection.
func (c *Client) About() (server string, tasks bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == nil || c.now.session.InitializeResult() == nil {
		return "", false
	}
	if info := c.now.session.InitializeResult().ServerInfo; info != nil {
		server = strings.TrimSpace(info.Name + " " + info.Version)
	}
	return server, makesTasks(c.now.session)
}

// busy reports whether calls run.
func (c *Client) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls) > 0
}

// alone is for how long the server wants to be left alone.
func (c *Client) alone() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Until(c.until)
}

// elicit puts a question of the server to people. The protocol does not say which call it belongs to, so there must be one only.
func (c *Client) elicit(ctx context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	c.mu.Lock()
	all := slices.Collect(maps.Values(c.calls))
	c.mu.Unlock()
	if len(all) != 1 {
		return nil, fmt.Errorf("%d calls run, and it is not known which of them asks: the question is not handed on", len(all))
	}
	said, err := ask(ctx, all[0].env, Asked{Prompt: p.Message, Schema: mustJSON(p.RequestedSchema)})
	if err != nil {
		return nil, fmt.Errorf("nobody can be asked here: %w", err)
	}
	result := &mcp.ElicitResult{Action: "accept"}
	return result, perdure.DecodeKnownJSON(mustJSON(said["content"]), &result.Content)
}

// notHandedOn refuses what servers ask of their clients that is not handed on. The SDK has its own words for a method that is not found.
func notHandedOn(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch method {
		case "sampling/createMessage", "roots/list":
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: method + " is not handed on: Perdure stands between this server and its client"}
		}
		return next(ctx, method, req)
	}
}

// listChanged notes that the server has other tools: the SDK forgets then which of their arguments go into headers.
func (c *Client) listChanged(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method == "notifications/tools/list_changed" {
			defer c.toolsChanged()
		}
		return next(ctx, method, req)
	}
}

// toolsChanged notes that the tools are others than they were, and reports whether some of their arguments go into headers.
func (c *Client) toolsChanged() bool {
	c.mu.Lock()
	c.changed = true
	mirrors := c.mirrors
	c.mu.Unlock()
	if c.cfg.Changed != nil {
		c.cfg.Changed()
	}
	return mirrors
}

// listed asks a server for its tools again where it said that they are others, and where some of their arguments go into headers.
func (c *Client) listed(ctx context.Context, session *mcp.ClientSession) {
	c.mu.Lock()
	again := c.changed && c.mirrors
	c.changed = false
	c.mu.Unlock()
	if again {
		_, _ = c.list(ctx, session) // what the server wants in a header it asks for itself
	}
}

// progress hands a server's word on a call to its sink.
func (c *Client) progress(p *mcp.ProgressNotificationParams) {
	token, _ := p.ProgressToken.(string)
	c.mu.Lock()
	of := c.calls[token]
	c.mu.Unlock()
	if of == nil {
		return
	}
	sink := of.env.Report()
	sink.Progress(p.Progress, p.Total, p.Message)
	if p.Message != "" {
		sink.Status(p.Message)
	}
}
