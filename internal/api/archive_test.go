package api_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/api"
)

const jsonLines = "application/x-ndjson"

// importing asks for the import of a file.
func importing(text []byte) ask {
	return ask{method: http.MethodPost, path: "/v1/sessions/import", body: string(text), header: map[string]string{"Content-Type": jsonLines}}
}

// TestArchive pins H17: what one server exports another one restores, byte for byte.
func TestArchive(t *testing.T) {
	t.Parallel()
	r, there := newRig(t, nil), newRig(t, nil)
	session := r.session()
	r.say(session, "echo")
	r.rest(session)
	exported := r.do(get(session + "/export"))
	if exported.status != 200 || exported.header.Get("Content-Type") != jsonLines || !bytes.HasSuffix(exported.body, []byte("}\n")) {
		t.Fatalf("got %d %v %s", exported.status, exported.header, exported.body)
	}

	got := want[engine.Session](there, http.StatusCreated, importing(exported.body))
	if again := there.do(get(session + "/export")); !bytes.Equal(again.body, exported.body) || "/v1/sessions/"+string(got.ID) != session {
		t.Errorf("got %s\nwant %s", again.body, exported.body)
	}
	there.refusal(there.do(importing(exported.body)), 409, "conflict")
	there.refusal(there.do(importing(exported.body[:len(exported.body)/2])), 400, "invalid")
	there.refusal(there.do(ask{method: http.MethodPost, path: "/v1/sessions/import", body: string(exported.body)}), 415, "unsupported_media_type")
	there.refusal(there.do(ask{method: http.MethodGet, path: session + "/export", header: map[string]string{"Accept": "application/json"}}), 406, "not_acceptable")
	there.refusal(there.do(get("/v1/sessions/session_019aa0000000700080000000000000fa/export")), 404, "not_found")
}

// TestArchiveAtWork: a running session is only taken over if the request says so.
func TestArchiveAtWork(t *testing.T) {
	t.Parallel()
	r, there := newRig(t, nil), newRig(t, nil)
	session := r.session()
	r.say(session, "charge")
	r.entered("charge")
	exported := r.do(get(session + "/export"))

	there.refusal(there.do(importing(exported.body)), 409, "conflict")
	q := importing(exported.body)
	q.path += "?take_over=true"
	want[engine.Session](there, http.StatusCreated, q)
	there.rest(session)

	calls := want[taskInList[perdure.Call]](there, 200, get(session+"/calls")).Items
	if len(calls) != 1 || calls[0].State != perdure.CallUnknown {
		t.Errorf("got %+v", calls)
	}
}

// TestArchiveLimit pins that an import has a limit of its own.
func TestArchiveLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *api.Config) { c.Limits.Body, c.Limits.Archive = 100, 1000 })
	r.refusal(r.do(importing([]byte(strings.Repeat("x", 999)))), 400, "invalid")
	r.refusal(r.do(importing([]byte(strings.Repeat("x", 1001)))), 413, "too_large")
}

// TestFork pins what a fork is asked for with.
func TestFork(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	session := r.session()
	r.say(session, "echo")
	r.rest(session)
	got := r.do(post(session+"/fork", `{"at_seq":5,"effects":"dry_run","title":"another way"}`))
	f := read[engine.Session](t, got.body)
	if got.status != 201 || got.header.Get("Location") != "/v1/sessions/"+string(f.ID) || f.Title != "another way" || f.LastSeq != 2 {
		t.Errorf("got %d %s %+v", got.status, got.header.Get("Location"), f)
	}
	r.refusal(r.do(post(session+"/fork", `{"at_seq":500}`)), 400, "invalid")
	r.refusal(r.do(post(session+"/fork", `{"at_seq":-1}`)), 400, "invalid")
	r.refusal(r.do(post(session+"/fork", `{"effects":"all"}`)), 400, "invalid")
	r.refusal(r.do(post("/v1/sessions/session_019aa0000000700080000000000000fa/fork", `{}`)), 404, "not_found")
}
