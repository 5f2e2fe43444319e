// Package remote is an [engine.Engine] behind the HTTP API, reached at a server's socket or URL. It
// does no work itself.
//
// It may import the root, engine and the leaf packages, of which it uses internal/egress for its
// connections. The one thing to know: a request may reach the server more than once, because it is
// retried when the server is unreachable or a response is cut off, but it has its effect once. Each
// write carries its own idempotency key, under which the server carries it out once (H4), and the
// client chooses the ids of sessions and messages before the first attempt (N3).
package remote

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/egress"
)

const (
	defaultRetry  = 10 * time.Second
	defaultOutage = 5 * time.Minute

	// silence is how long a server may send nothing while a response is due. A stream has a ping
	// every 15 s (ST1), so three pings are missing then.
	silence = 45 * time.Second
)

// Config describes the server. URL is required.
type Config struct {
	URL   string // http://127.0.0.1:7373, or unix:///path/to/perdure.sock
	Token string // bearer token; not for a socket
	Actor string // the actor of writes over a socket that do not name one: user or operator; empty: user
	// HTTP sends the requests; it must not have a timeout. nil: a client that can only reach URL.
	HTTP *http.Client
	// Retry is how long a call retries while the server is unreachable or shutting down. 0: 10 s;
	// -1: not at all.
	Retry time.Duration
	// Outage is how long a follower or waiter keeps retrying after it has once reached the server;
	// before that, Retry applies. 0: 5 min; -1: until its context ends.
	Outage time.Duration
	// Waiting is called once for each call that has been retried for some seconds, with the last
	// failure, so that a program can tell its user what it waits for. It may be called from several
	// goroutines at once. nil: it is not called.
	Waiting func(url string, failure error)
}

// Engine sends its calls to a server. It is safe for concurrent use, starts no goroutine, and
// survives restarts of the server.
//
// An error from the server is a [*Problem] with the server's text; use errors.Is for its kind.
// Unavailable means that the server could not be reached in time. It is then unknown whether a
// write had its effect, so read before writing again.
//
// The server decides who the actor of a request is. Over a socket, the actors user and operator are
// passed on, and any other becomes Config.Actor. Over TCP, the actor is the owner of the token,
// whatever the caller says.
type Engine struct {
	cfg      Config
	base     string // without a trailing slash
	socket   bool
	http     *http.Client
	silence  time.Duration
	maxBytes int64 // the largest response, in bytes, except for streams
}

var _ engine.Engine = (*Engine)(nil)

// New checks the configuration. It does not connect. Invalid: the configuration is not valid; the
// error says why.
func New(cfg Config) (*Engine, error) {
	path, socket := strings.CutPrefix(cfg.URL, "unix://")
	e := &Engine{
		cfg: cfg, base: strings.TrimRight(cfg.URL, "/"), socket: socket, http: cfg.HTTP, silence: silence,
		maxBytes: maxResponseBytes,
	}
	if fault := e.fault(path); fault != "" {
		return nil, fmt.Errorf("remote engine: %w configuration: %s", perdure.Invalid, fault)
	}
	e.cfg.Retry = cmp.Or(e.cfg.Retry, defaultRetry)
	e.cfg.Outage = cmp.Or(e.cfg.Outage, defaultOutage)
	if socket {
		e.base = "http://localhost" // the host name that a server expects over a socket
	}
	switch {
	case e.http != nil:
	case socket:
		e.http = egress.Socket(path)
	default:
		client, err := egress.ForURL(e.base)
		if err != nil {
			return nil, fmt.Errorf("remote engine: %w", err)
		}
		e.http = client
	}
	return e, nil
}

// fault describes the error in the configuration; empty: none.
func (e *Engine) fault(path string) string {
	switch {
	case e.cfg.URL == "":
		return "URL is empty; use http://HOST:PORT or unix:///PATH"
	case e.socket && !filepath.IsAbs(path):
		return fmt.Sprintf("not an absolute path of a socket: %q; use unix:///PATH", path)
	case e.socket && e.cfg.Token != "":
		return "a socket takes no token, because access to the socket is the permission; leave Token empty"
	case !e.socket && e.cfg.Actor != "":
		return "Actor is only for a socket, because over TCP the token names the actor; leave it empty"
	case !e.socket && !strings.HasPrefix(e.cfg.URL, "http://") && !strings.HasPrefix(e.cfg.URL, "https://"):
		return fmt.Sprintf("not a server URL: %q; use http://HOST:PORT or unix:///PATH", e.cfg.URL)
	case strings.ContainsFunc(e.cfg.Token, invisible):
		return "Token contains a space or another invalid character; copy it again"
	case !isActor(e.cfg.Actor) && e.cfg.Actor != "":
		return fmt.Sprintf("Actor %q must be user or operator", e.cfg.Actor)
	}
	return ""
}

// invisible reports whether a character is not allowed in a token.
func invisible(r rune) bool { return r <= ' ' || r >= 0x7f }

// isActor reports whether the server accepts a name as the actor of a socket's owner.
func isActor(word string) bool { return word == "user" || word == "operator" }

// Close closes idle connections. Running calls are not affected, and later calls connect again.
func (e *Engine) Close() { e.http.CloseIdleConnections() }

// StorageIdentity returns the identity of the server's storage. NotFound: the server's version does
// not support it.
func (e *Engine) StorageIdentity(ctx context.Context) (engine.StorageIdentity, error) {
	return fetch[engine.StorageIdentity](ctx, e, request{what: "storage of the server", path: "/v1/place"})
}
