package sessionsql_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sessionsql"
	"github.com/perdure/perdure/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const owner = perdure.SessionID("session_01")

// open opens a store in a directory of its own.
func open(t *testing.T, cfg sessionsql.Config) *sessionsql.Store {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	s, err := sessionsql.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// sqlOf is the databases of a session in a store of its own.
func sqlOf(t *testing.T) tool.SQL {
	t.Helper()
	return open(t, sessionsql.Config{}).For(owner)
}

func text(s string, args ...any) tool.SQLStatement { return tool.SQLStatement{Text: s, Args: args} }

// run executes statements that must succeed, and returns the result of the last one.
func run(t *testing.T, db tool.SQL, statements ...string) (done tool.SQLResult) {
	t.Helper()
	for _, s := range statements {
		var err error
		if done, err = db.Execute(t.Context(), text(s)); err != nil {
			t.Fatalf("%.200s: %v", s, err)
		}
	}
	return done
}

// ask runs a query that must succeed.
func ask(t *testing.T, db tool.SQL, s string, args ...any) tool.SQLRows {
	t.Helper()
	found, err := db.Query(t.Context(), text(s, args...))
	if err != nil {
		t.Fatalf("%.200s: %v", s, err)
	}
	return found
}

// one is the only value of a query's only row.
func one(t *testing.T, db tool.SQL, s string, args ...any) any {
	t.Helper()
	found := ask(t, db, s, args...)
	if len(found.Rows) != 1 || len(found.Rows[0]) != 1 {
		t.Fatalf("%.200s: got %v, want one value", s, found.Rows)
	}
	return found.Rows[0][0]
}

// refused wants an error of a kind whose text contains a text.
func refused(t *testing.T, err error, kind perdure.Kind, words string) {
	t.Helper()
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), words) {
		t.Errorf("got %v, want %v with %q", err, kind, words)
	}
}

// both are the two ways to run a statement.
func both(db tool.SQL) map[string]func(context.Context, tool.SQLStatement) error {
	return map[string]func(context.Context, tool.SQLStatement) error{
		"query":   func(ctx context.Context, s tool.SQLStatement) error { _, err := db.Query(ctx, s); return err },
		"execute": func(ctx context.Context, s tool.SQLStatement) error { _, err := db.Execute(ctx, s); return err },
	}
}
