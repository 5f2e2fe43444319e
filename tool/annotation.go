package tool

import (
	"cmp"

	"github.com/perdure/perdure"
)

// Annotations say in four flags what calls of a tool do, in the terms of the Model Context
// Protocol. People read them, and clients decide by them what to ask before. The runtime itself
// decides by effect class and policy.
type Annotations struct {
	Title       string // for people; never empty
	ReadOnly    bool   // a call changes nothing
	Destructive bool   // a call may remove or replace something; false for a read-only tool
	Idempotent  bool   // another call with the same arguments changes nothing more
	OpenWorld   bool   // a call may reach things outside the session
}

// AnnotationsOf returns the annotations of a tool. A hint decides where it is set. Otherwise a pure
// tool is read-only, a read-only tool is idempotent, a tool of the session only is not open-world,
// and everything else is assumed to be the worse case. The effect class idempotent says less than
// the flag: it is about one call that runs twice under one key, not about two calls.
func AnnotationsOf(s Spec) Annotations {
	h := s.Hints
	a := Annotations{Title: cmp.Or(s.DisplayName, s.Name)}
	a.ReadOnly = flagOr(h.ReadOnly, s.Class == perdure.Pure)
	a.Destructive = !a.ReadOnly && flagOr(h.Destructive, true)
	a.Idempotent = a.ReadOnly || flagOr(h.Idempotent, false)
	a.OpenWorld = flagOr(h.OpenWorld, !s.SessionOnly)
	return a
}

// flagOr returns a hint, or the given value if the hint is not set.
func flagOr(hint *bool, otherwise bool) bool {
	if hint == nil {
		return otherwise
	}
	return *hint
}
