// Package cleanup prunes ended tasks, and removes what pruned tasks and the calls of removed
// sessions left outside their rows.
//
// It may import the root, store and tool, and of internal/effect: core and toolset.
//
// The one thing to know: the commit that removes rows writes a note of what they left. The note is
// removed last, so a crash leaves nothing behind unnoticed.
package cleanup

import (
	"sync"

	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/toolset"
)

// Cleanup prunes tasks and cleans up after them.
type Cleanup struct {
	core     *core.Core
	toolset  *toolset.Toolset
	cleaning sync.Map // the notes that are being cleaned in this process: claim path to true
}

// New returns the cleanup of a configuration.
func New(c *core.Core, tools *toolset.Toolset) *Cleanup {
	return &Cleanup{core: c, toolset: tools}
}
