package raw

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure"
)

// TestC16SentAgain checks that a write with a lost response is sent again with the same key.
func TestC16SentAgain(t *testing.T) {
	t.Parallel()
	var keys []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if keys = append(keys, r.Header.Get("Idempotency-Key")); len(keys) < 3 {
			panic(http.ErrAbortHandler) // no response
		}
		w.WriteHeader(http.StatusCreated)
	}))
	defer server.Close()

	resp, err := Client{Base: server.URL, HTTP: server.Client()}.Do(t.Context(), Request{Method: http.MethodPost, Path: "/v1/sessions", Body: []byte("{}"), Key: "k1"})

	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated || strings.Join(keys, " ") != "k1 k1 k1" {
		t.Errorf("status %d, keys %v", resp.StatusCode, keys)
	}
}

// TestC16Ends checks that a request ends with its context when no server responds.
func TestC16Ends(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		cancel(why)
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	if _, err := (Client{Base: server.URL, HTTP: server.Client()}).Do(ctx, Request{Method: http.MethodGet, Path: "v1"}); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

// TestRequests checks that the request has exactly what was typed.
func TestRequests(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		way  Client
		r    Request
		want string
	}{
		{"a read carries no key and no actor", Client{Actor: "operator"}, Request{Method: "GET", Path: "v1/x", Key: "k"}, "GET /v1/x   application/json, */*;q=0.5"},
		{"a write carries both", Client{Actor: "operator"}, Request{Method: "POST", Path: "/v1/x?a=1", Query: url.Values{"b": {"2 3"}}, Key: "k", Body: []byte("{}")}, "POST /v1/x?a=1&b=2+3 k operator application/json, */*;q=0.5 application/json"},
		{"a header that was typed counts", Client{}, Request{Method: "PUT", Path: "/v1/x", Key: "k", Body: []byte("a"), Header: http.Header{"Content-Type": {"text/plain"}, "Idempotency-Key": {"mine"}}}, "PUT /v1/x mine  application/json, */*;q=0.5 text/plain"},
		{"but for the token", Client{Token: "t"}, Request{Method: "GET", Path: "/v1/x", Header: http.Header{"Authorization": {"Bearer other"}}}, "GET /v1/x   application/json, */*;q=0.5  Bearer t"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.way.Base = "http://server"
			req, err := test.way.newRequest(t.Context(), test.r)
			if err != nil {
				t.Fatal(err)
			}
			h := req.Header
			got := strings.TrimRight(strings.Join([]string{
				req.Method, req.URL.RequestURI(), h.Get("Idempotency-Key"), h.Get("Perdure-Actor"), h.Get("Accept"), h.Get("Content-Type"), h.Get("Authorization"),
			}, " "), " ")
			if got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}

// TestPaginate checks that every item is read once with each kind of cursor, and that an error on a
// later page is an error.
func TestPaginate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		path  string
		pages map[string]string // by the query
		want  string
	}{
		{"/v1/sessions", map[string]string{"": `{"items":[1,2],"next":"c"}`, "cursor=c": `{"items":[3]}`}, `{"items":[1,2,3]}`},
		{"/v1/tasks/t/messages", map[string]string{"": `{"items":[1],"next":"m"}`, "after=m": `{"items":[2]}`}, `{"items":[1,2]}`},
		{"/v1/sessions/s/events", map[string]string{"": `{"items":[{"seq":1},{"seq":2}],"last_seq":3}`, "after=2": `{"items":[{"seq":3}],"last_seq":3}`}, `{"items":[{"seq":1},{"seq":2},{"seq":3}]}`},
		{"/v1/none", map[string]string{"": `{"items":[]}`}, `{"items":[]}`},
		{"/v1/thing", map[string]string{"": `{"id":"x"}`}, "invalid use of --paginate: the response is not a list"},
		{"/v1/round", map[string]string{"": `{"items":[1],"next":"c"}`, "cursor=c": `{"items":[1],"next":"c"}`}, "unavailable: the list does not end: the server returned the same cursor twice"},
		{"/v1/gone", map[string]string{"": `{"items":[1],"next":"c"}`}, "no such page"},
	} {
		t.Run(test.path, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				page, ok := test.pages[r.URL.RawQuery]
				if asked.Add(1); !ok {
					w.WriteHeader(http.StatusGone)
					fmt.Fprint(w, `{"detail":"no such page","request_id":"r1"}`)
					return
				}
				fmt.Fprint(w, page)
			}))
			defer server.Close()

			got, err := Client{Base: server.URL, HTTP: server.Client()}.Pages(t.Context(), Request{Method: http.MethodGet, Path: test.path})

			if err != nil {
				got = []byte(err.Error())
			}
			if string(got) != test.want || asked.Load() > 3 {
				t.Errorf("got %s after %d requests, want %s", got, asked.Load(), test.want)
			}
			var p *Problem
			if errors.As(err, &p) && (p.Status != http.StatusGone || p.Request() != "r1") {
				t.Errorf("got %+v", p)
			}
			if err != nil && p == nil && !errors.Is(err, perdure.Invalid) && !errors.Is(err, perdure.Unavailable) {
				t.Errorf("%v is of no kind", err)
			}
		})
	}
}
