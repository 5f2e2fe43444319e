package host

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// oneHalted is a store that calls look when the halted sessions are listed, and lists one of a
// session that does not exist.
type oneHalted struct {
	store.Store
	look func() error
}

func (h oneHalted) View(ctx context.Context, fn func(store.Reader) error) error {
	return h.Store.View(ctx, func(r store.Reader) error { return fn(haltedReader{r, h.look}) })
}

type haltedReader struct {
	store.Reader
	look func() error
}

// haltedReaderBudgets overrides a part of one noun.
type haltedReaderBudgets struct {
	store.BudgetReader
	haltedReader
}

func (r haltedReader) Budgets() store.BudgetReader { return haltedReaderBudgets{r.Reader.Budgets(), r} }

func (r haltedReaderBudgets) Halts() ([]store.BudgetHalt, error) {
	return []store.BudgetHalt{{Session: "ses_gone", Budget: "b"}}, r.look()
}

// TestAStopBlamesNoBudget: a beat that is interrupted by the stop of its program logs no warning,
// whether it had started to check or not; a beat that fails by itself does.
func TestAStopBlamesNoBudget(t *testing.T) {
	t.Parallel()
	m, err := scripted.Parse("script.yaml", []byte("steps: [{text: a}]"))
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		before, during bool // when the program stops
		fails          error
		warns          []string
	}{
		"nothing stops":                 {warns: []string{"budget-stopped session not checked"}},
		"the store fails":               {fails: perdure.Unavailable, warns: []string{"budget-stopped sessions not checked"}},
		"it stopped before":             {before: true},
		"it stops as it looks":          {during: true},
		"it stops, and the store fails": {during: true, fails: errors.New("interrupted")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			st := oneHalted{memory.New(memory.Config{}), func() error {
				if c.during {
					stop()
				}
				return c.fails
			}}
			t.Cleanup(func() { st.Close() })
			var log strings.Builder
			e, err := New(t.Context(), Config{
				Store: st, Model: m, Tools: tool.NewRegistry(), Log: slog.New(slog.NewTextHandler(&log, nil)),
			}, NewWorkerID(), idle{})
			if err != nil {
				t.Fatal(err)
			}
			if c.before {
				stop()
			}

			e.ResumeHalted(ctx)

			for _, want := range c.warns {
				if !strings.Contains(log.String(), want) {
					t.Errorf("no %q in %s", want, &log)
				}
			}
			if len(c.warns) == 0 && log.Len() > 0 {
				t.Errorf("the program stops, and it warned: %s", &log)
			}
		})
	}
}
