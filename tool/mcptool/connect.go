package mcptool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
)

// DefaultStartup is the default timeout for connecting to a server. A server that a package manager
// downloads first takes most of a minute.
const DefaultStartup = 90 * time.Second

// methodDiscover is the first request of the newest protocol version.
const methodDiscover = "server/discover"

// A server that has read its first message and is silent is started again, because the message may
// have stopped it: after firstPatience if its protocol version is unknown, else when restartReserve
// of the timeout for connecting is left.
const (
	firstPatience  = 10 * time.Second
	restartReserve = 10 * time.Second
)

// firstLimit returns how long the first attempt to connect may take.
func (c *Client) firstLimit() time.Duration {
	if c.known() == "" && c.cfg.Dial != nil {
		return min(firstPatience, c.cfg.Startup/2)
	}
	return c.cfg.Startup - min(restartReserve, c.cfg.Startup/4)
}

// probeTime returns how long a server may take to answer methodDiscover.
func (c *Client) probeTime() time.Duration {
	if c.known() >= modernVersion {
		return c.cfg.Patience
	}
	return c.cfg.Probe
}

// known returns the protocol version that the server is known to support; empty: unknown.
func (c *Client) known() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.era
}

// connected returns the connection, made again if it was lost, and the start time of its server.
func (c *Client) connected(ctx context.Context) (*mcp.ClientSession, time.Time, error) {
	if session, startedAt := c.current(); session != nil {
		return session, startedAt, nil
	}
	select { // a silent server blocks only the callers that need it
	case c.connecting <- struct{}{}:
		defer func() { <-c.connecting }()
	case <-ctx.Done():
		return nil, time.Time{}, context.Cause(ctx)
	}
	if session, startedAt := c.current(); session != nil {
		return session, startedAt, nil
	}
	limit := time.Now().Add(c.cfg.Startup)
	starting, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	made, err := c.attempts(starting, limit)
	if err == nil {
		c.use(ctx, made)
		return made.session, made.serverStart, nil
	}
	switch {
	case starting.Err() == nil || ctx.Err() != nil:
	case err.Error() == context.DeadlineExceeded.Error(): // says no more
		err = fmt.Errorf("it did not answer within %s", c.cfg.Startup)
	default:
		err = fmt.Errorf("it did not answer within %s: %w", c.cfg.Startup, err)
	}
	return nil, time.Time{}, fmt.Errorf("connect to the MCP server: %w: %w", perdure.Unavailable, err)
}

// attempts connects with one protocol version after the other. The caller holds connecting.
func (c *Client) attempts(ctx context.Context, limit time.Time) (*connection, error) {
	var failed error
	versions := c.versions()
	for i, again := 0, false; i < len(versions); i++ {
		until := limit
		if i == 0 {
			until = time.Now().Add(c.firstLimit())
		}
		attempt, cancel := context.WithDeadline(ctx, until)
		made, err := c.connect(attempt, versions[i])
		silent := attempt.Err() != nil
		cancel()
		if err == nil {
			return made, nil
		}
		switch {
		case failed == nil:
			failed = err
		case err.Error() != failed.Error():
			failed = fmt.Errorf("%w; then %w", failed, err)
		}
		if ctx.Err() != nil {
			break
		}
		if silent && c.cfg.Dial != nil { // the first message may have stopped it
			c.endUnused(ctx)
		}
		if made.answeredLate() && !again { // it answered the newest version after all
			versions, again = append(versions, ""), true
		}
	}
	return nil, failed
}

// current returns the existing connection, or nil.
func (c *Client) current() (*mcp.ClientSession, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == nil {
		return nil, time.Time{}
	}
	return c.now.session, c.now.serverStart
}

// use makes a connection the current one. The caller holds connecting.
func (c *Client) use(ctx context.Context, made *connection) {
	c.mu.Lock()
	mirrors := c.mirroredTasks
	c.mu.Unlock()
	if mirrors {
		_, _ = c.list(ctx, made.session) // a server that requires headers reports a missing one itself
	}
	c.mu.Lock()
	c.now, c.changed = made, false
	c.mu.Unlock()
	if made.dropped > 0 { // one of the dropped messages may have announced changed tools
		c.cfg.Log.Warn("MCP server messages dropped while no client was connected", "messages", made.dropped)
		c.toolsChanged()
	}
	c.learn(made)
	go func() { // until the connection ends
		_ = made.session.Wait() // the reason does not matter: the connection is made again
		c.lost(made.session)
	}()
}

// learn records the protocol version of a connection. A server that answered the newest version too
// late is asked for it again next time.
func (c *Client) learn(made *connection) {
	spoken := made.session.InitializeResult()
	if spoken == nil || made.answeredLate() {
		return
	}
	c.mu.Lock()
	news := spoken.ProtocolVersion != c.era
	c.era = spoken.ProtocolVersion
	c.mu.Unlock()
	if news && c.cfg.OnVersion != nil {
		c.cfg.OnVersion(spoken.ProtocolVersion)
	}
}

// versions returns the protocol versions to request, in order. The latest version is not tried
// first with a server that is known to support an older one.
func (c *Client) versions() []string {
	if era := c.known(); era != "" && era < modernVersion {
		return []string{era, ""}
	}
	return []string{"", legacyVersion}
}

// connect makes one connection. After an error, made has what is known of the server by then.
func (c *Client) connect(ctx context.Context, version string) (made *connection, err error) {
	options := &mcp.ClientSessionOptions{ProtocolVersion: version}
	made = &connection{closed: make(chan struct{})}
	if c.cfg.URL != "" {
		way := *c.cfg.HTTP
		way.Transport = &httpWire{c: c, made: made, next: c.cfg.HTTP.Transport, open: map[string]*httpRequest{}}
		made.session, err = c.mcp.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: c.cfg.URL, HTTPClient: &way, MaxEventSize: 4 * maxBody}, options)
		return made, err
	}
	conn, in, hi, err := c.dialBroker(ctx)
	// That broker has just ended; another one takes its place.
	if err != nil && conn != nil && ctx.Err() == nil {
		conn, in, hi, err = c.dialBroker(ctx)
	}
	if err != nil {
		return made, err
	}
	// The broker limits the length of lines and keeps the connection open after a longer one.
	wire := &mcp.IOTransport{Reader: readCloser{in, conn}, Writer: conn, MaxLineLength: 4 * maxLine}
	made.session, err = c.mcp.Connect(ctx, &requestIDs{c: c, made: made, inner: wire}, options)
	if err != nil {
		return made, errors.Join(err, ignoreClosed(conn.Close()))
	}
	made.serverStart, made.dropped, made.conn = hi.Broker.At, hi.Broker.Dropped, conn
	return made, nil
}

// dialBroker connects to a broker and reads its greeting.
func (c *Client) dialBroker(ctx context.Context) (conn io.ReadWriteCloser, in *bufio.Reader, hi greeting, err error) {
	if conn, err = c.cfg.Dial(ctx); err != nil {
		return nil, nil, hi, err
	}
	in = bufio.NewReaderSize(conn, 64<<10)
	silent := context.AfterFunc(ctx, func() { _ = conn.Close() }) // in case the broker sends nothing
	first, err := in.ReadBytes('\n')
	silent()
	if err == nil {
		err = perdure.DecodeKnownJSON(first, &hi)
	}
	if err != nil {
		err = errors.Join(fmt.Errorf("read the greeting of the MCP broker: %w", err), ignoreClosed(conn.Close()))
	}
	return conn, in, hi, err
}

// endUnused ends the server of the broker if it has run no call and is not still starting. It waits
// until the broker lets another one take its place, which is when the server has exited.
func (c *Client) endUnused(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, defaultStop)
	defer cancel()
	conn, in, _, err := c.dialBroker(ctx)
	if err != nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := conn.Write([]byte(`{"jsonrpc":"2.0","method":"` + endMethod + `","params":{"unused":true}}` + "\n")); err == nil {
		_, _ = io.Copy(io.Discard, in) // until the broker has ended
	}
}

type readCloser struct {
	io.Reader
	io.Closer
}
