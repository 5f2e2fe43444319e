package app

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/pgserver"
	"github.com/perdure/perdure/internal/pgtest"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/postgres"
)

// failing returns the failed checks.
func failing(checks []api.Check) string {
	var wrong []string
	for _, c := range checks {
		if !c.OK {
			wrong = append(wrong, c.Name+": "+c.Detail)
		}
	}
	return strings.Join(wrong, "\n")
}

// TestReadyAsksTheStore: a server whose database is stopped reports that within a few seconds, and
// is ready as soon as the database is back (H12).
func TestReadyAsksTheStore(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Own(t, pgserver.Config{})
	url, err := cluster.Database(t.Context(), func(url string) error {
		st, err := postgres.Open(t.Context(), postgres.Config{URL: url})
		if err == nil {
			err = st.Close()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	st, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	d := newAPIServer(nil, st, t.TempDir(), slog.New(slog.DiscardHandler))
	d.readiness.cacheTime = 0

	before := d.checks(t.Context())
	if err := cluster.Stop(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	away := failing(d.checks(t.Context()))
	took := time.Since(began)
	if err := cluster.Start(); err != nil {
		t.Fatal(err)
	}
	back := d.checks(t.Context())
	for deadline := time.Now().Add(30 * time.Second); failing(back) != "" && time.Now().Before(deadline); {
		back = d.checks(t.Context())
	}

	if failing(before) != "" || failing(back) != "" || len(before) != 4 {
		t.Errorf("before %+v, back %+v", before, back)
	}
	if !strings.Contains(away, "store: ") || strings.Contains(away, "postgres") || took > readinessTimeout+5*time.Second {
		t.Errorf("after %s: %q", took, away)
	}
}

// odd is a store whose views have another clock and schema.
type odd struct {
	store.Store
	lag    time.Duration
	schema int64
	views  atomic.Int64
}

type oddReader struct {
	store.Reader
	odd *odd
}

func (o *odd) View(ctx context.Context, fn func(store.Reader) error) error {
	o.views.Add(1)
	return o.Store.View(ctx, func(r store.Reader) error { return fn(oddReader{Reader: r, odd: o}) })
}

func (r oddReader) Now() time.Time { return r.Reader.Now().Add(-r.odd.lag) }

func (r oddReader) Schema() (stored, known int64, err error) { return r.odd.schema, 20, nil }

// TestReadyNamesWhatIsWrong: a clock that differs from the store's, and another schema version, are
// named; the store is read only now and then, independent of the number of requests.
func TestReadyNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	st := &odd{Store: memory.New(memory.Config{}), schema: 20}
	d := newAPIServer(nil, st, t.TempDir(), slog.New(slog.DiscardHandler))
	d.readiness.cacheTime = time.Hour

	for range 100 {
		if wrong := failing(d.checks(t.Context())); wrong != "" {
			t.Fatal(wrong)
		}
	}
	looks := st.views.Load()
	d.readiness.cacheTime = 0
	st.lag = time.Hour
	late := failing(d.checks(t.Context()))
	st.lag, st.schema = 0, 21
	newer := failing(d.checks(t.Context()))

	if looks != 1 {
		t.Errorf("100 requests looked %d times", looks)
	}
	if !strings.HasPrefix(late, "clock: ") || strings.Contains(late, "\n") {
		t.Errorf("an hour late: %q", late)
	}
	if !strings.HasPrefix(newer, "migrations: ") || !strings.Contains(newer, "21") || strings.Contains(newer, "\n") {
		t.Errorf("a newer schema: %q", newer)
	}
}
