package api

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// The limits of a list feed.
const (
	maxFeedRows  = 200 // rows of a list; the newest are kept
	maxFeedSteps = 16  // changes kept for followers that wake late
	// The interval between two reads is at least this many times the duration of a read.
	pollFactor   = 20
	maxPollPause = time.Minute // maximum interval
)

// listFeedKey identifies a list and its audience: rows visible to one caller are shown to no other.
type listFeedKey struct{ audience, list string }

// listFeed polls a list that has no journal, once for all followers with the same audience. The
// mutex limiter its source also guards the fields below.
type listFeed struct {
	source
	rows  []row  // nil: not read yet
	sum   string // of the rows
	step  int64  // number of changes so far
	steps []step // newest last
}

// row is one item of a list.
type row struct {
	id   string
	text json.RawMessage
}

// step is the change between two reads.
type step struct {
	sum  string // of the rows after the change
	text []byte
}

// changes is a step as sent to clients.
type changes struct {
	Items []json.RawMessage `json:"items" doc:"Items that are new or changed, complete."`
	Gone  []string          `json:"gone" doc:"The ids of items that are no longer in the list."`
}

// listReader reads a list.
type listReader func(ctx context.Context) ([]row, error)

// listTopics returns the lists that can be followed.
func (a *API) listTopics() map[string]listReader {
	return map[string]listReader{
		"sessions": func(ctx context.Context) ([]row, error) {
			all, err := a.cfg.Engine.Sessions().ListWhere(ctx, engine.SessionFilter{Limit: maxFeedRows, Costs: true})
			return feedRows(all, err, func(s engine.Session) string { return string(s.ID) })
		},
		"tasks": func(ctx context.Context) ([]row, error) {
			all, err := a.openTasks(ctx)
			for i, t := range all {
				t.HeartbeatAt = time.Time{} // a heartbeat alone is not a change
				all[i] = taskInList(t)
			}
			return feedRows(all, err, func(t perdure.Task) string { return string(t.ID) })
		},
		"approvals": func(ctx context.Context) ([]row, error) {
			all, err := a.cfg.Engine.Approvals().List(ctx, engine.ApprovalFilter{State: perdure.ApprovalOpen})
			all = slices.Clone(all[max(0, len(all)-maxFeedRows):])
			for i, p := range all {
				all[i] = approvalInList(p)
			}
			return feedRows(all, err, func(p perdure.Approval) string { return string(p.ID) })
		},
		"schedules": func(ctx context.Context) ([]row, error) {
			all, err := a.cfg.Engine.Schedules().List(ctx, "")
			shown := make([]schedule, 0, maxFeedRows)
			for _, s := range all[max(0, len(all)-maxFeedRows):] {
				shown = append(shown, scheduleOf(s))
			}
			return feedRows(shown, err, func(s schedule) string { return string(s.ID) })
		},
		workList: a.workRows,
	}
}

// openTasks returns the newest tasks that have not ended or whose outcome is unknown, the newest
// last. It reads no others.
func (a *API) openTasks(ctx context.Context) ([]perdure.Task, error) {
	live, err := a.cfg.Engine.Tasks().ListWhere(ctx, engine.TaskQuery{
		States: []perdure.TaskState{perdure.TaskQueued, perdure.TaskRunning, perdure.TaskAwaitingInput}, Newest: true, Limit: maxFeedRows,
	})
	if err != nil {
		return nil, err
	}
	unknown, err := a.cfg.Engine.Tasks().ListWhere(ctx, engine.TaskQuery{States: []perdure.TaskState{perdure.TaskUnknown}})
	all := slices.Concat(live, unknown)
	slices.SortStableFunc(all, func(s, t perdure.Task) int { return t.CreatedAt.Compare(s.CreatedAt) })
	all = all[:min(len(all), maxFeedRows)]
	slices.Reverse(all)
	return all, err
}

func feedRows[T any](all []T, err error, id func(T) string) ([]row, error) {
	rows := make([]row, 0, len(all))
	for _, one := range all {
		if err != nil {
			break
		}
		var text []byte
		text, err = json.Marshal(one)
		rows = append(rows, row{id(one), text})
	}
	return rows, err
}

// audience identifies the callers that see the same rows as this one.
func audience(ctx context.Context) string { return requestOf(ctx).principal }

// run reads the list repeatedly until ctx ends. A failed read is retried at the next interval.
func (b *listFeed) run(ctx context.Context, read listReader, pause time.Duration) {
	for {
		began := time.Now()
		if rows, err := read(ctx); err == nil {
			b.publish(rows)
		}
		rest := time.NewTimer(min(max(pause, pollFactor*time.Since(began)), maxPollPause))
		select {
		case <-rest.C:
		case <-ctx.Done():
			rest.Stop()
			return
		}
	}
}

// publish publishes the current state of the list.
func (b *listFeed) publish(rows []row) {
	b.mu.Lock()
	defer b.mu.Unlock()
	sum := rowsChecksum(rows)
	if sum == b.sum {
		return
	}
	text, err := json.Marshal(diffRows(b.rows, rows))
	if err != nil { // strings and encoded JSON always encode
		return
	}
	b.rows, b.sum, b.step = rows, sum, b.step+1
	if b.steps = append(b.steps, step{sum, text}); len(b.steps) > maxFeedSteps {
		b.steps = slices.Delete(b.steps, 0, 1)
	}
	b.wakeAll()
}

// diffRows computes the changes from one state of a list to another.
func diffRows(before, after []row) changes {
	was := map[string]string{}
	for _, r := range before {
		was[r.id] = string(r.text)
	}
	c := changes{Items: []json.RawMessage{}, Gone: []string{}}
	for _, r := range after {
		if text, known := was[r.id]; !known || text != string(r.text) {
			c.Items = append(c.Items, r.text)
		}
		delete(was, r.id)
	}
	for _, r := range before {
		if _, gone := was[r.id]; gone {
			c.Gone = append(c.Gone, r.id)
		}
	}
	return c
}

// rowsChecksum returns a checksum of a state of a list. It is never empty.
func rowsChecksum(rows []row) string {
	h := sha256.New()
	for _, r := range rows {
		h.Write(r.text)
		h.Write([]byte{'\n'})
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:12])
}

// listTopic follows a list: first its current state, then the changes.
type listTopic struct {
	key  listFeedKey
	read listReader
	sum  string    // checksum of the client's state; empty: the client has nothing
	step int64     // the step of the feed that the client has; 0: not determined yet
	feed *listFeed // nil: begin has not been called
}

func (t *listTopic) name() string { return t.key.list }

func (t *listTopic) position() string { return t.sum }

func (t *listTopic) begin(ctx context.Context, f *follower) error {
	t.key.audience = audience(ctx)
	read, pause := t.read, f.a.cfg.Timing.Poll // the feed outlives its first follower
	if t.key.list == workList {
		pause /= 2 // people look at the counts, which are right within a second of a change
	}
	t.feed = f.a.listFeeds.join(ctx, t.key, f.wake, func() (*listFeed, func(context.Context)) {
		b := &listFeed{}
		return b, func(ctx context.Context) { b.run(ctx, read, pause) }
	})
	return nil
}

func (t *listTopic) leave(f *follower) {
	if t.feed != nil {
		f.a.listFeeds.leave(t.key, t.feed, f.wake)
	}
}

// next writes the changes since the client's state, or the whole list if the client has none or its
// state is too old.
func (t *listTopic) next(_ context.Context, f *follower) (bool, error) {
	b := t.feed
	b.mu.Lock()
	rows, sum, last, steps := b.rows, b.sum, b.step, b.steps
	b.mu.Unlock()
	if last == 0 || t.step == last {
		return false, nil
	}
	if t.step == 0 && t.sum != "" { // the client reconnects with the state after a known step
		if i := slices.IndexFunc(steps, func(s step) bool { return s.sum == t.sum }); i >= 0 {
			t.step = last - int64(len(steps)-1-i)
		}
	}
	if missing := last - t.step; t.step > 0 && missing <= int64(len(steps)) {
		for _, s := range steps[int64(len(steps))-missing:] {
			t.sum = s.sum
			if err := f.frame(t, "changed", s.text, true); err != nil {
				return true, err
			}
		}
		t.step = last
		return missing > 0, nil
	}
	kind := "snapshot"
	if t.sum != "" {
		kind = "reset"
	}
	t.step, t.sum = last, sum
	text, err := json.Marshal(diffRows(nil, rows))
	if err != nil {
		return true, err
	}
	return true, f.frame(t, kind, text, true)
}
