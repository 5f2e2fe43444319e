// Package chaos checks the results of a run against the guarantees of Perdure, as invariants over
// journals and an external ledger of effects, which the effects themselves write.
//
// It may import the root and engine. The one thing to know: no check relies on what Perdure says
// about itself. Effects are counted outside of Perdure.
package chaos
