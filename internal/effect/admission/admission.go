// Package admission decides about a call before it is claimed: whether it may run, in which lane,
// and whether a person is asked first.
//
// It may import the root, dispatch, store and tool, of internal: secretargs and strictjson, and of
// internal/effect: core, secrets and toolset.
//
// The one thing to know: hooks see a call before policies do, and policies see the call as hooks
// rewrote it. What is decided is recorded with the response of the model, before any call starts.
package admission

import (
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/secrets"
	"github.com/perdure/perdure/internal/effect/toolset"
)

// Admission decides about calls.
type Admission struct {
	core    *core.Core
	toolset *toolset.Toolset
	secrets *secrets.Secrets
}

// New returns the admission of a configuration.
func New(c *core.Core, tools *toolset.Toolset, sec *secrets.Secrets) *Admission {
	return &Admission{core: c, toolset: tools, secrets: sec}
}
