package shell

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/supervise"
	"github.com/perdure/perdure/tool"
)

// TestS11Profile: with one word in Config a command keeps to the working directory, and bash says
// which limit ended it.
func TestS11Profile(t *testing.T) {
	t.Parallel()
	for _, profile := range []supervise.Profile{supervise.ProfileNone, supervise.ProfileWorkspace, supervise.ProfileIsolated} {
		t.Run(string(profile), func(t *testing.T) {
			t.Parallel()
			outside := filepath.Join(t.TempDir(), "file")
			c := Config{RunsDir: t.TempDir(), Dir: t.TempDir(), Profile: profile, Limits: supervise.Limits{DiskBytes: 1 << 20}}
			b, err := New(c)
			if errors.Is(err, supervise.Unenforceable) {
				t.Skipf("S11: this machine refuses the profile, as it should: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}

			r := b.Run(t.Context(), command("mkdir -p sub; echo in > sub/file; cat sub/file; echo out > "+outside+"; true"), tool.Env{})

			if got, ok := r.Value.(answer); !ok || got.Stdout != "in\n" || got.ExitCode != 0 {
				t.Errorf("got %+v", r)
			}
			if _, err := os.Stat(outside); (err == nil) != (profile == supervise.ProfileNone) {
				t.Errorf("a file outside: %v", err)
			}
			box := looked(t, b, command("")).Sandbox
			if box == nil != (profile == supervise.ProfileNone) || box != nil && (box.Profile != string(profile) || len(box.Enforced) == 0 ||
				box.HasNetwork != (profile == supervise.ProfileWorkspace)) {
				t.Errorf("got the sandbox %+v", box)
			}
		})
	}
}

// TestS12LimitIsTold: the model reads why its command is dead.
func TestS12LimitIsTold(t *testing.T) {
	t.Parallel()
	c := Config{RunsDir: t.TempDir(), Dir: t.TempDir(), Profile: supervise.ProfileWorkspace, Limits: supervise.Limits{DiskBytes: 1 << 20}}
	b, err := New(c)
	if errors.Is(err, supervise.Unenforceable) {
		t.Skipf("S12: this machine refuses the profile, as it should: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}

	r := b.Run(t.Context(), command("for i in 1 2 3 4 5 6 7 8; do head -c 1M /dev/zero > f$i; sleep 0.3; done; sleep 60"), tool.Env{})

	got, ok := r.Value.(answer)
	if !ok || got.ExitCode != 137 || !strings.Contains(got.Stderr, "[The command was killed: workspace and scratch folder grew by ") {
		t.Errorf("got %+v", r)
	}
}

// TestProfileIsTheRunners: a profile beside a Runner would confine nothing, so it is refused.
func TestProfileIsTheRunners(t *testing.T) {
	t.Parallel()
	_, err := New(Config{RunsDir: t.TempDir(), Dir: t.TempDir(), Runner: &scripted{}, Profile: supervise.ProfileWorkspace})
	if err == nil || !strings.Contains(err.Error(), "supervise.Config") {
		t.Errorf("New says %v", err)
	}
}
