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

// What a board keeps.
const (
	boardRows   = 200         // of a list, the newest of them
	boardSteps  = 16          // for those who were not woken in time
	boardFactor = 20          // times what a look costs is between two of them
	boardRest   = time.Minute // at most
)

// boardKey is a list and who looks at it: what one caller sees is shown to no other.
type boardKey struct{ audience, list string }

// board is a list that is looked at, since it has no journal: once for all who may see the same of it. The lock of its source
// guards the fields below, too.
type board struct {
	source
	rows  []row  // nil: it was not read yet
	sum   string // of the rows
	step  int64  // how often it changed
	steps []step // the newest last
}

// row is one thing of a list.
type row struct {
	id   string
	text json.RawMessage
}

// step is what changed at once.
type step struct {
	sum  string // of the rows after it
	text []byte
}

// changes is a step as clients see it.
type changes struct {
	Items []json.RawMessage `json:"items" doc:"What is new or has changed, whole."`
	Gone  []string          `json:"gone" doc:"The ids of what is not of the list any more."`
}

// reading reads a list.
type reading func(ctx context.Context) ([]row, error)

// listTopics are the lists that can be followed.
func (a *API) listTopics() map[string]reading {
	return map[string]reading{
		"sessions": func(ctx context.Context) ([]row, error) {
			all, err := a.cfg.Engine.Sessions(ctx, boardRows)
			return rowsOf(all, err, func(s engine.Session) string { return string(s.ID) })
		},
		"tasks": func(ctx context.Context) ([]row, error) {
			all, err := a.cfg.Engine.Tasks(ctx, "")
			all = slices.DeleteFunc(all, func(t perdure.Task) bool { return t.State.Terminal() && t.State != perdure.TaskUnknown })
			all = slices.Clone(all[max(0, len(all)-boardRows):])
			for i, t := range all {
				t.HeartbeatAt = time.Time{} // a sign of life is no news
				all[i] = listed(t)
			}
			return rowsOf(all, err, func(t perdure.Task) string { return string(t.ID) })
		},
		"approvals": func(ctx context.Context) ([]row, error) {
			all, err := a.cfg.Engine.Approvals(ctx, engine.ApprovalFilter{State: perdure.ApprovalOpen})
			all = slices.Clone(all[max(0, len(all)-boardRows):])
			for i, p := range all {
				all[i] = inList(p)
			}
			return rowsOf(all, err, func(p perdure.Approval) string { return string(p.ID) })
		},
	}
}

func rowsOf[T any](all []T, err error, id func(T) string) ([]row, error) {
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

// audience is who sees what the caller sees.
func audience(ctx context.Context) string { return requestOf(ctx).principal }

// run looks again and again until ctx ends. A look that fails is followed by another one: the list is told when it can be read.
func (b *board) run(ctx context.Context, read reading, pause time.Duration) {
	for {
		began := time.Now()
		if rows, err := read(ctx); err == nil {
			b.show(rows)
		}
		rest := time.NewTimer(min(max(pause, boardFactor*time.Since(began)), boardRest))
		select {
		case <-rest.C:
		case <-ctx.Done():
			rest.Stop()
			return
		}
	}
}

// show takes the list as it stands now.
func (b *board) show(rows []row) {
	b.mu.Lock()
	defer b.mu.Unlock()
	sum := sumOf(rows)
	if sum == b.sum {
		return
	}
	text, err := json.Marshal(difference(b.rows, rows))
	if err != nil { // it is of strings, and of texts that were just encoded
		return
	}
	b.rows, b.sum, b.step = rows, sum, b.step+1
	if b.steps = append(b.steps, step{sum, text}); len(b.steps) > boardSteps {
		b.steps = slices.Delete(b.steps, 0, 1)
	}
	b.tell()
}

// difference is what leads from one state of a list to another.
func difference(before, after []row) changes {
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

// sumOf tells states of a list apart. It is never empty.
func sumOf(rows []row) string {
	h := sha256.New()
	for _, r := range rows {
		h.Write(r.text)
		h.Write([]byte{'\n'})
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:12])
}

// listTopic follows a list: as it stands, then what changes.
type listTopic struct {
	key   boardKey
	read  reading
	sum   string // of what the client has; empty: nothing
	step  int64  // of the board, that the client has; 0: it was not found yet
	board *board // nil: it has not begun
}

func (t *listTopic) name() string { return t.key.list }

func (t *listTopic) place() string { return t.sum }

func (t *listTopic) begin(ctx context.Context, f *follower) error {
	t.key.audience = audience(ctx)
	read, pause := t.read, f.a.cfg.Look // the board outlives who came first
	t.board = f.a.boards.join(ctx, t.key, f.wake, func() (*board, func(context.Context)) {
		b := &board{}
		return b, func(ctx context.Context) { b.run(ctx, read, pause) }
	})
	return nil
}

func (t *listTopic) leave(f *follower) {
	if t.board != nil {
		f.a.boards.leave(t.key, t.board, f.wake)
	}
}

// next writes the changes since what the client has, or the whole list when it has nothing, or something that is too long ago.
func (t *listTopic) next(_ context.Context, f *follower) (bool, error) {
	b := t.board
	b.mu.Lock()
	rows, sum, last, steps := b.rows, b.sum, b.step, b.steps
	b.mu.Unlock()
	if last == 0 || t.step == last {
		return false, nil
	}
	if t.step == 0 && t.sum != "" { // it comes again, and has what some step led to
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
	text, err := json.Marshal(difference(nil, rows))
	if err != nil {
		return true, err
	}
	return true, f.frame(t, kind, text, true)
}
