package supervise

import "github.com/perdure/perdure/internal/sandbox"

// WithoutView makes l behave as on a machine that permits no mount namespace.
func (l *Local) WithoutView() { l.view = sandbox.NoView }

// HasView reports whether commands under the profile workspace have their own file system here.
func (l *Local) HasView() bool { return l.view != sandbox.NoView }
