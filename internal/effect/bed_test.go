package effect

import (
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/effecttest"
	"github.com/perdure/perdure/tool"
)

// bed is effects over an empty store, with a session in it.
func bed(t *testing.T, change func(*core.Config), tools ...tool.Tool) (*Effects, perdure.SessionID) {
	t.Helper()
	cfg := effecttest.Config(t, tools...)
	if change != nil {
		change(&cfg)
	}
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e, effecttest.Session(t, cfg.Store)
}
