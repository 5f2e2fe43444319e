//go:build soak

package app

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/internal/soak"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
)

// twice is one request of the test, and its first response.
type twice struct {
	n                  int
	method, path, body string
	deaf               bool // the server dies after the effect, before it stores the response
	code               int
	answer             []byte
	location           string
}

// forgetful is the keys of a server that dies before it stores some responses.
type forgetful struct{ *keys }

// End drops the responses of the keys that say so.
func (f forgetful) End(ctx context.Context, r api.Request) error {
	if strings.HasSuffix(r.Key, "-deaf") {
		return perdure.Unavailable
	}
	return f.keys.End(ctx, r)
}

// lives are successive servers on one data directory.
type lives struct {
	t     *testing.T
	dir   string
	vault *secret.Keyring
	ran   *atomic.Int64 // executions of the tool
	api   *api.API
	eng   *local.Engine
	end   func()
}

// begin opens the store and starts an engine and the API on it.
func (l *lives) begin() {
	l.t.Helper()
	st, err := sqlite.Open(l.t.Context(), sqlite.Config{Dir: l.dir})
	if err != nil {
		l.t.Fatal(err)
	}
	m, err := scripted.Parse("twice", []byte("steps: [{text: hello, repeat: true}]"))
	if err != nil {
		l.t.Fatal(err)
	}
	count := tool.New(tool.Spec{Name: "count", Description: "A fixture.", Class: perdure.AtMostOnce},
		func(context.Context, struct{}, tool.Env) (struct{}, error) {
			l.ran.Add(1)
			return struct{}{}, nil
		})
	rules := perdure.DefaultScheduleRules()
	rules.PerOrg = 1 << 20
	l.eng, err = local.Open(l.t.Context(), local.Config{
		Store: st, Model: m, Tools: tool.NewRegistry(count),
		Storage:     local.Storage{Secrets: local.Secrets{Keys: l.vault}},
		Limits:      local.Limits{DetachedPerSession: -1, SlotsPerSession: -1, QueueLength: 1 << 20},
		Timekeeping: local.Timekeeping{Schedules: rules},
	})
	if err != nil {
		l.t.Fatal(err)
	}
	if l.api, err = api.New(api.Config{Engine: l.eng, Local: true, Keys: forgetful{keysOver(st)}}); err != nil {
		l.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(l.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- l.eng.Run(ctx) }()
	l.end = func() {
		stop()
		if err := <-ended; err != nil {
			l.t.Error(err)
		}
		if err := st.Close(); err != nil {
			l.t.Error(err)
		}
	}
}

// send sends a request with its key.
func (l *lives) send(q *twice, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(q.method, q.path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	key := "request-" + strconv.Itoa(q.n)
	if q.deaf {
		key += "-deaf"
	}
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	l.api.ServeHTTP(w, r)
	return w
}

// kinds are the requests of the test for an existing session: each has its own number.
var kinds = []func(session string, n int) twice{
	func(_ string, n int) twice {
		return twice{method: http.MethodPost, path: "/v1/sessions", body: fmt.Sprintf(`{"agent":{"name":"a%d"}}`, n)}
	},
	func(s string, n int) twice {
		return twice{method: http.MethodPost, path: s + "/messages", body: fmt.Sprintf(`{"content":[{"type":"text","text":"hi %d"}]}`, n)}
	},
	func(s string, n int) twice {
		return twice{method: http.MethodPut, path: fmt.Sprintf("%s/values/k%d", s, n), body: fmt.Sprintf(`{"value":"%d"}`, n)}
	},
	func(s string, n int) twice {
		return twice{method: http.MethodPut, path: fmt.Sprintf("%s/files/f%d", s, n), body: fmt.Sprintf(`{"n":%d}`, n)}
	},
	func(s string, n int) twice {
		return twice{method: http.MethodPost, path: s + "/calls", body: `{"tool":"count","args":{}}`}
	},
	func(s string, n int) twice {
		return twice{method: http.MethodPatch, path: s, body: fmt.Sprintf(`{"title":"%d"}`, n)}
	},
	func(s string, n int) twice {
		return twice{method: http.MethodPost, path: s + "/fork", body: fmt.Sprintf(`{"title":"%d"}`, n)}
	},
	func(s string, n int) twice {
		return twice{method: http.MethodPost, path: "/v1/schedules", body: fmt.Sprintf(`{"session_id":"%s","scheduled_at":"2124-01-01T00:00:00Z","title":"%d","action":{"message":"m"}}`, strings.TrimPrefix(s, "/v1/sessions/"), n)}
	},
}

// same fails the test unless a response equals the first one.
func (q *twice) same(t *testing.T, w *httptest.ResponseRecorder, when string) {
	t.Helper()
	replayed := w.Header().Get("Idempotency-Replayed") == "true"
	switch {
	case w.Code != q.code, w.Header().Get("Location") != q.location, replayed == q.deaf:
		t.Errorf("request %d %s %s, %s: got %d %s, want %d %s", q.n, q.method, q.path, when, w.Code, w.Body, q.code, q.answer)
	case !q.deaf && !bytes.Equal(w.Body.Bytes(), q.answer):
		t.Errorf("request %d %s %s, %s: got %s, want %s", q.n, q.method, q.path, when, w.Body, q.answer)
	}
}

// TestR15Duplicates repeats each of many requests: concurrently, right after, and after a restart
// of the server; for some of them the server died before it stored its response. Each has one
// effect and one response. R15_REQUESTS is the number of requests.
func TestR15Duplicates(t *testing.T) {
	requests := soak.Count(t, "R15_REQUESTS", 160, 10_000)
	const restarts = 4
	began := time.Now()
	vault, err := secret.Create(filepath.Join(t.TempDir(), "keys"))
	if err != nil {
		t.Fatal(err)
	}
	l := &lives{t: t, dir: t.TempDir(), vault: vault, ran: &atomic.Int64{}}
	l.begin()
	bases := make([]string, 0, requests/40+1) // a session can have five schedules
	for range cap(bases) {
		s, err := l.eng.Sessions().Create(t.Context(), perdure.Agent{})
		if err != nil {
			t.Fatal(err)
		}
		bases = append(bases, "/v1/sessions/"+string(s.ID))
	}
	all := make([]*twice, requests)
	for n := range all {
		q := kinds[n%len(kinds)](bases[n/40%len(bases)], n)
		q.n, q.deaf = n, n/len(kinds)%5 == 4
		all[n] = &q
	}
	var inFlight atomic.Int64
	for life := range restarts {
		news := all[requests*life/restarts : requests*(life+1)/restarts]
		l.each(news, func(q *twice) { // twice concurrently
			first := make([]*httptest.ResponseRecorder, 2)
			var group sync.WaitGroup
			for i := range first {
				group.Go(func() { first[i] = l.send(q, q.body) })
			}
			group.Wait()
			if first[0].Code == http.StatusConflict {
				first[0], first[1] = first[1], first[0]
			}
			q.code, q.answer, q.location = first[0].Code, first[0].Body.Bytes(), first[0].Header().Get("Location")
			if q.code >= 300 {
				t.Errorf("request %d %s %s: got %d %s", q.n, q.method, q.path, q.code, q.answer)
			}
			if first[1].Code == http.StatusConflict {
				inFlight.Add(1)
			} else if first[1].Code != q.code || !q.deaf && !bytes.Equal(first[1].Body.Bytes(), q.answer) {
				t.Errorf("request %d, at once: got %d %s, want %d %s", q.n, first[1].Code, first[1].Body, q.code, q.answer)
			}
		})
		l.each(news, func(q *twice) { q.same(t, l.send(q, q.body), "right after") })
		l.end()
		l.begin()
		l.each(news, func(q *twice) {
			q.same(t, l.send(q, q.body), "after a restart")
			if w := l.send(q, strings.Replace(q.body, "{", "{ ", 1)); w.Code != http.StatusUnprocessableEntity {
				t.Errorf("request %d, another body: got %d %s", q.n, w.Code, w.Body)
			}
		})
	}
	effects := l.effects(bases)
	if effects != requests {
		t.Errorf("%d requests had %d effects", requests, effects)
	}
	l.end()
	t.Logf("security: R15: %d requests of %d kinds, each sent twice at once, again, after one of %d restarts, and with another body: %d effects, %d answers of 409 while in flight, every other the first one; %s",
		requests, len(kinds), restarts, effects, inFlight.Load(), time.Since(began).Round(time.Millisecond))
}

// each runs do for all requests, several at a time.
func (l *lives) each(all []*twice, do func(*twice)) {
	next := make(chan *twice)
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for q := range next {
				do(q)
			}
		})
	}
	for _, q := range all {
		next <- q
	}
	close(next)
	group.Wait()
}

// effects counts what the requests created: sessions in addition to those of the test, messages,
// writes of values and files, executions of calls, titles, and schedules.
func (l *lives) effects(bases []string) (n int) {
	l.t.Helper()
	ctx := l.t.Context()
	check := func(err error) {
		if err != nil {
			l.t.Fatal(err)
		}
	}
	sessions, err := l.eng.Sessions().List(ctx, 0)
	check(err)
	n += len(sessions) - len(bases)
	schedules, err := l.eng.Schedules().List(ctx, "")
	check(err)
	n += len(schedules)
	calls := 0
	for _, base := range bases {
		id := perdure.SessionID(strings.TrimPrefix(base, "/v1/sessions/"))
		check(l.eng.Sessions().WaitIdle(ctx, id))
		events, err := l.eng.Events(ctx, id, 0, 0)
		check(err)
		for _, e := range events {
			switch e.Fact.(type) {
			case perdure.MessageReceived, perdure.SessionUpdated:
				n++
			case perdure.FileWritten:
				if e.Actor == "user" { // others are the records of tasks
					n++
				}
			}
		}
		values, err := l.eng.Values().List(ctx, id, "")
		check(err)
		for _, v := range values {
			n += int(v.Version) // each write is a version
		}
		ledger, err := l.eng.Calls().List(ctx, id)
		check(err)
		calls += len(ledger)
	}
	if ran := int(l.ran.Load()); ran != calls {
		l.t.Errorf("%d calls ran %d times", calls, ran)
	}
	return n + calls
}
