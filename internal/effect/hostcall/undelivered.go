package hostcall

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// hostCalls finds calls of hosts whose reply was never written in full. The zero value is empty:
// the calls of earlier processes are read when a session is first used.
type hostCalls struct {
	mu       sync.Mutex
	sessions map[perdure.SessionID]*undeliveredCalls // guarded by mu
}

func (h *hostCalls) of(id perdure.SessionID) *undeliveredCalls {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sessions == nil {
		h.sessions = map[perdure.SessionID]*undeliveredCalls{}
	}
	if h.sessions[id] == nil {
		h.sessions[id] = &undeliveredCalls{calls: map[string]perdure.CallID{}}
	}
	return h.sessions[id]
}

// undeliveredCalls holds the calls of one session that can be joined.
type undeliveredCalls struct {
	mu    sync.Mutex // held during the commit of a call, so that two calls of the same content become one
	read  bool
	calls map[string]perdure.CallID // by fingerprint
}

// forget removes a call that can no longer be joined.
func (u *undeliveredCalls) forget(fingerprint string, id perdure.CallID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.calls[fingerprint] == id {
		delete(u.calls, fingerprint)
	}
}

// findJoinable finds the call of the same content whose reply was never written in full.
func (hc *Calls) findJoinable(ctx context.Context, known *undeliveredCalls,
	o Request) (found Call, fingerprint string, err error) {
	if fingerprint, err = perdure.Fingerprint(o.Tool, o.Args); err != nil {
		return found, "", nil //nolint:nilerr // invalid JSON is refused later, with the tool's own error
	}
	if !known.read || hc.core.Shared { // other workers may have added calls
		if err := hc.readUndelivered(ctx, known, o.Session); err != nil {
			return found, fingerprint, err
		}
	}
	id, ok := known.calls[fingerprint]
	if !ok {
		return found, fingerprint, nil
	}
	found, err = hc.Find(ctx, perdure.CallKey{Session: o.Session, Call: id})
	switch {
	case errors.Is(err, perdure.NotFound), err == nil && found.Task.ID == "":
	case err != nil:
		return Call{}, fingerprint, err
	case found.Task.RepliedAt.IsZero() && time.Since(found.Task.CreatedAt) < o.Join:
		found.Joined = true
		return found, fingerprint, nil
	}
	delete(known.calls, fingerprint)
	return Call{}, fingerprint, nil
}

// readUndelivered reads the calls of earlier processes. Of several calls with the same content, the
// last one counts.
func (hc *Calls) readUndelivered(ctx context.Context, known *undeliveredCalls, id perdure.SessionID) error {
	var tasks []perdure.Task
	err := hc.core.Store.View(ctx, func(r store.Reader) (err error) {
		tasks, err = r.Tasks().List(store.TaskFilter{Session: id})
		return err
	})
	if err != nil {
		return err
	}
	for _, t := range tasks {
		if t.ReadByCaller() && t.RepliedAt.IsZero() {
			known.calls[t.ArgsHash] = t.Call
		}
	}
	known.read = true
	return nil
}
