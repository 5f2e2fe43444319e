package api_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/api"
)

// TestS7 sends JSON that two readers could read differently.
func TestS7(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for name, body := range map[string]string{
		"depth":           `{"agent":{"metadata":` + strings.Repeat(`{"a":`, 100_000) + `1` + strings.Repeat(`}`, 100_000) + `}}`,
		"duplicate":       `{"agent":{},"agent":{}}`,
		"inner duplicate": `{"agent":{"name":"a","name":"b"}}`,
		"case variant":    `{"Agent":{}}`,
		"inner case":      `{"agent":{"Name":"a"}}`,
		"unknown":         `{"agent":{},"admin":true}`,
		"trailing":        `{"agent":{}} {}`,
		"cut off":         `{"agent":{`,
		"huge number":     `{"agent":{"max_iterations":1e400}}`,
		"fraction":        `{"agent":{"max_iterations":1.5}}`,
		"surrogate":       `{"agent":{"name":"\ud800"}}`,
		"no UTF-8":        "{\"agent\":{\"name\":\"\xff\"}}",
		"byte order mark": "\ufeff{\"agent\":{}}",
		"no object":       `[]`,
		"white space":     " ",
		"another type":    `{"agent":"a"}`,
	} {
		began := time.Now()
		r.refusal(r.do(post("/v1/sessions", body)), 400, "invalid")
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%s took %s", name, took)
		}
	}
	if n := len(want[taskInList[engine.Session]](r, 200, get("/v1/sessions")).Items); n != 0 {
		t.Errorf("%d sessions came of it", n)
	}
}

// TestS6Bodies sends bodies that are too large, too slow, or no plain JSON.
func TestS6Bodies(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *api.Config) { c.Timing.Read = 10 * time.Second })
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	fmt.Fprint(z, `{"agent":{}}`)
	z.Close()
	with := func(body string, header map[string]string) ask {
		return ask{method: "POST", path: "/v1/sessions", body: body, header: header}
	}

	big := `{"agent":{"instructions":"` + strings.Repeat("a", 4<<20) + `"}}`
	r.refusal(r.do(post("/v1/sessions", big)), 413, "too_large")
	s := r.session()
	picture := `{"content":[{"type":"image","image":{"media_type":"image/png","base64":"` + strings.Repeat("AAAA", 2<<20) + `"}}]}`
	want[map[string]any](r, 202, post(s+"/messages", picture)) // 8 MiB: a message may hold images
	r.refusal(r.do(post(s+"/messages", strings.Repeat(" ", 28<<20+1))), 413, "too_large")
	r.refusal(r.do(with(zipped.String(), map[string]string{"Content-Encoding": "gzip"})), 415, "unsupported_media_type")
	for _, kind := range []string{"", "text/plain", "application/json; charset=latin1", "application/x-www-form-urlencoded", "application/jsonp", "?"} {
		r.refusal(r.do(with(`{"agent":{}}`, map[string]string{"Content-Type": kind})), 415, "unsupported_media_type")
	}
	want[engine.Session](r, 201, with(`{"agent":{}}`, map[string]string{"Content-Type": "application/json; charset=UTF-8"}))
	r.refusal(r.do(get("/v1/sessions?cursor="+strings.Repeat("a", 9000))), 414, "uri_too_long")

	slow := r.dial()
	fmt.Fprintf(slow, "POST /v1/sessions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", token)
	res, err := http.ReadResponse(bufio.NewReader(slow), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 408 || read[problem](t, body).Code != "request_timeout" || !res.Close {
		t.Errorf("got %d %s %v", res.StatusCode, body, err)
	}
}

// TestS6Endless sends a body without an end: it is not read beyond the limit.
func TestS6Endless(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	req := r.request(t.Context(), post("/v1/sessions", "x"))
	zeros := &endless{}
	req.Body, req.ContentLength = io.NopCloser(zeros), -1
	res, err := r.server.Client().Do(req)
	if err == nil {
		defer res.Body.Close()
		if res.StatusCode != 413 {
			t.Errorf("got %d", res.StatusCode)
		}
	}
	if n := zeros.sent.Load(); n > 64<<20 {
		t.Errorf("the server took %d bytes", n)
	}
	want[engine.Session](r, 201, post("/v1/sessions", `{"agent":{}}`))
}

type endless struct{ sent atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.sent.Add(int64(len(p)))
	return len(p), nil
}

// TestS6Headers sends an excessive number of headers.
func TestS6Headers(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for n, wants := range map[int]string{100_000: "431", 201: "431", 150: "200"} {
		c := r.dial()
		go func() {
			fmt.Fprintf(c, "GET /v1/tools HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer %s\r\n%s\r\n", token, strings.Repeat("A: b\r\n", n))
		}()
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "HTTP/1.1 "+wants) {
			t.Errorf("%d headers: got %q %v, want %s", n, line, err, wants)
		}
		c.Close()
	}
	want[taskInList[engine.Tool]](r, 200, get("/v1/tools"))
}

// TestH3Router: what the router refuses is a problem too.
func TestH3Router(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for _, path := range []string{"/v1", "/v1/session", "/v1/sessions/", "//v1/tools", "/v1/../v1/tools", "/v1/tools/a/b/c"} {
		r.refusal(r.do(get(path)), 404, "not_found")
	}
	for _, method := range []string{"PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "NOPE"} {
		got := r.do(ask{method: method, path: "/v1/sessions"})
		if r.refusal(got, 405, "method_not_allowed"); got.header.Get("Allow") != "GET, HEAD, POST" {
			t.Errorf("got %v", got.header)
		}
	}
	r.refusal(r.do(ask{method: "POST", path: "/v1/tools"}), 405, "method_not_allowed")
	for _, path := range []string{"/v1/tools", "/healthz", r.session() + "/events"} {
		q := get(path)
		if q.header = map[string]string{"Accept": "text/html"}; true {
			r.refusal(r.do(q), 406, "not_acceptable")
		}
	}
	for _, accept := range []string{"*/*", "application/*", "text/html, application/json;q=0.1", ""} {
		q := get("/v1/tools")
		if q.header = map[string]string{"Accept": accept}; r.do(q).header.Get("Content-Type") != "application/json" {
			t.Errorf("%q: got %v", accept, r.do(q).header)
		}
	}
	if got := r.do(ask{method: "HEAD", path: "/v1/tools"}); got.status != 200 || len(got.body) != 0 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	stream := map[string]string{"Accept": "text/event-stream"}
	if got := r.do(ask{method: "HEAD", path: r.session() + "/events", header: stream}); got.status != 200 {
		t.Errorf("got %d", got.status)
	}
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for id, echoed := range map[string]bool{
		"abc-DEF_1.2": true, strings.Repeat("a", 64): true, strings.Repeat("a", 65): false, "a b": false, "a\"b": false, "ä": false, "": false, "a/b.c": false,
	} {
		for _, path := range []string{"/v1/tools", "/none"} {
			q := get(path)
			q.header = map[string]string{"X-Request-Id": id}
			if got := r.do(q).header.Get("X-Request-Id"); (got == id) != echoed || len(got) < 8 {
				t.Errorf("%q: got %q", id, got)
			}
		}
	}
}

// FuzzBody sends bodies through a real handler: whatever comes, the answer is a session or a whole
// problem, and a session is only made of what the strict decoder takes.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{`{"agent":{}}`, `{"agent":{"name":"a","metadata":{"a":"b"}}}`, `{"agent":{},"agent":{}}`, `{"Agent":{}}`, `{`, `[]`, `null`,
		`{"agent":null}`, `{"agent":{},"id":"session_00"}`, "\xff", `{"agent":{"tools":["a",7]}}`, `{"agent":{"max_iterations":1e9}}`} {
		f.Add([]byte(seed))
	}
	a, eng := fuzzed(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		before := eng.made
		got := serve(t, a, post("/v1/sessions", string(body)))
		var probe struct {
			Agent *perdure.Agent    `json:"agent"`
			ID    perdure.SessionID `json:"id"`
		}
		taken := len(body) > 0 && perdure.DecodeJSON(body, &probe) == nil && probe.Agent != nil
		if taken != (got.status == 201) || taken != (eng.made == before+1) {
			t.Fatalf("got %d %s, %d sessions", got.status, got.body, eng.made-before)
		}
		if !taken && (got.status != 400 || read[problem](t, got.body).Code != "invalid") {
			t.Fatalf("got %d %s", got.status, got.body)
		}
	})
}

// FuzzCursor sends cursors that no response contained.
func FuzzCursor(f *testing.F) {
	for _, seed := range []string{"AAAA", "a", "%00", strings.Repeat("A", 100), "-_-_", "AAAAAAAAAAAAAAAAAAAAAAB7", "\n"} {
		f.Add(seed)
	}
	a, _ := fuzzed(f)
	f.Fuzz(func(t *testing.T, cursor string) {
		for _, path := range []string{"/v1/sessions", "/v1/tasks", "/v1/sessions/session_1/messages"} {
			got := serve(t, a, get(path+"?cursor="+escape(cursor)))
			if ok := got.status == 200 && cursor == ""; !ok && (got.status != 400 && got.status != 414 || !strings.Contains(string(got.body), `"code":"`)) {
				t.Fatalf("%s %q: got %d %s", path, cursor, got.status, got.body)
			}
		}
	})
}

// TestS7Everywhere sends what two readers could read differently to every operation of the document
// that takes JSON, and bodies of other types and forms to each that takes any: all are refused, and
// none changes anything.
func TestS7Everywhere(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s, _ := r.document()
	session := r.filed("/a")
	before := r.count()
	tested := 0
	s.each(func(method, path string, op operation) {
		if op.RequestBody == nil {
			return
		}
		q := ask{method: strings.ToUpper(method), path: strings.NewReplacer("/v1/sessions/{id}", session, "{path}", "x", "{scope}", "agent", "{subject}", "x").Replace(path)}
		with := func(body, kind string) ask {
			q := q
			q.body = body
			return given(q, "Content-Type", kind)
		}
		media, isJSON := op.RequestBody.Content["application/json"]
		if !isJSON {
			r.refusal(r.do(given(with("x", "text/plain"), "Content-Encoding", "gzip")), 415, "unsupported_media_type")
			r.refusal(r.do(with("x", "")), 415, "unsupported_media_type")
			return
		}
		tested++
		example := strings.TrimSpace(string(media.Example))
		if example == "" {
			example = "{}"
		}
		inner := strings.TrimSuffix(strings.TrimPrefix(example, "{"), "}")
		comma := ","
		if strings.TrimSpace(inner) == "" {
			comma = ""
		}
		for name, body := range map[string]string{
			"unknown":     "{" + inner + comma + `"no_such_field_of_anything":1}`,
			"duplicate":   "{" + inner + comma + `"a":1,"a":2}`,
			"trailing":    example + " {}",
			"cut off":     strings.TrimSuffix(example, "}"),
			"depth":       strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000),
			"huge number": "{" + inner + comma + `"a":1e999}`,
			"no object":   "[]", "a string": `"a"`, "a number": "1", "white space": " ", "no UTF-8": "{\"\xff\":1}", "surrogate": `{"\ud800":1}`,
			"byte order mark": "\ufeff" + example,
		} {
			if got := r.do(with(body, "application/json")); got.status != 400 {
				t.Errorf("%s, %s: got %d %s", op.ID, name, got.status, got.body)
			} else {
				r.refusal(got, 400, "invalid")
			}
		}
		for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=a", "application/json; charset=utf-16"} {
			r.refusal(r.do(with(example, kind)), 415, "unsupported_media_type")
		}
		r.refusal(r.do(given(with(example, "application/json"), "Content-Encoding", "gzip")), 415, "unsupported_media_type")
	})
	if after := r.count(); after != before || tested < 30 {
		t.Errorf("%d operations; before %s, after %s", tested, before, after)
	}
}
