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

// Methods of notifications and subscriptions, and related metadata keys.
const (
	methodListen = "subscriptions/listen"
	noticeAgreed = "notifications/subscriptions/acknowledged"
	noticeTask   = "notifications/tasks"        // 2026-07-28: everything that tasks/get returns
	noticeStatus = "notifications/tasks/status" // 2025-11-25: the state only
	// Internal, from front to middleware: the part of a subscription that the SDK does not know.
	metaListen   = "io.github.perdure/listen"
	metaOfListen = "io.modelcontextprotocol/subscriptionId"
)

// The limits of notifications.
const (
	maxWatchedTasks = 64 // tasks of one subscription, or of one client of 2025-11-25
	maxListeners    = 16 // concurrent subscriptions of one principal
	// Minimum interval of two rounds of notifications, so that a busy task does not flood its
	// client.
	noticeGap = 200 * time.Millisecond
	// Interval of polling the progress of tasks, which no event announces.
	noticeLook  = 500 * time.Millisecond
	followRetry = time.Second
)

// notifier tells clients what happens to their tasks. It shares the server.
type notifier struct{ *Server }

// subscription is the part of a listen request that concerns tasks.
type subscription struct {
	IDs []string        `json:"ids"`
	ID  json.RawMessage `json:"id"` // id of the request
}

// adaptListen moves the task ids of a subscription into metadata, which the SDK passes on.
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

// tasksOf returns the part of a listen request that concerns tasks.
func tasksOf(r *mcp.SubscriptionsListenRequest) (want subscription, ok bool) {
	if r.Params == nil || r.Params.Meta[metaListen] == nil {
		return want, false
	}
	ok = perdure.DecodeJSON(marshal(r.Params.Meta[metaListen]), &want) == nil
	return want, ok
}

// taskWatch is the set of tasks that one client follows. It is safe for concurrent use.
type taskWatch struct {
	mu       sync.Mutex
	lastSent map[string]string // guarded by mu; last state sent, by task handle; empty: none yet
	news     chan struct{}     // capacity 1: one pending signal that something may have changed stands for many
}

func newTaskWatch(ids ...string) *taskWatch {
	l := &taskWatch{lastSent: map[string]string{}, news: make(chan struct{}, 1)}
	for _, id := range ids {
		l.lastSent[id] = ""
	}
	return l
}

// signal signals that something may have changed.
func (l *taskWatch) signal() {
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// add adds a task unless the limit is reached.
func (l *taskWatch) add(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.lastSent[id]; !ok && len(l.lastSent) < maxWatchedTasks {
		l.lastSent[id] = ""
		l.signal()
	}
}

func (l *taskWatch) ids() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.lastSent))
}

// isNew reports whether a state of a task differs from the last one sent, and stores it.
func (l *taskWatch) isNew(id, now string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was, ok := l.lastSent[id]
	if !ok || was == now {
		return false
	}
	l.lastSent[id] = now
	return true
}

// drop removes a task, and reports whether none is left.
func (l *taskWatch) drop(id string) (empty bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.lastSent, id)
	return len(l.lastSent) == 0
}

// listen answers subscriptions/listen for tasks. It acknowledges the accepted task ids, sends their
// current state and then each change, until all have ended or the client disconnects. No
// subscription is stored: a client that subscribes again, also after a restart, first gets the
// current states.
func (s notifier) listen(ctx context.Context, p peer, want subscription) (mcp.Result, error) {
	if len(want.IDs) > maxWatchedTasks {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "taskIds: at most " + strconv.Itoa(maxWatchedTasks) + " in one subscription"}
	}
	if !s.addSubscription(p.ID) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "at most " + strconv.Itoa(maxListeners) + " concurrent subscriptions"}
	}
	defer s.removeSubscription(p.ID)
	var id any
	_ = perdure.DecodeJSON(want.ID, &id) // valid: the SDK has decoded it
	meta := map[string]any{metaOfListen: id}
	agreed := []string{}
	for _, task := range want.IDs {
		// Tasks of other principals are left out silently (M5).
		if _, err := s.findOwn(ctx, p, task); err == nil && !slices.Contains(agreed, task) {
			agreed = append(agreed, task)
		}
	}
	if err := s.sendNotification(ctx, p, noticeAgreed, map[string]any{"notifications": map[string]any{"taskIds": agreed}, "_meta": meta}); err != nil {
		return nil, err
	}
	err := s.notifyTasks(ctx, p, newTaskWatch(agreed...), func(made trackedCall) error {
		got, err := s.taskDetails(ctx, p, made)
		if err != nil {
			return err
		}
		fields := map[string]json.RawMessage{}
		if err := perdure.DecodeJSON(marshal(got), &fields); err != nil {
			return err
		}
		delete(fields, "resultType") // only for responses
		fields["_meta"] = marshal(meta)
		return s.sendNotification(ctx, p, noticeTask, fields)
	})
	if err != nil {
		return nil, s.rpcError(err)
	}
	return &mcp.SubscriptionsListenResult{Meta: mcp.Meta(meta)}, nil
}

// addSubscription counts a subscription. It returns false if the principal has reached the limit.
func (s notifier) addSubscription(principal string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listeners[principal] >= maxListeners {
		return false
	}
	s.listeners[principal]++
	return true
}

func (s notifier) removeSubscription(principal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listeners[principal]--; s.listeners[principal] == 0 {
		delete(s.listeners, principal)
	}
}

// notifyTasks sends the current state of each task and every change, until no task is left or ctx
// ends.
func (s notifier) notifyTasks(ctx context.Context, p peer, l *taskWatch, send func(trackedCall) error) error {
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
	now, err := s.cfg.Engine.Sessions().Get(ctx, session)
	if err != nil {
		return err
	}
	group.Go(func() { s.follow(following, session, now.LastSeq, l) })
	look := time.NewTicker(noticeLook)
	defer look.Stop()
	for {
		for _, id := range l.ids() {
			made, err := s.findOwn(ctx, p, id)
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

// openQuestion returns the id of a task's open question; empty: there is none.
func openQuestion(t perdure.Task) string {
	if t.InputRequest == nil {
		return ""
	}
	return string(t.InputRequest.ID)
}

// follow signals l whenever something happens in a session, until ctx ends.
func (s notifier) follow(ctx context.Context, session perdure.SessionID, after int64, l *taskWatch) {
	for ctx.Err() == nil {
		// The loop follows again after any error.
		_ = s.cfg.Engine.Follow(ctx, session, after, func(f engine.Frame) error {
			if f.Event != nil {
				after = f.Event.Seq
			}
			l.signal()
			return nil
		})
		select {
		case <-ctx.Done():
		case <-time.After(followRetry):
			l.signal()
		}
	}
}

// startNotifying starts to notify a client of 2025-11-25 about one of its tasks, for as long as the
// client's session lasts.
func (s notifier) startNotifying(p peer, made trackedCall) {
	if p.modern || p.session == nil || made.Task == nil || made.Task.State.Terminal() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.followed[p.session]; l != nil {
		l.add(taskID(made.ID))
		return
	}
	l := newTaskWatch(taskID(made.ID))
	s.followed[p.session] = l
	p.reply = nil
	ctx, end := context.WithCancel(withCaller(context.Background(), p.Access))
	s.group.Go(func() { // until the client's session ends
		_ = p.session.Wait() // the reason does not matter
		end()
	})
	s.group.Go(func() {
		s.notifySession(ctx, p, l)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.followed, p.session)
	})
}

// notifySession notifies a client of 2025-11-25 about its tasks, until ctx ends.
func (s notifier) notifySession(ctx context.Context, p peer, l *taskWatch) {
	for ctx.Err() == nil {
		err := s.notifyTasks(ctx, p, l, func(made trackedCall) error {
			state := s.legacyState(p, made)
			return s.sendNotification(ctx, p, noticeStatus, &state)
		})
		again := time.Duration(0)
		if err != nil {
			again = followRetry
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

// wrappedNotification is a notification of this server, wrapped in one that the SDK can send.
type wrappedNotification struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// sendNotification sends a notification. The SDK sends only its own kinds, so the notification
// travels as a progress notification under a secret token, and is unwrapped where it is written to
// the client.
func (s notifier) sendNotification(ctx context.Context, p peer, method string, params any) error {
	text, err := json.Marshal(params)
	if err != nil {
		return err
	}
	return p.session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: s.marker, Message: string(marshal(wrappedNotification{method, text}))})
}

// unwrapNotification returns the notification inside a progress notification; ok is false if there
// is none.
func (s notifier) unwrapNotification(params json.RawMessage) (n wrappedNotification, ok bool) {
	var outer struct {
		Token   any    `json:"progressToken"`
		Message string `json:"message"`
	}
	ok = bytes.Contains(params, []byte(s.marker)) && perdure.DecodeKnownJSON(params, &outer) == nil && outer.Token == s.marker &&
		perdure.DecodeJSON([]byte(outer.Message), &n) == nil
	return n, ok
}

// dataField is the prefix of the line of an event that holds its message.
var dataField = []byte("data: ")

// unwrapEvent applies unwrapped to an event of a stream while it is written. Other events stay
// unchanged.
func (s notifier) unwrapEvent(event []byte) []byte {
	if !bytes.Contains(event, []byte(s.marker)) {
		return event
	}
	lines := bytes.Split(event, []byte("\n"))
	for i, text := range lines {
		var m message
		if !bytes.HasPrefix(text, dataField) || perdure.DecodeKnownJSON(text[len(dataField):], &m) != nil {
			continue
		}
		if n, ok := s.unwrapNotification(m.Params); ok {
			lines[i] = append(bytes.Clone(dataField), marshal(map[string]any{"jsonrpc": "2.0", "method": n.Method, "params": n.Params})...)
		}
	}
	return bytes.Join(lines, []byte("\n"))
}
