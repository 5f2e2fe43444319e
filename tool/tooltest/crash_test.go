package tooltest_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/shell"
	"github.com/perdure/perdure/tool/tooltest"
)

func TestMain(m *testing.M) {
	shell.Supervise() // commands of the survivor below
	m.Run()
}

type repo struct {
	Repo string `json:"repo"`
}

// TestCrash kills the runtime around a tool of each class, in both lanes.
func TestCrash(t *testing.T) {
	t.Parallel()
	for _, class := range []perdure.EffectClass{perdure.Pure, perdure.Idempotent, perdure.AtMostOnce} {
		t.Run(string(class), func(t *testing.T) {
			t.Parallel()
			spec := tool.Spec{Name: "build", Description: "Builds a repository.", Class: class}
			build := tool.NewBackground(spec, func(_ context.Context, in repo, _ tool.Env) (map[string]string, error) {
				return map[string]string{"image": in.Repo + ":1"}, nil
			})

			tooltest.Crash(t, build, repo{Repo: "perdure/perdure"})
		})
	}
}

// pay is a tool that can find out whether a payment was made, and that stops with its context.
type pay struct {
	tool.Background
	mu   sync.Mutex
	made map[string]bool // by key; guarded by mu
}

func newPay() *pay {
	p := &pay{made: map[string]bool{}}
	spec := tool.Spec{Name: "pay", Description: "Pays.", Class: perdure.AtMostOnce}
	p.Background = tool.NewBackground(spec, func(ctx context.Context, _ repo, env tool.Env) (map[string]string, error) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.made[env.Call.Key] = true
		return map[string]string{"paid": "yes"}, nil
	})
	return p
}

// Reconcile looks for the payment.
func (p *pay) Reconcile(_ context.Context, call tool.Call, _ tool.Env) (tool.Reconciled, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.made[call.Key] {
		return tool.Reconciled{DidNotHappen: true}, nil
	}
	return tool.Reconciled{Happened: true, Result: tool.Success(map[string]string{"paid": "yes"})}, nil
}

func TestCrashAsksAReconciler(t *testing.T) {
	t.Parallel()
	tooltest.Crash(t, newPay(), repo{Repo: "perdure/perdure"})
}

// TestCrashFindsASurvivor runs a real command, which keeps running without the runtime.
func TestCrashFindsASurvivor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bash, err := shell.New(shell.Config{RunsDir: filepath.Join(dir, "runs"), Dir: dir})
	if err != nil {
		t.Skipf("no commands here: %v", err)
	}
	tooltest.Crash(t, bash, map[string]string{"command": "echo built"})
}
