package remote_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/remote"
)

const sessionJSON = `{"id":"` + string(sessionID) + `","title":"","state":"idle","last_seq":3,"open_tasks":0,"unknown":0,` +
	`"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05Z","added_later":{"a":1}}`

// TestWritesAreTriedAgainUnderTheirKey: whatever fails on the way, the same request is sent under
// the same key until there is a response (C16); another call has another key.
func TestWritesAreTriedAgainUnderTheirKey(t *testing.T) {
	t.Parallel()
	failures := map[string]http.HandlerFunc{
		"draining":    func(w http.ResponseWriter, _ *http.Request) { problem(w, 503, "draining", "later") },
		"unavailable": func(w http.ResponseWriter, _ *http.Request) { problem(w, 503, "unavailable", "later") },
		"a proxy": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "<html>bad gateway", http.StatusBadGateway)
		},
		"in flight": func(w http.ResponseWriter, _ *http.Request) { problem(w, 409, "in_flight", "it runs") },
		"no answer": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"cut":       func(w http.ResponseWriter, _ *http.Request) { cut(w) },
	}
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var keys, bodies []string
				eng := inBubble(t, remote.Config{}, func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					keys, bodies = append(keys, r.Header.Get("Idempotency-Key")), append(bodies, string(body))
					if len(keys)%3 != 0 {
						fail(w, r)
						return
					}
					reply(w, 202, `{"message_id":"m","seq":1}`)
				})

				for range 2 {
					if _, err := eng.Send(t.Context(), sessionID, perdure.Text("a < b")); err != nil {
						t.Fatal(err)
					}
				}

				if len(keys) != 6 || keys[0] != keys[1] || keys[1] != keys[2] || keys[3] != keys[5] || keys[0] == keys[3] || len(keys[0]) < 26 {
					t.Errorf("keys %q", keys)
				}
				if bodies[0] != bodies[2] || bodies[0] == bodies[3] || !strings.Contains(bodies[0], `"a < b"`) || !strings.Contains(bodies[0], `"id":"message_`) {
					t.Errorf("bodies %q", bodies)
				}
			})
		})
	}
}

// TestReadsAreTriedAgain: reads are tried again too, without a key.
func TestReadsAreTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		eng := inBubble(t, remote.Config{}, func(w http.ResponseWriter, r *http.Request) {
			if n++; n < 5 {
				cut(w)
			}
			if r.Header.Get("Idempotency-Key") != "" || r.Method != http.MethodGet {
				t.Error("a read with a key")
			}
			reply(w, 200, sessionJSON)
		})

		got, err := eng.Sessions().Get(t.Context(), sessionID)

		if err != nil || got.LastSeq != 3 || got.Status != perdure.SessionIdle || got.ID != sessionID {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

// TestUnreachable: an unreachable server is Unavailable after Config.Retry, not before and not much
// later.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	for retry, want := range map[time.Duration]time.Duration{0: 10 * time.Second, -1: 0, time.Minute: time.Minute} {
		for name, fail := range map[string]http.HandlerFunc{
			"nobody": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			"drains": func(w http.ResponseWriter, _ *http.Request) { problem(w, 503, "draining", "the server drains") },
		} {
			t.Run(fmt.Sprint(name, " ", retry), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					tries, begun := 0, time.Now()
					eng := inBubble(t, remote.Config{Retry: retry}, func(w http.ResponseWriter, r *http.Request) {
						tries++
						fail(w, r)
					})

					_, err := eng.Send(t.Context(), sessionID, perdure.Text("x"))

					took := time.Since(begun)
					if !errors.Is(err, perdure.Unavailable) || took > want || took < want-time.Second {
						t.Errorf("after %v, want %v: %v", took, want, err)
					}
					if want > 0 && (tries < 5 || tries > 60) {
						t.Errorf("%d tries in %v", tries, took)
					}
					told := "send to " + string(sessionID) + ": unavailable: no complete response from unix:///run/perdure.sock: EOF"
					if name == "drains" {
						told = "the server drains"
					}
					if !strings.HasPrefix(err.Error(), told) {
						t.Errorf("got %q, want %q", err, told)
					}
				})
			})
		}
	}
}

// TestRetryAfter: the client waits as long as the server requests; a call that has less time than
// that ends at once.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[int]time.Duration{7: 7 * time.Second, 11: 0} {
		synctest.Test(t, func(t *testing.T) {
			begun, tries := time.Now(), 0
			eng := inBubble(t, remote.Config{}, func(w http.ResponseWriter, _ *http.Request) {
				if tries++; tries == 2 {
					reply(w, 202, "{}")
					return
				}
				w.Header().Set("Retry-After", fmt.Sprint(seconds))
				w.WriteHeader(http.StatusServiceUnavailable)
			})

			err := eng.Sessions().Interrupt(t.Context(), sessionID, "user", "")

			if took := time.Since(begun); took != want || errors.Is(err, perdure.Unavailable) != (want == 0) {
				t.Errorf("asked for %d s: %d tries in %v, %v", seconds, tries, took, err)
			}
		})
	}
}

// TestKinds: an error comes back as its kind, with the server's text.
func TestKinds(t *testing.T) {
	t.Parallel()
	kinds := []perdure.Kind{
		perdure.NotFound, perdure.Conflict, perdure.Lost, perdure.Limit, perdure.Unavailable, perdure.UnknownOutcome, perdure.Storage, perdure.Invalid,
	}
	for _, c := range []struct {
		status int
		code   string
		want   perdure.Kind
	}{
		{404, "not_found", perdure.NotFound}, {409, "conflict", perdure.Conflict}, {400, "invalid", perdure.Invalid}, {422, "key_reused", perdure.Invalid},
		{429, "limit", perdure.Limit}, {409, "lost", perdure.Lost}, {503, "unavailable", perdure.Unavailable}, {503, "draining", perdure.Unavailable},
		{409, "unknown_outcome", perdure.UnknownOutcome}, {507, "storage", perdure.Storage}, {401, "unauthorized", perdure.Invalid},
		{413, "too_large", perdure.Invalid}, {500, "internal", ""}, {404, "", perdure.NotFound}, {507, "of_later", perdure.Storage}, {501, "of_later", ""},
	} {
		t.Run(fmt.Sprint(c.status, c.code), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				eng := inBubble(t, remote.Config{Retry: -1}, func(w http.ResponseWriter, _ *http.Request) { problem(w, c.status, c.code, "what happened") })

				_, err := eng.Tasks().Get(t.Context(), taskID)

				for _, kind := range kinds {
					if errors.Is(err, kind) != (kind == c.want) {
						t.Errorf("%v is %s: %t", err, kind, errors.Is(err, kind))
					}
				}
				p := (*remote.Problem)(nil)
				if !errors.As(err, &p) || p.Status != c.status || p.Code != c.code || p.RequestID != "r1" || !strings.HasPrefix(err.Error(), "what happened") {
					t.Errorf("got %#v, %v", p, err)
				}
				if p.Kind() != c.code || p.Page() != "" {
					t.Errorf("got the code %q and the page %q of about:blank", p.Kind(), p.Page())
				}
				if strings.Contains(err.Error(), "(request r1") != (c.want == "") {
					t.Errorf("got %q: only an internal error needs the request's id", err)
				}
			})
		})
	}
}

// TestH3Page: an error of a server links its page where a browser can open it, behind a prefix too,
// and none for a socket.
func TestH3Page(t *testing.T) {
	t.Parallel()
	var kind string
	answer := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"code":"not_found","detail":"no","type":%q}`, kind)
	}
	server := httptest.NewServer(http.HandlerFunc(answer))
	defer server.Close()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	beside := httptest.NewUnstartedServer(http.HandlerFunc(answer))
	beside.Listener.Close()
	beside.Listener = listener
	beside.Start()
	defer beside.Close()
	for _, test := range []struct{ url, kind, page string }{
		{server.URL, "/docs/x#y", server.URL + "/docs/x#y"},
		{server.URL + "/below/", "/docs/x#y", server.URL + "/below/docs/x#y"},
		{server.URL, "https://example.com/x#y", "https://example.com/x#y"},
		{server.URL, "javascript:x", ""},
		{"unix://" + socket, "/docs/x#y", ""},
		{"unix://" + socket, "https://example.com/x#y", "https://example.com/x#y"},
	} {
		kind = test.kind
		eng, err := remote.New(remote.Config{URL: test.url, Retry: -1})
		if err != nil {
			t.Fatal(err)
		}
		_, err = eng.Tasks().Get(t.Context(), taskID)
		if p := (*remote.Problem)(nil); !errors.As(err, &p) || p.Page() != test.page || p.Kind() != "not_found" {
			t.Errorf("%s from %s: got %v", test.kind, test.url, err)
		}
	}
}

// TestContextEndsACall: a call ends with its context's cause, at every stage.
func TestContextEndsACall(t *testing.T) {
	t.Parallel()
	why := errors.New("enough")
	for name, handle := range map[string]http.HandlerFunc{
		"pausing": func(w http.ResponseWriter, _ *http.Request) { problem(w, 503, "draining", "later") },
		"waiting": func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); <-r.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				eng := inBubble(t, remote.Config{}, handle)
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(1500*time.Millisecond, func() { cancel(why) })
				begun := time.Now()

				_, err := eng.Tools().Call(ctx, "echo", nil)

				if !errors.Is(err, why) || time.Since(begun) != 1500*time.Millisecond {
					t.Errorf("after %v: %v", time.Since(begun), err)
				}
			})
		})
	}
}

// TestSilentServer: a request to a silent server is abandoned and retried; one that runs a tool is
// not.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		eng := inBubble(t, remote.Config{Retry: time.Second}, func(w http.ResponseWriter, r *http.Request) {
			if tries++; tries == 1 {
				_, _ = io.Copy(io.Discard, r.Body)
				<-r.Context().Done()
				return
			}
			reply(w, 202, "{}")
		})
		begun := time.Now()

		err := eng.Sessions().Interrupt(t.Context(), sessionID, "user", "")

		if took := time.Since(begun); err != nil || tries != 2 || took < 45*time.Second || took > 46*time.Second {
			t.Errorf("%d tries in %v, %v", tries, took, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		eng := inBubble(t, remote.Config{}, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if tries++; tries < 100 {
				if tries == 1 {
					<-time.After(time.Hour)
					panic(http.ErrAbortHandler) // the response is lost
				}
				problem(w, 409, "in_flight", "it still runs") // and the first attempt continues
				return
			}
			reply(w, 200, `{"tool_call_id":"call_outside","result":{"said":"a"}}`)
		})

		got, err := eng.Tools().Call(t.Context(), "slow/tool", []byte(`{"text":"a"}`))

		if err != nil || tries != 100 || string(got.Result) != `{"said":"a"}` {
			t.Errorf("%d tries: %+v, %v", tries, got, err)
		}
	})
}

// TestWhoActs: over a socket the actors that the server accepts are sent unchanged, and
// Config.Actor replaces all others; over TCP the token names the actor.
func TestWhoActs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg   remote.Config
		by    string
		want  string
		token string
	}{
		{remote.Config{}, "user", "user", ""}, {remote.Config{}, "operator", "operator", ""}, {remote.Config{}, "somebody", "user", ""}, {remote.Config{}, "", "user", ""},
		{remote.Config{Actor: "operator"}, "", "operator", ""}, {remote.Config{Actor: "operator"}, "user", "user", ""},
		{remote.Config{URL: "http://127.0.0.1:7373/", Token: "secret"}, "operator", "", "Bearer secret"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var header http.Header
			var asked string
			eng := inBubble(t, c.cfg, func(w http.ResponseWriter, r *http.Request) {
				header, asked = r.Header, r.URL.Path
				reply(w, 200, "{}")
			})

			err := eng.Calls().Resolve(t.Context(), perdure.CallKey{Session: sessionID, Call: "a/b c%?"}, engine.Resolution{Answer: perdure.ResolveHappened, By: c.by})

			if err != nil || header.Get("Perdure-Actor") != c.want || header.Get("Authorization") != c.token {
				t.Errorf("%+v: got %v, %v", c, header, err)
			}
			if want := "/v1/sessions/" + string(sessionID) + "/calls/a/b c%?/resolve"; asked != want {
				t.Errorf("got path %s, want %s", asked, want)
			}
		})
	}
}

// TestLists: a list is read to its end or up to the limit, by its cursors; a page that is too big
// in smaller ones.
func TestLists(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		eng := inBubble(t, remote.Config{}, func(w http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			asked = append(asked, q.Get("limit")+q.Get("cursor"))
			var limit, from int
			_, _ = fmt.Sscan(q.Get("limit"), &limit)
			_, _ = fmt.Sscanf(q.Get("cursor"), "c%d", &from)
			if from == 200 && limit > 30 {
				reply(w, 200, `{"items":[`+strings.Repeat(" ", 64<<10)+`]}`)
				return
			}
			var items []string
			for i := from; i < min(from+limit, 300); i++ {
				items = append(items, fmt.Sprintf(`{"id":"session_%032x"}`, i+1))
			}
			next := ""
			if from+limit < 300 {
				next = fmt.Sprintf(`,"next":"c%d"`, from+limit)
			}
			reply(w, 200, `{"items":[`+strings.Join(items, ",")+`]`+next+`}`)
		})
		eng.MaxAnswer(64 << 10)
		for limit, want := range map[int][]string{
			0:   {"200", "200c200", "100c200", "50c200", "25c200", "25c225", "25c250", "25c275"},
			1:   {"1"},
			200: {"200"},
			230: {"200", "30c200"},
		} {
			asked = nil
			got, err := eng.Sessions().List(t.Context(), limit)
			n := limit
			if n == 0 {
				n = 300
			}
			if err != nil || len(got) != n || got[n-1].ID != perdure.SessionID(fmt.Sprintf("session_%032x", n)) || !slices.Equal(asked, want) {
				t.Errorf("%d: got %d, %v; asked for %v, want %v", limit, len(got), err, asked, want)
			}
		}
	})
}
