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

// reply is a response that is being sent, with the calls whose results it contains. A nil reply
// records nothing.
type reply struct {
	ended chan struct{} // closed when it is recorded whether the response was written completely

	mu        sync.Mutex
	caller    *access.Principal // guarded by mu; the caller; nil: the local operator
	calls     []perdure.CallKey // guarded by mu
	ready     bool              // guarded by mu; the handler has returned a result, which is written next
	writing   bool              // guarded by mu; writing has started
	delivered bool              // guarded by mu; the result was written while the client was connected
}

// answered passes a result on, and records that there is one.
func (r *reply) answered(result mcp.Result, err error) (mcp.Result, error) {
	if r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ready = true
	}
	return result, err
}

// write runs do, which writes a part of the response and reports whether it succeeded, and records
// the outcome.
func (r *reply) write(do func() bool) {
	r.mu.Lock()
	ready := r.ready
	r.writing = true
	r.mu.Unlock()
	done := do()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delivered = r.delivered || ready && done
}

// wasDelivered reports whether the result was written.
func (r *reply) wasDelivered() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.delivered
}

// isWriting reports whether the response has started to be written and contains the given call.
func (r *reply) isWriting(key perdure.CallKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.writing && slices.Contains(r.calls, key)
}

// recordTimeout limits how long a call waits for the record of a reply that contains the call it
// would join.
const recordTimeout = time.Second

// registerReply registers a reply under a new name until end is called. By then it must be recorded
// whether the reply was written.
func (s *Server) registerReply(r *reply) (name string, end func()) {
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

// pendingReplies returns the replies for which it is not yet recorded whether they were written.
func (s *Server) pendingReplies() []*reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.replies))
}

// waitRecorded waits for the replies that contain the given call and are being written, until it is
// recorded whether they were written completely. A client that has read a reply may repeat its call
// before that record is made, and the repetition must then be a new call (M4). It reports whether
// it waited.
func waitRecorded(ctx context.Context, all []*reply, key perdure.CallKey) (waited bool) {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	for _, r := range all {
		if !r.isWriting(key) {
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

// setCaller records the caller.
func (r *reply) setCaller(caller *access.Principal) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.caller = caller
}

// addCall adds a call to the reply.
func (r *reply) addCall(key perdure.CallKey) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, key)
}

// recordDelivered records that a response was written completely. From now on, a call with the same
// content is a new call (M4).
func (s *Server) recordDelivered(r *reply) {
	r.mu.Lock()
	calls, caller := r.calls, r.caller
	r.mu.Unlock()
	for _, key := range calls {
		ctx, cancel := context.WithTimeout(withCaller(context.Background(), caller), 10*time.Second)
		if err := s.cfg.Engine.HostCalls().MarkReported(ctx, key); err != nil {
			s.cfg.Log.Warn("reply delivery not recorded; a call with the same content will join this one", "call", key, "error", err)
		}
		cancel()
	}
}

// withCaller returns ctx with the caller; nil: the local operator.
func withCaller(ctx context.Context, caller *access.Principal) context.Context {
	if caller == nil {
		return ctx
	}
	return access.WithPrincipal(ctx, *caller)
}

// adapt applies adaptParams to a whole message.
func adapt(body []byte, m message) []byte {
	params := adaptParams(m)
	if bytes.Equal(params, m.Params) {
		return body
	}
	whole := map[string]json.RawMessage{}
	if perdure.DecodeJSON(body, &whole) != nil {
		return body // the SDK refuses it with its own error
	}
	whole["params"] = params
	return marshal(whole)
}

// adaptParams moves parameters that the SDK does not know into metadata, which it passes on: the
// task parameter of 2025-11-25, and the task ids of a subscription. Values that a client put there
// itself are removed.
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
