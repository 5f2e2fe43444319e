package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// TestRetentionFlag reads the retention of ended tasks: negative or invalid values cause the
// default, with a warning (TK16).
func TestRetentionFlag(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Retention{
		"": defaultRetention, "0": 0, "0d": 0, "0s": 0, "1d": Retention(24 * time.Hour), "90d": Retention(90 * 24 * time.Hour),
		"36h": Retention(36 * time.Hour), "65535d": Retention(65535 * 24 * time.Hour),
	} {
		if got, warning := parseRetention(text); got != want || warning != "" {
			t.Errorf("%q is %v, %q; want %v", text, time.Duration(got), warning, time.Duration(want))
		}
	}
	for _, text := range []string{"-1", "-1d", "-5h", "-1ns", "soon", "d", "30", "1.5d", "30 d", "99999999999d", "NaN", "\x00"} {
		got, warning := parseRetention(text)
		if got != defaultRetention || !strings.Contains(warning, "30 days") || strings.ContainsRune(warning, 0) {
			t.Errorf("%q is %v, with the warning %q; want the default, with one", text, time.Duration(got), warning)
		}
	}
}

// TestRetentionIsHandedOver sets the retention by flag and by environment. Only the long-running
// commands use it. It is not parallel: it sets the environment.
func TestRetentionIsHandedOver(t *testing.T) {
	const day = Retention(24 * time.Hour)
	for _, c := range []struct {
		args, env string
		want      Retention
		warns     bool
	}{
		{args: "run hello", want: 30 * day},
		{args: "run --retention 7d hello", env: "9d", want: 7 * day},
		{args: "run hello", env: "9d", want: 9 * day},
		{args: "run --retention=-7d hello", want: 30 * day, warns: true},
		{args: "serve --retention 0", want: 0},
		{args: "serve", env: "rubbish", want: 30 * day, warns: true},
		{args: "task cancel task_00000000000000000000000000000001", env: "9d", want: 0},
	} {
		t.Setenv("PERDURE_TASKS_RETENTION", c.env)
		got, opened := Retention(0), false
		take := func(r Retention) error {
			got, opened = r, true
			return errors.New("seen")
		}
		var said bytes.Buffer
		Main(t.Context(), Dependencies{
			Args: strings.Fields(c.args), Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: &said, DataDir: "/data", Log: quietLog,
			Env:   func(string) string { return "" },
			Open:  func(_ context.Context, o OpenOptions) (Engine, error) { return nil, take(o.Retention) },
			Serve: func(_ context.Context, s ServeOptions) error { return take(s.Retention) },
		})
		if !opened || got != c.want || strings.Contains(said.String(), "invalid retention") != c.warns {
			t.Errorf("%s, %q: opened %t with %v, want %v; it said\n%s", c.args, c.env, opened, time.Duration(got), time.Duration(c.want), said.String())
		}
	}
}
