package api_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/tool"
)

// TestFiles: a file is its bytes, whatever they are.
func TestFiles(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *api.Config) { c.Limits.File = 1 << 20 })
	s := r.session()
	content := "<script>\x00\xff" + strings.Repeat("a", 100_000)
	q := given(put(s+"/files/a%20b/%C3%BC%3F.html", content), "Content-Type", "text/html")
	if f := want[engine.File](r, 200, q); f.Path != "/a b/ü?.html" || f.SizeBytes != int64(len(content)) {
		t.Errorf("got %+v", f)
	}
	got := r.do(given(get(s+"/files/a%20b/%C3%BC%3F.html"), "Accept", "*/*"))
	if string(got.body) != content || got.header.Get("Content-Type") != "application/octet-stream" || got.header.Get("X-Content-Type-Options") != "nosniff" ||
		got.header.Get("Content-Disposition") != "attachment" {
		t.Errorf("got %d %v, %d bytes", got.status, got.header, len(got.body))
	}
	if head := r.do(ask{method: "HEAD", path: s + "/files/a%20b/%C3%BC%3F.html"}); head.status != 200 || head.header.Get("ETag") != got.header.Get("ETag") || len(head.body) != 0 {
		t.Errorf("got %d %v", head.status, head.header)
	}
	want[engine.File](r, 200, put(s+"/files/empty", ""))
	if got := r.do(get(s + "/files/empty")); got.status != 200 || len(got.body) != 0 {
		t.Errorf("got %d %q", got.status, got.body)
	}
	if f := want[engine.File](r, 200, get(s+"/files:stat?path="+url.QueryEscape("/a b"))); !f.Directory {
		t.Errorf("got %+v", f)
	}
	if all := want[taskInList[engine.File]](r, 200, get(s+"/files?deep=true")).Items; len(all) != 3 || all[1].Path != "/a b/ü?.html" {
		t.Errorf("got %+v", all)
	}
	r.refusal(r.do(get(s+"/files/a%20b")), 409, "conflict")
	r.refusal(r.do(get(s+"/files/none")), 404, "not_found")
	r.refusal(r.do(get(s+"/files?path=none")), 400, "invalid")
	r.refusal(r.do(given(get(s+"/files/empty"), "Accept", "text/html")), 406, "not_acceptable")
	bytesOf := func(q ask) ask { return given(q, "Content-Type", "application/octet-stream") }
	for path, status := range map[string]int{"/files/.background/x": 409, "/files/%2E%2E/x": 400, "/files/a/%2E%2E/x": 400, "/files/a%5Cb": 400, "/files/a%0Ab": 400, "/files/a%2F%2Fb": 400, "/files//b": 404} {
		if got := r.do(bytesOf(put(s+path, "x"))); got.status != status || len(r.refusal(got, status, read[problem](t, got.body).Code).Detail) == 0 {
			t.Errorf("%s: got %d %s", path, got.status, got.body)
		}
	}
	r.refusal(r.do(bytesOf(put(s+"/files/big", strings.Repeat("a", 1<<20+1)))), 413, "too_large")
	r.refusal(r.do(given(put(s+"/files/x", "x"), "Content-Type", "")), 415, "unsupported_media_type")
	r.refusal(r.do(given(bytesOf(put(s+"/files/x", "x")), "Content-Encoding", "gzip")), 415, "unsupported_media_type")
	if f := want[engine.File](r, 200, post(s+"/files:move", `{"from":"/a b","to":"/c"}`)); f.Path != "/c" {
		t.Errorf("got %+v", f)
	}
	r.refusal(r.do(post(s+"/files:move", `{"from":"/c","to":"/empty"}`)), 409, "conflict")
	r.refusal(r.do(post(s+"/files:move", `{"from":"c","to":"/d"}`)), 400, "invalid")
	r.refusal(r.do(ask{method: http.MethodDelete, path: s + "/files/c"}), 409, "conflict")
	want[struct{}](r, 200, ask{method: http.MethodDelete, path: s + "/files/c?recursive=true"})
	r.refusal(r.do(ask{method: http.MethodDelete, path: s + "/files/c"}), 404, "not_found")
}

// TestSecrets: no response contains the value, and the stored request does not reveal it.
func TestSecrets(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.session()
	const canary = "xyzzy-canary-of-the-test"
	set := keyed(put(s+"/secrets/mail", `{"value":"`+canary+`","hosts":["smtp.example.org"]}`), "once")
	for _, replayed := range []string{"", "true"} {
		if got := r.do(set); got.status != 204 || len(got.body) != 0 || got.header.Get("Idempotency-Replayed") != replayed {
			t.Errorf("got %d %v %q", got.status, got.header, got.body)
		}
	}
	want[struct{}](r, 200, ask{method: http.MethodDelete, path: s + "/secrets/mail"})
	if got := r.do(put(s+"/secrets/mail", `{"value":"`+canary+`"}`)); got.status != 204 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	found := want[taskInList[engine.Secret]](r, 200, get(s+"/secrets")).Items
	if len(found) != 1 || found[0].Name != "mail" || found[0].Version != 2 {
		t.Errorf("got %+v", found)
	}
	doc, _ := r.document()
	doc.each(func(method, path string, op operation) {
		if method != "get" {
			return
		}
		path = strings.NewReplacer("/v1/sessions/{id}", s, "{name}", "mail", "{key}", "mail", "{path}", "mail").Replace(path)
		if got := r.do(get(path)); bytes.Contains(got.body, []byte(canary)) {
			t.Errorf("%s shows it", path)
		}
	})
	r.keys.mu.Lock()
	for _, row := range r.keys.rows {
		if strings.Contains(row.Scope, "/secrets/") && len(row.Hash) > 4 {
			t.Errorf("the identity %q of a request reveals what to guess against", row.Hash)
		}
	}
	r.keys.mu.Unlock()
	r.refusal(r.do(put(s+"/secrets/mail", `{"value":""}`)), 400, "invalid")
	r.refusal(r.do(put(s+"/secrets/perdure:own", `{"value":"x"}`)), 400, "invalid")
	if got := r.do(put(s+"/secrets/mail", `{"value":{"`+canary+`":1}}`)); got.status != 400 || bytes.Contains(got.body, []byte(canary)) {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

// TestBulk cancels many tasks, and says how far it is.
func TestBulk(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	var asking []questioned
	for range 5 {
		asking = append(asking, r.asking("asking"))
	}
	filter := `{"filter":{"kind":"background_tool","tool":"asking","older":"0s"}`
	dry := want[engine.Bulk](r, 202, post("/v1/tasks:cancel", filter+`,"dry_run":true}`))
	if dry.Matched != 5 || dry.Done != 0 || dry.State != engine.BulkDone || len(dry.Tasks) != 5 {
		t.Errorf("got %+v", dry)
	}
	if none := want[engine.Bulk](r, 202, post("/v1/tasks:cancel", `{"filter":{"older":"1h"}}`)); none.Matched != 0 {
		t.Errorf("got %+v", none)
	}
	begun := r.do(post("/v1/tasks:cancel", filter+`,"reason":"enough"}`))
	bulk := read[engine.Bulk](t, begun.body)
	if begun.status != 202 || bulk.Matched != 5 || begun.header.Get("Location") != "/v1/bulks/"+string(bulk.ID) {
		t.Errorf("got %d %v %+v", begun.status, begun.header, bulk)
	}
	for bulk.State == engine.BulkRunning {
		bulk = want[engine.Bulk](r, 200, get(begun.header.Get("Location")))
	}
	if bulk.Done != 5 || bulk.Failed != 0 || bulk.State != engine.BulkDone {
		t.Errorf("got %+v", bulk)
	}
	for _, a := range asking {
		if task := want[perdure.Task](r, 200, get(a.path())); !task.CancelRequested() || task.CancelWhy != "enough" {
			t.Errorf("got %+v", task)
		}
	}
	for query, n := range map[string]int{"tool=asking": 5, "tool=hold": 0, "kind=monitor": 0, "kind=background_tool&older=0s": 5, "older=1h": 0} {
		if found := want[taskInList[perdure.Task]](r, 200, get("/v1/tasks?"+query)).Items; len(found) != n {
			t.Errorf("%s: %d tasks", query, len(found))
		}
	}
	r.refusal(r.do(post("/v1/tasks:cancel", `{"filter":{"older":"soon"}}`)), 400, "invalid")
	r.refusal(r.do(post("/v1/tasks:cancel", `{"filter":{},"id":"bulk_1"}`)), 400, "invalid")
	for _, wrong := range []string{`{"state":"runing"}`, `{"kind":"background"}`} {
		r.refusal(r.do(post("/v1/tasks:cancel", `{"filter":`+wrong+`}`)), 400, "invalid")
	}
	minted := `"id":"bulk_019aa0000000700080000000000000aa"`
	for range 2 { // asked again in the same words
		want[engine.Bulk](r, 202, post("/v1/tasks:cancel", `{"filter":{"tool":"nothing","older":"1h"},`+minted+`}`))
	}
	for _, other := range []string{`{"tool":"hold","older":"1h"}`, `{"tool":"nothing","older":"2h"}`, `{"tool":"nothing"}`} {
		r.refusal(r.do(post("/v1/tasks:cancel", `{"filter":`+other+`,`+minted+`}`)), 409, "conflict")
	}
	r.refusal(r.do(get("/v1/bulks/bulk_1")), 404, "not_found")
}

// TestRetry calls the tool of a task that was canceled once more.
func TestRetry(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	path := r.canceled()
	first := keyed(post(path+"/retry", `{}`), "again")
	call := want[engine.HostCall](r, 202, first)
	if call.Task == nil || call.Task.Tool != "hold" || fmt.Sprint("/v1/tasks/", call.Task.ID) == path {
		t.Fatalf("got %+v", call)
	}
	r.entered("hold")
	r.refusal(r.do(post("/v1/tasks/"+string(call.Task.ID)+"/retry", `{}`)), 409, "conflict")
	r.release()
	if done := want[perdure.Task](r, 200, get("/v1/tasks/"+string(call.Task.ID)+"?wait=20s")); done.State != perdure.TaskSucceeded {
		t.Errorf("got %+v", done)
	}
	if again := want[engine.HostCall](r, 202, first); again.ID != call.ID {
		t.Errorf("got %+v, want %s", again, call.ID)
	}
}

// beside puts something beside a session, and returns its path.
func (r *rig) beside(session, resource string) string {
	r.t.Helper()
	id := perdure.SessionID(strings.TrimPrefix(session, "/v1/sessions/"))
	ports := sessionport.New(sessionport.Config{Store: r.store})(id, tool.Call{Session: id})
	if _, err := ports.Resources.Register(r.t.Context(), tool.Resource{ID: resource, Kind: "sandbox"}); err != nil {
		r.t.Fatal(err)
	}
	return session + "/resources/" + url.PathEscape(resource)
}

// TestResources: what stands beside a session is listed by pages and released on a condition, by a
// person.
func TestResources(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.session()
	var paths []string
	for _, name := range []string{"b/1", "a", "c"} {
		paths = append(paths, r.beside(s, name))
	}
	first := want[taskInList[engine.SessionResource]](r, 200, get(s+"/resources?limit=2"))
	if len(first.Items) != 2 || first.Items[0].ID != "b/1" || first.Next == "" {
		t.Fatalf("got %+v", first)
	}
	if rest := want[taskInList[engine.SessionResource]](r, 200, get(s+"/resources?limit=2&cursor="+first.Next)); len(rest.Items) != 1 || rest.Items[0].ID != "c" {
		t.Errorf("got %+v", rest)
	}
	seen := r.do(get(paths[0])).header.Get("ETag")
	agent := r.let(`{"name":"agent","agent":true,"scopes":["read","write"]}`).Secret
	release := ask{method: "DELETE", path: paths[0], header: map[string]string{"If-Match": seen}}
	r.refusal(r.do(release.as(agent)), 403, "forbidden")
	got := r.do(release)
	if tag := r.do(get(paths[0])).header.Get("ETag"); got.status != 200 || tag == seen || got.header.Get("ETag") != tag {
		t.Errorf("got %d %s with the ETag %s, then %s", got.status, got.body, got.header.Get("ETag"), tag)
	}
	r.refusal(r.do(release), 412, "precondition_failed")
	if left := want[taskInList[engine.SessionResource]](r, 200, get(s+"/resources?status=active&kind=sandbox")); len(left.Items) != 2 {
		t.Errorf("got %+v", left)
	}
	if none := want[taskInList[engine.SessionResource]](r, 200, get(s+"/resources?kind=browser")); len(none.Items) != 0 {
		t.Errorf("got %+v", none)
	}
	r.refusal(r.do(get(s+"/resources?status=gone")), 400, "invalid")
}
