package api_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/api"
)

// handwritten sends requests as they are written, and returns the last answer.
func (r *rig) handwritten(requests ...string) (reply, *http.Response) {
	r.t.Helper()
	conn := r.dial()
	in := bufio.NewReader(conn)
	var got reply
	var last *http.Response
	for _, text := range requests {
		if _, err := io.WriteString(conn, text); err != nil {
			r.t.Fatal(err)
		}
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			r.t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			r.t.Fatal(err)
		}
		res.Body.Close()
		got, last = reply{status: res.StatusCode, header: res.Header, body: body}, res
	}
	return got, last
}

// TestH3Early: a refusal of net/http before any handler runs is a problem document, too, even on a
// reused connection. A body that looks like such a refusal is passed on unchanged.
func TestH3Early(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	ok := "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
	for text, wants := range map[string]struct {
		status int
		code   string
	}{
		"GET /healthz HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("a", 80<<10) + "\r\n\r\n":            {431, "header_too_large"},
		"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n":                                           {400, "invalid"},
		"GET /healthz HTTP/1.1\r\n: a\r\n\r\n":                                                          {400, "invalid"},
		"POST /v1/sessions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n":                      {501, "not_implemented"},
		"POST /v1/sessions HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\nContent-Length: 1\r\n\r\n":          {417, "invalid"},
		"POST /v1/sessions HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n\r\n\r": {400, "invalid"},
	} {
		for _, before := range [][]string{nil, {ok}} {
			got, res := r.handwritten(append(before, text)...)
			if r.refusal(got, wants.status, wants.code); !res.Close {
				t.Errorf("%.40q: the connection stays open", text)
			}
		}
	}

	s := r.session()
	lookalike := "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request"
	content := strings.Repeat(lookalike, 10_000)
	r.do(given(put(s+"/files/a", content), "Content-Type", "text/plain"))
	if got := r.do(get(s + "/files/a")); string(got.body) != content {
		t.Error("a body was changed")
	}
}

// TestH3TurnedAway: a connection beyond the limit gets a problem document.
func TestH3TurnedAway(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, ended := &http.Server{Handler: http.NotFoundHandler()}, make(chan struct{})
	go func() { _ = server.Serve(api.LimitConns(inner, 0)); close(ended) }() // it ends with ErrServerClosed
	defer func() { server.Close(); <-ended }()
	conn, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	res, err := http.ReadResponse(bufio.NewReader(conn), nil)

	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if p := read[problem](t, body); err != nil || res.Header.Get("Content-Type") != "application/problem+json" || res.Header.Get("Retry-After") == "" ||
		p.Code != "overloaded" || p.Status != 503 || !p.Retryable || p.RequestID == "" || p.RequestID != res.Header.Get("X-Request-Id") {
		t.Errorf("got %v %s, %v", res.Header, body, err)
	}
}

// TestH3NoPage: a page that there is not is a problem for a program.
func TestH3NoPage(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for _, accept := range []string{"application/json", "application/problem+json", "application/json, text/html;q=0.5"} {
		r.refusal(r.do(given(get("/docs/nope"), "Accept", accept)), 404, "not_found")
	}
	if got := r.do(given(get("/docs/nope"), "Accept", "text/html,*/*;q=0.8")); got.status != 404 || !strings.HasPrefix(got.header.Get("Content-Type"), "text/html") {
		t.Errorf("a browser got %d %v", got.status, got.header)
	}
}
