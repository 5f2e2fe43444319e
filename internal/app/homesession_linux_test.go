package app

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/backup"
)

// startsAtOne begins a session at the first server, whose model has made a database there, and
// kills that server once the second one is started.
func (w shared) startsAtOne() perdure.SessionID {
	w.one.t.Helper()
	script, err := os.ReadFile("testdata/homes.yaml")
	if err != nil {
		w.one.t.Fatal(err)
	}
	model := w.one.script(string(script))
	agent, err := json.Marshal(map[string]any{"agent": perdure.Agent{Model: model, Capabilities: []string{"session_sql"}}})
	if err != nil {
		w.one.t.Fatal(err)
	}
	r, _ := w.one.insist(post{"/v1/sessions", "new", string(agent)})
	var s engine.Session
	if r.into(w.one.t, &s); r.status != http.StatusCreated || s.Home != nil {
		w.one.t.Fatalf("new session: %d %s", r.status, r.body)
	}
	w.one.insist(say(s.ID, "make", "make"))
	w.one.rest(s.ID)
	w.two.start()
	if got := w.two.session(s.ID); got.Home == nil || got.Home.Here || !got.Home.WaitsSince.IsZero() {
		w.one.t.Fatalf("the home of a session with a database, as another server says: %+v", got.Home)
	}
	w.one.kill()
	return s.ID
}

// session reads a session.
func (d *doorway) session(id perdure.SessionID) (s engine.Session) {
	d.t.Helper()
	d.get("/v1/sessions/"+string(id)).into(d.t, &s)
	return s
}

// results returns the results of the calls of a session.
func (d *doorway) results(id perdure.SessionID) (all []perdure.ToolResult) {
	d.t.Helper()
	for _, event := range d.events(id) {
		if fact, ok := event.Fact.(perdure.ToolCompleted); ok {
			all = append(all, fact.Result)
		}
	}
	return all
}

// waits sends a message through the second server, and waits until the session waits for its home.
func (w shared) waits(id perdure.SessionID) {
	w.two.t.Helper()
	w.two.insist(say(id, "read", "read"))
	w.two.until("the wait for the home, or an answer without it", func() bool {
		s := w.two.session(id)
		return s.Home != nil && !s.Home.WaitsSince.IsZero() || len(w.two.results(id)) > 1
	})
	if got := w.two.results(id); len(got) > 1 {
		w.two.t.Fatalf("another server worked on the session: %s %s", got[1].Result, got[1].Error)
	}
}

// homes lists the homes by what the server says about them: whether it is its own.
func (d *doorway) homes() map[bool]engine.Home {
	d.t.Helper()
	var list struct{ Items []engine.Home }
	d.get("/v1/homes").into(d.t, &list)
	by := map[bool]engine.Home{}
	for _, h := range list.Items {
		by[h.Here] = h
	}
	if len(list.Items) != 2 || len(by) != 2 {
		d.t.Fatalf("homes: %+v", list.Items)
	}
	return by
}

// TestHomeOfSession: a session with a database is worked on by servers of its home only. Messages
// wait for it however long it is away, whichever server receives them (RC25, RC26, RC27).
func TestHomeOfSession(t *testing.T) {
	t.Parallel()
	w := newShared(t, "1s")
	id := w.startsAtOne()
	w.waits(id)

	if r := w.two.once(http.MethodGet, "/v1/sessions/"+string(id)+"/databases"); r.status != http.StatusConflict || !strings.Contains(r.body, "are at home") {
		t.Errorf("databases of another home: %d %s", r.status, r.body)
	}
	if r, _ := w.two.insist(post{"/v1/sessions/" + string(id) + "/fork", "fork", "{}"}); r.status != http.StatusConflict {
		t.Errorf("a fork without the databases: %d %s", r.status, r.body)
	}
	if got := w.two.homes(); got[false].Present || got[false].WaitingSessions != 1 || !got[true].Present || got[true].WaitingSessions != 0 {
		t.Errorf("homes: %+v", got)
	}

	w.one.start()
	w.two.until("the answer of the home", func() bool { return len(w.two.results(id)) == 2 })
	w.two.rest(id)
	if got := w.two.session(id); got.Home == nil || !got.Home.WaitsSince.IsZero() {
		t.Errorf("the home of an answered session: %+v", got.Home)
	}
	w.two.insist(say(id, "again", "again")) // the home is present now
	w.two.until("another answer of the home", func() bool { return len(w.two.results(id)) == 3 })
	got := w.two.results(id)
	if !strings.Contains(string(got[1].Result), "7") || !strings.Contains(string(got[2].Result), "8") {
		t.Errorf("results: %+v", got)
	}
}

// TestHomeReplaced: a server with a copy of the data directory of a lost server is that server. It
// continues the sessions with the files of the copy (RC22, RC26).
func TestHomeReplaced(t *testing.T) {
	t.Parallel()
	w := newShared(t, "1s")
	id := w.startsAtOne()
	w.waits(id)

	lost := w.one.data
	w.one.data = filepath.Join(t.TempDir(), "data")
	if err := os.MkdirAll(w.one.data, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{backup.KeyringFile, "home"} {
		text, err := os.ReadFile(filepath.Join(lost, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(w.one.data, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(w.one.data, backup.SQLFolder), os.DirFS(filepath.Join(lost, backup.SQLFolder))); err != nil {
		t.Fatal(err)
	}
	w.one.start()

	w.two.until("the answer of the replacement", func() bool { return len(w.two.results(id)) == 2 })
	if got := w.two.results(id); !strings.Contains(string(got[1].Result), "7") {
		t.Errorf("results: %+v", got)
	}
}

// TestHomeDelete: another server deletes a session with files. Its home removes them at its
// next start, and nobody does so before (RC29).
func TestHomeDelete(t *testing.T) {
	t.Parallel()
	w := newShared(t, "1s")
	id := w.startsAtOne()
	folder := filepath.Join(w.one.data, backup.SQLFolder, string(id))

	if r := w.two.once(http.MethodDelete, "/v1/sessions/"+string(id)); r.status != http.StatusOK && r.status != http.StatusNoContent {
		t.Fatalf("delete: %+v", r)
	}
	if _, err := os.Stat(folder); err != nil {
		t.Fatalf("the databases at the home that is away: %v", err)
	}
	w.one.start()
	w.one.until("the removal of the databases", func() bool {
		_, err := os.Stat(folder)
		return errors.Is(err, fs.ErrNotExist)
	})
}

// once sends a request without a body, once.
func (d *doorway) once(method, path string) reply {
	d.t.Helper()
	req := d.request(post{path, method, ""})
	req.Method = method
	r, err := d.do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

// TestHomeMove: an operator moves a session to another server, which does its work without the
// files that stay behind. The audit log records it, and the former home no longer works on the
// session (RC28).
func TestHomeMove(t *testing.T) {
	t.Parallel()
	w := newShared(t, "1s")
	id := w.startsAtOne()
	w.waits(id)
	from := w.two.session(id).Home.ID

	r, _ := w.two.insist(post{"/v1/sessions/" + string(id) + "/move", "move", "{}"})
	if r.status != http.StatusOK {
		t.Fatalf("move: %d %s", r.status, r.body)
	}
	w.two.until("an answer without the files", func() bool { return len(w.two.results(id)) == 2 })
	w.two.rest(id)
	if got := w.two.results(id); !strings.Contains(got[1].Error, "no such table") {
		t.Errorf("a table that stayed behind: %s %s", got[1].Result, got[1].Error)
	}
	now := w.two.session(id).Home
	if now == nil || !now.Here || now.ID == from {
		t.Errorf("the home of a moved session: %+v, before %s", now, from)
	}
	var log struct{ Items []engine.AuditEntry }
	w.two.get("/v1/audit?action=session.moved").into(t, &log)
	if len(log.Items) != 1 || log.Items[0].Detail["from"] != string(from) || log.Items[0].Detail["to"] != string(now.ID) {
		t.Errorf("audit log: %+v", log.Items)
	}

	w.one.start()
	w.one.insist(say(id, "again", "again"))
	w.one.until("an answer of the new home", func() bool { return len(w.one.results(id)) == 3 })
	if got := w.one.results(id); !strings.Contains(got[2].Error, "no such table") {
		t.Errorf("the former home answered: %s %s", got[2].Result, got[2].Error)
	}
	if r, _ := w.two.insist(post{"/v1/sessions/" + string(id) + "/move", "again", "{}"}); r.status != http.StatusOK {
		t.Errorf("a move to where it is: %d %s", r.status, r.body)
	}
}
