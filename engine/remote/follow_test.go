package remote_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/remote"
)

// errEnough ends a follower.
var errEnough = errors.New("enough")

// collect follows until it has seen an event with a seq.
func collect(ctx context.Context, eng *remote.Engine, after, until int64) (seen []string, err error) {
	err = eng.Follow(ctx, sessionID, after, func(f engine.Frame) error {
		if f.Event == nil {
			seen = append(seen, fmt.Sprintf("%s %s", f.Type, f.Data))
			return nil
		}
		seen = append(seen, fmt.Sprint(f.Event.Seq))
		if f.Event.Seq == until {
			return errEnough
		}
		return nil
	})
	return seen, err
}

// TestFollowGoesOn: a follower receives every event once and in order, however its streams end, and
// sends its position at each connection.
func TestFollowGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		eng := inBubble(t, remote.Config{}, func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.URL.Query().Get("after")+" "+r.Header.Get("Last-Event-ID"))
			switch len(asked) {
			case 1: // a cut in the middle of a frame
				stream(w, eventFrame(t, 3)+eventFrame(t, 4)+eventFrame(t, 5)[:40])
			case 2: // twice, then one that is left out
				stream(w, eventFrame(t, 3)+eventFrame(t, 4)+eventFrame(t, 5)+eventFrame(t, 7))
			case 3: // for display only; invalid JSON is skipped
				stream(w, "event: output.message.delta\ndata: {\"text\":\"a\"}\n\nevent: tool.progress\ndata: {\n\n"+eventFrame(t, 6)+"event: slow\ndata: {}\n\n"+eventFrame(t, 9))
			case 4:
				problem(w, 503, "draining", "later")
			case 5:
				stream(w, "event: snapshot\nid: 6\ndata: {}\n\n"+eventFrame(t, 7)+"event: end\n\n")
			case 6:
				w.WriteHeader(http.StatusNoContent)
			case 7: // alive for hours, then it goes silent
				stream(w, "")
				for range 1000 {
					<-time.After(15 * time.Second)
					_, _ = w.Write([]byte(": ping\n\n"))
					_ = http.NewResponseController(w).Flush()
				}
				<-r.Context().Done()
			default:
				stream(w, eventFrame(t, 8))
			}
		})
		begun := time.Now()

		seen, err := collect(t.Context(), eng, 2, 8)

		want := []string{"3", "4", "5", `output.message.delta {"text":"a"}`, "6", "7", "8"}
		if !errors.Is(err, errEnough) || !slices.Equal(seen, want) {
			t.Errorf("got %q, %v", seen, err)
		}
		if want := []string{"2 ", "2 4", "2 5", "2 6", "2 6", "2 7", "2 7", "2 7"}; !slices.Equal(asked, want) {
			t.Errorf("asked for %q, want %q", asked, want)
		}
		if took := time.Since(begun) - 15_000*time.Second; took < 45*time.Second || took > 60*time.Second {
			t.Errorf("a silent stream was given up %v after its last ping", took)
		}
	})
}

// TestFollowOutlivesItsServer: a follower that has reached its server waits for it for
// Config.Outage; one that has not, for Config.Retry.
func TestFollowOutlivesItsServer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg  remote.Config
		met  bool
		back time.Duration // when the server comes back
		want time.Duration // when the follower gives up; 0: it does not
	}{
		{remote.Config{}, true, 4 * time.Minute, 0}, {remote.Config{}, true, time.Hour, 5 * time.Minute},
		{remote.Config{Outage: -1}, true, 20 * time.Minute, 0}, {remote.Config{Outage: time.Minute}, true, time.Hour, time.Minute},
		{remote.Config{}, false, time.Minute, 10 * time.Second}, {remote.Config{}, false, 8 * time.Second, 0},
		{remote.Config{Outage: -1}, false, time.Hour, 10 * time.Second},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begun, tries := time.Now(), 0
				eng := inBubble(t, c.cfg, func(w http.ResponseWriter, _ *http.Request) {
					tries++
					switch {
					case tries == 1 && c.met:
						stream(w, eventFrame(t, 1))
						panic(http.ErrAbortHandler)
					case time.Since(begun) < c.back:
						panic(http.ErrAbortHandler)
					}
					stream(w, eventFrame(t, 2))
				})

				after := int64(1)
				if c.met {
					after = 0
				}
				_, err := collect(t.Context(), eng, after, 2)

				took := time.Since(begun)
				if c.want == 0 && !errors.Is(err, errEnough) {
					t.Errorf("after %v: %v", took, err)
				}
				if c.want > 0 && (!errors.Is(err, perdure.Unavailable) || took < c.want-time.Second || took > c.want+time.Second) {
					t.Errorf("gave up after %v, want %v: %v", took, c.want, err)
				}
				if most := 10 + int(took/time.Second); tries > most {
					t.Errorf("%d tries in %v: too eager", tries, took)
				}
			})
		})
	}
}

// TestFollowEnds: the error that ends a follower is returned unchanged.
func TestFollowEnds(t *testing.T) {
	t.Parallel()
	why := errors.New("no more")
	later := strings.Replace(eventFrame(t, 1), `"v":1`, `"v":2`, 1)
	wrong := strings.Replace(eventFrame(t, 1), "id: 1", "id: 2", 1)
	for name, c := range map[string]struct {
		handle http.HandlerFunc
		want   error
		text   string
	}{
		"unknown session":  {func(w http.ResponseWriter, _ *http.Request) { problem(w, 404, "not_found", "no such session") }, perdure.NotFound, "no such session"},
		"past the end":     {func(w http.ResponseWriter, _ *http.Request) { problem(w, 400, "invalid", "after the end") }, perdure.Invalid, "after the end"},
		"a later version":  {func(w http.ResponseWriter, _ *http.Request) { stream(w, later) }, perdure.Invalid, "encoding version is 2"},
		"another position": {func(w http.ResponseWriter, _ *http.Request) { stream(w, wrong) }, nil, `sent event 1 with the id "2"`},
		"a lasting gap":    {func(w http.ResponseWriter, _ *http.Request) { stream(w, eventFrame(t, 5)) }, nil, "skipped the events between 0 and 5"},
		"a cut journal":    {func(w http.ResponseWriter, _ *http.Request) { stream(w, "event: reset\ndata: {}\n\n") }, perdure.NotFound, "no longer available"},
		"no stream":        {func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, "{}") }, nil, `"application/json"`},
		"its context":      {func(w http.ResponseWriter, r *http.Request) { stream(w, ""); <-r.Context().Done() }, why, "no more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(20*time.Second, func() { cancel(why) })
				eng := inBubble(t, remote.Config{}, c.handle)

				seen, err := collect(ctx, eng, 0, 9)

				if len(seen) > 0 || err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
					t.Errorf("saw %q, got %v, want %q", seen, err, c.text)
				}
			})
		})
	}
}

// TestEventsByPages: events come in pages of 200; a page that no strict decoder accepts comes as a
// stream.
func TestEventsByPages(t *testing.T) {
	t.Parallel()
	twice := strings.Replace(eventJSON(t, 201), `"text":"message 201"`, `"text":"message 201","text":"again"`, 1)
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		eng := inBubble(t, remote.Config{}, func(w http.ResponseWriter, r *http.Request) {
			var after, limit int64
			_, _ = fmt.Sscan(r.URL.Query().Get("after"), &after)
			_, _ = fmt.Sscan(r.URL.Query().Get("limit"), &limit)
			if !strings.HasSuffix(r.URL.Path, "/events") {
				reply(w, 200, strings.Replace(sessionJSON, `"last_seq":3`, `"last_seq":410`, 1))
				return
			}
			asked = append(asked, fmt.Sprint(after, "+", limit))
			var items []string
			for seq := after + 1; seq <= min(after+limit, 410); seq++ {
				items = append(items, eventJSON(t, seq))
				if seq == 201 {
					items[len(items)-1] = twice
				}
			}
			if r.Header.Get("Accept") == "text/event-stream" {
				stream(w, "id: 201\nevent: message.received\ndata: "+twice+"\n\n")
				for seq := after + 2; seq <= 410; seq++ {
					stream(w, eventFrame(t, seq))
				}
				<-r.Context().Done()
				return
			}
			reply(w, 200, `{"items":[`+strings.Join(items, ",")+`],"last_seq":410}`)
		})

		for limit, want := range map[int][]string{0: {"0+200", "200+200", "200+0", "400+200"}, 1: {"0+1"}, 200: {"0+200"}, 205: {"0+200", "200+5", "200+0"}} {
			asked = nil
			got, err := eng.Events(t.Context(), sessionID, 0, limit)
			n := limit
			if n == 0 {
				n = 410
			}
			if err != nil || len(got) != n || !slices.Equal(asked, want) {
				t.Errorf("%d: got %d, %v; asked for %v, want %v", limit, len(got), err, asked, want)
			}
			for i, e := range got {
				if e.Seq != int64(i+1) {
					t.Fatalf("%d: event %d at index %d", limit, e.Seq, i)
				}
			}
		}
	})
}

// TestWaits: a wait consists of long polls. It continues while the server is away, and does not
// spin when a server responds at once.
func TestWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun, polls := time.Now(), 0
		eng := inBubble(t, remote.Config{}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("wait") != "30s" {
				t.Errorf("asked for %s", r.URL)
			}
			polls++
			idle, now := "false", time.Since(begun)
			switch {
			case polls == 1:
				<-time.After(30 * time.Second)
			case now < 3*time.Minute:
				panic(http.ErrAbortHandler)
			case now < 6*time.Minute: // it does not wait
			default:
				idle = "true"
			}
			w.Header().Set("Perdure-Idle", idle)
			reply(w, 200, sessionJSON)
		})

		err := eng.Sessions().WaitIdle(t.Context(), sessionID)

		if took := time.Since(begun); err != nil || took < 6*time.Minute || took > 6*time.Minute+2*time.Second || polls > 400 {
			t.Errorf("%d polls in %v, %v", polls, took, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		states := []string{"queued", "running", "awaiting_input"}
		eng := inBubble(t, remote.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			reply(w, 200, `{"id":"`+string(taskID)+`","state":"`+states[0]+`"}`)
			states = states[1:]
		})

		task, err := eng.Tasks().Wait(t.Context(), taskID)

		if err != nil || task.State != perdure.TaskAwaitingInput || task.ID != taskID || len(states) > 0 {
			t.Errorf("got %+v, %v", task, err)
		}
	})
}
