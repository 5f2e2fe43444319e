package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// What clients are told without asking.
const (
	methodListen = "subscriptions/listen"
	noticeAgreed = "notifications/subscriptions/acknowledged"
	noticeTask   = "notifications/tasks"        // of 2026-07-28: all that tasks/get says
	noticeStatus = "notifications/tasks/status" // of 2025-11-25: the state alone
	metaListen   = "io.github.perdure/listen"   // between our front and our middleware: what of a subscription the SDK does not know
	metaOfListen = "io.modelcontextprotocol/subscriptionId"
)

// The bounds of what is told.
const (
	maxListened  = 64                     // tasks of one subscription, or of one client of the older wire
	maxListeners = 16                     // subscriptions of one principal at once
	noticeGap    = 200 * time.Millisecond // between two rounds of notices, so that a task that reports a lot is no flood
	noticeLook   = 500 * time.Millisecond // how often it is looked how far tasks are, which no event says
	followAgain  = time.Second
)

// subscription is what of a request to listen is about tasks.
type subscription struct {
	IDs []string        `json:"ids"`
	ID  json.RawMessage `json:"id"` // of the request
}

// adaptListen moves the tasks of a subscription to where the SDK keeps them.
func adaptListen(id, given json.RawMessage) json.RawMessage {
	params, wants := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if perdure.DecodeJSON(given, &params) != nil {
		return given
	}
	meta := metaOf(given)
	delete(meta, metaListen)
	if text := params["notifications"]; len(text) > 0 && perdure.DecodeJSON(text, &wants) != nil {
		return given
	}
	var ids []string
	if text, ok := wants["taskIds"]; ok && perdure.DecodeJSON(text, &ids) == nil && meta != nil {
		delete(wants, "taskIds")
		meta[metaListen] = marshal(subscription{IDs: ids, ID: id})
		params["notifications"] = marshal(wants)
	}
	if meta != nil {
		params["_meta"] = marshal(meta)
	}
	return marshal(params)
}

// tasksOf is what of a request to listen is about tasks.
func tasksOf(r *mcp.SubscriptionsListenRequest) (want subscription, ok bool) {
	if r.Params == nil || r.Params.Meta[metaListen] == nil {
		return want, false
	}
	return want, perdure.DecodeJSON(marshal(r.Params.Meta[metaListen]), &want) == nil
}

// listened is the tasks that one client hears of. It is safe for concurrent use.
type listened struct {
	mu   sync.Mutex
	last map[string]string // guarded by mu; what was told last, by handle; empty: nothing yet
	news chan struct{}     // holds one word that something may have changed
}

func newListened(ids ...string) *listened {
	l := &listened{last: map[string]string{}, news: make(chan struct{}, 1)}
	for _, id := range ids {
		l.last[id] = ""
	}
	return l
}

// nudge says that something may have changed.
func (l *listened) nudge() {
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// add adds a task, if there is room.
func (l *listened) add(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.last[id]; !ok && len(l.last) < maxListened {
		l.last[id] = ""
		l.nudge()
	}
}

func (l *listened) ids() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.last))
}

// isNew notes what is told of a task, and reports whether that was told last.
func (l *listened) isNew(id, now string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was, ok := l.last[id]
	if !ok || was == now {
		return false
	}
	l.last[id] = now
	return true
}

// drop forgets a task, and reports whether none is left.
func (l *listened) drop(id string) (empty bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.last, id)
	return len(l.last) == 0
}

// listen answers subscriptions/listen of tasks: it says which are agreed, what they are now, and what they become, until all have
// ended or the client goes. Nothing is kept: who subscribes again, also after a restart, is told the present state first.
func (s *Server) listen(ctx context.Context, p peer, want subscription) (mcp.Result, error) {
	if len(want.IDs) > maxListened {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "taskIds: at most " + strconv.Itoa(maxListened) + " in one subscription"}
	}
	if !s.enter(p.ID) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "at most " + strconv.Itoa(maxListeners) + " subscriptions at once"}
	}
	defer s.leave(p.ID)
	var id any
	_ = perdure.DecodeJSON(want.ID, &id) // the SDK has read it
	meta := map[string]any{metaOfListen: id}
	agreed := []string{}
	for _, task := range want.IDs {
		if _, err := s.own(ctx, p, task); err == nil && !slices.Contains(agreed, task) { // who asks for others hears nothing of them (M5)
			agreed = append(agreed, task)
		}
	}
	if err := s.notice(ctx, p, noticeAgreed, map[string]any{"notifications": map[string]any{"taskIds": agreed}, "_meta": meta}); err != nil {
		return nil, err
	}
	err := s.tell(ctx, p, newListened(agreed...), func(made ofCall) error {
		got, err := s.detailed(ctx, p, made)
		if err != nil {
			return err
		}
		fields := map[string]json.RawMessage{}
		if err := perdure.DecodeJSON(marshal(got), &fields); err != nil {
			return err
		}
		delete(fields, "resultType") // of an answer
		fields["_meta"] = marshal(meta)
		return s.notice(ctx, p, noticeTask, fields)
	})
	if err != nil {
		return nil, s.rpcError(err)
	}
	return &mcp.SubscriptionsListenResult{Meta: mcp.Meta(meta)}, nil
}

// enter takes a place for a subscription.
func (s *Server) enter(principal string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listeners[principal] >= maxListeners {
		return false
	}
	s.listeners[principal]++
	return true
}

func (s *Server) leave(principal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listeners[principal]--; s.listeners[principal] == 0 {
		delete(s.listeners, principal)
	}
}

// tell sends what tasks are, and what they become, until none is left or ctx ends.
func (s *Server) tell(ctx context.Context, p peer, l *listened, send func(ofCall) error) error {
	if len(l.ids()) == 0 {
		return nil
	}
	session, err := s.session(ctx, p.Principal)
	if err != nil {
		return err
	}
	following, end := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer end()
	now, err := s.cfg.Engine.Session(ctx, session)
	if err != nil {
		return err
	}
	group.Go(func() { s.follow(following, session, now.LastSeq, l) })
	look := time.NewTicker(noticeLook)
	defer look.Stop()
	for {
		for _, id := range l.ids() {
			made, err := s.own(ctx, p, id)
			var gone *jsonrpc.Error
			switch {
			case errors.As(err, &gone):
				if l.drop(id) {
					return nil
				}
				continue
			case err != nil:
				return err
			}
			state := s.state(p, made)
			if key := state.Status + "\x00" + state.StatusMessage + "\x00" + openQuestion(*made.Task); l.isNew(id, key) {
				if err := send(made); err != nil {
					return err
				}
			}
			if made.Task.State.Terminal() && l.drop(id) {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.news:
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(noticeGap):
			}
		case <-look.C:
		}
	}
}

// openQuestion is what a task asks now.
func openQuestion(t perdure.Task) string {
	if t.InputRequest == nil {
		return ""
	}
	return string(t.InputRequest.ID)
}

// follow nudges whenever something happens in a session, until ctx ends.
func (s *Server) follow(ctx context.Context, session perdure.SessionID, after int64, l *listened) {
	for ctx.Err() == nil {
		_ = s.cfg.Engine.Follow(ctx, session, after, func(f engine.Frame) error { // it is followed again
			if f.Event != nil {
				after = f.Event.Seq
			}
			l.nudge()
			return nil
		})
		select {
		case <-ctx.Done():
		case <-time.After(followAgain):
			l.nudge()
		}
	}
}

// follows tells a client of the older wire, from now on, what becomes of a task of its own, as long as its session lasts.
func (s *Server) follows(p peer, made ofCall) {
	if p.modern || p.session == nil || made.Task == nil || made.Task.State.Terminal() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.followed[p.session]; l != nil {
		l.add(taskID(made.ID))
		return
	}
	l := newListened(taskID(made.ID))
	s.followed[p.session] = l
	p.reply = nil
	ctx, end := context.WithCancel(asking(context.Background(), p.Who))
	s.group.Go(func() { // until the client's session ends
		_ = p.session.Wait() // why does not matter
		end()
	})
	s.group.Go(func() {
		s.tellSession(ctx, p, l)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.followed, p.session)
	})
}

// tellSession tells a client of the older wire of its tasks, until ctx ends.
func (s *Server) tellSession(ctx context.Context, p peer, l *listened) {
	for ctx.Err() == nil {
		err := s.tell(ctx, p, l, func(made ofCall) error {
			state := s.legacyState(p, made)
			return s.notice(ctx, p, noticeStatus, &state)
		})
		again := time.Duration(0)
		if err != nil {
			again = followAgain
		}
		select {
		case <-ctx.Done():
			return
		case <-l.news:
		}
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}

// notified is a notice of ours inside a notification that the SDK knows.
type notified struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// notice sends a notification. The SDK sends none but its own, so it goes as one of progress under a token that nobody guesses,
// and is unwrapped where it is written.
func (s *Server) notice(ctx context.Context, p peer, method string, params any) error {
	text, err := json.Marshal(params)
	if err != nil {
		return err
	}
	return p.session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: s.marker, Message: string(marshal(notified{method, text}))})
}

// unwrapped is the notice inside a notification of progress.
func (s *Server) unwrapped(params json.RawMessage) (n notified, ok bool) {
	var outer struct {
		Token   any    `json:"progressToken"`
		Message string `json:"message"`
	}
	ok = bytes.Contains(params, []byte(s.marker)) && perdure.DecodeKnownJSON(params, &outer) == nil && outer.Token == s.marker &&
		perdure.DecodeJSON([]byte(outer.Message), &n) == nil
	return n, ok
}

// dataField begins the line of an event that holds its message.
var dataField = []byte("data: ")

// unwrapEvent is unwrapped for an event of a stream as it is written: what is no notice stays as it is.
func (s *Server) unwrapEvent(event []byte) []byte {
	if !bytes.Contains(event, []byte(s.marker)) {
		return event
	}
	lines := bytes.Split(event, []byte("\n"))
	for i, text := range lines {
		var m message
		if !bytes.HasPrefix(text, dataField) || perdure.DecodeKnownJSON(text[len(dataField):], &m) != nil {
			continue
		}
		if n, ok := s.unwrapped(m.Params); ok {
			lines[i] = append(bytes.Clone(dataField), marshal(map[string]any{"jsonrpc": "2.0", "method": n.Method, "params": n.Params})...)
		}
	}
	return bytes.Join(lines, []byte("\n"))
}
