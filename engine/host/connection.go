package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/connection"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/store"
)

// everyUser stands for all users of an org in a list of connections.
const everyUser = "*"

// newConnections returns the connections of users. Its own ports do not refresh tokens, because it
// does that itself.
func (e *Host) newConnections(cfg Config) *connection.Connections {
	ports := e.ports(cfg)
	ports.FreshToken = nil
	return connection.New(connection.Config{Ports: ports, Providers: cfg.Catalogue.Providers.OAuth, Log: cfg.Log})
}

// freshToken returns the token of a connection for the ports of a session.
func (e *Host) freshToken(ctx context.Context, row store.Connection) (string, error) {
	return e.connections.Token(ctx, row)
}

// keyOf returns the key of the connection of a user in the org that the engine works for. An empty
// user is the acting one.
func keyOf(ctx context.Context, provider, user string) store.ConnectionKey {
	acting, _ := engine.OwnerFromContext(ctx)
	key := store.ConnectionKey{Org: acting.Org, User: cmp.Or(user, acting.User, sessionport.LocalUser), Provider: provider}
	if key.Org == budget.DefaultOrg {
		key.Org = ""
	}
	return key
}

// shown describes an account to callers.
func (e hostConnections) shown(ctx context.Context, a connection.Account) (engine.Connection, error) {
	now, err := e.connections.Now(ctx)
	c := engine.Connection{
		Name: a.Key.Provider, Kind: engine.ConnectionAccount, State: engine.ConnectionReady, Tools: []string{},
		User: a.Key.User, Owner: a.OwnerOf(), Hosts: a.Details.Hosts, Scopes: a.Details.Scopes, OAuth: a.Details.OAuth,
		ExpiresAt: a.Details.ExpiresAt, CreatedAt: a.CreatedAt, UpdatedAt: a.UpdatedAt,
	}
	if a.HasExpired(now) {
		c.State, c.LastError = engine.ConnectionExpired, cmp.Or(a.Details.Expired, "it has expired")
	}
	return c, err
}

// List lists accounts, then servers.
func (e hostConnections) List(ctx context.Context, user string) (found []engine.Connection, err error) {
	key := keyOf(ctx, "", user)
	if user == everyUser {
		key.User = ""
	}
	all, err := e.connections.List(ctx, key.Org, key.User)
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		c, err := e.shown(ctx, one)
		if err != nil {
			return nil, err
		}
		found = append(found, c)
	}
	if e.cfg.Catalogue.Providers.Connections == nil || key.Org != "" { // the servers belong to the default org
		return found, nil
	}
	servers, err := e.cfg.Catalogue.Providers.Connections.List(ctx)
	return append(found, servers...), err
}

// Test tests an account, or connects to a server again.
func (e hostConnections) Test(ctx context.Context, name string) (engine.Connection, error) {
	key := keyOf(ctx, name, "")
	a, err := e.connections.Get(ctx, key)
	if err == nil {
		return e.testAccount(ctx, a)
	}
	if !errors.Is(err, perdure.NotFound) {
		return engine.Connection{}, err
	}
	if e.cfg.Catalogue.Providers.Connections == nil || key.Org != "" {
		return engine.Connection{}, fmt.Errorf("connection %.80q: %w", name, perdure.NotFound)
	}
	ports, mask := accountPorts(ctx, e.Host)
	c, err := e.cfg.Catalogue.Providers.Connections.Test(ctx, name, ports)
	c.LastError = mask.Mask(c.LastError)
	return c, err
}

// testAccount opens the token of an account, and refreshes it if it is about to expire.
func (e hostConnections) testAccount(ctx context.Context, a connection.Account) (engine.Connection, error) {
	problem := e.connections.Check(ctx, a.Key)
	a, err := e.connections.Get(ctx, a.Key) // as the refresh has left it
	if err != nil {
		return engine.Connection{}, err
	}
	c, err := e.shown(ctx, a)
	if problem != nil && c.State == engine.ConnectionReady {
		c.State, c.LastError = engine.ConnectionUnreachable, problem.Error()
	}
	return c, err
}

// Put stores a token that a user gives.
func (e hostConnections) Put(ctx context.Context, w engine.ConnectionWrite) (engine.Connection, error) {
	made, err := e.connections.Put(ctx, connection.Write{Key: keyOf(ctx, w.Provider, w.User), Token: w.Token, Owner: w.Owner,
		Hosts: w.Hosts, ExpiresAt: w.ExpiresAt})
	if err != nil {
		return engine.Connection{}, err
	}
	e.ResumeConnected(ctx)
	return e.shown(ctx, made)
}

// Remove removes the connection of a user.
func (e hostConnections) Remove(ctx context.Context, provider, user string) error {
	return e.connections.Remove(ctx, keyOf(ctx, provider, user))
}

// Begin begins an authorization.
func (e hostConnections) Begin(ctx context.Context, r engine.ConnectionRequest) (engine.ConnectionFlow, error) {
	begun, err := e.connections.Begin(ctx, connection.Request{Key: keyOf(ctx, r.Provider, r.User), RedirectURL: r.RedirectURL})
	return engine.ConnectionFlow{URL: begun.URL, State: begun.State, ExpiresAt: begun.ExpiresAt}, err
}

// Finish ends an authorization. A principal can end its own only; without one, as in the request of
// a browser that comes back from the provider, the state decides.
func (e hostConnections) Finish(ctx context.Context, a engine.ConnectionAnswer) (engine.Connection, error) {
	answer := connection.Answer{State: a.State, Code: a.Code, Error: a.Error, Repeated: a.Repeated}
	if _, acts := engine.OwnerFromContext(ctx); acts {
		own, actor := keyOf(ctx, "", ""), store.ActorOf(ctx)
		answer.Mine = func(key store.ConnectionKey, begunBy string) bool {
			return key.Org == own.Org && (key.User == own.User || begunBy == actor)
		}
	}
	made, err := e.connections.Finish(ctx, answer)
	if err != nil {
		return engine.Connection{}, err
	}
	e.ResumeConnected(ctx)
	return e.shown(ctx, made)
}

// awaitedCalls remembers which calls of a session wait for a connection, so that a session is
// folded again only if it has new events.
type awaitedCalls struct {
	mu       sync.Mutex
	sessions map[perdure.SessionID]awaitedSession // guarded by mu
}

// awaitedSession is what a session waited for when it had a number of events.
type awaitedSession struct {
	seq   int64
	calls []perdure.TurnCall
}

// ResumeConnected answers the calls that wait for a connection which is there now, so that their
// turns continue. It is called when a connection was made, and by every scheduler from time to
// time: another process may have made the connection, or died before it answered the calls.
func (e *Host) ResumeConnected(ctx context.Context) {
	var waiting []store.Session
	err := e.cfg.Store.View(ctx, func(r store.Reader) (err error) {
		waiting, err = r.Sessions().List(store.SessionFilter{Status: perdure.SessionWaiting})
		return err
	})
	if err == nil {
		err = e.resumeWaiting(ctx, waiting)
	}
	if err != nil && ctx.Err() == nil {
		e.cfg.Log.Warn("calls that wait for a connection not checked, will retry", "worker", e.worker, "error", err)
	}
}

func (e *Host) resumeWaiting(ctx context.Context, waiting []store.Session) error {
	e.awaited.mu.Lock()
	defer e.awaited.mu.Unlock()
	known := map[perdure.SessionID]awaitedSession{}
	var errs []error
	for _, row := range waiting {
		one, ok := e.awaited.sessions[row.ID]
		if !ok || one.seq != row.LastSeq {
			var err error
			if one, err = e.awaitedOf(ctx, row); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		known[row.ID] = one
		for _, call := range one.calls {
			if err := e.answerConnected(ctx, row, call); err != nil {
				errs = append(errs, err)
			}
		}
	}
	e.awaited.sessions = known
	return errors.Join(errs...)
}

// awaitedOf finds the calls of a session that wait for a connection.
func (e *Host) awaitedOf(ctx context.Context, row store.Session) (one awaitedSession, err error) {
	one.seq = row.LastSeq
	err = e.cfg.Store.View(ctx, func(r store.Reader) error {
		one.calls = nil
		s, err := e.effects.Fold(r, row.ID)
		if err != nil || s.Turn == nil {
			return err
		}
		for _, call := range s.Turn.Calls {
			if call.Phase == perdure.CallAwaitingClient && call.Connection != "" {
				one.calls = append(one.calls, call)
			}
		}
		return nil
	})
	return one, err
}

// answerConnected answers a call if its connection was made after the call was claimed. A
// connection that the call already had does not help it, even if its token was refreshed meanwhile:
// its tool has refused it.
func (e *Host) answerConnected(ctx context.Context, row store.Session, call perdure.TurnCall) error {
	key := store.ConnectionKey{Org: row.Org, User: cmp.Or(row.User, sessionport.LocalUser), Provider: call.Connection}
	made, err := e.connections.Get(ctx, key)
	if errors.Is(err, perdure.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	at := perdure.CallKey{Session: row.ID, Call: call.ID}
	var claimed perdure.Call
	helps := false
	err = e.cfg.Store.View(ctx, func(r store.Reader) (err error) {
		claimed, err = r.Calls().Get(at)
		helps = err == nil && made.ConnectedAt().After(claimed.ClaimedAt) && !made.HasExpired(r.Now())
		return err
	})
	if err != nil || !helps {
		return err
	}
	result, err := json.Marshal(map[string]string{"connection": call.Connection, "state": engine.ConnectionReady,
		"note": call.Connection + " is connected now. Repeat the call."})
	if err != nil {
		return err
	}
	err = e.effects.Calls().AnswerConnected(context.WithoutCancel(ctx), at, perdure.ToolResult{Result: result})
	if errors.Is(err, perdure.Conflict) || errors.Is(err, perdure.NotFound) { // answered or interrupted meanwhile
		return nil
	}
	return err
}
