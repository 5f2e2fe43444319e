package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure"
)

// reply is one answer on its way, and the calls that it tells of. A nil one notes nothing.
type reply struct {
	ended chan struct{} // closed when it is noted whether it was written whole

	mu    sync.Mutex
	calls []perdure.CallKey // guarded by mu
	begun bool              // guarded by mu; something of it was written
}

// begin notes that something of it is written.
func (r *reply) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun = true
}

// tells reports whether it is being written, and tells of a call of the session; empty: of any.
func (r *reply) tells(session perdure.SessionID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.begun && slices.ContainsFunc(r.calls, func(k perdure.CallKey) bool { return session == "" || k.Session == session })
}

// noteTime is how long a call without a key waits for what is noted of the replies before it.
const noteTime = time.Second

// noted waits until it is known of the replies to a session that are being written whether they were: a client that has read one
// may call again before that is noted (M4).
func (s *Server) noted(ctx context.Context, session perdure.SessionID) {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.replies))
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, noteTime)
	defer cancel()
	for _, r := range all {
		if !r.tells(session) {
			continue
		}
		select {
		case <-r.ended:
		case <-ctx.Done():
			return
		}
	}
}

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
	calls := r.calls
	r.mu.Unlock()
	for _, key := range calls {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if err := s.cfg.Engine.ToldCall(ctx, key); err != nil {
			s.cfg.Log.Warn("it was not noted that a reply was written; a call of the same content joins this one", "call", key, "error", err)
		}
		cancel()
	}
}

// adapt is adaptParams for a whole message.
func adapt(body []byte, m message) []byte {
	params := adaptParams(m.Method, m.Params)
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

// adaptParams moves what the SDK does not know to where it keeps it: the task parameter of the old wire. What a client put
// there itself goes.
func adaptParams(method string, given json.RawMessage) json.RawMessage {
	if method != "tools/call" {
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
