package mcpserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/access"
)

// reply is one answer on its way, and the calls that it tells of. A nil one notes nothing.
type reply struct {
	ended chan struct{} // closed when it is noted whether it was written whole

	mu    sync.Mutex
	who   *access.Principal // guarded by mu; who asked; nil: the local operator
	calls []perdure.CallKey // guarded by mu
	ready bool              // guarded by mu; there is a result, which is what is written next
	begun bool              // guarded by mu; something of it is being written, or was
	whole bool              // guarded by mu; the result was written to somebody who was there
}

// answered passes a result on, and notes that there is one.
func (r *reply) answered(result mcp.Result, err error) (mcp.Result, error) {
	if r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ready = true
	}
	return result, err
}

// write notes what becomes of a piece of it: do writes it.
func (r *reply) write(do func() bool) {
	r.mu.Lock()
	ready := r.ready
	r.begun = true
	r.mu.Unlock()
	done := do()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.whole = r.whole || ready && done
}

// wasWhole reports whether its result was written.
func (r *reply) wasWhole() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.whole
}

// tells reports whether it is being written, and tells of a call.
func (r *reply) tells(key perdure.CallKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.begun && slices.Contains(r.calls, key)
}

// noteTime is how long a call that has joined another one waits for what is noted of that one's reply.
const noteTime = time.Second

// underWay counts a reply among those on their way, under a name of its own, until end says that it is noted whether it was written.
func (s *Server) underWay(r *reply) (name string, end func()) {
	name = rand.Text()
	s.mu.Lock()
	s.replies[name] = r
	s.mu.Unlock()
	return name, func() {
		s.mu.Lock()
		delete(s.replies, name)
		s.mu.Unlock()
		close(r.ended)
	}
}

// onTheirWay is the replies of which it is not noted yet whether they were written.
func (s *Server) onTheirWay() []*reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.replies))
}

// noted waits, where one of some replies tells of a call and is being written, until it is known whether it was written whole: a client
// that has read it may call again before that is noted (M4). It reports whether it waited.
func noted(ctx context.Context, all []*reply, key perdure.CallKey) (waited bool) {
	ctx, cancel := context.WithTimeout(ctx, noteTime)
	defer cancel()
	for _, r := range all {
		if !r.tells(key) {
			continue
		}
		waited = true
		select {
		case <-r.ended:
		case <-ctx.Done():
		}
	}
	return waited
}

// by notes who asked.
func (r *reply) by(who *access.Principal) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.who = who
}

// note notes a call that it tells of.
func (r *reply) note(key perdure.CallKey) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, key)
}

// told notes that an answer was written whole: a call of the same content is a new one from now on (M4).
func (s *Server) told(r *reply) {
	r.mu.Lock()
	calls, who := r.calls, r.who
	r.mu.Unlock()
	for _, key := range calls {
		ctx, cancel := context.WithTimeout(asking(context.Background(), who), 10*time.Second)
		if err := s.cfg.Engine.ToldCall(ctx, key); err != nil {
			s.cfg.Log.Warn("it was not noted that a reply was written; a call of the same content joins this one", "call", key, "error", err)
		}
		cancel()
	}
}

// asking is ctx for who asks; nil: the local operator.
func asking(ctx context.Context, who *access.Principal) context.Context {
	if who == nil {
		return ctx
	}
	return access.With(ctx, *who)
}

// adapt is adaptParams for a whole message.
func adapt(body []byte, m message) []byte {
	params := adaptParams(m)
	if bytes.Equal(params, m.Params) {
		return body
	}
	whole := map[string]json.RawMessage{}
	if perdure.DecodeJSON(body, &whole) != nil {
		return body // the SDK refuses it in its own words
	}
	whole["params"] = params
	return marshal(whole)
}

// adaptParams moves what the SDK does not know to where it keeps it: the task parameter of the old wire, and the tasks of a
// subscription. What a client put there itself goes.
func adaptParams(m message) json.RawMessage {
	given := m.Params
	switch m.Method {
	case methodListen:
		return adaptListen(m.ID, given)
	case "tools/call":
	default:
		return given
	}
	params := map[string]json.RawMessage{}
	if perdure.DecodeJSON(given, &params) != nil {
		return given
	}
	meta := metaOf(given)
	_, forged := meta[metaTask]
	task, ok := params["task"]
	if !ok && !forged {
		return given
	}
	if meta == nil {
		meta = map[string]json.RawMessage{}
	}
	delete(meta, metaTask)
	if ok {
		meta[metaTask] = task
	}
	params["_meta"] = marshal(meta)
	return marshal(params)
}
