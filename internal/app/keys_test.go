package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/faulty"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
)

func keysOver(st store.Store) *keys { return &keys{store: st, log: slog.New(slog.DiscardHandler)} }

// asked is a request as the API passes it, with its own seed.
func asked(key string, seed byte) api.Request {
	return api.Request{Scope: "user POST /v1/sessions", Key: key, Hash: "hash", Seed: [32]byte{seed}}
}

func answered(r api.Request, body string) api.Request {
	r.Status, r.ContentType, r.Location, r.Body = 201, "application/json", "/v1/sessions/1", []byte(body)
	return r
}

func beginKey(t *testing.T, k *keys, r api.Request) api.Request {
	t.Helper()
	known, err := k.Begin(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return known
}

func TestR15Keys(t *testing.T) {
	t.Parallel()
	cfg := sqlite.Config{Dir: t.TempDir()}
	reopen := func(old *sqlite.Store) *sqlite.Store {
		if old != nil {
			if err := old.Close(); err != nil {
				t.Fatal(err)
			}
		}
		st, err := sqlite.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		return st
	}
	st := reopen(nil)

	first := beginKey(t, keysOver(st), asked("key", 1))
	want := asked("key", 1)
	want.At = first.At
	if diff := cmp.Diff(want, first); diff != "" || first.At.IsZero() {
		t.Errorf("a new request at %v (-want +got):\n%s", first.At, diff)
	}

	st = reopen(st) // without a response: it is carried out again, with the same seed and time
	if diff := cmp.Diff(first, beginKey(t, keysOver(st), asked("key", 2))); diff != "" {
		t.Errorf("without an answer (-want +got):\n%s", diff)
	}
	done := answered(first, "answer \x00\xff")
	if err := keysOver(st).End(t.Context(), done); err != nil {
		t.Fatal(err)
	}
	if err := keysOver(st).End(t.Context(), answered(first, "another answer")); err != nil {
		t.Fatal(err)
	}

	st = reopen(st)
	if diff := cmp.Diff(done, beginKey(t, keysOver(st), asked("key", 3))); diff != "" {
		t.Errorf("with an answer (-want +got):\n%s", diff)
	}
	reused := asked("key", 4)
	reused.Hash = "another"
	if _, err := keysOver(st).Begin(t.Context(), reused); !errors.Is(err, api.KeyReused) {
		t.Errorf("got error %v, want %v", err, api.KeyReused)
	}
	if err := keysOver(st).End(t.Context(), answered(asked("never begun", 5), "lost")); !errors.Is(err, perdure.NotFound) {
		t.Errorf("got error %v, want %v", err, perdure.NotFound)
	}
}

// Begin or End fails, before or after it was committed. A repeated request has the same seed and
// the same response.
func TestR15KeysWhoseOutcomeIsInDoubt(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name     string
		n        int // number of the transaction: 1 begins, 2 ends
		act      faulty.Act
		wantSeed byte
		wantBody string
	}{
		{"not begun", 1, faulty.Fail, 2, ""},
		{"begun", 1, faulty.DoAndTimeout, 1, ""},
		{"not ended", 2, faulty.Fail, 1, ""},
		{"ended", 2, faulty.DoAndTimeout, 1, "first"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := keysOver(faulty.New(memory.New(memory.Config{}), faulty.Nth("InTx", c.n, faulty.Fault{Act: c.act})))

			known, err := k.Begin(t.Context(), asked("key", 1))
			if (err != nil) != (c.n == 1) {
				t.Fatalf("begin: got error %v", err)
			}
			if err == nil {
				if err := k.End(t.Context(), answered(known, "first")); !errors.Is(err, perdure.Unavailable) {
					t.Fatalf("end: got error %v, want %v", err, perdure.Unavailable)
				}
			}

			again := beginKey(t, k, asked("key", 2))
			if again.Seed[0] != c.wantSeed || string(again.Body) != c.wantBody || (again.Status != 0) != (c.wantBody != "") {
				t.Errorf("got seed %d, status %d and body %q, want seed %d and body %q", again.Seed[0], again.Status, again.Body, c.wantSeed, c.wantBody)
			}
			if err := k.End(t.Context(), answered(again, "second")); err != nil {
				t.Fatal(err)
			}
			want := c.wantBody
			if want == "" {
				want = "second"
			}
			if got := string(beginKey(t, k, asked("key", 3)).Body); got != want {
				t.Errorf("got the answer %q, want %q", got, want)
			}
		})
	}
}

// remember begins n requests in one transaction.
func remember(t *testing.T, st store.Store, prefix string, n int) {
	t.Helper()
	err := st.InTx(t.Context(), func(tx store.Tx) error {
		for i := range n {
			if err := tx.Requests().Begin(store.Request{Scope: "scope", Key: fmt.Sprint(prefix, i)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// stillKnown counts the requests of remember that still exist.
func stillKnown(t *testing.T, st store.Store, prefix string, n int) (count int) {
	t.Helper()
	err := st.View(t.Context(), func(r store.Reader) error {
		count = 0
		for i := range n {
			_, err := r.Requests().Get("scope", fmt.Sprint(prefix, i))
			switch {
			case err == nil:
				count++
			case !errors.Is(err, perdure.NotFound):
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return count
}

func TestKeysPrune(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 499, 500, 501, 1_200} {
		synctest.Test(t, func(t *testing.T) {
			st := faulty.New(memory.New(memory.Config{}), faulty.Plan{})
			remember(t, st, "old", n)
			<-time.After(time.Microsecond)
			remember(t, st, "young", 3)
			<-time.After(24 * time.Hour)

			gone, err := keysOver(st).prune(t.Context())

			if err != nil || gone != n || stillKnown(t, st, "old", n) != 0 {
				t.Errorf("got %d gone and error %v, want %d", gone, err, n)
			}
			if got := stillKnown(t, st, "young", 3); got != 3 {
				t.Errorf("%d of 3 are left that are a day old to the microsecond", got)
			}
			if got, want := st.Count("Requests.Prune"), n/500+1; got != want {
				t.Errorf("got %d batches, want %d", got, want)
			}
		})
	}
}

func TestKeysRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// The second run fails, and Run continues.
		st := faulty.New(memory.New(memory.Config{}), faulty.Nth("Requests.Prune", 2, faulty.Fault{Act: faulty.Fail}))
		var log bytes.Buffer
		k := &keys{store: st, log: slog.New(slog.NewTextHandler(&log, nil))}
		remember(t, st, "before", 2)
		<-time.After(24*time.Hour + time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)

		go func() { done <- k.Run(ctx) }()
		synctest.Wait()
		if got := stillKnown(t, st, "before", 2); got != 0 {
			t.Errorf("%d are left after the start, want none", got)
		}
		remember(t, st, "after", 2)
		for hour := 1; hour <= 26; hour++ {
			<-time.After(time.Hour)
			synctest.Wait()
			want := 2
			if hour > 24 { // at 24 they are exactly a day old
				want = 0
			}
			if got := stillKnown(t, st, "after", 2); got != want || st.Count("Requests.Prune") != hour+1 {
				t.Errorf("hour %d: got %d left after %d times, want %d", hour, got, st.Count("Requests.Prune"), want)
			}
		}
		if !bytes.Contains(log.Bytes(), []byte("deleting expired idempotency keys failed")) {
			t.Errorf("got log %q, want the failure in it", log.String())
		}

		cancel()
		if err := <-done; err != nil {
			t.Errorf("got error %v from the end of ctx, want none", err)
		}
	})
}

func TestKeysRunEndsWithABrokenStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := faulty.New(memory.New(memory.Config{}), faulty.Nth("Requests.Prune", 1, faulty.Fault{Act: faulty.Fail, Kind: perdure.Storage}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()

		err := keysOver(st).Run(ctx)

		if !errors.Is(err, perdure.Storage) || ctx.Err() != nil {
			t.Errorf("got error %v, want %v at once", err, perdure.Storage)
		}
	})
}
