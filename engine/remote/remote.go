// Package remote is the engine at the far end of the HTTP API: what an [engine.Engine] is in this process, it
// is for a server's socket or URL. It does no work itself.
//
// It may import the root, engine and the leaves, of which it takes internal/egress for its connections. The
// one thing to know: a call may reach the server more often than once, since it is tried again when the server
// is away or an answer is cut, and still has its effect once. Each write carries a key of its own, under which
// the server carries it out once (H4), and sessions and messages get their ids here, before the first try (N3).
package remote

import (
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

	// silence is how long a server may say nothing while it owes something. A stream has a ping every 15 s
	// (ST1), so three of them are missing then.
	silence = 45 * time.Second
)

// Config says where the server is. URL is required.
type Config struct {
	URL   string // http://127.0.0.1:7373, or unix:///path/to/perdure.sock
	Token string // bearer; not for a socket
	Actor string // who acts over a socket, where a call does not say it: user or operator; empty: user
	// HTTP carries the requests, and has no timeout of its own. nil: one that reaches what URL names, and nothing
	// else.
	HTTP *http.Client
	// Retry is how long a call waits for a server that is away or draining. 0: 10 s; -1: not at all.
	Retry time.Duration
	// Outage is how long a follower or a waiter that has once reached its server holds out while the server
	// is away. Before it has, Retry holds. 0: 5 min; -1: as long as its context lives.
	Outage time.Duration
}

// Engine asks a server. It is safe for concurrent use, starts no goroutine, and outlives its server: calls go
// on where a restarted server takes them up.
//
// An error from the server is a [*Problem] with the server's own text; errors.Is tells its kind. Unavailable
// means that the server could not be reached in time: whether a write had its effect is then not known, so
// look before sending another one.
//
// Who did something is for the server to say. Over a socket the words user and operator are passed on, any
// other becomes Config.Actor; over TCP it is the token's owner, whatever the caller says.
type Engine struct {
	cfg     Config
	base    string // without a slash at its end
	socket  bool
	http    *http.Client
	silence time.Duration
	most    int64 // bytes of an answer that is no stream
}

var _ engine.Engine = (*Engine)(nil)

// New checks the configuration; it connects to nothing. Invalid: what is wrong with it.
func New(cfg Config) (*Engine, error) {
	path, socket := strings.CutPrefix(cfg.URL, "unix://")
	e := &Engine{cfg: cfg, base: strings.TrimRight(cfg.URL, "/"), socket: socket, http: cfg.HTTP, silence: silence, most: maxAnswerBytes}
	if fault := e.fault(path); fault != "" {
		return nil, fmt.Errorf("remote engine: %w configuration: %s", perdure.Invalid, fault)
	}
	if e.cfg.Retry == 0 {
		e.cfg.Retry = defaultRetry
	}
	if e.cfg.Outage == 0 {
		e.cfg.Outage = defaultOutage
	}
	if socket {
		e.base = "http://localhost" // the name that a server on this machine goes by
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

// fault says what is wrong with the configuration; empty: nothing.
func (e *Engine) fault(path string) string {
	switch {
	case e.cfg.URL == "":
		return "URL is empty: write http://HOST:PORT or unix:///PATH"
	case e.socket && !filepath.IsAbs(path):
		return fmt.Sprintf("the socket's path %q is not absolute: write unix:///PATH", path)
	case e.socket && e.cfg.Token != "":
		return "a socket takes no token: whoever may open it is its owner; leave Token out"
	case !e.socket && e.cfg.Actor != "":
		return "Actor is for a socket: over TCP the token says who acts; leave it out"
	case !e.socket && !strings.HasPrefix(e.cfg.URL, "http://") && !strings.HasPrefix(e.cfg.URL, "https://"):
		return fmt.Sprintf("the URL %q is none of a server: write http://HOST:PORT or unix:///PATH", e.cfg.URL)
	case strings.ContainsFunc(e.cfg.Token, invisible):
		return "Token holds a space or another sign that no token has: copy it again"
	case !isActor(e.cfg.Actor) && e.cfg.Actor != "":
		return fmt.Sprintf("Actor %q: user or operator", e.cfg.Actor)
	}
	return ""
}

// invisible reports what may not stand in the field of a header.
func invisible(r rune) bool { return r <= ' ' || r >= 0x7f }

// isActor reports whether the server lets a socket's owner act under a word.
func isActor(word string) bool { return word == "user" || word == "operator" }

// Close lets idle connections go. Calls that run are not touched, and later ones connect anew.
func (e *Engine) Close() { e.http.CloseIdleConnections() }

// Place says where the server keeps its sessions. NotFound: it is of a version that does not say it.
func (e *Engine) Place(ctx context.Context) (p engine.Place, err error) {
	_, err = e.call(ctx, request{what: "where the server keeps its sessions", path: "/v1/place"}, &p)
	return p, err
}
