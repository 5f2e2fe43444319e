package supervise_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/supervise"
)

// bomb is a command that takes what it can (S12). It is small: were it not contained, this machine
// would survive it.
type bomb struct {
	name   string
	limits supervise.Limits
	script string
	// contained looks at what it did.
	contained func(o *outside, out string, e supervise.Exit) bool
	within    time.Duration
}

const mebibyte = 1 << 20

func bombs() []bomb {
	limited := func(word string) func(*outside, string, supervise.Exit) bool {
		return func(_ *outside, _ string, e supervise.Exit) bool {
			return strings.Contains(e.Limit, word) && e.Code == 137
		}
	}
	return []bomb{
		{
			name: "forks", limits: supervise.Limits{Processes: 40}, within: 40 * time.Second,
			script: `f() { [ $1 -gt 7 ] && exec sleep 60; f $(($1+1)) & f $(($1+1)) & wait; }; f 0`,
			contained: func(o *outside, out string, e supervise.Exit) bool {
				// Who is not root is refused by the kernel first, and a shell then tries for a
				// while.
				return limited("processes, the limit is 40")(o, out, e) || e.Code != 0 && strings.Contains(out, "Resource temporarily unavailable")
			},
		},
		{
			name: "memory of one process", limits: supervise.Limits{MemoryBytes: 200 * mebibyte}, within: 20 * time.Second,
			script: `x=$(head -c 600M /dev/zero | tr '\0' a); echo survived ${#x}`,
			contained: func(_ *outside, out string, e supervise.Exit) bool {
				return e.Code != 0 || !strings.Contains(out, "survived 62")
			},
		},
		{
			name: "memory of all together", limits: supervise.Limits{MemoryBytes: 400 * mebibyte}, within: 20 * time.Second,
			script:    `for i in 1 2 3 4 5 6 7 8; do (x=$(head -c 80M /dev/zero | tr '\0' a); sleep 60) & done; wait`,
			contained: limited("bytes in memory"),
		},
		{
			name: "descriptors", limits: supervise.Limits{OpenFiles: 50}, within: 10 * time.Second,
			script: `for ((i = 3; i < 300; i++)); do eval "exec $i< /dev/null" || exit 9; echo open; done`,
			contained: func(_ *outside, out string, e supervise.Exit) bool {
				return strings.Count(out, "open\n") < 50 && e.Code != 0
			},
		},
		{
			name: "one large file", limits: supervise.Limits{FileBytes: mebibyte}, within: 10 * time.Second,
			script: `head -c 20M /dev/zero > big`,
			contained: func(o *outside, _ string, e supervise.Exit) bool {
				st, err := os.Stat(filepath.Join(o.workspace, "big"))
				return err == nil && st.Size() <= mebibyte && e.Code != 0
			},
		},
		{
			name: "many files", limits: supervise.Limits{DiskBytes: 4 * mebibyte}, within: 20 * time.Second,
			script:    `for ((i = 0; i < 60; i++)); do head -c 1M /dev/zero > f$i; sleep 0.1; done; sleep 60`,
			contained: limited("grew by"),
		},
		{
			name: "processor", limits: supervise.Limits{CPU: time.Second}, within: 30 * time.Second,
			script:    `while :; do :; done`,
			contained: func(_ *outside, _ string, e supervise.Exit) bool { return e.Signal != 0 && e.Limit == "" },
		},
	}
}

// TestS12Bombs: each is contained by its limit, nothing of it is left, and a server in the
// runtime's process answers meanwhile.
func TestS12Bombs(t *testing.T) {
	inProfiles(t, func(t *testing.T, profile supervise.Profile) {
		slowest := askMeanwhile(t)
		for _, b := range bombs() {
			t.Run(b.name, func(t *testing.T) {
				o := newOutside(t)
				began := time.Now()

				run := o.begin(confined(t, supervise.Config{Profile: profile, Limits: b.limits}), b.script)
				ctx, cancel := context.WithTimeout(t.Context(), 2*b.within)
				defer cancel()
				out, exit := o.followWith(ctx, run)

				took := time.Since(began)
				if !b.contained(o, out, exit) {
					t.Errorf("it was not contained: %+v, output %.300q", exit, out)
				}
				if took > b.within {
					t.Errorf("it took %v, at most %v is contained", took, b.within)
				}
				o.wantNobody(run)
				t.Logf("%s: %v, exit %d %s", b.name, took.Round(time.Millisecond), exit.Code, exit.Limit)
			})
		}
		const most = 500 * time.Millisecond // S12
		times := slowest()
		p99 := times[len(times)*99/100]
		t.Logf("%s: %d answers, p99 %v, slowest %v", profile, len(times), p99, times[len(times)-1])
		if p99 > most {
			t.Errorf("the server's p99 was %v", p99)
		}
	})
}

// askMeanwhile asks a server of this process again and again, until the returned function is
// called, which returns how long the answers took, the slowest last.
func askMeanwhile(t *testing.T) func() []time.Duration {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(server.Close)
	enough := make(chan struct{})
	var times []time.Duration
	var asking sync.WaitGroup
	asking.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-enough:
				return
			case <-tick.C:
			}
			began := time.Now()
			resp, err := server.Client().Get(server.URL)
			if err != nil {
				t.Error(err)
				return
			}
			_ = resp.Body.Close()
			times = append(times, time.Since(began))
		}
	})
	return func() []time.Duration {
		close(enough)
		asking.Wait()
		slices.Sort(times)
		if len(times) == 0 {
			t.Fatal("the server was never asked")
		}
		return times
	}
}
