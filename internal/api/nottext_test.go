package api_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/api"
)

// textEngine is over a database that takes nothing but text, as Postgres is.
type textEngine struct{ engine.Engine }

// textEngineSessions implements engine.Sessions for textEngine.
type textEngineSessions struct {
	engine.Sessions
	textEngine
}

// Sessions implements engine.Engine.
func (e textEngine) Sessions() engine.Sessions { return textEngineSessions{e.Engine.Sessions(), e} }

func (e textEngineSessions) Get(ctx context.Context, id perdure.SessionID) (engine.Session, error) {
	if !utf8.ValidString(string(id)) || strings.Contains(string(id), "\x00") {
		return engine.Session{}, errors.New("ERROR: invalid byte sequence for encoding (SQLSTATE 22021)")
	}
	return e.Engine.Sessions().Get(ctx, id)
}

// TestNotText: input that is not valid text refers to nothing, whatever the store; the store is not
// read.
func TestNotText(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *api.Config) { c.Engine = textEngine{c.Engine} })
	for _, path := range []string{"/v1/sessions/%00", "/v1/sessions/session_%ff", "/v1/sessions/none"} {
		r.refusal(r.do(get(path)), 404, "not_found")
	}
	for _, path := range []string{"/v1/tasks?session=%00", "/v1/tasks?tool=%ff"} {
		r.refusal(r.do(get(path)), 400, "invalid")
	}
}
