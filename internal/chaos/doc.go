// Package chaos checks what a run left behind against the promises: invariants over journals and an outside
// ledger of effects, which the effects themselves wrote.
//
// It may import the root and engine. The one thing to know: nothing here asks Perdure whether Perdure was
// right. What happened outside is counted outside.
package chaos
