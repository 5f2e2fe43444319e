package effect

import (
	"fmt"
	"runtime/debug"
)

// guarded runs a piece of somebody else's code that no dispatcher carries: a tool's ticket, a file store, a
// model. A panic in it becomes an error, and its stack goes to the log (TL5).
func (e *Effects) guarded(what string, fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			e.cfg.Log.Error("a panic was caught", "in", what, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = fmt.Errorf("%s: panic: %v", what, p)
		}
	}()
	return fn()
}
