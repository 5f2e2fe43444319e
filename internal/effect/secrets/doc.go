// Package secrets keeps secrets out of what is recorded of model responses and calls: the secrets
// of a session, and the arguments that tools declare secret.
//
// It may import the root and tool, of internal: redact and secretargs, and of internal/effect: core
// and toolset.
//
// The one thing to know: what is removed from a record is held in the vault, in memory only. A
// process that continues the session later does not have it.
package secrets

import (
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/toolset"
	"github.com/perdure/perdure/internal/secretargs"
)

// Secrets removes secrets, and gives them back to the calls they belong to.
type Secrets struct {
	core    *core.Core
	toolset *toolset.Toolset
	// Vault holds the secret arguments of the calls of this process, in memory only.
	Vault secretargs.Vault
}

// New returns secrets with an empty vault.
func New(c *core.Core, tools *toolset.Toolset) *Secrets {
	return &Secrets{core: c, toolset: tools}
}
