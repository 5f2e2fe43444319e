package mcpserver

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/perdure/perdure"
)

// reply is one answer on its way, and the calls that it tells of. A nil one notes nothing.
type reply struct {
	mu    sync.Mutex
	calls []perdure.CallKey // guarded by mu
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

// adapt moves what the SDK does not know to where it keeps it: the task parameter of the old wire, and the tasks to listen
// to. What a client put there itself goes.
func adapt(body []byte, m message) []byte {
	if m.Method != "tools/call" && m.Method != "subscriptions/listen" {
		return body
	}
	params := map[string]json.RawMessage{}
	if perdure.DecodeJSON(m.Params, &params) != nil {
		return body // the SDK refuses it in its own words
	}
	meta := metaOf(m.Params)
	_, forged := meta[metaTask]
	task, ok := params["task"]
	if m.Method == "subscriptions/listen" {
		var wanted map[string]json.RawMessage
		_ = perdure.DecodeJSON(params["notifications"], &wanted) // the SDK refuses it
		task, ok = wanted["taskIds"]
		if !ok {
			task, ok = params["taskIds"]
		}
	}
	if !ok && !forged {
		return body
	}
	if meta == nil {
		meta = map[string]json.RawMessage{}
	}
	delete(meta, metaTask)
	if ok {
		meta[metaTask] = task
	}
	params["_meta"] = marshal(meta)
	whole := map[string]json.RawMessage{}
	if perdure.DecodeJSON(body, &whole) != nil {
		return body
	}
	whole["params"] = marshal(params)
	return marshal(whole)
}
