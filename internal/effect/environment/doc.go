// Package environment is what running work reaches: the files of its session, the network, and the
// ports of tool.Env. It also runs work with its secrets masked, and writes what a result is too
// large for.
//
// It may import the root, store and tool, of internal: redact, secretargs and sessionfile, and of
// internal/effect: core, secrets and toolset.
//
// The one thing to know: every change of a file and every denied request is recorded in the
// journal, with secrets masked.
package environment

import (
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/secrets"
	"github.com/perdure/perdure/internal/effect/toolset"
)

// Environment gives work what it reaches.
type Environment struct {
	core    *core.Core
	toolset *toolset.Toolset
	secrets *secrets.Secrets
	ports   Ports
}

// New returns an environment whose work reaches other work through ports.
func New(c *core.Core, tools *toolset.Toolset, sec *secrets.Secrets, ports Ports) *Environment {
	return &Environment{core: c, toolset: tools, secrets: sec, ports: ports}
}
