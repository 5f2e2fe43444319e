package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/api"
)

// long is an engine with long lists that counts the reads.
type long struct {
	engine.Engine
	sessions []engine.Session // newest first
	tasks    []perdure.Task
	// approvals are in the order of their requests, the one with number n of class n modulo 3.
	approvals []perdure.Approval
	read      int // sessions and tasks
	most      int // tasks of one read
	asked     int // approvals
}

func newLong(n int) *long {
	l := &long{}
	for range n {
		l.add()
	}
	return l
}

// add makes one session and one task more.
func (l *long) add() {
	n := len(l.tasks)
	l.sessions = slices.Insert(l.sessions, 0, engine.Session{
		ID: perdure.SessionID(fmt.Sprintf("session_%032d", n)), CreatedAt: time.Unix(int64(n), 0).UTC(),
	})
	l.tasks = append(l.tasks, perdure.Task{ID: perdure.TaskID(fmt.Sprintf("task_%032d", n)), State: perdure.TaskQueued})
	l.approvals = append(l.approvals, perdure.Approval{
		ID: perdure.ApprovalID(fmt.Sprintf("appr_%032d", n)), State: perdure.ApprovalOpen, RequestedAt: time.Unix(int64(n), 0).UTC(),
		Class: []perdure.EffectClass{perdure.Pure, perdure.AtMostOnce, perdure.Idempotent}[n%3],
	})
}

// longSessions implements engine.Sessions for long.
type longSessions struct {
	engine.Sessions
	*long
}

// Sessions implements engine.Engine.
func (l *long) Sessions() engine.Sessions { return longSessions{nil, l} }

func (l longSessions) List(context.Context, int) ([]engine.Session, error) { return nil, nil }

func (l longSessions) ListWhere(_ context.Context, f engine.SessionFilter) ([]engine.Session, error) {
	got := slices.DeleteFunc(slices.Clone(l.sessions), func(s engine.Session) bool {
		return !f.After.Precedes(s) || f.Status != "" && s.Status != f.Status
	})
	if f.Limit > 0 {
		got = got[:min(f.Limit, len(got))]
	}
	l.read += len(got)
	return got, nil
}

// longTasks implements engine.Tasks for long.
type longTasks struct {
	engine.Tasks
	*long
}

// Tasks implements engine.Engine.
func (l *long) Tasks() engine.Tasks { return longTasks{nil, l} }

func (l longTasks) ListWhere(_ context.Context, q engine.TaskQuery) ([]perdure.Task, error) {
	got := slices.DeleteFunc(slices.Clone(l.tasks), func(t perdure.Task) bool { return !q.Matches(t) })
	if q.Newest {
		slices.Reverse(got)
	}
	got = got[1+slices.IndexFunc(got, func(t perdure.Task) bool { return t.ID == q.After }):]
	if q.Limit > 0 {
		got = got[:min(q.Limit, len(got))]
	}
	l.read, l.most = l.read+len(got), max(l.most, len(got))
	return got, nil
}

func (l longTasks) Overview(context.Context) (engine.TaskOverview, error) {
	o := engine.TaskOverview{States: map[perdure.TaskState]int{}}
	for _, t := range l.tasks {
		o.States[t.State]++
	}
	return o, nil
}

// List counts like ListWhere, so that the reads of all tasks show.
func (l longTasks) List(ctx context.Context, id perdure.SessionID) ([]perdure.Task, error) {
	return l.ListWhere(ctx, engine.TaskQuery{TaskFilter: engine.TaskFilter{Session: id}})
}

// longApprovals implements engine.Approvals for long.
type longApprovals struct {
	engine.Approvals
	*long
}

// Approvals implements engine.Engine.
func (l *long) Approvals() engine.Approvals { return longApprovals{nil, l} }

func (l longApprovals) List(_ context.Context, f engine.ApprovalFilter) ([]perdure.Approval, error) {
	got := slices.DeleteFunc(slices.Clone(l.approvals), func(p perdure.Approval) bool { return f.State != "" && p.State != f.State })
	l.asked += len(got)
	return got, nil
}

// walk reads a list to its end and returns the ids. between is called after each page.
func (l *long) walk(t *testing.T, a *api.API, path string, between func()) (ids []string) {
	t.Helper()
	for cursor, pages := "", 0; ; pages++ {
		got := serve(t, a, get(path+"&cursor="+cursor))
		if got.status != 200 || pages > len(l.tasks) {
			t.Fatalf("got %d %s", got.status, got.body)
		}
		page := read[taskInList[map[string]any]](t, got.body)
		for _, item := range page.Items {
			ids = append(ids, fmt.Sprint(item["id"]))
		}
		if cursor = page.Next; cursor == "" {
			return ids
		}
		between()
	}
}

func (l *long) serve(t *testing.T) *api.API {
	t.Helper()
	a, err := api.New(api.Config{Engine: l, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestListCost: to walk a long list costs a few readings of the whole, and not one for each page.
func TestListCost(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/v1/sessions?limit=10", "/v1/tasks?limit=10"} {
		synctest.Test(t, func(t *testing.T) {
			l := newLong(2000)
			if got := l.walk(t, l.serve(t), path, func() {}); len(got) != 2000 {
				t.Errorf("%s: got %d", path, len(got))
			}
			if l.read > 3*2000 {
				t.Errorf("%s: read %d to show 2000", path, l.read)
			}
		})
	}
}

// TestListKept: a page that comes out of a kept listing, or after it was forgotten, neither skips
// nor repeats, whatever is added; and the end of a list is read anew.
func TestListKept(t *testing.T) {
	t.Parallel()
	for _, pause := range []time.Duration{0, time.Second, 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			l := newLong(100)
			a := l.serve(t)
			add := func() {
				<-time.After(pause) // of the fake clock
				l.add()
			}

			tasks := l.walk(t, a, "/v1/tasks?limit=7", add)
			if len(tasks) < 107 || len(tasks) > len(l.tasks) {
				t.Errorf("%s: got %d tasks", pause, len(tasks))
			}
			for i, id := range tasks {
				if id != string(l.tasks[i].ID) {
					t.Fatalf("%s: got %s at %d", pause, id, i)
				}
			}

			had := slices.Clone(l.sessions)
			sessions := l.walk(t, a, "/v1/sessions?limit=7", add)
			if len(sessions) != len(had) {
				t.Errorf("%s: got %d sessions, want %d", pause, len(sessions), len(had))
			}
			for i, id := range sessions {
				if id != string(had[i].ID) {
					t.Fatalf("%s: got %s at %d", pause, id, i)
				}
			}
		})
	}
}

// TestListFresh: a cached list expires, and a first page is always read anew.
func TestListFresh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLong(100)
		a := l.serve(t)
		page := func(cursor string) (string, string) {
			got := serve(t, a, get("/v1/approvals?limit=10&cursor="+cursor))
			return string(got.body), read[taskInList[map[string]any]](t, got.body).Next
		}
		_, next := page("")
		_, next = page(next) // keeps the rest of the list
		for i := range l.approvals {
			l.approvals[i].Note = "changed"
		}
		if body, _ := page(next); strings.Contains(body, "changed") {
			t.Error("the third page is not out of the second reading")
		}
		if body, _ := page(""); !strings.Contains(body, "changed") {
			t.Error("the first page is out of an old reading")
		}
		<-time.After(31 * time.Second) // of the fake clock
		if body, _ := page(next); !strings.Contains(body, "changed") {
			t.Error("the third page is out of a reading of 31 s ago")
		}
		for range 10 { // many walks at once push each other out, and go on
			_, next = page("")
			_, next = page(next)
		}
		for next != "" {
			_, next = page(next)
		}
	})
}

// TestSessionPagesFresh: each page of sessions is read anew, and reads the sessions of the page
// alone, wherever in the list it is.
func TestSessionPagesFresh(t *testing.T) {
	t.Parallel()
	l := newLong(5000)
	a := l.serve(t)
	page := func(cursor string) (string, string) {
		got := serve(t, a, get("/v1/sessions?limit=100&cursor="+cursor))
		return string(got.body), read[taskInList[map[string]any]](t, got.body).Next
	}
	_, next := page("")
	for range 30 {
		_, next = page(next)
	}
	for i := range l.sessions {
		l.sessions[i].Title = "changed"
	}
	before := l.read
	if body, _ := page(next); !strings.Contains(body, "changed") {
		t.Error("a page is out of an old reading")
	}
	if l.read-before > 101 {
		t.Errorf("read %d sessions to show 100", l.read-before)
	}
}

// TestApprovalsByRisk: the order risk begins with what must not happen twice, and a walk in it
// continues when approvals that it has shown are decided.
func TestApprovalsByRisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLong(60)
		a := l.serve(t)
		var want []string
		for _, class := range []perdure.EffectClass{perdure.AtMostOnce, perdure.Idempotent, perdure.Pure} {
			for _, p := range l.approvals {
				if p.Class == class {
					want = append(want, string(p.ID))
				}
			}
		}
		if got := l.walk(t, a, "/v1/approvals?state=open&order=risk&limit=7", func() {}); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}

		shown := map[string]bool{}
		got := l.walk(t, a, "/v1/approvals?state=open&order=risk&limit=7", func() {
			<-time.After(time.Minute) // of the fake clock: no listing is kept
			for i := range l.approvals[:40] {
				l.approvals[i].State = perdure.ApprovalApproved
			}
		})
		for _, id := range got {
			if shown[id] {
				t.Errorf("%s is shown twice", id)
			}
			shown[id] = true
		}
		for _, p := range l.approvals[40:] {
			if !shown[string(p.ID)] {
				t.Errorf("%s is not shown", p.ID)
			}
		}
	})
}

// TestOpenApprovalPagesCost: a page of open approvals does not read those that were decided.
func TestOpenApprovalPagesCost(t *testing.T) {
	t.Parallel()
	l := newLong(5000)
	for i := range l.approvals[:4900] {
		l.approvals[i].State = perdure.ApprovalDenied
	}
	if got := l.walk(t, l.serve(t), "/v1/approvals?state=open&limit=40", func() {}); len(got) != 100 || l.asked > 300 {
		t.Errorf("read %d to show %d", l.asked, len(got))
	}
}

// TestTaskPagesFresh: each page of tasks is read anew, and reads the tasks of the page alone.
func TestTaskPagesFresh(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"oldest", "newest"} {
		l := newLong(5000)
		a := l.serve(t)
		page := func(cursor string) (string, string) {
			got := serve(t, a, get("/v1/tasks?state=queued,running&limit=100&order="+order+"&cursor="+cursor))
			return string(got.body), read[taskInList[map[string]any]](t, got.body).Next
		}
		_, next := page("")
		for i := range l.tasks {
			l.tasks[i].State = perdure.TaskRunning
		}
		if body, _ := page(next); strings.Contains(body, "queued") {
			t.Errorf("%s: the second page is out of an old reading", order)
		}
		if l.read > 2*101 {
			t.Errorf("%s: read %d tasks to show 200", order, l.read)
		}
	}
}

// TestOpenTasksCost: the counts of the current work and the list of open tasks in a stream read no
// tasks besides those they show, however many there are.
func TestOpenTasksCost(t *testing.T) {
	t.Parallel()
	l := newLong(5000)
	l.approvals = nil
	server := httptest.NewServer(l.serve(t))
	defer server.Close()
	open := func(path, form string) *http.Response {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+token)
		q.Header.Set("Accept", form)
		res, err := server.Client().Do(q)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %+v, %v", path, res, err)
		}
		return res
	}

	counts := open("/v1/work", "application/json")
	var got work
	if err := json.NewDecoder(counts.Body).Decode(&got); err != nil || got.Running != 5000 {
		t.Errorf("got %+v, %v", got, err)
	}
	_ = counts.Body.Close()
	stream := open("/v1/events?topics=tasks", "text/event-stream")
	lines := bufio.NewScanner(stream.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "data:") {
	}
	if n := strings.Count(lines.Text(), `"state":"queued"`); n != 200 {
		t.Errorf("the list in the stream has %d tasks, want 200", n)
	}
	_ = stream.Body.Close()
	server.Close() // waits for the stream, which reads no more then

	if l.most > 200 {
		t.Errorf("read %d tasks at once", l.most)
	}
}
