package tooltest_test

import (
	"context"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/tooltest"
)

type repo struct {
	Repo string `json:"repo"`
}

// TestCrash kills the runtime around a tool of each class.
func TestCrash(t *testing.T) {
	t.Parallel()
	for _, class := range []perdure.EffectClass{perdure.Pure, perdure.Idempotent, perdure.AtMostOnce} {
		t.Run(string(class), func(t *testing.T) {
			t.Parallel()
			spec := tool.Spec{Name: "build", Description: "Builds a repository.", Class: class}
			build := tool.New(spec, func(_ context.Context, in repo, _ tool.Env) (map[string]string, error) {
				return map[string]string{"image": in.Repo + ":1"}, nil
			})

			tooltest.Crash(t, build, repo{Repo: "perdure/perdure"})
		})
	}
}
