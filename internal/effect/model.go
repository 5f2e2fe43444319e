package effect

import (
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/generation"
)

// ModelCall returns a model call of this session.
func (d *Drive) ModelCall(c perdure.CallModel) generation.ModelCall {
	return generation.ModelCall{
		Session: d.session, Epoch: d.row.Epoch, Command: c,
		Paused:  d.session.Paused != nil && d.inheritedExec == c.Exec,
		Resumed: d.inheritedExec == c.Exec && !c.NotBefore.After(time.Now()),
	}
}
